/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What cores leave behind. A core has no file system once it serves, so that its socket and its lock
 * (hv-core/main/socket.h) are still there when it has ended, however it did.
 *
 * Who has a pool's lock is the only one that touches its files: the core for as long as it lives, or who
 * sweeps for a moment. A lock that was removed is nobody's: a core that has locked such a one makes
 * another.
 */
#pragma once

#include <glib.h>

/**
 * Remove the files of all pools whose core has ended.
 *
 * Returns how many pools have a core still.
 * Context: any thread; does not wait.
 */
guint lodge_core_sweep(void);

/**
 * The same for one pool.
 *
 * Returns FALSE when it is proven that it has no core: nobody has its lock. TRUE while it has one, and
 * when that cannot be found out, as without a file descriptor.
 */
gboolean lodge_core_sweep_pool(const char *pool);

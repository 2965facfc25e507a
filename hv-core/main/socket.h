/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The pool's socket in the file system, and that there is one core of a pool:
 *
 *     $XDG_RUNTIME_DIR/lodge/              of the user, and nobody else's to enter; root without the
 *                                          variable has /run/lodge
 *                     core-POOL.lock       locked for as long as the core lives; removed by others
 *                                          only who have locked it
 *                     core-POOL.sock       what an earlier core has left there is replaced
 */
#pragma once

#include <hv/compiler.h>

/**
 * Make directory, lock and socket, and listen. Both descriptors stay open until the process ends.
 *
 * Returns the socket; or -1 when the reason was written (hv_options_complain()), in one line.
 */
HV_MUST_CHECK int hv_socket_open(const char *pool);

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A systemd scope for a core: what ends its starter's unit, or its starter's session, does not end it.
 */
#pragma once

#include <glib.h>

/**
 * Ask the user's systemd for a scope of its own for a process: lodge-core-POOL-PID.scope, which goes with
 * its last process. Where there is no such manager, nothing is done, which is no failure.
 *
 * The manager is asked on the bus of $DBUS_SESSION_BUS_ADDRESS, else on $XDG_RUNTIME_DIR/bus; nothing is
 * started for that.
 *
 * @pool  as in lodge_core_launch_path(): valid in a unit's name.
 *
 * Returns FALSE with LODGE_ERROR_FAILED when the manager refuses, or has not answered within two seconds.
 * Context: any thread; waits as long.
 * Source: org.freedesktop.systemd1(5), StartTransientUnit(); decisions D16.
 */
gboolean lodge_core_scope_start(const char *pool, GPid pid, GError **error);

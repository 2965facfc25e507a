/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Finding a pool's lodge-core, or starting it.
 *
 * The core is nobody's child, in a session of its own and, where there is systemd, in a scope of its own:
 * it stays when its starter goes, and is found again by its socket. Of two who start one at the same time one finds that the other's runs already,
 * and uses that.
 */
#pragma once

#include "wire/core-client.h"

typedef struct {
    const char *pool;     /* NULL: "default" */
    guint64 memory_bytes; /* of a core that is started; a multiple of 2 MiB; 0: all of the host's */
    guint workers;        /* the same; 0: one for each of the host's CPUs */
    guint linger_s;       /* the same: how long it stays without machines and controller */
} LodgeCoreLaunch;

/** Where the pool's socket is: $XDG_RUNTIME_DIR/lodge/core-POOL.sock. Free with g_free(). */
char *lodge_core_launch_path(const LodgeCoreLaunch *launch);

/**
 * Connect to the pool's core and take its lease, after starting one when there is none.
 *
 * The program is $LODGE_CORE; else the one beside our own program, installed or built with it; else the
 * installed one.
 *
 * Returns as lodge_core_client_connect(); an error says why the core could not be started, in its own
 * words. None is started beside one of another version: LODGE_ERROR_VERSION names the pool, the versions
 * and what to do.
 */
struct hv_core *lodge_core_launch_open(const LodgeCoreLaunch *launch, const LodgeCoreEvents *events,
                                       gpointer user_data, GError **error);

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * virtlodged: what its parts share.
 *
 *     main thread: sockets, streams, timers        workers: calls        lookers: machines that ended
 */
#pragma once

#include "config/host-info.h"
#include "daemon/event-hub.h"
#include "daemon/fd-groups.h"
#include "daemon/machines.h"

typedef struct {
    /* Set at creation. */
    LodgeDomainStore *store;
    LodgeLiveStore *live;
    LodgeEventHub *hub;
    LodgeFdGroups *fds;
    LodgeMachines *machines;
    LodgeHostInfo *host;
    char *emulator;       /* what <emulator> is for clients: this program's path */
    GThreadPool *workers; /* of LodgeCall */
    /* Main thread alone. */
    GMainLoop *loop;
    GPtrArray *clients; /* of LodgeClient */
    guint timeout_s;    /* 0: none. Without clients and machines for so long, the daemon ends */
    guint idle_source;
} LodgeDaemon;

/** Main thread: a client has come or gone, or a second has passed. */
void lodge_daemon_look_idle(LodgeDaemon *daemon);

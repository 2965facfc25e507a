/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the files that keep the machines share. */
#pragma once

#include "daemon/machine-private.h"

struct _LodgeMachines {
    /* Set at creation. */
    LodgeDomainStore *store;
    LodgeLiveStore *live;
    LodgeEventHub *hub;
    LodgeFdGroups *fds;
    GThreadPool *lookers; /* at machines that may have ended */
    /* Held by who changes who there is, a name, or what is on disk; taken in jobs. */
    GMutex changing;
    /* Guarded by changing. */
    LodgeCore *shared;
    gboolean stopping;
    GPtrArray *missing; /* of LodgeLiveRecord: machines that may run, and were not found */
    GMutex mutex;
    /* Guarded by mutex. */
    GPtrArray *all; /* of LodgeMachine, by name: names change under both */
    guint sweeper;  /* a timer; 0: no core has been left */
    /* Atomic. */
    gint last_id;
};

/** With `changing` held, or before others see any. A reference is taken. */
void lodge_machines_add(LodgeMachines *machines, LodgeMachine *machine);
/** With `changing` held, in a job. @config: moved; it has another name than the one before. */
void lodge_machines_set_renamed(LodgeMachines *machines, LodgeMachine *machine,
                                LodgeDomainConfig *config);

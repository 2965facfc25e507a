/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the files of machines share. */
#pragma once

#include "daemon/event-hub.h"
#include "daemon/machine.h"
#include "daemon/machines.h"

struct _LodgeMachine {
    gatomicrefcount references;
    /* Set at creation. */
    LodgeMachines *machines;
    GMutex mutex;
    GCond idle;
    /* Guarded by mutex; changed only in a job. */
    LodgeDomainConfig *config; /* the stored one; of a transient machine, what it was made of */
    LodgeDomainConfig *live;   /* what the instance runs by; NULL when there is none */
    LodgeInstance *instance;
    int id; /* -1: no instance */
    int state, reason;
    gboolean persistent, autostart;
    gboolean gone; /* no longer among the machines */
    /* Guarded by mutex. */
    gboolean busy; /* a job is under way */
    /* In a job alone. */
    gboolean again; /* the next power-off is a reboot */
};

/** @config: moved. */
LodgeMachine *lodge_machine_new(LodgeMachines *machines, LodgeDomainConfig *config,
                                gboolean persistent);

/** Take one's turn. FALSE with an error when it is gone, or others take too long. */
gboolean lodge_machine_begin(LodgeMachine *machine, GError **error);
void lodge_machine_end(LodgeMachine *machine);

/** In a job, or with the mutex: refuse for it does not run, or has no stored definition. Returns FALSE. */
gboolean lodge_machine_refuse_idle(const LodgeMachine *machine, GError **error);
gboolean lodge_machine_refuse_transient(const LodgeMachine *machine, GError **error);

/** In a job. */
void lodge_machine_set_state(LodgeMachine *machine, int state, int reason);
/** In a job, or before others see it. */
void lodge_machine_tell(LodgeMachine *machine, int event, int detail);

/** Its instance may have ended: see, and do what that means. Takes its turn, so it may wait. */
void lodge_machine_look(LodgeMachine *machine, LodgeInstance *instance);
/**
 * Before others see it: it runs, since an earlier daemon.
 *
 * @instance  moved.
 * @live      moved: what it runs by.
 */
void lodge_machine_adopt(LodgeMachine *machine, LodgeInstance *instance, LodgeDomainConfig *live,
                         int id);

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * All machines, by UUID, name and id, and their definitions on disk. What changes who there is, or
 * what is on disk, happens one after the other; looking never waits for that.
 *
 * Order of waiting: a machine's job, then changes here, then its mutex. Any thread.
 */
#pragma once

#include "config/domain-store.h"
#include "daemon/event-hub.h"
#include "daemon/fd-groups.h"
#include "daemon/live-store.h"
#include "daemon/machine.h"

typedef struct _LodgeMachines LodgeMachines;

/**
 * @store  borrowed.
 * @live   borrowed.
 * @hub    borrowed.
 * @fds    borrowed.
 */
LodgeMachines *lodge_machines_new(LodgeDomainStore *store, LodgeLiveStore *live, LodgeEventHub *hub,
                                  LodgeFdGroups *fds);
/** When it has been left. */
void lodge_machines_free(LodgeMachines *machines);

/**
 * Read what is stored, and take over what runs. What is no machine is told on the log, with the file.
 */
gboolean lodge_machines_load(LodgeMachines *machines, GError **error);
/** From now on nothing starts, and no end is seen: what runs goes on, for the next daemon. */
void lodge_machines_leave(LodgeMachines *machines);

/** Each returns a reference, or NULL with VIR_ERR_NO_DOMAIN. */
LodgeMachine *lodge_machines_find(LodgeMachines *machines, const lv_domain *dom, GError **error);
LodgeMachine *lodge_machines_find_uuid(LodgeMachines *machines, const char *uuid, GError **error);
LodgeMachine *lodge_machines_find_name(LodgeMachines *machines, const char *name, GError **error);
LodgeMachine *lodge_machines_find_id(LodgeMachines *machines, int id, GError **error);

/** All of them, by name; a reference each. */
GPtrArray *lodge_machines_list(LodgeMachines *machines);
guint lodge_machines_count_active(LodgeMachines *machines);

/** Define, or define anew. @config: moved. Returns the machine, with a reference. */
LodgeMachine *lodge_machines_define(LodgeMachines *machines, LodgeDomainConfig *config,
                                    GError **error);
/** Make a machine that is gone when it ends, and start it. @config: moved. */
LodgeMachine *lodge_machines_create(LodgeMachines *machines, LodgeDomainConfig *config,
                                    gboolean paused, GError **error);
gboolean lodge_machine_undefine(LodgeMachine *machine, GError **error);
gboolean lodge_machine_rename(LodgeMachine *machine, const char *name, GError **error);
gboolean lodge_machine_set_autostart(LodgeMachine *machine, gboolean on, GError **error);

/** Change a definition's fields. Called in a job. */
typedef gboolean LodgeMachineEdit(LodgeDomainConfig *config, gpointer user_data, GError **error);
/** Let an instance run by a definition that was changed. Called in a job. */
typedef gboolean LodgeMachineApply(LodgeInstance *instance, const LodgeDomainConfig *config,
                                   GError **error);

typedef struct {
    gboolean live, stored; /* what is changed: what the instance runs by, what is on disk */
    LodgeMachineEdit *edit;
    LodgeMachineApply *apply; /* with `live`; NULL: nothing is to be done */
    gpointer user_data;
} LodgeMachineChange;

/** Change definitions: both that are asked for, or none. */
gboolean lodge_machine_change(LodgeMachine *machine, const LodgeMachineChange *change,
                              GError **error);

/**
 * In a job: no machine of that UUID or name runs that an earlier daemon started and this one did not find.
 *
 * Returns FALSE with VIR_ERR_OPERATION_FAILED naming the machine, the core's pool and what to do, as long
 * as that core may live.
 */
gboolean lodge_machines_check_missing(LodgeMachines *machines, const LodgeDomainConfig *config,
                                      GError **error);
/** The core for an instance by this definition, with a reference. */
LodgeCore *lodge_machines_get_core(LodgeMachines *machines, const LodgeDomainConfig *config,
                                   GError **error);
/** A machine's own core was left, and ends: what it leaves behind goes soon after. */
void lodge_machines_sweep(LodgeMachines *machines);
/** A number for an instance: each is new. */
int lodge_machines_next_id(LodgeMachines *machines);
/** In a job: its end, whenever that is, will be seen. */
void lodge_machines_watch(LodgeMachine *machine, LodgeInstance *instance);
/** What an instance runs by is known to the daemon after this one, until it is forgotten. */
gboolean lodge_machines_remember(LodgeMachines *machines, int id, const LodgeDomainConfig *live,
                                 GError **error);
void lodge_machines_forget(LodgeMachines *machines, int id);
/** In a job: a transient machine has ended. */
void lodge_machines_remove(LodgeMachines *machines, LodgeMachine *machine);
LodgeEventHub *lodge_machines_get_hub(LodgeMachines *machines);
LodgeFdGroups *lodge_machines_get_fds(LodgeMachines *machines);

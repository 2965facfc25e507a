/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What can be done to machines, and to which of them. */
#pragma once

#include "app/model/connection-item.h"
#include "app/model/job.h"

typedef enum {
    LODGE_VERB_START,
    LODGE_VERB_SHUT_DOWN,
    LODGE_VERB_PAUSE,
    LODGE_VERB_RESUME,
    LODGE_VERB_RESET,
    LODGE_VERB_FORCE_OFF,
    LODGE_VERB_DELETE, /* in every state that is known; the last */
} LodgeMachineVerb;

#define LODGE_MACHINE_VERBS (LODGE_VERB_DELETE + 1)

/** "start": as in the name of the action "machines.start". */
const char *lodge_machine_verb_name(LodgeMachineVerb verb);
/** "Start": on a button, translated. */
const char *lodge_machine_verb_label(LodgeMachineVerb verb);
/** Can it be done to a machine in that virDomainState? */
gboolean lodge_machine_verb_fits(LodgeMachineVerb verb, int state);
/** How many of LodgeMachineItem it can be done to. */
guint lodge_machine_verb_count(LodgeMachineVerb verb, GPtrArray *machines);

/**
 * A job, not yet run, on those of the machines that it can be done to; its title says how many of how
 * many they are. A hidden machine that it fails for is shown again.
 *
 * @machines  LodgeMachineItem, borrowed.
 *
 * Returns NULL when it fits none.
 */
LodgeJob *lodge_machine_verb_job(LodgeMachineVerb verb, GPtrArray *machines);

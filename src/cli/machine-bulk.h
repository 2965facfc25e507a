/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the verbs have in common that do one thing to many machines that exist. */
#pragma once

#include "cli/bulk.h"
#include "cli/machines.h"
#include "cli/verb-options.h"

typedef struct {
    LodgeVerbHelp help;
    LodgeBulkVerb bulk; /* act() is given LodgeMachines; label() is not used */
    const GOptionEntry *own;
    /**
     * Before anything is done: check the verb's own options, ask the person. May be NULL.
     *
     * @json  a program reads what is printed.
     *
     * Returns FALSE to leave it all; without an error that is no failure.
     */
    gboolean (*prepare)(virConnectPtr connection, GPtrArray *machines, gboolean json,
                        gpointer user_data, GError **error);
    gpointer user_data; /* for prepare and act */
} LodgeMachineBulk;

/** Parse, connect, choose, prepare, do. Returns the verb's exit status; has printed its error. */
int lodge_machine_bulk_run(const LodgeMachineBulk *verb, int argc, char **argv);

typedef enum {
    LODGE_WISH_RUNNING,
    LODGE_WISH_OFF, /* or gone */
} LodgeWish;

/** Look at the machine now: not when it was listed. */
gboolean lodge_machine_bulk_is(const LodgeMachine *machine, LodgeWish wish);

/**
 * What a call that failed means for the machine, by the thread's error and by a look at the machine.
 *
 * @context  "cannot be started": begins the error.
 * @instead  "is running": said when it is as wished all the same, since somebody else was faster.
 *
 * Returns LODGE_BULK_FAILED or LODGE_BULK_NOT_NEEDED.
 */
LodgeBulkOutcome lodge_machine_bulk_judge(const LodgeMachine *machine, LodgeWish wish,
                                          const char *context, const char *instead, GError **error);
/** Returns LODGE_BULK_NOT_NEEDED, with @why. */
LodgeBulkOutcome lodge_machine_bulk_spare(const char *why, GError **error);

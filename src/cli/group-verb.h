/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A verb that shows one group of the machines' statistics, such as their timers. */
#pragma once

#include "cli/stats.h"
#include "cli/verb-options.h"

typedef struct {
    LodgeVerbHelp help;
    const char *group;          /* "timer" */
    const char *lacking;        /* what a connection says that has none of it, marked by N_() */
    const LodgeColumn *columns; /* as lodge_stats_add_group() takes them */
    guint count;
    guint order; /* the column that comes with its greatest first; 0: as they are */
} LodgeGroupVerb;

/** Returns the verb's exit status; has printed its error. */
int lodge_group_verb_run(const LodgeGroupVerb *verb, int argc, char **argv);

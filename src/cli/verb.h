/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One verb of lodgectl a file; the table of them stands in lodgectl.c. */
#pragma once

#include <glib.h>

/* Exit statuses, documented in lodgectl(1). From 3 on but LODGE_EXIT_SIGNAL only `run` has them. */
typedef enum {
    LODGE_EXIT_OK = 0,
    LODGE_EXIT_FAILED = 1, /* our own failure, or the host's */
    LODGE_EXIT_BAD_INPUT = 2,
    LODGE_EXIT_CRASH = 3, /* triple fault, or the engine gave up */
    LODGE_EXIT_TIMEOUT = 4,
    LODGE_EXIT_HALTED = 5,   /* all vCPUs wait with interrupts off */
    LODGE_EXIT_DEBUG = 32,   /* plus the low 5 bits written to the debug-exit port */
    LODGE_EXIT_LEFT = 130,   /* Ctrl-A X */
    LODGE_EXIT_SIGNAL = 128, /* plus the signal's number */
} LodgeExit;

typedef struct {
    const char *name;
    const char *summary;
    /** @argv[0] is the verb. Returns an exit status; has printed its error. */
    int (*run)(int argc, char **argv);
} LodgeVerb;

/** Print "lodgectl: message" on stderr and return the exit status that fits the error's code. */
int lodge_verb_fail(const GError *error);

int lodge_verb_run(int argc, char **argv);
int lodge_verb_list(int argc, char **argv);
int lodge_verb_create(int argc, char **argv);
int lodge_verb_start(int argc, char **argv);
int lodge_verb_stop(int argc, char **argv);
int lodge_verb_destroy(int argc, char **argv);
int lodge_verb_delete(int argc, char **argv);
int lodge_verb_console(int argc, char **argv);
int lodge_verb_top(int argc, char **argv);
int lodge_verb_timers(int argc, char **argv);
int lodge_verb_locks(int argc, char **argv);
int lodge_verb_host(int argc, char **argv);
int lodge_verb_doctor(int argc, char **argv);

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A lodge-core of this test's own, and peers of its socket. */
#pragma once

#include "../unit/control/peer.h"

#include <sys/types.h>

struct process {
    char directory[64]; /* $XDG_RUNTIME_DIR */
    pid_t pid;
    int messages; /* the reading end of its stderr */
};

/** A directory, and no process yet. False: the case has failed. */
bool process_prepare(struct process *process);
/** Start one there, with the options, NULL at their end, and wait until it is ready. False: it ended. */
bool process_start(struct process *process, const char *const *options);
/** Wait for its end: its exit status, or minus the signal's number. */
int process_await(struct process *process);
/** kill(), and wait. */
int process_kill(struct process *process, int signal);
/** What it wrote on stderr, which ends with it. */
void process_read_messages(struct process *process, char *text, size_t size);
/** End it if it runs, and remove the directory. */
void process_clean(struct process *process);

/** Connect, and take the lease. False: it did not get it. */
bool process_join(const struct process *process, struct peer *peer);

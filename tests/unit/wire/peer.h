/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A core that says what a test lets it say, before a client of this process. The test's thread is the
 * core; others ask.
 */
#pragma once

#include <glib.h>
#include <hv/op.h>
#include <stdbool.h>
#include <sys/types.h>

struct hv_core;

extern struct peer {
    int fd;                       /* the core's end */
    struct hv_core *core;         /* the client's */
    struct hv_op_request request; /* heard last */
    struct hv_op_answer answer;   /* to be said */
    gint lost, states;            /* atomic: events that were told */
} peer;

/** Wait for a request. */
bool peer_hear(void);
/** A message with @body bytes of the answer and a descriptor, which is closed, or -1. */
bool peer_say(uint32_t op, uint64_t serial, int32_t result, size_t body, int fd);

void peer_fill_welcome(void);
/** A staging area as it is to be; or not so. Returns a descriptor, or -1. */
int peer_make_staging(void);
int peer_make_staging_file(off_t bytes, int seals);

/** Connect; HELLO is heard, and not answered yet. The thread returns the client's core. */
GThread *peer_greet(void);
/** Connect, as it should be; what consoles say is forgotten. */
bool peer_begin(void);
void peer_end(void);

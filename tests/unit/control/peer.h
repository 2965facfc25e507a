/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The other end of a control socket, as raw as it is: well-behaved or not. Functions that fail the
 * running case return false.
 */
#pragma once

#include <hv/op.h>

#define PEER_EVENTS_MAX 64u

struct peer {
    int fd;
    uint64_t serial;  /* of the last request */
    uint8_t *staging; /* NULL before HELLO */
    int statistics;   /* -1: none */
    struct hv_op_request request;
    struct hv_op_answer answer;
    /* Those that came while an answer was waited for; what there is no room for is lost. */
    unsigned events;
    struct hv_op_answer event[PEER_EVENTS_MAX];
};

/** A connected one; @fd is its own from here on. */
void peer_init(struct peer *peer, int fd);
/** Whatever it has, it closes. */
void peer_finish(struct peer *peer);

/** Send peer->request, with the operation's body of @bytes. */
bool peer_send(struct peer *peer, enum hv_op op, size_t bytes);
/** Wait (10 s at most) for the answer to the last request. False: the connection has ended. */
bool peer_await(struct peer *peer);
/** Both; and the result. INT32_MAX when it failed. */
int32_t peer_call(struct peer *peer, enum hv_op op, size_t bytes);
/** HELLO, and map what comes with it. */
int32_t peer_hello(struct peer *peer, bool lease);
/** An operation of a machine, without more to say. */
int32_t peer_call_domain(struct peer *peer, enum hv_op op, uint64_t handle);

/** A machine of 16 MiB and one vCPU; its handle, or 0. */
uint64_t peer_create(struct peer *peer, const char *name, bool console);
/** Put @code where it starts, and set it there. */
bool peer_load(struct peer *peer, uint64_t handle, const void *code, size_t bytes);

/** The next event: one that came before, or one that is waited for. False: none came, or the end. */
bool peer_event(struct peer *peer, struct hv_op_answer *event_out);
/** Events up to that of @handle being in @state; false as above. */
bool peer_await_state(struct peer *peer, uint64_t handle, enum hv_domain_state state);
/** Whether the core has closed the connection; waits for it. */
bool peer_await_end(struct peer *peer);

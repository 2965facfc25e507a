/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Where controllers come in: the listening socket, and those who have connected and not said yet what
 * they want. They are let in if they are of the core's own user, or root; more than a few wait only
 * until the next one comes.
 *
 * One thread's.
 */
#pragma once

#include <hv/op.h>

#define HV_DOOR_CALLERS_MAX 8u
/* How long nobody is let in after the host had no descriptor for one who came. */
#define HV_DOOR_SHUT_NS     (UINT64_C(100) * HV_NS_PER_MS)

struct hv_door {
    int listener;     /* borrowed; -1: there is none */
    hv_ns shut_until; /* not to be listened at before: he still stands there, and poll(2) says so */
    unsigned callers; /* the first came first */
    int caller[HV_DOOR_CALLERS_MAX];
};

void hv_door_init(struct hv_door *door, int listener);
/** Turn all away. */
void hv_door_finish(struct hv_door *door);

/** Take over a connected socket, whoever is at its other end. */
void hv_door_add(struct hv_door *door, int fd);

/**
 * Somebody has come: let him in, or not. While the host has no descriptor, or no memory, for him, he
 * waits, and the door is shut for HV_DOOR_SHUT_NS.
 */
void hv_door_accept(struct hv_door *door, hv_ns now);

/**
 * A caller has something to say, or has gone.
 *
 * Returns 0 when it is HELLO, with the request and *fd_out, the caller's no longer; -EAGAIN when there
 * is nothing yet; -EPROTO when it was turned away.
 */
HV_MUST_CHECK int hv_door_hear(struct hv_door *door, unsigned caller,
                               struct hv_op_request *hello_out, int *fd_out);

/** Answer by @result and a sentence, and close. Nothing was sent to it before, so this waits for
 *  nobody. */
void hv_door_refuse(int fd, const struct hv_op_request *hello, int result, const char *why);

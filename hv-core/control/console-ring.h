/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What a machine has written to its serial port, until somebody has taken it: the latest 64 KiB.
 *
 *     0 … lost or accepted … | accepted … | sent … | written
 *                            '------- in the ring -------'
 *
 *     attached:  full, it takes no more, and the machine waits
 *     detached:  full, the oldest bytes are lost: nobody is there to make room
 *
 * What was sent and not accepted when its receiver went away is sent again to the next one: with each
 * byte goes its position, so that who had taken it already knows.
 *
 * Any thread may call anything; HV_RANK_LEAF.
 */
#pragma once

#include "sync/eventcount.h"
#include "sync/lock.h"

#include <hv/op.h>

#define HV_CONSOLE_RING_BYTES 65536u

struct hv_console_ring {
    struct hv_eventcount *news; /* borrowed: signalled when there is more to send */
    struct hv_lock lock;        /* HV_RANK_LEAF */
    /* Guarded by &lock: positions, accepted <= sent <= written. */
    uint64_t accepted, sent, written;
    bool attached;
    bool refused; /* the machine was told "less than all", and waits to be told */
    uint8_t data[HV_CONSOLE_RING_BYTES];
};

/** Detached, and empty. */
void hv_console_ring_init(struct hv_console_ring *ring, struct hv_eventcount *news);
/** The machine is gone. */
void hv_console_ring_finish(struct hv_console_ring *ring);

/** The machine's side; its context is the ring. */
extern const struct hv_console_ops hv_console_ring_ops;

/** From now on somebody takes it. Returns the position of the byte that is sent next. */
uint64_t hv_console_ring_attach(struct hv_console_ring *ring);
/** Nobody does any more. True: the caller tells the machine that it may write again. */
HV_MUST_CHECK bool hv_console_ring_detach(struct hv_console_ring *ring);

/**
 * Take what is to be sent next, as long as not more than HV_OP_CONSOLE_WINDOW bytes are on their way.
 * Sets all of @console but the handle. False: nothing.
 */
HV_MUST_CHECK bool hv_console_ring_take(struct hv_console_ring *ring,
                                        struct hv_op_console *console);

/** How many bytes the machine has written, lost ones too. */
uint64_t hv_console_ring_written(struct hv_console_ring *ring);
/** Whether bytes before @position are to be sent yet, and can be. */
bool hv_console_ring_owes(struct hv_console_ring *ring, uint64_t position);

/**
 * All before @position has arrived; less than before says nothing.
 *
 * Returns 0, and whether the machine is to be told that it may write again; -EINVAL for what was
 * never sent.
 */
HV_MUST_CHECK int hv_console_ring_accept(struct hv_console_ring *ring, uint64_t position,
                                         bool *writable_out);

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Serving a core to a controller, over hv/op.h.
 *
 *     FREE --HELLO--> HELD --its connection ends, or another's HELLO--> DRAINING
 *     DRAINING --nothing is at work--> HELD by who has asked last; FREE: nobody has
 *
 * In DRAINING no request is begun; then what was half made is undone. So requests of two leases never
 * overlap, and what the next controller finds is whole.
 *
 * Threads: that of hv_control_run() reads requests and changes leases, and waits for nobody; workers
 * do what is asked and answer; one sends events. Those may wait for a controller that does not read,
 * for as long as he has the lease.
 */
#pragma once

#include <hv/types.h>

struct hv_core;
struct hv_control;

/* What a sandbox has refused the process. */
struct hv_control_refused {
    _Atomic uint64_t calls;
    _Atomic uint32_t last; /* the host call's number */
};

struct hv_control_config {
    struct hv_core *core; /* borrowed; no domains but by this control */
    int listener;         /* listening SOCK_SEQPACKET socket; borrowed; -1: none */
    int caller;           /* a connected one, taken over; -1: none */
    uint64_t linger_ns;   /* without a machine and a controller it ends after that; HV_NS_NEVER.v */
    const struct hv_control_refused *refused; /* borrowed; NULL: there is no sandbox */
};

/**
 * Make it, and its threads, which do nothing yet. -ENOMEM; -EAGAIN when the host has no threads, or
 * file descriptors, left.
 */
HV_MUST_CHECK int hv_control_create(const struct hv_control_config *config,
                                    struct hv_control **control_out);
/** All machines are killed. NULL is accepted. */
void hv_control_destroy(struct hv_control *control);

/**
 * Serve, until it is stopped, has lingered long enough, or nobody can come any more: there is no
 * listener, and the caller has gone.
 */
void hv_control_run(struct hv_control *control);

/** Let hv_control_run() end. Any thread; a signal's handler, too. */
void hv_control_stop(struct hv_control *control);

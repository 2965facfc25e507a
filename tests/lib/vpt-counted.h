/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The strategies of virtual timers with every access to shared memory written down: what an exit of
 * a vCPU for which nothing is due touches, and what that costs when many of them exit at once.
 *
 * The accesses are those of hv-core/platform/vpt-strategy.c itself, compiled with the primitives of
 * sync/ replaced. Played by so many caches, access by access in turns, a line goes from one to another
 * as the MESI protocol says: whoever writes has it alone.
 */
#pragma once

#include "platform/vpt-strategy.h"

#define VPT_TRACE_MAX 32

struct vpt_trace {
    unsigned count;
    struct {
        const void *address;
        bool writes, rmw;
    } access[VPT_TRACE_MAX];
};

struct vpt_counted {
    double transfers; /* of lines that another vCPU had, an exit */
    double rmw;       /* atomic read-modify-writes, an exit */
};

/** The counted twin of a strategy, by name; NULL. */
const struct hv_vpt_strategy *vpt_counted_strategy(const char *name);

/** What one exit of @vcpu touches, under the counted strategy of its set. */
void vpt_trace_exit(struct hv_vpt_vcpu *vcpu, struct vpt_trace *trace_out);

/**
 * All vCPUs of @set exit @rounds times, one access each by turns. The set was made with a counted
 * strategy; nothing is due.
 */
struct vpt_counted vpt_count_exits(struct hv_vpt_set *set, unsigned rounds);

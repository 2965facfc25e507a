/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * One vCPU of the software engine: what the interpreter touches at every instruction first, then
 * its TLBs, caches and the pending fault. Private to engine/soft and its tests.
 *
 * Everything is owned by the thread that runs the vCPU. Functions that can find a guest fault
 * return HV_FAULTED with vcpu->fault filled; -EAGAIN means "leave the engine and restart this
 * instruction" (decisions D9).
 */
#pragma once

#include "engine/ops.h"
#include "engine/soft/tlb.h"

struct soft_block;
struct soft_tlbs;   /* tlb.c: all tables, ids, victims, the global level */
struct soft_code;   /* code.h: the domain's block cache */
struct soft_thunks; /* thunk.h: the domain's host-executed code */
struct soft_jump_cache;

struct hv_engine_domain {
    struct hv_memory *memory;
    struct soft_code *code;
    struct soft_thunks *thunks;
};

/* Accesses of the instruction being restarted (D9). */
#define SOFT_REPLAY_MAX 8
struct soft_replay {
    unsigned recorded; /* completed before the exit; replayed from value[] */
    unsigned next;
    uint64_t value[SOFT_REPLAY_MAX];
};

struct hv_engine_vcpu {
    /* Hot. */
    struct hv_cpu *cpu;
    struct soft_tlb_view view[SOFT_TLB_KINDS]; /* of the current mode */
    uint64_t tlb_id;                           /* current address-space id, tag form */
    struct hv_doorbell *bell;
    uint64_t insns_left; /* of the budget; counts down by block */
    enum soft_tlb_mode mode;
    /* Bumped whenever a cached translation of a fetch may have become wrong: guards chains and
     * jump-cache entries that cross pages. */
    uint64_t fetch_generation;

    struct hv_fault fault;
    struct soft_tlbs *tlbs;
    struct soft_jump_cache *jumps;
    struct soft_replay replay;
    /* A read-modify-write that is no plain RAM in one page works on this and is stored back. */
    struct {
        uint8_t bytes[64] HV_ALIGNED(64);
        hv_gva gva;
        unsigned count;
        bool active;
        bool exclusive; /* a locked access that holds the domain's stop-the-world */
    } bounce;

    /* Set at creation. */
    struct hv_engine_domain *domain;
    struct hv_memory *memory;
    struct hv_holder *holder;
    const struct hv_clock *clock;
    const struct hv_engine_io *io;
    void *io_context;
    unsigned index;
    struct hv_access access; /* the table of access.c over this vCPU */
    struct hv_engine_counters counters;
    struct hv_engine_trace trace;
};

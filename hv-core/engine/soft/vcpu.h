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
#include "sync/lock.h"

struct soft_block;
struct soft_tlbs;       /* tlb.c: all tables, ids, victims, the global level */
struct soft_code;       /* code.h: the domain's block cache */
struct soft_thunks;     /* thunk.h: the domain's host-executed code */
struct soft_jump_cache; /* jump.h */
struct soft_translator;

/* Keeps a domain's other vCPUs out of guest code during a locked access that the host cannot do
 * with one locked instruction: exclusive.c. */
struct soft_exclusive {
    struct hv_lock lock; /* HV_RANK_EXCLUSIVE, held by the vCPU that does the access */
    /* Atomic: the lock is held and others are to park. Pairs with soft_enter(). */
    _Atomic uint32_t active;
    /* Atomic: bit i while vCPU i stands still at a block's edge, or waits for the lock. */
    _Atomic uint64_t parked;
};

struct hv_engine_domain {
    struct hv_memory *memory;
    struct soft_code *code;
    struct soft_thunks *thunks;
    struct soft_exclusive exclusive;
};

/*
 * Device accesses of the present instruction, done already: replay.c (D9). Room for those of any
 * instruction: the most are made by ENTER with 31 levels (248, of a stack at odd addresses) and
 * XSAVE (208).
 */
#define SOFT_REPLAY_MAX 256
enum soft_replay_kind {
    SOFT_REPLAY_PIO_READ,
    SOFT_REPLAY_PIO_WRITE,
    SOFT_REPLAY_MMIO_READ,
    SOFT_REPLAY_MMIO_WRITE,
};
struct soft_replay_access {
    uint64_t address;
    uint64_t value; /* of a read */
    uint8_t kind;   /* enum soft_replay_kind */
    uint8_t bytes;
};
struct soft_replay {
    unsigned recorded;
    unsigned next; /* < recorded: the instruction was restarted and is given access[next] */
    bool event;    /* they were made by the delivery of an event, not by the instruction */
    struct soft_replay_access access[SOFT_REPLAY_MAX];
};

/* What a piece of an access inside one page touches. */
enum soft_piece_kind {
    SOFT_PIECE_RAM,    /* host */
    SOFT_PIECE_CODE,   /* a store to RAM sealed as CODE: host, gpa */
    SOFT_PIECE_ROM,    /* a store that is ignored; reads (of a read-modify-write) see host */
    SOFT_PIECE_DEVICE, /* gpa; also where nothing is */
};

struct soft_piece {
    enum soft_piece_kind kind;
    unsigned bytes;
    void *host;
    hv_gpa gpa;
};

/* An access of any size that is at most one page long: one piece, or two when it crosses. */
struct soft_span {
    struct soft_piece piece[2];
    unsigned pieces;
};

/* The guest's floating-point state while the engine runs: thunk.h. */
struct soft_fpu {
    bool x87_live;       /* x87 and MMX registers stand in the host's; cpu->x is stale in them */
    bool x87_unmasked;   /* live, and the guest's control word unmasks an exception */
    bool sse_unmasked;   /* so does its MXCSR */
    uint16_t host_fcw;   /* to be restored when the engine is left */
    uint32_t host_mxcsr; /* likewise */
};

struct hv_engine_vcpu {
    /* Hot. */
    struct hv_cpu *cpu;
    struct soft_tlb_view view[SOFT_TLB_KINDS]; /* of the current mode */
    uint64_t tlb_id;                           /* current address-space id, tag form */
    struct hv_doorbell *bell;
    int64_t insns_left; /* of the budget; counts down by block */
    enum soft_tlb_mode mode;
    /* Changed whenever a cached translation of a fetch may have become wrong: guards chains and
     * jump-cache entries that cross pages. By bit 63 of the linear address: in the upper half a
     * kernel's global pages outlive changes of address space. */
    uint64_t fetch_generation[2];

    /* fetch_generation and key together: what an entry of the jump cache must say. */
    uint64_t stamp[2];
    struct soft_jump_cache *jumps;
    const uint32_t *pause_window;
    hv_ns paused_at;    /* the last PAUSE of the burst */
    uint32_t key;       /* enum soft_key: the present mode */
    uint32_t pauses;    /* in this burst, which an exit ends */
    bool leave_block;   /* a store hit the domain's code: the running block may be stale */
    bool no_trap;       /* single-stepping: the instruction itself settled whether one follows */
    uint8_t watch_hits; /* data breakpoints met and not yet reported: DR6 bits 3:0 */
    uint64_t trap;      /* DR6 bits of a #DB behind the last instruction, to be delivered next */

    struct hv_fault fault;
    struct hv_exit stop; /* what SOFT_RESULT_STOP asks for */
    struct soft_fpu fpu;
    struct soft_tlbs *tlbs;
    struct soft_translator *translator; /* translate.h: one block in the making */
    struct soft_replay replay;
    bool awaits_device; /* the last -EAGAIN was a device's: HV_EXIT_IO, else go on at once */
    /* A read-modify-write that is no plain RAM in one page works on this and is stored back. */
    struct {
        uint8_t bytes[64] HV_ALIGNED(64);
        struct soft_span span;
        bool active; /* between soft_rmw_begin() and its end, and there is something to do then */
        bool direct; /* bytes[] is not used: a page with code, written in place */
        bool exclusive; /* a locked access that keeps the domain's other vCPUs out */
    } bounce;

    /* Set at creation. */
    struct hv_engine_domain *domain;
    struct hv_memory *memory;
    struct hv_holder *holder;
    const struct hv_clock *clock;
    const struct hv_engine_io *io;
    void *io_context;
    bool force_io_exit; /* debugging: every device access leaves the engine once (D9) */
    bool trace_blocks;  /* debugging: every block is started, and recorded, by the run loop */
    unsigned index;
    struct hv_access access; /* the table of access.c over this vCPU */
    struct hv_engine_counters counters;
};

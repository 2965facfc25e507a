/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What guest code is turned into: blocks of micro-operations, 32 bytes each, that the computed-goto
 * function of interp.tmpl runs one after the other.
 *
 *     block   header | uop | uop | … | branch uop | struct soft_links | struct soft_call …
 *
 * Registers are named by `place`: the byte offset of the value in struct hv_cpu, so that AH is just
 * RAX's place + 1 and needs no handler of its own. RIP is not kept at run time: it is the RIP of the
 * page, in a slot, plus the offset in the micro-operation; it is worked out when somebody asks.
 *
 * A block starts at one physical address in one mode (its key) and lies in one page; the only
 * exception is an instruction that crosses into the next page, which is a block of its own.
 */
#pragma once

#include "engine/soft/decode.h"
#include "engine/soft/vcpu.h"

/* The engine's own slots, from HV_SLOT_TEMP on. */
enum soft_slot {
    SOFT_SLOT_RIP = HV_SLOT_TEMP, /* RIP that offset 0 of the running block's page has */
    SOFT_SLOT_RIP_MASK,           /* what RIP is cut to: 64 or 32 bits */
    SOFT_SLOT_EA,                 /* linear address made by an address micro-operation */
    SOFT_SLOT_TEMP,               /* a value between two micro-operations of one instruction */
    SOFT_SLOT_END,
};
HV_STATIC_ASSERT((int)SOFT_SLOT_END <= (int)HV_SLOT_COUNT, "the engine's slots fit");
/* A place is one byte. */
HV_STATIC_ASSERT(HV_SLOT_COUNT * 8 <= 256, "places fit");

#define SOFT_PLACE(slot) ((uint8_t)((slot)*8))
#define SOFT_PLACE_ZERO  SOFT_PLACE(HV_SLOT_ZERO)
#define SOFT_PLACE_SS    SOFT_PLACE((int)HV_SLOT_SEG_BASE + (int)HV_SEG_SS)

struct soft_call;

struct soft_uop {
    /* Atomic: the label. That of a block's first micro-operation becomes "stale" when the block is
     * taken out: pairs with the load of each dispatch. */
    _Atomic(const void *) handler;
    union {
        uint64_t imm;
        const struct soft_call *call;
        const struct soft_thunk *thunk;
    };
    int32_t disp;
    uint16_t offset; /* of the guest instruction, from the start of its page */
    uint16_t next;   /* of the one behind it */
    uint8_t dst;     /* places */
    uint8_t src;
    uint8_t base;
    uint8_t index;
    uint8_t
        segment; /* place of the segment base; that of SS also where its base is known to be 0 */
    uint8_t scale;
    uint8_t rest;  /* instructions of the block after this one */
    uint8_t insns; /* of the whole block; in the first micro-operation only */
};
HV_STATIC_ASSERT(sizeof(struct soft_uop) == 32, "two micro-operations a cache line");

/* Behind the last micro-operation of a block: where it goes on. */
struct soft_links {
    /* Atomic: first micro-operation of the successors in the same page, NULL until known. Pairs
     * with soft_code_link() and its undoing when the successor is taken out. */
    _Atomic(const struct soft_uop *) to[2];
    int64_t target; /* of the branch, from offset 0 of the page */
    bool fixed;     /* never linked: a scratch block, or code that is checked against CS's limit */
};
HV_STATIC_ASSERT(sizeof(struct soft_links) == sizeof(struct soft_uop), "takes one record");

/* In `src` of a checked address: the access stores. The bits below are the size's upper ones. */
#define SOFT_ADDRESS_WRITE 0x80u

enum soft_link_index {
    SOFT_LINK_NEXT, /* falls through */
    SOFT_LINK_TAKEN,
};

static inline struct soft_links *soft_uop_links(const struct soft_uop *branch)
{
    return (struct soft_links *)(uintptr_t)(branch + 1);
}

/*
 * How a micro-operation, or the C function of one, ended. Negative errnos are possible besides.
 */
enum soft_result {
    SOFT_RESULT_NEXT = 0,
    SOFT_RESULT_FAULT = HV_FAULTED, /* vcpu->fault; nothing of the instruction is done */
    SOFT_RESULT_LEAVE,              /* done, cpu->rip is set; what was derived may have changed */
    SOFT_RESULT_STOP,               /* done, cpu->rip is set; leave with vcpu->stop */
    SOFT_RESULT_LOOKUP,             /* no block known for cpu->rip */
    SOFT_RESULT_INTERRUPTED,        /* at a block's edge: doorbell, or budget used up */
};

/**
 * The C function of an instruction that has no handler of its own.
 *
 * @call  what was decoded. cpu->rip is the instruction's own address.
 * @gva   linear address of its memory operand, if it has one.
 *
 * Returns an enum soft_result or a negative errno: -EAGAIN when it must be restarted.
 */
typedef int soft_call_fn(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva);

struct soft_call {
    soft_call_fn *run;
    struct soft_insn insn;
};

/*
 * The mode a block was translated for. All that changes the meaning of bytes or is checked at
 * translation; what is not in it is checked as the instruction runs.
 */
enum soft_key {
    SOFT_KEY_MODE = 3u << 0, /* enum soft_mode */
    SOFT_KEY_CPL_SHIFT = 2,
    SOFT_KEY_CPL = 3u << 2,
    SOFT_KEY_V86 = 1u << 4,
    SOFT_KEY_FLAT = 1u << 5, /* 64-bit, or 32-bit with ES CS SS DS flat and a 32-bit stack */
    SOFT_KEY_SSE = 1u << 6,  /* SSE may run: CR0.EM=0, CR0.TS=0, CR4.OSFXSR=1 */
    SOFT_KEY_STEP = 1u << 7, /* one instruction a block */
    SOFT_KEY_BITS = 8,
};

#define SOFT_BLOCK_INSNS 64u
/* Code bytes a block may span: bounds what is copied for decoding. */
#define SOFT_BLOCK_BYTES 512u

struct soft_page; /* code.c: a page that holds code */

/* Which lists a block stands in. */
enum soft_listed {
    SOFT_LISTED_HASH = 1u << 0,
    SOFT_LISTED_PAGE = 1u << 1,
    SOFT_LISTED_SECOND = 1u << 2,
};

struct soft_block {
    /* Set at creation. */
    hv_gpa gpa;
    uint64_t second_gfn; /* page in which a crossing instruction ends, another one; UINT64_MAX */
    uint32_t key;
    uint32_t bytes; /* of memory, header included */
    uint16_t code_bytes;
    uint16_t uops; /* without the links */
    /* Atomic: next in its hash chain. Pairs with soft_code_find(). */
    _Atomic(struct soft_block *) hash_next;
    /* Guarded by the cache's lock. */
    bool dead;
    uint8_t listed;                  /* enum soft_listed */
    struct soft_block *page_next[2]; /* in the list of its page, and of the second one */
    struct soft_uop uop[] HV_ALIGNED(32);
};

static inline bool soft_block_crosses(const struct soft_block *block)
{
    return block->second_gfn != UINT64_MAX;
}

/** RIP of the instruction a micro-operation belongs to. */
static inline uint64_t soft_uop_rip(const struct hv_cpu *cpu, const struct soft_uop *uop)
{
    return (cpu->slot[SOFT_SLOT_RIP] + uop->offset) & cpu->slot[SOFT_SLOT_RIP_MASK];
}

/** RIP of the instruction behind it. */
static inline uint64_t soft_uop_next_rip(const struct hv_cpu *cpu, const struct soft_uop *uop)
{
    return (cpu->slot[SOFT_SLOT_RIP] + uop->next) & cpu->slot[SOFT_SLOT_RIP_MASK];
}

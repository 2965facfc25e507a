/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Page walks: linear to guest physical, as the guest's tables and control registers say.
 *
 *     CR0.PG=0            none       identity, everything allowed
 *     PG, !PAE            32-bit     2 levels, 4 KiB and (CR4.PSE) 4 MiB pages
 *     PG, PAE, !LMA       PAE        4 PDPTEs in cpu->pdpte[], 2 levels, 4 KiB and 2 MiB
 *     PG, PAE, LMA        4-level    4 KiB, 2 MiB and 1 GiB
 *
 * A walk reads and updates paging structures through `struct hv_walk_memory` only; accessed and
 * dirty bits are set by compare-and-exchange on the entry, so that a concurrent change by another
 * vCPU is never lost: when the exchange fails the walk starts over. Dirty is set by real writes
 * only (intent WRITE), never by a probe for reading.
 *
 * Source: Intel SDM vol. 3A chapter 4 (4.5 figures, 4.6 access rights, 4.7 error codes, 4.8 A/D,
 * 4.10 caching).
 */
#pragma once

#include "cpu/state.h"

enum hv_walk_intent {
    HV_WALK_READ,
    HV_WALK_WRITE,
    HV_WALK_FETCH,
};

/* How the entry may be cached: bits that a TLB entry carries. */
struct hv_translation {
    hv_gpa gpa;         /* of the address asked for, offset included */
    uint64_t page_size; /* 4 KiB, 2 MiB, 4 MiB, 1 GiB, as mapped by the guest */
    bool user;          /* U/S of all levels */
    bool writable;      /* R/W of all levels (before CR0.WP) */
    bool executable;    /* not NX */
    bool global;        /* G of the leaf, and CR4.PGE */
    bool dirty;         /* D of the leaf is set: a write entry may be cached */
};

/*
 * Access to paging structures. Addresses are guest physical and aligned to @bytes (4 or 8).
 * Each returns 0, or a negative errno. An address that is no RAM reads as all ones and ignores
 * updates, as a bus without a responder does.
 */
struct hv_walk_memory {
    int (*read)(void *context, hv_gpa gpa, unsigned bytes, uint64_t *value_out);
    /* Compare-and-exchange. *swapped_out says whether @expected stood there. */
    int (*update)(void *context, hv_gpa gpa, unsigned bytes, uint64_t expected, uint64_t value,
                  bool *swapped_out);
};

/*
 * Who accesses: what decides rights beside the tables (SDM 3A 4.6.1). A transfer that changes the
 * CPL pushes on the new stack with the rights of the new CPL while cpu->cpl is still the old one,
 * so these do not all depend on it.
 */
enum hv_walk_as {
    HV_WALK_AS_CURRENT,    /* cpu->cpl decides: as USER when it is 3, else as KERNEL */
    HV_WALK_AS_SUPERVISOR, /* implicit access: descriptor tables, TSS (SMAP whatever AC says) */
    HV_WALK_AS_KERNEL,     /* explicit access of CPL 0 to 2: SMAP unless RFLAGS.AC is set */
    HV_WALK_AS_USER,       /* as CPL 3 */
};

/**
 * Translate @gva for @intent with the registers of @cpu. The caller has checked that @gva is
 * canonical; outside long mode only its low 32 bits count.
 *
 * Accessed and dirty bits are set after all checks: a walk that faults writes nothing.
 *
 * Returns 0 and *translation_out; HV_FAULTED and *fault_out (#PF with error code and cr2); or a
 * negative errno from @memory.
 * Context: the vCPU's thread. A walk ends after at most 4 levels and, when other vCPUs keep
 * changing the entry under it, after 64 tries of an update (then -EAGAIN: run the instruction
 * again).
 */
HV_MUST_CHECK int hv_walk(const struct hv_cpu *cpu, const struct hv_walk_memory *memory,
                          void *context, hv_gva gva, enum hv_walk_intent intent, enum hv_walk_as as,
                          struct hv_translation *translation_out, struct hv_fault *fault_out);

/**
 * Load the four PDPTEs of PAE paging at CR3 (MOV CR3, MOV CR0/CR4 that turns PAE paging on).
 *
 * Returns 0 with @pdpte_out filled; HV_FAULTED with #GP(0) when a present one has reserved bits
 * set; or a negative errno.
 */
HV_MUST_CHECK int hv_walk_load_pdptes(const struct hv_walk_memory *memory, void *context,
                                      uint64_t cr3, uint64_t pdpte_out[4],
                                      struct hv_fault *fault_out);

/** True when MOV CR3 takes @pdpte: not present, or no reserved bit set. */
bool hv_walk_pdpte_possible(uint64_t pdpte);

/* Physical address bits a guest has (CPUID 80000008h EAX 7:0); higher bits of entries are
 * reserved. */
#define HV_GUEST_PHYS_BITS 46u

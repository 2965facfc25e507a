/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * KVM's paravirtual interface, as far as it is MSRs and areas of guest memory: guest clock
 * (pvclock.h), steal time (pvsteal.h), end of interrupt (lapic.h), the kick that ends a HLT, and who
 * polls for its end.
 * CPUID shows it (enum hv_pv_feature), hypercalls are the domain's.
 *
 * A guest's WRMSR only notes what it wants: pinning a page may wait, which nobody may do in guest
 * mode. It makes the vCPU leave, and hv_pv_settle() does the work before the next instruction:
 *
 *     WRMSR --note, look()--> pending --hv_pv_settle--> area pinned and written
 *
 * Addresses are the guest's to choose. One that no area can be at is refused as KVM does: #GP where
 * KVM looks at once (reserved bits; end of interrupt), else ignored and counted.
 *
 * Invariants:
 *   (1) an area is written by its vCPU's thread alone, and pinned for as long as it may be;
 *   (2) once the WRMSR that gives up an area is done, nothing is written there;
 *   (3) a kick is not lost: it stands until the vCPU's next HLT, or its next look at one.
 *
 * Threads: MSRs and areas are the vCPU's thread's; `pending` and `kicked` anybody's.
 * Source: Linux, Documentation/virt/kvm/x86/msr.rst; asm/kvm_para.h.
 */
#pragma once

#include "cpu/policy.h"
#include "platform/lapic.h"
#include "platform/pvclock.h"
#include "platform/pvsteal.h"

#define HV_PV_RECORD_VERSION 1

/* Bits of hv_pv_vcpu.pending: what is to be done before the vCPU's next instruction. */
enum hv_pv_pending {
    HV_PV_PENDING_CLOCK = 1u << 0, /* the clock's area is another */
    HV_PV_PENDING_TIME = 1u << 1,  /* what stands in it has changed */
    HV_PV_PENDING_STOPPED = 1u << 2,
    HV_PV_PENDING_WALL = 1u << 3,
    HV_PV_PENDING_STEAL = 1u << 4,
    HV_PV_PENDING_EOI = 1u << 5,
};

/* One writer, relaxed readers. */
struct hv_pv_counters {
    _Atomic uint64_t areas_refused; /* registered where no area can be */
    _Atomic uint64_t kicks;         /* HLTs that a kick ended */
    _Atomic uint64_t flushes;       /* TLBs flushed at resume, in place of an interrupt */
};

struct HV_ALIGNED(HV_CACHE_LINE) hv_pv_vcpu {
    /* Atomic: enum hv_pv_pending. */
    _Atomic uint32_t pending;
    /* Atomic: somebody has kicked it since it last halted. */
    _Atomic uint32_t kicked;
    /* Atomic: its TSC's, as it stood when its clock was last written; for the others to compare. */
    _Atomic uint64_t tsc_offset;
    /* The vCPU's thread. MSRs, as they were written. */
    uint64_t clock_msr, steal_msr, eoi_msr, poll_msr;
    struct hv_pvclock_area clock;
    struct hv_pvsteal steal;
    struct hv_pv_counters counters;
};

struct hv_pv_hooks {
    /** Make the vCPU leave the guest, if it is in, and settle. Rings a doorbell at most. */
    void (*look)(void *context, unsigned vcpu);
    /** The offset of the vCPU's TSC to hv_platform_tsc(). On its thread. */
    uint64_t (*tsc_offset)(void *context, unsigned vcpu);
    void *context;
};

struct hv_pv_config {
    unsigned vcpus;
    uint32_t features;            /* bit per enum hv_pv_feature */
    struct hv_memory *memory;     /* borrowed; may be NULL when there are no features */
    const struct hv_clock *clock; /* borrowed */
    uint64_t tsc_khz;
    struct hv_lapics *lapics; /* borrowed */
    const struct hv_pv_hooks *hooks;
};

struct hv_pv {
    /* Set at creation. */
    unsigned count;
    uint32_t features;
    struct hv_memory *memory;
    struct hv_lapics *lapics;
    struct hv_pv_hooks hooks;
    struct hv_pv_vcpu *vcpu; /* owned */
    struct hv_pvclock clock;
    /* Atomic: the wall clock's MSR, one for all vCPUs. */
    _Atomic uint64_t wall_msr;
};

struct hv_pv_vcpu_record {
    uint64_t clock_msr, steal_msr, eoi_msr, steal_ns;
    uint32_t kicked, poll_msr;
};

/* The tail of vcpu[] behind the machine's number is unused and zero. */
struct hv_pv_record {
    uint32_t version, features;
    uint64_t wall_msr;
    struct hv_pv_vcpu_record vcpu[HV_MAX_VCPUS];
};

/** Returns 0, or -ENOMEM. */
HV_MUST_CHECK int hv_pv_init(struct hv_pv *pv, const struct hv_pv_config *config);
/** Areas are let go. No vCPU runs. Zeroed memory is accepted. */
void hv_pv_finish(struct hv_pv *pv);
/** Power-up state. No vCPU runs. */
void hv_pv_reset(struct hv_pv *pv);
/** INIT reached this vCPU: as at power-up. On its thread. */
void hv_pv_init_cpu(struct hv_pv *pv, unsigned vcpu);
/** The machine goes on after a time in which it stood still. No vCPU runs. */
void hv_pv_resume(struct hv_pv *pv);

static inline bool hv_pv_has(const struct hv_pv *pv, enum hv_pv_feature feature)
{
    return pv->features & HV_BIT(feature);
}

/* The rest but hv_pv_kick(): on the vCPU's thread. */

/** MSRs. 0; HV_FAULTED for #GP; -ENOENT for others, and those that are not shown. */
HV_MUST_CHECK int hv_pv_msr_read(const struct hv_pv *pv, unsigned vcpu, uint32_t index,
                                 uint64_t *value_out);
HV_MUST_CHECK int hv_pv_msr_write(struct hv_pv *pv, unsigned vcpu, uint32_t index, uint64_t value);

/** Its TSC has another offset. */
void hv_pv_tsc_changed(struct hv_pv *pv, unsigned vcpu);

int hv_pv_settle_pending(struct hv_pv *pv, unsigned vcpu, uint64_t ready_ns);

/**
 * Do what is pending, before the guest goes on.
 *
 * @ready_ns  as for hv_pv_enter().
 *
 * Returns 0, or -ENOMEM when the host has no memory for an area: to be tried again. Context: OUTSIDE,
 * no lock held; waits as HV_RANK_FLUSH_WAIT.
 */
HV_MUST_CHECK static inline int hv_pv_settle(struct hv_pv *pv, unsigned vcpu, uint64_t ready_ns)
{
    /* Who sets a bit rings after it: what is not seen here is seen after the next ring. */
    return HV_LIKELY(hv_load_relaxed(&pv->vcpu[vcpu].pending) == 0)
               ? 0
               : hv_pv_settle_pending(pv, vcpu, ready_ns);
}

/** It has a pCPU again; @ready_ns as for hv_pvsteal_enter(). True: its TLB is to be flushed. */
bool hv_pv_enter(struct hv_pv *pv, unsigned vcpu, uint64_t ready_ns);
/** It loses its pCPU although it wants to go on. */
void hv_pv_leave(struct hv_pv *pv, unsigned vcpu);

/** Are its halts to be polled for? The guest may say that it does so itself. */
static inline bool hv_pv_halt_polled(const struct hv_pv *pv, unsigned vcpu)
{
    return pv->vcpu[vcpu].poll_msr;
}

/** End its HLT, this one or the next. The caller wakes it. Any thread. */
void hv_pv_kick(struct hv_pv *pv, unsigned vcpu);

/** Somebody has kicked it, and it has not halted since. Any thread. */
static inline bool hv_pv_kicked(const struct hv_pv *pv, unsigned vcpu)
{
    /* Pairs with hv_pv_kick(): who kicked, and then said that it halts, is seen to have kicked. */
    return hv_load_seq(&pv->vcpu[vcpu].kicked) != 0;
}

/** It halts: was it kicked? The kick is used up. */
HV_MUST_CHECK bool hv_pv_take_kick(struct hv_pv *pv, unsigned vcpu);

void hv_pv_save(const struct hv_pv *pv, struct hv_pv_record *record_out);
const char *hv_pv_check(const struct hv_pv *pv, const struct hv_pv_record *record);
/** Areas are pinned when the vCPUs run again. */
void hv_pv_load(struct hv_pv *pv, const struct hv_pv_record *record);

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Breakpoints on data and ports (SDM 3B 17.2). While DR7 enables one, the TLB's views of data are empty and the
 * run loop goes instruction by instruction: every access comes by the slow path and through here,
 * and what it hit is reported after the instruction. Accesses of event delivery and of the paging
 * hardware are not looked at.
 */
#pragma once

#include "engine/soft/tlb-private.h"

/* Per breakpoint n: DR7 L and G at 2n, R/W at 16 + 4n, LEN at 18 + 4n. */
#define SOFT_BREAKPOINTS 4u

enum soft_breakpoint_kind {
    SOFT_BREAKPOINT_CODE,
    SOFT_BREAKPOINT_WRITE,
    SOFT_BREAKPOINT_PORT,
    SOFT_BREAKPOINT_ACCESS,
};

static inline bool soft_breakpoint_enabled(const struct hv_cpu *cpu, unsigned n)
{
    return cpu->dr[7] >> (2 * n) & 3;
}

static inline enum soft_breakpoint_kind soft_breakpoint_kind_of(const struct hv_cpu *cpu,
                                                                unsigned n)
{
    return (enum soft_breakpoint_kind)(cpu->dr[7] >> (16 + 4 * n) & 3);
}

/** Is there a breakpoint on data? */
static inline bool soft_watch_wanted(const struct hv_cpu *cpu)
{
    bool wanted = false;

    if (HV_LIKELY(!(cpu->dr[7] & 0xff))) {
        return false;
    }
    for (unsigned n = 0; n < SOFT_BREAKPOINTS; n++) {
        wanted |= soft_breakpoint_enabled(cpu, n) && (soft_breakpoint_kind_of(cpu, n) & 1);
    }
    return wanted;
}

/** Note the breakpoints that an access of [gva, gva + bytes) meets; @kind is READ or WRITE. */
void soft_watch_note(struct hv_engine_vcpu *vcpu, uint64_t gva, unsigned bytes,
                     enum soft_tlb_kind kind);

static inline void soft_watch(struct hv_engine_vcpu *vcpu, uint64_t gva, unsigned bytes,
                              enum soft_tlb_kind kind)
{
    if (HV_UNLIKELY(vcpu->tlbs->watched)) {
        soft_watch_note(vcpu, gva, bytes, kind);
    }
}

/** Likewise the breakpoints that an access of ports [port, port + bytes) meets. */
void soft_watch_port_note(struct hv_engine_vcpu *vcpu, uint16_t port, unsigned bytes);

static inline void soft_watch_port(struct hv_engine_vcpu *vcpu, uint16_t port, unsigned bytes)
{
    /* Without CR4.DE the encoding means nothing (SDM 3B 17.2.4). */
    if (HV_UNLIKELY((vcpu->cpu->dr[7] & 0xff) && (vcpu->cpu->cr4 & HV_CR4_DE))) {
        soft_watch_port_note(vcpu, port, bytes);
    }
}

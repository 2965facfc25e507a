/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Running a thunk: may its state be used, where is its memory operand, what did it raise.
 *
 *   memory operand in plain RAM, in one page   the code works on RAM itself
 *   anything else, and what may have to be undone
 *                                              the code works on a copy: read first, or written
 *                                              back after it, registers restored when that fails
 *
 * Priorities (SDM 3A table 6-2): #UD and #NM, then a pending #MF, then #GP for alignment, then the
 * memory operand's own fault (#AC, #PF), then #XM.
 */
#include "engine/soft/thunk-private.h"

#include "engine/soft/access-private.h"

int soft_fp_check(struct hv_engine_vcpu *vcpu, unsigned fp)
{
    const struct hv_cpu *cpu = vcpu->cpu;
    bool em = cpu->cr0 & HV_CR0_EM, ts = cpu->cr0 & HV_CR0_TS;

    if ((fp & SOFT_THUNK_FP_VEX) && (!hv_cpu_protected(cpu) || hv_cpu_v86(cpu))) {
        return soft_fault(vcpu, HV_VECTOR_UD);
    }
    if ((fp & SOFT_THUNK_FP_AVX) &&
        (!(cpu->cr4 & HV_CR4_OSXSAVE) || (cpu->xcr0 & SOFT_XCR0_AVX) != SOFT_XCR0_AVX)) {
        return soft_fault(vcpu, HV_VECTOR_UD);
    }
    if ((fp & SOFT_THUNK_FP_SSE) && (em || !(cpu->cr4 & HV_CR4_OSFXSR))) {
        return soft_fault(vcpu, HV_VECTOR_UD);
    }
    if ((fp & SOFT_THUNK_FP_MMX) && em) {
        return soft_fault(vcpu, HV_VECTOR_UD);
    }
    if (((fp & SOFT_THUNK_FP_X87) && em) ||
        (ts &&
         (fp & (SOFT_THUNK_FP_X87 | SOFT_THUNK_FP_MMX | SOFT_THUNK_FP_SSE | SOFT_THUNK_FP_AVX)))) {
        return soft_fault(vcpu, HV_VECTOR_NM);
    }
    return 0;
}

/* The state of nearly every instruction: enabled, and told so by few tests. */
static inline bool fp_enabled(const struct hv_cpu *cpu, unsigned fp)
{
    return !(cpu->cr0 & (HV_CR0_TS | HV_CR0_EM)) &&
           (!(fp & SOFT_THUNK_FP_SSE) || (cpu->cr4 & HV_CR4_OSFXSR)) && !(fp & SOFT_THUNK_FP_VEX);
}

/*
 * The checked form: under unmasked SSE exceptions the code runs with all masked and no flag set, so
 * that the flags say what it raised; an unmasked one undoes it.
 *
 * What masked execution cannot see, and silicon does: a tiny result that is exact raises an unmasked
 * underflow; FTZ does not count under one; beside an unmasked overflow there is no precision flag
 * when only the exponent did not fit; and the steps of DPPS after the one that raised are not taken,
 * nor are their flags.
 */
static int run_checked(struct hv_engine_vcpu *vcpu, const struct soft_thunk *thunk, void *place)
{
    struct hv_cpu *cpu = vcpu->cpu;
    uint32_t mxcsr = soft_x_get(cpu, SOFT_X_MXCSR, 4);
    uint32_t raised, unmasked;
    struct soft_snapshot snapshot;
    int rc;

    soft_snapshot_take(vcpu, &snapshot);
    if (thunk->fp & SOFT_THUNK_FP_MMX) {
        rc = soft_x87_load(vcpu, true);
        if (rc != 0) {
            return rc;
        }
    }
    soft_host_set_mxcsr((mxcsr & ~SOFT_MXCSR_FLAGS) | SOFT_MXCSR_MASKS);
    thunk->code(cpu, place);
    raised = soft_host_mxcsr() & SOFT_MXCSR_FLAGS;
    unmasked = raised & ~(mxcsr >> 7);
    if (unmasked == 0) {
        soft_mxcsr_set(vcpu, mxcsr | raised);
        return 0;
    }
    soft_snapshot_restore(vcpu, &snapshot);
    /* Found before computing, it keeps later ones from being found (SDM 1 11.5.2). */
    soft_mxcsr_set(vcpu,
                   mxcsr | (unmasked & SOFT_MXCSR_BEFORE ? raised & SOFT_MXCSR_BEFORE : raised));
    return soft_fault(vcpu, cpu->cr4 & HV_CR4_OSXMMEXCPT ? HV_VECTOR_XM : HV_VECTOR_UD);
}

static int run_x87(struct hv_engine_vcpu *vcpu, const struct soft_thunk *thunk, void *place,
                   uint64_t gva)
{
    struct hv_cpu *cpu = vcpu->cpu;
    unsigned raised;
    int rc;

    rc = soft_x87_load(vcpu, !(thunk->x87 & SOFT_THUNK_X87_NOWAIT));
    if (rc != 0) {
        return rc;
    }
    if ((thunk->fp & SOFT_THUNK_FP_ARITH) && vcpu->fpu.sse_unmasked) {
        return run_checked(vcpu, thunk, place);
    }
    thunk->code(cpu, place);
    if (thunk->fp & SOFT_THUNK_FP_X87 && !(thunk->x87 & SOFT_THUNK_X87_CONTROL)) {
        soft_x_set(cpu, SOFT_X_FIP, 8, cpu->rip);
    }
    if (HV_UNLIKELY(vcpu->fpu.x87_unmasked || (thunk->x87 & SOFT_THUNK_X87_CONTROL))) {
        raised = soft_x87_settle(vcpu);
        if (raised && !(thunk->x87 & SOFT_THUNK_X87_CONTROL)) {
            soft_x_set(cpu, SOFT_X_FOP, 2, thunk->x87_opcode);
            soft_x_set(cpu, SOFT_X_FDP, 8, thunk->memory_bytes ? gva : 0);
        }
    }
    return 0;
}

static inline int run_code(struct hv_engine_vcpu *vcpu, const struct soft_thunk *thunk, void *place,
                           uint64_t gva)
{
    if (thunk->fp & (SOFT_THUNK_FP_X87 | SOFT_THUNK_FP_MMX)) {
        return run_x87(vcpu, thunk, place, gva);
    }
    if ((thunk->fp & SOFT_THUNK_FP_ARITH) && HV_UNLIKELY(vcpu->fpu.sse_unmasked)) {
        return run_checked(vcpu, thunk, place);
    }
    thunk->code(vcpu->cpu, place);
    return 0;
}

/* An unmasked x87 exception other than precision keeps a store from being done (SDM 1 8.5). */
static bool store_suppressed(const struct hv_engine_vcpu *vcpu, const struct soft_thunk *thunk)
{
    const struct hv_cpu *cpu = vcpu->cpu;
    uint32_t precision = 0x20;

    return (thunk->fp & SOFT_THUNK_FP_X87) && !(thunk->x87 & SOFT_THUNK_X87_CONTROL) &&
           !vcpu->fpu.x87_live &&
           (soft_x_get(cpu, SOFT_X_FSW, 2) & ~soft_x_get(cpu, SOFT_X_FCW, 2) & SOFT_FCW_MASKS &
            ~precision);
}

/* A store, from a copy: what it changed beside memory is undone when memory refuses. */
static int run_store(struct hv_engine_vcpu *vcpu, const struct soft_thunk *thunk, uint64_t gva)
{
    uint8_t copy[64] HV_ALIGNED(64) = {0};
    struct soft_snapshot snapshot;
    int rc;

    soft_snapshot_take(vcpu, &snapshot);
    rc = run_code(vcpu, thunk, copy, gva);
    if (rc != 0 || store_suppressed(vcpu, thunk)) {
        return rc;
    }
    rc = soft_write_bytes(vcpu, gva, copy, thunk->memory_bytes);
    if (rc != 0) {
        soft_snapshot_restore(vcpu, &snapshot);
    }
    return rc;
}

static int run_modify(struct hv_engine_vcpu *vcpu, const struct soft_thunk *thunk, uint64_t gva)
{
    struct soft_snapshot snapshot;
    void *place;
    int rc;

    rc = soft_rmw_begin(vcpu, gva, thunk->memory_bytes, thunk->locked, &place);
    if (rc != 0) {
        return rc;
    }
    /* No such instruction raises a floating-point exception. */
    soft_snapshot_take(vcpu, &snapshot);
    thunk->code(vcpu->cpu, place);
    rc = soft_rmw_commit(vcpu);
    if (rc != 0) {
        soft_snapshot_restore(vcpu, &snapshot);
    }
    return rc;
}

/* The operand is misaligned, crosses a page, misses the TLB, or is no plain RAM. */
static HV_COLD int run_slow(struct hv_engine_vcpu *vcpu, const struct soft_thunk *thunk,
                            uint64_t gva)
{
    uint8_t copy[64] HV_ALIGNED(64);
    int rc;

    if ((thunk->fp & (SOFT_THUNK_FP_X87 | SOFT_THUNK_FP_MMX)) && !vcpu->fpu.x87_live &&
        !(thunk->x87 & SOFT_THUNK_X87_NOWAIT) && soft_x87_pending(vcpu->cpu)) {
        return soft_fault(vcpu, HV_VECTOR_MF);
    }
    if (thunk->aligned && (gva & (thunk->memory_bytes - 1u))) {
        return soft_fault(vcpu, HV_VECTOR_GP);
    }
    /* #AC, where every access comes here; an 80-bit number is aligned as 64 bits are (SDM 3A table
     * 6-7). */
    rc = soft_check_alignment(vcpu, vcpu->mode, gva,
                              thunk->memory_bytes == 10 ? 8 : thunk->memory_bytes);
    if (rc != 0) {
        return rc;
    }
    switch (thunk->memory_access) {
    case SOFT_ACCESS_WRITE:
        return run_store(vcpu, thunk, gva);
    case SOFT_ACCESS_READ | SOFT_ACCESS_WRITE:
        return run_modify(vcpu, thunk, gva);
    default:
        rc = soft_read_bytes(vcpu, gva, copy, thunk->memory_bytes);
        return rc != 0 ? rc : run_code(vcpu, thunk, copy, gva);
    }
}

int soft_thunk_run(struct hv_engine_vcpu *vcpu, const struct soft_thunk *thunk, uint64_t gva)
{
    void *place = NULL;
    int rc;

    if (thunk->fp && !fp_enabled(vcpu->cpu, thunk->fp)) {
        rc = soft_fp_check(vcpu, thunk->fp);
        if (rc != 0) {
            return rc;
        }
    }
    if (HV_UNLIKELY(thunk->special)) {
        return soft_thunk_special(vcpu, thunk, gva);
    }
    if (thunk->memory_bytes) {
        place = soft_tlb_lookup(&vcpu->view[thunk->view], vcpu->tlb_id, gva, thunk->memory_bytes);
        /* A store that may have to be taken back is made on a copy. */
        if (HV_UNLIKELY(!place || (gva & thunk->slow_mask)) ||
            ((thunk->fp & SOFT_THUNK_FP_ARITH) && vcpu->fpu.sse_unmasked &&
             thunk->view == SOFT_TLB_WRITE)) {
            return run_slow(vcpu, thunk, gva);
        }
    }
    return run_code(vcpu, thunk, place, gva);
}

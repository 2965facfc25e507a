/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The guest's floating-point state in the host's registers: MXCSR for as long as the engine runs,
 * the x87 and MMX registers from their first use until somebody needs them in memory.
 *
 * What stands in the host while x87 state is live: registers, tags, status and control word, all
 * the guest's own. What does not: the instruction and data pointers, which would name thunks; the
 * guest's are kept in cpu->x.
 *
 *   FIP            the last x87 instruction that is no control instruction
 *   FDP, FOP       of the last one that raised an unmasked exception, as processors do that report
 *                  FDP_EXCPTN_ONLY and, for FOP, without fopcode compatibility (SDM 1 8.1.8, 8.1.9)
 *   FCS, FDS       zero, as with CPUID 7.0 EBX bit 13
 *
 * A pending exception is always in cpu->x, never live, so no host instruction can trap on it. It
 * is #MF whatever CR0.NE says: FERR# and IGNNE# are not modelled.
 *
 * Source: SDM 1 chapters 8 (x87), 9.5 (MMX and x87), 10.2.3 (MXCSR); SDM 2 FXSAVE.
 */
#include "engine/soft/thunk-private.h"

/* The area FXSAVE wants: 16-byte aligned. */
struct fx_image {
    uint8_t bytes[512] HV_ALIGNED(64);
};

static uint16_t host_status(void)
{
    uint16_t status;

    __asm__ volatile("fnstsw %0" : "=a"(status));
    return status;
}

static uint16_t host_control(void)
{
    uint16_t control;

    __asm__ volatile("fnstcw %0" : "=m"(control));
    return control;
}

void soft_fpu_enter(struct hv_engine_vcpu *vcpu)
{
    struct hv_cpu *cpu = vcpu->cpu;

    vcpu->fpu.x87_live = false;
    vcpu->fpu.host_fcw = host_control();
    vcpu->fpu.host_mxcsr = soft_host_mxcsr();
    /* State from outside may hold anything; reserved bits would raise a host's #GP. */
    soft_mxcsr_set(vcpu, soft_x_get(cpu, SOFT_X_MXCSR, 4) & SOFT_MXCSR_VALID);
}

void soft_fpu_leave(struct hv_engine_vcpu *vcpu)
{
    soft_fpu_spill(vcpu);
    soft_mxcsr_sync(vcpu);
    soft_host_set_mxcsr(vcpu->fpu.host_mxcsr);
}

void soft_mxcsr_sync(struct hv_engine_vcpu *vcpu)
{
    struct hv_cpu *cpu = vcpu->cpu;
    uint32_t guest = soft_x_get(cpu, SOFT_X_MXCSR, 4);

    /* Under unmasked exceptions the checked form keeps the guest's flags itself. */
    if (!vcpu->fpu.sse_unmasked) {
        guest |= soft_host_mxcsr() & SOFT_MXCSR_FLAGS;
        soft_x_set(cpu, SOFT_X_MXCSR, 4, guest);
    }
}

void soft_mxcsr_set(struct hv_engine_vcpu *vcpu, uint32_t value)
{
    soft_x_set(vcpu->cpu, SOFT_X_MXCSR, 4, value);
    vcpu->fpu.sse_unmasked = (value & SOFT_MXCSR_MASKS) != SOFT_MXCSR_MASKS;
    soft_host_set_mxcsr(value | SOFT_MXCSR_MASKS);
}

int soft_x87_load(struct hv_engine_vcpu *vcpu, bool waiting)
{
    struct hv_cpu *cpu = vcpu->cpu;
    uint32_t mxcsr;

    if (vcpu->fpu.x87_live) {
        return 0;
    }
    if (waiting && soft_x87_pending(cpu)) {
        return soft_fault(vcpu, HV_VECTOR_MF);
    }
    /* FXRSTOR takes the vector registers along, which are free here, and MXCSR, which is not: the
     * image's was checked when it came in, and the host's own is put back. */
    mxcsr = soft_host_mxcsr();
    __asm__ volatile("fxrstor64 %0"
                     :
                     : "m"(cpu->x)
                     : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8",
                       "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
    soft_host_set_mxcsr(mxcsr);
    vcpu->fpu.x87_live = true;
    vcpu->fpu.x87_unmasked = ~soft_x_get(cpu, SOFT_X_FCW, 2) & SOFT_FCW_MASKS;
    return 0;
}

void soft_x87_drop(struct hv_engine_vcpu *vcpu)
{
    if (vcpu->fpu.x87_live) {
        vcpu->fpu.x87_live = false;
        /* FNINIT forgets a pending exception before the waiting FLDCW. */
        __asm__ volatile("fninit; fldcw %0" : : "m"(vcpu->fpu.host_fcw));
    }
}

void soft_fpu_spill(struct hv_engine_vcpu *vcpu)
{
    struct hv_cpu *cpu = vcpu->cpu;
    struct fx_image image;

    if (!vcpu->fpu.x87_live) {
        return;
    }
    __asm__ volatile("fxsave64 %0" : "=m"(image));
    memcpy(&cpu->x.bytes[SOFT_X_FCW], &image.bytes[SOFT_X_FCW], SOFT_X_FOP - SOFT_X_FCW);
    memcpy(&cpu->x.bytes[SOFT_X_ST], &image.bytes[SOFT_X_ST], SOFT_X_XMM - SOFT_X_ST);
    soft_x87_drop(vcpu);
}

unsigned soft_x87_settle(struct hv_engine_vcpu *vcpu)
{
    uint16_t status = host_status();
    unsigned unmasked = ~(unsigned)host_control() & SOFT_FCW_MASKS;

    vcpu->fpu.x87_unmasked = unmasked;
    if (status & SOFT_FSW_ES) {
        soft_fpu_spill(vcpu);
    }
    return status & unmasked;
}

void soft_snapshot_take(struct hv_engine_vcpu *vcpu, struct soft_snapshot *snapshot)
{
    soft_fpu_spill(vcpu);
    soft_mxcsr_sync(vcpu);
    snapshot->x = vcpu->cpu->x;
    memcpy(snapshot->gpr, vcpu->cpu->slot, sizeof(snapshot->gpr));
    snapshot->arith = vcpu->cpu->arith;
}

void soft_snapshot_restore(struct hv_engine_vcpu *vcpu, const struct soft_snapshot *snapshot)
{
    soft_x87_drop(vcpu);
    vcpu->cpu->x = snapshot->x;
    memcpy(vcpu->cpu->slot, snapshot->gpr, sizeof(snapshot->gpr));
    vcpu->cpu->arith = snapshot->arith;
    soft_mxcsr_set(vcpu, soft_x_get(vcpu->cpu, SOFT_X_MXCSR, 4));
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Control registers, MSRs, CPUID, time, TLB, HLT and the like. Source: SDM 2. */
#include "engine/soft/insn.h"

#include "engine/soft/access.h"
#include "engine/soft/thunk.h"

#include "base/clock.h"
#include "cpu/control.h"

#include <errno.h>
#include <sys/random.h>

/* PAUSEs further apart than this are not of one loop (on silicon: the gap of pause-loop exiting). */
#define PAUSE_GAP_NS (5 * HV_NS_PER_US)

int soft_insn_undefined(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    (void)call;
    (void)gva;
    return soft_insn_raise(vcpu, HV_VECTOR_UD);
}

int soft_insn_too_long(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    (void)call;
    (void)gva;
    return soft_insn_raise_gp(vcpu);
}

int soft_insn_privilege(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    (void)call;
    (void)gva;
    return soft_insn_raise_gp(vcpu);
}

static void set_pair(struct hv_cpu *cpu, uint64_t value)
{
    soft_set4(cpu, HV_REG_RAX * 8u, (uint32_t)value);
    soft_set4(cpu, HV_REG_RDX * 8u, (uint32_t)(value >> 32));
}

static uint64_t get_pair(const struct hv_cpu *cpu)
{
    return soft_get4(cpu, HV_REG_RAX * 8u) | (uint64_t)soft_get4(cpu, HV_REG_RDX * 8u) << 32;
}

int soft_insn_cpuid(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    struct hv_cpu *cpu = vcpu->cpu;
    struct hv_cpuid_leaf leaf =
        hv_cpuid(cpu, soft_get4(cpu, HV_REG_RAX * 8u), soft_get4(cpu, HV_REG_RCX * 8u));

    (void)call;
    (void)gva;
    soft_set4(cpu, HV_REG_RAX * 8u, leaf.eax);
    soft_set4(cpu, HV_REG_RBX * 8u, leaf.ebx);
    soft_set4(cpu, HV_REG_RCX * 8u, leaf.ecx);
    soft_set4(cpu, HV_REG_RDX * 8u, leaf.edx);
    return SOFT_RESULT_NEXT;
}

int soft_insn_rdtsc(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    struct hv_cpu *cpu = vcpu->cpu;

    (void)call;
    (void)gva;
    if ((cpu->cr4 & HV_CR4_TSD) && cpu->cpl > 0) {
        return soft_insn_raise_gp(vcpu);
    }
    set_pair(cpu, cpu->hooks->tsc_read(cpu->hook_context));
    return SOFT_RESULT_NEXT;
}

int soft_insn_rdtscp(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    int rc = soft_insn_rdtsc(vcpu, call, gva);

    if (!rc) {
        soft_set4(vcpu->cpu, HV_REG_RCX * 8u, (uint32_t)vcpu->cpu->msr.tsc_aux);
    }
    return rc;
}

int soft_insn_rdpid(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    return soft_operand_write(vcpu, call, 0, gva, (uint32_t)vcpu->cpu->msr.tsc_aux);
}

/* CPUID leaf 0Ah shows no counter: every index is out of range. */
int soft_insn_rdpmc(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    (void)call;
    (void)gva;
    return soft_insn_raise_gp(vcpu);
}

int soft_insn_rdmsr(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    uint64_t value;
    int rc =
        hv_control_read_msr(vcpu->cpu, soft_get4(vcpu->cpu, HV_REG_RCX * 8u), &value, &vcpu->fault);

    (void)call;
    (void)gva;
    if (!rc) {
        set_pair(vcpu->cpu, value);
    }
    return rc;
}

int soft_insn_wrmsr(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    int rc = hv_control_write_msr(vcpu->cpu, &vcpu->access, soft_get4(vcpu->cpu, HV_REG_RCX * 8u),
                                  get_pair(vcpu->cpu), &vcpu->fault);

    (void)gva;
    return rc ? rc : soft_leave(vcpu, call);
}

int soft_insn_mov_cr(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    const struct soft_operand *dst = &call->insn.operand[0], *src = &call->insn.operand[1];
    uint64_t value;
    int rc;

    if (dst->kind == SOFT_OPERAND_CR) {
        rc = soft_operand_read(vcpu, call, 1, gva, &value);
        if (!rc) {
            rc = hv_control_write_cr(vcpu->cpu, &vcpu->access, dst->reg, value, &vcpu->fault);
        }
        return rc ? rc : soft_leave(vcpu, call);
    }
    rc = hv_control_read_cr(vcpu->cpu, src->reg, &value, &vcpu->fault);
    return rc ? rc : soft_operand_write(vcpu, call, 0, gva, value);
}

int soft_insn_mov_dr(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    const struct soft_operand *dst = &call->insn.operand[0], *src = &call->insn.operand[1];
    uint64_t value;
    int rc;

    if (dst->kind == SOFT_OPERAND_DR) {
        rc = soft_operand_read(vcpu, call, 1, gva, &value);
        if (!rc) {
            rc = hv_control_write_dr(vcpu->cpu, dst->reg, value, &vcpu->fault);
        }
        return rc ? rc : soft_leave(vcpu, call);
    }
    rc = hv_control_read_dr(vcpu->cpu, src->reg, &value, &vcpu->fault);
    return rc ? rc : soft_operand_write(vcpu, call, 0, gva, value);
}

int soft_insn_clts(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    struct hv_cpu *cpu = vcpu->cpu;
    int rc =
        hv_control_write_cr(cpu, &vcpu->access, 0, cpu->cr0 & ~(uint64_t)HV_CR0_TS, &vcpu->fault);

    (void)gva;
    return rc ? rc : soft_leave(vcpu, call);
}

int soft_insn_lmsw(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    uint64_t value;
    int rc = soft_operand_read(vcpu, call, 0, gva, &value);

    if (!rc) {
        rc = hv_control_lmsw(vcpu->cpu, &vcpu->access, (uint16_t)value, &vcpu->fault);
    }
    return rc ? rc : soft_leave(vcpu, call);
}

int soft_insn_smsw(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    const struct hv_cpu *cpu = vcpu->cpu;

    if ((cpu->cr4 & HV_CR4_UMIP) && cpu->cpl > 0) {
        return soft_insn_raise_gp(vcpu);
    }
    return soft_operand_write(vcpu, call, 0, gva, cpu->cr0);
}

int soft_insn_invlpg(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    soft_tlb_flush_page(vcpu, (hv_gva){gva});
    return soft_leave(vcpu, call);
}

int soft_insn_invpcid(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    uint64_t descriptor[2], type;
    int rc = soft_operand_read(vcpu, call, 0, gva, &type);

    if (!rc) {
        rc = soft_read_bytes(vcpu, gva, descriptor, sizeof(descriptor));
    }
    if (!rc) {
        rc = hv_control_invpcid(vcpu->cpu, &vcpu->access, type, descriptor, &vcpu->fault);
    }
    return rc ? rc : soft_leave(vcpu, call);
}

/* Guest memory is coherent with everything: INVD and WBINVD have nothing to write back. */
int soft_insn_invd(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    (void)vcpu;
    (void)call;
    (void)gva;
    return SOFT_RESULT_NEXT;
}

/* The run loop finds out whether an interrupt ends the halt at once. */
int soft_insn_hlt(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    (void)gva;
    vcpu->cpu->activity = HV_ACTIVITY_HALTED;
    return soft_leave(vcpu, call);
}

static int set_ac(struct hv_engine_vcpu *vcpu, bool ac)
{
    struct hv_cpu *cpu = vcpu->cpu;

    if (cpu->cpl > 0) {
        return soft_insn_raise(vcpu, HV_VECTOR_UD);
    }
    cpu->rflags = ac ? cpu->rflags | HV_RFLAGS_AC : cpu->rflags & ~(uint32_t)HV_RFLAGS_AC;
    soft_tlb_set_mode(vcpu);
    return SOFT_RESULT_NEXT;
}

int soft_insn_stac(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    (void)call;
    (void)gva;
    return set_ac(vcpu, true);
}

int soft_insn_clac(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    (void)call;
    (void)gva;
    return set_ac(vcpu, false);
}

int soft_insn_xsetbv(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    struct hv_cpu *cpu = vcpu->cpu;
    int rc;

    (void)gva;
    if (!(cpu->cr4 & HV_CR4_OSXSAVE)) {
        return soft_insn_raise(vcpu, HV_VECTOR_UD);
    }
    rc = hv_control_xsetbv(cpu, soft_get4(cpu, HV_REG_RCX * 8u), get_pair(cpu), &vcpu->fault);
    return rc ? rc : soft_leave(vcpu, call);
}

/* VMCALL, VMMCALL. CPL 3 is refused without an exit, as other hypervisors do (-EPERM of Linux). */
int soft_insn_vmcall(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    struct hv_cpu *cpu = vcpu->cpu;

    (void)gva;
    if (cpu->cpl > 0) {
        soft_set8(cpu, HV_REG_RAX * 8u, hv_cpu_code64(cpu) ? UINT64_MAX : UINT32_MAX);
        return SOFT_RESULT_NEXT;
    }
    cpu->rip = soft_next_rip(vcpu, call);
    vcpu->stop = (struct hv_exit){.kind = HV_EXIT_HYPERCALL};
    return SOFT_RESULT_STOP;
}

/* RDRAND, RDSEED: from the host kernel's pool, which never runs dry. */
int soft_insn_random(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    uint64_t value = 0;
    bool good = getrandom(&value, sizeof(value), 0) == (ssize_t)sizeof(value);
    int rc = soft_operand_write(vcpu, call, 0, gva, good ? value : 0);

    if (!rc) {
        vcpu->cpu->arith = hv_arith_from_rflags(good ? HV_RFLAGS_CF : 0);
    }
    return rc;
}

int soft_insn_pause(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    hv_ns now = hv_clock_now(vcpu->clock);

    (void)gva;
    vcpu->pauses = now.v - vcpu->paused_at.v > PAUSE_GAP_NS ? 1 : vcpu->pauses + 1;
    vcpu->paused_at = now;
    if (vcpu->pauses < *vcpu->pause_window) {
        return SOFT_RESULT_NEXT;
    }
    vcpu->pauses = 0;
    vcpu->cpu->rip = soft_next_rip(vcpu, call);
    vcpu->stop = (struct hv_exit){.kind = HV_EXIT_PAUSE_LOOP};
    return SOFT_RESULT_STOP;
}

/* FXSAVE to XGETBV, LDMXCSR, FNINIT, …: thunk.h decides which. */
int soft_insn_xstate(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    int rc = soft_xstate_insn(vcpu, &call->insn, gva);

    return rc == -ENOTSUP ? soft_insn_raise(vcpu, HV_VECTOR_UD) : rc;
}

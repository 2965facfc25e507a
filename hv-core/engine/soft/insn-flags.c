/* SPDX-License-Identifier: GPL-3.0-or-later */
/* PUSHF, POPF, CLI, STI, LAHF, SAHF, CLD, STD. Source: SDM 2. */
#include "engine/soft/insn.h"

#include "engine/soft/access.h"

static unsigned iopl(const struct hv_cpu *cpu)
{
    return (cpu->rflags & HV_RFLAGS_IOPL) >> 12;
}

/* Virtual-8086 mode below IOPL 3: everything that shows IF traps (no VME). */
static bool v86_traps(const struct hv_cpu *cpu)
{
    return hv_cpu_v86(cpu) && iopl(cpu) < 3;
}

int soft_insn_pushf(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    struct hv_cpu *cpu = vcpu->cpu;
    uint64_t top = soft_stack_pointer(cpu);
    uint64_t image = hv_cpu_rflags(cpu) & ~(uint64_t)(HV_RFLAGS_RF | HV_RFLAGS_VM);
    int rc;

    (void)gva;
    if (v86_traps(cpu)) {
        return soft_insn_raise_gp(vcpu);
    }
    rc = soft_stack_push(vcpu, &top, call->insn.operand_bytes, image);
    if (!rc) {
        soft_set_stack_pointer(cpu, top);
    }
    return rc;
}

/* Bits that POPF may change at this privilege (SDM 2, table 4-15). */
static uint32_t popf_mask(const struct hv_cpu *cpu, unsigned bytes)
{
    uint32_t mask = HV_RFLAGS_ARITH | HV_RFLAGS_TF | HV_RFLAGS_DF | HV_RFLAGS_NT;

    if (bytes > 2) {
        mask |= HV_RFLAGS_AC | HV_RFLAGS_ID | HV_RFLAGS_RF;
    }
    if (cpu->cpl == 0) {
        mask |= HV_RFLAGS_IOPL;
    }
    if (cpu->cpl <= iopl(cpu)) {
        mask |= HV_RFLAGS_IF;
    }
    return mask;
}

int soft_insn_popf(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    struct hv_cpu *cpu = vcpu->cpu;
    unsigned bytes = call->insn.operand_bytes;
    uint64_t top = soft_stack_pointer(cpu);
    uint32_t before = cpu->rflags, mask = popf_mask(cpu, bytes);
    uint64_t image;
    int rc;

    (void)gva;
    if (v86_traps(cpu)) {
        return soft_insn_raise_gp(vcpu);
    }
    rc = soft_stack_pop(vcpu, &top, bytes, &image);
    if (rc) {
        return rc;
    }
    soft_set_stack_pointer(cpu, top);
    /* RF is cleared whatever the image says. */
    image &= ~(uint64_t)HV_RFLAGS_RF;
    hv_cpu_set_rflags(cpu, (hv_cpu_rflags(cpu) & ~(uint64_t)mask) | (image & mask));
    if ((cpu->rflags & ~before & (HV_RFLAGS_IF | HV_RFLAGS_TF)) != 0) {
        return soft_leave(vcpu, call);
    }
    if ((cpu->rflags ^ before) & HV_RFLAGS_AC) {
        soft_tlb_set_mode(vcpu);
    }
    return SOFT_RESULT_NEXT;
}

int soft_insn_cli(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    struct hv_cpu *cpu = vcpu->cpu;

    (void)call;
    (void)gva;
    if (cpu->cpl > iopl(cpu)) {
        return soft_insn_raise_gp(vcpu);
    }
    cpu->rflags &= ~(uint32_t)HV_RFLAGS_IF;
    return SOFT_RESULT_NEXT;
}

int soft_insn_sti(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    struct hv_cpu *cpu = vcpu->cpu;

    (void)gva;
    if (cpu->cpl > iopl(cpu)) {
        return soft_insn_raise_gp(vcpu);
    }
    if (cpu->rflags & HV_RFLAGS_IF) {
        return SOFT_RESULT_NEXT;
    }
    cpu->rflags |= HV_RFLAGS_IF;
    cpu->sti_shadow = true;
    return soft_leave(vcpu, call);
}

static bool ah_works(const struct hv_cpu *cpu)
{
    return !hv_cpu_code64(cpu) || hv_cpu_has(cpu, HV_FEATURE_LAHF64);
}

int soft_insn_lahf(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    (void)call;
    (void)gva;
    if (!ah_works(vcpu->cpu)) {
        return soft_insn_raise(vcpu, HV_VECTOR_UD);
    }
    soft_set1(vcpu->cpu, HV_REG_RAX * 8u + 1, (uint8_t)hv_cpu_rflags(vcpu->cpu));
    return SOFT_RESULT_NEXT;
}

int soft_insn_sahf(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    struct hv_cpu *cpu = vcpu->cpu;

    (void)call;
    (void)gva;
    if (!ah_works(cpu)) {
        return soft_insn_raise(vcpu, HV_VECTOR_UD);
    }
    cpu->arith = hv_arith_from_rflags((hv_cpu_rflags(cpu) & HV_RFLAGS_OF) |
                                      soft_get1(cpu, HV_REG_RAX * 8u + 1));
    return SOFT_RESULT_NEXT;
}

int soft_insn_cld(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    (void)call;
    (void)gva;
    vcpu->cpu->rflags &= ~(uint32_t)HV_RFLAGS_DF;
    return SOFT_RESULT_NEXT;
}

int soft_insn_std(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    (void)call;
    (void)gva;
    vcpu->cpu->rflags |= HV_RFLAGS_DF;
    return SOFT_RESULT_NEXT;
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* SYSCALL, SYSRET, SYSENTER, SYSEXIT: segments come from MSRs and fixed attributes, no descriptor is
 * read. As Intel's parts do it: SYSCALL in 64-bit mode only, a non-canonical return address is #GP
 * still in ring 0. Source: SDM 2, the four instructions. */
#include "cpu/transfer.h"

#include "cpu/descriptor.h"
#include "cpu/fault.h"
#include "cpu/segment.h"

enum width { WIDTH_32, WIDTH_64 };

/* CS and SS of ring @dpl from a base selector. */
static void enter_flat(struct hv_cpu *cpu, uint16_t cs, uint16_t ss, unsigned dpl, enum width width)
{
    uint32_t attr = HV_SEG_ATTR_CODE | (width == WIDTH_64 ? HV_SEG_ATTR_L : HV_SEG_ATTR_DB);
    struct hv_segment code = hv_segment_flat(cs, attr, dpl);
    struct hv_segment stack = hv_segment_flat(ss, HV_SEG_ATTR_DB, dpl);

    cpu->cpl = (uint8_t)dpl;
    hv_segment_set(cpu, HV_SEG_CS, &code);
    hv_segment_set(cpu, HV_SEG_SS, &stack);
}

int hv_transfer_syscall(struct hv_cpu *cpu, uint64_t next_rip, struct hv_fault *fault_out)
{
    uint16_t selector = (uint16_t)(cpu->msr.star >> 32) & 0xfffc;
    uint64_t flags = hv_cpu_rflags(cpu) & ~(uint64_t)HV_RFLAGS_RF;

    if (!hv_cpu_code64(cpu) || !(cpu->efer & HV_EFER_SCE)) {
        return hv_fault_plain(fault_out, HV_VECTOR_UD);
    }
    cpu->slot[HV_REG_RCX] = next_rip;
    cpu->slot[HV_REG_R11] = flags;
    cpu->rip = cpu->msr.lstar;
    hv_cpu_set_rflags(cpu, flags & ~cpu->msr.fmask);
    enter_flat(cpu, selector, (uint16_t)(selector + 8), 0, WIDTH_64);
    return 0;
}

int hv_transfer_sysret(struct hv_cpu *cpu, unsigned operand_bytes, struct hv_fault *fault_out)
{
    const uint64_t flags_mask = 0x3c7fd7;
    uint16_t base = (uint16_t)(cpu->msr.star >> 48);
    uint64_t rcx = cpu->slot[HV_REG_RCX];
    bool to64 = operand_bytes == 8;

    if (!hv_cpu_code64(cpu) || !(cpu->efer & HV_EFER_SCE)) {
        return hv_fault_plain(fault_out, HV_VECTOR_UD);
    }
    if (cpu->cpl != 0 || (to64 && !hv_canonical(rcx))) {
        return hv_fault_gp0(fault_out);
    }
    cpu->rip = to64 ? rcx : (uint32_t)rcx;
    hv_cpu_set_rflags(cpu, cpu->slot[HV_REG_R11] & flags_mask);
    enter_flat(cpu, (uint16_t)((base + (to64 ? 16 : 0)) | 3), (uint16_t)((base + 8) | 3), 3,
               to64 ? WIDTH_64 : WIDTH_32);
    return 0;
}

int hv_transfer_sysenter(struct hv_cpu *cpu, struct hv_fault *fault_out)
{
    bool long_mode = hv_cpu_long_mode(cpu);
    uint16_t selector = (uint16_t)cpu->msr.sysenter_cs & 0xfffc;
    uint64_t mask = long_mode ? UINT64_MAX : UINT32_MAX;

    if (!hv_cpu_protected(cpu) || selector == 0) {
        return hv_fault_gp0(fault_out);
    }
    cpu->rflags &= ~(uint32_t)(HV_RFLAGS_VM | HV_RFLAGS_IF);
    cpu->slot[HV_REG_RSP] = cpu->msr.sysenter_esp & mask;
    cpu->rip = cpu->msr.sysenter_eip & mask;
    enter_flat(cpu, selector, (uint16_t)(selector + 8), 0, long_mode ? WIDTH_64 : WIDTH_32);
    return 0;
}

int hv_transfer_sysexit(struct hv_cpu *cpu, unsigned operand_bytes, struct hv_fault *fault_out)
{
    uint16_t base = (uint16_t)cpu->msr.sysenter_cs & 0xfffc;
    uint64_t rcx = cpu->slot[HV_REG_RCX];
    uint64_t rdx = cpu->slot[HV_REG_RDX];
    bool to64 = operand_bytes == 8;

    if (!hv_cpu_protected(cpu) || base == 0 || cpu->cpl != 0 ||
        (to64 && (!hv_canonical(rcx) || !hv_canonical(rdx)))) {
        return hv_fault_gp0(fault_out);
    }
    cpu->slot[HV_REG_RSP] = to64 ? rcx : (uint32_t)rcx;
    cpu->rip = to64 ? rdx : (uint32_t)rdx;
    enter_flat(cpu, (uint16_t)((base + (to64 ? 32 : 16)) | 3),
               (uint16_t)((base + (to64 ? 40 : 24)) | 3), 3, to64 ? WIDTH_64 : WIDTH_32);
    return 0;
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * RDMSR and WRMSR. Registers that are storage with a rule for what may be stored are rows of one
 * table; those with an effect have functions; what the platform owns (local APIC, TSC deadline)
 * goes to its hook; everything else is #GP(0).
 *
 * Present is what Linux reads without catching the fault, and what our CPUID promises.
 * Source: SDM 4 table 2-2; SDM 3A 11.4.4 (APIC base), 12.11 (MTRRs), 12.12 (PAT).
 */
#include "cpu/control.h"

#include "cpu/fault.h"
#include "cpu/policy.h"

#include <errno.h>

enum msr_index {
    MSR_TSC = 0x10,
    MSR_PLATFORM_ID = 0x17,
    MSR_APIC_BASE = 0x1b,
    MSR_EBL_CR_POWERON = 0x2a,
    MSR_SMI_COUNT = 0x34,
    MSR_FEATURE_CONTROL = 0x3a,
    MSR_TSC_ADJUST = 0x3b,
    MSR_SPEC_CTRL = 0x48,
    MSR_PRED_CMD = 0x49,
    MSR_BIOS_SIGN_ID = 0x8b,
    MSR_PLATFORM_INFO = 0xce,
    MSR_MTRR_CAP = 0xfe,
    MSR_ARCH_CAPABILITIES = 0x10a,
    MSR_SYSENTER_CS = 0x174,
    MSR_SYSENTER_ESP = 0x175,
    MSR_SYSENTER_EIP = 0x176,
    MSR_MCG_CAP = 0x179,
    MSR_MCG_STATUS = 0x17a,
    MSR_MISC_ENABLE = 0x1a0,
    MSR_DEBUGCTL = 0x1d9,
    MSR_LAST_BRANCH_FROM = 0x1db,
    MSR_LAST_BRANCH_TO = 0x1dc,
    MSR_LAST_INT_FROM = 0x1dd,
    MSR_LAST_INT_TO = 0x1de,
    MSR_MTRR_PHYS_BASE0 = 0x200,
    MSR_MTRR_PHYS_MASK0 = 0x201,
    MSR_MTRR_FIX_64K = 0x250,
    MSR_MTRR_FIX_16K = 0x258,
    MSR_MTRR_FIX_4K = 0x268,
    MSR_PAT = 0x277,
    MSR_MTRR_DEF_TYPE = 0x2ff,
    MSR_X2APIC_FIRST = 0x800,
    MSR_X2APIC_LAST = 0x8ff,
    MSR_XSS = 0xda0,
};

/* Those above INT_MAX are no enumerators of ISO C. */
#define MSR_EFER             UINT32_C(0xc0000080)
#define MSR_STAR             UINT32_C(0xc0000081)
#define MSR_LSTAR            UINT32_C(0xc0000082)
#define MSR_CSTAR            UINT32_C(0xc0000083)
#define MSR_FMASK            UINT32_C(0xc0000084)
#define MSR_FS_BASE          UINT32_C(0xc0000100)
#define MSR_GS_BASE          UINT32_C(0xc0000101)
#define MSR_KERNEL_GS_BASE   UINT32_C(0xc0000102)
#define MSR_TSC_AUX          UINT32_C(0xc0000103)

#define BEYOND_PHYSICAL      (~(HV_BIT(HV_GUEST_PHYS_BITS) - 1))

/* IA32_FEATURE_CONTROL: neither VMX nor SGX nor LMCE is there to be enabled. */
#define FEATURE_CONTROL_LOCK UINT64_C(1)

/* IA32_MISC_ENABLE: fast strings, thermal control, performance monitoring, SpeedStep, MONITOR, CPUID
 * limit, xTPR, XD and turbo are stored without effect: what they switch is not shown, or is there
 * for good. BTS and PEBS always read as unavailable. */
#define MISC_ENABLE_FIXED    (HV_BIT(11) | HV_BIT(12))
#define MISC_ENABLE_KNOWN                                                              \
    (MISC_ENABLE_FIXED | HV_BIT(0) | HV_BIT(3) | HV_BIT(7) | HV_BIT(16) | HV_BIT(18) | \
     HV_BIT(22) | HV_BIT(23) | HV_BIT(34) | HV_BIT(38))

#define APIC_BASE_MODE (HV_APIC_BASE_ENABLE | HV_APIC_BASE_X2APIC)

enum msr_rule {
    MSR_RULE_BITS,       /* only those in row->writable */
    MSR_RULE_CANONICAL,  /* an address */
    MSR_RULE_PAT,        /* eight memory types of the PAT */
    MSR_RULE_MTRR_FIXED, /* eight memory types of MTRRs */
    MSR_RULE_MTRR_TYPE,  /* one of them in the low byte, the rest as MSR_RULE_BITS */
};

/* @count registers at @first, @first + @stride, … kept in an array of struct hv_cpu_msrs. */
struct msr_row {
    uint32_t first;
    uint8_t count, stride;
    uint8_t rule; /* enum msr_rule */
    uint16_t offset;
    uint64_t writable;
};

#define AT(member) offsetof(struct hv_cpu_msrs, member)

static const struct msr_row rows[] = {
    /* IBRS and STIBP; SSBD is not shown. */
    {MSR_SPEC_CTRL, 1, 1, MSR_RULE_BITS, AT(spec_ctrl), 0x3},
    {MSR_SYSENTER_CS, 1, 1, MSR_RULE_BITS, AT(sysenter_cs), UINT64_MAX},
    {MSR_SYSENTER_ESP, 1, 1, MSR_RULE_CANONICAL, AT(sysenter_esp), 0},
    {MSR_SYSENTER_EIP, 1, 1, MSR_RULE_CANONICAL, AT(sysenter_eip), 0},
    /* LBR and BTF. */
    {MSR_DEBUGCTL, 1, 1, MSR_RULE_BITS, AT(debugctl), 0x3},
    {MSR_MTRR_PHYS_BASE0, 8, 2, MSR_RULE_MTRR_TYPE, AT(mtrr_base), ~(BEYOND_PHYSICAL | 0xf00)},
    {MSR_MTRR_PHYS_MASK0, 8, 2, MSR_RULE_BITS, AT(mtrr_mask), ~(BEYOND_PHYSICAL | 0x7ff)},
    {MSR_MTRR_FIX_64K, 1, 1, MSR_RULE_MTRR_FIXED, AT(mtrr_fixed[0]), 0},
    {MSR_MTRR_FIX_16K, 2, 1, MSR_RULE_MTRR_FIXED, AT(mtrr_fixed[1]), 0},
    {MSR_MTRR_FIX_4K, 8, 1, MSR_RULE_MTRR_FIXED, AT(mtrr_fixed[3]), 0},
    {MSR_PAT, 1, 1, MSR_RULE_PAT, AT(pat), 0},
    {MSR_MTRR_DEF_TYPE, 1, 1, MSR_RULE_MTRR_TYPE, AT(mtrr_def_type), 0xcff},
    {MSR_STAR, 1, 1, MSR_RULE_BITS, AT(star), UINT64_MAX},
    {MSR_LSTAR, 1, 1, MSR_RULE_CANONICAL, AT(lstar), 0},
    {MSR_CSTAR, 1, 1, MSR_RULE_CANONICAL, AT(cstar), 0},
    {MSR_FMASK, 1, 1, MSR_RULE_BITS, AT(fmask), UINT32_MAX},
    {MSR_KERNEL_GS_BASE, 1, 1, MSR_RULE_CANONICAL, AT(kernel_gs_base), 0},
    {MSR_TSC_AUX, 1, 1, MSR_RULE_BITS, AT(tsc_aux), UINT32_MAX},
};

static const struct msr_row *row_of(uint32_t index, size_t *offset_out)
{
    for (size_t i = 0; i < HV_ARRAY_LEN(rows); i++) {
        const struct msr_row *row = &rows[i];
        uint32_t distance = index - row->first;

        if (index >= row->first && distance % row->stride == 0 &&
            distance / row->stride < row->count) {
            *offset_out = row->offset + distance / row->stride * sizeof(uint64_t);
            return row;
        }
    }
    return NULL;
}

/* SDM 3A tables 12-2 and 12-10: UC, WC, WT, WP, WB; UC- is the PAT's only. */
static bool memory_type(uint8_t type, bool pat)
{
    return type == 0 || type == 1 || (type >= 4 && type <= 6) || (pat && type == 7);
}

static bool memory_types(uint64_t value, bool pat)
{
    for (unsigned i = 0; i < 8; i++) {
        if (!memory_type((uint8_t)(value >> (8 * i)), pat)) {
            return false;
        }
    }
    return true;
}

static bool row_allows(const struct msr_row *row, uint64_t value)
{
    switch ((enum msr_rule)row->rule) {
    case MSR_RULE_BITS:
        return !(value & ~row->writable);
    case MSR_RULE_CANONICAL:
        return hv_canonical(value);
    case MSR_RULE_PAT:
        return memory_types(value, true);
    case MSR_RULE_MTRR_FIXED:
        return memory_types(value, false);
    case MSR_RULE_MTRR_TYPE:
        return !(value & ~row->writable) && memory_type((uint8_t)value, false);
    }
    return false;
}

/* Registers that always read the same, or are no storage of ours. False: not one of them. */
static bool read_constant(const struct hv_cpu *cpu, uint32_t index, uint64_t *value_out)
{
    switch (index) {
    case MSR_PLATFORM_ID:
    case MSR_EBL_CR_POWERON:
    case MSR_SMI_COUNT:
    case MSR_MCG_CAP: /* no bank, no control register */
    case MSR_MCG_STATUS:
    case MSR_LAST_BRANCH_FROM:
    case MSR_LAST_BRANCH_TO:
    case MSR_LAST_INT_FROM:
    case MSR_LAST_INT_TO:
        *value_out = 0;
        return true;
    case MSR_BIOS_SIGN_ID:
        *value_out = HV_BIT(32); /* microcode revision 1 */
        return true;
    case MSR_PLATFORM_INFO:
        *value_out = (cpu->policy->tsc_khz / 100000 & 0xff) << 8; /* ratio to 100 MHz */
        return true;
    case MSR_MTRR_CAP:
        *value_out = 0x508; /* 8 variable, fixed, write-combining */
        return true;
    case MSR_ARCH_CAPABILITIES:
        *value_out = cpu->policy->arch_capabilities;
        return true;
    case MSR_APIC_BASE:
        *value_out = cpu->msr.apic_base;
        return true;
    case MSR_FEATURE_CONTROL:
        *value_out = cpu->msr.feature_control;
        return true;
    case MSR_TSC_ADJUST:
        *value_out = (uint64_t)cpu->msr.tsc_adjust;
        return true;
    case MSR_MISC_ENABLE:
        *value_out = cpu->msr.misc_enable;
        return true;
    case MSR_EFER:
        *value_out = cpu->efer;
        return true;
    case MSR_FS_BASE:
        *value_out = cpu->seg[HV_SEG_FS].base;
        return true;
    case MSR_GS_BASE:
        *value_out = cpu->seg[HV_SEG_GS].base;
        return true;
    default:
        return false;
    }
}

static bool x2apic_register(uint32_t index)
{
    return index >= MSR_X2APIC_FIRST && index <= MSR_X2APIC_LAST;
}

/* What the platform says about a register: 0, #GP for none of its own, or its errno. */
static int platform_result(int result, struct hv_fault *fault_out)
{
    return result == -ENOENT || result == HV_FAULTED ? hv_fault_gp0(fault_out) : result;
}

int hv_control_read_msr(struct hv_cpu *cpu, uint32_t index, uint64_t *value_out,
                        struct hv_fault *fault_out)
{
    size_t offset;

    if (cpu->cpl != 0) {
        return hv_fault_gp0(fault_out);
    }
    if (row_of(index, &offset)) {
        memcpy(value_out, (const char *)&cpu->msr + offset, sizeof(*value_out));
        return 0;
    }
    if (read_constant(cpu, index, value_out)) {
        return 0;
    }
    if (index == MSR_TSC) {
        *value_out = cpu->hooks->tsc_read(cpu->hook_context);
        return 0;
    }
    if (index == MSR_XSS && hv_cpu_has(cpu, HV_FEATURE_XSAVES)) {
        *value_out = cpu->msr.xss;
        return 0;
    }
    if (x2apic_register(index) && !(cpu->msr.apic_base & HV_APIC_BASE_X2APIC)) {
        return hv_fault_gp0(fault_out);
    }
    return platform_result(cpu->hooks->msr_read(cpu->hook_context, index, value_out), fault_out);
}

static int write_efer(struct hv_cpu *cpu, const struct hv_access *access, uint64_t value,
                      struct hv_fault *fault_out)
{
    const uint64_t known = (uint64_t)HV_EFER_SCE | HV_EFER_LME | HV_EFER_LMA | HV_EFER_NXE;
    uint64_t changed;

    /* LMA follows CR0.PG; what is written to it does not count. */
    changed = ((value & ~(uint64_t)HV_EFER_LMA) | (cpu->efer & HV_EFER_LMA)) ^ cpu->efer;
    if ((value & ~known) || ((changed & HV_EFER_LME) && (cpu->cr0 & HV_CR0_PG))) {
        return hv_fault_gp0(fault_out);
    }
    cpu->efer ^= changed;
    if (changed & HV_EFER_NXE) {
        access->ops->flush_all(access->context);
    }
    return 0;
}

static bool apic_base_valid(uint64_t value)
{
    const uint64_t known = APIC_BASE_MODE | HV_APIC_BASE_BSP | (~BEYOND_PHYSICAL & HV_PAGE_MASK);

    return !(value & ~known) && (value & APIC_BASE_MODE) != HV_APIC_BASE_X2APIC;
}

/* SDM 3A figure 11-27: to x2APIC only from xAPIC, from x2APIC only to disabled. */
static bool apic_base_follows(uint64_t from, uint64_t to)
{
    if ((from & APIC_BASE_MODE) == APIC_BASE_MODE) {
        return (to & APIC_BASE_MODE) != HV_APIC_BASE_ENABLE;
    }
    return (to & APIC_BASE_MODE) != APIC_BASE_MODE ||
           (from & APIC_BASE_MODE) == HV_APIC_BASE_ENABLE;
}

static int write_apic_base(struct hv_cpu *cpu, uint64_t value, struct hv_fault *fault_out)
{
    int result;

    if (!apic_base_valid(value) || !apic_base_follows(cpu->msr.apic_base, value)) {
        return hv_fault_gp0(fault_out);
    }
    result = cpu->hooks->msr_write(cpu->hook_context, MSR_APIC_BASE, value);
    if (result && result != -ENOENT) {
        return platform_result(result, fault_out);
    }
    cpu->msr.apic_base = value;
    return 0;
}

/* The TSC moves and TSC_ADJUST by as much (SDM 3B 17.17.3). */
static void move_tsc(struct hv_cpu *cpu, uint64_t distance)
{
    cpu->msr.tsc_offset = (int64_t)((uint64_t)cpu->msr.tsc_offset + distance);
    cpu->msr.tsc_adjust = (int64_t)((uint64_t)cpu->msr.tsc_adjust + distance);
    if (cpu->hooks->tsc_changed) {
        cpu->hooks->tsc_changed(cpu->hook_context);
    }
}

static int write_feature_control(struct hv_cpu *cpu, uint64_t value, struct hv_fault *fault_out)
{
    if ((cpu->msr.feature_control & FEATURE_CONTROL_LOCK) || (value & ~FEATURE_CONTROL_LOCK)) {
        return hv_fault_gp0(fault_out);
    }
    cpu->msr.feature_control = value;
    return 0;
}

static int write_misc_enable(struct hv_cpu *cpu, uint64_t value, struct hv_fault *fault_out)
{
    if (value & ~MISC_ENABLE_KNOWN) {
        return hv_fault_gp0(fault_out);
    }
    cpu->msr.misc_enable = value | MISC_ENABLE_FIXED;
    return 0;
}

static int write_base(struct hv_cpu *cpu, enum hv_seg seg, uint64_t value,
                      struct hv_fault *fault_out)
{
    if (!hv_canonical(value)) {
        return hv_fault_gp0(fault_out);
    }
    cpu->seg[seg].base = value;
    cpu->slot[HV_SLOT_SEG_BASE + seg] = value;
    return 0;
}

static int allow_if(bool good, struct hv_fault *fault_out)
{
    return good ? 0 : hv_fault_gp0(fault_out);
}

/* Registers with an effect, and read-only ones. -ENOENT: none of them. */
static int write_special(struct hv_cpu *cpu, const struct hv_access *access, uint32_t index,
                         uint64_t value, struct hv_fault *fault_out)
{
    switch (index) {
    case MSR_TSC:
        move_tsc(cpu, value - cpu->hooks->tsc_read(cpu->hook_context));
        return 0;
    case MSR_TSC_ADJUST:
        move_tsc(cpu, value - (uint64_t)cpu->msr.tsc_adjust);
        return 0;
    case MSR_APIC_BASE:
        return write_apic_base(cpu, value, fault_out);
    case MSR_FEATURE_CONTROL:
        return write_feature_control(cpu, value, fault_out);
    case MSR_PRED_CMD:
        return allow_if(value <= 1, fault_out); /* IBPB: nothing is predicted across guests */
    case MSR_BIOS_SIGN_ID:
        return 0; /* written before CPUID when the revision is read (SDM 3A 10.11.7.1) */
    case MSR_MCG_STATUS:
        return allow_if(value == 0, fault_out);
    case MSR_MISC_ENABLE:
        return write_misc_enable(cpu, value, fault_out);
    case MSR_EFER:
        return write_efer(cpu, access, value, fault_out);
    case MSR_FS_BASE:
        return write_base(cpu, HV_SEG_FS, value, fault_out);
    case MSR_GS_BASE:
        return write_base(cpu, HV_SEG_GS, value, fault_out);
    case MSR_XSS:
        return allow_if(value == 0 && hv_cpu_has(cpu, HV_FEATURE_XSAVES), fault_out);
    case MSR_PLATFORM_ID:
    case MSR_EBL_CR_POWERON:
    case MSR_SMI_COUNT:
    case MSR_PLATFORM_INFO:
    case MSR_MTRR_CAP:
    case MSR_ARCH_CAPABILITIES:
    case MSR_MCG_CAP:
    case MSR_LAST_BRANCH_FROM:
    case MSR_LAST_BRANCH_TO:
    case MSR_LAST_INT_FROM:
    case MSR_LAST_INT_TO:
        return hv_fault_gp0(fault_out);
    default:
        return -ENOENT;
    }
}

int hv_control_write_msr(struct hv_cpu *cpu, const struct hv_access *access, uint32_t index,
                         uint64_t value, struct hv_fault *fault_out)
{
    const struct msr_row *row;
    size_t offset;
    int result;

    if (cpu->cpl != 0) {
        return hv_fault_gp0(fault_out);
    }
    row = row_of(index, &offset);
    if (row) {
        if (!row_allows(row, value)) {
            return hv_fault_gp0(fault_out);
        }
        memcpy((char *)&cpu->msr + offset, &value, sizeof(value));
        return 0;
    }
    result = write_special(cpu, access, index, value, fault_out);
    if (result != -ENOENT) {
        return result;
    }
    if (x2apic_register(index) && !(cpu->msr.apic_base & HV_APIC_BASE_X2APIC)) {
        return hv_fault_gp0(fault_out);
    }
    return platform_result(cpu->hooks->msr_write(cpu->hook_context, index, value), fault_out);
}

bool hv_control_msr_possible(uint32_t index, uint64_t value)
{
    size_t offset;
    const struct msr_row *row = row_of(index, &offset);

    if (row) {
        return row_allows(row, value);
    }
    switch (index) {
    case MSR_APIC_BASE:
        return apic_base_valid(value);
    case MSR_FEATURE_CONTROL:
        return !(value & ~FEATURE_CONTROL_LOCK);
    case MSR_MISC_ENABLE:
        return !(value & ~MISC_ENABLE_KNOWN) && (value & MISC_ENABLE_FIXED) == MISC_ENABLE_FIXED;
    default:
        return value == 0;
    }
}

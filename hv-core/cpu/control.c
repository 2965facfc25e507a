/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Control registers, XCR0, INVPCID and the I/O permission bitmap. Debug registers stand in debug.c,
 * MSRs in msr.c. Source: SDM 2 (MOV—Control Registers, LMSW, XSETBV, INVPCID). */
#include "cpu/control.h"

#include "cpu/fault.h"
#include "cpu/policy.h"
#include "cpu/segment.h"

#define CR0_WRITABLE                                                                               \
    ((uint64_t)HV_CR0_PE | HV_CR0_MP | HV_CR0_EM | HV_CR0_TS | HV_CR0_NE | HV_CR0_WP | HV_CR0_AM | \
     HV_CR0_NW | HV_CR0_CD | HV_CR0_PG)

#define CR3_NO_FLUSH  HV_BIT(63)
#define CR3_PCID_MASK UINT64_C(0xfff)

/* Changes after which a cached translation may say too much or too little (SDM 3A 4.10.4.1). WP,
 * SMEP, SMAP and PSE are among them because an engine's TLB may hold rights, not entries. */
#define CR0_FLUSHING  (HV_CR0_PG | HV_CR0_WP)
#define CR4_FLUSHING \
    ((uint64_t)HV_CR4_PSE | HV_CR4_PAE | HV_CR4_PGE | HV_CR4_PCIDE | HV_CR4_SMEP | HV_CR4_SMAP)

static int require_cpl0(const struct hv_cpu *cpu, struct hv_fault *fault_out)
{
    return cpu->cpl == 0 ? 0 : hv_fault_gp0(fault_out);
}

int hv_control_read_cr(struct hv_cpu *cpu, unsigned number, uint64_t *value_out,
                       struct hv_fault *fault_out)
{
    if (cpu->cpl != 0) {
        return hv_fault_gp0(fault_out);
    }
    switch (number) {
    case 0:
        *value_out = cpu->cr0;
        return 0;
    case 2:
        *value_out = cpu->cr2;
        return 0;
    case 3:
        *value_out = cpu->cr3;
        return 0;
    case 4:
        *value_out = cpu->cr4;
        return 0;
    case 8:
        *value_out = cpu->hooks->cr8_read(cpu->hook_context);
        return 0;
    default:
        return hv_fault_plain(fault_out, HV_VECTOR_UD);
    }
}

static bool pae_paging(uint64_t cr0, uint64_t cr4, uint64_t efer)
{
    return (cr0 & HV_CR0_PG) && (cr4 & HV_CR4_PAE) && !(efer & HV_EFER_LME);
}

/* The combinations that MOV to CR0 refuses. */
static bool cr0_possible(const struct hv_cpu *cpu, uint64_t value)
{
    bool paging = value & HV_CR0_PG, was_paging = cpu->cr0 & HV_CR0_PG;

    if (value >> 32 || (paging && !(value & HV_CR0_PE)) ||
        ((value & HV_CR0_NW) && !(value & HV_CR0_CD))) {
        return false;
    }
    if (paging && !was_paging && (cpu->efer & HV_EFER_LME)) {
        /* Going to IA-32e mode (SDM 3A 9.8.5): PAE set, CS.L clear, TR no 16-bit TSS. */
        return (cpu->cr4 & HV_CR4_PAE) && !(cpu->seg[HV_SEG_CS].attr & HV_SEG_ATTR_L) &&
               (cpu->seg[HV_SEG_TR].attr & HV_SEG_ATTR_TYPE) > 3;
    }
    if (!paging && was_paging) {
        return !hv_cpu_code64(cpu) && !(cpu->cr4 & HV_CR4_PCIDE);
    }
    return true;
}

/* Read the PDPTEs again when PAE paging is, or will be, in use. */
static int reload_pdptes(struct hv_cpu *cpu, const struct hv_access *access, uint64_t cr0,
                         uint64_t cr3, uint64_t cr4, struct hv_fault *fault_out)
{
    if (!pae_paging(cr0, cr4, cpu->efer)) {
        return 0;
    }
    return hv_walk_load_pdptes(access->ops->walk, access->context, cr3, cpu->pdpte, fault_out);
}

static int write_cr0(struct hv_cpu *cpu, const struct hv_access *access, uint64_t value,
                     struct hv_fault *fault_out)
{
    const uint64_t reloading = (uint64_t)HV_CR0_CD | HV_CR0_NW | HV_CR0_PG; /* SDM 3A 4.4.1 */
    uint64_t changed;

    if (!cr0_possible(cpu, value)) {
        return hv_fault_gp0(fault_out);
    }
    value = (value & CR0_WRITABLE) | HV_CR0_ET;
    changed = value ^ cpu->cr0;
    if (changed & reloading) {
        int result = reload_pdptes(cpu, access, value, cpu->cr3, cpu->cr4, fault_out);

        if (result) {
            return result;
        }
    }

    cpu->cr0 = value;
    if (changed & HV_CR0_PG) {
        if ((value & HV_CR0_PG) && (cpu->efer & HV_EFER_LME)) {
            cpu->efer |= HV_EFER_LMA;
        } else {
            cpu->efer &= ~(uint64_t)HV_EFER_LMA;
        }
    }
    if (changed & (HV_CR0_PG | HV_CR0_PE)) {
        hv_segment_sync_slots(cpu);
    }
    if (changed & CR0_FLUSHING) {
        access->ops->flush_all(access->context);
    }
    return 0;
}

static int write_cr3(struct hv_cpu *cpu, const struct hv_access *access, uint64_t value,
                     struct hv_fault *fault_out)
{
    bool pcids = cpu->cr4 & HV_CR4_PCIDE;
    bool keep = pcids && (value & CR3_NO_FLUSH);
    int result;

    if (pcids) {
        value &= ~CR3_NO_FLUSH;
    }
    if (hv_cpu_long_mode(cpu)) {
        if (value >> HV_GUEST_PHYS_BITS) {
            return hv_fault_gp0(fault_out);
        }
    } else {
        value = (uint32_t)value;
    }
    result = reload_pdptes(cpu, access, cpu->cr0, value, cpu->cr4, fault_out);
    if (result) {
        return result;
    }

    cpu->cr3 = value;
    if (pcids) {
        access->ops->switch_pcid(access->context, (uint16_t)(value & CR3_PCID_MASK), keep);
    } else {
        access->ops->flush_non_global(access->context);
    }
    return 0;
}

uint64_t hv_control_cr4_mask(const struct hv_cpu_policy *policy)
{
    static const struct {
        uint8_t feature; /* enum hv_feature */
        uint32_t bits;
    } rows[] = {
        {HV_FEATURE_BASE, HV_CR4_TSD | HV_CR4_DE | HV_CR4_PSE | HV_CR4_PAE | HV_CR4_MCE |
                              HV_CR4_PGE | HV_CR4_PCE | HV_CR4_OSFXSR | HV_CR4_OSXMMEXCPT},
        {HV_FEATURE_UMIP, HV_CR4_UMIP},
        {HV_FEATURE_FSGSBASE, HV_CR4_FSGSBASE},
        {HV_FEATURE_PCID, HV_CR4_PCIDE},
        {HV_FEATURE_XSAVE, HV_CR4_OSXSAVE},
        {HV_FEATURE_SMEP, HV_CR4_SMEP},
        {HV_FEATURE_SMAP, HV_CR4_SMAP},
    };
    uint64_t mask = 0;

    for (size_t i = 0; i < HV_ARRAY_LEN(rows); i++) {
        if (policy->features & HV_BIT(rows[i].feature)) {
            mask |= rows[i].bits;
        }
    }
    return mask;
}

static bool cr4_possible(const struct hv_cpu *cpu, uint64_t value)
{
    if (value & ~hv_control_cr4_mask(cpu->policy)) {
        return false;
    }
    if (hv_cpu_long_mode(cpu)) {
        if (!(value & HV_CR4_PAE)) {
            return false;
        }
    } else if (value & HV_CR4_PCIDE) {
        return false;
    }
    /* PCIDs can only be turned on while 0 is the current one. */
    return !(value & HV_CR4_PCIDE) || (cpu->cr4 & HV_CR4_PCIDE) || !(cpu->cr3 & CR3_PCID_MASK);
}

static int write_cr4(struct hv_cpu *cpu, const struct hv_access *access, uint64_t value,
                     struct hv_fault *fault_out)
{
    const uint64_t reloading = /* SDM 3A 4.4.1 */
        (uint64_t)HV_CR4_PAE | HV_CR4_PGE | HV_CR4_PSE | HV_CR4_SMEP;
    uint64_t changed = value ^ cpu->cr4;

    if (!cr4_possible(cpu, value)) {
        return hv_fault_gp0(fault_out);
    }
    if (changed & reloading) {
        int result = reload_pdptes(cpu, access, cpu->cr0, cpu->cr3, value, fault_out);

        if (result) {
            return result;
        }
    }
    cpu->cr4 = value;
    if (changed & CR4_FLUSHING) {
        access->ops->flush_all(access->context);
    }
    return 0;
}

int hv_control_write_cr(struct hv_cpu *cpu, const struct hv_access *access, unsigned number,
                        uint64_t value, struct hv_fault *fault_out)
{
    if (cpu->cpl != 0) {
        return hv_fault_gp0(fault_out);
    }
    switch (number) {
    case 0:
        return write_cr0(cpu, access, value, fault_out);
    case 2:
        cpu->cr2 = value;
        return 0;
    case 3:
        return write_cr3(cpu, access, value, fault_out);
    case 4:
        return write_cr4(cpu, access, value, fault_out);
    case 8:
        if (value > 0xf) {
            return hv_fault_gp0(fault_out);
        }
        cpu->hooks->cr8_write(cpu->hook_context, value);
        return 0;
    default:
        return hv_fault_plain(fault_out, HV_VECTOR_UD);
    }
}

int hv_control_lmsw(struct hv_cpu *cpu, const struct hv_access *access, uint16_t value,
                    struct hv_fault *fault_out)
{
    const uint64_t loaded = HV_CR0_PE | HV_CR0_MP | HV_CR0_EM | HV_CR0_TS;
    int result = require_cpl0(cpu, fault_out);

    if (result) {
        return result;
    }
    value |= (uint16_t)(cpu->cr0 & HV_CR0_PE);
    return write_cr0(cpu, access, (cpu->cr0 & ~loaded) | (value & loaded), fault_out);
}

bool hv_control_xcr0_possible(const struct hv_cpu_policy *policy, uint64_t value)
{
    return (value & HV_XCR0_X87) && !(value & ~policy->xcr0_mask) &&
           (!(value & HV_XCR0_AVX) || (value & HV_XCR0_SSE));
}

int hv_control_xsetbv(struct hv_cpu *cpu, uint32_t index, uint64_t value,
                      struct hv_fault *fault_out)
{
    if (!(cpu->cr4 & HV_CR4_OSXSAVE)) {
        return hv_fault_plain(fault_out, HV_VECTOR_UD);
    }
    if (cpu->cpl != 0 || index != 0 || !hv_control_xcr0_possible(cpu->policy, value)) {
        return hv_fault_gp0(fault_out);
    }
    cpu->xcr0 = value;
    return 0;
}

int hv_control_invpcid(struct hv_cpu *cpu, const struct hv_access *access, uint64_t type,
                       const uint64_t descriptor[2], struct hv_fault *fault_out)
{
    enum { ADDRESS, CONTEXT, ALL, ALL_NON_GLOBAL };
    uint64_t pcid = descriptor[0];
    bool pcids = cpu->cr4 & HV_CR4_PCIDE;

    if (cpu->cpl != 0 || type > ALL_NON_GLOBAL || pcid > CR3_PCID_MASK) {
        return hv_fault_gp0(fault_out);
    }
    if (type <= CONTEXT && pcid != 0 && !pcids) {
        return hv_fault_gp0(fault_out);
    }
    if (type == ADDRESS && !hv_canonical(descriptor[1])) {
        return hv_fault_gp0(fault_out);
    }

    switch (type) {
    case ADDRESS:
        if (!pcids || pcid == (cpu->cr3 & CR3_PCID_MASK)) {
            access->ops->flush_page(access->context, (hv_gva){descriptor[1]});
        } else {
            access->ops->flush_pcid(access->context, (uint16_t)pcid);
        }
        break;
    case CONTEXT:
        access->ops->flush_pcid(access->context, (uint16_t)pcid);
        break;
    case ALL:
        access->ops->flush_all(access->context);
        break;
    default:
        access->ops->flush_non_global(access->context);
        break;
    }
    return 0;
}

/* SDM 1 19.5.2: two bytes are always read, so that a port at the end needs one byte more. */
int hv_control_io_allowed(struct hv_cpu *cpu, const struct hv_access *access, uint16_t port,
                          unsigned bytes, struct hv_fault *fault_out)
{
    enum { MAP_BASE = 0x66, TSS32_LAST = 0x67, TYPE_BUSY = 0x2, TYPE_TSS32_BUSY = 0xb };
    const struct hv_segment *tr = &cpu->seg[HV_SEG_TR];
    unsigned iopl = (cpu->rflags & HV_RFLAGS_IOPL) >> 12;
    uint64_t base, map, offset;
    int result;

    if (!hv_cpu_protected(cpu) || (cpu->cpl <= iopl && !hv_cpu_v86(cpu))) {
        return 0;
    }
    if (!(tr->attr & HV_SEG_ATTR_P) || (tr->attr & HV_SEG_ATTR_UNUSABLE) ||
        ((tr->attr & HV_SEG_ATTR_TYPE) | TYPE_BUSY) != TYPE_TSS32_BUSY || tr->limit < TSS32_LAST) {
        return hv_fault_gp0(fault_out);
    }
    result = access->ops->read(access->context, (hv_gva){tr->base + MAP_BASE}, 2,
                               HV_WALK_AS_SUPERVISOR, &base, fault_out);
    if (result) {
        return result;
    }
    offset = base + port / 8u;
    if (offset + 1 > tr->limit) {
        return hv_fault_gp0(fault_out);
    }
    result = access->ops->read(access->context, (hv_gva){tr->base + offset}, 2,
                               HV_WALK_AS_SUPERVISOR, &map, fault_out);
    if (result) {
        return result;
    }
    if (map >> (port % 8u) & ((1u << bytes) - 1)) {
        return hv_fault_gp0(fault_out);
    }
    return 0;
}

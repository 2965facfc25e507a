/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Saving a vCPU, and the checks that keep an impossible one out. */
#include "cpu/save.h"

#include "cpu/control.h"
#include "cpu/descriptor.h"
#include "cpu/policy.h"
#include "cpu/segment.h"

#include <errno.h>

/* The host is little-endian, as the record: fields are copied as they are. */
HV_STATIC_ASSERT(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "records are little-endian");
HV_STATIC_ASSERT(sizeof(struct hv_cpu_record_segment) == 24, "no hidden padding");
HV_STATIC_ASSERT(sizeof(struct hv_cpu_record_table) == 16, "no hidden padding");
HV_STATIC_ASSERT(offsetof(struct hv_cpu_record, registers) == 16, "layout of version 1");
HV_STATIC_ASSERT(offsetof(struct hv_cpu_record, segments) == 208, "layout of version 1");
HV_STATIC_ASSERT(offsetof(struct hv_cpu_record, dr) == 432, "layout of version 1");
HV_STATIC_ASSERT(offsetof(struct hv_cpu_record, star) == 512, "layout of version 1");
HV_STATIC_ASSERT(offsetof(struct hv_cpu_record, cpl) == 880, "layout of version 1");
HV_STATIC_ASSERT(offsetof(struct hv_cpu_record, xstate) == 896, "layout of version 1");
HV_STATIC_ASSERT(sizeof(struct hv_cpu_record) == 896 + HV_XSTATE_BYTES, "no hidden padding");

/* Places in the XSAVE image (SDM 1 table 10-2, 13.4.2). */
enum {
    XSTATE_MXCSR = 24,
    XSTATE_BV = 512,
    XSTATE_COMPACTION = 520,
    XSTATE_HEADER_END = 576,
};

static void save_msrs(const struct hv_cpu_msrs *msr, struct hv_cpu_record *record)
{
    record->star = msr->star;
    record->lstar = msr->lstar;
    record->cstar = msr->cstar;
    record->fmask = msr->fmask;
    record->kernel_gs_base = msr->kernel_gs_base;
    record->sysenter_cs = msr->sysenter_cs;
    record->sysenter_esp = msr->sysenter_esp;
    record->sysenter_eip = msr->sysenter_eip;
    record->tsc_aux = msr->tsc_aux;
    record->pat = msr->pat;
    record->misc_enable = msr->misc_enable;
    record->spec_ctrl = msr->spec_ctrl;
    record->feature_control = msr->feature_control;
    record->debugctl = msr->debugctl;
    record->mtrr_def_type = msr->mtrr_def_type;
    memcpy(record->mtrr_base, msr->mtrr_base, sizeof(record->mtrr_base));
    memcpy(record->mtrr_mask, msr->mtrr_mask, sizeof(record->mtrr_mask));
    memcpy(record->mtrr_fixed, msr->mtrr_fixed, sizeof(record->mtrr_fixed));
    record->apic_base = msr->apic_base;
    record->tsc_offset = (uint64_t)msr->tsc_offset;
    record->tsc_adjust = (uint64_t)msr->tsc_adjust;
    record->xss = msr->xss;
}

void hv_cpu_save(const struct hv_cpu *cpu, struct hv_cpu_record *record)
{
    memset(record, 0, sizeof(*record));
    record->version = HV_CPU_RECORD_VERSION;
    record->bytes = sizeof(*record);
    record->apic_id = cpu->apic_id;
    memcpy(record->registers, cpu->slot, sizeof(record->registers));
    record->rip = cpu->rip;
    record->rflags = hv_cpu_rflags(cpu);
    record->cr0 = cpu->cr0;
    record->cr2 = cpu->cr2;
    record->cr3 = cpu->cr3;
    record->cr4 = cpu->cr4;
    record->xcr0 = cpu->xcr0;
    record->efer = cpu->efer;
    for (unsigned s = 0; s < HV_SEG_ALL; s++) {
        record->segments[s].base = cpu->seg[s].base;
        record->segments[s].limit = cpu->seg[s].limit;
        record->segments[s].attr = cpu->seg[s].attr;
        record->segments[s].selector = cpu->seg[s].selector;
    }
    record->gdtr.base = cpu->gdtr.base;
    record->gdtr.limit = cpu->gdtr.limit;
    record->idtr.base = cpu->idtr.base;
    record->idtr.limit = cpu->idtr.limit;
    memcpy(record->dr, cpu->dr, sizeof(record->dr));
    record->dr6 = cpu->dr[6];
    record->dr7 = cpu->dr[7];
    memcpy(record->pdpte, cpu->pdpte, sizeof(record->pdpte));
    save_msrs(&cpu->msr, record);
    record->cpl = cpu->cpl;
    record->activity = cpu->activity;
    record->sti_shadow = cpu->sti_shadow;
    record->mov_ss_shadow = cpu->mov_ss_shadow;
    record->nmi_blocked = cpu->nmi_blocked;
    record->nmi_pending = cpu->nmi_pending;
    record->delivering_vector = cpu->delivering_vector;
    record->latched_interrupt = cpu->latched_interrupt;
    memcpy(record->xstate, cpu->x.bytes, sizeof(record->xstate));
}

static bool all_zero(const void *from, size_t bytes)
{
    const uint8_t *byte = from;

    for (size_t i = 0; i < bytes; i++) {
        if (byte[i] != 0) {
            return false;
        }
    }
    return true;
}

static bool record_long(const struct hv_cpu_record *record)
{
    return record->efer & HV_EFER_LMA;
}

static bool record_v86(const struct hv_cpu_record *record)
{
    return record->rflags & HV_RFLAGS_VM;
}

static bool record_code64(const struct hv_cpu_record *record)
{
    return record_long(record) && (record->segments[HV_SEG_CS].attr & HV_SEG_ATTR_L);
}

/* Each check below answers the name of the first field it finds impossible, or NULL. */

static const char *check_head(const struct hv_cpu *cpu, const struct hv_cpu_record *record)
{
    if (record->version != HV_CPU_RECORD_VERSION) {
        return "version";
    }
    if (record->bytes != sizeof(*record)) {
        return "bytes";
    }
    if (record->apic_id != cpu->apic_id) {
        return "apic_id";
    }
    if (record->reserved0 || record->reserved1 ||
        !all_zero(record->reserved2, sizeof(record->reserved2)) ||
        !all_zero(record->gdtr.reserved, sizeof(record->gdtr.reserved)) ||
        !all_zero(record->idtr.reserved, sizeof(record->idtr.reserved))) {
        return "reserved";
    }
    return NULL;
}

/* SDM 3A 2.5, 4.1.1: the combinations of CR0, CR4 and EFER that writes can lead to. */
static const char *check_control(const struct hv_cpu *cpu, const struct hv_cpu_record *record)
{
    const uint64_t cr0_known = (uint64_t)HV_CR0_PE | HV_CR0_MP | HV_CR0_EM | HV_CR0_TS | HV_CR0_ET |
                               HV_CR0_NE | HV_CR0_WP | HV_CR0_AM | HV_CR0_NW | HV_CR0_CD |
                               HV_CR0_PG;
    const uint64_t efer_known = (uint64_t)HV_EFER_SCE | HV_EFER_LME | HV_EFER_LMA | HV_EFER_NXE;
    bool paging = record->cr0 & HV_CR0_PG;
    bool lma = record_long(record);

    if ((record->cr0 & ~cr0_known) || !(record->cr0 & HV_CR0_ET) ||
        (paging && !(record->cr0 & HV_CR0_PE)) ||
        ((record->cr0 & HV_CR0_NW) && !(record->cr0 & HV_CR0_CD))) {
        return "cr0";
    }
    if ((record->efer & ~efer_known) || lma != (paging && (record->efer & HV_EFER_LME))) {
        return "efer";
    }
    if ((record->cr4 & ~hv_control_cr4_mask(cpu->policy)) || (lma && !(record->cr4 & HV_CR4_PAE)) ||
        (!lma && (record->cr4 & HV_CR4_PCIDE))) {
        return "cr4";
    }
    if (record->cr3 >> HV_GUEST_PHYS_BITS) { /* all of them: it outlives long mode */
        return "cr3";
    }
    if (!hv_control_xcr0_possible(cpu->policy, record->xcr0)) {
        return "xcr0";
    }
    if ((record->dr6 & ~HV_DR6_WRITABLE) != HV_DR6_FIXED) {
        return "dr6";
    }
    if ((record->dr7 & ~HV_DR7_WRITABLE) != HV_DR7_FIXED) {
        return "dr7";
    }
    if (paging && !lma && (record->cr4 & HV_CR4_PAE)) {
        for (size_t i = 0; i < HV_ARRAY_LEN(record->pdpte); i++) {
            if (!hv_walk_pdpte_possible(record->pdpte[i])) {
                return "pdpte";
            }
        }
    }
    return NULL;
}

static const char *check_flow(const struct hv_cpu_record *record)
{
    bool protected_mode = record->cr0 & HV_CR0_PE;
    unsigned cpl_wanted = 0;

    if ((record->rflags & ~(uint64_t)HV_RFLAGS_ALL) || !(record->rflags & HV_RFLAGS_FIXED) ||
        (record_v86(record) && (!protected_mode || record_long(record)))) {
        return "rflags";
    }
    /* CS.RPL is the CPL but in a segment that real mode left when CR0.PE was set: that is ring 0. */
    if (record_v86(record)) {
        cpl_wanted = 3;
    } else if (protected_mode && record->cpl != 0) {
        cpl_wanted = hv_selector_rpl(record->segments[HV_SEG_CS].selector);
    }
    if (record->cpl != cpl_wanted) {
        return "cpl";
    }
    if (record_code64(record) ? !hv_canonical(record->rip) : record->rip > UINT32_MAX) {
        return "rip";
    }
    if (record->activity > HV_ACTIVITY_SHUTDOWN) {
        return "activity";
    }
    if ((record->sti_shadow | record->mov_ss_shadow | record->nmi_blocked | record->nmi_pending) >
        1) {
        return "interruptibility";
    }
    if (record->delivering_vector >= 32 && record->delivering_vector != 0xff) {
        return "delivering_vector";
    }
    if (record->latched_interrupt && (record->latched_interrupt & 0xff00) != HV_LATCHED_INTERRUPT) {
        return "latched_interrupt";
    }
    return NULL;
}

static bool segment_possible(const struct hv_cpu_record *record, unsigned index)
{
    const uint32_t attr_known = 0xf0ff | HV_SEG_ATTR_UNUSABLE;
    const struct hv_cpu_record_segment *segment = &record->segments[index];
    bool wide_base = index >= HV_SEG_FS;

    if ((segment->attr & ~attr_known) || !all_zero(segment->reserved, sizeof(segment->reserved))) {
        return false;
    }
    if (wide_base ? !hv_canonical(segment->base) : segment->base > UINT32_MAX) {
        return false;
    }
    if ((segment->attr & HV_SEG_ATTR_G) ? (segment->limit & 0xfff) != 0xfff
                                        : segment->limit > 0xfffff) {
        return false;
    }
    if (index < HV_SEG_COUNT && record_v86(record)) {
        return segment->base == (uint64_t)segment->selector << 4 && segment->limit == 0xffff;
    }
    return true;
}

/* LDTR holds an LDT or nothing, TR a busy TSS; 64-bit CS has no D. */
static const char *check_segments(const struct hv_cpu_record *record)
{
    static const char *const names[HV_SEG_ALL] = {
        "segment es", "segment cs", "segment ss",   "segment ds",
        "segment fs", "segment gs", "segment ldtr", "segment tr",
    };
    uint32_t cs = record->segments[HV_SEG_CS].attr;
    uint32_t ldtr = record->segments[HV_SEG_LDTR].attr;
    uint32_t tr = record->segments[HV_SEG_TR].attr;

    for (unsigned s = 0; s < HV_SEG_ALL; s++) {
        if (!segment_possible(record, s)) {
            return names[s];
        }
    }
    if (record_code64(record) && (cs & HV_SEG_ATTR_DB)) {
        return names[HV_SEG_CS];
    }
    if (!(ldtr & HV_SEG_ATTR_UNUSABLE) &&
        (!hv_attr_is_system(ldtr, HV_SYSTEM_LDT) || !(ldtr & HV_SEG_ATTR_P))) {
        return names[HV_SEG_LDTR];
    }
    if ((tr & HV_SEG_ATTR_UNUSABLE) || !(tr & HV_SEG_ATTR_P) ||
        (!hv_attr_is_system(tr, HV_SYSTEM_TSS_BUSY) &&
         (record_long(record) || !hv_attr_is_system(tr, HV_SYSTEM_TSS16_BUSY)))) {
        return names[HV_SEG_TR];
    }
    if (!hv_canonical(record->gdtr.base)) {
        return "gdtr";
    }
    return hv_canonical(record->idtr.base) ? NULL : "idtr";
}

static const char *check_msrs(const struct hv_cpu_record *record)
{
    const struct {
        const char *name;
        uint32_t index;
        const uint64_t *values;
        unsigned count, stride;
    } rows[] = {
        {"star", 0xc0000081, &record->star, 1, 1},
        {"lstar", 0xc0000082, &record->lstar, 1, 1},
        {"cstar", 0xc0000083, &record->cstar, 1, 1},
        {"fmask", 0xc0000084, &record->fmask, 1, 1},
        {"kernel_gs_base", 0xc0000102, &record->kernel_gs_base, 1, 1},
        {"tsc_aux", 0xc0000103, &record->tsc_aux, 1, 1},
        {"sysenter_cs", 0x174, &record->sysenter_cs, 1, 1},
        {"sysenter_esp", 0x175, &record->sysenter_esp, 1, 1},
        {"sysenter_eip", 0x176, &record->sysenter_eip, 1, 1},
        {"pat", 0x277, &record->pat, 1, 1},
        {"misc_enable", 0x1a0, &record->misc_enable, 1, 1},
        {"spec_ctrl", 0x48, &record->spec_ctrl, 1, 1},
        {"feature_control", 0x3a, &record->feature_control, 1, 1},
        {"debugctl", 0x1d9, &record->debugctl, 1, 1},
        {"mtrr_def_type", 0x2ff, &record->mtrr_def_type, 1, 1},
        {"mtrr_base", 0x200, record->mtrr_base, 8, 2},
        {"mtrr_mask", 0x201, record->mtrr_mask, 8, 2},
        {"mtrr_fixed", 0x250, record->mtrr_fixed, 1, 1},
        {"mtrr_fixed", 0x258, record->mtrr_fixed + 1, 2, 1},
        {"mtrr_fixed", 0x268, record->mtrr_fixed + 3, 8, 1},
        {"apic_base", 0x1b, &record->apic_base, 1, 1},
        {"xss", 0xda0, &record->xss, 1, 1},
    };

    for (size_t i = 0; i < HV_ARRAY_LEN(rows); i++) {
        for (unsigned n = 0; n < rows[i].count; n++) {
            if (!hv_control_msr_possible(rows[i].index + n * rows[i].stride, rows[i].values[n])) {
                return rows[i].name;
            }
        }
    }
    return NULL;
}

/* What XRSTOR would refuse (SDM 1 13.8.1). */
static const char *check_xstate(const struct hv_cpu *cpu, const struct hv_cpu_record *record)
{
    if (hv_load_le(record->xstate + XSTATE_MXCSR, 4) & ~UINT64_C(0xffff)) {
        return "mxcsr";
    }
    if ((hv_load_le(record->xstate + XSTATE_BV, 8) & ~cpu->policy->xcr0_mask) ||
        !all_zero(record->xstate + XSTATE_COMPACTION, XSTATE_HEADER_END - XSTATE_COMPACTION)) {
        return "xstate header";
    }
    return NULL;
}

static const char *impossible_field(const struct hv_cpu *cpu, const struct hv_cpu_record *record)
{
    const char *field = check_head(cpu, record);

    if (!field) {
        field = check_control(cpu, record);
    }
    if (!field) {
        field = check_flow(record);
    }
    if (!field) {
        field = check_segments(record);
    }
    if (!field) {
        field = check_msrs(record);
    }
    return field ? field : check_xstate(cpu, record);
}

static void load_msrs(struct hv_cpu_msrs *msr, const struct hv_cpu_record *record)
{
    msr->star = record->star;
    msr->lstar = record->lstar;
    msr->cstar = record->cstar;
    msr->fmask = record->fmask;
    msr->kernel_gs_base = record->kernel_gs_base;
    msr->sysenter_cs = record->sysenter_cs;
    msr->sysenter_esp = record->sysenter_esp;
    msr->sysenter_eip = record->sysenter_eip;
    msr->tsc_aux = record->tsc_aux;
    msr->pat = record->pat;
    msr->misc_enable = record->misc_enable;
    msr->spec_ctrl = record->spec_ctrl;
    msr->feature_control = record->feature_control;
    msr->debugctl = record->debugctl;
    msr->mtrr_def_type = record->mtrr_def_type;
    memcpy(msr->mtrr_base, record->mtrr_base, sizeof(msr->mtrr_base));
    memcpy(msr->mtrr_mask, record->mtrr_mask, sizeof(msr->mtrr_mask));
    memcpy(msr->mtrr_fixed, record->mtrr_fixed, sizeof(msr->mtrr_fixed));
    msr->apic_base = record->apic_base;
    msr->tsc_offset = (int64_t)record->tsc_offset;
    msr->tsc_adjust = (int64_t)record->tsc_adjust;
    msr->xss = record->xss;
}

static void load_state(struct hv_cpu *cpu, const struct hv_cpu_record *record)
{
    memset(cpu->slot, 0, sizeof(cpu->slot));
    memcpy(cpu->slot, record->registers, sizeof(record->registers));
    cpu->rip = record->rip;
    hv_cpu_set_rflags(cpu, record->rflags);
    cpu->cr0 = record->cr0;
    cpu->cr2 = record->cr2;
    cpu->cr3 = record->cr3;
    cpu->cr4 = record->cr4;
    cpu->xcr0 = record->xcr0;
    cpu->efer = record->efer;
    cpu->cpl = record->cpl;
    for (unsigned s = 0; s < HV_SEG_ALL; s++) {
        cpu->seg[s] = (struct hv_segment){
            .base = record->segments[s].base,
            .limit = record->segments[s].limit,
            .attr = record->segments[s].attr,
            .selector = record->segments[s].selector,
        };
    }
    cpu->gdtr = (struct hv_table_register){record->gdtr.base, record->gdtr.limit};
    cpu->idtr = (struct hv_table_register){record->idtr.base, record->idtr.limit};
    memset(cpu->dr, 0, sizeof(cpu->dr));
    memcpy(cpu->dr, record->dr, sizeof(record->dr));
    cpu->dr[6] = record->dr6;
    cpu->dr[7] = record->dr7;
    memcpy(cpu->pdpte, record->pdpte, sizeof(cpu->pdpte));
    load_msrs(&cpu->msr, record);
    cpu->activity = record->activity;
    cpu->sti_shadow = record->sti_shadow;
    cpu->mov_ss_shadow = record->mov_ss_shadow;
    cpu->nmi_blocked = record->nmi_blocked;
    cpu->nmi_pending = record->nmi_pending;
    cpu->delivering_vector = record->delivering_vector;
    cpu->latched_interrupt = record->latched_interrupt;
    memcpy(cpu->x.bytes, record->xstate, sizeof(record->xstate));
    hv_segment_sync_slots(cpu);
}

int hv_cpu_load(struct hv_cpu *cpu, const struct hv_cpu_record *record, const char **field_out)
{
    *field_out = impossible_field(cpu, record);
    if (*field_out) {
        return -EPROTO;
    }
    load_state(cpu, record);
    return 0;
}

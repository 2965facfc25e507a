/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Segment and descriptor-table registers. Source: SDM 2. */
#include "engine/soft/insn.h"

#include "engine/soft/access.h"

#include "cpu/segment.h"

/* CR4.UMIP hides descriptor-table registers from CPL > 0 (SDM 2, SGDT). */
static bool umip_hides(const struct hv_cpu *cpu)
{
    return (cpu->cr4 & HV_CR4_UMIP) && cpu->cpl > 0;
}

/* LLDT, LTR, SLDT, STR, LAR, LSL, VERR, VERW, ARPL exist in protected mode only. */
static bool no_descriptors(const struct hv_cpu *cpu)
{
    return !hv_cpu_protected(cpu) || hv_cpu_v86(cpu);
}

/* A selector into a register of the operand's size or 16 bits of memory. */
static int store_selector(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva,
                          uint16_t selector)
{
    return soft_operand_write(vcpu, call, 0, gva, selector);
}

int soft_insn_mov_seg(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    const struct soft_operand *dst = &call->insn.operand[0];
    struct hv_cpu *cpu = vcpu->cpu;
    uint64_t selector;
    int rc;

    if (dst->kind != SOFT_OPERAND_SEG) {
        return store_selector(vcpu, call, gva, cpu->seg[call->insn.operand[1].reg].selector);
    }
    if (dst->reg == HV_SEG_CS) {
        return soft_insn_raise(vcpu, HV_VECTOR_UD);
    }
    rc = soft_operand_read(vcpu, call, 1, gva, &selector);
    if (!rc) {
        rc = hv_segment_load(cpu, &vcpu->access, (enum hv_seg)dst->reg, (uint16_t)selector,
                             &vcpu->fault);
    }
    if (rc) {
        return rc;
    }
    if (dst->reg == HV_SEG_SS) {
        cpu->mov_ss_shadow = true;
    }
    return soft_leave(vcpu, call);
}

static enum hv_seg far_segment(unsigned op)
{
    switch (op) {
    case SOFT_OP_LES:
        return HV_SEG_ES;
    case SOFT_OP_LSS:
        return HV_SEG_SS;
    case SOFT_OP_LFS:
        return HV_SEG_FS;
    case SOFT_OP_LGS:
        return HV_SEG_GS;
    default:
        return HV_SEG_DS;
    }
}

/* LES, LDS, LSS, LFS, LGS. */
int soft_insn_load_far(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    unsigned bytes = call->insn.operand_bytes;
    enum hv_seg through = (enum hv_seg)call->insn.mem.segment;
    uint64_t offset, selector;
    int rc = soft_load(vcpu, gva, bytes, through, &offset);

    if (!rc) {
        rc = soft_load(vcpu, gva + bytes, 2, through, &selector);
    }
    if (!rc) {
        rc = hv_segment_load(vcpu->cpu, &vcpu->access, far_segment(call->insn.op),
                             (uint16_t)selector, &vcpu->fault);
    }
    if (rc) {
        return rc;
    }
    soft_set(vcpu->cpu, soft_operand_place(&call->insn.operand[0]), bytes, offset);
    return soft_leave(vcpu, call);
}

/* ---- GDTR, IDTR ------------------------------------------------------------------------------- */

static int load_table(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva,
                      struct hv_table_register *table)
{
    bool wide = hv_cpu_code64(vcpu->cpu);
    uint8_t image[10] = {0};
    uint64_t base;
    int rc = soft_read_bytes(vcpu, gva, image, wide ? 10 : 6);

    if (rc) {
        return rc;
    }
    base = hv_load_le(&image[2], wide ? 8 : 4);
    if (!wide && call->insn.operand_bytes == 2) {
        base &= 0xffffff;
    }
    if (!hv_canonical(base)) {
        return soft_insn_raise_gp(vcpu);
    }
    table->base = base;
    table->limit = (uint16_t)hv_load_le(image, 2);
    return SOFT_RESULT_NEXT;
}

int soft_insn_lgdt(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    return load_table(vcpu, call, gva, &vcpu->cpu->gdtr);
}

int soft_insn_lidt(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    return load_table(vcpu, call, gva, &vcpu->cpu->idtr);
}

static int store_table(struct hv_engine_vcpu *vcpu, uint64_t gva,
                       const struct hv_table_register *table)
{
    bool wide = hv_cpu_code64(vcpu->cpu);
    uint8_t image[10];

    if (umip_hides(vcpu->cpu)) {
        return soft_insn_raise_gp(vcpu);
    }
    hv_store_le(image, table->limit, 2);
    hv_store_le(&image[2], table->base, 8);
    return soft_write_bytes(vcpu, gva, image, wide ? 10 : 6);
}

int soft_insn_sgdt(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    (void)call;
    return store_table(vcpu, gva, &vcpu->cpu->gdtr);
}

int soft_insn_sidt(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    (void)call;
    return store_table(vcpu, gva, &vcpu->cpu->idtr);
}

/* ---- LDTR, TR --------------------------------------------------------------------------------- */

static int load_system(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva,
                       int (*load)(struct hv_cpu *cpu, const struct hv_access *access,
                                   uint16_t selector, struct hv_fault *fault_out))
{
    uint64_t selector;
    int rc;

    if (no_descriptors(vcpu->cpu)) {
        return soft_insn_raise(vcpu, HV_VECTOR_UD);
    }
    rc = soft_operand_read(vcpu, call, 0, gva, &selector);
    if (!rc) {
        rc = load(vcpu->cpu, &vcpu->access, (uint16_t)selector, &vcpu->fault);
    }
    return rc;
}

int soft_insn_lldt(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    return load_system(vcpu, call, gva, hv_segment_load_ldtr);
}

int soft_insn_ltr(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    return load_system(vcpu, call, gva, hv_segment_load_tr);
}

static int store_system_selector(struct hv_engine_vcpu *vcpu, const struct soft_call *call,
                                 uint64_t gva, enum hv_seg seg)
{
    if (no_descriptors(vcpu->cpu)) {
        return soft_insn_raise(vcpu, HV_VECTOR_UD);
    }
    if (umip_hides(vcpu->cpu)) {
        return soft_insn_raise_gp(vcpu);
    }
    return store_selector(vcpu, call, gva, vcpu->cpu->seg[seg].selector);
}

int soft_insn_sldt(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    return store_system_selector(vcpu, call, gva, HV_SEG_LDTR);
}

int soft_insn_str(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    return store_system_selector(vcpu, call, gva, HV_SEG_TR);
}

/* ---- Queries ---------------------------------------------------------------------------------- */

static void set_zf(struct hv_cpu *cpu, bool zf)
{
    cpu->arith = (uint16_t)((cpu->arith & ~SOFT_ARITH_ZF) | (zf ? SOFT_ARITH_ZF : 0));
}

/* LAR, LSL: operands destination, selector. VERR, VERW: selector. */
int soft_insn_query(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    enum hv_segment_query query = call->insn.op == SOFT_OP_LAR    ? HV_SEGMENT_QUERY_LAR
                                  : call->insn.op == SOFT_OP_LSL  ? HV_SEGMENT_QUERY_LSL
                                  : call->insn.op == SOFT_OP_VERR ? HV_SEGMENT_QUERY_VERR
                                                                  : HV_SEGMENT_QUERY_VERW;
    bool loads = query == HV_SEGMENT_QUERY_LAR || query == HV_SEGMENT_QUERY_LSL;
    uint64_t selector, value = 0;
    bool valid = false;
    int rc;

    if (no_descriptors(vcpu->cpu)) {
        return soft_insn_raise(vcpu, HV_VECTOR_UD);
    }
    rc = soft_operand_read(vcpu, call, loads ? 1 : 0, gva, &selector);
    if (!rc) {
        rc = hv_segment_query(vcpu->cpu, &vcpu->access, query, (uint16_t)selector, &valid, &value,
                              &vcpu->fault);
    }
    if (rc) {
        return rc;
    }
    if (loads && valid) {
        rc = soft_operand_write(vcpu, call, 0, gva, value);
    }
    set_zf(vcpu->cpu, valid);
    return rc;
}

int soft_insn_arpl(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    uint64_t selector, source;
    int rc;

    if (no_descriptors(vcpu->cpu)) {
        return soft_insn_raise(vcpu, HV_VECTOR_UD);
    }
    rc = soft_operand_read(vcpu, call, 0, gva, &selector);
    if (!rc) {
        rc = soft_operand_read(vcpu, call, 1, gva, &source);
    }
    if (rc) {
        return rc;
    }
    if ((selector & 3) >= (source & 3)) {
        set_zf(vcpu->cpu, false);
        return SOFT_RESULT_NEXT;
    }
    rc = soft_operand_write(vcpu, call, 0, gva, (selector & ~UINT64_C(3)) | (source & 3));
    if (!rc) {
        set_zf(vcpu->cpu, true);
    }
    return rc;
}

/* ---- FS and GS bases -------------------------------------------------------------------------- */

static void set_base(struct hv_cpu *cpu, enum hv_seg seg, uint64_t base)
{
    struct hv_segment value = cpu->seg[seg];

    value.base = base;
    hv_segment_set(cpu, seg, &value);
}

int soft_insn_swapgs(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    struct hv_cpu *cpu = vcpu->cpu;
    uint64_t base = cpu->seg[HV_SEG_GS].base;

    (void)call;
    (void)gva;
    set_base(cpu, HV_SEG_GS, cpu->msr.kernel_gs_base);
    cpu->msr.kernel_gs_base = base;
    return SOFT_RESULT_NEXT;
}

/* RDFSBASE, RDGSBASE. */
int soft_insn_read_base(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    enum hv_seg seg = call->insn.op == SOFT_OP_RDFSBASE ? HV_SEG_FS : HV_SEG_GS;

    if (!(vcpu->cpu->cr4 & HV_CR4_FSGSBASE)) {
        return soft_insn_raise(vcpu, HV_VECTOR_UD);
    }
    return soft_operand_write(vcpu, call, 0, gva, vcpu->cpu->seg[seg].base);
}

int soft_insn_write_base(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    enum hv_seg seg = call->insn.op == SOFT_OP_WRFSBASE ? HV_SEG_FS : HV_SEG_GS;
    uint64_t base;
    int rc;

    if (!(vcpu->cpu->cr4 & HV_CR4_FSGSBASE)) {
        return soft_insn_raise(vcpu, HV_VECTOR_UD);
    }
    rc = soft_operand_read(vcpu, call, 0, gva, &base);
    if (rc) {
        return rc;
    }
    if (!hv_canonical(base)) {
        return soft_insn_raise_gp(vcpu);
    }
    set_base(vcpu->cpu, seg, base);
    return soft_leave(vcpu, call);
}

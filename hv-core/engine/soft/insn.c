/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the instructions' C functions share; see insn.h. */
#include "engine/soft/insn.h"

#include "engine/soft/access.h"
#include "engine/soft/ram.h"

#include "cpu/segment.h"

static int stack_fault(struct hv_engine_vcpu *vcpu, enum hv_seg seg, int rc)
{
    return seg == HV_SEG_SS ? soft_stack_result(vcpu, rc) : rc;
}

int soft_load(struct hv_engine_vcpu *vcpu, uint64_t gva, unsigned bytes, enum hv_seg seg,
              uint64_t *value_out)
{
    const void *place = soft_tlb_lookup(&vcpu->view[SOFT_TLB_READ], vcpu->tlb_id, gva, bytes);

    *value_out = 0;
    if (HV_UNLIKELY(!place)) {
        return stack_fault(vcpu, seg, soft_read_slow(vcpu, gva, bytes, value_out));
    }
    if (!soft_ram_scalar(bytes)) {
        return stack_fault(vcpu, seg, soft_read_slow(vcpu, gva, bytes, value_out));
    }
    *value_out = soft_ram_load(place, bytes);
    return 0;
}

int soft_store(struct hv_engine_vcpu *vcpu, uint64_t gva, unsigned bytes, enum hv_seg seg,
               uint64_t value)
{
    void *place = soft_tlb_lookup(&vcpu->view[SOFT_TLB_WRITE], vcpu->tlb_id, gva, bytes);

    if (HV_UNLIKELY(!place)) {
        return stack_fault(vcpu, seg, soft_write_slow(vcpu, gva, bytes, value));
    }
    if (!soft_ram_scalar(bytes)) {
        return stack_fault(vcpu, seg, soft_write_slow(vcpu, gva, bytes, value));
    }
    soft_ram_store(place, bytes, value);
    return 0;
}

int soft_modify(struct hv_engine_vcpu *vcpu, uint64_t gva, unsigned bytes, enum hv_seg seg,
                bool locked, void **place_out, bool *direct_out)
{
    *direct_out = false;
    *place_out = NULL;
    if (!(gva & (bytes - 1))) {
        *place_out = soft_tlb_lookup(&vcpu->view[SOFT_TLB_WRITE], vcpu->tlb_id, gva, bytes);
        *direct_out = *place_out != NULL;
    }
    if (*direct_out) {
        return 0;
    }
    return stack_fault(vcpu, seg, soft_rmw_begin(vcpu, gva, bytes, locked, place_out));
}

int soft_operand_read(struct hv_engine_vcpu *vcpu, const struct soft_call *call, unsigned index,
                      uint64_t gva, uint64_t *value_out)
{
    const struct soft_operand *operand = &call->insn.operand[index];

    switch (operand->kind) {
    case SOFT_OPERAND_MEM:
        return soft_load(vcpu, gva, operand->bytes, (enum hv_seg)call->insn.mem.segment, value_out);
    case SOFT_OPERAND_GPR:
    case SOFT_OPERAND_GPR_HIGH:
        *value_out = soft_get(vcpu->cpu, soft_operand_place(operand), operand->bytes);
        return 0;
    default:
        *value_out = call->insn.imm;
        return 0;
    }
}

int soft_operand_write(struct hv_engine_vcpu *vcpu, const struct soft_call *call, unsigned index,
                       uint64_t gva, uint64_t value)
{
    const struct soft_operand *operand = &call->insn.operand[index];

    if (operand->kind == SOFT_OPERAND_MEM) {
        return soft_store(vcpu, gva, operand->bytes, (enum hv_seg)call->insn.mem.segment, value);
    }
    soft_set(vcpu->cpu, soft_operand_place(operand), operand->bytes, value);
    return 0;
}

int soft_operand_linear(struct hv_engine_vcpu *vcpu, enum hv_seg seg, uint64_t offset,
                        unsigned bytes, bool write, uint64_t *gva_out)
{
    hv_gva gva = {0};
    int rc = hv_segment_linear(vcpu->cpu, seg, offset, bytes, write, &gva, &vcpu->fault);

    *gva_out = gva.v;
    return rc;
}

uint64_t soft_operand_offset(const struct hv_engine_vcpu *vcpu, const struct soft_call *call,
                             int64_t more)
{
    const struct soft_mem *mem = &call->insn.mem;
    const struct hv_cpu *cpu = vcpu->cpu;
    uint64_t offset = (uint64_t)mem->disp + (uint64_t)more;

    if (mem->base == SOFT_REG_RIP) {
        offset += soft_next_rip(vcpu, call);
    } else if (mem->base != SOFT_REG_NONE) {
        offset += cpu->slot[mem->base];
    }
    if (mem->index != SOFT_REG_NONE) {
        offset += cpu->slot[mem->index] << mem->scale;
    }
    return offset & hv_bytes_mask(call->insn.address_bytes);
}

unsigned soft_stack_width(const struct hv_cpu *cpu)
{
    if (hv_cpu_code64(cpu)) {
        return 8;
    }
    return cpu->seg[HV_SEG_SS].attr & HV_SEG_ATTR_DB ? 4 : 2;
}

uint64_t soft_stack_pointer(const struct hv_cpu *cpu)
{
    return cpu->slot[HV_REG_RSP] & hv_bytes_mask(soft_stack_width(cpu));
}

void soft_set_stack_pointer(struct hv_cpu *cpu, uint64_t value)
{
    soft_set(cpu, HV_REG_RSP * 8u, soft_stack_width(cpu), value);
}

int soft_stack_push(struct hv_engine_vcpu *vcpu, uint64_t *top_inout, unsigned bytes,
                    uint64_t value)
{
    uint64_t top = (*top_inout - bytes) & hv_bytes_mask(soft_stack_width(vcpu->cpu));
    uint64_t gva;
    int rc = soft_operand_linear(vcpu, HV_SEG_SS, top, bytes, true, &gva);

    if (!rc) {
        rc = soft_store(vcpu, gva, bytes, HV_SEG_SS, value);
    }
    if (!rc) {
        *top_inout = top;
    }
    return rc;
}

int soft_stack_pop(struct hv_engine_vcpu *vcpu, uint64_t *top_inout, unsigned bytes,
                   uint64_t *value_out)
{
    uint64_t gva;
    int rc = soft_operand_linear(vcpu, HV_SEG_SS, *top_inout, bytes, false, &gva);

    if (!rc) {
        rc = soft_load(vcpu, gva, bytes, HV_SEG_SS, value_out);
    }
    if (!rc) {
        *top_inout = (*top_inout + bytes) & hv_bytes_mask(soft_stack_width(vcpu->cpu));
    }
    return rc;
}

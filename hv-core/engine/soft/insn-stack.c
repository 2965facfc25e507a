/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Stack instructions in the modes and widths that have no handler. Source: SDM 2. */
#include "engine/soft/insn.h"

#include "cpu/segment.h"

int soft_insn_push(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    const struct soft_operand *src = &call->insn.operand[0];
    uint64_t top = soft_stack_pointer(vcpu->cpu);
    uint64_t value;
    int rc = 0;

    if (src->kind == SOFT_OPERAND_SEG) {
        value = vcpu->cpu->seg[src->reg].selector;
    } else {
        rc = soft_operand_read(vcpu, call, 0, gva, &value);
    }
    if (!rc) {
        rc = soft_stack_push(vcpu, &top, call->insn.operand_bytes, value);
    }
    if (!rc) {
        soft_set_stack_pointer(vcpu->cpu, top);
    }
    return rc;
}

static int pop_segment(struct hv_engine_vcpu *vcpu, const struct soft_call *call)
{
    struct hv_cpu *cpu = vcpu->cpu;
    enum hv_seg seg = (enum hv_seg)call->insn.operand[0].reg;
    uint64_t top = soft_stack_pointer(cpu);
    uint64_t value;
    int rc = soft_stack_pop(vcpu, &top, call->insn.operand_bytes, &value);

    if (!rc) {
        rc = hv_segment_load(cpu, &vcpu->access, seg, (uint16_t)value, &vcpu->fault);
    }
    if (rc) {
        return rc;
    }
    soft_set_stack_pointer(cpu, top);
    if (seg == HV_SEG_SS) {
        cpu->mov_ss_shadow = true;
    }
    return soft_leave(vcpu, call);
}

int soft_insn_pop(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    const struct soft_operand *dst = &call->insn.operand[0];
    struct hv_cpu *cpu = vcpu->cpu;
    unsigned bytes = call->insn.operand_bytes;
    uint64_t before = cpu->slot[HV_REG_RSP];
    uint64_t top = soft_stack_pointer(cpu);
    uint64_t value;
    int rc;

    if (dst->kind == SOFT_OPERAND_SEG) {
        return pop_segment(vcpu, call);
    }
    rc = soft_stack_pop(vcpu, &top, bytes, &value);
    if (rc) {
        return rc;
    }
    soft_set_stack_pointer(cpu, top);
    if (dst->kind == SOFT_OPERAND_MEM) {
        /* An address through rSP uses its value after the increment (SDM 2, POP). */
        rc = soft_operand_linear(vcpu, (enum hv_seg)call->insn.mem.segment,
                                 soft_operand_offset(vcpu, call, 0), bytes, true, &gva);
        if (!rc) {
            rc = soft_store(vcpu, gva, bytes, (enum hv_seg)call->insn.mem.segment, value);
        }
        if (rc) {
            cpu->slot[HV_REG_RSP] = before;
        }
        return rc;
    }
    soft_set(cpu, soft_operand_place(dst), bytes, value);
    return SOFT_RESULT_NEXT;
}

int soft_insn_pusha(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    struct hv_cpu *cpu = vcpu->cpu;
    uint64_t top = soft_stack_pointer(cpu);

    (void)gva;
    for (unsigned reg = HV_REG_RAX; reg <= HV_REG_RDI; reg++) {
        int rc = soft_stack_push(vcpu, &top, call->insn.operand_bytes, cpu->slot[reg]);

        if (rc) {
            return rc;
        }
    }
    soft_set_stack_pointer(cpu, top);
    return SOFT_RESULT_NEXT;
}

int soft_insn_popa(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    struct hv_cpu *cpu = vcpu->cpu;
    unsigned bytes = call->insn.operand_bytes;
    uint64_t top = soft_stack_pointer(cpu);
    uint64_t value[8];

    (void)gva;
    for (unsigned reg = 8; reg-- > 0;) {
        int rc = soft_stack_pop(vcpu, &top, bytes, &value[reg]);

        if (rc) {
            return rc;
        }
    }
    for (unsigned reg = 0; reg < 8; reg++) {
        if (reg != HV_REG_RSP) {
            soft_set(cpu, reg * 8, bytes, value[reg]);
        }
    }
    soft_set_stack_pointer(cpu, top);
    return SOFT_RESULT_NEXT;
}

/* The frame pointers of @level - 1 outer frames are copied from the old frame. */
static int copy_display(struct hv_engine_vcpu *vcpu, unsigned level, unsigned bytes, uint64_t *top)
{
    uint64_t mask = hv_bytes_mask(soft_stack_width(vcpu->cpu));
    uint64_t frame = vcpu->cpu->slot[HV_REG_RBP] & mask;

    for (unsigned i = 1; i < level; i++) {
        uint64_t gva, value;
        int rc;

        frame = (frame - bytes) & mask;
        rc = soft_operand_linear(vcpu, HV_SEG_SS, frame, bytes, false, &gva);
        if (!rc) {
            rc = soft_load(vcpu, gva, bytes, HV_SEG_SS, &value);
        }
        if (!rc) {
            rc = soft_stack_push(vcpu, top, bytes, value);
        }
        if (rc) {
            return rc;
        }
    }
    return 0;
}

int soft_insn_enter(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    struct hv_cpu *cpu = vcpu->cpu;
    unsigned bytes = call->insn.operand_bytes;
    unsigned level = (unsigned)call->insn.imm2 & 31;
    uint64_t mask = hv_bytes_mask(soft_stack_width(cpu));
    uint64_t top = soft_stack_pointer(cpu);
    uint64_t frame, end;
    int rc = soft_stack_push(vcpu, &top, bytes, cpu->slot[HV_REG_RBP]);

    (void)gva;
    frame = top;
    if (!rc && level > 0) {
        rc = copy_display(vcpu, level, bytes, &top);
        if (!rc) {
            rc = soft_stack_push(vcpu, &top, bytes, frame);
        }
    }
    if (rc) {
        return rc;
    }
    /* A store at the new stack pointer must be possible (SDM 2, ENTER). */
    end = (top - (call->insn.imm & 0xffff)) & mask;
    rc = soft_operand_linear(vcpu, HV_SEG_SS, end, bytes, true, &gva);
    if (!rc) {
        rc = vcpu->access.ops->probe_write(vcpu->access.context, (hv_gva){gva}, bytes,
                                           HV_WALK_AS_CURRENT, &vcpu->fault);
    }
    if (rc) {
        return rc;
    }
    soft_set(cpu, HV_REG_RBP * 8u, bytes, frame);
    soft_set_stack_pointer(cpu, end);
    return SOFT_RESULT_NEXT;
}

int soft_insn_leave(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    struct hv_cpu *cpu = vcpu->cpu;
    unsigned bytes = call->insn.operand_bytes;
    uint64_t top = cpu->slot[HV_REG_RBP] & hv_bytes_mask(soft_stack_width(cpu));
    uint64_t value;
    int rc;

    (void)gva;
    rc = soft_stack_pop(vcpu, &top, bytes, &value);
    if (rc) {
        return rc;
    }
    soft_set_stack_pointer(cpu, top);
    soft_set(cpu, HV_REG_RBP * 8u, bytes, value);
    return SOFT_RESULT_NEXT;
}

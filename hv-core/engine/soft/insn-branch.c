/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Branches: near ones where RIP is cut to 16 bits or checked against CS's limit, and everything that
 * goes through cpu/transfer.h and cpu/event.h. Source: SDM 2.
 */
#include "engine/soft/insn.h"

#include "engine/soft/access.h"

#include "cpu/event.h"
#include "cpu/transfer.h"

/* Check a near target: canonical, or inside CS's limit. Nothing is committed. */
static int check_target(struct hv_engine_vcpu *vcpu, const struct soft_call *call,
                        uint64_t *target_inout)
{
    const struct hv_cpu *cpu = vcpu->cpu;

    *target_inout &= hv_bytes_mask(call->insn.operand_bytes);
    if (hv_cpu_code64(cpu)) {
        return hv_canonical(*target_inout) ? 0 : soft_insn_raise_gp(vcpu);
    }
    return *target_inout <= cpu->seg[HV_SEG_CS].limit ? 0 : soft_insn_raise_gp(vcpu);
}

/* Where a relative, register or memory operand leads. */
static int near_target(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva,
                       uint64_t *target_out)
{
    int rc = 0;

    if (call->insn.operand[0].kind == SOFT_OPERAND_REL) {
        *target_out = soft_next_rip(vcpu, call) + call->insn.imm;
    } else {
        rc = soft_operand_read(vcpu, call, 0, gva, target_out);
    }
    return rc ? rc : check_target(vcpu, call, target_out);
}

/* Done. The run loop cannot tell: what it looks up may be a pending instruction's block. */
static int go(struct hv_engine_vcpu *vcpu, uint64_t target)
{
    soft_insn_done(vcpu);
    vcpu->cpu->rip = target;
    return SOFT_RESULT_LOOKUP;
}

int soft_insn_jmp(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    uint64_t target;
    int rc = near_target(vcpu, call, gva, &target);

    return rc ? rc : go(vcpu, target);
}

int soft_insn_jcc(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    if (!soft_condition(call->insn.opcode & 15, vcpu->cpu->arith)) {
        return go(vcpu, soft_next_rip(vcpu, call));
    }
    return soft_insn_jmp(vcpu, call, gva);
}

int soft_insn_call(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    uint64_t top = soft_stack_pointer(vcpu->cpu);
    uint64_t target;
    int rc = near_target(vcpu, call, gva, &target);

    if (!rc) {
        rc = soft_stack_push(vcpu, &top, call->insn.operand_bytes, soft_next_rip(vcpu, call));
    }
    if (rc) {
        return rc;
    }
    soft_set_stack_pointer(vcpu->cpu, top);
    return go(vcpu, target);
}

int soft_insn_ret(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    uint64_t top = soft_stack_pointer(vcpu->cpu);
    uint64_t target;
    int rc = soft_stack_pop(vcpu, &top, call->insn.operand_bytes, &target);

    (void)gva;
    if (!rc) {
        rc = check_target(vcpu, call, &target);
    }
    if (rc) {
        return rc;
    }
    if (call->insn.operands > 0) {
        top += call->insn.imm & 0xffff;
    }
    soft_set_stack_pointer(vcpu->cpu, top);
    return go(vcpu, target);
}

/* LOOP, LOOPE, LOOPNE: rCX of the address size counts; the branch comes first, as it may fault. */
int soft_insn_loop(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    struct hv_cpu *cpu = vcpu->cpu;
    unsigned bytes = call->insn.address_bytes;
    uint64_t count = (soft_get(cpu, HV_REG_RCX * 8u, bytes) - 1) & hv_bytes_mask(bytes);
    bool zero = cpu->arith & SOFT_ARITH_ZF;
    bool taken = count != 0;
    uint64_t target = soft_next_rip(vcpu, call);

    /* E0 LOOPNE, E1 LOOPE, E2 LOOP. */
    if (call->insn.opcode == 0xe0) {
        taken = taken && !zero;
    } else if (call->insn.opcode == 0xe1) {
        taken = taken && zero;
    }
    if (taken) {
        int rc = near_target(vcpu, call, gva, &target);

        if (rc) {
            return rc;
        }
    }
    soft_set(cpu, HV_REG_RCX * 8u, bytes, count);
    return go(vcpu, target);
}

int soft_insn_jcxz(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    if (soft_get(vcpu->cpu, HV_REG_RCX * 8u, call->insn.address_bytes) != 0) {
        return go(vcpu, soft_next_rip(vcpu, call));
    }
    return soft_insn_jmp(vcpu, call, gva);
}

/* ---- Far -------------------------------------------------------------------------------------- */

/* Selector and offset of a far operand. */
static int far_operand(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva,
                       uint16_t *selector_out, uint64_t *offset_out)
{
    enum hv_seg seg = (enum hv_seg)call->insn.mem.segment;
    unsigned bytes = call->insn.operand_bytes;
    uint64_t selector;
    int rc;

    if (call->insn.operand[0].kind == SOFT_OPERAND_FAR) {
        *offset_out = call->insn.imm;
        *selector_out = (uint16_t)call->insn.imm2;
        return 0;
    }
    rc = soft_load(vcpu, gva, bytes, seg, offset_out);
    if (!rc) {
        rc = soft_load(vcpu, gva + bytes, 2, seg, &selector);
        *selector_out = (uint16_t)selector;
    }
    return rc;
}

static int far_branch(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva,
                      int (*transfer)(struct hv_cpu *cpu, const struct hv_access *access,
                                      uint16_t selector, uint64_t offset, unsigned operand_bytes,
                                      uint64_t next_rip, struct hv_fault *fault_out))
{
    uint16_t selector;
    uint64_t offset;
    int rc = far_operand(vcpu, call, gva, &selector, &offset);

    if (!rc) {
        rc = transfer(vcpu->cpu, &vcpu->access, selector, offset, call->insn.operand_bytes,
                      soft_next_rip(vcpu, call), &vcpu->fault);
    }
    return soft_transferred(rc);
}

int soft_insn_jmpf(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    return far_branch(vcpu, call, gva, hv_transfer_far_jump);
}

int soft_insn_callf(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    return far_branch(vcpu, call, gva, hv_transfer_far_call);
}

int soft_insn_retf(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    uint16_t release = call->insn.operands > 0 ? (uint16_t)call->insn.imm : 0;

    (void)gva;
    return soft_transferred(hv_transfer_far_return(
        vcpu->cpu, &vcpu->access, call->insn.operand_bytes, release, &vcpu->fault));
}

int soft_insn_iret(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    (void)gva;
    return soft_transferred(hv_transfer_iret(vcpu->cpu, &vcpu->access, call->insn.operand_bytes,
                                             soft_next_rip(vcpu, call), &vcpu->fault));
}

/* ---- Software interrupts ---------------------------------------------------------------------- */

static int interrupt(struct hv_engine_vcpu *vcpu, const struct soft_call *call,
                     enum hv_event_kind kind, uint8_t vector)
{
    int rc = hv_event_deliver(vcpu->cpu, &vcpu->access, kind, vector, false, 0,
                              soft_next_rip(vcpu, call), &vcpu->fault);

    if (!rc) {
        vcpu->no_trap = true;
    }
    return soft_transferred(rc);
}

int soft_insn_int(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    const struct hv_cpu *cpu = vcpu->cpu;

    (void)gva;
    if (call->insn.opcode == 0xcc) {
        return interrupt(vcpu, call, HV_EVENT_SOFTWARE_EXCEPTION, HV_VECTOR_BP);
    }
    /* Virtual-8086 mode without VME: INT n is IOPL-sensitive (SDM 3A 20.2.7). INT3 is not. */
    if (hv_cpu_v86(cpu) && (cpu->rflags & HV_RFLAGS_IOPL) != HV_RFLAGS_IOPL) {
        return soft_insn_raise_gp(vcpu);
    }
    return interrupt(vcpu, call, HV_EVENT_SOFTWARE, (uint8_t)call->insn.imm);
}

int soft_insn_int1(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    (void)gva;
    /* Its #DB reports a breakpoint that MOV SS held off, too. */
    vcpu->cpu->dr[6] |= vcpu->watch_hits;
    vcpu->watch_hits = 0;
    return interrupt(vcpu, call, HV_EVENT_PRIVILEGED_SOFTWARE, HV_VECTOR_DB);
}

int soft_insn_into(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    (void)gva;
    if (!(vcpu->cpu->arith & SOFT_ARITH_OF)) {
        return SOFT_RESULT_NEXT;
    }
    return interrupt(vcpu, call, HV_EVENT_SOFTWARE_EXCEPTION, HV_VECTOR_OF);
}

/* Signed index against two bounds in memory: #BR, a fault, when outside. */
int soft_insn_bound(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    unsigned bytes = call->insn.operand_bytes;
    unsigned shift = 64 - bytes * 8;
    enum hv_seg seg = (enum hv_seg)call->insn.mem.segment;
    uint64_t index, low, high;
    int rc = soft_operand_read(vcpu, call, 0, gva, &index);

    if (!rc) {
        rc = soft_load(vcpu, gva, bytes, seg, &low);
    }
    if (!rc) {
        rc = soft_load(vcpu, gva + bytes, bytes, seg, &high);
    }
    if (rc) {
        return rc;
    }
    if ((int64_t)(index << shift) < (int64_t)(low << shift) ||
        (int64_t)(index << shift) > (int64_t)(high << shift)) {
        return soft_insn_raise(vcpu, HV_VECTOR_BR);
    }
    return SOFT_RESULT_NEXT;
}

/* ---- System calls ----------------------------------------------------------------------------- */

/*
 * SYSCALL and SYSRET are followed by a single-step trap when TF is set as they leave it: a mask with
 * TF keeps the trap out of the system call, and SYSRET that restores TF traps at once. (SDM 2 says it
 * of neither; Linux 6.1 arch/x86/entry/common.c and KVM's emulator both tell of it.)
 */
static int trap_by_new_flags(struct hv_engine_vcpu *vcpu, int rc)
{
    if (!rc) {
        vcpu->no_trap = true;
        vcpu->trap = vcpu->cpu->rflags & HV_RFLAGS_TF ? HV_DR6_BS : 0;
    }
    return soft_transferred(rc);
}

int soft_insn_syscall(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    (void)gva;
    return trap_by_new_flags(
        vcpu, hv_transfer_syscall(vcpu->cpu, soft_next_rip(vcpu, call), &vcpu->fault));
}

int soft_insn_sysret(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    (void)gva;
    return trap_by_new_flags(vcpu,
                             hv_transfer_sysret(vcpu->cpu, call->insn.operand_bytes, &vcpu->fault));
}

int soft_insn_sysenter(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    (void)call;
    (void)gva;
    return soft_transferred(hv_transfer_sysenter(vcpu->cpu, &vcpu->fault));
}

int soft_insn_sysexit(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    (void)gva;
    return soft_transferred(hv_transfer_sysexit(vcpu->cpu, call->insn.operand_bytes, &vcpu->fault));
}

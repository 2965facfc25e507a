/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Transfers of control that touch segments or privilege: far jumps, calls and returns, IRET, task
 * switches, SYSCALL and SYSENTER with their returns.
 *
 * Each is a whole instruction: on 0, cpu->rip is the target and everything is committed. Nothing
 * has changed otherwise (results as in segment.h). @next_rip is the address behind the instruction.
 * @operand_bytes is 2, 4 or 8.
 *
 * One exception to "nothing has changed": a task switch whose new segments are bad is complete, and
 * the fault belongs to the new task. So deliver a fault of these functions at cpu->rip as it is
 * afterwards, not at a saved address.
 */
#pragma once

#include "cpu/access.h"

HV_MUST_CHECK int hv_transfer_far_jump(struct hv_cpu *cpu, const struct hv_access *access,
                                       uint16_t selector, uint64_t offset, unsigned operand_bytes,
                                       uint64_t next_rip, struct hv_fault *fault_out);
HV_MUST_CHECK int hv_transfer_far_call(struct hv_cpu *cpu, const struct hv_access *access,
                                       uint16_t selector, uint64_t offset, unsigned operand_bytes,
                                       uint64_t next_rip, struct hv_fault *fault_out);
/** @pop_bytes is released from the stack after the return address (RETF imm16). */
HV_MUST_CHECK int hv_transfer_far_return(struct hv_cpu *cpu, const struct hv_access *access,
                                         unsigned operand_bytes, uint16_t pop_bytes,
                                         struct hv_fault *fault_out);
HV_MUST_CHECK int hv_transfer_iret(struct hv_cpu *cpu, const struct hv_access *access,
                                   unsigned operand_bytes, uint64_t next_rip,
                                   struct hv_fault *fault_out);
HV_MUST_CHECK int hv_transfer_syscall(struct hv_cpu *cpu, uint64_t next_rip,
                                      struct hv_fault *fault_out);
HV_MUST_CHECK int hv_transfer_sysret(struct hv_cpu *cpu, unsigned operand_bytes,
                                     struct hv_fault *fault_out);
HV_MUST_CHECK int hv_transfer_sysenter(struct hv_cpu *cpu, struct hv_fault *fault_out);
HV_MUST_CHECK int hv_transfer_sysexit(struct hv_cpu *cpu, unsigned operand_bytes,
                                      struct hv_fault *fault_out);

enum hv_task_cause {
    HV_TASK_CAUSE_JUMP,
    HV_TASK_CAUSE_CALL,
    HV_TASK_CAUSE_IRET,
    HV_TASK_CAUSE_EVENT, /* through a task gate of the IDT */
};

/** Switch tasks (SDM 3A 7.3). @error is pushed on the new stack when @has_error. */
HV_MUST_CHECK int hv_transfer_task(struct hv_cpu *cpu, const struct hv_access *access,
                                   uint16_t selector, enum hv_task_cause cause, uint64_t next_rip,
                                   bool has_error, uint32_t error, struct hv_fault *fault_out);

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The C functions of instructions without a handler, by family, and what they share: operands,
 * memory at the current privilege, the stack of any mode.
 *
 * On entry cpu->rip is the instruction's address. A function checks, then commits; what it returns
 * is an enum soft_result or a negative errno (uop.h).
 */
#pragma once

#include "engine/soft/cold.h"
#include "engine/soft/operand.h"

#include "cpu/policy.h"

#include "engine/soft/isa-ops.h"

/* ---- Shared ----------------------------------------------------------------------------------- */

static inline uint64_t soft_next_rip(const struct hv_engine_vcpu *vcpu,
                                     const struct soft_call *call)
{
    const struct hv_cpu *cpu = vcpu->cpu;

    return (cpu->rip + call->insn.length) & cpu->slot[SOFT_SLOT_RIP_MASK];
}

/** Done; mode, translations or interruptibility may have changed. */
static inline int soft_leave(struct hv_engine_vcpu *vcpu, const struct soft_call *call)
{
    vcpu->cpu->rip = soft_next_rip(vcpu, call);
    return SOFT_RESULT_LEAVE;
}

/** #GP(0). */
static inline int soft_insn_raise_gp(struct hv_engine_vcpu *vcpu)
{
    return soft_insn_raise_code(vcpu, HV_VECTOR_GP, 0);
}

/** What a call into cpu/ that set cpu->rip itself means: a new place, perhaps a new mode. */
static inline int soft_transferred(int rc)
{
    return rc ? rc : SOFT_RESULT_LEAVE;
}

/** Place of a register operand. */
static inline unsigned soft_operand_place(const struct soft_operand *operand)
{
    return operand->reg * 8u + (operand->kind == SOFT_OPERAND_GPR_HIGH ? 1 : 0);
}

static inline bool soft_operand_is_imm(const struct soft_operand *operand)
{
    return operand->kind == SOFT_OPERAND_IMM || operand->kind == SOFT_OPERAND_CONST;
}

/** Memory of 1 to 8 bytes through the TLB; @seg only tells #SS from #GP. */
HV_MUST_CHECK int soft_load(struct hv_engine_vcpu *vcpu, uint64_t gva, unsigned bytes,
                            enum hv_seg seg, uint64_t *value_out);
HV_MUST_CHECK int soft_store(struct hv_engine_vcpu *vcpu, uint64_t gva, unsigned bytes,
                             enum hv_seg seg, uint64_t value);
/** A place to work on, as soft_rmw_begin(), with a short way for aligned RAM. *direct_out: nothing
 * is to be committed. */
HV_MUST_CHECK int soft_modify(struct hv_engine_vcpu *vcpu, uint64_t gva, unsigned bytes,
                              enum hv_seg seg, bool locked, void **place_out, bool *direct_out);

/** Value of operand @index, zero-extended; @gva where it is memory. */
HV_MUST_CHECK int soft_operand_read(struct hv_engine_vcpu *vcpu, const struct soft_call *call,
                                    unsigned index, uint64_t gva, uint64_t *value_out);
HV_MUST_CHECK int soft_operand_write(struct hv_engine_vcpu *vcpu, const struct soft_call *call,
                                     unsigned index, uint64_t gva, uint64_t value);

/** Linear address of [offset, offset + bytes) of @seg; @offset is already cut. */
HV_MUST_CHECK int soft_operand_linear(struct hv_engine_vcpu *vcpu, enum hv_seg seg, uint64_t offset,
                                      unsigned bytes, bool write, uint64_t *gva_out);
/** Offset of the memory operand plus @more, cut to the address size. */
uint64_t soft_operand_offset(const struct hv_engine_vcpu *vcpu, const struct soft_call *call,
                             int64_t more);

/** Width of the stack pointer: 2, 4, 8. */
unsigned soft_stack_width(const struct hv_cpu *cpu);
/** The stack pointer, cut; and its low part set. */
uint64_t soft_stack_pointer(const struct hv_cpu *cpu);
void soft_set_stack_pointer(struct hv_cpu *cpu, uint64_t value);
/** Store below @top_inout and move it; load at it and move it. Registers do not change. */
HV_MUST_CHECK int soft_stack_push(struct hv_engine_vcpu *vcpu, uint64_t *top_inout, unsigned bytes,
                                  uint64_t value);
HV_MUST_CHECK int soft_stack_pop(struct hv_engine_vcpu *vcpu, uint64_t *top_inout, unsigned bytes,
                                 uint64_t *value_out);

/* ---- Families --------------------------------------------------------------------------------- */

/* insn-system.c */
soft_call_fn soft_insn_undefined, soft_insn_too_long, soft_insn_privilege;
soft_call_fn soft_insn_cpuid, soft_insn_rdtsc, soft_insn_rdtscp, soft_insn_rdpid, soft_insn_rdpmc,
    soft_insn_rdmsr, soft_insn_wrmsr, soft_insn_mov_cr, soft_insn_mov_dr, soft_insn_clts,
    soft_insn_lmsw, soft_insn_smsw, soft_insn_invlpg, soft_insn_invpcid, soft_insn_invd,
    soft_insn_hlt, soft_insn_stac, soft_insn_clac, soft_insn_xsetbv, soft_insn_vmcall,
    soft_insn_random, soft_insn_pause, soft_insn_xstate;

/* insn-segment.c */
soft_call_fn soft_insn_mov_seg, soft_insn_load_far, soft_insn_lgdt, soft_insn_lidt, soft_insn_sgdt,
    soft_insn_sidt, soft_insn_lldt, soft_insn_ltr, soft_insn_sldt, soft_insn_str, soft_insn_query,
    soft_insn_arpl, soft_insn_swapgs, soft_insn_read_base, soft_insn_write_base;

/* insn-flags.c */
soft_call_fn soft_insn_pushf, soft_insn_popf, soft_insn_cli, soft_insn_sti, soft_insn_lahf,
    soft_insn_sahf, soft_insn_cld, soft_insn_std;

/* insn-branch.c */
soft_call_fn soft_insn_jmp, soft_insn_jcc, soft_insn_call, soft_insn_ret, soft_insn_loop,
    soft_insn_jcxz, soft_insn_jmpf, soft_insn_callf, soft_insn_retf, soft_insn_iret, soft_insn_int,
    soft_insn_int1, soft_insn_into, soft_insn_bound, soft_insn_syscall, soft_insn_sysret,
    soft_insn_sysenter, soft_insn_sysexit;

/* insn-stack.c */
soft_call_fn soft_insn_push, soft_insn_pop, soft_insn_pusha, soft_insn_popa, soft_insn_enter,
    soft_insn_leave;

/* insn-bit.c */
soft_call_fn soft_insn_bit_memory;

/* insn-string.c */
soft_call_fn soft_insn_movs, soft_insn_stos, soft_insn_lods, soft_insn_scas, soft_insn_cmps;

/* insn-io.c */
soft_call_fn soft_insn_in, soft_insn_out, soft_insn_ins, soft_insn_outs;

/* insn-integer.c */
soft_call_fn soft_insn_div, soft_insn_idiv, soft_insn_xlat, soft_insn_bcd, soft_insn_salc,
    soft_insn_fence, soft_insn_flush_line;

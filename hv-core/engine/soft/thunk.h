/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Host-executed instructions: what the interpreter has no handler of its own for runs as the very
 * same host instruction between a load and a store of the registers it names. The silicon decides
 * the result; so there is no floating-point arithmetic in the engine's C code (decisions D11), and
 * one piece of code serves x87, MMX, SSE to AVX2, AES, SHA, BMI and the rare integer instructions.
 *
 *     thunk(cpu, place):  load the named vector, x87 or general registers from *cpu
 *                         restore the arithmetic flags where they are read
 *                         the instruction, its memory operand replaced by [place]
 *                         store what it wrote, and the flags where they are written
 *
 * Thunks are shared by all vCPUs of a domain and freed together. The code buffer is written
 * through one mapping and executed through another (a memfd mapped twice): never both at once.
 *
 * SSE exceptions: between soft_fpu_enter() and soft_fpu_leave() the host's MXCSR is the guest's with
 * every exception masked, so its sticky flags gather there at no cost. When the guest unmasks one,
 * the slow form runs on copies, and a newly raised unmasked flag discards them and raises #XM.
 *
 * x87 and MMX: the first instruction moves the guest's state into the host's FPU, where it stays
 * (live) while C code, which has no floating point, runs around it. Control word and exceptions are
 * the guest's own there: an unmasked exception only sets the summary bit, and the runner takes the
 * state out at once, so that the host never executes a waiting instruction with one pending.
 *
 *     in cpu->x --x87 or MMX thunk--> live --soft_fpu_spill, soft_fpu_leave--> in cpu->x
 */
#pragma once

#include "engine/soft/decode.h"
#include "engine/soft/vcpu.h"

/** @place: the memory operand, or NULL. Owned by the thunk buffer. */
typedef void soft_thunk_code(struct hv_cpu *cpu, void *place);

struct soft_thunk {
    soft_thunk_code *code;
    /* Size of the operand at @gva; 0: none, or addresses that the thunk finds itself (vector
     * indices, MASKMOV's rDI). */
    uint8_t memory_bytes;
    uint8_t memory_access; /* enum soft_access */
    bool aligned;          /* #GP when it is not aligned to memory_bytes */
    uint8_t fp;            /* enum soft_thunk_fp: which state it touches */
    /* The rest is the runner's own. */
    bool locked;         /* LOCK, or XCHG with memory */
    bool special;        /* thunk-special.c runs it */
    uint8_t view;        /* enum soft_tlb_kind of the operand */
    uint8_t slow_mask;   /* address bits that send an access to the slow path */
    uint8_t x87;         /* enum soft_thunk_x87 */
    uint16_t x87_opcode; /* as FOP keeps it */
};

enum soft_thunk_fp {
    SOFT_THUNK_FP_NONE = 0, /* general registers and flags only */
    SOFT_THUNK_FP_X87 = 1u << 0,
    SOFT_THUNK_FP_MMX = 1u << 1,
    SOFT_THUNK_FP_SSE = 1u << 2,
    SOFT_THUNK_FP_AVX = 1u << 3,
    SOFT_THUNK_FP_ARITH = 1u << 4, /* can raise a floating-point exception */
    SOFT_THUNK_FP_VEX = 1u << 5,   /* VEX-encoded: none in real and virtual-8086 mode */
};

enum soft_thunk_x87 {
    SOFT_THUNK_X87_NOWAIT = 1u << 0,  /* does not raise a pending #MF */
    SOFT_THUNK_X87_CONTROL = 1u << 1, /* leaves the instruction and data pointers alone */
};

/** A domain's thunks, none yet. -ENOMEM; another errno where the host maps no executable memory. */
HV_MUST_CHECK int soft_thunks_create(struct soft_thunks **thunks_out);
/** No vCPU runs. NULL is accepted. */
void soft_thunks_destroy(struct soft_thunks *thunks);

/**
 * Forget all thunks, so that a domain that has used up its quota can go on.
 *
 * Returns 0, or a negative errno of the host with nothing changed. Context: nobody holds a thunk
 * any more, nor asks for one: they were closed, then all blocks went and every vCPU has
 * acknowledged it (decisions D4).
 */
HV_MUST_CHECK int soft_thunks_reset(struct soft_thunks *thunks);

/**
 * Let soft_thunk_get() say -ENOSPC to all, until soft_thunks_open().
 *
 * Returns false, with nothing changed, when they are closed already, or nobody has been refused one
 * since the last reset. Context: any thread; locks: HV_RANK_CODE.
 */
HV_MUST_CHECK bool soft_thunks_close(struct soft_thunks *thunks);
void soft_thunks_open(struct soft_thunks *thunks);

/**
 * The thunk for @insn, made when there is none yet.
 *
 * @bytes  the instruction's bytes, insn->length of them; borrowed for the call.
 *
 * Returns 0 and *thunk_out (valid until soft_thunks_reset()); -ENOTSUP when the instruction is none
 * that may run so (control transfer, privileged, system state, segment bases, CPUID, RDTSC, …): the
 * caller has its own handler or raises #UD; -ENOSPC when the domain has as many as it may: see
 * soft_thunks_reset(); -ENOMEM when the host has no memory.
 * Context: any vCPU's thread; locks: HV_RANK_CODE.
 */
HV_MUST_CHECK int soft_thunk_get(struct soft_thunks *thunks, const struct soft_insn *insn,
                                 const uint8_t *bytes, const struct soft_thunk **thunk_out);

/**
 * Run one: #NM and #UD checks by CR0/CR4/XCR0, pending #MF, the memory operand
 * through access.h at linear address @gva (checked, bounced where it crosses a page), the code, and
 * floating-point exceptions. cpu->rip is the instruction's own when @thunk->fp says X87.
 *
 * Returns 0; HV_FAULTED with vcpu->fault and nothing committed; -EAGAIN.
 */
HV_MUST_CHECK int soft_thunk_run(struct hv_engine_vcpu *vcpu, const struct soft_thunk *thunk,
                                 uint64_t gva);

/** Move x87 state that is live in the host to cpu->x, before other code may need the FPU. */
void soft_fpu_spill(struct hv_engine_vcpu *vcpu);

/** Enter and leave the engine: the host's own MXCSR and control word are kept and restored. */
void soft_fpu_enter(struct hv_engine_vcpu *vcpu);
void soft_fpu_leave(struct hv_engine_vcpu *vcpu);

/**
 * The instructions that move extended state as a whole or in part: FXSAVE, FXRSTOR, XSAVE*, XRSTOR*,
 * LDMXCSR, STMXCSR, FNSAVE, FRSTOR, FNSTENV, FLDENV, FNINIT, FWAIT, EMMS, XGETBV.
 *
 * Returns as soft_thunk_run(); -ENOTSUP when @insn is none of them.
 */
HV_MUST_CHECK int soft_xstate_insn(struct hv_engine_vcpu *vcpu, const struct soft_insn *insn,
                                   uint64_t gva);

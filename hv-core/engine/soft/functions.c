/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Which C function runs which instruction. What is in neither the emitters' tables nor here runs as
 * a thunk of the host's own instruction. */
#include "engine/soft/insn.h"
#include "engine/soft/translate-private.h"

static soft_call_fn *const functions[SOFT_OP_COUNT] = {
    /* system */
    [SOFT_OP_CPUID] = soft_insn_cpuid,
    [SOFT_OP_RDTSC] = soft_insn_rdtsc,
    [SOFT_OP_RDTSCP] = soft_insn_rdtscp,
    [SOFT_OP_RDPID] = soft_insn_rdpid,
    [SOFT_OP_RDPMC] = soft_insn_rdpmc,
    [SOFT_OP_RDMSR] = soft_insn_rdmsr,
    [SOFT_OP_WRMSR] = soft_insn_wrmsr,
    [SOFT_OP_MOV_CR] = soft_insn_mov_cr,
    [SOFT_OP_MOV_DR] = soft_insn_mov_dr,
    [SOFT_OP_CLTS] = soft_insn_clts,
    [SOFT_OP_LMSW] = soft_insn_lmsw,
    [SOFT_OP_SMSW] = soft_insn_smsw,
    [SOFT_OP_INVLPG] = soft_insn_invlpg,
    [SOFT_OP_INVPCID] = soft_insn_invpcid,
    [SOFT_OP_INVD] = soft_insn_invd,
    [SOFT_OP_WBINVD] = soft_insn_invd,
    [SOFT_OP_HLT] = soft_insn_hlt,
    [SOFT_OP_STAC] = soft_insn_stac,
    [SOFT_OP_CLAC] = soft_insn_clac,
    [SOFT_OP_XSETBV] = soft_insn_xsetbv,
    [SOFT_OP_VMCALL] = soft_insn_vmcall,
    [SOFT_OP_VMMCALL] = soft_insn_vmcall,
    [SOFT_OP_RDRAND] = soft_insn_random,
    [SOFT_OP_RDSEED] = soft_insn_random,
    [SOFT_OP_PAUSE] = soft_insn_pause,
    [SOFT_OP_UD0] = soft_insn_undefined,
    [SOFT_OP_UD1] = soft_insn_undefined,
    [SOFT_OP_UD2] = soft_insn_undefined,
    [SOFT_OP_RSM] = soft_insn_undefined,
    /* segments */
    [SOFT_OP_MOV_SEG] = soft_insn_mov_seg,
    [SOFT_OP_LES] = soft_insn_load_far,
    [SOFT_OP_LDS] = soft_insn_load_far,
    [SOFT_OP_LSS] = soft_insn_load_far,
    [SOFT_OP_LFS] = soft_insn_load_far,
    [SOFT_OP_LGS] = soft_insn_load_far,
    [SOFT_OP_LGDT] = soft_insn_lgdt,
    [SOFT_OP_LIDT] = soft_insn_lidt,
    [SOFT_OP_SGDT] = soft_insn_sgdt,
    [SOFT_OP_SIDT] = soft_insn_sidt,
    [SOFT_OP_LLDT] = soft_insn_lldt,
    [SOFT_OP_LTR] = soft_insn_ltr,
    [SOFT_OP_SLDT] = soft_insn_sldt,
    [SOFT_OP_STR] = soft_insn_str,
    [SOFT_OP_LAR] = soft_insn_query,
    [SOFT_OP_LSL] = soft_insn_query,
    [SOFT_OP_VERR] = soft_insn_query,
    [SOFT_OP_VERW] = soft_insn_query,
    [SOFT_OP_ARPL] = soft_insn_arpl,
    [SOFT_OP_SWAPGS] = soft_insn_swapgs,
    [SOFT_OP_RDFSBASE] = soft_insn_read_base,
    [SOFT_OP_RDGSBASE] = soft_insn_read_base,
    [SOFT_OP_WRFSBASE] = soft_insn_write_base,
    [SOFT_OP_WRGSBASE] = soft_insn_write_base,
    /* flags */
    [SOFT_OP_PUSHF] = soft_insn_pushf,
    [SOFT_OP_POPF] = soft_insn_popf,
    [SOFT_OP_CLI] = soft_insn_cli,
    [SOFT_OP_STI] = soft_insn_sti,
    [SOFT_OP_LAHF] = soft_insn_lahf,
    [SOFT_OP_SAHF] = soft_insn_sahf,
    [SOFT_OP_CLD] = soft_insn_cld,
    [SOFT_OP_STD] = soft_insn_std,
    /* branches */
    [SOFT_OP_JMP] = soft_insn_jmp,
    [SOFT_OP_JCC] = soft_insn_jcc,
    [SOFT_OP_CALL] = soft_insn_call,
    [SOFT_OP_RET] = soft_insn_ret,
    [SOFT_OP_LOOP] = soft_insn_loop,
    [SOFT_OP_LOOPE] = soft_insn_loop,
    [SOFT_OP_LOOPNE] = soft_insn_loop,
    [SOFT_OP_JCXZ] = soft_insn_jcxz,
    [SOFT_OP_JMPF] = soft_insn_jmpf,
    [SOFT_OP_CALLF] = soft_insn_callf,
    [SOFT_OP_RETF] = soft_insn_retf,
    [SOFT_OP_IRET] = soft_insn_iret,
    [SOFT_OP_INT] = soft_insn_int,
    [SOFT_OP_INT3] = soft_insn_int,
    [SOFT_OP_INT1] = soft_insn_int1,
    [SOFT_OP_INTO] = soft_insn_into,
    [SOFT_OP_BOUND] = soft_insn_bound,
    [SOFT_OP_SYSCALL] = soft_insn_syscall,
    [SOFT_OP_SYSRET] = soft_insn_sysret,
    [SOFT_OP_SYSENTER] = soft_insn_sysenter,
    [SOFT_OP_SYSEXIT] = soft_insn_sysexit,
    /* stack */
    [SOFT_OP_PUSH] = soft_insn_push,
    [SOFT_OP_POP] = soft_insn_pop,
    [SOFT_OP_PUSHA] = soft_insn_pusha,
    [SOFT_OP_POPA] = soft_insn_popa,
    [SOFT_OP_ENTER] = soft_insn_enter,
    [SOFT_OP_LEAVE] = soft_insn_leave,
    /* strings and ports */
    [SOFT_OP_MOVS] = soft_insn_movs,
    [SOFT_OP_STOS] = soft_insn_stos,
    [SOFT_OP_LODS] = soft_insn_lods,
    [SOFT_OP_SCAS] = soft_insn_scas,
    [SOFT_OP_CMPS] = soft_insn_cmps,
    [SOFT_OP_INS] = soft_insn_ins,
    [SOFT_OP_OUTS] = soft_insn_outs,
    [SOFT_OP_IN] = soft_insn_in,
    [SOFT_OP_OUT] = soft_insn_out,
    /* integer */
    [SOFT_OP_DIV] = soft_insn_div,
    [SOFT_OP_IDIV] = soft_insn_idiv,
    [SOFT_OP_XLAT] = soft_insn_xlat,
    [SOFT_OP_SALC] = soft_insn_salc,
    [SOFT_OP_DAA] = soft_insn_bcd,
    [SOFT_OP_DAS] = soft_insn_bcd,
    [SOFT_OP_AAA] = soft_insn_bcd,
    [SOFT_OP_AAS] = soft_insn_bcd,
    [SOFT_OP_AAM] = soft_insn_bcd,
    [SOFT_OP_AAD] = soft_insn_bcd,
    [SOFT_OP_MFENCE] = soft_insn_fence,
    [SOFT_OP_SFENCE] = soft_insn_fence,
    [SOFT_OP_CLFLUSH] = soft_insn_flush_line,
    [SOFT_OP_CLFLUSHOPT] = soft_insn_flush_line,
    [SOFT_OP_CLWB] = soft_insn_flush_line,
};

/* BT and its kin with the bit's number in a register and the bits in memory. */
static bool is_bit_string(const struct soft_insn *insn)
{
    bool bit = insn->op == SOFT_OP_BT || insn->op == SOFT_OP_BTS || insn->op == SOFT_OP_BTR ||
               insn->op == SOFT_OP_BTC;

    return bit && soft_is_mem(&insn->operand[0]) && soft_is_gpr(&insn->operand[1]);
}

soft_call_fn *soft_function_of(const struct soft_insn *insn)
{
    switch (insn->op) {
    case SOFT_BAD_UNDEFINED:
        return soft_insn_undefined;
    case SOFT_BAD_TOO_LONG:
        return soft_insn_too_long;
    case SOFT_BAD_PRIVILEGE:
        return soft_insn_privilege;
    default:
        break;
    }
    if (is_bit_string(insn)) {
        return soft_insn_bit_memory;
    }
    return functions[insn->op];
}

bool soft_function_addresses(soft_call_fn *run)
{
    return run == soft_insn_bit_memory || run == soft_insn_pop || run == soft_insn_xlat ||
           run == soft_insn_movs || run == soft_insn_stos || run == soft_insn_lods ||
           run == soft_insn_scas || run == soft_insn_cmps || run == soft_insn_ins ||
           run == soft_insn_outs;
}

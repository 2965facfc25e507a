/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Emitters: near branches in the modes whose RIP is checked for nothing; and how a block ends. */
#include "engine/soft/translate-private.h"

static bool plain_branch(const struct soft_translator *t, const struct soft_insn *insn)
{
    unsigned bytes = soft_stack_bytes(t);

    return bytes != 0 && insn->operand_bytes == bytes;
}

static int64_t target_of(const struct soft_translator *t, const struct soft_insn *insn)
{
    return (int64_t)t->offset[t->at] + insn->length + (int64_t)insn->imm;
}

/* The branch ends the block: nothing runs behind it. */
static struct soft_uop *emit_last(struct soft_translator *t, int number)
{
    t->closed = true;
    return soft_emit(t, number);
}

static unsigned is_near(const struct soft_translator *t, int64_t target)
{
    return target >= 0 && target < (int64_t)HV_PAGE_SIZE && !t->links.fixed;
}

static bool emit_jmp(struct soft_translator *t, const struct soft_insn *insn)
{
    const struct soft_operand *to = &insn->operand[0];
    unsigned bytes = soft_stack_bytes(t);
    struct soft_address address;
    struct soft_uop *uop;

    if (!plain_branch(t, insn)) {
        return false;
    }
    if (to->kind == SOFT_OPERAND_REL) {
        int64_t target = target_of(t, insn);

        uop = emit_last(t, soft_uop_jump(is_near(t, target)));
        uop->imm = (uint64_t)target;
        soft_set_target(t, target);
    } else if (soft_is_gpr(to)) {
        emit_last(t, soft_uop_jump_r(bytes))->src = soft_place_of(to);
    } else {
        address = soft_emit_address(t, bytes, false);
        soft_uop_set_address(emit_last(t, soft_uop_jump_m(bytes)), &address);
    }
    return true;
}

static bool emit_jcc(struct soft_translator *t, const struct soft_insn *insn)
{
    if (!plain_branch(t, insn)) {
        return false;
    }
    (void)emit_last(t, soft_uop_jcc(insn->opcode & 15));
    soft_set_target(t, target_of(t, insn));
    return true;
}

static bool emit_call(struct soft_translator *t, const struct soft_insn *insn)
{
    const struct soft_operand *to = &insn->operand[0];
    unsigned bytes = soft_stack_bytes(t);
    struct soft_address address;
    struct soft_uop *uop;

    if (!plain_branch(t, insn)) {
        return false;
    }
    if (to->kind == SOFT_OPERAND_REL) {
        int64_t target = target_of(t, insn);

        uop = emit_last(t, soft_uop_call(bytes, is_near(t, target)));
        uop->imm = (uint64_t)target;
        uop->segment = SOFT_PLACE_SS;
        soft_set_target(t, target);
    } else if (soft_is_gpr(to)) {
        uop = emit_last(t, soft_uop_call_r(bytes));
        uop->src = soft_place_of(to);
        uop->segment = SOFT_PLACE_SS;
    } else {
        address = soft_emit_address(t, bytes, false);
        soft_uop_set_address(emit_last(t, soft_uop_call_m(bytes)), &address);
    }
    return true;
}

static bool emit_ret(struct soft_translator *t, const struct soft_insn *insn)
{
    struct soft_uop *uop;

    if (!plain_branch(t, insn)) {
        return false;
    }
    uop = emit_last(t, soft_uop_ret(soft_stack_bytes(t)));
    uop->imm = insn->operands > 0 ? insn->imm & 0xffff : 0;
    uop->segment = SOFT_PLACE_SS;
    return true;
}

void soft_emit_fall(struct soft_translator *t)
{
    unsigned next = t->offset[t->at] + t->insn[t->at].length;

    (void)emit_last(t, soft_uop_fall(is_near(t, next)));
}

/* A block ends where the next instruction is another one than the one behind, or where what was
 * decoded so far may not be what runs next. CLI, STAC, CLAC and SWAPGS change nothing of that. */
bool soft_insn_ends(const struct soft_insn *insn)
{
    switch (insn->op) {
    case SOFT_OP_CLI:
    case SOFT_OP_STAC:
    case SOFT_OP_CLAC:
    case SOFT_OP_SWAPGS:
        return false;
    case SOFT_BAD_UNDEFINED:
    case SOFT_BAD_TOO_LONG:
    case SOFT_BAD_PRIVILEGE:
    case SOFT_OP_UD0:
    case SOFT_OP_UD1:
    case SOFT_OP_UD2:
        return true;
    default:
        return soft_isa_row(insn->row)->flags & (SOFT_ISA_BRANCH | SOFT_ISA_SYSTEM);
    }
}

static bool is_register_only(const struct soft_insn *insn)
{
    for (unsigned i = 0; i < insn->operands; i++) {
        if (insn->operand[i].kind != SOFT_OPERAND_GPR &&
            insn->operand[i].kind != SOFT_OPERAND_GPR_HIGH && !soft_is_imm(&insn->operand[i])) {
            return false;
        }
    }
    return true;
}

bool soft_insn_is_quiet(const struct soft_insn *insn)
{
    switch (insn->op) {
    case SOFT_OP_LEA:
    case SOFT_OP_NOP:
        return true;
    case SOFT_OP_ADD:
    case SOFT_OP_OR:
    case SOFT_OP_AND:
    case SOFT_OP_SUB:
    case SOFT_OP_XOR:
    case SOFT_OP_ADC:
    case SOFT_OP_SBB:
    case SOFT_OP_CMP:
    case SOFT_OP_TEST:
    case SOFT_OP_INC:
    case SOFT_OP_DEC:
    case SOFT_OP_NEG:
    case SOFT_OP_NOT:
    case SOFT_OP_ROL:
    case SOFT_OP_ROR:
    case SOFT_OP_SHL:
    case SOFT_OP_SHR:
    case SOFT_OP_SAR:
    case SOFT_OP_MUL:
    case SOFT_OP_MOV:
    case SOFT_OP_MOVZX:
    case SOFT_OP_MOVSX:
    case SOFT_OP_MOVSXD:
    case SOFT_OP_CBW:
    case SOFT_OP_CWD:
    case SOFT_OP_XCHG:
    case SOFT_OP_BSWAP:
    case SOFT_OP_SETCC:
    case SOFT_OP_CMOVCC:
    case SOFT_OP_BT:
    case SOFT_OP_BTS:
    case SOFT_OP_BTR:
    case SOFT_OP_BTC:
    case SOFT_OP_CLC:
    case SOFT_OP_STC:
    case SOFT_OP_CMC:
        return is_register_only(insn);
    case SOFT_OP_IMUL:
        return insn->operands > 1 && is_register_only(insn);
    default:
        return false;
    }
}

soft_emitter *soft_emitter_branch(unsigned op)
{
    switch (op) {
    case SOFT_OP_JMP:
        return emit_jmp;
    case SOFT_OP_JCC:
        return emit_jcc;
    case SOFT_OP_CALL:
        return emit_call;
    case SOFT_OP_RET:
        return emit_ret;
    default:
        return NULL;
    }
}

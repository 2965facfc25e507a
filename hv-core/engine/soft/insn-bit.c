/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * BT, BTS, BTR, BTC of a bit string in memory: the one read-modify-write whose address depends on a
 * register's value, so that no thunk can do it. Source: SDM 2, BT.
 */
#include "engine/soft/insn.h"

#include "engine/soft/access.h"

/* Statement bodies for each operand size: `place` is memory of that size, `f` the flags in AX. */
#define BIT_OP(mnemonic, type, suffix)                                             \
    __asm__ volatile(SOFT_FLAGS_GIVE mnemonic suffix " %2, %1\n\t" SOFT_FLAGS_TAKE \
                     : "+a"(f), "+m"(*(type *)place)                               \
                     : "r"((type)bit)                                              \
                     : "cc", "memory")
#define BIT_OP_SIZES(mnemonic)           \
    switch (bytes) {                     \
    case 2:                              \
        BIT_OP(mnemonic, uint16_t, "w"); \
        break;                           \
    case 4:                              \
        BIT_OP(mnemonic, uint32_t, "l"); \
        break;                           \
    default:                             \
        BIT_OP(mnemonic, uint64_t, "q"); \
        break;                           \
    }

/* @bit is below the operand's width, so the host touches @place only. */
static uint16_t run_bit(unsigned op, void *place, unsigned bytes, uint64_t bit, uint16_t arith)
{
    uint32_t f = arith;

    switch (op) {
    case SOFT_OP_BTS:
        BIT_OP_SIZES("bts")
        break;
    case SOFT_OP_BTR:
        BIT_OP_SIZES("btr")
        break;
    default:
        BIT_OP_SIZES("btc")
        break;
    }
    return (uint16_t)f;
}

/* Only what the guest locks: across two cache lines a lock stops the whole host, and some hosts then
 * stop us. soft_modify() has seen to it that @place lies in one. */
static uint16_t run_bit_locked(unsigned op, void *place, unsigned bytes, uint64_t bit,
                               uint16_t arith)
{
    uint32_t f = arith;

    switch (op) {
    case SOFT_OP_BTS:
        BIT_OP_SIZES("lock bts")
        break;
    case SOFT_OP_BTR:
        BIT_OP_SIZES("lock btr")
        break;
    default:
        BIT_OP_SIZES("lock btc")
        break;
    }
    return (uint16_t)f;
}

/* A register's bit offset is signed and reaches beyond the operand (SDM 2, BT). */
int soft_insn_bit_memory(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    enum hv_seg seg = (enum hv_seg)call->insn.mem.segment;
    unsigned bytes = call->insn.operand[0].bytes;
    unsigned width = bytes * 8;
    uint64_t bit, value;
    int64_t more = 0;
    uint16_t arith = vcpu->cpu->arith;
    bool direct, write = call->insn.op != SOFT_OP_BT, locked = call->insn.flags & SOFT_INSN_LOCK;
    void *place;
    int rc = soft_operand_read(vcpu, call, 1, gva, &bit);

    if (!rc && call->insn.operand[1].kind == SOFT_OPERAND_GPR) {
        int64_t offset = (int64_t)(bit << (64 - width)) >> (64 - width);

        more = (offset >> (bytes == 2 ? 4 : bytes == 4 ? 5 : 6)) * (int64_t)bytes;
    }
    bit &= width - 1;
    if (!rc) {
        rc = soft_operand_linear(vcpu, seg, soft_operand_offset(vcpu, call, more), bytes, write,
                                 &gva);
    }
    if (rc) {
        return rc;
    }
    if (!write) {
        rc = soft_load(vcpu, gva, bytes, seg, &value);
        if (!rc) {
            bool set = value >> bit & 1;

            vcpu->cpu->arith = (uint16_t)((arith & ~SOFT_ARITH_CF) | (set ? SOFT_ARITH_CF : 0));
        }
        return rc;
    }
    rc = soft_modify(vcpu, gva, bytes, seg, locked, &place, &direct);
    if (rc) {
        return rc;
    }
    arith = locked ? run_bit_locked(call->insn.op, place, bytes, bit, arith)
                   : run_bit(call->insn.op, place, bytes, bit, arith);
    rc = direct ? 0 : soft_rmw_commit(vcpu);
    if (!rc) {
        vcpu->cpu->arith = arith;
    }
    return rc;
}

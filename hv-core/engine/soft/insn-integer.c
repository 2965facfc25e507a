/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Division, XLAT, fences, and the decimal instructions of the legacy modes. Source: SDM 2. */
#include "engine/soft/insn.h"

#define AL (HV_REG_RAX * 8u)
#define AH (HV_REG_RAX * 8u + 1)

/* Dividend of twice the operand's width: AX, DX:AX, EDX:EAX, RDX:RAX. */
static unsigned __int128 dividend(const struct hv_cpu *cpu, unsigned bytes)
{
    if (bytes == 1) {
        return soft_get2(cpu, AL);
    }
    return (unsigned __int128)soft_get(cpu, HV_REG_RDX * 8u, bytes) << (bytes * 8) |
           soft_get(cpu, AL, bytes);
}

static void set_quotient(struct hv_cpu *cpu, unsigned bytes, uint64_t quotient, uint64_t remainder)
{
    soft_set(cpu, AL, bytes, quotient);
    soft_set(cpu, bytes == 1 ? AH : HV_REG_RDX * 8u, bytes, remainder);
}

/* #DE when the quotient does not fit. */
static bool divide(unsigned __int128 value, uint64_t divisor, unsigned bytes,
                   uint64_t *quotient_out, uint64_t *remainder_out)
{
    uint64_t high = (uint64_t)(value >> 64), low = (uint64_t)value;

    if (divisor == 0 || (value >> (bytes * 8)) >= divisor) {
        return false;
    }
    if (high == 0) {
        *quotient_out = low / divisor;
        *remainder_out = low % divisor;
        return true;
    }
    /* high < divisor: the host's own division cannot overflow. */
    __asm__("divq %4"
            : "=a"(*quotient_out), "=d"(*remainder_out)
            : "0"(low), "1"(high), "r"(divisor)
            : "cc");
    return true;
}

int soft_insn_div(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    struct hv_cpu *cpu = vcpu->cpu;
    unsigned bytes = call->insn.operand[0].bytes;
    uint64_t divisor, quotient, remainder;
    int rc = soft_operand_read(vcpu, call, 0, gva, &divisor);

    if (rc) {
        return rc;
    }
    if (!divide(dividend(cpu, bytes), divisor, bytes, &quotient, &remainder)) {
        return soft_insn_raise(vcpu, HV_VECTOR_DE);
    }
    set_quotient(cpu, bytes, quotient, remainder);
    return SOFT_RESULT_NEXT;
}

/* On magnitudes; the remainder has the dividend's sign. */
int soft_insn_idiv(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    struct hv_cpu *cpu = vcpu->cpu;
    unsigned bytes = call->insn.operand[0].bytes;
    unsigned width = bytes * 8, unused = 128 - 2 * width;
    uint64_t divisor, quotient, remainder, limit;
    unsigned __int128 value;
    bool value_negative, divisor_negative;
    int rc = soft_operand_read(vcpu, call, 0, gva, &divisor);

    if (rc) {
        return rc;
    }
    divisor = (uint64_t)((int64_t)(divisor << (64 - width)) >> (64 - width));
    divisor_negative = (int64_t)divisor < 0;
    divisor = divisor_negative ? 0 - divisor : divisor;
    value = (unsigned __int128)((__int128)(dividend(cpu, bytes) << unused) >> unused);
    value_negative = (__int128)value < 0;
    value = value_negative ? 0 - value : value;
    /* The magnitude of the quotient may be 2^(width-1) only when it is negative. */
    limit = (UINT64_C(1) << (width - 1)) - (value_negative == divisor_negative ? 1 : 0);
    if (!divide(value, divisor, bytes, &quotient, &remainder) || quotient > limit) {
        return soft_insn_raise(vcpu, HV_VECTOR_DE);
    }
    set_quotient(cpu, bytes, value_negative != divisor_negative ? 0 - quotient : quotient,
                 value_negative ? 0 - remainder : remainder);
    return SOFT_RESULT_NEXT;
}

int soft_insn_xlat(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    struct hv_cpu *cpu = vcpu->cpu;
    enum hv_seg seg = (enum hv_seg)call->insn.mem.segment;
    uint64_t offset =
        (cpu->slot[HV_REG_RBX] + soft_get1(cpu, AL)) & hv_bytes_mask(call->insn.address_bytes);
    uint64_t value;
    int rc = soft_operand_linear(vcpu, seg, offset, 1, false, &gva);

    if (!rc) {
        rc = soft_load(vcpu, gva, 1, seg, &value);
    }
    if (!rc) {
        soft_set1(cpu, AL, (uint8_t)value);
    }
    return rc;
}

int soft_insn_salc(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    (void)call;
    (void)gva;
    soft_set1(vcpu->cpu, AL, vcpu->cpu->arith & SOFT_ARITH_CF ? 0xff : 0);
    return SOFT_RESULT_NEXT;
}

/* Order of memory accesses is the host's: a fence of the host does for one of the guest. */
int soft_insn_fence(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    (void)vcpu;
    (void)call;
    (void)gva;
    __asm__ volatile("mfence" : : : "memory");
    return SOFT_RESULT_NEXT;
}

/* CLFLUSH and the like: nothing to do, but the address is checked as a load's (SDM 2, CLFLUSH). */
int soft_insn_flush_line(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    uint64_t ignored;

    return soft_load(vcpu, gva, 1, (enum hv_seg)call->insn.mem.segment, &ignored);
}

/* ---- Decimal ---------------------------------------------------------------------------------- */

/* SF, ZF, PF of AL; OF is undefined and cleared. */
static uint64_t flags_of_al(uint8_t al)
{
    uint64_t flags = 0;

    flags |= al & 0x80 ? HV_RFLAGS_SF : 0;
    flags |= al == 0 ? HV_RFLAGS_ZF : 0;
    flags |= __builtin_parity(al) ? 0 : HV_RFLAGS_PF;
    return flags;
}

/* DAA and DAS (SDM 2): @sign is +1 or -1. */
static void adjust_packed(struct hv_cpu *cpu, int sign)
{
    uint64_t flags = hv_cpu_rflags(cpu);
    bool carry = flags & HV_RFLAGS_CF;
    uint8_t old = soft_get1(cpu, AL), al = old;
    uint64_t out = 0;

    if ((al & 15) > 9 || (flags & HV_RFLAGS_AF)) {
        al = (uint8_t)(al + 6 * sign);
        out |= HV_RFLAGS_AF;
        out |= carry || (sign < 0 && old < 6) ? HV_RFLAGS_CF : 0;
    }
    if (old > 0x99 || carry) {
        al = (uint8_t)(al + 0x60 * sign);
        out |= HV_RFLAGS_CF;
    }
    soft_set1(cpu, AL, al);
    cpu->arith = hv_arith_from_rflags(out | flags_of_al(al));
}

/* AAA and AAS. The flags that are undefined come out as after the addition that adjusts. */
static void adjust_unpacked(struct hv_cpu *cpu, int sign)
{
    uint64_t out = 0;

    if ((soft_get1(cpu, AL) & 15) > 9 || (cpu->arith & SOFT_ARITH_AF)) {
        soft_set2(cpu, AL, (uint16_t)(soft_get2(cpu, AL) + 0x106 * sign));
        out = HV_RFLAGS_AF | HV_RFLAGS_CF;
    }
    soft_set1(cpu, AL, soft_get1(cpu, AL) & 15);
    cpu->arith = hv_arith_from_rflags(out | flags_of_al(soft_get1(cpu, AL)));
}

int soft_insn_bcd(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    struct hv_cpu *cpu = vcpu->cpu;
    uint8_t base = (uint8_t)call->insn.imm;
    uint8_t al = soft_get1(cpu, AL);

    (void)gva;
    switch (call->insn.op) {
    case SOFT_OP_DAA:
        adjust_packed(cpu, 1);
        return SOFT_RESULT_NEXT;
    case SOFT_OP_DAS:
        adjust_packed(cpu, -1);
        return SOFT_RESULT_NEXT;
    case SOFT_OP_AAA:
        adjust_unpacked(cpu, 1);
        return SOFT_RESULT_NEXT;
    case SOFT_OP_AAS:
        adjust_unpacked(cpu, -1);
        return SOFT_RESULT_NEXT;
    case SOFT_OP_AAM:
        if (base == 0) {
            return soft_insn_raise(vcpu, HV_VECTOR_DE);
        }
        soft_set1(cpu, AH, al / base);
        soft_set1(cpu, AL, al % base);
        break;
    default:
        soft_set2(cpu, AL, (uint8_t)(al + soft_get1(cpu, AH) * base));
        break;
    }
    cpu->arith = hv_arith_from_rflags(flags_of_al(soft_get1(cpu, AL)));
    return SOFT_RESULT_NEXT;
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Operands of micro-operations: register values by place, effective addresses, and conditions on
 * the arithmetic flags. A 4-byte write clears the upper half of its register, as in 64-bit mode;
 * in other modes the upper half cannot be seen.
 */
#pragma once

#include "engine/soft/uop.h"

HV_STATIC_ASSERT(offsetof(struct hv_cpu, slot) == 0, "a place is an offset in struct hv_cpu");

static inline uint8_t soft_get1(const struct hv_cpu *cpu, unsigned place)
{
    return ((const uint8_t *)cpu)[place];
}

static inline uint16_t soft_get2(const struct hv_cpu *cpu, unsigned place)
{
    uint16_t value;

    __builtin_memcpy(&value, (const char *)cpu + place, 2);
    return value;
}

static inline uint32_t soft_get4(const struct hv_cpu *cpu, unsigned place)
{
    uint32_t value;

    __builtin_memcpy(&value, (const char *)cpu + place, 4);
    return value;
}

static inline uint64_t soft_get8(const struct hv_cpu *cpu, unsigned place)
{
    uint64_t value;

    __builtin_memcpy(&value, (const char *)cpu + place, 8);
    return value;
}

static inline void soft_set1(struct hv_cpu *cpu, unsigned place, uint8_t value)
{
    ((uint8_t *)cpu)[place] = value;
}

static inline void soft_set2(struct hv_cpu *cpu, unsigned place, uint16_t value)
{
    __builtin_memcpy((char *)cpu + place, &value, 2);
}

static inline void soft_set8(struct hv_cpu *cpu, unsigned place, uint64_t value)
{
    __builtin_memcpy((char *)cpu + place, &value, 8);
}

static inline void soft_set4(struct hv_cpu *cpu, unsigned place, uint32_t value)
{
    soft_set8(cpu, place, value);
}

/** A register of 1, 2, 4 or 8 bytes, zero-extended. */
static inline uint64_t soft_get(const struct hv_cpu *cpu, unsigned place, unsigned bytes)
{
    switch (bytes) {
    case 1:
        return soft_get1(cpu, place);
    case 2:
        return soft_get2(cpu, place);
    case 4:
        return soft_get4(cpu, place);
    default:
        return soft_get8(cpu, place);
    }
}

static inline void soft_set(struct hv_cpu *cpu, unsigned place, unsigned bytes, uint64_t value)
{
    switch (bytes) {
    case 1:
        soft_set1(cpu, place, (uint8_t)value);
        break;
    case 2:
        soft_set2(cpu, place, (uint16_t)value);
        break;
    case 4:
        soft_set4(cpu, place, (uint32_t)value);
        break;
    default:
        soft_set8(cpu, place, value);
        break;
    }
}

/* Effective addresses: d = base + disp; x = and a scaled index; f = and a segment base. */

static inline uint64_t soft_ea_d(const struct hv_cpu *cpu, const struct soft_uop *uop)
{
    return soft_get8(cpu, uop->base) + (uint64_t)(int64_t)uop->disp;
}

static inline uint64_t soft_ea_x(const struct hv_cpu *cpu, const struct soft_uop *uop)
{
    return soft_ea_d(cpu, uop) + (soft_get8(cpu, uop->index) << uop->scale);
}

static inline uint64_t soft_ea_f(const struct hv_cpu *cpu, const struct soft_uop *uop)
{
    return soft_ea_x(cpu, uop) + soft_get8(cpu, uop->segment);
}

/* The arithmetic flags as they stand in cpu->arith: LAHF's AH in 15:8, SETO's AL in 7:0. */
enum soft_arith {
    SOFT_ARITH_CF = HV_RFLAGS_CF << 8,
    SOFT_ARITH_PF = HV_RFLAGS_PF << 8,
    SOFT_ARITH_AF = HV_RFLAGS_AF << 8,
    SOFT_ARITH_ZF = HV_RFLAGS_ZF << 8,
    SOFT_ARITH_SF = HV_RFLAGS_SF << 8,
    SOFT_ARITH_OF = 1,
};

/** Condition @code (bits 3:0 of JCC's opcode, SDM 1 appendix B) on @arith. */
static inline bool soft_condition(unsigned code, uint32_t arith)
{
    bool less = ((arith >> 15) ^ arith) & 1;
    bool holds;

    switch (code >> 1) {
    case 0:
        holds = arith & SOFT_ARITH_OF;
        break;
    case 1:
        holds = arith & SOFT_ARITH_CF;
        break;
    case 2:
        holds = arith & SOFT_ARITH_ZF;
        break;
    case 3:
        holds = arith & (SOFT_ARITH_CF | SOFT_ARITH_ZF);
        break;
    case 4:
        holds = arith & SOFT_ARITH_SF;
        break;
    case 5:
        holds = arith & SOFT_ARITH_PF;
        break;
    case 6:
        holds = less;
        break;
    default:
        holds = less || (arith & SOFT_ARITH_ZF);
        break;
    }
    return holds != (code & 1);
}

/*
 * LAHF and SAHF as bytes: clang knows the mnemonics only where the target is said to have them.
 * SOFT_FLAGS_TAKE leaves the flags in AX; SOFT_FLAGS_GIVE sets them all from AX, SOFT_CARRY_GIVE
 * only CF (for what replaces all the others).
 */
#define SOFT_LAHF       ".byte 0x9f\n\t"
#define SOFT_SAHF       ".byte 0x9e\n\t"
#define SOFT_FLAGS_TAKE SOFT_LAHF "seto %%al\n\t"
#define SOFT_FLAGS_GIVE "addb $0x7f, %%al\n\t" SOFT_SAHF
#define SOFT_CARRY_GIVE "btl $8, %%eax\n\t"

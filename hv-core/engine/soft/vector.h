/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The extended state's layout in memory, and the low 16 bytes of the vector registers in it. */
#pragma once

#include <string.h>

#include "cpu/state.h"

/* Layout of the extended state (SDM 1 10.5.1, 13.4). */
enum soft_x_offset {
    SOFT_X_FCW = 0,
    SOFT_X_FSW = 2,
    SOFT_X_FTW = 4, /* abridged: a bit a physical register, set when it is not empty */
    SOFT_X_FOP = 6,
    SOFT_X_FIP = 8,
    SOFT_X_FDP = 16,
    SOFT_X_MXCSR = 24,
    SOFT_X_MXCSR_MASK = 28,
    SOFT_X_ST = 32,
    SOFT_X_XMM = 160,
    SOFT_X_LEGACY = 512,
    SOFT_X_HEADER = 512,
    SOFT_X_YMM = HV_XSTATE_AVX_OFFSET,
};

#define SOFT_XMM_BYTES 16u

/* Vector registers, by their offset from XMM0. */

static inline uint8_t *soft_xmm(struct hv_cpu *cpu, unsigned place)
{
    return &cpu->x.bytes[SOFT_X_XMM + place];
}

static inline uint64_t soft_xmm_low(struct hv_cpu *cpu, unsigned place)
{
    uint64_t value;

    __builtin_memcpy(&value, soft_xmm(cpu, place), 8);
    return value;
}

/** @value in bits 63:0 and zeros in 127:64, as a move from elsewhere into a register leaves it. */
static inline void soft_xmm_set(struct hv_cpu *cpu, unsigned place, uint64_t value)
{
    __builtin_memcpy(soft_xmm(cpu, place), &value, 8);
    __builtin_memset(soft_xmm(cpu, place) + 8, 0, SOFT_XMM_BYTES - 8);
}

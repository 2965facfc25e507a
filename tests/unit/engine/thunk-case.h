/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the tests of thunks and extended state share: one rig a program, and its x87 and vector state
 * by the offsets that XSAVE's standard format has. */
#pragma once

#include "thunk-rig.h"

#include "lib/tap.h"

/* SDM 1, tables 10-2 and 13-1. */
#define FCW    0u
#define FSW    2u
#define FTW    4u
#define FOP    6u
#define FIP    8u
#define FDP    16u
#define MXCSR  24u
#define ST(n)  (32u + 16u * (n))
#define XMM(n) (160u + 16u * (n))
#define HEADER 512u
#define YMM(n) (576u + 16u * (n))

#define TAP_FAULT(run, want)                 \
    do {                                     \
        TAP_EQ(run, HV_FAULTED);             \
        TAP_EQ(rig.vcpu.fault.vector, want); \
    } while (0)

static struct rig rig;

static inline uint64_t x_get(unsigned offset, unsigned bytes)
{
    return hv_load_le(&rig.cpu.x.bytes[offset], bytes);
}

static inline void x_set(unsigned offset, unsigned bytes, uint64_t value)
{
    hv_store_le(&rig.cpu.x.bytes[offset], value, bytes);
}

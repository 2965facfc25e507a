/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A writer of x86-64 machine code: bytes, and the dozen of instructions that thunks and their like
 * put around the guest's own. Not an assembler. Private to engine/soft.
 *
 * It never writes beyond its end; `overflow` says that it would have, and the bytes are then
 * worthless.
 * Source: SDM 2A 2.1 (ModRM, SIB), 2.2 (REX), 2.3 (VEX).
 */
#pragma once

#include <hv/types.h>

/* Host registers by their encoding; x86-64's calling convention gives a thunk RDI and RSI. */
enum soft_host_reg {
    SOFT_HOST_RAX = 0,
    SOFT_HOST_RCX = 1,
    SOFT_HOST_RDX = 2,
    SOFT_HOST_RBX = 3,
    SOFT_HOST_RSI = 6,
    SOFT_HOST_RDI = 7,
    SOFT_HOST_R8 = 8,
    SOFT_HOST_R9 = 9,
    SOFT_HOST_R10 = 10,
    SOFT_HOST_R11 = 11,
};

struct soft_emit {
    uint8_t *at;
    uint8_t *end;
    bool overflow;
};

static inline void soft_emit_init(struct soft_emit *emit, void *start, size_t bytes)
{
    emit->at = (uint8_t *)start;
    emit->end = emit->at + bytes;
    emit->overflow = false;
}

void soft_emit_byte(struct soft_emit *emit, uint8_t byte);
void soft_emit_bytes(struct soft_emit *emit, const void *bytes, size_t count);
void soft_emit_u32(struct soft_emit *emit, uint32_t value);

/** REX when it is needed, or @forced: W, and the high bits of ModRM.reg and ModRM.rm. */
void soft_emit_rex(struct soft_emit *emit, bool w, unsigned reg, unsigned rm, bool forced);

/** The three-byte VEX prefix. @map 1 to 3; @pp 0, 0x66, 0xf3, 0xf2. */
void soft_emit_vex(struct soft_emit *emit, unsigned map, uint8_t pp, bool w, bool l, unsigned vvvv,
                   unsigned reg, unsigned rm);

/** mov @reg, [rdi + @offset], all 64 bits; and back. Flags stay. */
void soft_emit_load(struct soft_emit *emit, unsigned reg, uint32_t offset);
void soft_emit_store(struct soft_emit *emit, unsigned reg, uint32_t offset);

/** AX from [rdi + @offset] into the arithmetic flags; clobbers RAX. See struct hv_cpu's `arith`. */
void soft_emit_flags_load(struct soft_emit *emit, uint32_t offset);
void soft_emit_flags_store(struct soft_emit *emit, uint32_t offset);

/** movups between xmm@reg and [rdi + @offset], in the legacy or the VEX encoding. */
void soft_emit_xmm_load(struct soft_emit *emit, bool vex, unsigned reg, uint32_t offset);
void soft_emit_xmm_store(struct soft_emit *emit, bool vex, unsigned reg, uint32_t offset);

/** All 32 bytes of ymm@reg to [rdi + @offset]. */
void soft_emit_ymm_store(struct soft_emit *emit, unsigned reg, uint32_t offset);

/** The upper half of ymm@reg, whose lower half is loaded already. */
void soft_emit_upper_load(struct soft_emit *emit, unsigned reg, uint32_t offset);
void soft_emit_upper_store(struct soft_emit *emit, unsigned reg, uint32_t offset);

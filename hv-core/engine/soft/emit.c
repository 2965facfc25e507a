/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Machine code, byte by byte: see emit.h. */
#include "engine/soft/emit.h"

#include <string.h>

void soft_emit_byte(struct soft_emit *emit, uint8_t byte)
{
    soft_emit_bytes(emit, &byte, 1);
}

void soft_emit_bytes(struct soft_emit *emit, const void *bytes, size_t count)
{
    if (count > (size_t)(emit->end - emit->at)) {
        emit->overflow = true;
        return;
    }
    memcpy(emit->at, bytes, count);
    emit->at += count;
}

void soft_emit_u32(struct soft_emit *emit, uint32_t value)
{
    soft_emit_bytes(emit, &value, sizeof(value));
}

void soft_emit_rex(struct soft_emit *emit, bool w, unsigned reg, unsigned rm, bool forced)
{
    unsigned rex = 0x40u | (w ? 8u : 0u) | (reg >= 8 ? 4u : 0u) | (rm >= 8 ? 1u : 0u);

    if (rex != 0x40 || forced) {
        soft_emit_byte(emit, (uint8_t)rex);
    }
}

void soft_emit_vex(struct soft_emit *emit, unsigned map, uint8_t pp, bool w, bool l, unsigned vvvv,
                   unsigned reg, unsigned rm)
{
    unsigned code = pp == 0x66 ? 1u : pp == 0xf3 ? 2u : pp == 0xf2 ? 3u : 0u;

    /* R, X, B and vvvv stand inverted; X is never used here. */
    soft_emit_byte(emit, 0xc4);
    soft_emit_byte(emit, (uint8_t)((reg < 8 ? 0x80u : 0u) | 0x40u | (rm < 8 ? 0x20u : 0u) | map));
    soft_emit_byte(emit, (uint8_t)((w ? 0x80u : 0u) | ((~vvvv & 15u) << 3) | (l ? 4u : 0u) | code));
}

/* ModRM (and displacement) of [rdi + offset]. */
static void emit_cpu_operand(struct soft_emit *emit, unsigned reg, uint32_t offset)
{
    unsigned low = ((reg & 7u) << 3) | SOFT_HOST_RDI;

    if (offset < 128) {
        soft_emit_byte(emit, (uint8_t)(0x40u | low));
        soft_emit_byte(emit, (uint8_t)offset);
    } else {
        soft_emit_byte(emit, (uint8_t)(0x80u | low));
        soft_emit_u32(emit, offset);
    }
}

static void emit_move(struct soft_emit *emit, uint8_t opcode, unsigned reg, uint32_t offset)
{
    soft_emit_rex(emit, true, reg, SOFT_HOST_RDI, false);
    soft_emit_byte(emit, opcode);
    emit_cpu_operand(emit, reg, offset);
}

void soft_emit_load(struct soft_emit *emit, unsigned reg, uint32_t offset)
{
    emit_move(emit, 0x8b, reg, offset);
}

void soft_emit_store(struct soft_emit *emit, unsigned reg, uint32_t offset)
{
    emit_move(emit, 0x89, reg, offset);
}

void soft_emit_flags_load(struct soft_emit *emit, uint32_t offset)
{
    /* movzx eax, word [rdi + offset]; add al, 0x7f (overflows exactly for 1); sahf */
    soft_emit_bytes(emit, "\x0f\xb7", 2);
    emit_cpu_operand(emit, SOFT_HOST_RAX, offset);
    soft_emit_bytes(emit, "\x04\x7f\x9e", 3);
}

void soft_emit_flags_store(struct soft_emit *emit, uint32_t offset)
{
    /* lahf; seto al; mov [rdi + offset], ax */
    soft_emit_bytes(emit, "\x9f\x0f\x90\xc0\x66\x89", 6);
    emit_cpu_operand(emit, SOFT_HOST_RAX, offset);
}

static void emit_xmm_move(struct soft_emit *emit, bool vex, uint8_t opcode, unsigned reg,
                          uint32_t offset)
{
    if (vex) {
        soft_emit_vex(emit, 1, 0, false, false, 0, reg, SOFT_HOST_RDI);
    } else {
        soft_emit_rex(emit, false, reg, SOFT_HOST_RDI, false);
        soft_emit_byte(emit, 0x0f);
    }
    soft_emit_byte(emit, opcode);
    emit_cpu_operand(emit, reg, offset);
}

void soft_emit_xmm_load(struct soft_emit *emit, bool vex, unsigned reg, uint32_t offset)
{
    emit_xmm_move(emit, vex, 0x10, reg, offset);
}

void soft_emit_xmm_store(struct soft_emit *emit, bool vex, unsigned reg, uint32_t offset)
{
    emit_xmm_move(emit, vex, 0x11, reg, offset);
}

void soft_emit_ymm_store(struct soft_emit *emit, unsigned reg, uint32_t offset)
{
    soft_emit_vex(emit, 1, 0, false, true, 0, reg, SOFT_HOST_RDI);
    soft_emit_byte(emit, 0x11);
    emit_cpu_operand(emit, reg, offset);
}

void soft_emit_upper_load(struct soft_emit *emit, unsigned reg, uint32_t offset)
{
    /* vinsertf128 ymm, ymm, [rdi + offset], 1 */
    soft_emit_vex(emit, 3, 0x66, false, true, reg, reg, SOFT_HOST_RDI);
    soft_emit_byte(emit, 0x18);
    emit_cpu_operand(emit, reg, offset);
    soft_emit_byte(emit, 1);
}

void soft_emit_upper_store(struct soft_emit *emit, unsigned reg, uint32_t offset)
{
    /* vextractf128 [rdi + offset], ymm, 1 */
    soft_emit_vex(emit, 3, 0x66, false, true, 0, reg, SOFT_HOST_RDI);
    soft_emit_byte(emit, 0x19);
    emit_cpu_operand(emit, reg, offset);
    soft_emit_byte(emit, 1);
}

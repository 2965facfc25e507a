/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Random encodings of a given row of cpu/isa.def: the decoder's tables read backwards.
 *
 * What the row pins is written, what it leaves open is chosen, and everything behind ModRM (SIB,
 * displacement, immediates) is noise: the decoder itself says how much of it belongs to the
 * instruction, and that the result is the row wanted in the shape wanted. Tests of the decoder
 * compare the bytes with another decoder; tests of the interpreter run them.
 */
#pragma once

#include "engine/soft/decode.h"

/* The source of all choices; the same seed gives the same bytes. */
struct isa_random {
    uint64_t state; /* not 0 */
};

/** Next number (xorshift64*). */
uint64_t isa_random(struct isa_random *random);

/** A number below @bound, which is not 0. */
unsigned isa_random_below(struct isa_random *random, unsigned bound);

/* What is wanted of an encoding beside its row. */
struct isa_shape {
    enum soft_mode mode;
    uint8_t operand_bytes; /* 2, 4, 8: insn.operand_bytes will be that; 0: any */
    bool memory;           /* ModRM names memory; else a register or there is none */
    bool lock;             /* LOCK stands before it */
    bool repeat;           /* F2 or F3 that is not part of the opcode stands before it */
};

/* Where each row stands in the opcode maps. */
struct isa_encoder;

/** Dies of no memory. */
struct isa_encoder *isa_encoder_create(void);
void isa_encoder_destroy(struct isa_encoder *encoder);

/**
 * A random instruction of @row.
 *
 * @bytes_out  room for 15; only the instruction's own are meaningful.
 * @insn_out   the instruction decoded.
 *
 * Returns its length, or 0 when the row has no such shape (or 64 tries did not find it).
 */
unsigned isa_encode(const struct isa_encoder *encoder, uint16_t row, const struct isa_shape *shape,
                    struct isa_random *random, uint8_t bytes_out[SOFT_INSN_MAX],
                    struct soft_insn *insn_out);

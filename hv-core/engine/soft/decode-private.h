/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The decoder's tables, as cpu/gen-isa.py makes them of cpu/isa.def, and the reader of bytes that
 * the decoder's files share.
 *
 * A row of isa.def is found by its map and opcode (a slot: the candidates, narrower ones first) and
 * a key made of everything else that may tell rows apart: ModRM, mandatory prefix, W, L, mode.
 */
#pragma once

#include "engine/soft/decode.h"
#include "engine/soft/isa-ops.h"

/* Bits of the key below which ModRM stands; gen-isa.py knows them by the same names. */
enum soft_key {
    SOFT_KEY_66 = 1u << 8,
    SOFT_KEY_F3 = 1u << 9, /* of several F2 and F3 the last one */
    SOFT_KEY_F2 = 1u << 10,
    SOFT_KEY_MODE64 = 1u << 11,
    SOFT_KEY_W = 1u << 12,
    SOFT_KEY_L = 1u << 13,
    SOFT_KEY_REX_B = 1u << 14,
    SOFT_KEY_MEM = 1u << 15, /* ModRM.mod is not 3 */
    SOFT_KEY_MODRM = SOFT_KEY_MEM | 0xff,
};

/* What the decoder itself must know of a row. */
enum soft_rule {
    SOFT_RULE_D64 = 1u << 0,
    SOFT_RULE_F64 = 1u << 1,
    SOFT_RULE_REGS = 1u << 2, /* ModRM.mod is ignored */
    SOFT_RULE_LOCK = 1u << 3,
    SOFT_RULE_STRING = 1u << 4,
    SOFT_RULE_IMPLIED = 1u << 5,
    SOFT_RULE_LIG = 1u << 6,      /* VEX.L is ignored */
    SOFT_RULE_VVVV = 1u << 7,     /* VEX.vvvv names an operand */
    SOFT_RULE_IS4 = 1u << 8,      /* imm8[7:4] names an operand */
    SOFT_RULE_VSIB = 1u << 9,     /* the index is a vector register (SDM 2, 2.3.12) */
    SOFT_RULE_NUMBERS = 1u << 10, /* not every register number is valid: see soft_numbers_valid() */
};

/* Where an operand's register number stands. */
enum soft_source {
    SOFT_SOURCE_NONE, /* no register: immediates, offsets, constants */
    SOFT_SOURCE_REG,  /* ModRM.reg */
    SOFT_SOURCE_RM,
    SOFT_SOURCE_RM_OR_MEM,
    SOFT_SOURCE_MEM, /* memory by ModRM, or an offset without it */
    SOFT_SOURCE_VVVV,
    SOFT_SOURCE_OPCODE,
    SOFT_SOURCE_IS4,
    SOFT_SOURCE_FIXED,
};

/* How wide it is: the letters at the head of isa.def. */
enum soft_type {
    SOFT_TYPE_NONE,
    SOFT_TYPE_B,
    SOFT_TYPE_W,
    SOFT_TYPE_D,
    SOFT_TYPE_Q,
    SOFT_TYPE_V,
    SOFT_TYPE_Z,
    SOFT_TYPE_Y,
    SOFT_TYPE_DQ,
    SOFT_TYPE_QQ,
    SOFT_TYPE_X,
    SOFT_TYPE_H,
    SOFT_TYPE_F,
    SOFT_TYPE_G,
    SOFT_TYPE_P,
    SOFT_TYPE_A,
    SOFT_TYPE_S,
    SOFT_TYPE_T,
    SOFT_TYPE_BS,
    SOFT_TYPE_ENV,
    SOFT_TYPE_STATE,
    SOFT_TYPE_FX,
    SOFT_TYPE_COUNT,
};

struct soft_form {
    uint8_t source;      /* enum soft_source */
    uint8_t kind;        /* enum soft_operand_kind when it is not memory; XMM for YMM as well */
    uint8_t type;        /* enum soft_type; of a register or immediate */
    uint8_t memory_type; /* the same when rm is memory */
    uint8_t access;      /* enum soft_access */
    uint8_t number;      /* of a register written out, or the constant */
};

struct soft_encoding {
    uint16_t mask, value; /* the row fits when (key & mask) == value */
    uint16_t rules;       /* enum soft_rule */
    uint8_t string_type;  /* element of a string instruction */
    uint8_t forms;
    struct soft_form form[SOFT_OPERAND_MAX];
};

/* Candidates of one opcode: soft_candidates[first, first + count). */
struct soft_slot {
    uint16_t first;
    uint8_t count;
    uint8_t modrm; /* a ModRM byte follows */
};

/* ModRM.rm that asks for a SIB byte, but in 16-bit addressing. */
#define SOFT_RM_SIB         4u

/* Legacy maps 0 to 3, then the VEX maps 1 to 3. */
#define SOFT_MAPS           7u
#define SOFT_VEX_MAP_OFFSET 3u

extern const struct soft_encoding soft_encodings[];
extern const struct soft_isa_row soft_isa_table[];
extern const size_t soft_isa_count;
extern const uint16_t soft_candidates[];
extern const struct soft_slot soft_slots[SOFT_MAPS][256];

/* The instruction's bytes. */
struct soft_reader {
    const uint8_t *start;
    const uint8_t *next;
    const uint8_t *end; /* what may be read: 15 bytes at most */
    bool cut;           /* end is where the instruction must end, not where the bytes given do */
};

/** Read @bytes (1 to 8) little-endian bytes; false when they are not all there. */
static inline bool soft_reader_take(struct soft_reader *reader, unsigned bytes, uint64_t *value_out)
{
    uint64_t value = 0;

    if ((size_t)(reader->end - reader->next) < bytes) {
        return false;
    }
    __builtin_memcpy(&value, reader->next, bytes);
    reader->next += bytes;
    *value_out = value;
    return true;
}

/** Sign-extend the low @bytes of @value. */
static inline uint64_t soft_sign_extend(uint64_t value, unsigned bytes)
{
    unsigned shift = 64 - 8 * bytes;

    return (uint64_t)((int64_t)(value << shift) >> shift);
}

/** SIB and displacement of ModRM's memory operand into insn->mem; false when bytes are missing. */
bool soft_decode_mem(enum soft_mode mode, bool vsib, struct soft_reader *reader,
                     struct soft_insn *insn);

/** Offsets and immediates, then all operands; false when bytes are missing. */
bool soft_decode_operands(enum soft_mode mode, struct soft_reader *reader,
                          const struct soft_encoding *encoding, struct soft_insn *insn);

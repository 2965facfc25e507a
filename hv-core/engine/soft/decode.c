/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Prefixes, opcode, and the choice of a row of isa.def.
 *
 *     prefixes [REX] opcode [ModRM] | VEX opcode ModRM --key--> row --sizes--> operands
 *
 * Nothing is known of an instruction but what its row says; what stands in code here is common to
 * all of them: SDM 2, 2.1 (prefixes), 2.2.1 (REX), 2.3 (VEX).
 */
#include "engine/soft/decode.h"

#include "base/bits.h"
#include "cpu/state.h"
#include "engine/soft/decode-private.h"

enum soft_rex {
    SOFT_REX_B = 1u << 0,
    SOFT_REX_X = 1u << 1,
    SOFT_REX_R = 1u << 2,
    SOFT_REX_W = 1u << 3,
};

/* Bit n: CRn exists. */
#define SOFT_CR_VALID 0x11du

/* What the prefixes said. */
struct soft_prefixes {
    uint8_t rex;
    uint8_t repeat;  /* F2, F3 or 0: the last one */
    uint8_t segment; /* enum hv_seg, or SOFT_REG_NONE */
    bool lock;
    bool opsize;
    bool addrsize;
    bool vex;
};

enum soft_prefix {
    SOFT_PREFIX_NONE,
    SOFT_PREFIX_SEGMENT, /* + enum hv_seg, up to here + 5 */
    SOFT_PREFIX_LOCK = SOFT_PREFIX_SEGMENT + HV_SEG_COUNT,
    SOFT_PREFIX_REPEAT,
    SOFT_PREFIX_OPSIZE,
    SOFT_PREFIX_ADDRSIZE,
};

static const uint8_t soft_prefix_of[256] = {
    [0x26] = SOFT_PREFIX_SEGMENT + HV_SEG_ES,
    [0x2e] = SOFT_PREFIX_SEGMENT + HV_SEG_CS,
    [0x36] = SOFT_PREFIX_SEGMENT + HV_SEG_SS,
    [0x3e] = SOFT_PREFIX_SEGMENT + HV_SEG_DS,
    [0x64] = SOFT_PREFIX_SEGMENT + HV_SEG_FS,
    [0x65] = SOFT_PREFIX_SEGMENT + HV_SEG_GS,
    [0x66] = SOFT_PREFIX_OPSIZE,
    [0x67] = SOFT_PREFIX_ADDRSIZE,
    [0xf0] = SOFT_PREFIX_LOCK,
    [0xf2] = SOFT_PREFIX_REPEAT,
    [0xf3] = SOFT_PREFIX_REPEAT,
};

/* Too few bytes: is it the guest's instruction that is too long, or did the caller give too few? */
static enum soft_decode_result soft_out_of_bytes(const struct soft_reader *reader)
{
    return reader->cut ? SOFT_DECODE_TOO_LONG : SOFT_DECODE_SHORT;
}

/* SDM 2, 2.1.1: any number, any order. A REX counts only directly before the opcode (2.2.1). */
static void soft_read_prefixes(enum soft_mode mode, struct soft_reader *reader,
                               struct soft_prefixes *prefixes)
{
    for (; reader->next < reader->end; reader->next++) {
        uint8_t byte = *reader->next;
        uint8_t prefix = soft_prefix_of[byte];

        if (prefix == SOFT_PREFIX_NONE) {
            if (mode != SOFT_MODE_64 || (byte & 0xf0) != 0x40) {
                return;
            }
            prefixes->rex = byte;
            continue;
        }
        prefixes->rex = 0;
        if (prefix == SOFT_PREFIX_OPSIZE) {
            prefixes->opsize = true;
        } else if (prefix == SOFT_PREFIX_ADDRSIZE) {
            prefixes->addrsize = true;
        } else if (prefix == SOFT_PREFIX_REPEAT) {
            prefixes->repeat = byte;
        } else if (prefix == SOFT_PREFIX_LOCK) {
            prefixes->lock = true;
        } else if (mode != SOFT_MODE_64 || prefix >= SOFT_PREFIX_SEGMENT + HV_SEG_FS) {
            prefixes->segment = prefix - SOFT_PREFIX_SEGMENT;
        }
    }
}

/* C4 or C5 was taken and is VEX. SDM 2, 2.3.5 and 2.3.6: two or three bytes. */
static enum soft_decode_result soft_read_vex(enum soft_mode mode, struct soft_reader *reader,
                                             struct soft_prefixes *prefixes, bool three,
                                             struct soft_insn *insn)
{
    static const uint8_t pp_prefix[4] = {0, 0x66, 0xf3, 0xf2};
    uint64_t first = 0, last = 0;

    if (prefixes->rex || prefixes->repeat || prefixes->opsize || prefixes->lock) {
        return SOFT_DECODE_UD;
    }
    if (!soft_reader_take(reader, 1, &first) || (three && !soft_reader_take(reader, 1, &last))) {
        return soft_out_of_bytes(reader);
    }
    insn->map = 1;
    if (three) {
        insn->map = first & 0x1f;
        insn->rex = (uint8_t)((~first >> 5 & 7) | (last >> 4 & SOFT_REX_W));
        if (insn->map < 1 || insn->map > 3) {
            return SOFT_DECODE_UD;
        }
    } else {
        last = first;
        insn->rex = ~first >> 5 & SOFT_REX_R;
    }
    insn->vex_vvvv = (uint8_t)(~last >> 3 & 15);
    /* Outside 64-bit mode R and X are 1 (else it were LES), B is ignored. */
    if (mode != SOFT_MODE_64) {
        insn->rex &= SOFT_REX_W;
    }
    insn->vex_bytes = last & 4 ? 32 : 16;
    insn->mandatory = pp_prefix[last & 3];
    insn->flags |= SOFT_INSN_VEX;
    prefixes->vex = true;
    return SOFT_DECODE_OK;
}

/* The opcode and all that leads to it; insn->map, opcode and the VEX fields. */
static enum soft_decode_result soft_read_opcode(enum soft_mode mode, struct soft_reader *reader,
                                                struct soft_prefixes *prefixes,
                                                struct soft_insn *insn)
{
    enum soft_decode_result result;
    uint64_t byte;

    if (!soft_reader_take(reader, 1, &byte)) {
        return soft_out_of_bytes(reader);
    }
    if (byte == 0x0f) {
        insn->map = 1;
        if (!soft_reader_take(reader, 1, &byte)) {
            return soft_out_of_bytes(reader);
        }
        if (byte == 0x38 || byte == 0x3a) {
            insn->map = byte == 0x38 ? 2 : 3;
            if (!soft_reader_take(reader, 1, &byte)) {
                return soft_out_of_bytes(reader);
            }
        }
    } else if (byte == 0xc4 || byte == 0xc5) {
        /* Outside 64-bit mode a memory form is LES or LDS. */
        if (mode != SOFT_MODE_64 && reader->next == reader->end) {
            return soft_out_of_bytes(reader);
        }
        if (mode == SOFT_MODE_64 || *reader->next >= 0xc0) {
            result = soft_read_vex(mode, reader, prefixes, byte == 0xc4, insn);
            if (result != SOFT_DECODE_OK) {
                return result;
            }
            if (!soft_reader_take(reader, 1, &byte)) {
                return soft_out_of_bytes(reader);
            }
        }
    }
    insn->opcode = (uint8_t)byte;
    insn->opcode_offset = (uint8_t)(reader->next - reader->start - 1);
    return SOFT_DECODE_OK;
}

static bool soft_has_memory(const struct soft_insn *insn)
{
    return (insn->flags & SOFT_INSN_MODRM) && insn->modrm < 0xc0;
}

static uint32_t soft_key(enum soft_mode mode, const struct soft_prefixes *prefixes,
                         const struct soft_insn *insn)
{
    uint8_t repeat = prefixes->repeat;
    bool opsize = prefixes->opsize;
    uint32_t key = 0;

    if (prefixes->vex) {
        repeat = insn->mandatory >= 0xf2 ? insn->mandatory : 0;
        opsize = insn->mandatory == 0x66;
    }
    if (opsize) {
        key |= SOFT_KEY_66;
    }
    if (repeat) {
        key |= repeat == 0xf3 ? SOFT_KEY_F3 : SOFT_KEY_F2;
    }
    if (mode == SOFT_MODE_64) {
        key |= SOFT_KEY_MODE64;
    }
    if (insn->rex & SOFT_REX_W) {
        key |= SOFT_KEY_W;
    }
    if (insn->rex & SOFT_REX_B) {
        key |= SOFT_KEY_REX_B;
    }
    if (insn->vex_bytes == 32) {
        key |= SOFT_KEY_L;
    }
    return key;
}

/*
 * The first candidate that fits; -1: none.
 *
 * @key_mask  leaves out of the comparison what is not known yet.
 */
static int soft_find_row(const struct soft_slot *slot, uint32_t key, uint32_t key_mask, bool lock)
{
    for (unsigned i = slot->first; i < (unsigned)slot->first + slot->count; i++) {
        const struct soft_encoding *encoding = &soft_encodings[soft_candidates[i]];

        if (!((key ^ encoding->value) & encoding->mask & key_mask) &&
            (!lock || (encoding->rules & SOFT_RULE_LOCK))) {
            return soft_candidates[i];
        }
    }
    return -1;
}

/* ModRM if the opcode has one, then the row. */
static enum soft_decode_result soft_choose_row(enum soft_mode mode, struct soft_reader *reader,
                                               const struct soft_prefixes *prefixes,
                                               struct soft_insn *insn)
{
    unsigned map = insn->map + (prefixes->vex ? SOFT_VEX_MAP_OFFSET : 0);
    const struct soft_slot *slot = &soft_slots[map][insn->opcode];
    uint32_t key = soft_key(mode, prefixes, insn);
    int row;

    if (slot->modrm) {
        if (reader->next == reader->end) {
            /* Only a beginning of some instruction is worth another byte. */
            if (soft_find_row(slot, key, ~(uint32_t)SOFT_KEY_MODRM, prefixes->lock) < 0) {
                return SOFT_DECODE_UD;
            }
            return soft_out_of_bytes(reader);
        }
        insn->modrm = *reader->next++;
        insn->flags |= SOFT_INSN_MODRM;
        key |= insn->modrm;
        if (insn->modrm < 0xc0) {
            key |= SOFT_KEY_MEM;
        }
    }
    /* LOCK is no way to tell rows apart: the row is chosen first, then it must allow LOCK. */
    row = soft_find_row(slot, key, UINT32_MAX, false);
    if (row < 0) {
        return SOFT_DECODE_UD;
    }
    insn->row = (uint16_t)row;
    insn->op = soft_isa_table[row].op;
    return SOFT_DECODE_OK;
}

/* SDM 2, table 3-4 and 2.2.1.7: operand and address size, and whose prefix 66, F2 and F3 were. */
static void soft_settle_sizes(enum soft_mode mode, const struct soft_prefixes *prefixes,
                              const struct soft_encoding *encoding, struct soft_insn *insn)
{
    bool opsize = prefixes->opsize;

    if (!prefixes->vex && (encoding->mask & SOFT_KEY_66 & encoding->value)) {
        insn->mandatory = 0x66;
        opsize = false;
    }
    if (!prefixes->vex && (encoding->value & (SOFT_KEY_F2 | SOFT_KEY_F3))) {
        insn->mandatory = prefixes->repeat;
    } else if (prefixes->repeat) {
        insn->flags |= prefixes->repeat == 0xf3 ? SOFT_INSN_REP : SOFT_INSN_REPNE;
    }

    if (mode == SOFT_MODE_64) {
        insn->address_bytes = prefixes->addrsize ? 4 : 8;
        if ((insn->rex & SOFT_REX_W) || (encoding->rules & SOFT_RULE_F64)) {
            insn->operand_bytes = 8;
        } else if (opsize) {
            insn->operand_bytes = 2;
        } else {
            insn->operand_bytes = encoding->rules & SOFT_RULE_D64 ? 8 : 4;
        }
    } else {
        insn->address_bytes = prefixes->addrsize == (mode == SOFT_MODE_16) ? 4 : 2;
        insn->operand_bytes = opsize == (mode == SOFT_MODE_16) ? 4 : 2;
    }
    if (encoding->rules & SOFT_RULE_LIG) {
        insn->vex_bytes = 16;
    }
}

static void soft_settle_flags(const struct soft_prefixes *prefixes, struct soft_insn *insn)
{
    if (prefixes->lock) {
        insn->flags |= SOFT_INSN_LOCK;
    }
    if (prefixes->rex) {
        insn->flags |= SOFT_INSN_REX;
    }
    if (insn->rex & SOFT_REX_W) {
        insn->flags |= SOFT_INSN_W;
    }
    if (prefixes->segment != SOFT_REG_NONE) {
        insn->flags |= SOFT_INSN_SEGMENT;
    }
    if (prefixes->opsize) {
        insn->flags |= SOFT_INSN_OPSIZE;
    }
    if (prefixes->addrsize) {
        insn->flags |= SOFT_INSN_ADDRSIZE;
    }
}

/*
 * Segment registers are six and CS is not loaded by MOV, control registers are 0, 2, 3, 4 and 8, a
 * gather needs a SIB (SDM 2, MOV, 2.3.12).
 */
static bool soft_numbers_valid(const struct soft_encoding *encoding, const struct soft_insn *insn)
{
    unsigned reg = (insn->modrm >> 3 & 7u) | (insn->rex & (unsigned)SOFT_REX_R) << 1;

    if ((encoding->rules & SOFT_RULE_VSIB) &&
        ((insn->modrm & 7) != SOFT_RM_SIB || insn->address_bytes == 2)) {
        return false;
    }
    for (unsigned i = 0; i < encoding->forms; i++) {
        switch (encoding->form[i].kind) {
        case SOFT_OPERAND_SEG:
            if (encoding->form[i].source != SOFT_SOURCE_REG) {
                break;
            }
            if ((reg & 7) >= HV_SEG_COUNT ||
                ((reg & 7) == HV_SEG_CS && (encoding->form[i].access & SOFT_ACCESS_WRITE))) {
                return false;
            }
            break;
        case SOFT_OPERAND_CR:
            if (!(SOFT_CR_VALID >> reg & 1)) {
                return false;
            }
            break;
        case SOFT_OPERAND_DR:
            if (reg > 7) {
                return false;
            }
            break;
        default:
            break;
        }
    }
    return true;
}

/* Destination, index and mask of a gather must be three registers (SDM 2, VPGATHERDD). */
static bool soft_gather_valid(const struct soft_encoding *encoding, const struct soft_insn *insn)
{
    unsigned reg = insn->operand[0].reg, index = insn->mem.index, mask = insn->vex_vvvv;

    return !(encoding->rules & SOFT_RULE_VSIB) || (reg != index && reg != mask && index != mask);
}

/* What no row can say by its key: LOCK needs a memory destination, an unused vvvv is 1111b. */
static bool soft_encoding_allowed(const struct soft_prefixes *prefixes,
                                  const struct soft_encoding *encoding,
                                  const struct soft_insn *insn)
{
    if (prefixes->lock && (!(encoding->rules & SOFT_RULE_LOCK) || !soft_has_memory(insn))) {
        return false;
    }
    if (prefixes->vex && !(encoding->rules & SOFT_RULE_VVVV) && insn->vex_vvvv != 0) {
        return false;
    }
    return !(encoding->rules & SOFT_RULE_NUMBERS) || soft_numbers_valid(encoding, insn);
}

enum soft_decode_result soft_decode(enum soft_mode mode, const uint8_t *bytes, size_t available,
                                    struct soft_insn *insn_out)
{
    struct soft_prefixes prefixes = {.segment = SOFT_REG_NONE};
    struct soft_reader reader = {
        .start = bytes,
        .next = bytes,
        .end = bytes + (available < SOFT_INSN_MAX ? available : SOFT_INSN_MAX),
        .cut = available >= SOFT_INSN_MAX,
    };
    struct soft_insn *insn = insn_out;
    const struct soft_encoding *encoding;
    enum soft_decode_result result;

    *insn = (struct soft_insn){
        .mem = {.base = SOFT_REG_NONE, .index = SOFT_REG_NONE, .segment = HV_SEG_DS}};
    soft_read_prefixes(mode, &reader, &prefixes);
    insn->rex = prefixes.rex & 15;
    result = soft_read_opcode(mode, &reader, &prefixes, insn);
    if (result == SOFT_DECODE_OK) {
        result = soft_choose_row(mode, &reader, &prefixes, insn);
    }
    if (result != SOFT_DECODE_OK) {
        return result;
    }

    encoding = &soft_encodings[insn->row];
    soft_settle_sizes(mode, &prefixes, encoding, insn);
    if (!soft_encoding_allowed(&prefixes, encoding, insn)) {
        return SOFT_DECODE_UD;
    }
    soft_settle_flags(&prefixes, insn);
    /* Outside 64-bit mode vvvv[3] is ignored, but for what soft_encoding_allowed() asks. */
    if (mode != SOFT_MODE_64) {
        insn->vex_vvvv &= 7;
    }
    if (soft_has_memory(insn) && !(encoding->rules & SOFT_RULE_REGS) &&
        !soft_decode_mem(mode, encoding->rules & SOFT_RULE_VSIB, &reader, insn)) {
        return soft_out_of_bytes(&reader);
    }
    if (!soft_decode_operands(mode, &reader, encoding, insn)) {
        return soft_out_of_bytes(&reader);
    }
    if (!soft_gather_valid(encoding, insn)) {
        return SOFT_DECODE_UD;
    }
    if (prefixes.segment != SOFT_REG_NONE) {
        insn->mem.segment = prefixes.segment;
    }
    insn->length = (uint8_t)(reader.next - reader.start);
    return SOFT_DECODE_OK;
}

const struct soft_isa_row *soft_isa_row(uint16_t row)
{
    return &soft_isa_table[row];
}

size_t soft_isa_rows(void)
{
    return soft_isa_count;
}

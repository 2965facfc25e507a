/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Random encodings: choose, then let the decoder confirm. */
#include "engine/isa-encode.h"

#include "engine/soft/decode-private.h"

#include <stdlib.h>
#include <string.h>

#define TRIES 64u

/* A row's opcodes are neighbours in one map. */
struct isa_place {
    uint8_t map;
    uint8_t first;
    uint8_t count;
};

struct isa_encoder {
    struct isa_place *places; /* by row */
};

/* The choices of one try. */
struct isa_draft {
    bool rex, w, l, opsize;
    uint8_t rxb; /* R X B in bits 2..0 */
    uint8_t repeat;
};

uint64_t isa_random(struct isa_random *random)
{
    uint64_t x = random->state;

    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    random->state = x;
    return x * UINT64_C(0x2545f4914f6cdd1d);
}

unsigned isa_random_below(struct isa_random *random, unsigned bound)
{
    return (unsigned)((isa_random(random) >> 32) % bound);
}

static bool chance(struct isa_random *random, unsigned of)
{
    return isa_random_below(random, of) == 0;
}

struct isa_encoder *isa_encoder_create(void)
{
    struct isa_encoder *encoder = calloc(1, sizeof(*encoder));

    if (encoder)
        encoder->places = calloc(soft_isa_rows(), sizeof(*encoder->places));
    if (!encoder || !encoder->places)
        abort();
    for (unsigned i = 0; i < SOFT_MAPS * 256; i++) {
        const struct soft_slot *slot = &soft_slots[i / 256][i % 256];

        for (unsigned k = 0; k < slot->count; k++) {
            struct isa_place *place = &encoder->places[soft_candidates[slot->first + k]];

            if (place->count++ == 0) {
                place->map = (uint8_t)(i / 256);
                place->first = (uint8_t)i;
            }
        }
    }
    return encoder;
}

void isa_encoder_destroy(struct isa_encoder *encoder)
{
    if (encoder)
        free(encoder->places);
    free(encoder);
}

/* What the row pins of the bits above ModRM, or @otherwise. */
static bool pinned(const struct soft_encoding *encoding, unsigned key, bool otherwise)
{
    return encoding->mask & key ? (encoding->value & key) != 0 : otherwise;
}

static void choose(const struct soft_encoding *encoding, const struct isa_shape *shape, bool vex,
                   struct isa_random *random, struct isa_draft *draft)
{
    bool wide = shape->mode == SOFT_MODE_64 && shape->operand_bytes == 8;
    bool narrow = shape->operand_bytes == (shape->mode == SOFT_MODE_16 ? 4 : 2);

    if (shape->operand_bytes == 0)
        wide = chance(random, 3);
    draft->w = pinned(
        encoding, SOFT_KEY_W,
        vex ? wide || (shape->operand_bytes == 0 && chance(random, 2))
            : wide && (!(encoding->rules & (SOFT_RULE_D64 | SOFT_RULE_F64)) || chance(random, 4)));
    draft->l = pinned(encoding, SOFT_KEY_L, chance(random, 2));
    draft->opsize = pinned(encoding, SOFT_KEY_66, narrow);
    draft->rxb = (uint8_t)(chance(random, 2) ? isa_random(random) & 7 : 0);
    if (pinned(encoding, SOFT_KEY_REX_B, false))
        draft->rxb |= 1;
    if (shape->mode != SOFT_MODE_64)
        draft->rxb = 0;
    draft->rex = draft->w || draft->rxb || chance(random, 8);
    draft->repeat = 0;
    if (pinned(encoding, SOFT_KEY_F3, false))
        draft->repeat = 0xf3;
    else if (pinned(encoding, SOFT_KEY_F2, false))
        draft->repeat = 0xf2;
    else if (shape->repeat)
        draft->repeat = chance(random, 2) ? 0xf2 : 0xf3;
}

/* Two or three bytes of VEX (SDM 2, 2.3.5). */
static uint8_t *put_vex(uint8_t *at, unsigned map, const struct soft_encoding *encoding,
                        enum soft_mode mode, const struct isa_draft *draft,
                        struct isa_random *random)
{
    unsigned pp = draft->repeat == 0xf3 ? 2 : draft->repeat == 0xf2 ? 3 : draft->opsize ? 1 : 0;
    unsigned vvvv = encoding->rules & SOFT_RULE_VVVV ? isa_random_below(random, 16) : 15;
    unsigned inverted = ~(unsigned)draft->rxb & 7u;

    if (mode != SOFT_MODE_64)
        vvvv |= 8;
    if (map == 1 && !draft->w && (inverted & 3) == 3 && chance(random, 2)) {
        *at++ = 0xc5;
        *at++ = (uint8_t)((inverted >> 2) << 7 | vvvv << 3 | (unsigned)draft->l << 2 | pp);
        return at;
    }
    *at++ = 0xc4;
    *at++ = (uint8_t)(inverted << 5 | map);
    *at++ = (uint8_t)((unsigned)draft->w << 7 | vvvv << 3 | (unsigned)draft->l << 2 | pp);
    return at;
}

static uint8_t *put_legacy(uint8_t *at, unsigned map, const struct isa_shape *shape,
                           const struct isa_draft *draft)
{
    static const uint8_t escape[4] = {0, 0, 0x38, 0x3a};

    if (draft->opsize)
        *at++ = 0x66;
    if (draft->repeat)
        *at++ = draft->repeat;
    if (shape->mode == SOFT_MODE_64 && draft->rex)
        *at++ = (uint8_t)(0x40 | (unsigned)draft->w << 3 | draft->rxb);
    if (map > 0)
        *at++ = 0x0f;
    if (map > 1)
        *at++ = escape[map];
    return at;
}

static uint8_t put_modrm(const struct soft_encoding *encoding, const struct isa_shape *shape,
                         struct isa_random *random)
{
    unsigned modrm = (unsigned)isa_random(random) & 0xff;

    if (!shape->memory)
        modrm |= 0xc0;
    else if (modrm >= 0xc0)
        modrm &= 0x3f | (isa_random(random) & 1 ? 0x80 : 0x40);
    return (uint8_t)((modrm & ~(encoding->mask & 0x3fu)) | (encoding->value & 0x3fu));
}

/* One try; the noise behind the opcode and ModRM is there already. */
static void draft_bytes(const struct isa_place *place, const struct soft_encoding *encoding,
                        const struct isa_shape *shape, struct isa_random *random, uint8_t *at)
{
    static const uint8_t segments[] = {0x26, 0x2e, 0x36, 0x3e, 0x65};
    bool vex = place->map > SOFT_VEX_MAP_OFFSET;
    unsigned map = vex ? place->map - SOFT_VEX_MAP_OFFSET : place->map;
    struct isa_draft draft;

    choose(encoding, shape, vex, random, &draft);
    /* Not FS, which is the host's thread pointer. */
    if (chance(random, 12))
        *at++ = segments[isa_random_below(random, sizeof(segments))];
    if (chance(random, 12))
        *at++ = 0x67;
    if (shape->lock)
        *at++ = 0xf0;
    if (vex)
        at = put_vex(at, map, encoding, shape->mode, &draft, random);
    else
        at = put_legacy(at, map, shape, &draft);
    *at++ = (uint8_t)(place->first + isa_random_below(random, place->count));
    if (soft_slots[place->map][place->first].modrm)
        *at = put_modrm(encoding, shape, random);
}

static bool fits(const struct isa_shape *shape, uint16_t row, const struct soft_insn *insn)
{
    bool memory = (insn->flags & SOFT_INSN_MODRM) && insn->modrm < 0xc0;

    return insn->row == row && memory == shape->memory &&
           (!shape->operand_bytes || insn->operand_bytes == shape->operand_bytes) &&
           !shape->repeat == !(insn->flags & (SOFT_INSN_REP | SOFT_INSN_REPNE));
}

unsigned isa_encode(const struct isa_encoder *encoder, uint16_t row, const struct isa_shape *shape,
                    struct isa_random *random, uint8_t bytes_out[SOFT_INSN_MAX],
                    struct soft_insn *insn_out)
{
    /* A draft without its noise may be longer than 15. */
    uint8_t bytes[2 * SOFT_INSN_MAX];

    for (unsigned i = 0; i < TRIES; i++) {
        uint64_t noise[3] = {isa_random(random), isa_random(random), isa_random(random)};

        memcpy(bytes, noise, sizeof(noise));
        draft_bytes(&encoder->places[row], &soft_encodings[row], shape, random, bytes);
        if (soft_decode(shape->mode, bytes, SOFT_INSN_MAX, insn_out) != SOFT_DECODE_OK ||
            !fits(shape, row, insn_out))
            continue;
        memcpy(bytes_out, bytes, SOFT_INSN_MAX);
        return insn_out->length;
    }
    return 0;
}

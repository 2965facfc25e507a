/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The thunk compiler: the guest's instruction, with loads before and stores behind it.
 *
 * Vector registers stand for themselves: the host has the same sixteen and the calling convention
 * leaves all to the callee. General registers are renamed into the scratch ones, all sixteen of the
 * guest being possible and RDI, RSI and RSP being taken; the implicit ones keep their names. They
 * are loaded and stored whole, so that the silicon itself does partial writes and zero extension.
 *
 * Loads and stores in between are moves, which leave the flags alone.
 */
#include "base/assert.h"
#include "engine/soft/emit.h"
#include "engine/soft/thunk-private.h"

#define OFFSET_GPR(reg)   ((uint32_t)(offsetof(struct hv_cpu, slot) + 8u * (reg)))
#define OFFSET_ARITH      ((uint32_t)offsetof(struct hv_cpu, arith))
#define OFFSET_XMM(reg)   ((uint32_t)(offsetof(struct hv_cpu, x) + SOFT_X_XMM + 16u * (reg)))
#define OFFSET_UPPER(reg) ((uint32_t)(offsetof(struct hv_cpu, x) + SOFT_X_YMM + 16u * (reg)))

/* Which host register stands for which general register of the guest. */
struct renaming {
    uint8_t host[HV_REG_COUNT];
    uint32_t guests;   /* bit a guest register that has one */
    uint32_t hosts;    /* bit a host register in use */
    bool legacy_bytes; /* AH to BH are named: no register that needs REX */
};

/* AH, CH, DH, BH are bytes 4 to 7 without REX. */
static bool high_byte(const struct soft_shape *shape, unsigned field,
                      enum soft_thunk_form_flag byte)
{
    return (shape->flags & byte) && !shape->rex && field >= 4 && field < 8;
}

static void rename_register(struct renaming *names, unsigned guest)
{
    static const uint8_t pool[] = {SOFT_HOST_R8,  SOFT_HOST_R9,  SOFT_HOST_R10, SOFT_HOST_R11,
                                   SOFT_HOST_RAX, SOFT_HOST_RCX, SOFT_HOST_RDX};

    if (names->guests >> guest & 1) {
        return;
    }
    for (unsigned i = names->legacy_bytes ? 4 : 0; i < HV_ARRAY_LEN(pool); i++) {
        if (!(names->hosts >> pool[i] & 1)) {
            names->host[guest] = pool[i];
            names->guests |= 1u << guest;
            names->hosts |= 1u << pool[i];
            return;
        }
    }
    /* At most three are named, or two beside the implicit RAX or RCX. */
    HV_BUG_ON(true);
}

static void keep_register(struct renaming *names, unsigned guest)
{
    names->host[guest] = (uint8_t)guest;
    names->guests |= 1u << guest;
    names->hosts |= 1u << guest;
}

static void rename_all(struct renaming *names, const struct soft_shape *shape)
{
    bool reg_high = high_byte(shape, shape->reg, SOFT_FORM_BYTE_REG);
    bool rm_high = !shape->memory && high_byte(shape, shape->rm, SOFT_FORM_BYTE_RM);

    memset(names, 0, sizeof(*names));
    names->legacy_bytes = reg_high || rm_high;
    for (unsigned i = 0; i < 4; i++) {
        if (shape->flags >> i & SOFT_FORM_RAX) {
            keep_register(names, HV_REG_RAX + i);
        }
    }
    if (shape->flags & SOFT_FORM_GPR_REG) {
        rename_register(names, reg_high ? shape->reg - 4u : shape->reg);
    }
    if ((shape->flags & (SOFT_FORM_GPR_RM | SOFT_FORM_GPR_OPCODE)) && !shape->memory) {
        rename_register(names, rm_high ? shape->rm - 4u : shape->rm);
    }
    if (shape->flags & SOFT_FORM_GPR_VVVV) {
        rename_register(names, shape->vvvv);
    }
}

/* The number to encode for a register field. */
static unsigned renamed(const struct renaming *names, const struct soft_shape *shape,
                        unsigned field, enum soft_thunk_form_flag gpr,
                        enum soft_thunk_form_flag byte)
{
    if (!(shape->flags & gpr)) {
        return field;
    }
    if (byte && high_byte(shape, field, byte)) {
        return names->host[field - 4] + 4u;
    }
    return names->host[field];
}

static void emit_legacy(struct soft_emit *emit, const struct soft_shape *shape, unsigned reg,
                        unsigned rm)
{
    if (shape->lock) {
        soft_emit_byte(emit, 0xf0);
    }
    if (shape->size16) {
        soft_emit_byte(emit, 0x66);
    }
    if (shape->mandatory && !(shape->size16 && shape->mandatory == 0x66)) {
        soft_emit_byte(emit, shape->mandatory);
    }
    soft_emit_rex(emit, shape->w, reg, rm, false);
    if (shape->map >= 1) {
        soft_emit_byte(emit, 0x0f);
    }
    if (shape->map >= 2) {
        soft_emit_byte(emit, shape->map == 2 ? 0x38 : 0x3a);
    }
}

static void emit_instruction(struct soft_emit *emit, const struct soft_shape *shape,
                             const struct renaming *names)
{
    uint8_t opcode = shape->opcode;
    unsigned reg, rm, vvvv;

    reg = renamed(names, shape, shape->reg, SOFT_FORM_GPR_REG, SOFT_FORM_BYTE_REG);
    rm = shape->memory ? (unsigned)SOFT_HOST_RSI
         : shape->flags & SOFT_FORM_GPR_OPCODE
             ? names->host[shape->rm]
             : renamed(names, shape, shape->rm, SOFT_FORM_GPR_RM, SOFT_FORM_BYTE_RM);
    vvvv = shape->flags & SOFT_FORM_GPR_VVVV ? names->host[shape->vvvv] : shape->vvvv;
    if (shape->vex_bytes) {
        soft_emit_vex(emit, shape->map, shape->mandatory, shape->w, shape->vex_bytes == 32, vvvv,
                      reg, rm);
    } else {
        emit_legacy(emit, shape, reg, rm);
    }
    if (shape->flags & SOFT_FORM_GPR_OPCODE) {
        opcode = (uint8_t)((opcode & 0xf8u) | (rm & 7u));
    }
    soft_emit_byte(emit, opcode);
    if (shape->has_modrm) {
        soft_emit_byte(emit, (uint8_t)((shape->memory ? 0u : 0xc0u) | (reg & 7u) << 3 | (rm & 7u)));
    }
    soft_emit_bytes(emit, shape->imm, shape->imm_bytes);
}

static void emit_loads(struct soft_emit *emit, const struct soft_shape *shape,
                       const struct renaming *names)
{
    bool vex = shape->vex_bytes != 0;

    if (shape->arith) {
        soft_emit_flags_load(emit, OFFSET_ARITH);
    }
    for (unsigned i = 0; i < shape->vectors; i++) {
        const struct soft_vector *vector = &shape->vector[i];

        /* A legacy destination may keep parts of itself; a VEX one never does unread. */
        if (vex && vector->access == SOFT_ACCESS_WRITE) {
            continue;
        }
        soft_emit_xmm_load(emit, vex, vector->reg, OFFSET_XMM(vector->reg));
        if (vector->bytes == 32) {
            soft_emit_upper_load(emit, vector->reg, OFFSET_UPPER(vector->reg));
        }
    }
    for (unsigned guest = 0; guest < HV_REG_COUNT; guest++) {
        if (names->guests >> guest & 1) {
            soft_emit_load(emit, names->host[guest], OFFSET_GPR(guest));
        }
    }
}

static void emit_stores(struct soft_emit *emit, const struct soft_shape *shape,
                        const struct renaming *names)
{
    bool vex = shape->vex_bytes != 0;

    for (unsigned guest = 0; guest < HV_REG_COUNT; guest++) {
        if (names->guests >> guest & 1) {
            soft_emit_store(emit, names->host[guest], OFFSET_GPR(guest));
        }
    }
    for (unsigned i = 0; i < shape->vectors; i++) {
        const struct soft_vector *vector = &shape->vector[i];

        if (!(vector->access & SOFT_ACCESS_WRITE)) {
            continue;
        }
        soft_emit_xmm_store(emit, vex, vector->reg, OFFSET_XMM(vector->reg));
        /* A VEX instruction of 128 bits has cleared the upper half (SDM 1 14.9). */
        if (vex) {
            soft_emit_upper_store(emit, vector->reg, OFFSET_UPPER(vector->reg));
        }
    }
    if (shape->arith) {
        soft_emit_flags_store(emit, OFFSET_ARITH);
    }
}

static bool dirties_upper(const struct soft_shape *shape)
{
    bool dirty = shape->vex_bytes == 32;

    for (unsigned i = 0; i < shape->vectors; i++) {
        dirty |= shape->vector[i].bytes == 32;
    }
    return dirty;
}

/* VZEROUPPER and VZEROALL of 64-bit mode: the guest's registers in memory, by one that is zero. */
static void emit_zeroing(struct soft_emit *emit, const struct soft_shape *shape)
{
    soft_emit_bytes(emit, "\xc5\xf9\xef\xc0", 4); /* vpxor xmm0, xmm0, xmm0 */
    for (unsigned reg = 0; reg < 16; reg += 2) {
        soft_emit_ymm_store(emit, 0, OFFSET_UPPER(reg));
        if (shape->vex_bytes == 32) {
            soft_emit_ymm_store(emit, 0, OFFSET_XMM(reg));
        }
    }
    soft_emit_byte(emit, 0xc3);
}

size_t soft_thunk_compile(const struct soft_shape *shape, void *place, size_t bytes)
{
    struct renaming names;
    struct soft_emit emit;

    soft_emit_init(&emit, place, bytes);
    if (shape->flags & SOFT_FORM_ZERO) {
        emit_zeroing(&emit, shape);
        goto out;
    }
    rename_all(&names, shape);
    if (names.hosts >> SOFT_HOST_RBX & 1) {
        soft_emit_byte(&emit, 0x53); /* push rbx: the callee's to keep */
    }
    emit_loads(&emit, shape, &names);
    emit_instruction(&emit, shape, &names);
    emit_stores(&emit, shape, &names);
    if (dirties_upper(shape)) {
        soft_emit_bytes(&emit, "\xc5\xf8\x77", 3); /* vzeroupper */
    }
    if (names.hosts >> SOFT_HOST_RBX & 1) {
        soft_emit_byte(&emit, 0x5b); /* pop rbx */
    }
    soft_emit_byte(&emit, 0xc3);
out:
    return emit.overflow ? 0 : (size_t)(emit.at - (uint8_t *)place);
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What the thunk compiler emits, read by Zydis: in whichever mode the guest's instruction stands, the
 * host must have one of the same name with a memory operand of the same size. Nothing is run here,
 * so that 16-bit forms and those of other processors are covered too.
 */
#include "engine/isa-encode.h"
#include "engine/soft/thunk-private.h"
#include "lib/tap.h"

#include <Zydis/Zydis.h>

#define HITS 8u /* of each row, mode, operand size and form */

static struct isa_encoder *encoder;
static struct isa_random chance = {1};
static ZydisDecoder host;
static uint64_t compiled;

static bool guest_mnemonic(enum soft_mode mode, const uint8_t *bytes, size_t length,
                           ZydisMnemonic *mnemonic_out)
{
    static const ZydisMachineMode modes[] = {
        [SOFT_MODE_16] = ZYDIS_MACHINE_MODE_LEGACY_16,
        [SOFT_MODE_32] = ZYDIS_MACHINE_MODE_LEGACY_32,
        [SOFT_MODE_64] = ZYDIS_MACHINE_MODE_LONG_64,
    };
    ZydisDecodedInstruction insn;
    ZydisDecoder guest;

    ZydisDecoderInit(&guest, modes[mode],
                     mode == SOFT_MODE_64   ? ZYDIS_STACK_WIDTH_64
                     : mode == SOFT_MODE_32 ? ZYDIS_STACK_WIDTH_32
                                            : ZYDIS_STACK_WIDTH_16);
    if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&guest, NULL, bytes, length, &insn))) {
        return false;
    }
    *mnemonic_out = insn.mnemonic;
    return true;
}

/* CBW, CWDE and CDQE, CWD to CQO and the like are one opcode: their names follow the size. */
static bool named_by_size(const struct soft_shape *shape)
{
    return shape->map == 0 && (shape->opcode == 0x98 || shape->opcode == 0x99);
}

/* The bytes of the operand at [rsi], or 0. */
static unsigned place_bytes(const ZydisDecodedInstruction *insn, const ZydisDecodedOperand *operand)
{
    for (unsigned i = 0; i < insn->operand_count_visible; i++) {
        if (operand[i].type == ZYDIS_OPERAND_TYPE_MEMORY &&
            operand[i].mem.base == ZYDIS_REGISTER_RSI) {
            return operand[i].size / 8u;
        }
    }
    return 0;
}

/* NULL, or what is wrong with the code of @shape. */
static const char *judge(const struct soft_shape *shape, const uint8_t *code, size_t length,
                         ZydisMnemonic wanted)
{
    ZydisDecodedOperand operand[ZYDIS_MAX_OPERAND_COUNT];
    ZydisDecodedInstruction insn;
    bool found = false;

    for (size_t at = 0; at < length; at += insn.length) {
        unsigned bytes;

        if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&host, code + at, length - at, &insn, operand))) {
            return "the host has no such instruction";
        }
        found |= insn.mnemonic == wanted;
        bytes = place_bytes(&insn, operand);
        if (bytes && shape->memory_bytes && bytes != shape->memory_bytes) {
            return "the memory operand has another size";
        }
    }
    return found || named_by_size(shape) ? NULL : "it is another instruction";
}

static void check_one(uint16_t row, const struct isa_shape *want)
{
    static const char *const names[] = {"16", "32", "64"};
    uint8_t bytes[SOFT_INSN_MAX], code[512];
    struct soft_shape shape;
    struct soft_insn insn;
    unsigned length = isa_encode(encoder, row, want, &chance, bytes, &insn);
    ZydisMnemonic mnemonic;
    const char *wrong;
    size_t emitted;

    if (!length || soft_shape_init(&shape, &insn, bytes) != 0 ||
        (shape.flags & (SOFT_FORM_ZERO | SOFT_FORM_GATHER | SOFT_FORM_MASKED_BYTES)) ||
        !guest_mnemonic(want->mode, bytes, length, &mnemonic)) {
        return;
    }
    emitted = soft_thunk_compile(&shape, code, sizeof(code));
    TAP_OK(emitted > 0);
    compiled++;
    wrong = judge(&shape, code, emitted, mnemonic);
    if (wrong) {
        tap_fail(__FILE__, __LINE__, "%s, mode %s, operand size %u, opcode %u:%02x: %s",
                 soft_isa_row(row)->mnemonic, names[want->mode], insn.operand_bytes, insn.map,
                 insn.opcode, wrong);
    }
}

static void test_emitted(void)
{
    static const uint8_t sizes[] = {2, 4, 8};

    encoder = isa_encoder_create();
    ZydisDecoderInit(&host, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    for (uint16_t row = 0; row < soft_isa_rows(); row++) {
        for (unsigned form = 0; form < 3 * 3 * 4 * HITS; form++) {
            const struct isa_shape want = {
                .mode = (enum soft_mode)(form % 3),
                .operand_bytes = sizes[form / 3 % 3],
                .memory = form / 9 & 1,
                .lock = form / 18 & 1,
            };

            check_one(row, &want);
        }
    }
    isa_encoder_destroy(encoder);
    tap_note("%" PRIu64 " thunks", compiled);
    TAP_OK(compiled > 10000);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {{"engine.thunk-zydis.emitted", test_emitted}};

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

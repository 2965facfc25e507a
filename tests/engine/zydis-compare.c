/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One instruction through both decoders; the tables of what they may differ in, and why. */
#include "engine/zydis-compare.h"

#include "base/bits.h"
#include "cpu/state.h"
#include "engine/soft/isa-ops.h"

#include <Zydis/Zydis.h>

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct zydis_compare {
    ZydisDecoder decoder[3];
    uint64_t excused;
    char text[256];
};

/* Both results of one instruction. */
struct pair {
    enum soft_mode mode;
    struct soft_insn ours;
    const char *our_name;
    ZydisDecodedInstruction theirs;
    ZydisDecodedOperand operand[ZYDIS_MAX_OPERAND_COUNT];
    const char *their_name;
};

/* Extensions that no guest of ours sees: we decode none of them (or NOP, where silicon does). */
static const ZydisISAExt hidden_extensions[] = {
    ZYDIS_ISA_EXT_AMD3DNOW,
    ZYDIS_ISA_EXT_AMD_INVLPGB,
    ZYDIS_ISA_EXT_AMX_BF16,
    ZYDIS_ISA_EXT_AMX_INT8,
    ZYDIS_ISA_EXT_AMX_TILE,
    ZYDIS_ISA_EXT_AVX512EVEX,
    ZYDIS_ISA_EXT_AVX512VEX,
    ZYDIS_ISA_EXT_AVX_VNNI,
    ZYDIS_ISA_EXT_CET,
    ZYDIS_ISA_EXT_CLDEMOTE,
    ZYDIS_ISA_EXT_CLZERO,
    ZYDIS_ISA_EXT_ENQCMD,
    ZYDIS_ISA_EXT_FMA4,
    ZYDIS_ISA_EXT_HRESET,
    ZYDIS_ISA_EXT_KEYLOCKER,
    ZYDIS_ISA_EXT_KNC,
    ZYDIS_ISA_EXT_KNCE,
    ZYDIS_ISA_EXT_KNCV,
    ZYDIS_ISA_EXT_MCOMMIT,
    ZYDIS_ISA_EXT_MONITORX,
    ZYDIS_ISA_EXT_MPX,
    ZYDIS_ISA_EXT_PADLOCK,
    ZYDIS_ISA_EXT_PCONFIG,
    ZYDIS_ISA_EXT_PKU,
    ZYDIS_ISA_EXT_PT,
    ZYDIS_ISA_EXT_RDPRU,
    ZYDIS_ISA_EXT_RTM,
    ZYDIS_ISA_EXT_SERIALIZE,
    ZYDIS_ISA_EXT_SGX,
    ZYDIS_ISA_EXT_SGX_ENCLV,
    ZYDIS_ISA_EXT_SNP,
    ZYDIS_ISA_EXT_SSE4A,
    ZYDIS_ISA_EXT_SVM,
    ZYDIS_ISA_EXT_TBM,
    ZYDIS_ISA_EXT_TDX,
    ZYDIS_ISA_EXT_TSX_LDTRK,
    ZYDIS_ISA_EXT_UINTR,
    ZYDIS_ISA_EXT_VMFUNC,
    ZYDIS_ISA_EXT_WAITPKG,
    ZYDIS_ISA_EXT_XOP,
    ZYDIS_ISA_EXT_KEYLOCKER_WIDE,
    ZYDIS_ISA_EXT_VTX,
    ZYDIS_ISA_EXT_MOVDIR,
};

/* Differences that stay, by how their text begins. */
static const struct {
    const char *begins;
    const char *why;
} excuses[] = {
    {"none of ours (1): they say syscall", "Intel's is #UD outside 64-bit mode (SDM 2, SYSCALL)"},
    {"none of ours (1): they say sysret", "Intel's is #UD outside 64-bit mode (SDM 2, SYSRET)"},
    {"NOP: they say prefetch", "0F 0D /0 and /3 to /7 are AMD's; Intel: reserved NOP"},
    {"3DNOW: ", "they know the suffixes; the row is there for the length only"},
    {"MOVSXD: memory of 16 bits, theirs 32", "r/m16 with operand size 16 (SDM 2, MOVSXD)"},
    {"base 13 of SIB",
     "SIB base 101b with mod 0 is a displacement whatever REX.B says (SDM 2, table "
     "2-5 note); with address size 32 in 64-bit mode Zydis 4.0.0 says R13D"},
};

static HV_PRINTF(2, 3) const char *differ(struct zydis_compare *compare, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(compare->text, sizeof(compare->text), format, arguments);
    va_end(arguments);
    return compare->text;
}

struct zydis_compare *zydis_compare_create(void)
{
    static const struct {
        ZydisMachineMode mode;
        ZydisStackWidth stack;
    } modes[3] = {
        {ZYDIS_MACHINE_MODE_LEGACY_16, ZYDIS_STACK_WIDTH_16},
        {ZYDIS_MACHINE_MODE_LEGACY_32, ZYDIS_STACK_WIDTH_32},
        {ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64},
    };
    struct zydis_compare *compare = calloc(1, sizeof(*compare));

    if (!compare)
        abort();
    for (unsigned i = 0; i < 3; i++) {
        ZydisDecoderInit(&compare->decoder[i], modes[i].mode, modes[i].stack);
        /* As on silicon that has neither: their encodings are NOPs. */
        ZydisDecoderEnableMode(&compare->decoder[i], ZYDIS_DECODER_MODE_MPX, ZYAN_FALSE);
        ZydisDecoderEnableMode(&compare->decoder[i], ZYDIS_DECODER_MODE_CET, ZYAN_FALSE);
        ZydisDecoderEnableMode(&compare->decoder[i], ZYDIS_DECODER_MODE_CLDEMOTE, ZYAN_FALSE);
        ZydisDecoderEnableMode(&compare->decoder[i], ZYDIS_DECODER_MODE_WBNOINVD, ZYAN_FALSE);
    }
    return compare;
}

void zydis_compare_destroy(struct zydis_compare *compare)
{
    free(compare);
}

uint64_t zydis_compare_excused(const struct zydis_compare *compare)
{
    return compare->excused;
}

static bool has_prefix(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Names that differ by operand size, or by the kind of operand, have one mnemonic of ours. */
static const char *plain_name(const struct pair *pair)
{
    static const struct {
        const char *theirs, *ours;
    } names[] = {
        {"cwde", "CBW"},
        {"cdqe", "CBW"},
        {"cdq", "CWD"},
        {"cqo", "CWD"},
        {"pushad", "PUSHA"},
        {"popad", "POPA"},
        {"pushfd", "PUSHF"},
        {"pushfq", "PUSHF"},
        {"popfd", "POPF"},
        {"popfq", "POPF"},
        {"iretd", "IRET"},
        {"iretq", "IRET"},
        {"jecxz", "JCXZ"},
        {"jrcxz", "JCXZ"},
        {"fxsave64", "FXSAVE"},
        {"fxrstor64", "FXRSTOR"},
        {"xsave64", "XSAVE"},
        {"xrstor64", "XRSTOR"},
        {"xsaveopt64", "XSAVEOPT"},
        {"xsavec64", "XSAVEC"},
        {"xsaves64", "XSAVES"},
        {"xrstors64", "XRSTORS"},
        {"feni8087_nop", "FNENI"},
        {"fdisi8087_nop", "FNDISI"},
        {"fsetpm287_nop", "FNSETPM"},
    };

    for (size_t i = 0; i < HV_ARRAY_LEN(names); i++) {
        if (strcmp(pair->their_name, names[i].theirs) == 0)
            return names[i].ours;
    }
    return NULL;
}

static ZydisRegisterClass operand_class(const ZydisDecodedOperand *operand)
{
    if (operand->type != ZYDIS_OPERAND_TYPE_REGISTER)
        return ZYDIS_REGCLASS_INVALID;
    return ZydisRegisterGetClass(operand->reg.value);
}

/* Their name in our spelling, into @name. */
static void our_spelling(const struct pair *pair, char name[32])
{
    const ZydisDecodedInstruction *theirs = &pair->theirs;
    const char *plain = plain_name(pair);
    size_t length = strlen(pair->their_name);
    bool far = theirs->meta.branch_type == ZYDIS_BRANCH_TYPE_FAR;

    if (plain) {
        strcpy(name, plain);
        return;
    }
    for (size_t i = 0; i <= length; i++)
        name[i] = (char)toupper((unsigned char)pair->their_name[i]);
    if (theirs->meta.category == ZYDIS_CATEGORY_COND_BR && !has_prefix(name, "LOOP") &&
        strcmp(name, "JCXZ") != 0)
        strcpy(name, "JCC");
    else if (theirs->meta.category == ZYDIS_CATEGORY_SETCC)
        strcpy(name, "SETCC");
    else if (theirs->meta.category == ZYDIS_CATEGORY_CMOV)
        strcpy(name, "CMOVCC");
    else if (theirs->meta.category == ZYDIS_CATEGORY_STRINGOP ||
             theirs->meta.category == ZYDIS_CATEGORY_IOSTRINGOP)
        name[length - 1] = 0;
    else if (far &&
             (theirs->mnemonic == ZYDIS_MNEMONIC_CALL || theirs->mnemonic == ZYDIS_MNEMONIC_JMP ||
              theirs->mnemonic == ZYDIS_MNEMONIC_RET))
        strcat(name, "F");
    if (theirs->mnemonic != ZYDIS_MNEMONIC_MOV)
        return;
    for (unsigned i = 0; i < 2; i++) {
        if (operand_class(&pair->operand[i]) == ZYDIS_REGCLASS_SEGMENT)
            strcpy(name, "MOV_SEG");
        if (operand_class(&pair->operand[i]) == ZYDIS_REGCLASS_CONTROL)
            strcpy(name, "MOV_CR");
        if (operand_class(&pair->operand[i]) == ZYDIS_REGCLASS_DEBUG)
            strcpy(name, "MOV_DR");
    }
}

/* Our number for a general register of theirs; SOFT_REG_NONE, SOFT_REG_RIP. */
static unsigned register_number(ZydisRegister reg)
{
    if (reg == ZYDIS_REGISTER_NONE)
        return SOFT_REG_NONE;
    if (reg == ZYDIS_REGISTER_RIP || reg == ZYDIS_REGISTER_EIP)
        return SOFT_REG_RIP;
    return (unsigned)ZydisRegisterGetId(reg);
}

static const char *compare_memory(struct zydis_compare *compare, const struct pair *pair,
                                  const ZydisDecodedOperand *theirs, unsigned bytes)
{
    const struct soft_mem *mem = &pair->ours.mem;
    unsigned scale = mem->index == SOFT_REG_NONE ? 0 : 1u << mem->scale;
    uint64_t mask = hv_bytes_mask(pair->ours.address_bytes);

    if (mem->base == SOFT_REG_NONE && theirs->mem.base == ZYDIS_REGISTER_R13D)
        return differ(compare, "base 13 of SIB: %s", pair->our_name);
    if (mem->base != register_number(theirs->mem.base))
        return differ(compare, "%s: base", pair->our_name);
    if (mem->index != register_number(theirs->mem.index))
        return differ(compare, "%s: index %u", pair->our_name, mem->index);
    if (scale != (theirs->mem.index == ZYDIS_REGISTER_NONE ? 0 : theirs->mem.scale))
        return differ(compare, "%s: scale", pair->our_name);
    if (((uint64_t)mem->disp ^ (uint64_t)theirs->mem.disp.value) & mask)
        return differ(compare, "%s: displacement", pair->our_name);
    if (theirs->mem.type != ZYDIS_MEMOP_TYPE_AGEN &&
        mem->segment != (unsigned)ZydisRegisterGetId(theirs->mem.segment))
        return differ(compare, "%s: segment", pair->our_name);
    if (bytes && bytes * 8 != theirs->size)
        return differ(compare, "%s: memory of %u bits, theirs %u", pair->our_name, bytes * 8,
                      theirs->size);
    return NULL;
}

static const char *compare_register(struct zydis_compare *compare, const struct pair *pair,
                                    const struct soft_operand *ours,
                                    const ZydisDecodedOperand *theirs)
{
    static const ZydisRegisterClass gpr_class[9] = {[1] = ZYDIS_REGCLASS_GPR8,
                                                    [2] = ZYDIS_REGCLASS_GPR16,
                                                    [4] = ZYDIS_REGCLASS_GPR32,
                                                    [8] = ZYDIS_REGCLASS_GPR64};
    static const ZydisRegisterClass classes[] = {
        [SOFT_OPERAND_SEG] = ZYDIS_REGCLASS_SEGMENT, [SOFT_OPERAND_CR] = ZYDIS_REGCLASS_CONTROL,
        [SOFT_OPERAND_DR] = ZYDIS_REGCLASS_DEBUG,    [SOFT_OPERAND_ST] = ZYDIS_REGCLASS_X87,
        [SOFT_OPERAND_MMX] = ZYDIS_REGCLASS_MMX,     [SOFT_OPERAND_XMM] = ZYDIS_REGCLASS_XMM,
        [SOFT_OPERAND_YMM] = ZYDIS_REGCLASS_YMM,     [SOFT_OPERAND_GPR] = 0,
    };
    ZydisRegisterClass class = operand_class(theirs), want;
    unsigned number = (unsigned)ZydisRegisterGetId(theirs->reg.value);

    if (ours->kind == SOFT_OPERAND_GPR_HIGH) {
        if (theirs->reg.value != (ZydisRegister)(ZYDIS_REGISTER_AH + ours->reg))
            return differ(compare, "%s: high byte register", pair->our_name);
        return NULL;
    }
    want = ours->kind == SOFT_OPERAND_GPR ? gpr_class[ours->bytes] : classes[ours->kind];
    if (class != want)
        return differ(compare, "%s: register class %u, %u bytes, theirs %u", pair->our_name,
                      ours->kind, ours->bytes, class);
    /* SPL to DIL have numbers after those of AH to BH. */
    if (class == ZYDIS_REGCLASS_GPR8 && theirs->reg.value >= ZYDIS_REGISTER_SPL)
        number = (unsigned)(theirs->reg.value - ZYDIS_REGISTER_SPL) + 4;
    if (number != ours->reg)
        return differ(compare, "%s: register %u, theirs %u", pair->our_name, ours->reg, number);
    return NULL;
}

/* Immediates are compared as far as their instruction can tell them apart. */
static const char *compare_immediate(struct zydis_compare *compare, const struct pair *pair,
                                     const struct soft_operand *ours, unsigned which,
                                     const ZydisDecodedOperand *theirs)
{
    uint64_t value = which ? pair->ours.imm2 : pair->ours.imm;
    uint64_t mask = hv_bytes_mask(ours->bytes ? ours->bytes : 1);

    if (theirs->type != ZYDIS_OPERAND_TYPE_IMMEDIATE)
        return differ(compare, "%s: no immediate, theirs of type %u", pair->our_name, theirs->type);
    if (ours->kind == SOFT_OPERAND_REL)
        mask = UINT64_MAX;
    if ((value ^ theirs->imm.value.u) & mask)
        return differ(compare, "%s: immediate %#llx, theirs %#llx", pair->our_name,
                      (unsigned long long)value, (unsigned long long)theirs->imm.value.u);
    if (ours->kind == SOFT_OPERAND_IMM && (value & ~mask))
        return differ(compare, "%s: immediate wider than its operand", pair->our_name);
    return NULL;
}

static const char *compare_operand(struct zydis_compare *compare, const struct pair *pair,
                                   unsigned index, unsigned *immediates,
                                   const ZydisDecodedOperand *theirs)
{
    const struct soft_operand *ours = &pair->ours.operand[index];

    switch ((enum soft_operand_kind)ours->kind) {
    case SOFT_OPERAND_MEM:
        if (theirs->type != ZYDIS_OPERAND_TYPE_MEMORY)
            return differ(compare, "%s: operand %u is memory", pair->our_name, index);
        return compare_memory(compare, pair, theirs, ours->bytes);
    case SOFT_OPERAND_IMM:
    case SOFT_OPERAND_REL:
    case SOFT_OPERAND_CONST:
        return compare_immediate(compare, pair, ours, (*immediates)++, theirs);
    case SOFT_OPERAND_FAR:
        if (theirs->type != ZYDIS_OPERAND_TYPE_POINTER || theirs->ptr.offset != pair->ours.imm ||
            theirs->ptr.segment != pair->ours.imm2)
            return differ(compare, "%s: far pointer", pair->our_name);
        return NULL;
    case SOFT_OPERAND_GPR:
    case SOFT_OPERAND_GPR_HIGH:
    case SOFT_OPERAND_SEG:
    case SOFT_OPERAND_CR:
    case SOFT_OPERAND_DR:
    case SOFT_OPERAND_ST:
    case SOFT_OPERAND_MMX:
    case SOFT_OPERAND_XMM:
    case SOFT_OPERAND_YMM:
        if (theirs->type != ZYDIS_OPERAND_TYPE_REGISTER)
            return differ(compare, "%s: operand %u is a register", pair->our_name, index);
        return compare_register(compare, pair, ours, theirs);
    case SOFT_OPERAND_NONE:
        break;
    }
    return differ(compare, "%s: operand %u is nothing", pair->our_name, index);
}

/* ST as the implied other side of FADD m32 or FXCH STi is no operand of ours. */
static bool is_implied(const struct pair *pair, const ZydisDecodedOperand *operand)
{
    if (operand->visibility == ZYDIS_OPERAND_VISIBILITY_HIDDEN)
        return true;
    return operand->visibility == ZYDIS_OPERAND_VISIBILITY_IMPLICIT && pair->ours.operands < 2 &&
           operand_class(operand) == ZYDIS_REGCLASS_X87;
}

/* They hide the XMM0 of BLENDVPS and its kin, and the number of INT3. */
static bool is_unnamed(const struct pair *pair, unsigned index)
{
    return pair->ours.op == SOFT_OP_INT3 || pair->ours.op == SOFT_OP_INT1 ||
           (index == 2 && !(pair->ours.flags & SOFT_INSN_VEX) &&
            pair->ours.operand[2].kind == SOFT_OPERAND_XMM);
}

static const char *compare_operands(struct zydis_compare *compare, const struct pair *pair)
{
    unsigned next = 0, immediates = 0;
    const char *text;

    for (unsigned i = 0; i < pair->ours.operands; i++) {
        if (is_unnamed(pair, i))
            continue;
        while (next < pair->theirs.operand_count && is_implied(pair, &pair->operand[next]))
            next++;
        if (next == pair->theirs.operand_count)
            return differ(compare, "%s: operand %u is not theirs", pair->our_name, i);
        text = compare_operand(compare, pair, i, &immediates, &pair->operand[next++]);
        if (text)
            return text;
    }
    while (next < pair->theirs.operand_count && is_implied(pair, &pair->operand[next]))
        next++;
    if (next < pair->theirs.operand_count)
        return differ(compare, "%s: %u operands, theirs more", pair->our_name, pair->ours.operands);
    return NULL;
}

/* String instructions and such: no operands of ours, but a segment and the element's size. */
static const char *compare_implied(struct zydis_compare *compare, const struct pair *pair)
{
    bool string = soft_isa_row(pair->ours.row)->flags & SOFT_ISA_STRING;

    for (unsigned i = 0; i < pair->theirs.operand_count; i++) {
        const ZydisDecodedOperand *operand = &pair->operand[i];

        if (operand->type != ZYDIS_OPERAND_TYPE_MEMORY)
            continue;
        if (string && operand->size != 8u * pair->ours.operand_bytes)
            return differ(compare, "%s: element size", pair->our_name);
        if (operand->mem.base != ZYDIS_REGISTER_NONE &&
            register_number(operand->mem.base) != HV_REG_RDI &&
            (unsigned)ZydisRegisterGetId(operand->mem.segment) != pair->ours.mem.segment)
            return differ(compare, "%s: segment", pair->our_name);
    }
    return NULL;
}

/* No operand shows their operand size, but it matters. */
static bool has_bare_size(const struct pair *pair)
{
    static const uint16_t ops[] = {SOFT_OP_CBW,    SOFT_OP_CWD,  SOFT_OP_IRET,  SOFT_OP_PUSHA,
                                   SOFT_OP_POPA,   SOFT_OP_RET,  SOFT_OP_RETF,  SOFT_OP_PUSHF,
                                   SOFT_OP_POPF,   SOFT_OP_PUSH, SOFT_OP_LEAVE, SOFT_OP_ENTER,
                                   SOFT_OP_SYSRET, SOFT_OP_CALL, SOFT_OP_JMP,   SOFT_OP_JCC};

    for (size_t i = 0; i < HV_ARRAY_LEN(ops); i++) {
        if (pair->ours.op == ops[i])
            return true;
    }
    return false;
}

static const char *compare_decoded(struct zydis_compare *compare, const struct pair *pair)
{
    char name[32];

    our_spelling(pair, name);
    if (strcmp(name, pair->our_name) != 0)
        return differ(compare, "%s: they say %s", pair->our_name, pair->their_name);
    if (pair->ours.length != pair->theirs.length)
        return differ(compare, "%s: length", pair->our_name);
    if (pair->ours.address_bytes * 8 != pair->theirs.address_width)
        return differ(compare, "%s: address size", pair->our_name);
    if (pair->ours.op == SOFT_OP_NOP)
        return NULL;
    if (pair->ours.flags & SOFT_INSN_STRING_IMPLIED)
        return compare_implied(compare, pair);
    if (has_bare_size(pair) && pair->ours.operand_bytes * 8 != pair->theirs.operand_width)
        return differ(compare, "%s: operand size %u, theirs %u", pair->our_name,
                      pair->ours.operand_bytes * 8u, pair->theirs.operand_width);
    return compare_operands(compare, pair);
}

static bool is_hidden(const struct pair *pair)
{
    for (size_t i = 0; i < HV_ARRAY_LEN(hidden_extensions); i++) {
        if (pair->theirs.meta.isa_ext == hidden_extensions[i])
            return true;
    }
    return false;
}

static bool is_excused(const char *text)
{
    for (size_t i = 0; i < HV_ARRAY_LEN(excuses); i++) {
        if (has_prefix(text, excuses[i].begins))
            return true;
    }
    return false;
}

/* VEX or an escape, and no opcode yet: they know that none of its 256 would be one. */
static bool ends_before_opcode(const uint8_t *bytes, size_t available)
{
    const uint8_t *end = bytes + available;

    return (available >= 3 && end[-3] == 0xc4) || (available >= 2 && end[-2] == 0xc5) ||
           (available >= 2 && end[-2] == 0x0f && (end[-1] == 0x38 || end[-1] == 0x3a));
}

static const char *compare_results(struct zydis_compare *compare, const struct pair *pair,
                                   enum soft_decode_result ours, ZyanStatus theirs,
                                   const uint8_t *bytes, size_t available)
{
    if (ours == SOFT_DECODE_OK)
        return ZYAN_SUCCESS(theirs)
                   ? compare_decoded(compare, pair)
                   : differ(compare, "%s: none of theirs (%x)", pair->our_name, theirs);
    if (ZYAN_SUCCESS(theirs)) {
        if (!is_hidden(pair))
            return differ(compare, "none of ours (%u): they say %s", ours, pair->their_name);
        compare->excused++;
        return NULL;
    }
    /* Who finds which fault first is free but for this: SHORT must not hide an #UD. */
    if (ours == SOFT_DECODE_SHORT && theirs != ZYDIS_STATUS_NO_MORE_DATA &&
        theirs != ZYDIS_STATUS_INSTRUCTION_TOO_LONG && !ends_before_opcode(bytes, available))
        return differ(compare, "SHORT: theirs is %x", theirs);
    return NULL;
}

const char *zydis_compare(struct zydis_compare *compare, enum soft_mode mode, const uint8_t *bytes,
                          size_t available, unsigned *length_out, int *row_out)
{
    struct pair pair = {.mode = mode};
    enum soft_decode_result ours = soft_decode(mode, bytes, available, &pair.ours);
    ZyanStatus theirs = ZydisDecoderDecodeFull(&compare->decoder[mode], bytes, available,
                                               &pair.theirs, pair.operand);
    const char *text;

    *row_out = -1;
    *length_out = 1;
    if (ZYAN_SUCCESS(theirs)) {
        pair.their_name = ZydisMnemonicGetString(pair.theirs.mnemonic);
        *length_out = pair.theirs.length;
    }
    if (ours == SOFT_DECODE_OK) {
        pair.our_name = soft_isa_row(pair.ours.row)->mnemonic;
        *row_out = pair.ours.row;
        *length_out = pair.ours.length;
    }
    text = compare_results(compare, &pair, ours, theirs, bytes, available);
    if (!text || !is_excused(text))
        return text;
    compare->excused++;
    return NULL;
}

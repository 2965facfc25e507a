/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A decoded instruction as a line of text, so that the decoder's tests read like a listing:
 *
 *     {SOFT_MODE_64, "48 8b 44 24 08", "MOV rax, 8@ss:[rsp+0x8]"}
 *
 * Memory is bytes@segment:[base+index*scale+displacement], `0@` when it is not accessed. Around the
 * mnemonic stand the prefixes that are not part of the opcode: lock, rep, repne. The implied operands
 * of string instructions show as element size and segment of the source: "MOVS/4 ds".
 */
#pragma once

#include "cpu/state.h"
#include "engine/soft/decode.h"
#include "engine/soft/isa-ops.h"
#include "lib/tap.h"

#include <stdio.h>
#include <string.h>

#define DECODE_BYTES 32u

struct decode_case {
    enum soft_mode mode;
    const char *bytes; /* in hex, with blanks */
    const char *text;  /* "#UD" and "too long" for what does not decode */
};

/* Hex with blanks to bytes; returns how many. */
static inline size_t decode_hex(const char *hex, uint8_t bytes[DECODE_BYTES])
{
    size_t count = 0;
    unsigned byte;
    int used;

    while (count < DECODE_BYTES && sscanf(hex, "%2x%n", &byte, &used) == 1) {
        bytes[count++] = (uint8_t)byte;
        hex += used;
    }
    return count;
}

static inline const char *decode_gpr(unsigned reg, unsigned bytes)
{
    static const char *const names[4][16] = {
        {"al", "cl", "dl", "bl", "spl", "bpl", "sil", "dil", "r8b", "r9b", "r10b", "r11b", "r12b",
         "r13b", "r14b", "r15b"},
        {"ax", "cx", "dx", "bx", "sp", "bp", "si", "di", "r8w", "r9w", "r10w", "r11w", "r12w",
         "r13w", "r14w", "r15w"},
        {"eax", "ecx", "edx", "ebx", "esp", "ebp", "esi", "edi", "r8d", "r9d", "r10d", "r11d",
         "r12d", "r13d", "r14d", "r15d"},
        {"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12",
         "r13", "r14", "r15"},
    };

    return names[bytes == 8 ? 3 : bytes / 2][reg & 15];
}

static inline const char *decode_segment(unsigned segment)
{
    static const char *const names[] = {"es", "cs", "ss", "ds", "fs", "gs"};

    return segment < HV_SEG_COUNT ? names[segment] : "?";
}

static inline void decode_memory_text(const struct soft_insn *insn, unsigned bytes, char text[96])
{
    const struct soft_mem *mem = &insn->mem;
    const char *plus = "";
    char *at = text;

    at += sprintf(at, "%u@%s:[", bytes, decode_segment(mem->segment));
    if (mem->base != SOFT_REG_NONE) {
        at +=
            sprintf(at, "%s",
                    mem->base == SOFT_REG_RIP ? "rip" : decode_gpr(mem->base, insn->address_bytes));
        plus = "+";
    }
    if (mem->index != SOFT_REG_NONE) {
        at += sprintf(at, "%s%s*%u", plus, decode_gpr(mem->index, insn->address_bytes),
                      1u << mem->scale);
        plus = "+";
    }
    if (mem->disp < 0 && *plus)
        at += sprintf(at, "-%#llx", -(long long)mem->disp);
    else if (mem->disp || !*plus)
        at += sprintf(at, "%s%#llx", plus, (long long)mem->disp);
    sprintf(at, "]");
}

static inline void decode_operand_text(const struct soft_insn *insn, unsigned index, bool second,
                                       char text[96])
{
    static const char *const banks[] = {
        [SOFT_OPERAND_CR] = "cr",  [SOFT_OPERAND_DR] = "dr",   [SOFT_OPERAND_ST] = "st",
        [SOFT_OPERAND_MMX] = "mm", [SOFT_OPERAND_XMM] = "xmm", [SOFT_OPERAND_YMM] = "ymm"};
    const struct soft_operand *operand = &insn->operand[index];
    long long rel = (long long)insn->imm;

    switch (operand->kind) {
    case SOFT_OPERAND_GPR:
        sprintf(text, "%s", decode_gpr(operand->reg, operand->bytes));
        break;
    case SOFT_OPERAND_GPR_HIGH:
        sprintf(text, "%ch", "acdb"[operand->reg & 3]);
        break;
    case SOFT_OPERAND_MEM:
        decode_memory_text(insn, operand->bytes, text);
        break;
    case SOFT_OPERAND_IMM:
        sprintf(text, "%#llx", (unsigned long long)(second ? insn->imm2 : insn->imm));
        break;
    case SOFT_OPERAND_REL:
        sprintf(text, "rip%c%#llx", rel < 0 ? '-' : '+', rel < 0 ? -rel : rel);
        break;
    case SOFT_OPERAND_FAR:
        sprintf(text, "%#llx:%#llx", (unsigned long long)insn->imm2, (unsigned long long)insn->imm);
        break;
    case SOFT_OPERAND_SEG:
        sprintf(text, "%s", decode_segment(operand->reg));
        break;
    case SOFT_OPERAND_CONST:
        sprintf(text, "%llu", (unsigned long long)insn->imm);
        break;
    default:
        sprintf(text, "%s%u", operand->kind < HV_ARRAY_LEN(banks) ? banks[operand->kind] : "?",
                operand->reg);
        break;
    }
}

static inline void decode_text(const struct soft_insn *insn, char text[256])
{
    const struct soft_isa_row *row = soft_isa_row(insn->row);
    unsigned immediates = 0;
    char part[96];

    sprintf(text, "%s%s%s%s", insn->flags & SOFT_INSN_LOCK ? "lock " : "",
            insn->flags & SOFT_INSN_REP ? "rep " : "",
            insn->flags & SOFT_INSN_REPNE ? "repne " : "", row->mnemonic);
    if (insn->flags & SOFT_INSN_STRING_IMPLIED) {
        if (row->flags & SOFT_ISA_STRING)
            sprintf(text + strlen(text), "/%u", insn->operand_bytes);
        sprintf(text + strlen(text), " %s", decode_segment(insn->mem.segment));
    } else if (insn->operands == 0 && insn->operand_bytes != 4) {
        /* Four is what goes without saying. */
        sprintf(text + strlen(text), "/%u", insn->operand_bytes);
    }
    for (unsigned i = 0; i < insn->operands; i++) {
        decode_operand_text(insn, i, immediates > 0, part);
        immediates += insn->operand[i].kind == SOFT_OPERAND_IMM;
        sprintf(text + strlen(text), "%s%s", i ? ", " : " ", part);
    }
}

/*
 * Each case decodes to its text whatever bytes follow, has the right length, and each beginning of
 * it is SHORT.
 */
static inline void decode_check(const struct decode_case *cases, size_t count)
{
    static const char *const results[] = {"", "#UD", "too long", "short"};

    for (size_t i = 0; i < count; i++) {
        uint8_t bytes[DECODE_BYTES];
        size_t length = decode_hex(cases[i].bytes, bytes);
        struct soft_insn insn;
        enum soft_decode_result result = soft_decode(cases[i].mode, bytes, length, &insn);
        char text[256];

        snprintf(text, sizeof(text), "%s", results[result]);
        if (result == SOFT_DECODE_OK)
            decode_text(&insn, text);
        if (strcmp(text, cases[i].text) != 0)
            tap_fail(__FILE__, __LINE__, "mode %u: %s: got \"%s\", want \"%s\"", cases[i].mode,
                     cases[i].bytes, text, cases[i].text);
        if (result != SOFT_DECODE_OK)
            continue;
        if (insn.length != length)
            tap_fail(__FILE__, __LINE__, "%s: length %u", cases[i].bytes, insn.length);
        for (size_t cut = 0; cut < length; cut++) {
            result = soft_decode(cases[i].mode, bytes, cut, &insn);
            if (result != SOFT_DECODE_SHORT)
                tap_fail(__FILE__, __LINE__, "%s: cut to %zu bytes: %s", cases[i].bytes, cut,
                         result ? results[result] : "decoded");
        }
    }
}

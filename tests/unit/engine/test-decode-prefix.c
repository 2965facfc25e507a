/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Prefixes: order, precedence, what is ignored and what makes an instruction invalid. */
#include "decode-text.h"

#define CASE16 SOFT_MODE_16
#define CASE32 SOFT_MODE_32
#define CASE64 SOFT_MODE_64

static void test_sizes(void)
{
    static const struct decode_case cases[] = {
        {CASE16, "01 d8", "ADD ax, bx"},
        {CASE16, "66 01 d8", "ADD eax, ebx"},
        {CASE32, "01 d8", "ADD eax, ebx"},
        {CASE32, "66 01 d8", "ADD ax, bx"},
        {CASE64, "01 d8", "ADD eax, ebx"},
        {CASE64, "66 01 d8", "ADD ax, bx"},
        {CASE64, "48 01 d8", "ADD rax, rbx"},
        /* REX.W wins over 66 (SDM 2, 2.2.1.2). */
        {CASE64, "66 48 01 d8", "ADD rax, rbx"},
        {CASE64, "67 8b 00", "MOV eax, 4@ds:[eax]"},
        {CASE32, "67 8b 00", "MOV eax, 4@ds:[bx+si*1]"},
        {CASE16, "67 8b 00", "MOV ax, 2@ds:[eax]"},
        /* The same prefix twice is the same as once. */
        {CASE64, "66 66 67 67 8b 00", "MOV ax, 2@ds:[eax]"},
    };

    decode_check(cases, HV_ARRAY_LEN(cases));
}

static void test_rex(void)
{
    static const struct decode_case cases[] = {
        {CASE64, "45 01 c8", "ADD r8d, r9d"},
        {CASE64, "41 54", "PUSH r12"},
        {CASE64, "40 88 e0", "MOV al, spl"},
        {CASE64, "88 e0", "MOV al, ah"},
        {CASE64, "44 88 e0", "MOV al, r12b"},
        {CASE64, "b4 01", "MOV ah, 0x1"},
        {CASE64, "40 b4 01", "MOV spl, 0x1"},
        /* Only directly before the opcode does REX count (2.2.1). */
        {CASE64, "48 66 01 d8", "ADD ax, bx"},
        {CASE64, "48 48 01 d8", "ADD rax, rbx"},
        {CASE64, "48 40 01 d8", "ADD eax, ebx"},
        {CASE64, "40 66 88 e0", "MOV al, ah"},
        /* It is INC and DEC elsewhere. */
        {CASE32, "48", "DEC eax"},
        {CASE16, "40", "INC ax"},
        /* NOP is XCHG with another register; F3 makes it PAUSE all the same. */
        {CASE64, "90", "NOP"},
        {CASE64, "41 90", "XCHG r8d, eax"},
        {CASE64, "f3 90", "PAUSE"},
        {CASE64, "f3 41 90", "PAUSE"},
        {CASE64, "48 90", "NOP/8"},
        {CASE64, "66 41 90", "XCHG r8w, ax"},
    };

    decode_check(cases, HV_ARRAY_LEN(cases));
}

static void test_segments(void)
{
    static const struct decode_case cases[] = {
        {CASE32, "8b 45 00", "MOV eax, 4@ss:[ebp]"},
        {CASE32, "3e 8b 45 00", "MOV eax, 4@ds:[ebp]"},
        {CASE32, "26 8b 00", "MOV eax, 4@es:[eax]"},
        {CASE32, "2e 8b 00", "MOV eax, 4@cs:[eax]"},
        {CASE32, "36 8b 00", "MOV eax, 4@ss:[eax]"},
        {CASE32, "64 8b 00", "MOV eax, 4@fs:[eax]"},
        {CASE32, "65 8b 00", "MOV eax, 4@gs:[eax]"},
        {CASE32, "64 65 26 8b 00", "MOV eax, 4@es:[eax]"},
        /* In 64-bit mode only FS and GS are prefixes; the others do not undo them. */
        {CASE64, "26 8b 00", "MOV eax, 4@ds:[rax]"},
        {CASE64, "3e 8b 45 00", "MOV eax, 4@ss:[rbp]"},
        {CASE64, "64 8b 00", "MOV eax, 4@fs:[rax]"},
        {CASE64, "64 2e 8b 00", "MOV eax, 4@fs:[rax]"},
        {CASE64, "64 65 8b 00", "MOV eax, 4@gs:[rax]"},
        {CASE64, "64 a4", "MOVS/1 fs"},
        {CASE64, "2e 74 00", "JCC rip+0"},
    };

    decode_check(cases, HV_ARRAY_LEN(cases));
}

static void test_lock(void)
{
    static const struct decode_case cases[] = {
        {CASE64, "f0 01 18", "lock ADD 4@ds:[rax], ebx"},
        {CASE64, "f0 87 18", "lock XCHG 4@ds:[rax], ebx"},
        {CASE64, "f0 48 0f c7 0f", "lock CMPXCHG16B 16@ds:[rdi]"},
        {CASE64, "f0 0f c7 0f", "lock CMPXCHG8B 8@ds:[rdi]"},
        {CASE64, "f0 f6 10", "lock NOT 1@ds:[rax]"},
        {CASE64, "f2 f0 0f b1 0f", "lock repne CMPXCHG 4@ds:[rdi], ecx"},
        /* No memory, memory that is not the destination, and those that write none. */
        {CASE64, "f0 01 d8", "#UD"},
        {CASE64, "f0 03 18", "#UD"},
        {CASE64, "f0 39 18", "#UD"},
        {CASE64, "f0 89 18", "#UD"},
        {CASE64, "f0 90", "#UD"},
        {CASE64, "f0 a4", "#UD"},
        {CASE64, "f0 0f a3 18", "#UD"},
        {CASE64, "f0 f7 20", "#UD"},
        {CASE64, "f0 0f 20 c0", "#UD"},
    };

    decode_check(cases, HV_ARRAY_LEN(cases));
}

static void test_repeat(void)
{
    static const struct decode_case cases[] = {
        {CASE64, "f3 a4", "rep MOVS/1 ds"},      {CASE64, "f2 ae", "repne SCAS/1 ds"},
        {CASE64, "f3 48 a5", "rep MOVS/8 ds"},   {CASE64, "f2 f3 ab", "rep STOS/4 ds"},
        {CASE64, "f3 f2 a7", "repne CMPS/4 ds"}, {CASE32, "66 f3 ad", "rep LODS/2 ds"},
        {CASE64, "48 6f", "OUTS/4 ds"},          {CASE64, "f3 c3", "rep RET/8"},
    };

    decode_check(cases, HV_ARRAY_LEN(cases));
}

static void test_mandatory(void)
{
    static const struct decode_case cases[] = {
        {CASE64, "0f 58 c1", "ADDPS xmm0, xmm1"},
        {CASE64, "66 0f 58 c1", "ADDPD xmm0, xmm1"},
        {CASE64, "f3 0f 58 c1", "ADDSS xmm0, xmm1"},
        {CASE64, "f2 0f 58 c1", "ADDSD xmm0, xmm1"},
        /* F2 and F3 before 66, and of the two the last. */
        {CASE64, "66 f2 0f 58 c1", "ADDSD xmm0, xmm1"},
        {CASE64, "f3 66 0f 58 c1", "ADDSS xmm0, xmm1"},
        {CASE64, "f2 f3 0f 58 c1", "ADDSS xmm0, xmm1"},
        {CASE64, "f3 f2 0f 58 c1", "ADDSD xmm0, xmm1"},
        /* Where one is left over it still chooses the size, or does nothing. */
        {CASE64, "66 f3 0f b8 c1", "POPCNT ax, cx"},
        {CASE64, "66 f2 0f 38 f1 c1", "CRC32 eax, cx"},
        {CASE64, "f2 0f bc c1", "repne BSF eax, ecx"},
        {CASE64, "f3 0f bc c1", "TZCNT eax, ecx"},
        {CASE64, "f3 48 0f bd c1", "LZCNT rax, rcx"},
        {CASE64, "66 0f 38 f0 01", "MOVBE ax, 2@ds:[rcx]"},
        {CASE64, "66 0f c7 f0", "RDRAND ax"},
        {CASE64, "f3 0f c7 f8", "RDPID rax"},
        /* A prefix that no row has. */
        {CASE64, "f3 0f 28 c1", "#UD"},
        {CASE64, "f2 0f c7 f0", "#UD"},
        {CASE64, "0f b8 c1", "#UD"},
        {CASE64, "66 0f ae 20", "#UD"},
    };

    decode_check(cases, HV_ARRAY_LEN(cases));
}

static void test_length(void)
{
    static const struct decode_case cases[] = {
        /* Fifteen bytes are fine, sixteen are not (SDM 3A 6.15, #GP). */
        {CASE64, "66 66 66 66 66 66 66 66 66 66 66 66 66 66 90", "NOP/2"},
        {CASE64, "66 66 66 66 66 66 66 66 66 66 66 66 66 66 66 90", "too long"},
        {CASE64, "66 66 66 66 66 66 66 66 66 66 66 66 66 66 b0 01", "too long"},
        {CASE64, "2e 2e 2e 2e 2e 48 b8 01 02 03 04 05 06 07 08", "MOV rax, 0x807060504030201"},
        {CASE64, "2e 2e 2e 2e 2e 2e 48 b8 01 02 03 04 05 06 07 08", "too long"},
        {CASE64, "f0 f0 f0 f0 f0 f0 f0 f0 f0 f0 f0 f0 f0 f0 f0 f0", "too long"},
    };

    decode_check(cases, HV_ARRAY_LEN(cases));
}

static void test_given_bytes_do_not_cut(void)
{
    uint8_t bytes[SOFT_INSN_MAX];
    struct soft_insn insn;

    /* Fourteen prefixes: not yet too long, whoever cut them there. */
    memset(bytes, 0x66, sizeof(bytes));
    TAP_EQ(soft_decode(SOFT_MODE_64, bytes, 14, &insn), SOFT_DECODE_SHORT);
    TAP_EQ(soft_decode(SOFT_MODE_64, bytes, 15, &insn), SOFT_DECODE_TOO_LONG);
    TAP_EQ(soft_decode(SOFT_MODE_64, bytes, 0, &insn), SOFT_DECODE_SHORT);
    /* LOCK MOV is invalid before its address is there. */
    TAP_EQ(soft_decode(SOFT_MODE_64, (const uint8_t[]){0xf0, 0x89}, 2, &insn), SOFT_DECODE_UD);
    TAP_EQ(soft_decode(SOFT_MODE_64, (const uint8_t[]){0x0f, 0xff}, 2, &insn), SOFT_DECODE_SHORT);
}

static void test_flags(void)
{
    struct soft_insn insn;

    TAP_EQ(
        soft_decode(SOFT_MODE_64, (const uint8_t[]){0x64, 0x66, 0x67, 0x44, 0x8b, 0x00}, 6, &insn),
        SOFT_DECODE_OK);
    TAP_EQ(insn.flags, SOFT_INSN_SEGMENT | SOFT_INSN_OPSIZE | SOFT_INSN_ADDRSIZE | SOFT_INSN_REX |
                           SOFT_INSN_MODRM);
    TAP_EQ(insn.opcode_offset, 4);
    TAP_EQ(insn.rex, 4);
    TAP_EQ(insn.modrm, 0);
    TAP_EQ(soft_decode(SOFT_MODE_64, (const uint8_t[]){0xf3, 0x48, 0x0f, 0xb8, 0xc1}, 5, &insn),
           SOFT_DECODE_OK);
    TAP_EQ(insn.flags, SOFT_INSN_REX | SOFT_INSN_W | SOFT_INSN_MODRM);
    TAP_EQ(insn.mandatory, 0xf3);
    TAP_EQ(insn.map, 1);
    TAP_EQ(insn.opcode_offset, 3);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"engine.decode-prefix.sizes", test_sizes},
        {"engine.decode-prefix.rex", test_rex},
        {"engine.decode-prefix.segments", test_segments},
        {"engine.decode-prefix.lock", test_lock},
        {"engine.decode-prefix.repeat", test_repeat},
        {"engine.decode-prefix.mandatory", test_mandatory},
        {"engine.decode-prefix.length", test_length},
        {"engine.decode-prefix.given-bytes", test_given_bytes_do_not_cut},
        {"engine.decode-prefix.flags", test_flags},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* x87, MMX, SSE and VEX encodings, and what the rows of isa.def say of them. */
#include "decode-text.h"

#define CASE32 SOFT_MODE_32
#define CASE64 SOFT_MODE_64

static void test_x87(void)
{
    static const struct decode_case cases[] = {
        {CASE64, "d8 00", "FADD 4@ds:[rax]"},
        {CASE64, "dc 00", "FADD 8@ds:[rax]"},
        {CASE64, "d8 c3", "FADD st0, st3"},
        {CASE64, "dc c3", "FADD st3, st0"},
        {CASE64, "41 d8 c3", "FADD st0, st3"},
        {CASE64, "db 28", "FLD 10@ds:[rax]"},
        {CASE64, "d9 c9", "FXCH st1"},
        {CASE64, "d9 e0", "FCHS"},
        {CASE64, "d9 ee", "FLDZ"},
        {CASE64, "d9 ef", "#UD"},
        {CASE64, "d9 d1", "#UD"},
        {CASE64, "df e0", "FNSTSW ax"},
        {CASE64, "9b", "FWAIT"},
        {CASE64, "d9 30", "FNSTENV 28@ds:[rax]"},
        {CASE64, "66 d9 30", "FNSTENV 14@ds:[rax]"},
        {CASE32, "dd 30", "FNSAVE 108@ds:[eax]"},
        {CASE32, "66 dd 20", "FRSTOR 94@ds:[eax]"},
        {CASE64, "df f1", "FCOMIP st0, st1"},
        {CASE64, "da c1", "FCMOVB st0, st1"},
        {CASE64, "de d9", "FCOMPP"},
        {CASE64, "dd 28", "#UD"},
    };

    decode_check(cases, HV_ARRAY_LEN(cases));
}

static void test_sse(void)
{
    static const struct decode_case cases[] = {
        {CASE64, "0f 28 01", "MOVAPS xmm0, 16@ds:[rcx]"},
        {CASE64, "44 0f 29 c1", "MOVAPS xmm1, xmm8"},
        {CASE64, "f3 0f 10 01", "MOVSS xmm0, 4@ds:[rcx]"},
        {CASE64, "f2 0f 11 01", "MOVSD 8@ds:[rcx], xmm0"},
        {CASE64, "0f 12 01", "MOVLPS xmm0, 8@ds:[rcx]"},
        {CASE64, "0f 12 c1", "MOVHLPS xmm0, xmm1"},
        {CASE64, "66 0f 12 c1", "#UD"},
        {CASE64, "0f 6e c1", "MOVD mm0, ecx"},
        {CASE64, "66 48 0f 6e c1", "MOVQ xmm0, rcx"},
        {CASE64, "f3 0f 7e c1", "MOVQ xmm0, xmm1"},
        {CASE64, "45 0f fc c1", "PADDB mm0, mm1"},
        {CASE64, "66 0f fc c1", "PADDB xmm0, xmm1"},
        {CASE64, "0f 60 01", "PUNPCKLBW mm0, 4@ds:[rcx]"},
        {CASE64, "66 0f 60 01", "PUNPCKLBW xmm0, 16@ds:[rcx]"},
        {CASE64, "66 0f 73 d9 04", "PSRLDQ xmm1, 0x4"},
        {CASE64, "0f 73 d9 04", "#UD"},
        {CASE64, "66 0f 38 14 c1", "BLENDVPS xmm0, xmm1, xmm0"},
        {CASE64, "66 0f 3a 14 c1 03", "PEXTRB ecx, xmm0, 0x3"},
        {CASE64, "66 0f 3a 14 01 03", "PEXTRB 1@ds:[rcx], xmm0, 0x3"},
        {CASE64, "66 48 0f 3a 16 c1 01", "PEXTRQ rcx, xmm0, 0x1"},
        {CASE64, "f3 48 0f 2a c1", "CVTSI2SS xmm0, rcx"},
        {CASE64, "0f 2a 01", "CVTPI2PS xmm0, 8@ds:[rcx]"},
        {CASE64, "0f 38 cb c1", "SHA256RNDS2 xmm0, xmm1, xmm0"},
        {CASE64, "66 0f 38 dc c1", "AESENC xmm0, xmm1"},
        {CASE64, "0f f7 c1", "MASKMOVQ ds mm0, mm1"},
        {CASE64, "0f f7 01", "#UD"},
        {CASE64, "0f ae 00", "FXSAVE 512@ds:[rax]"},
        {CASE64, "0f ae 20", "XSAVE 0@ds:[rax]"},
        {CASE64, "0f ae e8", "LFENCE"},
        {CASE64, "0f ae f0", "MFENCE"},
        {CASE64, "66 0f ae 38", "CLFLUSHOPT 0@ds:[rax]"},
        {CASE64, "66 0f ae f8", "#UD"},
    };

    decode_check(cases, HV_ARRAY_LEN(cases));
}

static void test_vex(void)
{
    static const struct decode_case cases[] = {
        {CASE64, "c5 f0 58 c2", "VADDPS xmm0, xmm1, xmm2"},
        {CASE64, "c5 f4 58 02", "VADDPS ymm0, ymm1, 32@ds:[rdx]"},
        {CASE64, "c4 41 30 58 c2", "VADDPS xmm8, xmm9, xmm10"},
        {CASE64, "c5 f6 58 02", "VADDSS xmm0, xmm1, 4@ds:[rdx]"},
        {CASE64, "c5 f8 77", "VZEROUPPER"},
        {CASE64, "c5 fc 77", "VZEROALL"},
        {CASE64, "c4 e2 7d 18 01", "VBROADCASTSS ymm0, 4@ds:[rcx]"},
        {CASE64, "c4 e2 fd 18 01", "#UD"},
        {CASE64, "c4 e3 7d 19 c1 01", "VEXTRACTF128 xmm1, ymm0, 0x1"},
        {CASE64, "c4 e3 71 4a c2 30", "VBLENDVPS xmm0, xmm1, xmm2, xmm3"},
        {CASE64, "c4 e2 e8 f2 c1", "ANDN rax, rdx, rcx"},
        {CASE64, "c4 e2 6c f2 c1", "#UD"},
        {CASE64, "c4 e2 f8 f3 c9", "BLSR rax, rcx"},
        {CASE64, "c4 e3 fb f0 c1 07", "RORX rax, rcx, 0x7"},
        {CASE64, "c5 ed 71 d1 03", "VPSRLW ymm2, ymm1, 0x3"},
        {CASE64, "c4 e1 f9 6e c1", "VMOVQ xmm0, rcx"},
        {CASE64, "c4 e2 69 90 04 08", "VPGATHERDD xmm0, 4@ds:[rax+rcx*1], xmm2"},
        {CASE64, "c4 e2 69 90 04 20", "VPGATHERDD xmm0, 4@ds:[rax+rsp*1], xmm2"},
        /* Registers that are not three, no SIB. */
        {CASE64, "c4 e2 79 90 04 08", "#UD"},
        {CASE64, "c4 e2 69 90 04 00", "#UD"},
        {CASE64, "c4 e2 69 90 04 10", "#UD"},
        {CASE64, "c4 e2 69 90 00", "#UD"},
        /* vvvv that names nothing is 1111b; L that must be 0; maps and prefixes that are none. */
        {CASE64, "c5 f0 28 c1", "#UD"},
        {CASE64, "c5 fd d6 c1", "#UD"},
        {CASE64, "c4 e0 78 58 c1", "#UD"},
        {CASE64, "c4 e4 78 58 c1", "#UD"},
        {CASE64, "66 c5 f0 58 c2", "#UD"},
        {CASE64, "f3 c5 f0 58 c2", "#UD"},
        {CASE64, "f0 c5 f0 58 c2", "#UD"},
        {CASE64, "48 c5 f0 58 c2", "#UD"},
        {CASE64, "64 67 c5 f0 58 02", "VADDPS xmm0, xmm1, 16@fs:[edx]"},
    };

    decode_check(cases, HV_ARRAY_LEN(cases));
}

static void test_vex_legacy_modes(void)
{
    static const struct decode_case cases[] = {
        {CASE32, "c5 f0 58 c2", "VADDPS xmm0, xmm1, xmm2"},
        {SOFT_MODE_16, "c5 f0 58 c2", "VADDPS xmm0, xmm1, xmm2"},
        /* B and vvvv[3] are ignored where there are eight registers ... */
        {CASE32, "c4 c1 38 58 c1", "VADDPS xmm0, xmm0, xmm1"},
        /* ... but vvvv that names nothing is still 1111b. */
        {CASE32, "c4 e1 39 6f c1", "#UD"},
        {CASE32, "c4 e1 79 6f c1", "VMOVDQA xmm0, xmm1"},
        /* W does not make a general register wider. */
        {CASE32, "c4 e1 f9 6e c1", "VMOVD xmm0, ecx"},
        {CASE32, "c4 e2 e8 f2 c1", "ANDN eax, edx, ecx"},
        {CASE32, "c4 61 30", "LES esp, 6@ds:[ecx+0x30]"},
    };

    decode_check(cases, HV_ARRAY_LEN(cases));
}

static const struct soft_isa_row *row_of(enum soft_mode mode, const char *hex)
{
    uint8_t bytes[DECODE_BYTES];
    struct soft_insn insn;

    if (soft_decode(mode, bytes, decode_hex(hex, bytes), &insn) != SOFT_DECODE_OK)
        return NULL;
    return soft_isa_row(insn.row);
}

static void test_rows(void)
{
    const struct soft_isa_row *row;

    row = row_of(SOFT_MODE_64, "74 00");
    TAP_EQ(row->op, SOFT_OP_JCC);
    TAP_EQ(row->flags_read, HV_RFLAGS_ZF);
    TAP_EQ(row->flags, SOFT_ISA_BRANCH);
    row = row_of(SOFT_MODE_64, "7f 00");
    TAP_EQ(row->flags_read, HV_RFLAGS_ZF | HV_RFLAGS_SF | HV_RFLAGS_OF);
    row = row_of(SOFT_MODE_64, "0f af c1");
    TAP_EQ(row->flags_written, HV_RFLAGS_ARITH);
    TAP_EQ(row->flags_undefined, HV_RFLAGS_SF | HV_RFLAGS_ZF | HV_RFLAGS_AF | HV_RFLAGS_PF);
    /* A shift by CL may be by nothing and keep the flags. */
    row = row_of(SOFT_MODE_64, "d3 e0");
    TAP_EQ(row->flags_read, HV_RFLAGS_ARITH);
    row = row_of(SOFT_MODE_64, "0f 28 01");
    TAP_EQ(row->flags, SOFT_ISA_SSE | SOFT_ISA_ALIGNED);
    row = row_of(SOFT_MODE_64, "f0 01 18");
    TAP_EQ(row->flags, SOFT_ISA_LOCKABLE);
    row = row_of(SOFT_MODE_64, "db e3");
    TAP_EQ(row->flags, SOFT_ISA_X87 | SOFT_ISA_FPU_NOWAIT);
    row = row_of(SOFT_MODE_64, "0f 22 d8");
    TAP_EQ(row->flags, SOFT_ISA_PRIVILEGED | SOFT_ISA_SYSTEM);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"engine.decode-vector.x87", test_x87},
        {"engine.decode-vector.sse", test_sse},
        {"engine.decode-vector.vex", test_vex},
        {"engine.decode-vector.vex-legacy-modes", test_vex_legacy_modes},
        {"engine.decode-vector.rows", test_rows},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

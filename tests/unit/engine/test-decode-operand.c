/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Effective addresses, immediates, and operands whose size or number is special. */
#include "decode-text.h"

#define CASE16 SOFT_MODE_16
#define CASE32 SOFT_MODE_32
#define CASE64 SOFT_MODE_64

static void test_memory16(void)
{
    static const struct decode_case cases[] = {
        {CASE16, "8b 00", "MOV ax, 2@ds:[bx+si*1]"},
        {CASE16, "8b 01", "MOV ax, 2@ds:[bx+di*1]"},
        {CASE16, "8b 02", "MOV ax, 2@ss:[bp+si*1]"},
        {CASE16, "8b 03", "MOV ax, 2@ss:[bp+di*1]"},
        {CASE16, "8b 04", "MOV ax, 2@ds:[si]"},
        {CASE16, "8b 05", "MOV ax, 2@ds:[di]"},
        {CASE16, "8b 06 34 12", "MOV ax, 2@ds:[0x1234]"},
        {CASE16, "8b 07", "MOV ax, 2@ds:[bx]"},
        {CASE16, "8b 46 fe", "MOV ax, 2@ss:[bp-0x2]"},
        {CASE16, "8b 86 00 01", "MOV ax, 2@ss:[bp+0x100]"},
        {CASE16, "8b 40 7f", "MOV ax, 2@ds:[bx+si*1+0x7f]"},
    };

    decode_check(cases, HV_ARRAY_LEN(cases));
}

static void test_memory32(void)
{
    static const struct decode_case cases[] = {
        {CASE32, "8b 05 78 56 34 12", "MOV eax, 4@ds:[0x12345678]"},
        {CASE32, "8b 04 24", "MOV eax, 4@ss:[esp]"},
        {CASE32, "8b 04 65 00 00 00 00", "MOV eax, 4@ds:[0]"},
        {CASE32, "8b 04 8d 10 00 00 00", "MOV eax, 4@ds:[ecx*4+0x10]"},
        {CASE32, "8b 44 85 80", "MOV eax, 4@ss:[ebp+eax*4-0x80]"},
        {CASE32, "8b 04 28", "MOV eax, 4@ds:[eax+ebp*1]"},
        {CASE32, "8b 84 c8 ff ff ff ff", "MOV eax, 4@ds:[eax+ecx*8-0x1]"},
    };

    decode_check(cases, HV_ARRAY_LEN(cases));
}

static void test_memory64(void)
{
    static const struct decode_case cases[] = {
        {CASE64, "8b 05 fc ff ff ff", "MOV eax, 4@ds:[rip-0x4]"},
        {CASE64, "41 8b 05 00 00 00 00", "MOV eax, 4@ds:[rip]"},
        {CASE64, "67 8b 05 00 00 00 00", "MOV eax, 4@ds:[rip]"},
        {CASE64, "8b 04 25 00 00 00 80", "MOV eax, 4@ds:[0xffffffff80000000]"},
        /* rm and base 4 and 5 are special whatever REX.B says, index 4 is not with REX.X. */
        {CASE64, "41 8b 04 24", "MOV eax, 4@ds:[r12]"},
        {CASE64, "41 8b 45 00", "MOV eax, 4@ds:[r13]"},
        {CASE64, "42 8b 04 20", "MOV eax, 4@ds:[rax+r12*1]"},
        {CASE64, "41 8b 04 25 10 00 00 00", "MOV eax, 4@ds:[0x10]"},
        {CASE64, "67 43 8b 04 1d 10 00 00 00", "MOV eax, 4@ds:[r11d*1+0x10]"},
        {CASE64, "8b 44 24 08", "MOV eax, 4@ss:[rsp+0x8]"},
    };

    decode_check(cases, HV_ARRAY_LEN(cases));
}

static void test_offsets(void)
{
    static const struct decode_case cases[] = {
        {CASE16, "a1 34 12", "MOV ax, 2@ds:[0x1234]"},
        {CASE32, "a0 78 56 34 12", "MOV al, 1@ds:[0x12345678]"},
        {CASE32, "67 a3 34 12", "MOV 4@ds:[0x1234], eax"},
        {CASE64, "64 48 a1 88 77 66 55 44 33 22 11", "MOV rax, 8@fs:[0x1122334455667788]"},
        {CASE64, "67 a2 78 56 34 12", "MOV 1@ds:[0x12345678], al"},
    };

    decode_check(cases, HV_ARRAY_LEN(cases));
}

static void test_immediates(void)
{
    static const struct decode_case cases[] = {
        {CASE64, "04 ff", "ADD al, 0xff"},
        {CASE64, "83 c0 ff", "ADD eax, 0xffffffff"},
        {CASE64, "66 83 c0 ff", "ADD ax, 0xffff"},
        {CASE64, "48 83 c0 ff", "ADD rax, 0xffffffffffffffff"},
        {CASE64, "48 05 00 00 00 80", "ADD rax, 0xffffffff80000000"},
        {CASE64, "05 00 00 00 80", "ADD eax, 0x80000000"},
        {CASE64, "66 05 34 12", "ADD ax, 0x1234"},
        {CASE64, "48 b8 08 07 06 05 04 03 02 01", "MOV rax, 0x102030405060708"},
        {CASE64, "b8 ff ff ff ff", "MOV eax, 0xffffffff"},
        {CASE64, "48 c7 c0 ff ff ff ff", "MOV rax, 0xffffffffffffffff"},
        {CASE64, "6a ff", "PUSH 0xffffffffffffffff"},
        {CASE64, "66 6a ff", "PUSH 0xffff"},
        {CASE64, "68 00 00 00 80", "PUSH 0xffffffff80000000"},
        {CASE64, "c1 e0 ff", "SHL eax, 0xff"},
        {CASE64, "d1 f8", "SAR eax, 1"},
        {CASE64, "c8 34 12 05", "ENTER 0x1234, 0x5"},
        {CASE64, "f7 c1 01 00 00 00", "TEST ecx, 0x1"},
        {CASE64, "6b c1 80", "IMUL eax, ecx, 0xffffff80"},
        {CASE64, "48 0f a4 c1 3f", "SHLD rcx, rax, 0x3f"},
        {CASE64, "cc", "INT3 3"},
        {CASE64, "cd 80", "INT 0x80"},
        {CASE64, "c7 05 04 00 00 00 02 00 00 00", "MOV 4@ds:[rip+0x4], 0x2"},
    };

    decode_check(cases, HV_ARRAY_LEN(cases));
}

static void test_branches(void)
{
    static const struct decode_case cases[] = {
        {CASE64, "74 fe", "JCC rip-0x2"},
        {CASE64, "0f 84 00 01 00 00", "JCC rip+0x100"},
        {CASE32, "66 0f 84 00 01", "JCC rip+0x100"},
        {CASE16, "e8 fd ff", "CALL rip-0x3"},
        {CASE32, "e8 fb ff ff ff", "CALL rip-0x5"},
        /* Intel: 66 is nothing to a near branch in 64-bit mode. */
        {CASE64, "66 e8 fb ff ff ff", "CALL rip-0x5"},
        {CASE64, "ff d0", "CALL rax"},
        {CASE64, "66 ff e0", "JMP rax"},
        {CASE64, "ff 20", "JMP 8@ds:[rax]"},
        {CASE32, "66 ff 20", "JMP 2@ds:[eax]"},
        {CASE64, "ff 28", "JMPF 6@ds:[rax]"},
        {CASE64, "48 ff 28", "JMPF 10@ds:[rax]"},
        {CASE32, "ea 78 56 34 12 10 00", "JMPF 0x10:0x12345678"},
        {CASE16, "9a 34 12 00 f0", "CALLF 0xf000:0x1234"},
        {CASE64, "ea 78 56 34 12 10 00", "#UD"},
        {CASE64, "ff e8", "#UD"},
        {CASE64, "c3", "RET/8"},
        {CASE64, "cb", "RETF"},
        {CASE64, "48 cf", "IRET/8"},
        {CASE32, "c2 08 00", "RET 0x8"},
        {CASE64, "67 e3 00", "JCXZ rip+0"},
    };

    decode_check(cases, HV_ARRAY_LEN(cases));
}

static void test_stack(void)
{
    static const struct decode_case cases[] = {
        {CASE64, "50", "PUSH rax"},   {CASE64, "66 50", "PUSH ax"},
        {CASE64, "41 58", "POP r8"},  {CASE64, "8f 00", "POP 8@ds:[rax]"},
        {CASE64, "8f 08", "#UD"},     {CASE64, "ff 30", "PUSH 8@ds:[rax]"},
        {CASE64, "0f a0", "PUSH fs"}, {CASE32, "06", "PUSH es"},
        {CASE64, "06", "#UD"},        {CASE64, "60", "#UD"},
        {CASE32, "60", "PUSHA"},      {CASE16, "60", "PUSHA/2"},
        {CASE64, "9c", "PUSHF/8"},    {CASE64, "66 9d", "POPF/2"},
        {CASE64, "c9", "LEAVE/8"},
    };

    decode_check(cases, HV_ARRAY_LEN(cases));
}

static void test_system_registers(void)
{
    static const struct decode_case cases[] = {
        {CASE64, "0f 20 c0", "MOV_CR rax, cr0"},
        {CASE32, "0f 22 d8", "MOV_CR cr3, eax"},
        {CASE64, "44 0f 20 c0", "MOV_CR rax, cr8"},
        {CASE64, "41 0f 22 e7", "MOV_CR cr4, r15"},
        /* ModRM.mod is no more than noise: no SIB, no displacement. */
        {CASE64, "0f 20 04", "MOV_CR rsp, cr0"},
        {CASE64, "0f 23 79", "MOV_DR dr7, rcx"},
        {CASE64, "66 0f 21 f8", "MOV_DR rax, dr7"},
        {CASE64, "0f 20 c8", "#UD"},
        {CASE64, "0f 22 e8", "#UD"},
        {CASE64, "44 0f 20 c8", "#UD"},
        {CASE64, "44 0f 21 c0", "#UD"},
        {CASE64, "8e d8", "MOV_SEG ds, ax"},
        {CASE64, "8e 00", "MOV_SEG es, 2@ds:[rax]"},
        {CASE64, "8c c8", "MOV_SEG eax, cs"},
        {CASE64, "48 8c d8", "MOV_SEG rax, ds"},
        {CASE64, "48 8c 18", "MOV_SEG 2@ds:[rax], ds"},
        {CASE64, "44 8e d8", "MOV_SEG ds, ax"},
        {CASE64, "8e c8", "#UD"},
        {CASE64, "8e f0", "#UD"},
        {CASE64, "8c f8", "#UD"},
        {CASE64, "0f 01 10", "LGDT 10@ds:[rax]"},
        {CASE32, "0f 01 10", "LGDT 6@ds:[eax]"},
        {CASE64, "0f 01 d0", "XGETBV"},
        {CASE64, "0f 01 38", "INVLPG 0@ds:[rax]"},
        {CASE64, "0f 01 f8", "SWAPGS"},
        {CASE32, "0f 01 f8", "#UD"},
        {CASE64, "0f 05", "SYSCALL"},
        {CASE32, "0f 05", "#UD"},
        {CASE64, "48 0f 07", "SYSRET/8"},
        {CASE64, "f3 0f ae c0", "RDFSBASE eax"},
        {CASE64, "f3 48 0f ae d8", "WRGSBASE rax"},
        {CASE64, "66 0f 38 82 00", "INVPCID rax, 16@ds:[rax]"},
        {CASE64, "66 0f 38 82 c0", "#UD"},
    };

    decode_check(cases, HV_ARRAY_LEN(cases));
}

static void test_legacy_only(void)
{
    static const struct decode_case cases[] = {
        {CASE32, "27", "DAA"},
        {CASE64, "27", "#UD"},
        {CASE32, "63 d8", "ARPL ax, bx"},
        {CASE64, "48 63 d8", "MOVSXD rbx, eax"},
        {CASE64, "63 d8", "MOVSXD ebx, eax"},
        {CASE64, "66 63 18", "MOVSXD bx, 2@ds:[rax]"},
        {CASE32, "62 18", "BOUND ebx, 8@ds:[eax]"},
        /* EVEX is hidden. */
        {CASE32, "62 f1 7c 48 58 c1", "#UD"},
        {CASE64, "62 f1 7c 48 58 c1", "#UD"},
        {CASE32, "82 c0 01", "ADD al, 0x1"},
        {CASE64, "82 c0 01", "#UD"},
        {CASE32, "d6", "SALC"},
        {CASE32, "d4 0a", "AAM 0xa"},
        {CASE32, "c4 18", "LES ebx, 6@ds:[eax]"},
        {CASE16, "c5 18", "LDS bx, 4@ds:[bx+si*1]"},
        {CASE64, "c4 18 00 00 00", "#UD"},
        {CASE64, "0f b2 00", "LSS eax, 6@ds:[rax]"},
        {CASE64, "48 0f b2 00", "LSS rax, 10@ds:[rax]"},
        {CASE64, "0f b2 c0", "#UD"},
    };

    decode_check(cases, HV_ARRAY_LEN(cases));
}

static void test_access(void)
{
    struct soft_insn insn;

    TAP_EQ(soft_decode(SOFT_MODE_64, (const uint8_t[]){0x01, 0x18}, 2, &insn), SOFT_DECODE_OK);
    TAP_EQ(insn.operand[0].access, SOFT_ACCESS_READ | SOFT_ACCESS_WRITE);
    TAP_EQ(insn.operand[1].access, SOFT_ACCESS_READ);
    TAP_EQ(soft_decode(SOFT_MODE_64, (const uint8_t[]){0x89, 0x18}, 2, &insn), SOFT_DECODE_OK);
    TAP_EQ(insn.operand[0].access, SOFT_ACCESS_WRITE);
    TAP_EQ(soft_decode(SOFT_MODE_64, (const uint8_t[]){0x8d, 0x18}, 2, &insn), SOFT_DECODE_OK);
    TAP_EQ(insn.operand[1].access, 0);
    TAP_EQ(insn.operand[1].bytes, 0);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"engine.decode-operand.memory16", test_memory16},
        {"engine.decode-operand.memory32", test_memory32},
        {"engine.decode-operand.memory64", test_memory64},
        {"engine.decode-operand.offsets", test_offsets},
        {"engine.decode-operand.immediates", test_immediates},
        {"engine.decode-operand.branches", test_branches},
        {"engine.decode-operand.stack", test_stack},
        {"engine.decode-operand.system-registers", test_system_registers},
        {"engine.decode-operand.legacy-only", test_legacy_only},
        {"engine.decode-operand.access", test_access},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Random differential test: every encoding that may run as a thunk, with random registers, flags,
 * control words and memory, against the host executing the same bytes unchanged (native.h).
 *
 * Exceptions are compared as well: #GP for alignment, faults of the memory operand, #XM and #MF;
 * whatever raises one must leave registers and memory as they were.
 */
#include "native.h"
#include "thunk-rig.h"

#include "cpu/policy.h"

#include "lib/tap.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW    256u /* bytes of memory compared, around the operand */
#define ROWS_MAX  4096u
#define ST_OFFSET 32u
#define MXCSR     24u
#define XMM       160u
#define YMM       576u

/* How often a row was compared, by form of its operand. */
enum form {
    FORM_REG,
    FORM_MEM,
    FORM_EDGE,  /* memory up to the arena's last byte: a wrong size would show */
    FORM_FAULT, /* beyond it */
    FORMS,
};
static unsigned hits[ROWS_MAX][FORMS];

struct trial {
    uint8_t code[32];
    uint64_t target; /* linear address of the memory operand */
    struct native before, after;
    uint8_t memory_before[WINDOW], memory_after[WINDOW];
};

static struct rig rig;
static struct trial trial;

static uint64_t rng_below(uint64_t bound)
{
    return tap_rng() % bound;
}

static void random_bytes(void *to, size_t bytes)
{
    uint8_t *at = to;

    for (size_t i = 0; i < bytes; i++) {
        at[i] = (uint8_t)(tap_rng() >> 32);
    }
}

/* 16 bytes of what floating-point instructions find interesting, or of anything. */
static void random_vector(uint8_t *to)
{
    static const uint64_t doubles[] = {0x3ff0000000000000, 0xbff8000000000000, 0x7ff0000000000000,
                                       0x7ff8000000000001, 0x7ff0000000000001, 0x0000000000000001,
                                       0x8000000000000000, 0x4059000000000000, 0x7fefffffffffffff,
                                       0x0010000000000000, 0xc1e0000000000000, 0x43e0000000000000};
    static const uint32_t floats[] = {0x3f800000, 0xc0200000, 0x7f800000, 0x7fc00001,
                                      0x7f800001, 0x00000001, 0x80000000, 0x42c80000,
                                      0x7f7fffff, 0x00800000, 0xcf000000, 0x5f000000};

    switch (rng_below(4)) {
    case 0:
        for (unsigned i = 0; i < 2; i++) {
            memcpy(&to[8 * i], &doubles[rng_below(HV_ARRAY_LEN(doubles))], 8);
        }
        break;
    case 1:
        for (unsigned i = 0; i < 4; i++) {
            memcpy(&to[4 * i], &floats[rng_below(HV_ARRAY_LEN(floats))], 4);
        }
        break;
    default:
        random_bytes(to, 16);
        break;
    }
}

static void random_st(uint8_t *to)
{
    static const uint16_t exponents[] = {0x3fff, 0x4000, 0xc001, 0x7fff, 0xffff,
                                         0x0000, 0x0001, 0x403e, 0x7ffe, 0x3c00};
    uint64_t significand = tap_rng() | (UINT64_C(1) << 63);
    uint16_t exponent = exponents[rng_below(HV_ARRAY_LEN(exponents))];

    if (rng_below(4) == 0) {
        significand = UINT64_C(1) << 63;
    }
    if (exponent == 0 && rng_below(2)) {
        significand = rng_below(2) ? 0 : tap_rng() >> 1;
    }
    memcpy(to, &significand, 8);
    memcpy(to + 8, &exponent, 2);
    memset(to + 10, 0, 6);
}

static void random_state(struct native *native, bool unmasked)
{
    uint8_t *x = native->x;
    uint32_t mxcsr = 0x1f80 | (uint32_t)(tap_rng() & 0xe07f);
    uint16_t fcw = (uint16_t)(0x37f ^ (tap_rng() & 0xf00)), fsw;

    memset(native, 0, sizeof(*native));
    random_bytes(native->gpr, sizeof(native->gpr));
    native->rflags = tap_rng() & HV_RFLAGS_ARITH;
    if (unmasked) {
        /* Underflow stays masked: see run_checked(). */
        mxcsr &= ~(uint32_t)(tap_rng() & 0x1780);
        fcw &= (uint16_t) ~(tap_rng() & 0x3f);
    }
    fsw = (uint16_t)(tap_rng() & 0x7f00);
    /* Flags that are set and unmasked are a pending exception: now and then. */
    fsw |= (uint16_t)(tap_rng() & 0x3f) & (rng_below(8) ? fcw : 0x3f);
    if (fsw & ~fcw & 0x3f) {
        fsw |= 0x8080;
    }
    memcpy(&x[0], &fcw, 2);
    memcpy(&x[2], &fsw, 2);
    x[4] = (uint8_t)(rng_below(2) ? 0xff : tap_rng());
    memcpy(&x[MXCSR], &mxcsr, 4);
    for (unsigned i = 0; i < 8; i++) {
        random_st(&x[ST_OFFSET + 16 * i]);
    }
    for (unsigned i = 0; i < 16; i++) {
        random_vector(&x[XMM + 16 * i]);
        random_vector(&x[YMM + 16 * i]);
    }
}

/* ModRM, SIB and displacement with random registers; RSP is no index and RIP no base. */
static uint8_t *random_modrm(uint8_t *at, unsigned ext, bool memory, bool sib)
{
    unsigned rm = sib ? 4 : (unsigned)rng_below(8), mod = memory ? 1 + (unsigned)rng_below(2) : 3;

    *at++ = (uint8_t)(mod << 6 | ext << 3 | rm);
    if (!memory) {
        return at;
    }
    if (rm == 4) {
        *at++ = (uint8_t)tap_rng();
    }
    random_bytes(at, 4);
    if (mod == 2) {
        at[2] = at[3] = at[1] & 0x80 ? 0xff : 0;
    }
    return at + (mod == 1 ? 1 : 4);
}

/* One encoding: prefix, map, opcode, ModRM.reg and form given; the rest random. */
static void make_legacy(unsigned prefix, unsigned map, unsigned opcode, unsigned ext, bool memory)
{
    static const uint8_t prefixes[] = {0, 0x66, 0xf3, 0xf2};
    uint8_t *at = trial.code;

    random_bytes(trial.code, sizeof(trial.code));
    if (memory && rng_below(4) == 0) {
        *at++ = 0xf0;
    }
    if (prefixes[prefix]) {
        *at++ = prefixes[prefix];
    }
    if (rng_below(2)) {
        *at++ = (uint8_t)(0x40 | rng_below(16));
    }
    if (map > 0) {
        *at++ = 0x0f;
    }
    if (map > 1) {
        *at++ = map == 2 ? 0x38 : 0x3a;
    }
    *at++ = (uint8_t)opcode;
    random_modrm(at, ext, memory, false);
}

static void make_vex(unsigned pp, unsigned map, unsigned opcode, unsigned lw, unsigned ext,
                     bool memory, bool no_vvvv)
{
    uint8_t *at = trial.code;
    unsigned vvvv = no_vvvv ? 15 : (unsigned)rng_below(16);

    random_bytes(trial.code, sizeof(trial.code));
    *at++ = 0xc4;
    *at++ = (uint8_t)((tap_rng() & 0xe0) | map);
    *at++ = (uint8_t)((lw & 2 ? 0x80u : 0u) | vvvv << 3 | (lw & 1 ? 4u : 0u) | pp);
    *at++ = (uint8_t)opcode;
    random_modrm(at, ext, memory, map == 2 && opcode >= 0x90 && opcode <= 0x93);
}

/* Point the operand at a place: aligned, not, across a page, or across the arena's end. */
static bool aim(enum form form)
{
    const struct soft_mem *mem = &rig.insn.mem;
    bool vsib = mem->index != SOFT_REG_NONE && trial.code[0] == 0xc4 && trial.code[3] >= 0x90 &&
                trial.code[3] <= 0x93 && (trial.code[1] & 31) == 2;
    uint64_t *gpr = trial.before.gpr;
    unsigned bytes = rig.thunk->memory_bytes ? rig.thunk->memory_bytes : 16;
    uint64_t base;

    trial.target = RIG_BASE + 1024 + rng_below(16) * 64;
    if (rng_below(4) == 0) {
        trial.target += rng_below(64);
    } else if (rng_below(4) == 0) {
        trial.target = RIG_BASE + HV_PAGE_SIZE - 1 - rng_below(bytes);
    }
    if (form == FORM_FAULT) {
        trial.target = RIG_END - rng_below(bytes);
    } else if (form == FORM_EDGE) {
        trial.target = RIG_END - bytes;
    }
    if (rig.thunk->locked) {
        /* No split locks on the host: they are slow, and one that faults may never come back. */
        trial.target = form == FORM_FAULT ? RIG_END : trial.target & ~(uint64_t)(bytes - 1);
    }
    if (rig.insn.flags & SOFT_INSN_STRING_IMPLIED) {
        gpr[HV_REG_RDI] = trial.target;
        return true;
    }
    if (!(rig.insn.flags & SOFT_INSN_MODRM) || rig.insn.modrm >= 0xc0) {
        return true;
    }
    base = trial.target - (uint64_t)mem->disp;
    if (vsib) {
        for (unsigned i = 0; i < 8; i++) {
            int64_t step = (int64_t)rng_below(32) - 16;
            unsigned bytes_each = trial.code[3] & 1 ? 8 : 4, at = i * bytes_each;

            if (at < 32) {
                uint8_t *half = &trial.before.x[at < 16 ? XMM : YMM];
                memcpy(half + 16 * mem->index + at % 16, &step, bytes_each);
            }
        }
    } else if (mem->index != SOFT_REG_NONE) {
        if (mem->index == mem->base) {
            return false;
        }
        gpr[mem->index] = rng_below(64);
        base -= gpr[mem->index] << mem->scale;
    }
    if (mem->base > 15) {
        return false;
    }
    gpr[mem->base] = base;
    return true;
}

static uint8_t *window(void)
{
    uint64_t start = (trial.target - WINDOW / 2) & ~UINT64_C(15);

    return rig_memory(start + WINDOW > RIG_END ? RIG_END - WINDOW : start);
}

static void to_rig(const struct native *native)
{
    memcpy(rig.cpu.slot, native->gpr, sizeof(native->gpr));
    rig.cpu.arith = hv_arith_from_rflags(native->rflags);
    memcpy(rig.cpu.x.bytes, native->x, sizeof(rig.cpu.x.bytes));
}

static bool x_equal(const uint8_t *a, const uint8_t *b)
{
    /* Pointers (6 to 23), MXCSR_MASK and the header are not compared here. */
    return memcmp(a, b, 5) == 0 && memcmp(&a[MXCSR], &b[MXCSR], 4) == 0 &&
           memcmp(&a[ST_OFFSET], &b[ST_OFFSET], XMM + 256 - ST_OFFSET) == 0 &&
           memcmp(&a[YMM], &b[YMM], 256) == 0;
}

static const char *difference(const struct native *want)
{
    static char text[160];
    const uint8_t *x = rig.cpu.x.bytes;

    for (unsigned i = 0; i < 16; i++) {
        if (rig.cpu.slot[i] != want->gpr[i]) {
            snprintf(text, sizeof(text), "register %u is %#llx, want %#llx", i,
                     (unsigned long long)rig.cpu.slot[i], (unsigned long long)want->gpr[i]);
            return text;
        }
    }
    if (hv_arith_to_rflags(rig.cpu.arith) != want->rflags) {
        snprintf(text, sizeof(text), "flags are %#x, want %#llx", hv_arith_to_rflags(rig.cpu.arith),
                 (unsigned long long)want->rflags);
        return text;
    }
    for (unsigned i = 0; i < sizeof(want->x) && !x_equal(x, want->x); i++) {
        if (x[i] != want->x[i] && !(i > 4 && i < MXCSR) && !(i > 27 && i < ST_OFFSET) &&
            !(i >= XMM + 256 && i < YMM)) {
            snprintf(text, sizeof(text), "byte %u of extended state is %#x, want %#x", i, x[i],
                     want->x[i]);
            return text;
        }
    }
    if (memcmp(window(), trial.memory_after, WINDOW) != 0) {
        return "memory differs";
    }
    return NULL;
}

static void complain(const char *what)
{
    char hex[64] = "";

    for (unsigned i = 0; i < rig.insn.length; i++) {
        snprintf(&hex[2 * i], 3, "%02x", trial.code[i]);
    }
    tap_fail(__FILE__, __LINE__, "%s %s at %#llx: %s", hex, soft_isa_row(rig.insn.row)->mnemonic,
             (unsigned long long)trial.target, what);
}

/*
 * After #XM the flag that raised it stands in MXCSR. Beside it silicon may have fewer (an unmasked
 * overflow need not be inexact, the steps of DPPS after the first to raise are not taken): see
 * run_checked().
 */
static const char *judge_mxcsr(void)
{
    uint32_t got, before, host = trial.after.mxcsr;

    memcpy(&got, &rig.cpu.x.bytes[MXCSR], 4);
    memcpy(&before, &trial.before.x[MXCSR], 4);
    memcpy(&trial.before.x[MXCSR], &got, 4);
    if (strstr(soft_isa_row(rig.insn.row)->mnemonic, "DPP")) {
        host &= got; /* a first step without exception may leave flags behind */
    }
    if (((got ^ before) & ~0x3fu) || (host & ~got & 0x3f) || !(got & ~(got >> 7) & 0x3f)) {
        return "MXCSR after #XM is wrong";
    }
    return difference(&trial.before);
}

static const char *judge_fault(int rc)
{
    const struct hv_fault *fault = &rig.vcpu.fault;
    unsigned want;

    switch (trial.after.signal) {
    case SIGSEGV:
        want = trial.after.address ? HV_VECTOR_PF : HV_VECTOR_GP;
        break;
    case SIGFPE:
        want = fault->vector == HV_VECTOR_MF ? HV_VECTOR_MF : HV_VECTOR_XM;
        break;
    default:
        return "the host has no such instruction";
    }
    if (rc != HV_FAULTED || fault->vector != want) {
        static char text[80];

        snprintf(text, sizeof(text), "result %d, vector %u; want vector %u", rc, fault->vector,
                 want);
        return text;
    }
    if (want == HV_VECTOR_PF &&
        fault->cr2 >> HV_PAGE_SHIFT != trial.after.address >> HV_PAGE_SHIFT) {
        return "another page faults";
    }
    if (want == HV_VECTOR_XM) {
        return judge_mxcsr();
    }
    /* The host's own x87 stores across a page are not all or nothing; ours are. */
    memcpy(trial.memory_after, trial.memory_before, WINDOW);
    return difference(&trial.before);
}

/* A pending #MF comes before all faults; the host's page fault for a masked-out MASKMOV may not. */
static bool outcome_is_open(void)
{
    return rig.insn.flags & SOFT_INSN_STRING_IMPLIED && trial.after.signal == SIGSEGV;
}

static void compare(enum form form)
{
    bool gather = rig.thunk->special && rig.thunk->memory_bytes == 0 && form != FORM_REG;
    const char *wrong;
    int rc;

    random_state(&trial.before, rng_below(3) == 0);
    if (!aim(form)) {
        return;
    }
    random_bytes(window(), WINDOW);
    if (rng_below(2)) {
        random_vector(rig_memory((trial.target & ~UINT64_C(15)) - 16));
    }
    memcpy(trial.memory_before, window(), WINDOW);
    trial.after = trial.before;
    native_run(&trial.after, trial.code, rig.insn.length);
    memcpy(trial.memory_after, window(), WINDOW);
    memcpy(window(), trial.memory_before, WINDOW);
    if (outcome_is_open()) {
        return;
    }

    to_rig(&trial.before);
    if (rng_below(2)) {
        rig_fast(&rig);
    } else {
        rig_slow(&rig);
    }
    soft_fpu_enter(&rig.vcpu);
    rc = soft_thunk_run(&rig.vcpu, rig.thunk, trial.target);
    soft_fpu_leave(&rig.vcpu);
    if (trial.after.signal) {
        wrong = gather && rc == HV_FAULTED ? NULL : judge_fault(rc);
    } else {
        wrong = rc != 0 ? "faults, and should not" : difference(&trial.after);
    }
    if (wrong) {
        complain(wrong);
    } else {
        hits[rig.insn.row][form]++;
    }
}

static void try_encoding(enum form form)
{
    int rc = rig_decode(&rig, SOFT_MODE_64, trial.code, SOFT_INSN_MAX);

    if (rc == -ENOSPC && soft_thunks_reset(rig.thunks) == 0) {
        rc = rig_decode(&rig, SOFT_MODE_64, trial.code, SOFT_INSN_MAX);
    }
    if (rc == 0) {
        /* A memory form may have been asked for and none be there, or the reverse. */
        bool memory = rig.thunk->memory_bytes || rig.thunk->special;

        compare(memory ? form : FORM_REG);
    }
}

/* Prefixes, and what begins another map: no opcodes, but they would be taken for some. */
static bool is_opcode(unsigned map, unsigned opcode)
{
    static const uint8_t others[] = {0x0f, 0x26, 0x2e, 0x36, 0x3e, 0x62, 0x64, 0x65,
                                     0x66, 0x67, 0xc4, 0xc5, 0xf0, 0xf2, 0xf3};

    if (map == 1) {
        return opcode != 0x38 && opcode != 0x3a;
    }
    return map > 1 || ((opcode & 0xf0) != 0x40 && !memchr(others, (int)opcode, sizeof(others)));
}

static void test_legacy(void)
{
    for (unsigned map = 0; map <= 3 && !tap_failed(); map++) {
        for (unsigned i = 0; i < 4 * 4 * 256 * 8 && !tap_failed(); i++) {
            unsigned prefix = i & 3, opcode = i >> 2 & 255, ext = i >> 10 & 7;

            for (unsigned form = 0; form < FORMS && is_opcode(map, opcode); form++) {
                make_legacy(prefix, map, opcode, ext, form != FORM_REG);
                try_encoding((enum form)form);
            }
        }
    }
}

/* Register forms of x87 are told apart by all of ModRM. */
static void test_x87(void)
{
    for (unsigned i = 0; i < 8 * 256 * 8 && !tap_failed(); i++) {
        unsigned modrm = i & 255;

        make_legacy(0, 0, 0xd8 | (i >> 8 & 7), modrm >> 3 & 7, modrm < 0xc0);
        if (modrm >= 0xc0) {
            trial.code[0] = (uint8_t)(0xd8 | (i >> 8 & 7));
            trial.code[1] = (uint8_t)modrm;
        }
        try_encoding(modrm & 0x80 ? FORM_MEM : FORM_FAULT);
    }
}

static void test_vex(void)
{
    for (unsigned map = 1; map <= 3 && !tap_failed(); map++) {
        for (unsigned i = 0; i < 4 * 4 * 256 * 8 && !tap_failed(); i++) {
            unsigned pp = i & 3, lw = i >> 2 & 3, opcode = i >> 4 & 255, ext = i >> 12;

            for (unsigned form = 0; form < 2 * FORMS; form++) {
                make_vex(pp, map, opcode, lw, ext, form / 2 != FORM_REG, form & 1);
                try_encoding((enum form)(form / 2));
            }
        }
    }
}

/* Instructions of xstate.c, and the one that is only a hint. */
static bool elsewhere(const char *mnemonic)
{
    static const char *const names[] = {"FLDENV",  "FNSTENV",  "FRSTOR",   "FNSAVE",  "FNINIT",
                                        "FWAIT",   "FXSAVE",   "FXRSTOR",  "LDMXCSR", "STMXCSR",
                                        "EMMS",    "VLDMXCSR", "VSTMXCSR", "FNENI",   "FNDISI",
                                        "FNSETPM", "FNOP8087", "FEMMS"};

    for (size_t i = 0; i < HV_ARRAY_LEN(names); i++) {
        if (strcmp(mnemonic, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Every row that only thunks execute was compared. */
static void test_coverage(void)
{
    const unsigned state = SOFT_ISA_X87 | SOFT_ISA_MMX | SOFT_ISA_SSE | SOFT_ISA_AVX;
    unsigned rows = 0, total = 0;

    for (size_t i = 0; i < soft_isa_rows(); i++) {
        const struct soft_isa_row *row = soft_isa_row((uint16_t)i);
        unsigned sum = 0;

        for (unsigned form = 0; form < FORMS; form++) {
            sum += hits[i][form];
        }

        total += sum;
        rows += sum > 0;
        if ((row->flags & state) && (rig.cpu.policy->features & HV_BIT(row->feature)) &&
            !elsewhere(row->mnemonic) && sum == 0) {
            tap_fail(__FILE__, __LINE__, "row %zu, %s, was never compared", i, row->mnemonic);
        }
        /* No thunk may reach further than the table says: the next page may be anybody's. */
        if (hits[i][FORM_MEM] && !hits[i][FORM_EDGE]) {
            tap_fail(__FILE__, __LINE__, "row %zu, %s, never ended with its page", i,
                     row->mnemonic);
        }
    }
    tap_note("%u comparisons over %u rows", total, rows);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"engine.thunk-random.legacy", test_legacy},
        {"engine.thunk-random.x87", test_x87},
        {"engine.thunk-random.vex", test_vex},
        {"engine.thunk-random.coverage", test_coverage},
    };

    if (!native_available()) {
        puts("1..0 # SKIP The host has no AVX state for the oracle to load.");
        return 0;
    }
    rig_init(&rig);
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

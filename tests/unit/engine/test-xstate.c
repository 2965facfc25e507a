/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Extended state as a whole: images compared with those the host writes and reads from the same
 * registers (native.h), then what the host cannot show: other modes' formats, refusals, initial
 * states, faults half way.
 */
#include "native.h"
#include "thunk-case.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

RIG_CODE(fxsave, "fxsave (%rsi)");
RIG_CODE(fxsave64, "fxsave64 (%rsi)");
RIG_CODE(fxrstor, "fxrstor (%rsi)");
RIG_CODE(fxrstor64, "fxrstor64 (%rsi)");
RIG_CODE(xsave, "xsave (%rsi)");
RIG_CODE(xsave64, "xsave64 (%rsi)");
RIG_CODE(xsaveopt, "xsaveopt (%rsi)");
RIG_CODE(xsavec, "xsavec (%rsi)");
RIG_CODE(xsavec64, "xsavec64 (%rsi)");
RIG_CODE(xsaves, "xsaves (%rsi)");
RIG_CODE(xrstor, "xrstor (%rsi)");
RIG_CODE(xrstor64, "xrstor64 (%rsi)");
RIG_CODE(xrstors, "xrstors (%rsi)");
RIG_CODE(fnstenv, "fnstenv (%rsi)");
RIG_CODE(fnstenv16, ".byte 0x66; fnstenv (%rsi)");
RIG_CODE(fnsave, "fnsave (%rsi)");
RIG_CODE(fnsave16, ".byte 0x66; fnsave (%rsi)");
RIG_CODE(fldenv, "fldenv (%rsi)");
RIG_CODE(fldenv16, ".byte 0x66; fldenv (%rsi)");
RIG_CODE(frstor, "frstor (%rsi)");
RIG_CODE(frstor16, ".byte 0x66; frstor (%rsi)");
RIG_CODE(fninit, "fninit");
RIG_CODE(emms, "emms");
RIG_CODE(xgetbv, "xgetbv");
RIG_CODE(stmxcsr, "stmxcsr (%rsi)");
RIG_CODE(vldmxcsr, "vldmxcsr (%rsi)");
RIG_CODE(fld1, "fld1");

#define CODE(name) name, (size_t)(name##_end - name)

#define AREA       (RIG_BASE + 1024)
#define AREA_MAX   1024u

static uint8_t *area(void)
{
    return rig_memory(AREA);
}

static uint64_t area_get(unsigned offset, unsigned bytes)
{
    return hv_load_le(area() + offset, bytes);
}

static void begin(void)
{
    rig_finish(&rig);
    rig_init(&rig);
    rig.cpu.slot[HV_REG_RSI] = AREA;
    rig.cpu.slot[HV_REG_RAX] = 7;
}

/* Registers as a program may have them: FTW with holes, pointers set, nothing pending. */
static void random_state(uint8_t *x)
{
    for (unsigned i = 0; i < HV_XSTATE_BYTES; i++) {
        x[i] = (uint8_t)(tap_rng() >> 24);
    }
    hv_store_le(&x[FCW], 0x37f ^ (tap_rng() & 0xf00), 2);
    hv_store_le(&x[FSW], tap_rng() & 0x7f3f, 2);
    x[5] = 0;
    hv_store_le(&x[FOP], tap_rng() & 0x7ff, 2);
    hv_store_le(&x[FIP], tap_rng() >> 20, 8);
    hv_store_le(&x[FDP], tap_rng() >> 20, 8);
    hv_store_le(&x[MXCSR], (tap_rng() & 0xffff) | 0x1f80, 4);
    hv_store_le(&x[MXCSR + 4], 0xffff, 4);
    for (unsigned i = 0; i < 8; i++) {
        memset(&x[ST(i) + 10], 0, 6);
        /* All kinds of tags: zero, denormal, special, valid. */
        switch (tap_rng() % 4) {
        case 0:
            memset(&x[ST(i)], 0, 10);
            break;
        case 1:
            memset(&x[ST(i) + 8], 0, 2);
            break;
        default:
            x[ST(i) + 7] |= 0x80;
            break;
        }
    }
    memset(&x[XMM(16)], 0, YMM(0) - XMM(16));
}

static const char *x_difference(const uint8_t *want)
{
    static char text[80];
    const uint8_t *got = rig.cpu.x.bytes;

    for (unsigned i = 0; i < HV_XSTATE_BYTES; i++) {
        bool counts = i < MXCSR + 4 || (i >= ST(0) && i < XMM(16)) || i >= YMM(0);

        if (counts && got[i] != want[i]) {
            snprintf(text, sizeof(text), "byte %u of extended state is %#x, want %#x", i, got[i],
                     want[i]);
            return text;
        }
    }
    return NULL;
}

/*
 * One instruction on both sides, from one state and one memory. @bytes of the area may hold what
 * the host's kernel keeps for itself in wider formats; only they are compared.
 */
static bool same(const char *name, const uint8_t *code, size_t length, const uint8_t *image,
                 uint64_t features)
{
    static struct native native;
    static uint8_t want[AREA_MAX];
    const char *wrong = NULL;
    int rc;

    memset(&native, 0, sizeof(native));
    random_state(native.x);
    native.gpr[HV_REG_RSI] = AREA;
    native.gpr[HV_REG_RAX] = features;
    memcpy(rig.cpu.slot, native.gpr, sizeof(native.gpr));
    memcpy(rig.cpu.x.bytes, native.x, sizeof(native.x));
    memcpy(area(), image, AREA_MAX);
    native_run(&native, code, length);
    memcpy(want, area(), AREA_MAX);
    memcpy(area(), image, AREA_MAX);
    if (tap_rng() & 1) {
        rig_slow(&rig);
    } else {
        rig_fast(&rig);
    }
    rc = rig_run(&rig, code, length);
    if (native.signal) {
        wrong = rc == HV_FAULTED && rig.vcpu.fault.vector == HV_VECTOR_GP ? NULL : "no #GP";
    } else if (rc != 0) {
        wrong = "faults, and should not";
    } else {
        wrong = x_difference(native.x);
    }
    for (unsigned i = 0; i < AREA_MAX && !wrong; i++) {
        if (area()[i] != want[i]) {
            static char text[80];

            snprintf(text, sizeof(text), "byte %u in memory is %#x, want %#x", i, area()[i],
                     want[i]);
            wrong = text;
        }
    }
    if (wrong) {
        tap_fail(__FILE__, __LINE__, "%s: %s", name, wrong);
    }
    return !wrong;
}

static void random_image(uint8_t *image)
{
    for (unsigned i = 0; i < AREA_MAX; i++) {
        image[i] = (uint8_t)(tap_rng() >> 24);
    }
}

#define ROUNDS 200

static void test_stores(void)
{
    uint8_t image[AREA_MAX];

    begin();
    for (unsigned i = 0; i < ROUNDS; i++) {
        random_image(image);
        /* The old XSTATE_BV shows through; it may only say what there is. */
        hv_store_le(&image[HEADER], tap_rng() & 7, 8);
        if (!same("fxsave", CODE(fxsave), image, 0) ||
            !same("fxsave64", CODE(fxsave64), image, 0) ||
            !same("xsave", CODE(xsave), image, tap_rng() & 7) ||
            !same("xsave64", CODE(xsave64), image, tap_rng() & 7) ||
            !same("xsavec", CODE(xsavec), image, tap_rng() & 7) ||
            !same("xsavec64", CODE(xsavec64), image, tap_rng() & 7) ||
            !same("fnstenv", CODE(fnstenv), image, 0) ||
            !same("fnstenv16", CODE(fnstenv16), image, 0) ||
            !same("fnsave", CODE(fnsave), image, 0) ||
            !same("fnsave16", CODE(fnsave16), image, 0) ||
            !same("stmxcsr", CODE(stmxcsr), image, 0) || !same("emms", CODE(emms), image, 0) ||
            !same("fninit", CODE(fninit), image, 0)) {
            return;
        }
    }
}

static void test_loads(void)
{
    uint8_t image[AREA_MAX];

    begin();
    for (unsigned i = 0; i < ROUNDS; i++) {
        random_image(image);
        random_state(image);
        if (!same("fxrstor", CODE(fxrstor), image, 0) ||
            !same("fxrstor64", CODE(fxrstor64), image, 0) ||
            !same("frstor", CODE(frstor), image, 0) || !same("fldenv", CODE(fldenv), image, 0) ||
            !same("frstor16", CODE(frstor16), image, 0) ||
            !same("fldenv16", CODE(fldenv16), image, 0)) {
            return;
        }
        hv_store_le(image, tap_rng() & 0x1ffff, 4);
        if (!same("vldmxcsr", CODE(vldmxcsr), image, 0)) {
            return;
        }
    }
}

/* Headers of both formats, good ones and with one thing wrong. */
static void random_header(uint8_t *header)
{
    uint64_t present = tap_rng() & 7, layout = tap_rng() & 7;

    memset(header, 0, 64);
    hv_store_le(header, present, 8);
    if (tap_rng() & 1) {
        hv_store_le(header, present & layout, 8);
        hv_store_le(header + 8, layout | UINT64_C(1) << 63, 8);
    }
    if (tap_rng() % 4 == 0) {
        static const uint8_t places[] = {0, 1, 7, 8, 9, 15, 16, 23, 24, 40, 63};

        header[places[tap_rng() % sizeof(places)]] ^= (uint8_t)(1u << (tap_rng() & 7));
    }
}

static void test_xrstor(void)
{
    uint8_t image[AREA_MAX];

    begin();
    for (unsigned i = 0; i < 20 * ROUNDS; i++) {
        random_image(image);
        random_state(image);
        random_header(&image[HEADER]);
        if (tap_rng() % 8 == 0) {
            hv_store_le(&image[MXCSR], 0x10000, 4);
        }
        /* Components the host has beyond ours would be legal there. */
        if (image[HEADER] & ~7 || image[HEADER + 1] || image[HEADER + 7] ||
            image[HEADER + 8] & ~7 || image[HEADER + 9] || image[HEADER + 15] & 0x7f) {
            continue;
        }
        if (!same("xrstor", CODE(xrstor), image, tap_rng() & 7) ||
            !same("xrstor64", CODE(xrstor64), image, tap_rng() & 7)) {
            return;
        }
    }
}

/* Components that only a bigger machine has. */
static void test_unknown_components(void)
{
    begin();
    memset(area(), 0, AREA_MAX);
    hv_store_le(area() + HEADER, 8, 8);
    TAP_FAULT(RIG_RUN(&rig, xrstor), HV_VECTOR_GP);
    hv_store_le(area() + HEADER, 0, 8);
    hv_store_le(area() + HEADER + 8, UINT64_C(1) << 63 | 8, 8);
    TAP_FAULT(RIG_RUN(&rig, xrstor), HV_VECTOR_GP);
    hv_store_le(area() + HEADER + 8, 0, 8);
    TAP_EQ(RIG_RUN(&rig, xrstor), 0);
    TAP_FAULT(RIG_RUN(&rig, xrstors), HV_VECTOR_GP); /* not compacted */
    rig.cpu.xcr0 = HV_XCR0_X87 | HV_XCR0_SSE;
    hv_store_le(area() + HEADER, 4, 8);
    TAP_FAULT(RIG_RUN(&rig, xrstor), HV_VECTOR_GP);
}

/* What is in its initial state is left out, and comes back initial. */
static void test_initial(void)
{
    begin();
    memset(area(), 0xaa, AREA_MAX);
    x_set(XMM(3), 4, 1);
    TAP_EQ(RIG_RUN(&rig, xsavec), 0);
    TAP_EQ(area_get(HEADER, 8), HV_XCR0_SSE);
    TAP_EQ(area_get(HEADER + 8, 8), UINT64_C(1) << 63 | 7);
    TAP_EQ(area_get(FCW, 8), 0xaaaaaaaaaaaaaaaa);
    TAP_EQ(area_get(YMM(0), 8), 0xaaaaaaaaaaaaaaaa);
    TAP_EQ(area_get(XMM(3), 4), 1);
    rig.cpu.slot[HV_REG_RCX] = 1;
    TAP_EQ(RIG_RUN(&rig, xgetbv), 0);
    TAP_EQ(rig.cpu.slot[HV_REG_RAX], HV_XCR0_SSE);
    rig.cpu.slot[HV_REG_RAX] = 7;
    rig.cpu.slot[HV_REG_RDX] = 0;
    memset(&rig.cpu.x.bytes[YMM(0)], 1, 256);
    x_set(FCW, 2, 0x27f);
    x_set(ST(2), 8, 5);
    memset(area() + HEADER + 16, 0, 48);
    TAP_EQ(RIG_RUN(&rig, xrstor), 0);
    TAP_EQ(x_get(FCW, 2), 0x37f);
    TAP_EQ(x_get(ST(2), 8) | x_get(YMM(0), 8) | x_get(YMM(15) + 8, 8), 0);
    TAP_EQ(x_get(XMM(3), 4), 1);
    /* XSAVEOPT keeps what it does not cover. */
    memset(area(), 0xaa, AREA_MAX);
    hv_store_le(area() + HEADER, 0, 8);
    rig.cpu.slot[HV_REG_RAX] = HV_XCR0_SSE | HV_XCR0_AVX;
    TAP_EQ(RIG_RUN(&rig, xsaveopt), 0);
    TAP_EQ(area_get(HEADER, 8), HV_XCR0_SSE);
    TAP_EQ(area_get(FCW, 8), 0xaaaaaaaaaaaaaaaa);
    TAP_EQ(area_get(MXCSR, 8), 0xffff00001f80);
    TAP_EQ(area_get(YMM(0), 8), 0xaaaaaaaaaaaaaaaa);
}

static void test_xgetbv(void)
{
    begin();
    rig.cpu.slot[HV_REG_RAX] = rig.cpu.slot[HV_REG_RDX] = UINT64_MAX;
    rig.cpu.slot[HV_REG_RCX] = UINT64_C(0xffffffff00000000);
    TAP_EQ(RIG_RUN(&rig, xgetbv), 0);
    TAP_EQ(rig.cpu.slot[HV_REG_RAX], 7);
    TAP_EQ(rig.cpu.slot[HV_REG_RDX], 0);
    rig.cpu.slot[HV_REG_RCX] = 2;
    TAP_FAULT(RIG_RUN(&rig, xgetbv), HV_VECTOR_GP);
    rig.cpu.cr4 &= ~(uint64_t)HV_CR4_OSXSAVE;
    TAP_FAULT(RIG_RUN(&rig, xgetbv), HV_VECTOR_UD);
}

static void test_refusals(void)
{
    begin();
    rig.cpu.slot[HV_REG_RSI] = AREA + 8;
    TAP_FAULT(RIG_RUN(&rig, fxsave), HV_VECTOR_GP);
    TAP_FAULT(RIG_RUN(&rig, fxrstor), HV_VECTOR_GP);
    rig.cpu.slot[HV_REG_RSI] = AREA + 16;
    TAP_EQ(RIG_RUN(&rig, fxsave), 0);
    TAP_FAULT(RIG_RUN(&rig, xsave), HV_VECTOR_GP);
    TAP_FAULT(RIG_RUN(&rig, xrstor), HV_VECTOR_GP);
    begin();
    rig.cpu.cr0 |= HV_CR0_TS;
    TAP_FAULT(RIG_RUN(&rig, fxsave), HV_VECTOR_NM);
    TAP_FAULT(RIG_RUN(&rig, xsave), HV_VECTOR_NM);
    TAP_FAULT(RIG_RUN(&rig, fnsave), HV_VECTOR_NM);
    TAP_FAULT(RIG_RUN(&rig, fninit), HV_VECTOR_NM);
    TAP_FAULT(RIG_RUN(&rig, vldmxcsr), HV_VECTOR_NM);
    rig.cpu.cr4 &= ~(uint64_t)HV_CR4_OSXSAVE;
    TAP_FAULT(RIG_RUN(&rig, xrstor), HV_VECTOR_UD);
    begin();
    rig.cpu.cpl = 3;
    TAP_FAULT(RIG_RUN(&rig, xsaves), HV_VECTOR_GP);
    TAP_FAULT(RIG_RUN(&rig, xrstors), HV_VECTOR_GP);
    rig.cpu.cpl = 0;
    memset(area(), 0, AREA_MAX);
    TAP_EQ(RIG_RUN(&rig, xsaves), 0);
    TAP_EQ(RIG_RUN(&rig, xrstors), 0);
}

/* Memory refuses: nothing has changed, in particular not what FNSAVE and FNSTENV reset. */
static void test_faults(void)
{
    uint8_t before[HV_XSTATE_BYTES];

    begin();
    random_state(rig.cpu.x.bytes);
    x_set(FCW, 2, 0x340); /* all unmasked, nothing raised */
    x_set(FSW, 2, 0x1800);
    memcpy(before, rig.cpu.x.bytes, sizeof(before));
    rig.cpu.slot[HV_REG_RSI] = RIG_BASE + HV_PAGE_SIZE - 64;
    memset(rig_memory(RIG_BASE + HV_PAGE_SIZE - 64), 0x77, 64);
    rig.page[1] = RIG_PAGE_READ_ONLY;
    rig_fast(&rig);
    TAP_FAULT(RIG_RUN(&rig, fnsave), HV_VECTOR_PF);
    TAP_FAULT(RIG_RUN(&rig, fxsave), HV_VECTOR_PF);
    TAP_FAULT(RIG_RUN(&rig, xsave), HV_VECTOR_PF);
    rig.cpu.slot[HV_REG_RSI] += 40;
    TAP_FAULT(RIG_RUN(&rig, fnstenv), HV_VECTOR_PF);
    rig.page[1] = RIG_PAGE_ABSENT;
    TAP_FAULT(RIG_RUN(&rig, frstor), HV_VECTOR_PF);
    TAP_FAULT(RIG_RUN(&rig, fldenv), HV_VECTOR_PF);
    rig.cpu.slot[HV_REG_RSI] -= 40;
    TAP_FAULT(RIG_RUN(&rig, fxrstor), HV_VECTOR_PF);
    TAP_FAULT(RIG_RUN(&rig, xrstor), HV_VECTOR_PF);
    rig.page[1] = RIG_PAGE_BUSY;
    TAP_EQ(RIG_RUN(&rig, fnsave), -EAGAIN);
    if (x_difference(before)) {
        tap_fail(__FILE__, __LINE__, "%s", x_difference(before));
    }
    for (unsigned i = 0; i < 64; i++) {
        TAP_EQ(*(uint8_t *)rig_memory(RIG_BASE + HV_PAGE_SIZE - 64 + i), 0x77);
    }
}

/* The pointers in the four formats (SDM 1 figures 8-9 to 8-12). */
static void test_formats(void)
{
    begin();
    x_set(FIP, 8, 0x00012345);
    x_set(FDP, 8, 0x00054321);
    x_set(FOP, 2, 0x5f1);
    TAP_EQ(RIG_RUN(&rig, fnstenv), 0);
    TAP_EQ(area_get(0, 4), 0xffff037f);
    TAP_EQ(area_get(8, 4), 0xffffffff);
    TAP_EQ(area_get(12, 4), 0x12345);
    TAP_EQ(area_get(16, 4), 0x5f10000);
    TAP_EQ(area_get(20, 4), 0x54321);
    TAP_EQ(area_get(24, 4), 0xffff0000);
    x_set(FCW, 2, 0x37f);
    TAP_EQ(RIG_RUN(&rig, fnstenv16), 0);
    TAP_EQ(area_get(6, 2), 0x2345);
    TAP_EQ(area_get(10, 2), 0x4321);
    rig.cpu.cr0 &= ~(uint64_t)HV_CR0_PE;
    rig.cpu.seg[HV_SEG_CS].base = 0x30000;
    TAP_EQ(RIG_RUN(&rig, fnstenv), 0);
    TAP_EQ(area_get(12, 4), 0xffff2345);
    TAP_EQ(area_get(16, 4), 0x45f1);
    TAP_EQ(area_get(20, 4), 0xffff4321);
    TAP_EQ(area_get(24, 4), 0x5000);
    TAP_EQ(RIG_RUN(&rig, fnstenv16), 0);
    TAP_EQ(area_get(6, 2), 0x2345);
    TAP_EQ(area_get(8, 2), 0x45f1);
    TAP_EQ(area_get(10, 2), 0x4321);
    TAP_EQ(area_get(12, 2), 0x5000);
    /* And back. */
    x_set(FIP, 8, 0);
    x_set(FOP, 2, 0);
    TAP_EQ(RIG_RUN(&rig, fldenv16), 0);
    TAP_EQ(x_get(FIP, 8), 0x12345);
    TAP_EQ(x_get(FDP, 8), 0x54321);
    TAP_EQ(x_get(FOP, 2), 0x5f1);
}

/* 32-bit code has eight vector registers, and leaves the others alone in both directions. */
static void test_protected32(void)
{
    begin();
    rig.cpu.seg[HV_SEG_CS].attr &= ~(uint32_t)HV_SEG_ATTR_L;
    memset(area(), 0xaa, AREA_MAX);
    memset(&rig.cpu.x.bytes[XMM(0)], 0x11, 256);
    memset(&rig.cpu.x.bytes[YMM(0)], 0x22, 256);
    TAP_EQ(RIG_RUN(&rig, fxsave), 0);
    TAP_EQ(area_get(XMM(7), 8), 0x1111111111111111);
    TAP_EQ(area_get(XMM(8), 8), 0xaaaaaaaaaaaaaaaa);
    TAP_EQ(RIG_RUN(&rig, xsave), 0);
    TAP_EQ(area_get(YMM(7), 8), 0x2222222222222222);
    TAP_EQ(area_get(YMM(8), 8), 0xaaaaaaaaaaaaaaaa);
    memset(area() + XMM(0), 0x33, 256);
    TAP_EQ(RIG_RUN(&rig, fxrstor), 0);
    TAP_EQ(x_get(XMM(7), 1), 0x33);
    TAP_EQ(x_get(XMM(8), 1), 0x11);
    memset(area() + HEADER, 0, 64);
    TAP_EQ(RIG_RUN(&rig, xrstor), 0);
    TAP_EQ(x_get(XMM(7), 1) | x_get(YMM(7), 1), 0);
    TAP_EQ(x_get(XMM(8), 1), 0x11);
    TAP_EQ(x_get(YMM(8), 1), 0x22);
}

/* A state with an exception pending can be loaded and saved; it shows at the next instruction. */
static void test_pending(void)
{
    begin();
    soft_fpu_enter(&rig.vcpu);
    TAP_EQ(RIG_STEP(&rig, fld1), 0);
    TAP_EQ(RIG_STEP(&rig, fnsave), 0);
    TAP_EQ(area_get(4, 2), 0x3800);
    hv_store_le(area(), 0x37e, 2);
    hv_store_le(area() + 4, 0x3801, 2);
    TAP_EQ(RIG_STEP(&rig, frstor), 0);
    TAP_OK(!rig.vcpu.fpu.x87_live);
    TAP_FAULT(RIG_STEP(&rig, fld1), HV_VECTOR_MF);
    TAP_FAULT(RIG_STEP(&rig, frstor), HV_VECTOR_MF);
    TAP_EQ(RIG_STEP(&rig, fxsave64), 0);
    TAP_EQ(area_get(FSW, 2), 0xb881);
    TAP_EQ(RIG_STEP(&rig, fnstenv), 0);
    TAP_EQ(area_get(4, 2), 0xb881);
    TAP_EQ(RIG_STEP(&rig, fld1), 0); /* all is masked now */
    TAP_EQ(RIG_STEP(&rig, fninit), 0);
    TAP_EQ(RIG_STEP(&rig, fld1), 0);
    soft_fpu_leave(&rig.vcpu);
    TAP_EQ(x_get(FTW, 1), 0x80);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"engine.xstate.stores", test_stores},
        {"engine.xstate.loads", test_loads},
        {"engine.xstate.xrstor", test_xrstor},
        {"engine.xstate.unknown-components", test_unknown_components},
        {"engine.xstate.initial", test_initial},
        {"engine.xstate.xgetbv", test_xgetbv},
        {"engine.xstate.refusals", test_refusals},
        {"engine.xstate.faults", test_faults},
        {"engine.xstate.formats", test_formats},
        {"engine.xstate.protected32", test_protected32},
        {"engine.xstate.pending", test_pending},
    };

    if (!native_available()) {
        return rig_skip("The host has no AVX state for the oracle to load.");
    }
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Who may use which state, x87 state that lives in the host, pending and unmasked exceptions. */
#include "thunk-case.h"

#include <errno.h>
#include <string.h>

RIG_CODE(fld1, "fld1");
RIG_CODE(fldz, "fldz");
RIG_CODE(fldpi, "fldpi");
RIG_CODE(fsin, "fsin");
RIG_CODE(fxch, "fxch %st(1)");
RIG_CODE(fadd, "fadd %st(1), %st");
RIG_CODE(fdivp, "fdivrp %st, %st(1)");
RIG_CODE(fstp_m64, "fstpl (%rax)");
RIG_CODE(fst_m32, "fsts (%rax)");
RIG_CODE(fldcw, "fldcw (%rax)");
RIG_CODE(fnstcw, "fnstcw (%rax)");
RIG_CODE(fnstsw, "fnstsw %ax");
RIG_CODE(fnclex, "fnclex");
RIG_CODE(fwait, "fwait");
RIG_CODE(emms, "emms");
RIG_CODE(paddd_mm, "paddd %mm1, %mm2");
RIG_CODE(movd_mm, "movd %eax, %mm3");
RIG_CODE(pshufb_mm, "pshufb %mm1, %mm2");
RIG_CODE(addps, "addps %xmm2, %xmm1");
RIG_CODE(divps, "divps %xmm2, %xmm1");
RIG_CODE(divps_mem, "divps (%rax), %xmm1");
RIG_CODE(vdivps, "vdivps %xmm2, %xmm1, %xmm3");
RIG_CODE(vdivps_y, "vdivps %ymm2, %ymm1, %ymm3");
RIG_CODE(vcvtps2ph, "vcvtps2ph $4, %xmm1, (%rax)");
RIG_CODE(cvtpi2ps, "cvtpi2ps %mm1, %xmm1");
RIG_CODE(cvttsd2si, "cvttsd2si (%rax), %ecx");
RIG_CODE(stmxcsr, "stmxcsr (%rax)");
RIG_CODE(ldmxcsr, "ldmxcsr (%rax)");
RIG_CODE(popcnt, "popcnt %rbx, %rcx");
RIG_CODE(andn, "andn %rbx, %rcx, %rdx");

static void fill_floats(unsigned reg, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++) {
        x_set(XMM(reg) + 4 * i, 4, value);
    }
}

static void set_memory(uint64_t value)
{
    memcpy(rig_memory(RIG_BASE), &value, sizeof(value));
}

static uint64_t memory(unsigned bytes)
{
    return hv_load_le(rig_memory(RIG_BASE), bytes);
}

static void begin(void)
{
    rig_finish(&rig);
    rig_init(&rig);
    rig.cpu.slot[HV_REG_RAX] = RIG_BASE;
    set_memory(0);
}

static void test_ts(void)
{
    begin();
    rig.cpu.cr0 |= HV_CR0_TS;
    TAP_FAULT(RIG_RUN(&rig, fld1), HV_VECTOR_NM);
    TAP_FAULT(RIG_RUN(&rig, paddd_mm), HV_VECTOR_NM);
    TAP_FAULT(RIG_RUN(&rig, addps), HV_VECTOR_NM);
    TAP_FAULT(RIG_RUN(&rig, vdivps), HV_VECTOR_NM);
    TAP_FAULT(RIG_RUN(&rig, cvttsd2si), HV_VECTOR_NM);
    TAP_FAULT(RIG_RUN(&rig, fwait), HV_VECTOR_NM);
    TAP_EQ(RIG_RUN(&rig, popcnt), 0);
    TAP_EQ(RIG_RUN(&rig, andn), 0);
    rig.cpu.cr0 &= ~(uint64_t)HV_CR0_MP;
    TAP_EQ(RIG_RUN(&rig, fwait), 0);
    TAP_EQ(x_get(FTW, 1), 0);
}

static void test_em(void)
{
    begin();
    rig.cpu.cr0 |= HV_CR0_EM;
    TAP_FAULT(RIG_RUN(&rig, fld1), HV_VECTOR_NM);
    TAP_FAULT(RIG_RUN(&rig, paddd_mm), HV_VECTOR_UD);
    TAP_FAULT(RIG_RUN(&rig, emms), HV_VECTOR_UD);
    TAP_FAULT(RIG_RUN(&rig, addps), HV_VECTOR_UD);
    TAP_EQ(RIG_RUN(&rig, vdivps), 0);
    /* #UD is found before #NM. */
    rig.cpu.cr0 |= HV_CR0_TS;
    TAP_FAULT(RIG_RUN(&rig, addps), HV_VECTOR_UD);
}

static void test_not_enabled(void)
{
    begin();
    rig.cpu.cr4 &= ~(uint64_t)HV_CR4_OSFXSR;
    TAP_FAULT(RIG_RUN(&rig, addps), HV_VECTOR_UD);
    TAP_FAULT(RIG_RUN(&rig, ldmxcsr), HV_VECTOR_UD);
    TAP_EQ(RIG_RUN(&rig, pshufb_mm), 0);
    TAP_EQ(RIG_RUN(&rig, vdivps), 0);
    begin();
    rig.cpu.cr4 &= ~(uint64_t)HV_CR4_OSXSAVE;
    TAP_FAULT(RIG_RUN(&rig, vdivps), HV_VECTOR_UD);
    begin();
    rig.cpu.xcr0 = HV_XCR0_X87 | HV_XCR0_SSE;
    TAP_FAULT(RIG_RUN(&rig, vdivps), HV_VECTOR_UD);
    TAP_EQ(RIG_RUN(&rig, andn), 0);
    TAP_EQ(RIG_RUN(&rig, addps), 0);
    begin();
    rig.cpu.cr0 &= ~(uint64_t)HV_CR0_PE;
    TAP_FAULT(RIG_RUN(&rig, vdivps), HV_VECTOR_UD);
    TAP_FAULT(RIG_RUN(&rig, andn), HV_VECTOR_UD);
    TAP_EQ(RIG_RUN(&rig, addps), 0);
}

/* The state stays in the host from one instruction to the next, and comes out when asked. */
static void test_live(void)
{
    begin();
    soft_fpu_enter(&rig.vcpu);
    TAP_EQ(RIG_STEP(&rig, fld1), 0);
    TAP_OK(rig.vcpu.fpu.x87_live);
    TAP_EQ(x_get(FTW, 1), 0);
    TAP_EQ(RIG_STEP(&rig, addps), 0);
    TAP_EQ(RIG_STEP(&rig, popcnt), 0);
    TAP_OK(rig.vcpu.fpu.x87_live);
    TAP_EQ(RIG_STEP(&rig, fldpi), 0);
    soft_fpu_spill(&rig.vcpu);
    TAP_OK(!rig.vcpu.fpu.x87_live);
    TAP_EQ(x_get(FTW, 1), 0xc0);
    TAP_EQ(x_get(ST(0) + 8, 2), 0x4000);
    TAP_EQ(x_get(ST(1) + 8, 2), 0x3fff);
    soft_fpu_spill(&rig.vcpu);
    TAP_EQ(RIG_STEP(&rig, fadd), 0);
    soft_fpu_leave(&rig.vcpu);
    TAP_EQ(x_get(ST(0) + 8, 2), 0x4001); /* pi + 1 */
}

/* The host gets back what it had, and runs x87 code of its own undisturbed. */
static void test_host_kept(void)
{
    const uint32_t host_mxcsr = 0x7fa0; /* round to zero, precision flag */
    const uint16_t host_fcw = 0x0c7f;
    uint32_t mxcsr;
    uint16_t fcw, status;

    begin();
    x_set(MXCSR, 4, 0x3f80);
    x_set(FCW, 2, 0x077f);
    __asm__ volatile("ldmxcsr %0; fldcw %1" : : "m"(host_mxcsr), "m"(host_fcw));
    (void)RIG_RUN(&rig, fldpi);
    (void)RIG_RUN(&rig, fsin);
    __asm__ volatile("stmxcsr %0; fnstcw %1; fnstsw %2" : "=m"(mxcsr), "=m"(fcw), "=m"(status));
    __asm__ volatile("fninit; ldmxcsr %0" : : "m"((const uint32_t){0x1f80}));
    TAP_EQ(mxcsr, host_mxcsr);
    TAP_EQ(fcw, host_fcw);
    TAP_EQ(status, 0);
    TAP_EQ(x_get(FCW, 2), 0x077f);
}

static void test_sequence(void)
{
    double want;

    begin();
    soft_fpu_enter(&rig.vcpu);
    TAP_EQ(RIG_STEP(&rig, fldpi), 0);
    TAP_EQ(RIG_STEP(&rig, fsin), 0);
    TAP_EQ(RIG_STEP(&rig, fld1), 0);
    TAP_EQ(RIG_STEP(&rig, fxch), 0);
    TAP_EQ(RIG_STEP(&rig, fadd), 0);
    TAP_EQ(RIG_STEP(&rig, fstp_m64), 0);
    soft_fpu_leave(&rig.vcpu);
    __asm__ volatile("fldpi; fsin; fld1; fxch %%st(1); fadd %%st(1), %%st; fstpl %0; fstp %%st"
                     : "=m"(want));
    TAP_EQ(memory(8), hv_load_le(&want, 8));
    TAP_EQ(x_get(FTW, 1), 0x80);
}

static void test_mmx(void)
{
    begin();
    x_set(FSW, 2, 5u << 11);
    x_set(ST(1), 8, 0x0000000100000002);
    x_set(ST(2), 8, 0x0000001000000020);
    rig.cpu.slot[HV_REG_RAX] = 0x12345678;
    TAP_EQ(RIG_RUN(&rig, movd_mm), 0);
    /* TOP is 0 and everything valid; MM3 was physical register 3 before, too. */
    TAP_EQ(x_get(FSW, 2), 0);
    TAP_EQ(x_get(FTW, 1), 0xff);
    TAP_EQ(x_get(ST(3), 8), 0x12345678);
    TAP_EQ(x_get(ST(3) + 8, 2), 0xffff);
    TAP_EQ(RIG_RUN(&rig, emms), 0);
    TAP_EQ(x_get(FTW, 1), 0);
    TAP_EQ(x_get(ST(3), 8), 0x12345678);
}

/* 1 / 0 with #Z unmasked: the state comes out, and the next waiting instruction says #MF. */
static void divide_by_zero(void)
{
    set_memory(0x037b);
    (void)RIG_STEP(&rig, fldcw);
    (void)RIG_STEP(&rig, fld1);
    (void)RIG_STEP(&rig, fldz);
    rig.cpu.rip = 0x401000;
    (void)RIG_STEP(&rig, fdivp);
    rig.cpu.rip = 0x401002;
}

static void test_mf(void)
{
    begin();
    soft_fpu_enter(&rig.vcpu);
    divide_by_zero();
    TAP_OK(!rig.vcpu.fpu.x87_live);
    TAP_EQ(x_get(FSW, 2) & 0x80ff, 0x8084);
    TAP_EQ(x_get(FTW, 1), 0xc0); /* nothing was popped */
    TAP_EQ(x_get(FIP, 8), 0x401000);
    TAP_EQ(x_get(FOP, 2), 0x6f9);
    TAP_EQ(x_get(FDP, 8), 0);
    TAP_FAULT(RIG_STEP(&rig, fld1), HV_VECTOR_MF);
    TAP_FAULT(RIG_STEP(&rig, fwait), HV_VECTOR_MF);
    TAP_FAULT(RIG_STEP(&rig, paddd_mm), HV_VECTOR_MF);
    TAP_FAULT(RIG_STEP(&rig, emms), HV_VECTOR_MF);
    TAP_FAULT(RIG_STEP(&rig, cvtpi2ps), HV_VECTOR_MF);
    TAP_FAULT(RIG_STEP(&rig, fldcw), HV_VECTOR_MF);
    rig_slow(&rig);
    TAP_FAULT(RIG_STEP(&rig, fst_m32), HV_VECTOR_MF);
    TAP_EQ(rig.slow_writes, 0);
    TAP_EQ(RIG_STEP(&rig, addps), 0);
    /* Those that do not wait. */
    TAP_EQ(RIG_STEP(&rig, fnstsw), 0);
    TAP_EQ(rig.cpu.slot[HV_REG_RAX] & 0x80ff, 0x8084);
    rig.cpu.slot[HV_REG_RAX] = RIG_BASE;
    TAP_EQ(RIG_STEP(&rig, fnstcw), 0);
    TAP_EQ(memory(2), 0x037b);
    TAP_OK(!rig.vcpu.fpu.x87_live);
    TAP_EQ(RIG_STEP(&rig, fnclex), 0);
    TAP_EQ(RIG_STEP(&rig, fld1), 0);
    soft_fpu_leave(&rig.vcpu);
    TAP_EQ(x_get(FSW, 2) & 0x80ff, 0);
    TAP_EQ(x_get(FTW, 1), 0xe0);
}

/* Unmasking a flag that is set already makes it pending at once. */
static void test_mf_by_fldcw(void)
{
    begin();
    soft_fpu_enter(&rig.vcpu);
    TAP_EQ(RIG_STEP(&rig, fld1), 0);
    TAP_EQ(RIG_STEP(&rig, fldz), 0);
    TAP_EQ(RIG_STEP(&rig, fdivp), 0);
    TAP_OK(rig.vcpu.fpu.x87_live);
    set_memory(0x037b);
    rig.cpu.rip = 0x1234;
    TAP_EQ(RIG_STEP(&rig, fldcw), 0);
    TAP_OK(!rig.vcpu.fpu.x87_live);
    TAP_FAULT(RIG_STEP(&rig, fld1), HV_VECTOR_MF);
    soft_fpu_leave(&rig.vcpu);
    TAP_EQ(x_get(FIP, 8), 0); /* a control instruction does not count */
}

/* An unmasked overflow keeps the store from memory, through the TLB and beside it. */
static void test_store_suppressed(void)
{
    for (unsigned slow = 0; slow < 2; slow++) {
        begin();
        x_set(FCW, 2, 0x0377);
        x_set(FTW, 1, 0xff);
        x_set(ST(0), 8, UINT64_C(1) << 63);
        x_set(ST(0) + 8, 2, 0x5000);
        set_memory(0x55667788);
        if (slow) {
            rig_slow(&rig);
        }
        TAP_EQ(RIG_RUN(&rig, fst_m32), 0);
        TAP_EQ(x_get(FSW, 2) & 0x80ff, 0x8088);
        TAP_EQ(memory(4), 0x55667788);
        TAP_EQ(x_get(FDP, 8), RIG_BASE);
        TAP_EQ(rig.slow_writes, 0);
    }
}

static void test_sticky(void)
{
    begin();
    fill_floats(1, 0x3f800000);
    fill_floats(2, 0);
    soft_fpu_enter(&rig.vcpu);
    TAP_EQ(RIG_STEP(&rig, divps), 0);
    TAP_EQ(RIG_STEP(&rig, stmxcsr), 0);
    TAP_EQ(memory(4), 0x1f84);
    fill_floats(1, 0x3f800000);
    fill_floats(2, 0x40400000);
    TAP_EQ(RIG_STEP(&rig, divps), 0);
    TAP_EQ(RIG_STEP(&rig, stmxcsr), 0);
    TAP_EQ(memory(4), 0x1fa4);
    set_memory(0x5f80);
    TAP_EQ(RIG_STEP(&rig, ldmxcsr), 0); /* round up, flags cleared */
    fill_floats(1, 0x3f800000);
    TAP_EQ(RIG_STEP(&rig, divps), 0);
    soft_fpu_leave(&rig.vcpu);
    TAP_EQ(x_get(MXCSR, 4), 0x5fa0);
    TAP_EQ(x_get(XMM(1), 4), 0x3eaaaaab);
    set_memory(0x10000);
    TAP_FAULT(RIG_RUN(&rig, ldmxcsr), HV_VECTOR_GP);
    TAP_EQ(x_get(MXCSR, 4), 0x5fa0);
}

static void test_xm(void)
{
    begin();
    x_set(MXCSR, 4, 0x1da0); /* #Z unmasked, precision flag */
    fill_floats(1, 0x3f800000);
    fill_floats(2, 0);
    fill_floats(3, 0x12345678);
    TAP_FAULT(RIG_RUN(&rig, divps), HV_VECTOR_XM);
    TAP_EQ(x_get(XMM(1), 4), 0x3f800000);
    TAP_EQ(x_get(MXCSR, 4), 0x1da4);
    x_set(MXCSR, 4, 0x1d80);
    TAP_FAULT(RIG_RUN(&rig, divps_mem), HV_VECTOR_XM);
    TAP_FAULT(RIG_RUN(&rig, vdivps), HV_VECTOR_XM);
    TAP_FAULT(RIG_RUN(&rig, vdivps_y), HV_VECTOR_XM);
    TAP_EQ(x_get(XMM(3), 4), 0x12345678);
    rig.cpu.cr4 &= ~(uint64_t)HV_CR4_OSXMMEXCPT;
    TAP_FAULT(RIG_RUN(&rig, divps), HV_VECTOR_UD);
    /* What is raised and masked is only noted; a flag that stood there raises again. */
    rig.cpu.cr4 |= HV_CR4_OSXMMEXCPT;
    x_set(MXCSR, 4, 0x1d84);
    fill_floats(2, 0x40400000);
    TAP_EQ(RIG_RUN(&rig, divps), 0);
    TAP_EQ(x_get(MXCSR, 4), 0x1da4);
    fill_floats(2, 0);
    TAP_FAULT(RIG_RUN(&rig, divps), HV_VECTOR_XM);
}

/* An exception of a store leaves memory alone; a fault of its memory leaves MXCSR alone. */
static void test_xm_store(void)
{
    begin();
    x_set(MXCSR, 4, 0x1b80); /* #O unmasked */
    fill_floats(1, 0x7f000000);
    set_memory(0x1122334455667788);
    TAP_FAULT(RIG_RUN(&rig, vcvtps2ph), HV_VECTOR_XM);
    TAP_EQ(memory(8), 0x1122334455667788);
    x_set(MXCSR, 4, 0x1f80);
    rig.page[0] = RIG_PAGE_READ_ONLY;
    rig_fast(&rig);
    TAP_FAULT(RIG_RUN(&rig, vcvtps2ph), HV_VECTOR_PF);
    TAP_EQ(x_get(MXCSR, 4), 0x1f80);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"engine.thunk-fp.ts", test_ts},
        {"engine.thunk-fp.em", test_em},
        {"engine.thunk-fp.not-enabled", test_not_enabled},
        {"engine.thunk-fp.live", test_live},
        {"engine.thunk-fp.host-kept", test_host_kept},
        {"engine.thunk-fp.sequence", test_sequence},
        {"engine.thunk-fp.mmx", test_mmx},
        {"engine.thunk-fp.mf", test_mf},
        {"engine.thunk-fp.mf-by-fldcw", test_mf_by_fldcw},
        {"engine.thunk-fp.store-suppressed", test_store_suppressed},
        {"engine.thunk-fp.sticky", test_sticky},
        {"engine.thunk-fp.xm", test_xm},
        {"engine.thunk-fp.xm-store", test_xm_store},
    };

    if (!rig_host_has_avx()) {
        return rig_skip("The host has no AVX.");
    }
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* RESET, INIT, start-up IPI, and the two representations of the flags. */
#include "cpu/state.h"

#include "unit/cpu/flat-check.h"

static void test_reset(void)
{
    machine_start(MACHINE_LONG);
    memset(&cpu.x, 0xff, sizeof(cpu.x));
    hv_cpu_reset(&cpu, true);
    TAP_EQ(cpu.rip, 0xfff0);
    TAP_EQ(cpu.seg[HV_SEG_CS].selector, 0xf000);
    TAP_EQ(cpu.slot[HV_SLOT_SEG_BASE + HV_SEG_CS], 0xffff0000);
    TAP_EQ(cpu.cr0, 0x60000010);
    TAP_EQ(cpu.cr4 | cpu.cr3 | cpu.cr2 | cpu.efer, 0);
    TAP_EQ(hv_cpu_rflags(&cpu), HV_RFLAGS_FIXED);
    TAP_EQ(cpu.slot[HV_REG_RDX], machine_policy.signature);
    TAP_EQ(cpu.dr[6], 0xffff0ff0);
    TAP_EQ(cpu.dr[7], 0x400);
    TAP_EQ(cpu.gdtr.limit, 0xffff);
    TAP_EQ(cpu.xcr0, 1);
    TAP_EQ(cpu.msr.pat, UINT64_C(0x0007040600070406));
    TAP_EQ(cpu.msr.apic_base, 0xfee00900);
    TAP_EQ(hv_load_le(cpu.x.bytes, 2), 0x40);
    TAP_EQ(hv_load_le(cpu.x.bytes + 24, 4), 0x1f80);
    TAP_EQ(cpu.activity, HV_ACTIVITY_RUNNING);
    TAP_OK(machine_consistent());
    hv_cpu_reset(&cpu, false);
    TAP_EQ(cpu.msr.apic_base, 0xfee00800);
    TAP_EQ(cpu.activity, HV_ACTIVITY_WAIT_SIPI);
}

static void test_init_keeps(void)
{
    machine_start(MACHINE_LONG);
    cpu.msr.tsc_offset = 77;
    cpu.msr.mtrr_def_type = 0xc06;
    cpu.xcr0 = 3;
    cpu.nmi_blocked = true;
    memset(&cpu.x, 0x5a, 400);
    hv_cpu_take_init(&cpu);
    TAP_EQ(cpu.rip, 0xfff0);
    TAP_EQ(cpu.cr0, HV_CR0_ET); /* CD and NW were clear and stay so */
    TAP_EQ(cpu.efer, 0);
    TAP_OK(!cpu.nmi_blocked);
    TAP_EQ((uint64_t)cpu.msr.tsc_offset, 77);
    TAP_EQ(cpu.msr.mtrr_def_type, 0xc06);
    TAP_EQ(cpu.xcr0, 3);
    TAP_EQ(cpu.x.bytes[399], 0x5a);
    TAP_EQ(cpu.activity, HV_ACTIVITY_RUNNING); /* the bootstrap processor */
    TAP_OK(machine_consistent());
}

static void test_sipi(void)
{
    machine_start(MACHINE_REAL);
    hv_cpu_reset(&cpu, false);
    hv_cpu_take_sipi(&cpu, 0x9a);
    TAP_EQ(cpu.rip, 0);
    TAP_EQ(cpu.seg[HV_SEG_CS].selector, 0x9a00);
    TAP_EQ(cpu.slot[HV_SLOT_SEG_BASE + HV_SEG_CS], 0x9a000);
    TAP_EQ(cpu.activity, HV_ACTIVITY_RUNNING);
    cpu.rip = 5;
    hv_cpu_take_sipi(&cpu, 0x10); /* nobody waits for it */
    TAP_EQ(cpu.rip, 5);
}

static void test_flags(void)
{
    machine_start(MACHINE_REAL);
    for (unsigned i = 0; i < 5000; i++) {
        uint64_t flags = tap_rng();

        hv_cpu_set_rflags(&cpu, flags);
        TAP_EQ(hv_cpu_rflags(&cpu), (flags & HV_RFLAGS_ALL) | HV_RFLAGS_FIXED);
        TAP_EQ(cpu.rflags & HV_RFLAGS_ARITH, 0);
    }
    TAP_OK(hv_canonical(UINT64_C(0x00007fffffffffff)) &&
           hv_canonical(UINT64_C(0xffff800000000000)));
    TAP_OK(!hv_canonical(UINT64_C(0x0000800000000000)) &&
           !hv_canonical(UINT64_C(0xffff7fffffffffff)));
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"cpu.state.reset", test_reset},
        {"cpu.state.init-keeps", test_init_keeps},
        {"cpu.state.sipi", test_sipi},
        {"cpu.state.flags", test_flags},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* SYSCALL, SYSRET, SYSENTER, SYSEXIT: round trips and refusals. */
#include "cpu/transfer.h"

#include "cpu/event.h"
#include "unit/cpu/flat-check.h"

static void start_syscall(void)
{
    machine_start(MACHINE_LONG);
    machine_ring(3, true);
    cpu.msr.star = (uint64_t)0x1b << 48 | (uint64_t)0x28 << 32;
    cpu.msr.lstar = UINT64_C(0xffffffff81000080);
    cpu.msr.fmask = HV_RFLAGS_IF | HV_RFLAGS_TF | HV_RFLAGS_DF;
    hv_cpu_set_rflags(&cpu, HV_RFLAGS_IF | HV_RFLAGS_ZF | HV_RFLAGS_RF);
}

static void test_syscall(void)
{
    start_syscall();
    TAP_EQ(hv_transfer_syscall(&cpu, 0x8002, &fault), 0);
    TAP_EQ(cpu.rip, UINT64_C(0xffffffff81000080));
    TAP_EQ(cpu.cpl, 0);
    TAP_EQ(cpu.slot[HV_REG_RCX], 0x8002);
    TAP_EQ(cpu.slot[HV_REG_R11], HV_RFLAGS_IF | HV_RFLAGS_ZF | HV_RFLAGS_FIXED);
    TAP_EQ(hv_cpu_rflags(&cpu), HV_RFLAGS_ZF | HV_RFLAGS_FIXED);
    TAP_EQ(cpu.seg[HV_SEG_CS].selector, 0x28);
    TAP_EQ(cpu.seg[HV_SEG_CS].attr, 0xa09b);
    TAP_EQ(cpu.seg[HV_SEG_SS].selector, 0x30);
    TAP_EQ(cpu.seg[HV_SEG_SS].attr, 0xc093);
    TAP_OK(machine_consistent());

    TAP_EQ(hv_transfer_sysret(&cpu, 8, &fault), 0);
    TAP_EQ(cpu.rip, 0x8002);
    TAP_EQ(cpu.cpl, 3);
    TAP_EQ(cpu.seg[HV_SEG_CS].selector, 0x2b);
    TAP_EQ(cpu.seg[HV_SEG_CS].attr, 0xa0fb);
    TAP_EQ(cpu.seg[HV_SEG_SS].selector, 0x23);
    TAP_EQ(cpu.seg[HV_SEG_SS].attr, 0xc0f3);
    TAP_EQ(hv_cpu_rflags(&cpu), HV_RFLAGS_IF | HV_RFLAGS_ZF | HV_RFLAGS_FIXED);

    machine_ring(0, true);
    cpu.slot[HV_REG_RCX] = UINT64_C(0xabcd00008002);
    cpu.slot[HV_REG_R11] = UINT64_MAX;
    TAP_EQ(hv_transfer_sysret(&cpu, 4, &fault), 0);
    TAP_EQ(cpu.rip, 0x8002);
    TAP_OK(!hv_cpu_code64(&cpu));
    TAP_EQ(cpu.seg[HV_SEG_CS].selector, 0x1b);
    TAP_EQ(cpu.seg[HV_SEG_CS].attr, 0xc0fb);
    TAP_EQ(hv_cpu_rflags(&cpu), 0x3c7fd7);
    TAP_OK(machine_consistent());
}

static void test_syscall_refusals(void)
{
    start_syscall();
    cpu.efer &= ~(uint64_t)HV_EFER_SCE;
    snapshot();
    TAP_EQ(hv_transfer_syscall(&cpu, 0, &fault), HV_FAULTED);
    TAP_EQ(fault.vector, HV_VECTOR_UD);
    TAP_EQ(hv_transfer_sysret(&cpu, 8, &fault), HV_FAULTED);
    TAP_EQ(fault.vector, HV_VECTOR_UD);
    TAP_OK(unchanged());
    start_syscall();
    TAP_OK(faulted(hv_transfer_sysret(&cpu, 8, &fault), HV_VECTOR_GP, 0)); /* CPL 3 */
    machine_ring(3, false);
    TAP_EQ(hv_transfer_syscall(&cpu, 0, &fault), HV_FAULTED); /* compatibility mode */
    TAP_EQ(fault.vector, HV_VECTOR_UD);
    machine_ring(0, true);
    cpu.slot[HV_REG_RCX] = UINT64_C(0x800000000000);
    snapshot();
    TAP_OK(faulted(hv_transfer_sysret(&cpu, 8, &fault), HV_VECTOR_GP, 0));
    TAP_OK(unchanged());
}

static void test_sysenter(void)
{
    for (unsigned mode = MACHINE_PROTECTED; mode <= MACHINE_LONG; mode++) {
        bool wide = mode == MACHINE_LONG;

        machine_start((enum machine_mode)mode);
        machine_ring(3, false);
        cpu.rflags |= HV_RFLAGS_IF;
        TAP_OK(faulted(hv_transfer_sysenter(&cpu, &fault), HV_VECTOR_GP, 0));
        cpu.msr.sysenter_cs = 0x103;
        cpu.msr.sysenter_esp = UINT64_C(0xffff888000001000);
        cpu.msr.sysenter_eip = UINT64_C(0xffffffff81001000);
        TAP_EQ(hv_transfer_sysenter(&cpu, &fault), 0);
        TAP_EQ(cpu.rip, wide ? UINT64_C(0xffffffff81001000) : 0x81001000);
        TAP_EQ(cpu.slot[HV_REG_RSP], wide ? UINT64_C(0xffff888000001000) : 0x1000);
        TAP_EQ(cpu.seg[HV_SEG_CS].selector, 0x100);
        TAP_EQ(cpu.seg[HV_SEG_CS].attr, wide ? 0xa09b : 0xc09b);
        TAP_EQ(cpu.seg[HV_SEG_SS].selector, 0x108);
        TAP_EQ(cpu.cpl, 0);
        TAP_EQ(cpu.rflags & HV_RFLAGS_IF, 0);
        TAP_OK(machine_consistent());

        cpu.slot[HV_REG_RCX] = 0x27000;
        cpu.slot[HV_REG_RDX] = UINT64_C(0x800000008000);
        if (wide) {
            snapshot();
            TAP_OK(faulted(hv_transfer_sysexit(&cpu, 8, &fault), HV_VECTOR_GP, 0));
            TAP_OK(unchanged());
            cpu.slot[HV_REG_RDX] = 0x8000;
            TAP_EQ(hv_transfer_sysexit(&cpu, 8, &fault), 0);
            TAP_EQ(cpu.seg[HV_SEG_CS].selector, 0x123);
            TAP_EQ(cpu.seg[HV_SEG_SS].selector, 0x12b);
            TAP_OK(hv_cpu_code64(&cpu));
        } else {
            TAP_EQ(hv_transfer_sysexit(&cpu, 4, &fault), 0);
            TAP_EQ(cpu.seg[HV_SEG_CS].selector, 0x113);
            TAP_EQ(cpu.seg[HV_SEG_SS].selector, 0x11b);
        }
        TAP_EQ(cpu.rip, 0x8000);
        TAP_EQ(cpu.slot[HV_REG_RSP], 0x27000);
        TAP_EQ(cpu.cpl, 3);
        TAP_OK(machine_consistent());
        TAP_OK(faulted(hv_transfer_sysexit(&cpu, 4, &fault), HV_VECTOR_GP, 0)); /* CPL 3 */
    }
    machine_start(MACHINE_REAL);
    cpu.msr.sysenter_cs = 0x100;
    TAP_OK(faulted(hv_transfer_sysenter(&cpu, &fault), HV_VECTOR_GP, 0));
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"cpu.syscall.syscall", test_syscall},
        {"cpu.syscall.syscall-refusals", test_syscall_refusals},
        {"cpu.syscall.sysenter", test_sysenter},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* x2APIC: the MSRs, what they refuse, and messages with 32-bit destinations. */
#include "platform/lapic.h"

#include <errno.h>

#include "cpu/state.h"
#include "lib/tap.h"
#include "unit/platform/rig-irq.h"

static struct rig *start(void)
{
    struct rig *rig = rig_new();

    for (unsigned i = 0; i < RIG_VCPUS; i++) {
        rig_apic_enable(rig, i);
        if (hv_platform_msr_write(&rig->platform, i, 0x1b, i == 0 ? 0xfee00d00 : 0xfee00c00) != 0) {
            tap_fail(__FILE__, __LINE__, "vCPU %u cannot enter x2APIC mode", i);
        }
    }
    return rig;
}

static uint64_t rdmsr(struct rig *rig, unsigned vcpu, uint32_t index)
{
    uint64_t value = 0;

    return hv_platform_msr_read(&rig->platform, vcpu, index, &value) == 0 ? value
                                                                          : 0xdeaddeaddeaddead;
}

static int wrmsr(struct rig *rig, unsigned vcpu, uint32_t index, uint64_t value)
{
    return hv_platform_msr_write(&rig->platform, vcpu, index, value);
}

static void test_entered(void)
{
    struct rig *rig = start();
    uint64_t value;

    TAP_EQ(rdmsr(rig, 3, 0x802), 3);
    TAP_EQ(rdmsr(rig, 3, 0x80d), 1u << 3);
    TAP_EQ(rdmsr(rig, 3, 0x80f), 0x1ff);             /* kept over the transition */
    TAP_EQ(rig_apic_read(rig, 3, 0x30), UINT32_MAX); /* memory answers no more */
    TAP_EQ(hv_platform_msr_read(&rig->platform, 0, 0x7ff, &value), -ENOENT);
    TAP_EQ(hv_platform_msr_read(&rig->platform, 0, 0x900, &value), -ENOENT);
    /* Outside x2APIC mode the MSRs fault. */
    TAP_EQ(wrmsr(rig, 3, 0x1b, 0xfee00000), 0);
    TAP_EQ(hv_platform_msr_read(&rig->platform, 3, 0x802, &value), HV_FAULTED);
    TAP_EQ(wrmsr(rig, 3, 0x808, 0), HV_FAULTED);
}

static void test_table(void)
{
    /* What can be read, and what a write of the value gives. */
    static const struct {
        uint32_t index;
        bool reads;
        uint64_t value;
        int want;
    } rows[] = {
        {0x802, true, 0, HV_FAULTED},
        {0x803, true, 0, HV_FAULTED},
        {0x808, true, 0xff, 0},
        {0x808, true, 0x100, HV_FAULTED},
        {0x808, true, UINT64_C(1) << 32, HV_FAULTED},
        {0x809, false, 0, HV_FAULTED},
        {0x80a, true, 0, HV_FAULTED},
        {0x80b, false, 0, 0},
        {0x80b, false, 1, HV_FAULTED},
        {0x80c, false, 0, HV_FAULTED},
        {0x80d, true, 0, HV_FAULTED},
        {0x80e, false, 0, HV_FAULTED},
        {0x80f, true, 0x13ff, 0},
        {0x80f, true, 0x2000, HV_FAULTED},
        {0x810, true, 0, HV_FAULTED},
        {0x817, true, 0, HV_FAULTED},
        {0x81f, true, 0, HV_FAULTED},
        {0x827, true, 0, HV_FAULTED},
        {0x828, true, 0, 0},
        {0x828, true, 1, HV_FAULTED},
        {0x829, false, 0, HV_FAULTED},
        {0x82f, false, 0, HV_FAULTED}, /* no CMCI */
        {0x830, true, 0x400, 0},
        {0x830, true, 0x1000, HV_FAULTED},
        {0x830, true, 0x2000, HV_FAULTED},
        {0x830, true, 0x100000, HV_FAULTED},
        {0x831, false, 0, HV_FAULTED},
        {0x832, true, 0x700ff, 0},
        {0x832, true, 0x100, HV_FAULTED},
        {0x833, true, 0x107ff, 0},
        {0x834, true, 0x10000, 0},
        {0x835, true, 0x1f7ff, 0}, /* with the read-only bits, as read back */
        {0x836, true, 0x20000, HV_FAULTED},
        {0x837, true, 0x100ff, 0},
        {0x837, true, 0x400, HV_FAULTED},
        {0x838, true, UINT32_MAX, 0},
        {0x839, true, 0, HV_FAULTED},
        {0x83e, true, 0xb, 0},
        {0x83e, true, 0x4, HV_FAULTED},
        {0x83f, false, 0xff, 0},
        {0x83f, false, 0x100, HV_FAULTED},
        {0x840, false, 0, HV_FAULTED},
        {0x8ff, false, 0, HV_FAULTED},
    };

    for (size_t i = 0; i < HV_ARRAY_LEN(rows); i++) {
        struct rig *rig = start();
        uint64_t value;
        int got = hv_platform_msr_read(&rig->platform, 1, rows[i].index, &value);

        if (got != (rows[i].reads ? 0 : HV_FAULTED)) {
            tap_fail(__FILE__, __LINE__, "reading %#x gave %d", rows[i].index, got);
        }
        got = wrmsr(rig, 1, rows[i].index, rows[i].value);
        if (got != rows[i].want) {
            tap_fail(__FILE__, __LINE__, "writing %#" PRIx64 " to %#x gave %d", rows[i].value,
                     rows[i].index, got);
        }
    }
}

static void test_icr(void)
{
    struct rig *rig = start();

    TAP_EQ(wrmsr(rig, 0, 0x830, UINT64_C(2) << 32 | 0x4061), 0);
    TAP_EQ(rdmsr(rig, 0, 0x830), UINT64_C(2) << 32 | 0x4061);
    TAP_EQ(rig_take(rig, 2), 0x61);
    TAP_EQ(wrmsr(rig, 2, 0x80b, 0), 0);
    TAP_EQ(wrmsr(rig, 0, 0x830, UINT64_C(0xffffffff) << 32 | 0x4062), 0);
    for (unsigned j = 0; j < RIG_VCPUS; j++) {
        TAP_EQ(rig_take(rig, j), 0x62);
        TAP_EQ(wrmsr(rig, j, 0x80b, 0), 0);
    }
    /* 0xff is an id like any other. */
    TAP_EQ(wrmsr(rig, 0, 0x830, UINT64_C(0xff) << 32 | 0x4063), 0);
    TAP_EQ(rig_take(rig, 0), -1);
    /* Logical: cluster 0, members 1 and 3. */
    TAP_EQ(wrmsr(rig, 0, 0x830, UINT64_C(0x0000000a) << 32 | 0x4864), 0);
    TAP_EQ(rig_take(rig, 0), -1);
    TAP_EQ(rig_take(rig, 1), 0x64);
    TAP_EQ(rig_take(rig, 3), 0x64);
    TAP_EQ(wrmsr(rig, 0, 0x830, UINT64_C(0x0001000a) << 32 | 0x4865), 0);
    TAP_EQ(rig_take(rig, 1), -1);
    /* To itself. */
    TAP_EQ(wrmsr(rig, 0, 0x83f, 0x66), 0);
    TAP_EQ(rig_take(rig, 0), 0x66);
}

/* Senders of 8-bit destinations reach local APICs in x2APIC mode by the same numbers. */
static void test_narrow_senders(void)
{
    struct rig *rig = start();

    hv_platform_msi(&rig->platform, 0xfee03000, 0x4071);
    TAP_EQ(rig_take(rig, 3), 0x71);
    hv_platform_msi(&rig->platform, 0xfee02004, 0x4072); /* logical 2: vCPU 1 */
    TAP_EQ(rig_take(rig, 1), 0x72);
    hv_platform_msi(&rig->platform, 0xfeeff000, 0x4083);
    for (unsigned j = 0; j < RIG_VCPUS; j++) {
        TAP_EQ(rig_take(rig, j), 0x83);
    }
}

static void test_init_keeps_mode(void)
{
    struct rig *rig = start();

    hv_platform_init_cpu(&rig->platform, 1);
    TAP_EQ(rdmsr(rig, 1, 0x1b), 0xfee00c00);
    TAP_EQ(rdmsr(rig, 1, 0x802), 1);
    TAP_EQ(rdmsr(rig, 1, 0x80d), 1u << 1);
    TAP_EQ(rdmsr(rig, 1, 0x80f), 0xff);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"platform.lapic-access.entered", test_entered},
        {"platform.lapic-access.table", test_table},
        {"platform.lapic-access.icr", test_icr},
        {"platform.lapic-access.narrow-senders", test_narrow_senders},
        {"platform.lapic-access.init-keeps-mode", test_init_keeps_mode},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What test kernels rely on: configuration, exit, ports and memory that remember, wires. */
#include "platform/testdev.h"

#include <string.h>

#include "lib/tap.h"
#include "unit/platform/rig.h"

static uint64_t item(struct rig *rig, uint16_t key, unsigned bytes)
{
    uint64_t value = 0;

    rig_outw(rig, 0x510, key);
    for (unsigned i = 0; i < bytes; i++) {
        value |= (uint64_t)rig_inb(rig, 0x511) << i * 8;
    }
    return value;
}

static void test_fwcfg(void)
{
    struct rig *rig = rig_new();

    TAP_EQ(item(rig, 0, 4), 0x554d4551);
    TAP_EQ(item(rig, 1, 4), 1);
    TAP_EQ(item(rig, 3, 8), 64 * HV_MIB);
    TAP_EQ(item(rig, 5, 2), RIG_VCPUS);
    TAP_EQ(item(rig, 0xf, 2), RIG_VCPUS);
    TAP_EQ(item(rig, 0x19, 4), 0); /* no files */
    TAP_EQ(item(rig, 0x8000, 4), 0);
    item(rig, 3, 8);
    for (unsigned i = 0; i < 100; i++) {
        TAP_EQ(rig_inb(rig, 0x511), 0); /* behind the end */
    }
}

static void test_exit(void)
{
    struct rig *rig = rig_new();

    rig_outl(rig, 0xf4, 0x12345678);
    TAP_EQ(rig->exits, 1);
    TAP_EQ(rig->exit_code, 0x12345678);
    rig_outb(rig, 0xf4, 3);
    TAP_EQ(rig->exit_code, 3);
    TAP_EQ(rig->exits, 2);
}

static void test_ports(void)
{
    struct rig *rig = rig_new();

    rig_outl(rig, 0xe0, 0x44332211);
    TAP_EQ(rig_inl(rig, 0xe0), 0x44332211);
    rig_outw(rig, 0xe0, 0x9999);
    TAP_EQ(rig_inl(rig, 0xe0), 0x44339999);
    rig_outb(rig, 0xe3, 0x55);
    TAP_EQ(rig_inl(rig, 0xe8), 0x55339999);
    TAP_EQ(rig_inb(rig, 0xe1), 0x99);
    rig_outl(rig, 0xe4, 0x1000); /* flush a page: taken */
    TAP_EQ(rig_inl(rig, 0xe0), 0x55339999);
}

static void test_memory(void)
{
    struct rig *rig = rig_new();

    rig_mmio_write(rig, 0xff000000, 8, 0x8877665544332211);
    rig_mmio_write(rig, 0xff00fffc, 4, 0xdeadbeef);
    TAP_EQ(rig_mmio_read(rig, 0xff000003, 4), 0x77665544);
    TAP_EQ(rig_mmio_read(rig, 0xff00ffff, 1), 0xde);
    TAP_EQ(rig_mmio_read(rig, 0xff00fffe, 4), 0xffffdead); /* over its end */
}

static void test_wires(void)
{
    struct rig *rig = rig_new();

    rig_outb(rig, 0x200e, 1);
    TAP_EQ(rig->platform.ioapic.lines, 1u << 14);
    TAP_EQ(rig->platform.pic.chip[1].lines, 1u << 6);
    rig_outb(rig, 0x2000, 1);
    TAP_EQ(rig->platform.ioapic.lines, 1u << 14 | 1u << 2);
    rig_outb(rig, 0x2017, 1);
    TAP_EQ(rig->platform.ioapic.lines, 1u << 14 | 1u << 2 | 1u << 23);
    rig_outb(rig, 0x200e, 0);
    rig_outb(rig, 0x2000, 0);
    rig_outb(rig, 0x2017, 0);
    TAP_EQ(rig->platform.ioapic.lines, 0);
}

static void test_stamps(void)
{
    struct rig *rig = rig_new();
    const struct hv_testdev *testdev = &rig->platform.testdev;
    uint64_t before = hv_clock_host_now().v;

    TAP_EQ(hv_testdev_stamps(testdev), 0);
    rig_outl(rig, 0x2020, 0x89abcdef);
    TAP_EQ(hv_testdev_stamps(testdev), 0); /* half a value */
    rig_outl(rig, 0x2024, 0x01234567);
    TAP_EQ(hv_testdev_stamps(testdev), 1);
    TAP_EQ(hv_load_relaxed(&testdev->stamp[0].guest), UINT64_C(0x0123456789abcdef));
    TAP_OK(hv_load_relaxed(&testdev->stamp[0].host) >= before);
    rig_outb(rig, 0x2025, 1);
    TAP_EQ(hv_testdev_stamps(testdev), 1);
    for (unsigned i = 0; i < 2 * HV_TESTDEV_STAMPS; i++) {
        rig_outl(rig, 0x2024, i);
    }
    TAP_EQ(hv_testdev_stamps(testdev), HV_TESTDEV_STAMPS);
    TAP_EQ(hv_load_relaxed(&testdev->stamp[1].guest), 0x89abcdef);
    hv_platform_reset(&rig->platform);
    TAP_EQ(hv_testdev_stamps(testdev), 0);
    TAP_OK(rig_inl(rig, 0x2020) == UINT32_MAX); /* nothing to be read */
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"platform.testdev.fwcfg", test_fwcfg}, {"platform.testdev.exit", test_exit},
        {"platform.testdev.ports", test_ports}, {"platform.testdev.memory", test_memory},
        {"platform.testdev.wires", test_wires}, {"platform.testdev.stamps", test_stamps},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

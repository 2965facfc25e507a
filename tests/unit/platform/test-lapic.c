/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The local APIC: modes, priorities, delivery between vCPUs, errors. */
#include "platform/lapic.h"

#include <errno.h>

#include "cpu/state.h"
#include "lib/tap.h"
#include "unit/platform/rig-irq.h"

#define BASE_MSR 0x1b
#define EN       UINT64_C(0x800)
#define EXTD     UINT64_C(0x400)
#define BSP      UINT64_C(0x100)
#define DEFAULT  UINT64_C(0xfee00000)

static struct rig *start(void)
{
    struct rig *rig = rig_new();

    for (unsigned i = 0; i < RIG_VCPUS; i++) {
        rig_apic_enable(rig, i);
    }
    return rig;
}

static int wrmsr(struct rig *rig, unsigned vcpu, uint32_t index, uint64_t value)
{
    return hv_platform_msr_write(&rig->platform, vcpu, index, value);
}

static uint64_t rdmsr(struct rig *rig, unsigned vcpu, uint32_t index)
{
    uint64_t value = 0;

    return hv_platform_msr_read(&rig->platform, vcpu, index, &value) == 0 ? value
                                                                          : 0xdeaddeaddeaddead;
}

static void icr(struct rig *rig, unsigned vcpu, uint32_t destination, uint32_t command)
{
    rig_apic_write(rig, vcpu, 0x310, destination << 24);
    rig_apic_write(rig, vcpu, 0x300, command);
}

static void test_power_up(void)
{
    struct rig *rig = rig_new();

    TAP_EQ(rdmsr(rig, 0, BASE_MSR), DEFAULT | EN | BSP);
    TAP_EQ(rdmsr(rig, 1, BASE_MSR), DEFAULT | EN);
    TAP_EQ(rig_apic_read(rig, 2, 0x20), 2u << 24);
    TAP_EQ(rig_apic_read(rig, 0, 0x30) & 0xff, 0x14);
    TAP_EQ(rig_apic_read(rig, 0, 0x30) >> 16 & 0xff, 5);
    TAP_EQ(rig_apic_read(rig, 0, 0xf0), 0xff);
    TAP_EQ(rig_apic_read(rig, 0, 0xe0), UINT32_MAX);
    TAP_EQ(rig_apic_read(rig, 0, 0x350), 0x700); /* virtual wire */
    TAP_EQ(rig_apic_read(rig, 1, 0x350), 0x10000);
    TAP_EQ(rig_apic_read(rig, 0, 0x320), 0x10000);
    TAP_EQ(hv_platform_cr8_read(&rig->platform, 0), 0);
    /* Disabled by software: entries stay masked, and fixed interrupts are not taken. */
    rig_apic_write(rig, 1, 0x320, 0x40);
    TAP_EQ(rig_apic_read(rig, 1, 0x320), 0x10040);
    icr(rig, 0, 1, 0x41);
    TAP_EQ(rig_take(rig, 1), -1);
    icr(rig, 0, 1, 0x400);
    TAP_EQ(rig->nmis[1], 1);
}

static void test_base_transitions(void)
{
    static const struct {
        uint64_t from, to;
        int want;
    } rows[] = {
        {EN, EN | EXTD, 0},
        {EN, 0, 0},
        {EN, EXTD, HV_FAULTED},
        {0, EN, 0},
        {0, 0, 0},
        {0, EN | EXTD, HV_FAULTED},
        {0, EXTD, HV_FAULTED},
        {EN | EXTD, 0, 0},
        {EN | EXTD, EN, HV_FAULTED},
        {EN | EXTD, EXTD, HV_FAULTED},
        {EN | EXTD, EN | EXTD, 0},
        {EN, EN | 1, HV_FAULTED},
        {EN, EN | 0x200, HV_FAULTED},
        {EN, EN | UINT64_C(1) << 46, HV_FAULTED},
        {EN, EN | UINT64_C(1) << 63, HV_FAULTED},
    };

    for (size_t i = 0; i < HV_ARRAY_LEN(rows); i++) {
        struct rig *rig = start();

        TAP_EQ(wrmsr(rig, 0, BASE_MSR, DEFAULT | BSP | rows[i].from), 0);
        TAP_EQ(wrmsr(rig, 0, BASE_MSR, DEFAULT | BSP | rows[i].to), rows[i].want);
        TAP_EQ(rdmsr(rig, 0, BASE_MSR), DEFAULT | BSP | (rows[i].want ? rows[i].from : rows[i].to));
    }
}

static void test_disabled(void)
{
    struct rig *rig = start();

    rig_apic_write(rig, 0, 0x80, 0x50);
    TAP_EQ(wrmsr(rig, 0, BASE_MSR, DEFAULT | BSP), 0);
    /* Nothing answers in memory; CR8 is the processor's and goes on. */
    rig_mmio_write(rig, DEFAULT + 0x80, 4, 0xff);
    TAP_EQ(rig_apic_read(rig, 0, 0x30), UINT32_MAX);
    TAP_EQ(hv_platform_cr8_read(&rig->platform, 0), 5);
    hv_platform_cr8_write(&rig->platform, 0, 0xa);
    TAP_EQ(hv_platform_cr8_read(&rig->platform, 0), 0xa);
    /* Not even NMI: the processor is one without an APIC. */
    icr(rig, 1, 0, 0x400);
    TAP_EQ(rig->nmis[0], 0);
    /* But by its own pin, which is no LINT1 then, that could be masked. */
    hv_platform_press_nmi(&rig->platform);
    TAP_EQ(rig->nmis[0], 1);
    TAP_EQ(rig->nmis[1], 0);
    TAP_EQ(wrmsr(rig, 0, BASE_MSR, DEFAULT | BSP | EN), 0);
    hv_platform_press_nmi(&rig->platform);
    TAP_EQ(rig->nmis[0], 1);
    TAP_EQ(rig_apic_read(rig, 0, 0x80), 0xa0);
    TAP_EQ(rig_apic_read(rig, 0, 0xf0), 0xff);
    TAP_EQ(rig_apic_read(rig, 0, 0x350), 0x10000);
}

static void test_relocated(void)
{
    struct rig *rig = start();
    uint64_t value;

    TAP_EQ(wrmsr(rig, 0, BASE_MSR, 0xfed40000 | BSP | EN), 0);
    TAP_EQ(rig_mmio_read(rig, 0xfed40030, 4) & 0xff, 0x14);
    TAP_EQ(rig_apic_read(rig, 0, 0x30), UINT32_MAX);
    TAP_EQ(rig_apic_read(rig, 1, 0x30) & 0xff, 0x14); /* each has its own place */
    TAP_EQ(hv_bus_read(&rig->bus, HV_BUS_MMIO, HV_BUS_NO_VCPU, DEFAULT + 0x30, 4, &value), 0);
    TAP_EQ(value, UINT32_MAX);
}

static void test_access_widths(void)
{
    struct rig *rig = start();

    rig_apic_write(rig, 0, 0xd0, 0xab000000);
    TAP_EQ(rig_mmio_read(rig, DEFAULT + 0xd3, 1), 0xab);
    TAP_EQ(rig_mmio_read(rig, DEFAULT + 0xd2, 2), 0xab00);
    TAP_EQ(rig_mmio_read(rig, DEFAULT + 0xd4, 4), 0);
    TAP_EQ(rig_mmio_read(rig, DEFAULT + 0xd0, 8), 0xab000000);
    rig_mmio_write(rig, DEFAULT + 0xd3, 1, 0xff);
    TAP_EQ(rig_apic_read(rig, 0, 0xd0), 0xab000000);
}

static void test_priorities(void)
{
    struct rig *rig = start();

    icr(rig, 0, 0, 0x31);
    icr(rig, 0, 0, 0x38);
    icr(rig, 0, 0, 0x52);
    TAP_EQ(rig_apic_read(rig, 0, 0x210), 1u << 17 | 1u << 24);
    TAP_EQ(rig_take(rig, 0), 0x52);
    TAP_EQ(rig_apic_read(rig, 0, 0xa0), 0x50);
    TAP_EQ(rig_take(rig, 0), -1);
    icr(rig, 0, 0, 0x5f); /* same class: waits */
    TAP_EQ(rig_take(rig, 0), -1);
    icr(rig, 0, 0, 0x60);
    TAP_EQ(rig_take(rig, 0), 0x60);
    rig_eoi(rig, 0);
    TAP_EQ(rig_take(rig, 0), -1);
    rig_eoi(rig, 0);
    TAP_EQ(rig_take(rig, 0), 0x5f);
    rig_eoi(rig, 0);
    TAP_EQ(rig_take(rig, 0), 0x38);
    rig_eoi(rig, 0);
    rig_apic_write(rig, 0, 0x80, 0x35);
    TAP_EQ(rig_apic_read(rig, 0, 0xa0), 0x35);
    TAP_EQ(rig_take(rig, 0), -1);
    rig->kicks[0] = 0;
    hv_platform_cr8_write(&rig->platform, 0, 2);
    TAP_EQ(rig->kicks[0], 1); /* it has become deliverable */
    TAP_EQ(rig_take(rig, 0), 0x31);
    rig_eoi(rig, 0);
    rig_eoi(rig, 0); /* nothing in service: nothing happens */
    TAP_EQ(rig_apic_read(rig, 0, 0xa0), 0x20);
}

static void test_withdrawn(void)
{
    struct rig *rig = start();

    icr(rig, 0, 0, 0x31);
    TAP_OK(hv_platform_interrupt_pending(&rig->platform, 0));
    hv_platform_cr8_write(&rig->platform, 0, 15);
    TAP_OK(!hv_platform_interrupt_pending(&rig->platform, 0));
    TAP_EQ(hv_platform_interrupt_acknowledge(&rig->platform, 0), -1);
    TAP_EQ(rig_apic_read(rig, 0, 0x210), 1u << 17); /* and it is not lost */
}

static void test_shorthands(void)
{
    static const struct {
        uint32_t shorthand;
        bool want[RIG_VCPUS];
    } rows[] = {
        {1, {false, true, false, false}},
        {2, {true, true, true, true}},
        {3, {true, false, true, true}},
    };

    for (size_t i = 0; i < HV_ARRAY_LEN(rows); i++) {
        struct rig *rig = start();

        icr(rig, 1, 3, rows[i].shorthand << 18 | 0x4000 | 0x61);
        for (unsigned j = 0; j < RIG_VCPUS; j++) {
            TAP_EQ(rig_take(rig, j), rows[i].want[j] ? 0x61 : -1);
            TAP_EQ(rig->kicks[j], rows[i].want[j]);
        }
        TAP_EQ(rig_apic_read(rig, 1, 0x300) & 0x1000, 0);
    }
}

static void test_logical(void)
{
    /* LDR of vCPUs 0 to 3; who takes a message to `destination`. */
    static const struct {
        uint32_t dfr;
        uint8_t ldr[RIG_VCPUS];
        uint8_t destination;
        unsigned want;
    } rows[] = {
        {UINT32_MAX, {1, 2, 4, 8}, 0x05, 5},     {UINT32_MAX, {1, 2, 4, 8}, 0x10, 0},
        {UINT32_MAX, {3, 2, 0, 128}, 0x82, 11},  {UINT32_MAX, {1, 2, 4, 8}, 0xff, 15},
        {0, {0x11, 0x12, 0x21, 0x22}, 0x11, 1},  {0, {0x11, 0x12, 0x21, 0x22}, 0x13, 3},
        {0, {0x11, 0x12, 0x21, 0x22}, 0x22, 8},  {0, {0x11, 0x12, 0x21, 0x22}, 0x31, 0},
        {0, {0x11, 0x12, 0x21, 0x22}, 0xff, 15},
    };

    for (size_t i = 0; i < HV_ARRAY_LEN(rows); i++) {
        struct rig *rig = start();
        unsigned got = 0;

        for (unsigned j = 0; j < RIG_VCPUS; j++) {
            rig_apic_write(rig, j, 0xd0, (uint32_t)rows[i].ldr[j] << 24);
            rig_apic_write(rig, j, 0xe0, rows[i].dfr);
        }
        icr(rig, 0, rows[i].destination, 0x800 | 0x4000 | 0x61);
        for (unsigned j = 0; j < RIG_VCPUS; j++) {
            got |= rig_take(rig, j) == 0x61 ? 1u << j : 0;
        }
        TAP_EQ(got, rows[i].want);
    }
}

static void test_startup(void)
{
    struct rig *rig = start();

    icr(rig, 0, 0, 0xc4500);
    icr(rig, 0, 0, 0xc8500); /* level de-assert: nothing */
    icr(rig, 0, 2, 0x4608);
    for (unsigned j = 0; j < RIG_VCPUS; j++) {
        TAP_EQ(rig->inits[j], j != 0);
        TAP_EQ(rig->sipis[j], j == 2);
    }
    TAP_EQ(rig->sipi_vector, 8);
    /* The vCPU takes INIT: registers go, id and base stay. */
    rig_apic_write(rig, 2, 0x80, 0x40);
    rig_apic_write(rig, 2, 0x320, 0x40);
    hv_platform_init_cpu(&rig->platform, 2);
    TAP_EQ(rig_apic_read(rig, 2, 0xf0), 0xff);
    TAP_EQ(rig_apic_read(rig, 2, 0x80), 0);
    TAP_EQ(rig_apic_read(rig, 2, 0x320), 0x10000);
    TAP_EQ(rig_apic_read(rig, 2, 0x20), 2u << 24);
    TAP_EQ(rdmsr(rig, 2, BASE_MSR), DEFAULT | EN);
}

static void test_errors(void)
{
    struct rig *rig = start();

    rig_apic_write(rig, 0, 0x370, 0xfe);
    icr(rig, 0, 0, 0x0f); /* sent and received: an illegal vector */
    TAP_EQ(rig_take(rig, 0), 0xfe);
    TAP_EQ(rig_apic_read(rig, 0, 0x280), 0);
    rig_apic_write(rig, 0, 0x280, 0);
    TAP_EQ(rig_apic_read(rig, 0, 0x280), 0x60);
    rig_apic_write(rig, 0, 0x280, 0);
    TAP_EQ(rig_apic_read(rig, 0, 0x280), 0);
    rig_eoi(rig, 0);
    TAP_EQ(rig_apic_read(rig, 0, 0x3c0), 0); /* no register there */
    rig_apic_write(rig, 0, 0x280, 0);
    TAP_EQ(rig_apic_read(rig, 0, 0x280), 0x80);
    TAP_EQ(rig_take(rig, 0), 0xfe);
    rig_eoi(rig, 0);
    /* An error interrupt with an illegal vector of its own ends there. */
    rig_apic_write(rig, 0, 0x370, 0x03);
    icr(rig, 0, 0, 0x0f);
    TAP_EQ(rig_take(rig, 0), -1);
}

static void test_local_sources(void)
{
    struct rig *rig = start();

    rig_apic_write(rig, 1, 0x360, 0x400); /* LINT1: NMI */
    hv_platform_press_nmi(&rig->platform);
    TAP_EQ(rig->nmis[1], 1);
    TAP_EQ(rig->nmis[0], 0);
    rig_apic_write(rig, 1, 0x330, 0x55);
    hv_lapic_raise(&rig->platform.lapics.lapic[1], HV_LAPIC_LVT_THERMAL);
    TAP_EQ(rig_take(rig, 1), 0x55);
    rig_apic_write(rig, 1, 0x340, 0x10056);
    hv_lapic_raise(&rig->platform.lapics.lapic[1], HV_LAPIC_LVT_PMC);
    TAP_EQ(rig_take(rig, 1), -1);
}

/* The 8259A behind LINT0: the virtual wire, LINT0 as a fixed interrupt, and no APIC at all. */
static void test_lint0(void)
{
    struct rig *rig = rig_new();

    rig_pic_start(rig, 0, false);
    hv_platform_set_gsi(&rig->platform, 3, true);
    TAP_EQ(rig->kicks[0], 1);
    TAP_EQ(rig_take(rig, 0), 0x33);
    TAP_EQ(rig_take(rig, 0), -1);
    rig_outb(rig, 0x20, 0x20);
    hv_platform_set_gsi(&rig->platform, 3, false);
    /* ExtINT knows no task priority. */
    hv_platform_cr8_write(&rig->platform, 0, 15);
    hv_platform_set_gsi(&rig->platform, 3, true);
    TAP_EQ(rig_take(rig, 0), 0x33);
    rig_outb(rig, 0x20, 0x20);
    hv_platform_cr8_write(&rig->platform, 0, 0);
    hv_platform_set_gsi(&rig->platform, 3, false);
    /* Fixed, by the edge. */
    rig_apic_enable(rig, 0);
    rig_apic_write(rig, 0, 0x350, 0x44);
    hv_platform_set_gsi(&rig->platform, 3, true);
    TAP_EQ(rig_take(rig, 0), 0x44);
    rig_eoi(rig, 0);
    TAP_EQ(rig_take(rig, 0), -1);
    /* Fixed, level-triggered: again at each EOI while INTR is high. */
    rig_apic_write(rig, 0, 0x350, 0x8044);
    TAP_EQ(rig_apic_read(rig, 0, 0x350), 0xc044);
    TAP_EQ(rig_take(rig, 0), 0x44);
    rig_eoi(rig, 0);
    TAP_EQ(rig_take(rig, 0), 0x44);
    hv_pic_acknowledge(&rig->platform.pic);
    rig_eoi(rig, 0);
    TAP_EQ(rig_apic_read(rig, 0, 0x350), 0x8044);
    TAP_EQ(rig_take(rig, 0), -1);
    /* Without the APIC, INTR is the processor's. */
    rig_outb(rig, 0x20, 0x20);
    TAP_EQ(wrmsr(rig, 0, BASE_MSR, DEFAULT | BSP), 0);
    hv_platform_set_gsi(&rig->platform, 3, false);
    hv_platform_set_gsi(&rig->platform, 3, true);
    TAP_EQ(rig_take(rig, 0), 0x33);
}

static void test_msi(void)
{
    struct rig *rig = start();

    hv_platform_msi(&rig->platform, 0xfee02000, 0x4071);
    TAP_EQ(rig_take(rig, 2), 0x71);
    hv_platform_msi(&rig->platform, 0xfeeff000, 0x4072);
    for (unsigned j = 0; j < RIG_VCPUS; j++) {
        TAP_EQ(rig_take(rig, j), j == 2 ? -1 : 0x72); /* 2 has 71h in service */
    }
    hv_platform_msi(&rig->platform, 0xfee01000, 0x0400);
    TAP_EQ(rig->nmis[1], 1);
    hv_platform_msi(&rig->platform, 0xfee01000, 0x0608); /* reserved mode */
    TAP_EQ(rig->sipis[1], 0);
    hv_platform_msi(&rig->platform, 0xfed02000, 0x4073);
    hv_platform_msi(&rig->platform, UINT64_C(0x1fee02000), 0x4073);
    rig_eoi(rig, 2);
    TAP_EQ(rig_take(rig, 2), 0x72);
}

/* By a list of ids: who has one of them now, and is switched on. */
static void test_many(void)
{
    static const struct {
        uint64_t low, high;
        unsigned width;
        uint32_t first;
        unsigned reached; /* a bit for each vCPU */
    } rows[] = {
        {0xf, 0, 64, 0, 0xf},
        {0x6, 0, 64, 0, 0x6},
        {0x3, 0, 64, 2, 0xc},
        {0, 0x3, 32, UINT32_MAX - 31, 0},
        {1, 0, 64, 3, 0x8},
        {UINT64_C(1) << 63, 0, 64, 0, 0},
        {0, 1, 64, 0, 0},
        {UINT64_C(0xf00000000), 0, 32, 0, 0}, /* no bits of 32 */
        {0xf, 0, 64, 4, 0},
        {UINT64_MAX, UINT64_MAX, 64, UINT32_MAX - 3, 0},
        {UINT64_MAX, UINT64_MAX, 64, 0, 0xf},
    };

    for (size_t i = 0; i < HV_ARRAY_LEN(rows); i++) {
        struct rig *rig = start();
        struct hv_lapic *sender = &rig->platform.lapics.lapic[1];
        const uint64_t ids[2] = {rows[i].low, rows[i].high};
        int count = __builtin_popcount(rows[i].reached);

        TAP_EQ(hv_lapic_send_many(sender, ids, rows[i].width, rows[i].first, 0x51), count);
        for (unsigned vcpu = 0; vcpu < RIG_VCPUS; vcpu++) {
            TAP_EQ(rig_take(rig, vcpu), rows[i].reached & 1u << vcpu ? 0x51 : -1);
        }
        /* Modes but fixed go their way; what names its destination otherwise is refused. */
        TAP_EQ(hv_lapic_send_many(sender, ids, rows[i].width, rows[i].first, 0x400), count);
        TAP_EQ(rig->nmis[3], rows[i].reached >> 3);
        TAP_EQ(hv_lapic_send_many(sender, ids, 64, 0, 0x851), (uint64_t)-EINVAL);
        TAP_EQ(hv_lapic_send_many(sender, ids, 64, 0, 0x40051), (uint64_t)-EINVAL);
        TAP_EQ(hv_lapic_send_many(sender, ids, 64, 0, 0x80051), (uint64_t)-EINVAL);
    }
}

static void test_find(void)
{
    struct rig *rig = start();
    struct hv_lapics *lapics = &rig->platform.lapics;

    TAP_EQ(hv_lapics_find(lapics, 3), 3);
    TAP_EQ(hv_lapics_find(lapics, 4), (uint64_t)-ENOENT);
    TAP_EQ(hv_lapics_find(lapics, UINT32_MAX), (uint64_t)-ENOENT);
    rig_apic_write(rig, 3, 0x20, 9u << 24); /* xAPIC ids are software's to choose */
    TAP_EQ(hv_lapics_find(lapics, 9), 3);
    TAP_EQ(hv_lapics_find(lapics, 3), (uint64_t)-ENOENT);
    TAP_EQ(wrmsr(rig, 3, BASE_MSR, DEFAULT | EN | EXTD), 0);
    TAP_EQ(hv_lapics_find(lapics, 3), 3);
    TAP_EQ(wrmsr(rig, 3, BASE_MSR, DEFAULT), 0);
    TAP_EQ(hv_lapics_find(lapics, 3), (uint64_t)-ENOENT);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"platform.lapic.power-up", test_power_up},
        {"platform.lapic.base-transitions", test_base_transitions},
        {"platform.lapic.disabled", test_disabled},
        {"platform.lapic.relocated", test_relocated},
        {"platform.lapic.access-widths", test_access_widths},
        {"platform.lapic.priorities", test_priorities},
        {"platform.lapic.withdrawn", test_withdrawn},
        {"platform.lapic.shorthands", test_shorthands},
        {"platform.lapic.logical", test_logical},
        {"platform.lapic.startup", test_startup},
        {"platform.lapic.errors", test_errors},
        {"platform.lapic.local-sources", test_local_sources},
        {"platform.lapic.lint0", test_lint0},
        {"platform.lapic.msi", test_msi},
        {"platform.lapic.many", test_many},
        {"platform.lapic.find", test_find},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

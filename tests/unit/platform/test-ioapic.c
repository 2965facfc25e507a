/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Pins, entries and their messages, as a guest sees them through its local APICs. */
#include "platform/ioapic.h"

#include <string.h>

#include "lib/tap.h"
#include "unit/platform/rig-irq.h"

#define PIN             20u /* of the I/O APIC alone */

#define LEVEL           (UINT64_C(1) << 15)
#define MASKED          (UINT64_C(1) << 16)
#define LOGICAL         (UINT64_C(1) << 11)
#define REMOTE_IRR      (UINT64_C(1) << 14)
#define DESTINATION(id) ((uint64_t)(id) << 56)
#define MODE(mode)      ((uint64_t)(mode) << 8)

static struct rig *start(void)
{
    struct rig *rig = rig_new();

    for (unsigned i = 0; i < RIG_VCPUS; i++) {
        rig_apic_enable(rig, i);
    }
    return rig;
}

static void wire(struct rig *rig, bool high)
{
    hv_platform_set_gsi(&rig->platform, PIN, high);
}

static uint32_t indirect(struct rig *rig, uint8_t index)
{
    rig_mmio_write(rig, HV_IOAPIC_BASE, 4, index);
    return (uint32_t)rig_mmio_read(rig, HV_IOAPIC_BASE + 0x10, 4);
}

static void test_registers(void)
{
    struct rig *rig = start();

    TAP_EQ(indirect(rig, 1), 0x00170020);
    rig_mmio_write(rig, HV_IOAPIC_BASE + 0x10, 4, 0);
    TAP_EQ(indirect(rig, 1), 0x00170020);
    rig_mmio_write(rig, HV_IOAPIC_BASE, 4, 0);
    rig_mmio_write(rig, HV_IOAPIC_BASE + 0x10, 4, UINT32_MAX);
    TAP_EQ(indirect(rig, 0), 0x0f000000);
    TAP_EQ(indirect(rig, 2), 0x0f000000);
    rig_mmio_write(rig, HV_IOAPIC_BASE + 0x10, 4, 0);
    TAP_EQ(indirect(rig, 2), 0x0f000000);
    TAP_EQ(rig_mmio_read(rig, HV_IOAPIC_BASE, 1), 2);
    TAP_EQ(indirect(rig, 0x0f), 0);
    TAP_EQ(indirect(rig, 0x40), 0); /* behind the last entry */
    TAP_EQ(rig_ioapic_read(rig, PIN), MASKED);
    rig_ioapic_write(rig, PIN, UINT64_MAX & ~LEVEL);
    TAP_EQ(rig_ioapic_read(rig, PIN), UINT64_C(0xff00000000012fff));
}

static void test_edge(void)
{
    struct rig *rig = start();

    rig_ioapic_write(rig, PIN, 0x76);
    wire(rig, true);
    wire(rig, true); /* no new edge */
    TAP_EQ(rig->kicks[0], 1);
    TAP_EQ(rig_take(rig, 0), 0x76);
    TAP_EQ(rig_take(rig, 0), -1);
    rig_eoi(rig, 0);
    TAP_EQ(rig_take(rig, 0), -1);
    wire(rig, false);
    wire(rig, true);
    TAP_EQ(rig_take(rig, 0), 0x76);
    rig_eoi(rig, 0);
    /* An edge while masked is lost. */
    rig_ioapic_write(rig, PIN, 0x76 | MASKED);
    wire(rig, false);
    wire(rig, true);
    rig_ioapic_write(rig, PIN, 0x76);
    TAP_EQ(rig_take(rig, 0), -1);
    TAP_EQ(hv_load_relaxed(&rig->platform.ioapic.counters.lost), 1);
}

static void test_level(void)
{
    struct rig *rig = start();

    rig_ioapic_write(rig, PIN, 0x77 | LEVEL);
    wire(rig, true);
    TAP_EQ(rig_ioapic_read(rig, PIN) & REMOTE_IRR, REMOTE_IRR);
    TAP_EQ(rig_take(rig, 0), 0x77);
    TAP_EQ(rig_take(rig, 0), -1);
    /* Still high at its EOI: again. */
    rig_eoi(rig, 0);
    TAP_EQ(rig_take(rig, 0), 0x77);
    wire(rig, false);
    TAP_EQ(rig_ioapic_read(rig, PIN) & REMOTE_IRR, REMOTE_IRR);
    rig_eoi(rig, 0);
    TAP_EQ(rig_ioapic_read(rig, PIN) & REMOTE_IRR, 0);
    TAP_EQ(rig_take(rig, 0), -1);
    /* High behind the mask: delivered when it goes. */
    rig_ioapic_write(rig, PIN, 0x77 | LEVEL | MASKED);
    wire(rig, true);
    TAP_EQ(rig_take(rig, 0), -1);
    rig_ioapic_write(rig, PIN, 0x77 | LEVEL);
    TAP_EQ(rig_take(rig, 0), 0x77);
    /* Masked in the handler, unmasked later: again, because it is high still. */
    rig_ioapic_write(rig, PIN, 0x77 | LEVEL | MASKED);
    rig_eoi(rig, 0);
    TAP_EQ(rig_take(rig, 0), -1);
    rig_ioapic_write(rig, PIN, 0x77 | LEVEL);
    TAP_EQ(rig_take(rig, 0), 0x77);
}

static void test_eoi_register(void)
{
    struct rig *rig = start();

    rig_apic_write(rig, 0, 0xf0, 0x11ff); /* suppress EOI broadcasts */
    rig_ioapic_write(rig, PIN, 0x77 | LEVEL);
    wire(rig, true);
    TAP_EQ(rig_take(rig, 0), 0x77);
    rig_eoi(rig, 0);
    TAP_EQ(rig_ioapic_read(rig, PIN) & REMOTE_IRR, REMOTE_IRR);
    wire(rig, false);
    rig_mmio_write(rig, HV_IOAPIC_BASE + 0x40, 4, 0x78);
    TAP_EQ(rig_ioapic_read(rig, PIN) & REMOTE_IRR, REMOTE_IRR);
    rig_mmio_write(rig, HV_IOAPIC_BASE + 0x40, 4, 0x77);
    TAP_EQ(rig_ioapic_read(rig, PIN) & REMOTE_IRR, 0);
    /* Making the pin edge-triggered clears a stuck one as well. */
    wire(rig, true);
    TAP_EQ(rig_ioapic_read(rig, PIN) & REMOTE_IRR, REMOTE_IRR);
    rig_ioapic_write(rig, PIN, 0x77 | MASKED);
    TAP_EQ(rig_ioapic_read(rig, PIN) & REMOTE_IRR, 0);
}

static void test_trigger_mode(void)
{
    struct rig *rig = start();

    /* TMR follows each acceptance, and stays between them. */
    rig_ioapic_write(rig, PIN, 0x79 | LEVEL);
    wire(rig, true);
    TAP_EQ(rig_take(rig, 0), 0x79);
    TAP_EQ(rig_apic_read(rig, 0, 0x1b0), 1u << 25);
    wire(rig, false);
    rig_eoi(rig, 0);
    TAP_EQ(rig_apic_read(rig, 0, 0x1b0), 1u << 25);
    rig_ioapic_write(rig, PIN, 0x79);
    wire(rig, true);
    TAP_EQ(rig_apic_read(rig, 0, 0x1b0), 0);
}

static void test_destinations(void)
{
    struct rig *rig = start();

    rig_ioapic_write(rig, PIN, 0x85 | DESTINATION(1));
    wire(rig, true);
    TAP_EQ(rig_take(rig, 0), -1);
    TAP_EQ(rig_take(rig, 1), 0x85);
    rig_eoi(rig, 1);
    wire(rig, false);
    /* Logical, flat: 0, 2 and 3. */
    for (unsigned i = 0; i < RIG_VCPUS; i++) {
        rig_apic_write(rig, i, 0xd0, 1u << (24 + i));
    }
    rig_ioapic_write(rig, PIN, 0x86 | LOGICAL | DESTINATION(0xd));
    wire(rig, true);
    wire(rig, false);
    TAP_EQ(rig_take(rig, 0), 0x86);
    TAP_EQ(rig_take(rig, 1), -1);
    TAP_EQ(rig_take(rig, 2), 0x86);
    TAP_EQ(rig_take(rig, 3), 0x86);
    for (unsigned i = 0; i < RIG_VCPUS; i++) {
        rig_eoi(rig, i);
    }
    /* Broadcast. */
    rig_ioapic_write(rig, PIN, 0x87 | DESTINATION(0xff));
    wire(rig, true);
    wire(rig, false);
    for (unsigned i = 0; i < RIG_VCPUS; i++) {
        TAP_EQ(rig_take(rig, i), 0x87);
        rig_eoi(rig, i);
    }
}

static void test_lowest_priority(void)
{
    struct rig *rig = start();
    unsigned taken[RIG_VCPUS] = {0};

    for (unsigned i = 0; i < RIG_VCPUS; i++) {
        rig_apic_write(rig, i, 0xd0, 1u << (24 + i));
        rig_apic_write(rig, i, 0x80, i == 2 ? 0x10 : 0x20);
    }
    rig_ioapic_write(rig, PIN, 0x88 | MODE(1) | LOGICAL | DESTINATION(0xf));
    for (unsigned i = 0; i < 8; i++) {
        wire(rig, true);
        wire(rig, false);
        TAP_EQ(rig_take(rig, 2), 0x88);
        rig_eoi(rig, 2);
    }
    /* Equals take turns. */
    rig_apic_write(rig, 2, 0x80, 0x20);
    for (unsigned i = 0; i < 8; i++) {
        wire(rig, true);
        wire(rig, false);
        for (unsigned j = 0; j < RIG_VCPUS; j++) {
            if (rig_take(rig, j) == 0x88) {
                taken[j]++;
                rig_eoi(rig, j);
            }
        }
    }
    for (unsigned j = 0; j < RIG_VCPUS; j++) {
        TAP_EQ(taken[j], 2);
    }
}

static void test_modes(void)
{
    struct rig *rig = start();

    rig_ioapic_write(rig, PIN, MODE(4) | DESTINATION(1));
    wire(rig, true);
    wire(rig, false);
    TAP_EQ(rig->nmis[1], 1);
    rig_ioapic_write(rig, PIN, MODE(5) | DESTINATION(2));
    wire(rig, true);
    wire(rig, false);
    TAP_EQ(rig->inits[2], 1);
    rig_ioapic_write(rig, PIN, MODE(6) | DESTINATION(2)); /* reserved */
    wire(rig, true);
    wire(rig, false);
    TAP_EQ(rig->sipis[2], 0);
    rig_ioapic_write(rig, PIN, MODE(2)); /* SMI: nothing */
    wire(rig, true);
    wire(rig, false);
    TAP_EQ(rig_take(rig, 0), -1);
    /* NMI of a level-triggered entry comes by the edge, and leaves no remote IRR. */
    rig_ioapic_write(rig, PIN, MODE(4) | LEVEL | DESTINATION(1));
    wire(rig, true);
    TAP_EQ(rig->nmis[1], 2);
    TAP_EQ(rig_ioapic_read(rig, PIN) & REMOTE_IRR, 0);
    rig_ioapic_write(rig, PIN, MODE(4) | LEVEL | DESTINATION(1));
    TAP_EQ(rig->nmis[1], 2);
    wire(rig, false);
}

static void test_extint(void)
{
    struct rig *rig = start();

    /* The 8259A has something; the message makes the processor ask it. */
    rig_apic_write(rig, 0, 0x350, 0x10000); /* LINT0 masked: no virtual wire */
    rig_pic_start(rig, 0, false);
    hv_platform_set_gsi(&rig->platform, 3, true);
    TAP_EQ(rig_take(rig, 0), -1);
    rig_ioapic_write(rig, PIN, MODE(7));
    wire(rig, true);
    TAP_EQ(rig_take(rig, 0), 0x33);
    TAP_EQ(rig_take(rig, 0), -1);
}

static void test_reconfigured(void)
{
    struct rig *rig = start();

    /* The destination moves while the interrupt is in service: EOI finds it by its vector. */
    rig_ioapic_write(rig, PIN, 0x84 | LEVEL);
    wire(rig, true);
    TAP_EQ(rig_take(rig, 0), 0x84);
    wire(rig, false);
    rig_mmio_write(rig, HV_IOAPIC_BASE, 4, 0x10 + PIN * 2 + 1);
    rig_mmio_write(rig, HV_IOAPIC_BASE + 0x10, 4, 1u << 24);
    rig_eoi(rig, 0);
    TAP_EQ(rig_ioapic_read(rig, PIN) & REMOTE_IRR, 0);
}

static void test_record(void)
{
    struct rig *rig = start();
    struct hv_ioapic_record record, again;

    for (unsigned round = 0; round < 500; round++) {
        uint64_t dice = tap_rng();

        if (dice & 1) {
            hv_ioapic_set(&rig->platform.ioapic, (unsigned)(dice >> 8) % 32, dice & 2);
        } else {
            rig_ioapic_write(rig, (unsigned)(dice >> 8) % 24, tap_rng());
        }
        hv_ioapic_save(&rig->platform.ioapic, &record);
        TAP_OK(hv_ioapic_check(&record) == NULL);
        hv_ioapic_reset(&rig->platform.ioapic);
        hv_ioapic_load(&rig->platform.ioapic, &record);
        hv_ioapic_save(&rig->platform.ioapic, &again);
        TAP_OK(memcmp(&record, &again, sizeof(record)) == 0);
    }
    record.entry[3] = REMOTE_IRR;
    TAP_STR(hv_ioapic_check(&record), "ioapic.entry");
    record.lines = 1u << 24;
    TAP_STR(hv_ioapic_check(&record), "ioapic.lines");
    record.id = 1;
    TAP_STR(hv_ioapic_check(&record), "ioapic.id");
    record.version = 0;
    TAP_STR(hv_ioapic_check(&record), "ioapic.version");
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"platform.ioapic.registers", test_registers},
        {"platform.ioapic.edge", test_edge},
        {"platform.ioapic.level", test_level},
        {"platform.ioapic.eoi-register", test_eoi_register},
        {"platform.ioapic.trigger-mode", test_trigger_mode},
        {"platform.ioapic.destinations", test_destinations},
        {"platform.ioapic.lowest-priority", test_lowest_priority},
        {"platform.ioapic.modes", test_modes},
        {"platform.ioapic.extint", test_extint},
        {"platform.ioapic.reconfigured", test_reconfigured},
        {"platform.ioapic.record", test_record},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

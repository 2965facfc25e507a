/* SPDX-License-Identifier: GPL-3.0-or-later */
/* ACPI fixed hardware: button, sleep, timer, SCI; and the reset register beside PCI's ports. */
#include "platform/acpi.h"

#include <string.h>

#include "lib/tap.h"
#include "platform/tick.h"
#include "unit/platform/rig.h"

static bool sci(struct rig *rig)
{
    return rig->platform.ioapic.lines & 1u << HV_ACPI_SCI;
}

static void test_button(void)
{
    struct rig *rig = rig_new();

    hv_platform_press_power(&rig->platform);
    TAP_OK(!sci(rig)); /* nobody asked for it */
    TAP_EQ(rig_inw(rig, 0x600), 0x100);
    rig_outw(rig, 0x602, 0x100);
    TAP_OK(sci(rig));
    rig_outw(rig, 0x600, 0x100);
    TAP_EQ(rig_inw(rig, 0x600), 0);
    TAP_OK(!sci(rig));
    hv_platform_press_power(&rig->platform);
    TAP_OK(sci(rig));
    rig_outw(rig, 0x600, 0xfeff); /* others */
    TAP_OK(sci(rig));
    rig_outl(rig, 0x600, 0xffffffff); /* status and enable at once */
    TAP_OK(!sci(rig));
    TAP_EQ(rig_inl(rig, 0x600), 0x05210000);
    rig_outb(rig, 0x603, 0);
    TAP_EQ(rig_inb(rig, 0x602), 0x21);
    TAP_EQ(rig_inb(rig, 0x603), 0x00);
}

static void test_sleep(void)
{
    static const struct {
        uint16_t value;
        unsigned poweroffs;
    } rows[] = {
        {5 << 10, 0},           /* the type alone */
        {5 << 10 | 1 << 13, 1}, /* S5 */
        {1 << 10 | 1 << 13, 0}, /* S3: there is none */
        {0 << 10 | 1 << 13, 0}, {7 << 10 | 1 << 13, 0},
    };

    for (size_t i = 0; i < HV_ARRAY_LEN(rows); i++) {
        struct rig *rig = rig_new();

        rig_outw(rig, 0x604, rows[i].value);
        TAP_EQ(rig->poweroffs, rows[i].poweroffs);
        TAP_EQ(rig_inw(rig, 0x604), (rows[i].value & 0x1c00) | 1); /* SCI_EN; SLP_EN reads 0 */
    }
    {
        struct rig *rig = rig_new();

        rig_outb(rig, 0x604, 0);
        rig_outb(rig, 0x605, 0x34); /* by bytes */
        TAP_EQ(rig->poweroffs, 1);
    }
}

static void test_timer(void)
{
    struct rig *rig = rig_new();
    uint32_t first = rig_inl(rig, 0x608);

    TAP_EQ(first, 0);
    rig_advance(rig, HV_NS_PER_S);
    TAP_EQ(rig_inl(rig, 0x608), HV_ACPI_TIMER_HZ);
    TAP_EQ(rig_inb(rig, 0x609), HV_ACPI_TIMER_HZ >> 8 & 0xff);
    rig_outl(rig, 0x608, 0);
    TAP_EQ(rig_inl(rig, 0x608), HV_ACPI_TIMER_HZ);
    /* The top bit toggles every 600 s. */
    TAP_EQ(rig_inw(rig, 0x600), 0);
    rig_advance(rig, hv_ticks_to_ns(UINT64_C(1) << 31, HV_ACPI_TIMER_HZ) - HV_NS_PER_S);
    TAP_EQ(rig_inl(rig, 0x608), 0x80000000);
    TAP_EQ(rig_inw(rig, 0x600), 1);
    rig_outw(rig, 0x600, 1);
    rig_outw(rig, 0x602, 1);
    TAP_OK(!sci(rig));
    rig_advance(rig, 600 * HV_NS_PER_S);
    TAP_OK(sci(rig));
    TAP_OK(rig_inl(rig, 0x608) < 0x80000000);
    rig_outw(rig, 0x600, 1);
    TAP_OK(!sci(rig));
}

static void test_gpe(void)
{
    struct rig *rig = rig_new();

    TAP_EQ(rig_inl(rig, 0x620), 0);
    rig_outl(rig, 0x620, 0x12345678);
    TAP_EQ(rig_inl(rig, 0x620), 0x12340000);
    TAP_OK(!sci(rig));
}

static void test_reset(void)
{
    struct rig *rig = rig_new();

    rig_outb(rig, 0xcf9, 0x02);
    TAP_EQ(rig->resets, 0);
    TAP_EQ(rig_inb(rig, 0xcf9), 0x02);
    rig_outb(rig, 0xcf9, 0x06);
    TAP_EQ(rig->resets, 1);
    rig_outb(rig, 0xcf9, 0x06); /* no edge */
    TAP_EQ(rig->resets, 1);
    hv_platform_reset(&rig->platform);
    /* A probe of PCI at function 4 of some device, which is bit 2 of the byte at cf9h. */
    rig_outl(rig, 0xcf8, 0x80000400);
    TAP_EQ(rig->resets, 1);
    TAP_EQ(rig_inl(rig, 0xcf8), UINT32_MAX);
    TAP_EQ(rig_inl(rig, 0xcfc), UINT32_MAX);
    TAP_EQ(rig_inb(rig, 0xcf9), 0);
}

static void test_record(void)
{
    struct hv_acpi_record record, again;

    for (unsigned round = 0; round < 300; round++) {
        struct rig *rig = rig_new();
        struct hv_acpi *acpi = &rig->platform.acpi;
        uint32_t timer, events;

        for (unsigned i = 0; i < 6; i++) {
            static const uint16_t ports[] = {0x600, 0x602, 0x604, 0x622};

            rig_outw(rig, ports[tap_rng() % 4], (uint16_t)tap_rng() & 0xdfff);
            if (tap_rng() % 4 == 0) {
                hv_acpi_press_power(acpi);
            }
            rig_advance(rig, tap_rng() % (700 * HV_NS_PER_S));
        }
        hv_acpi_save(acpi, &record);
        TAP_OK(hv_acpi_check(&record) == NULL);
        rig_advance(rig, 600 * HV_NS_PER_S);
        timer = rig_inl(rig, 0x608);
        events = rig_inl(rig, 0x600);
        rig = rig_new();
        rig_advance(rig, 12345);
        hv_acpi_load(acpi, &record);
        hv_acpi_save(acpi, &again);
        TAP_OK(memcmp(&record, &again, sizeof(record)) == 0);
        rig_advance(rig, 600 * HV_NS_PER_S);
        TAP_EQ(rig_inl(rig, 0x608), timer);
        TAP_EQ(rig_inl(rig, 0x600), events);
    }
    record.sci_high = !record.sci_high;
    TAP_STR(hv_acpi_check(&record), "acpi.sci_high");
    record.enable = 2;
    TAP_STR(hv_acpi_check(&record), "acpi.enable");
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"platform.acpi.button", test_button}, {"platform.acpi.sleep", test_sleep},
        {"platform.acpi.timer", test_timer},   {"platform.acpi.gpe", test_gpe},
        {"platform.acpi.reset", test_reset},   {"platform.acpi.record", test_record},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

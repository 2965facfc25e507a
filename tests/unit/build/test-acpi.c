/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Every table is reachable from the root pointer, has a good checksum, and names the machine. */
#include "build/acpi.h"

#include "images.h"
#include "lib/tap.h"

#include <string.h>

static guint64 peek(const TestGuest *guest, guint64 gpa, guint width)
{
    guint64 value = 0;

    memcpy(&value, guest->ram + gpa, width);
    return value;
}

static guint8 sum(const TestGuest *guest, guint64 gpa, guint64 bytes)
{
    guint8 total = 0;

    for (guint64 i = 0; i < bytes; i++) {
        total = (guint8)(total + guest->ram[gpa + i]);
    }
    return total;
}

/* The table with @signature of the XSDT at @xsdt, or 0. */
static guint64 find_table(const TestGuest *guest, guint64 xsdt, const char *signature)
{
    guint64 length = peek(guest, xsdt + 4, 4);

    for (guint64 at = xsdt + 36; at < xsdt + length; at += 8) {
        guint64 table = peek(guest, at, 8);

        if (memcmp(guest->ram + table, signature, 4) == 0 &&
            sum(guest, table, peek(guest, table + 4, 4)) == 0) {
            return table;
        }
    }
    return 0;
}

static void test_tables(void)
{
    guint64 rsdp = 0, xsdt, fadt, madt, hpet, dsdt;
    static const guint8 s5[] = {0x08, '\\', '_', 'S', '5', '_', 0x12, 8, 4, 0x0a, 5, 0x0a, 5, 0, 0};
    TestGuest guest;

    test_guest_init(&guest);
    TAP_OK(lodge_acpi_load(&guest.writer, &rsdp, NULL));
    TAP_OK(memcmp(guest.ram + rsdp, "RSD PTR ", 8) == 0);
    TAP_EQ(rsdp & 15, 0);
    TAP_EQ(sum(&guest, rsdp, 20), 0);
    TAP_EQ(sum(&guest, rsdp, 36), 0);
    xsdt = peek(&guest, rsdp + 24, 8);
    TAP_EQ(sum(&guest, xsdt, peek(&guest, xsdt + 4, 4)), 0);
    fadt = find_table(&guest, xsdt, "FACP");
    madt = find_table(&guest, xsdt, "APIC");
    hpet = find_table(&guest, xsdt, "HPET");
    TAP_OK(fadt && madt && hpet);
    dsdt = peek(&guest, fadt + 140, 8);
    TAP_EQ(dsdt, peek(&guest, fadt + 40, 4));
    TAP_EQ(sum(&guest, dsdt, peek(&guest, dsdt + 4, 4)), 0);
    TAP_OK(memcmp(guest.ram + dsdt + 36, s5, sizeof(s5)) == 0);
    TAP_EQ(peek(&guest, fadt + 46, 2), 9);      /* SCI_INT */
    TAP_EQ(peek(&guest, fadt + 76, 4), 0x608);  /* PM_TMR_BLK */
    TAP_EQ(peek(&guest, fadt + 108, 1), 0x32);  /* CENTURY */
    TAP_EQ(peek(&guest, fadt + 120, 8), 0xcf9); /* RESET_REG address */
    TAP_EQ(peek(&guest, fadt + 128, 1), 6);     /* RESET_VALUE */
    TAP_EQ(peek(&guest, madt + 36, 4), 0xfee00000);
    TAP_EQ(peek(&guest, madt + 44, 2), 0x0800);     /* first entry: local APIC, 8 bytes */
    TAP_EQ(peek(&guest, madt + 44 + 16 + 3, 1), 2); /* APIC id of the third CPU */
    TAP_EQ(peek(&guest, hpet + 44, 8), 0xfed00000);
    test_guest_finish(&guest);
}

/* What the machine lacks is in no table. */
static void test_absent(void)
{
    guint64 rsdp = 0, xsdt, fadt;
    TestGuest guest;

    test_guest_init(&guest);
    guest.writer.layout.timers_absent = HV_TIMER_HPET | HV_TIMER_RTC;
    guest.writer.layout.hpet_base = 0;
    TAP_OK(lodge_acpi_load(&guest.writer, &rsdp, NULL));
    xsdt = peek(&guest, rsdp + 24, 8);
    TAP_EQ(sum(&guest, xsdt, peek(&guest, xsdt + 4, 4)), 0);
    TAP_EQ(peek(&guest, xsdt + 4, 4), 36 + 2 * 8);
    fadt = find_table(&guest, xsdt, "FACP");
    TAP_OK(fadt && find_table(&guest, xsdt, "APIC"));
    TAP_EQ(find_table(&guest, xsdt, "HPET"), 0);
    TAP_EQ(peek(&guest, fadt + 108, 1), 0);                 /* CENTURY */
    TAP_EQ(peek(&guest, fadt + 109, 2) & 1u << 5, 1u << 5); /* IAPC_BOOT_ARCH: no CMOS RTC */
    test_guest_finish(&guest);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {{"build.acpi.tables", test_tables},
                                            {"build.acpi.absent", test_absent}};

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* ACPI tables, as packed structures with the specification's own order of fields. */
#include "build/acpi.h"

#include "build/low-memory.h"

#include <string.h>

#define PACKED __attribute__((packed))

typedef struct PACKED {
    char signature[4];
    guint32 length;
    guint8 revision, checksum;
    char oem_id[6], oem_table_id[8];
    guint32 oem_revision;
    char creator_id[4];
    guint32 creator_revision;
} Header;
G_STATIC_ASSERT(sizeof(Header) == 36);

/* Generic address structure, 5.2.3.2. */
typedef struct PACKED {
    guint8 space, bit_width, bit_offset, access_size;
    guint64 address;
} Address;

enum address_space {
    SPACE_MEMORY = 0,
    SPACE_IO = 1,
};

/* 5.2.5.3 */
typedef struct PACKED {
    char signature[8];
    guint8 checksum;
    char oem_id[6];
    guint8 revision;
    guint32 rsdt;
    guint32 length;
    guint64 xsdt;
    guint8 extended_checksum, reserved[3];
} Rsdp;
G_STATIC_ASSERT(sizeof(Rsdp) == 36);

/* 5.2.9, revision 6. */
typedef struct PACKED {
    Header header;
    guint32 firmware_control, dsdt;
    guint8 reserved, preferred_profile;
    guint16 sci_interrupt;
    guint32 smi_command;
    guint8 acpi_enable, acpi_disable, s4bios_request, pstate_control;
    guint32 pm1a_event, pm1b_event, pm1a_control, pm1b_control, pm2_control, pm_timer, gpe0, gpe1;
    guint8 pm1_event_length, pm1_control_length, pm2_control_length, pm_timer_length, gpe0_length,
        gpe1_length, gpe1_base, cst_control;
    guint16 c2_latency, c3_latency, flush_size, flush_stride;
    guint8 duty_offset, duty_width, day_alarm, month_alarm, century;
    guint16 boot_flags;
    guint8 reserved2;
    guint32 flags;
    Address reset_register;
    guint8 reset_value;
    guint16 arm_boot_flags;
    guint8 minor_revision;
    guint64 x_firmware_control, x_dsdt;
    Address x_pm1a_event, x_pm1b_event, x_pm1a_control, x_pm1b_control, x_pm2_control, x_pm_timer,
        x_gpe0, x_gpe1, sleep_control, sleep_status;
    guint64 hypervisor_id;
} Fadt;
G_STATIC_ASSERT(sizeof(Fadt) == 276);

enum fadt_flag {
    FADT_WBINVD = 1u << 0,
    FADT_PROC_C1 = 1u << 2,
    FADT_NO_SLEEP_BUTTON = 1u << 5, /* the power button is a fixed feature: bit 4 stays clear */
    FADT_TIMER_32 = 1u << 8,
    FADT_RESET_REGISTER = 1u << 10,
};

/*
 * BOOT_8042 (bit 1) stays clear: there is a keyboard controller to reset by, but nothing is plugged
 * into it, and a guest that is told to look waits three seconds for a mouse to answer.
 */
enum fadt_boot_flag {
    BOOT_LEGACY_DEVICES = 1u << 0,
    BOOT_NO_VGA = 1u << 2,
    BOOT_NO_ASPM = 1u << 4,
    BOOT_NO_CMOS_RTC = 1u << 5,
};

#define RTC_CENTURY 0x32u

/* 5.2.12 */
typedef struct PACKED {
    Header header;
    guint32 lapic, flags;
} Madt;

typedef struct PACKED {
    guint8 type, length, processor, apic_id;
    guint32 flags;
} MadtLapic;

typedef struct PACKED {
    guint8 type, length, id, reserved;
    guint32 address, first_gsi;
} MadtIoapic;

typedef struct PACKED {
    guint8 type, length, bus, source;
    guint32 gsi;
    guint16 flags;
} MadtOverride;

typedef struct PACKED {
    guint8 type, length, processor;
    guint16 flags;
    guint8 lint;
} MadtNmi;

enum madt_type {
    MADT_LAPIC = 0,
    MADT_IOAPIC = 1,
    MADT_OVERRIDE = 2,
    MADT_LAPIC_NMI = 4,
};

#define MADT_PCAT_COMPAT 1u
#define MADT_ENABLED     1u
#define MADT_ALL         0xffu
#define MPS_LEVEL_HIGH   0x000du /* 5.2.12.5: polarity active high, trigger level */
#define TIMER_IRQ        0u
#define TIMER_GSI        2u

typedef struct PACKED {
    Header header;
    guint32 event_timer_block;
    Address address;
    guint8 number;
    guint16 minimum_tick;
    guint8 attributes;
} Hpet;
G_STATIC_ASSERT(sizeof(Hpet) == 56);

/* 0x8086: vendor; three comparators (index of the last: 2), 64 bits, legacy replacement. */
#define HPET_BLOCK_ID 0x8086a201u

/*
 * Name (\_S5, Package () {type, type, 0, 0}), AML by hand: NameOp, NameString, PackageOp, PkgLength,
 * NumElements, four integers. The two types are patched in.
 */
static const guint8 dsdt_body[] = {
    0x08, '\\', '_', 'S', '5', '_', 0x12, 0x08, 0x04, 0x0a, 0x00, 0x0a, 0x00, 0x00, 0x00,
};
enum {
    DSDT_TYPE_A = 10,
    DSDT_TYPE_B = 12,
};

static guint8 checksum(const void *data, gsize bytes)
{
    const guint8 *at = data;
    guint8 sum = 0;

    for (gsize i = 0; i < bytes; i++) {
        sum = (guint8)(sum + at[i]);
    }
    return (guint8)-sum;
}

static void set_header(Header *header, const char *signature, gsize bytes, guint8 revision)
{
    memcpy(header->signature, signature, sizeof(header->signature));
    header->length = (guint32)bytes;
    header->revision = revision;
    memcpy(header->oem_id, "LODGE ", sizeof(header->oem_id));
    memcpy(header->oem_table_id, "LODGEPC ", sizeof(header->oem_table_id));
    header->oem_revision = 1;
    memcpy(header->creator_id, "LODG", sizeof(header->creator_id));
    header->creator_revision = 1;
}

/* Append a finished table, 16-byte aligned, and return its address. */
static guint64 append(GByteArray *area, gpointer table, gsize bytes)
{
    static const guint8 padding[16];
    Header *header = table;
    guint64 address;

    g_byte_array_append(area, padding, (guint)(-area->len & 15u));
    address = LODGE_LOW_ACPI + area->len;
    header->checksum = checksum(table, bytes);
    g_byte_array_append(area, table, (guint)bytes);
    return address;
}

static guint64 append_dsdt(GByteArray *area, const struct hv_platform_layout *layout)
{
    guint8 table[sizeof(Header) + sizeof(dsdt_body)] = {0};

    set_header((Header *)table, "DSDT", sizeof(table), 2);
    memcpy(table + sizeof(Header), dsdt_body, sizeof(dsdt_body));
    table[sizeof(Header) + DSDT_TYPE_A] = layout->s5_sleep_type;
    table[sizeof(Header) + DSDT_TYPE_B] = layout->s5_sleep_type;
    return append(area, table, sizeof(table));
}

static Address io_address(guint16 port, guint8 bits)
{
    return (Address){SPACE_IO, bits, 0, (guint8)(bits == 8 ? 1 : bits == 16 ? 2 : 3), port};
}

static guint64 append_fadt(GByteArray *area, const struct hv_platform_layout *layout, guint64 dsdt)
{
    gboolean rtc = !(layout->timers_absent & HV_TIMER_RTC);
    Fadt table = {
        .dsdt = (guint32)dsdt,
        .preferred_profile = 1, /* desktop */
        .sci_interrupt = layout->sci_irq,
        .pm1a_event = layout->pm_event_port,
        .pm1a_control = layout->pm_control_port,
        .pm_timer = layout->pm_timer_port,
        .pm1_event_length = 4,
        .pm1_control_length = 2,
        .pm_timer_length = 4,
        .c2_latency = 0xffff, /* no C2, no C3 */
        .c3_latency = 0xffff,
        .century = rtc ? RTC_CENTURY : 0,
        .boot_flags =
            BOOT_LEGACY_DEVICES | BOOT_NO_VGA | BOOT_NO_ASPM | (rtc ? 0u : BOOT_NO_CMOS_RTC),
        .flags =
            FADT_WBINVD | FADT_PROC_C1 | FADT_NO_SLEEP_BUTTON | FADT_TIMER_32 | FADT_RESET_REGISTER,
        .reset_register = io_address(layout->reset_port, 8),
        .reset_value = layout->reset_value,
        .minor_revision = 5,
        .x_dsdt = dsdt,
        .x_pm1a_event = io_address(layout->pm_event_port, 32),
        .x_pm1a_control = io_address(layout->pm_control_port, 16),
        .x_pm_timer = io_address(layout->pm_timer_port, 32),
    };

    set_header(&table.header, "FACP", sizeof(table), 6);
    return append(area, &table, sizeof(table));
}

static guint64 append_madt(GByteArray *area, const struct hv_platform_layout *layout)
{
    g_autoptr(GByteArray) table = g_byte_array_new();
    const MadtIoapic ioapic = {MADT_IOAPIC, sizeof(ioapic), 0, 0, (guint32)layout->ioapic_base, 0};
    const MadtOverride timer = {MADT_OVERRIDE, sizeof(timer), 0, TIMER_IRQ, TIMER_GSI, 0};
    const MadtOverride sci = {MADT_OVERRIDE,           sizeof(sci),     0,
                              (guint8)layout->sci_irq, layout->sci_irq, MPS_LEVEL_HIGH};
    const MadtNmi nmi = {MADT_LAPIC_NMI, sizeof(nmi), MADT_ALL, 0, 1};
    Madt head = {.lapic = (guint32)layout->lapic_base, .flags = MADT_PCAT_COMPAT};

    g_byte_array_append(table, (const guint8 *)&head, sizeof(head));
    for (guint i = 0; i < layout->vcpus; i++) {
        const MadtLapic lapic = {MADT_LAPIC, sizeof(lapic), (guint8)i, (guint8)i, MADT_ENABLED};

        g_byte_array_append(table, (const guint8 *)&lapic, sizeof(lapic));
    }
    g_byte_array_append(table, (const guint8 *)&ioapic, sizeof(ioapic));
    g_byte_array_append(table, (const guint8 *)&timer, sizeof(timer));
    g_byte_array_append(table, (const guint8 *)&sci, sizeof(sci));
    g_byte_array_append(table, (const guint8 *)&nmi, sizeof(nmi));
    set_header((Header *)(gpointer)table->data, "APIC", table->len, 5);
    return append(area, table->data, table->len);
}

static guint64 append_hpet(GByteArray *area, const struct hv_platform_layout *layout)
{
    Hpet table = {
        .event_timer_block = HPET_BLOCK_ID,
        .address = {SPACE_MEMORY, 64, 0, 0, layout->hpet_base},
        .minimum_tick = 100,
    };

    set_header(&table.header, "HPET", sizeof(table), 1);
    return append(area, &table, sizeof(table));
}

static guint64 append_xsdt(GByteArray *area, const guint64 *tables, gsize count)
{
    g_autofree guint8 *table = g_malloc0(sizeof(Header) + count * sizeof(guint64));
    gsize bytes = sizeof(Header) + count * sizeof(guint64);

    set_header((Header *)(gpointer)table, "XSDT", bytes, 1);
    memcpy(table + sizeof(Header), tables, count * sizeof(guint64));
    return append(area, table, bytes);
}

gboolean lodge_acpi_load(LodgeGuestWriter *writer, guint64 *rsdp_out, GError **error)
{
    const struct hv_platform_layout *layout = &writer->layout;
    g_autoptr(GByteArray) area = g_byte_array_new();
    Rsdp rsdp = {
        .signature = "RSD PTR ", .oem_id = "LODGE ", .revision = 2, .length = sizeof(rsdp)};
    guint64 tables[3];
    gsize count = 0;

    /* The root pointer comes first, on a 16-byte boundary below 1 MiB, where a scan finds it. */
    g_byte_array_set_size(area, sizeof(rsdp));
    memset(area->data, 0, area->len);
    tables[count++] = append_fadt(area, layout, append_dsdt(area, layout));
    tables[count++] = append_madt(area, layout);
    if (!(layout->timers_absent & HV_TIMER_HPET)) {
        tables[count++] = append_hpet(area, layout);
    }
    rsdp.xsdt = append_xsdt(area, tables, count);
    rsdp.checksum = checksum(&rsdp, G_STRUCT_OFFSET(Rsdp, length));
    rsdp.extended_checksum = checksum(&rsdp, sizeof(rsdp));
    memcpy(area->data, &rsdp, sizeof(rsdp));
    *rsdp_out = LODGE_LOW_ACPI;
    return lodge_guest_writer_put(writer, LODGE_LOW_ACPI, area->data, area->len, "ACPI tables",
                                  error);
}

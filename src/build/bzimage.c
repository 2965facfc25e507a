/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The Linux 64-bit boot protocol. Offsets are those of boot.rst's setup header table. */
#include "build/bzimage.h"

#include "build/bytes.h"
#include "build/low-memory.h"
#include "build/memory-map.h"
#include "common/i18n.h"
#include "common/lodge-error.h"

#include <string.h>

enum setup_header {
    SETUP_SECTS = 0x1f1,
    SETUP_BOOT_FLAG = 0x1fe,
    SETUP_JUMP = 0x200,
    SETUP_HEADER = 0x202,
    SETUP_VERSION = 0x206,
    SETUP_TYPE_OF_LOADER = 0x210,
    SETUP_LOADFLAGS = 0x211,
    SETUP_RAMDISK_IMAGE = 0x218,
    SETUP_RAMDISK_SIZE = 0x21c,
    SETUP_CMD_LINE_PTR = 0x228,
    SETUP_INITRD_ADDR_MAX = 0x22c,
    SETUP_XLOADFLAGS = 0x236,
    SETUP_CMDLINE_SIZE = 0x238,
    SETUP_PREF_ADDRESS = 0x258,
    SETUP_INIT_SIZE = 0x260,
    SETUP_END = 0x290,
};

enum boot_params {
    PARAMS_ACPI_RSDP = 0x070, /* protocol 2.14 */
    PARAMS_EXT_RAMDISK_IMAGE = 0x0c0,
    PARAMS_E820_ENTRIES = 0x1e8,
    PARAMS_E820_TABLE = 0x2d0,
    PARAMS_BYTES = 4096,
};

#define HEADER_MAGIC     0x53726448u /* "HdrS" */
#define BOOT_FLAG_MAGIC  0xaa55u
#define VERSION_2_12     0x020cu /* xloadflags */
#define XLOAD_KERNEL_64  (1u << 0)
#define LOADER_UNDEFINED 0xffu /* "undefined", as direct loaders say */
#define ENTRY_64_OFFSET  0x200u
#define KERNEL_CS        0x10u
#define KERNEL_DS        0x18u
#define IDENTITY_GIB     4u

gboolean lodge_bzimage_recognise(GBytes *image)
{
    return lodge_bytes_number(image, SETUP_BOOT_FLAG, 2) == BOOT_FLAG_MAGIC &&
           lodge_bytes_number(image, SETUP_HEADER, 4) == HEADER_MAGIC;
}

/* Where the protected-mode kernel starts in the file. */
static guint64 payload_offset(GBytes *image)
{
    guint64 sectors = lodge_bytes_number(image, SETUP_SECTS, 1);

    return ((sectors ? sectors : 4) + 1) * 512;
}

static gboolean refuse(GError **error, const char *path, const char *cause)
{
    g_set_error(error, LODGE_ERROR, LODGE_ERROR_INPUT, _("Cannot start the kernel “%s”: %s"), path,
                cause);
    return FALSE;
}

gboolean lodge_bzimage_check(GBytes *image, const char *path, GError **error)
{
    guint64 payload = payload_offset(image);

    if (!lodge_bytes_has(image, 0, SETUP_END) || !lodge_bytes_has(image, payload, 512)) {
        return refuse(error, path, _("the file is truncated inside its header"));
    }
    if (lodge_bytes_number(image, SETUP_VERSION, 2) < VERSION_2_12) {
        return refuse(error, path, _("its boot protocol is older than 2.12 (Linux 3.8)"));
    }
    if (!(lodge_bytes_number(image, SETUP_XLOADFLAGS, 2) & XLOAD_KERNEL_64)) {
        return refuse(error, path, _("it has no 64-bit entry point (a 32-bit kernel)"));
    }
    /* syssize (2.4+) counts the payload in units of 16 bytes: what is missing was cut off. */
    if (!lodge_bytes_has(image, payload, lodge_bytes_number(image, 0x1f4, 4) * 16)) {
        return refuse(error, path, _("the file is truncated: its header promises more"));
    }
    if (lodge_bytes_number(image, SETUP_PREF_ADDRESS, 8) < HV_MIB ||
        lodge_bytes_number(image, SETUP_PREF_ADDRESS, 8) & (HV_PAGE_SIZE - 1)) {
        return refuse(error, path, _("its header asks for an impossible load address"));
    }
    return TRUE;
}

/* Level 4, level 3, and one level-2 table a GiB of 2 MiB pages, one after the other. */
static gboolean put_identity_tables(LodgeGuestWriter *writer, guint64 *cr3_out, GError **error)
{
    enum {
        PRESENT_WRITE = 0x3,
        LARGE = 0x80,
        ENTRIES = 512,
    };
    g_autofree guint64 *tables = g_new0(guint64, (2 + IDENTITY_GIB) * ENTRIES);
    guint64 base = LODGE_LOW_PAGE_TABLES;

    tables[0] = (base + HV_PAGE_SIZE) | PRESENT_WRITE;
    for (guint gib = 0; gib < IDENTITY_GIB; gib++) {
        tables[ENTRIES + gib] = (base + (2 + gib) * HV_PAGE_SIZE) | PRESENT_WRITE;
        for (guint i = 0; i < ENTRIES; i++) {
            tables[(2 + gib) * ENTRIES + i] =
                gib * HV_GIB + i * HV_EXTENT_SIZE + (PRESENT_WRITE | LARGE);
        }
    }
    *cr3_out = base;
    return lodge_guest_writer_put(writer, base, tables, (2 + IDENTITY_GIB) * HV_PAGE_SIZE,
                                  "page tables", error);
}

/* boot.rst, 64-bit protocol: __BOOT_CS 0x10 execute/read, __BOOT_DS 0x18 read/write. */
static gboolean put_gdt(LodgeGuestWriter *writer, struct hv_boot_state *state, GError **error)
{
    static const guint64 gdt[] = {
        0,
        0,
        G_GUINT64_CONSTANT(0x00af9a000000ffff),
        G_GUINT64_CONSTANT(0x00cf92000000ffff),
    };

    state->gdt_base = LODGE_LOW_GDT;
    state->gdt_limit = sizeof(gdt) - 1;
    state->cs = KERNEL_CS;
    state->ds = KERNEL_DS;
    return lodge_guest_writer_put(writer, LODGE_LOW_GDT, gdt, sizeof(gdt), "descriptor table",
                                  error);
}

static void fill_memory_map(guint8 *params, const struct hv_platform_layout *layout)
{
    LodgeMemoryRange ranges[LODGE_MEMORY_RANGES_MAX];
    guint count = lodge_memory_map(layout, ranges);

    params[PARAMS_E820_ENTRIES] = (guint8)count;
    for (guint i = 0; i < count; i++) {
        guint8 *entry = params + PARAMS_E820_TABLE + i * 20;
        guint32 type = ranges[i].type;

        memcpy(entry, &ranges[i].start, 8);
        memcpy(entry + 8, &ranges[i].length, 8);
        memcpy(entry + 16, &type, 4);
    }
}

static void set_split(guint8 *params, guint low_offset, guint high_offset, guint64 value)
{
    guint32 low = (guint32)value;
    guint32 high = (guint32)(value >> 32);

    memcpy(params + low_offset, &low, 4);
    memcpy(params + high_offset, &high, 4);
}

static gboolean put_initrd(GBytes *image, const LodgeBootRequest *request, LodgeGuestWriter *writer,
                           guint8 *params, GError **error)
{
    guint64 limit = lodge_bytes_number(image, SETUP_INITRD_ADDR_MAX, 4) + 1;
    guint64 gpa, bytes;

    if (!lodge_guest_writer_put_initrd(writer, request->initrd, limit, &gpa, &bytes, error)) {
        return FALSE;
    }
    set_split(params, SETUP_RAMDISK_IMAGE, PARAMS_EXT_RAMDISK_IMAGE, gpa);
    set_split(params, SETUP_RAMDISK_SIZE, PARAMS_EXT_RAMDISK_IMAGE + 4, bytes);
    return TRUE;
}

static gboolean put_command_line(GBytes *image, const char *path, const LodgeBootRequest *request,
                                 LodgeGuestWriter *writer, guint8 *params, GError **error)
{
    guint64 most = lodge_bytes_number(image, SETUP_CMDLINE_SIZE, 4);
    gsize length = strlen(request->command_line);
    guint32 pointer = LODGE_LOW_COMMAND_LINE;

    most = MIN(most, LODGE_LOW_COMMAND_MAX - 1);
    if (length > most) {
        g_set_error(error, LODGE_ERROR, LODGE_ERROR_INPUT,
                    _("The command line has %" G_GSIZE_FORMAT
                      " bytes; the kernel “%s” takes at most %" G_GUINT64_FORMAT),
                    length, path, most);
        return FALSE;
    }
    memcpy(params + SETUP_CMD_LINE_PTR, &pointer, 4);
    return lodge_guest_writer_put_command_line(writer, request->command_line, error);
}

gboolean lodge_bzimage_load(GBytes *image, const char *path, const LodgeBootRequest *request,
                            LodgeGuestWriter *writer, struct hv_boot_state *state_out,
                            GError **error)
{
    g_autofree guint8 *params = g_malloc0(PARAMS_BYTES);
    guint64 payload = payload_offset(image);
    guint64 payload_bytes = g_bytes_get_size(image) - payload;
    guint64 base = lodge_bytes_number(image, SETUP_PREF_ADDRESS, 8);
    guint64 room = MAX(lodge_bytes_number(image, SETUP_INIT_SIZE, 4), payload_bytes);
    /* The header ends where the jump at 0x200 says it does. */
    guint64 header_end = SETUP_HEADER + lodge_bytes_number(image, SETUP_JUMP + 1, 1);
    int rc;

    header_end = MIN(header_end, (guint64)SETUP_END);
    memcpy(params + SETUP_SECTS, lodge_bytes_at(image, SETUP_SECTS, header_end - SETUP_SECTS),
           header_end - SETUP_SECTS);
    params[SETUP_TYPE_OF_LOADER] = LOADER_UNDEFINED;
    memcpy(params + PARAMS_ACPI_RSDP, &request->rsdp, 8);
    fill_memory_map(params, &writer->layout);
    memset(state_out, 0, sizeof(*state_out));
    if (!lodge_guest_writer_take(writer, base, room, "kernel", error) ||
        !put_identity_tables(writer, &state_out->cr3, error) ||
        !put_gdt(writer, state_out, error) ||
        !put_command_line(image, path, request, writer, params, error) ||
        !put_initrd(image, request, writer, params, error) ||
        !lodge_guest_writer_put(writer, LODGE_LOW_BOOT_INFO, params, PARAMS_BYTES,
                                "boot parameters", error)) {
        return FALSE;
    }
    rc = writer->write(writer->context, base, lodge_bytes_at(image, payload, payload_bytes),
                       payload_bytes);
    if (rc < 0) {
        lodge_error_set_errno(error, rc, _("Cannot write the kernel into the machine"));
        return FALSE;
    }
    state_out->long_mode = true;
    state_out->rip = base + ENTRY_64_OFFSET;
    state_out->rsi = LODGE_LOW_BOOT_INFO;
    return TRUE;
}

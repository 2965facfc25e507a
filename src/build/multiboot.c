/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Multiboot 1: header search (3.1), machine state (3.2), boot information (3.3). */
#include "build/multiboot.h"

#include "build/bytes.h"
#include "build/low-memory.h"
#include "build/memory-map.h"
#include "common/i18n.h"
#include "common/lodge-error.h"

#include <string.h>

#define HEADER_MAGIC  0x1badb002u
#define LOADER_MAGIC  0x2badb002u
#define HEADER_SEARCH 8192u
/* Header flags 0 to 15 are requirements: page-aligned modules, memory information, video. */
#define HEADER_KNOWN  0x0007u

enum info_flag {
    INFO_MEMORY = 1u << 0,
    INFO_COMMAND_LINE = 1u << 2,
    INFO_MODULES = 1u << 3,
    INFO_MEMORY_MAP = 1u << 6,
    INFO_LOADER_NAME = 1u << 9,
};

typedef struct {
    guint32 flags, memory_lower, memory_upper, boot_device, command_line, modules, module_list;
    guint32 symbols[4];
    guint32 map_bytes, map, drives_bytes, drives, config_table, loader_name, apm_table;
} Info;

typedef struct {
    guint32 start, end, text, reserved;
} Module;

/* `size` counts what follows it. */
typedef struct __attribute__((packed)) {
    guint32 size;
    guint64 start, length;
    guint32 type;
} MapEntry;

typedef struct {
    Module module;
    MapEntry map[LODGE_MEMORY_RANGES_MAX];
    char loader_name[8];
} Lists;

static gboolean find_header(GBytes *image, guint32 *flags_out)
{
    guint64 end = MIN((guint64)HEADER_SEARCH, g_bytes_get_size(image));

    for (guint64 at = 0; at + 12 <= end; at += 4) {
        guint32 flags = (guint32)lodge_bytes_number(image, at + 4, 4);
        guint32 sum = HEADER_MAGIC + flags + (guint32)lodge_bytes_number(image, at + 8, 4);

        if (lodge_bytes_number(image, at, 4) == HEADER_MAGIC && sum == 0) {
            *flags_out = flags;
            return TRUE;
        }
    }
    return FALSE;
}

gboolean lodge_multiboot_recognise(GBytes *image)
{
    guint32 flags = 0;

    return find_header(image, &flags);
}

static gboolean fill_module(const LodgeBootRequest *request, LodgeGuestWriter *writer, Info *info,
                            Lists *lists, GError **error)
{
    guint64 gpa, bytes;

    if (!lodge_guest_writer_put_initrd(writer, request->initrd, G_MAXUINT64, &gpa, &bytes, error)) {
        return FALSE;
    }
    if (!request->initrd) {
        return TRUE;
    }
    lists->module = (Module){(guint32)gpa, (guint32)(gpa + bytes), LODGE_LOW_COMMAND_LINE, 0};
    info->flags |= INFO_MODULES;
    info->modules = 1;
    info->module_list = LODGE_LOW_LISTS + G_STRUCT_OFFSET(Lists, module);
    return TRUE;
}

static void fill_map(const LodgeGuestWriter *writer, Info *info, Lists *lists)
{
    LodgeMemoryRange ranges[LODGE_MEMORY_RANGES_MAX];
    guint count = lodge_memory_map(&writer->layout, ranges);

    for (guint i = 0; i < count; i++) {
        lists->map[i] =
            (MapEntry){sizeof(MapEntry) - 4, ranges[i].start, ranges[i].length, ranges[i].type};
    }
    info->map = LODGE_LOW_LISTS + G_STRUCT_OFFSET(Lists, map);
    info->map_bytes = count * (guint32)sizeof(MapEntry);
    info->memory_lower = LODGE_LOW_CONVENTIONAL / 1024;
    info->memory_upper = (guint32)((MAX(writer->layout.low_ram_bytes, HV_MIB) - HV_MIB) / 1024);
    info->flags |= INFO_MEMORY | INFO_MEMORY_MAP;
}

gboolean lodge_multiboot_load(GBytes *image, const char *path, const LodgeBootRequest *request,
                              LodgeGuestWriter *writer, struct hv_boot_state *state_out,
                              GError **error)
{
    g_autofree char *command = g_strdup_printf("%s %s", path, request->command_line);
    Lists lists = {.loader_name = "Lodge"};
    Info info = {.flags = INFO_COMMAND_LINE | INFO_LOADER_NAME};
    guint32 flags = 0;

    if (!find_header(image, &flags) || (flags & 0xffff & ~HEADER_KNOWN)) {
        g_set_error(error, LODGE_ERROR, LODGE_ERROR_INPUT,
                    _("Cannot start the kernel “%s”: its Multiboot header requires features %#x, "
                      "which are unknown"),
                    path, flags & 0xffff & ~HEADER_KNOWN);
        return FALSE;
    }
    if (!lodge_elf_load(image, path, writer, error) ||
        !fill_module(request, writer, &info, &lists, error)) {
        return FALSE;
    }
    fill_map(writer, &info, &lists);
    info.command_line = LODGE_LOW_COMMAND_LINE;
    info.loader_name = LODGE_LOW_LISTS + G_STRUCT_OFFSET(Lists, loader_name);
    if (!lodge_guest_writer_put_command_line(writer, command, error) ||
        !lodge_guest_writer_put(writer, LODGE_LOW_LISTS, &lists, sizeof(lists), "boot lists",
                                error) ||
        !lodge_guest_writer_put(writer, LODGE_LOW_BOOT_INFO, &info, sizeof(info),
                                "Multiboot information", error)) {
        return FALSE;
    }
    memset(state_out, 0, sizeof(*state_out));
    state_out->rip = lodge_elf_entry(image);
    state_out->rax = LOADER_MAGIC;
    state_out->rbx = LODGE_LOW_BOOT_INFO;
    return TRUE;
}

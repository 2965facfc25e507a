/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The PVH boot protocol: 32-bit protected mode, flat segments, paging off, EBX = start_info.
 * Layouts: Xen public/arch-x86/hvm/start_info.h, version 1.
 */
#include "build/elf-image.h"

#include "build/low-memory.h"
#include "build/memory-map.h"
#include "common/i18n.h"
#include "common/lodge-error.h"

#include <string.h>

#define START_INFO_MAGIC 0x336ec578u /* "xEn3" with bit 7 of the E set */

typedef struct {
    guint32 magic, version, flags, modules;
    guint64 module_list, command_line, rsdp, memory_map;
    guint32 memory_map_entries, reserved;
} StartInfo;
G_STATIC_ASSERT(sizeof(StartInfo) == 56);

typedef struct {
    guint64 address, bytes, command_line, reserved;
} StartModule;

typedef struct {
    guint64 address, bytes;
    guint32 type, reserved;
} StartMemory;

typedef struct {
    StartModule module;
    StartMemory memory[LODGE_MEMORY_RANGES_MAX];
} StartLists;

static guint fill_memory(StartMemory *memory, const struct hv_platform_layout *layout)
{
    LodgeMemoryRange ranges[LODGE_MEMORY_RANGES_MAX];
    guint count = lodge_memory_map(layout, ranges);

    for (guint i = 0; i < count; i++) {
        memory[i] = (StartMemory){ranges[i].start, ranges[i].length, ranges[i].type, 0};
    }
    return count;
}

gboolean lodge_pvh_load(GBytes *image, const char *path, const LodgeBootRequest *request,
                        LodgeGuestWriter *writer, struct hv_boot_state *state_out, GError **error)
{
    StartInfo info = {.magic = START_INFO_MAGIC, .version = 1};
    StartLists lists = {0};
    guint32 entry = 0;

    if (!lodge_elf_find_pvh_entry(image, &entry) || !lodge_elf_load(image, path, writer, error) ||
        !lodge_guest_writer_put_initrd(writer, request->initrd, G_MAXUINT64, &lists.module.address,
                                       &lists.module.bytes, error)) {
        return FALSE;
    }
    if (request->initrd) {
        info.modules = 1;
        info.module_list = LODGE_LOW_LISTS + G_STRUCT_OFFSET(StartLists, module);
    }
    info.command_line = LODGE_LOW_COMMAND_LINE;
    info.rsdp = request->rsdp;
    info.memory_map = LODGE_LOW_LISTS + G_STRUCT_OFFSET(StartLists, memory);
    info.memory_map_entries = fill_memory(lists.memory, &writer->layout);
    if (!lodge_guest_writer_put_command_line(writer, request->command_line, error) ||
        !lodge_guest_writer_put(writer, LODGE_LOW_LISTS, &lists, sizeof(lists), "boot lists",
                                error) ||
        !lodge_guest_writer_put(writer, LODGE_LOW_BOOT_INFO, &info, sizeof(info), "start info",
                                error)) {
        return FALSE;
    }
    memset(state_out, 0, sizeof(*state_out));
    state_out->rip = entry;
    state_out->rbx = LODGE_LOW_BOOT_INFO;
    return TRUE;
}

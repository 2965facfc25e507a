/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The kernel loaders under libFuzzer: identify, then load into a machine of 64 MiB that only checks
 * where it is written to. The first byte chooses whether there is an initrd.
 */
#include "build/bzimage.h"
#include "build/elf-image.h"
#include "build/image.h"
#include "build/multiboot.h"

#define RAM_BYTES (64 * HV_MIB)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Keeps the reads of check_write(). */
static volatile guint8 read_sum;

/* What the loaders have not taken, or lies outside RAM, they may not write. */
static int check_write(void *context, guint64 gpa, const void *data, guint64 bytes)
{
    const LodgeGuestWriter *writer = context;
    const guint8 *at = data;
    guint8 sum = 0;

    if (bytes > RAM_BYTES || gpa > RAM_BYTES - bytes) {
        __builtin_trap();
    }
    for (guint i = 0; i < writer->taken->len; i++) {
        const LodgeRegion *region = &g_array_index(writer->taken, LodgeRegion, i);

        if (gpa >= region->start && gpa + bytes <= region->end) {
            /* Every byte is there to be read. */
            for (guint64 k = 0; k < bytes; k++) {
                sum ^= at[k];
            }
            read_sum = sum;
            return 0;
        }
    }
    __builtin_trap();
}

static void load(GBytes *image, LodgeKernelKind kind, gboolean with_initrd)
{
    const struct hv_platform_layout layout = {
        .low_ram_bytes = RAM_BYTES, .ioapic_base = 0xfec00000, .vcpus = 1};
    g_autoptr(GBytes) initrd = with_initrd ? g_bytes_new_static("initrd", 6) : NULL;
    const LodgeBootRequest request = {"console=ttyS0", initrd, 0xe0000};
    g_autoptr(GError) error = NULL;
    struct hv_boot_state state;
    LodgeGuestWriter writer;
    gboolean loaded = FALSE;

    lodge_guest_writer_init(&writer, &layout, check_write, &writer);
    switch (kind) {
    case LODGE_KERNEL_BZIMAGE:
        loaded = lodge_bzimage_load(image, "fuzz", &request, &writer, &state, &error);
        break;
    case LODGE_KERNEL_PVH:
        loaded = lodge_pvh_load(image, "fuzz", &request, &writer, &state, &error);
        break;
    case LODGE_KERNEL_MULTIBOOT:
        loaded = lodge_multiboot_load(image, "fuzz", &request, &writer, &state, &error);
        break;
    }
    /* Either it is loaded, or there is one error. */
    if (loaded == (error != NULL)) {
        __builtin_trap();
    }
    lodge_guest_writer_finish(&writer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    g_autoptr(GBytes) image = NULL;
    g_autoptr(GError) error = NULL;
    LodgeKernelKind kind;

    if (size < 1) {
        return 0;
    }
    /* A copy of exactly this size, so that a read beyond it is seen. */
    image = g_bytes_new(data + 1, size - 1);
    if (lodge_kernel_identify(image, "fuzz", &kind, &error)) {
        load(image, kind, data[0] & 1);
    } else if (!error) {
        __builtin_trap();
    }
    return 0;
}

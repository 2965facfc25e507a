/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What each boot protocol leaves in guest memory and in the entry registers. */
#include "build/bzimage.h"
#include "build/elf-image.h"
#include "build/low-memory.h"
#include "build/multiboot.h"
#include "common/lodge-error.h"
#include "images.h"
#include "lib/tap.h"

#include <string.h>

static guint64 peek(const TestGuest *guest, guint64 gpa, guint width)
{
    guint64 value = 0;

    memcpy(&value, guest->ram + gpa, width);
    return value;
}

static void test_bzimage_load(void)
{
    g_autoptr(GByteArray) image = test_bzimage();
    g_autoptr(GBytes) bytes = test_bytes(image);
    g_autoptr(GBytes) initrd = g_bytes_new_static("initrd-data", 11);
    const LodgeBootRequest request = {"console=ttyS0", initrd, 0xe0000};
    struct hv_boot_state state;
    guint64 initrd_at;
    TestGuest guest;

    test_guest_init(&guest);
    TAP_OK(lodge_bzimage_load(bytes, "k", &request, &guest.writer, &state, NULL));
    TAP_OK(state.long_mode);
    TAP_EQ(state.rip, 16 * HV_MIB + 0x200);
    TAP_EQ(state.rsi, LODGE_LOW_BOOT_INFO);
    TAP_EQ(peek(&guest, 16 * HV_MIB, 8), 0x9090909090909090);
    TAP_EQ(peek(&guest, state.rsi + 0x70, 8), 0xe0000);
    TAP_EQ(peek(&guest, state.rsi + 0x210, 1), 0xff);
    TAP_STR((const char *)guest.ram + peek(&guest, state.rsi + 0x228, 4), "console=ttyS0");
    initrd_at = peek(&guest, state.rsi + 0x218, 4);
    TAP_EQ(peek(&guest, state.rsi + 0x21c, 4), 11);
    TAP_EQ(initrd_at, TEST_RAM_BYTES - HV_PAGE_SIZE);
    TAP_OK(memcmp(guest.ram + initrd_at, "initrd-data", 11) == 0);
    /* E820: conventional memory first, then reserved; RAM above 1 MiB to the end. */
    TAP_EQ(peek(&guest, state.rsi + 0x1e8, 1), 5);
    TAP_EQ(peek(&guest, state.rsi + 0x2d0 + 8, 8), LODGE_LOW_CONVENTIONAL);
    TAP_EQ(peek(&guest, state.rsi + 0x2d0 + 3 * 20, 8), HV_MIB);
    TAP_EQ(peek(&guest, state.rsi + 0x2d0 + 3 * 20 + 8, 8), TEST_RAM_BYTES - HV_MIB);
    /* The identity map: level 4 to level 3 to a 2 MiB page that maps itself. */
    TAP_EQ(peek(&guest, state.cr3, 8), (state.cr3 + 0x1000) | 3);
    TAP_EQ(peek(&guest, state.cr3 + 0x1000 + 24, 8), (state.cr3 + 0x5000) | 3);
    TAP_EQ(peek(&guest, state.cr3 + 0x5000 + 511 * 8, 8), 0xffe00083);
    test_guest_finish(&guest);
}

/* Load a bzImage with one word changed, or a larger companion, and expect @cause. */
static gboolean bzimage_refused(guint offset, guint64 value, const LodgeBootRequest *request,
                                const char *cause)
{
    g_autoptr(GByteArray) image = test_bzimage();
    g_autoptr(GBytes) bytes = NULL;
    g_autoptr(GError) error = NULL;
    struct hv_boot_state state;
    gboolean loaded;
    TestGuest guest;

    if (offset) {
        test_poke(image, offset, 4, value);
    }
    bytes = test_bytes(image);
    test_guest_init(&guest);
    loaded = lodge_bzimage_load(bytes, "k", request, &guest.writer, &state, &error);
    test_guest_finish(&guest);
    if (error) {
        tap_note("%s", error->message);
    }
    return !loaded && g_error_matches(error, LODGE_ERROR, LODGE_ERROR_INPUT) &&
           strstr(error->message, cause);
}

static void test_bzimage_limits(void)
{
    g_autofree char *long_line = g_strnfill(2048, 'a');
    g_autofree guint8 *huge = g_malloc0(TEST_RAM_BYTES);
    g_autoptr(GBytes) too_big = g_bytes_new_static(huge, TEST_RAM_BYTES - 20 * HV_MIB);
    const LodgeBootRequest plain = {"", NULL, 0};
    const LodgeBootRequest wordy = {long_line, NULL, 0};
    const LodgeBootRequest heavy = {"", too_big, 0};

    TAP_OK(bzimage_refused(0x260, 64 * HV_MIB, &plain, "kernel does not fit"));
    TAP_OK(bzimage_refused(0x258, 0x7ff00000, &plain, "kernel does not fit"));
    TAP_OK(bzimage_refused(0, 0, &wordy, "at most 2047"));
    TAP_OK(bzimage_refused(0, 0, &heavy, "initrd"));
    TAP_OK(bzimage_refused(0x22c, 0x1000, &heavy, "initrd"));
}

static void test_pvh_load(void)
{
    g_autoptr(GByteArray) image = test_elf(0x100010);
    g_autoptr(GBytes) bytes = test_bytes(image);
    g_autoptr(GBytes) initrd = g_bytes_new_static("abc", 3);
    const LodgeBootRequest request = {"quiet", initrd, 0xe0000};
    struct hv_boot_state state;
    TestGuest guest;
    guint64 info, module;

    test_guest_init(&guest);
    TAP_OK(lodge_pvh_load(bytes, "k", &request, &guest.writer, &state, NULL));
    info = state.rbx;
    TAP_OK(!state.long_mode);
    TAP_EQ(state.rip, 0x100010);
    TAP_EQ(peek(&guest, HV_MIB, 1), 0xf4);
    TAP_EQ(peek(&guest, info, 4), 0x336ec578);
    TAP_EQ(peek(&guest, info + 4, 4), 1);
    TAP_EQ(peek(&guest, info + 12, 4), 1);
    module = peek(&guest, info + 16, 8);
    TAP_EQ(peek(&guest, module + 8, 8), 3);
    TAP_OK(memcmp(guest.ram + peek(&guest, module, 8), "abc", 3) == 0);
    TAP_STR((const char *)guest.ram + peek(&guest, info + 24, 8), "quiet");
    TAP_EQ(peek(&guest, info + 32, 8), 0xe0000);
    TAP_EQ(peek(&guest, info + 48, 4), 5);
    test_guest_finish(&guest);
}

static void test_multiboot_load(void)
{
    g_autoptr(GByteArray) image = test_multiboot(3);
    g_autoptr(GByteArray) demanding = test_multiboot(0x8000);
    g_autoptr(GBytes) bytes = test_bytes(image);
    g_autoptr(GBytes) refused = test_bytes(demanding);
    g_autoptr(GBytes) initrd = g_bytes_new_static("abc", 3);
    const LodgeBootRequest request = {"a b", initrd, 0};
    g_autoptr(GError) error = NULL;
    struct hv_boot_state state;
    guint64 module;
    TestGuest guest;

    test_guest_init(&guest);
    TAP_OK(lodge_multiboot_load(bytes, "file", &request, &guest.writer, &state, NULL));
    TAP_EQ(state.rip, HV_MIB + 16);
    TAP_EQ(state.rax, 0x2badb002);
    TAP_EQ(peek(&guest, state.rbx, 4) & 0x45, 0x45);
    TAP_EQ(peek(&guest, state.rbx + 8, 4), (TEST_RAM_BYTES - HV_MIB) / 1024);
    TAP_STR((const char *)guest.ram + peek(&guest, state.rbx + 16, 4), "file a b");
    TAP_EQ(peek(&guest, peek(&guest, state.rbx + 48, 4), 4), 20);
    TAP_EQ(peek(&guest, state.rbx + 20, 4), 1);
    module = peek(&guest, state.rbx + 24, 4);
    TAP_EQ(peek(&guest, module + 4, 4), peek(&guest, module, 4) + 3);
    TAP_OK(memcmp(guest.ram + peek(&guest, module, 4), "abc", 3) == 0);
    test_guest_finish(&guest);

    test_guest_init(&guest);
    TAP_OK(!lodge_multiboot_load(refused, "file", &request, &guest.writer, &state, &error));
    TAP_OK(strstr(error->message, "requires features") != NULL);
    test_guest_finish(&guest);
}

typedef gboolean (*Load)(GBytes *image, const char *name, const LodgeBootRequest *request,
                         LodgeGuestWriter *writer, struct hv_boot_state *state, GError **error);

/* Does it leave the same in memory that another guest has used? Below @limit; above, a bzImage's
 * kernel clears what it needs itself. */
static gboolean same_in_used_memory(Load load, GByteArray *image, guint64 limit)
{
    g_autoptr(GBytes) bytes = test_bytes(image);
    g_autoptr(GBytes) initrd = g_bytes_new_static("abc", 3);
    const LodgeBootRequest request = {"quiet", initrd, 0xe0000};
    struct hv_boot_state state = {0}, again = {0};
    TestGuest fresh, used;
    gboolean same;

    test_guest_init(&fresh);
    test_guest_init(&used);
    memset(used.ram, 0xa5, TEST_RAM_BYTES);
    same = load(bytes, "k", &request, &fresh.writer, &state, NULL) &&
           load(bytes, "k", &request, &used.writer, &again, NULL) && state.rip == again.rip &&
           fresh.writer.taken->len == used.writer.taken->len;
    for (guint i = 0; same && i < fresh.writer.taken->len; i++) {
        const LodgeRegion *region = &g_array_index(fresh.writer.taken, LodgeRegion, i);

        if (region->end <= limit) {
            same = memcmp(fresh.ram + region->start, used.ram + region->start,
                          region->end - region->start) == 0;
        }
    }
    test_guest_finish(&fresh);
    test_guest_finish(&used);
    return same;
}

/* A machine that reboots keeps its memory, and is loaded anew. */
static void test_used_memory(void)
{
    g_autoptr(GByteArray) linux_image = test_bzimage();
    g_autoptr(GByteArray) pvh = test_elf(0x100010);
    g_autoptr(GByteArray) multiboot = test_multiboot(3);

    TAP_OK(same_in_used_memory(lodge_bzimage_load, linux_image, HV_MIB));
    TAP_OK(same_in_used_memory(lodge_pvh_load, pvh, TEST_RAM_BYTES));
    TAP_OK(same_in_used_memory(lodge_multiboot_load, multiboot, TEST_RAM_BYTES));
}

static void test_overlap(void)
{
    g_autoptr(GError) error = NULL;
    TestGuest guest;
    guint64 at;

    test_guest_init(&guest);
    TAP_OK(lodge_guest_writer_take(&guest.writer, HV_MIB, HV_MIB, "first", NULL));
    TAP_OK(!lodge_guest_writer_take(&guest.writer, 2 * HV_MIB - 1, 1, "second", &error));
    TAP_OK(strstr(error->message, "overlaps the first") != NULL);
    TAP_OK(!lodge_guest_writer_take(&guest.writer, UINT64_MAX - 1, 4, "third", NULL));
    TAP_OK(!lodge_guest_writer_take(&guest.writer, 0, TEST_RAM_BYTES + 1, "fourth", NULL));
    /* The highest place goes below what is taken at the top. */
    TAP_OK(lodge_guest_writer_take(&guest.writer, TEST_RAM_BYTES - HV_MIB, HV_MIB, "top", NULL));
    TAP_OK(lodge_guest_writer_put_high(&guest.writer, "x", 1, UINT64_MAX, "high", &at, NULL));
    TAP_EQ(at, TEST_RAM_BYTES - HV_MIB - HV_PAGE_SIZE);
    test_guest_finish(&guest);
}

/* A line of the most that fits, and one of a byte more; no initrd is none. */
static void test_put(void)
{
    g_autofree char *most = g_strnfill(LODGE_LOW_COMMAND_MAX - 1, 'a');
    g_autofree char *more = g_strnfill(LODGE_LOW_COMMAND_MAX, 'a');
    g_autoptr(GError) error = NULL;
    guint64 at = 1, bytes = 1;
    TestGuest guest;

    test_guest_init(&guest);
    TAP_OK(!lodge_guest_writer_put_command_line(&guest.writer, more, &error));
    TAP_OK(strstr(error->message, "has 65536 bytes; at most 65535") != NULL);
    TAP_OK(lodge_guest_writer_put_command_line(&guest.writer, most, NULL));
    TAP_STR((const char *)guest.ram + LODGE_LOW_COMMAND_LINE, most);
    TAP_EQ(guest.writer.taken->len, 1);
    TAP_OK(lodge_guest_writer_put_initrd(&guest.writer, NULL, UINT64_MAX, &at, &bytes, NULL));
    TAP_EQ(at + bytes, 0);
    TAP_EQ(guest.writer.taken->len, 1);
    test_guest_finish(&guest);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"build.bzimage.load", test_bzimage_load},
        {"build.bzimage.limits", test_bzimage_limits},
        {"build.pvh.load", test_pvh_load},
        {"build.multiboot.load", test_multiboot_load},
        {"build.writer.used-memory", test_used_memory},
        {"build.writer.overlap", test_overlap},
        {"build.writer.put", test_put},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Files that are no kernel, each refused with its cause; every cut of a good one. */
#include "build/image.h"

#include "common/lodge-error.h"
#include "images.h"
#include "lib/tap.h"

#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>

/* Reading @path must fail with a message that holds path and @cause. */
static gboolean read_fails(const char *path, const char *cause)
{
    g_autoptr(GError) error = NULL;
    GBytes *bytes = lodge_image_read("kernel", path, &error);

    if (bytes) {
        g_bytes_unref(bytes);
        return FALSE;
    }
    tap_note("%s", error->message);
    return g_error_matches(error, LODGE_ERROR, LODGE_ERROR_INPUT) && strstr(error->message, path) &&
           strstr(error->message, cause);
}

static void test_read(void)
{
    g_autofree char *empty = test_file(NULL, 0);
    g_autofree char *fifo = g_strconcat(empty, ".fifo", NULL);

    TAP_OK(read_fails("/nonexistent/kernel", "No such file"));
    TAP_OK(read_fails("/", "directory"));
    TAP_OK(read_fails("/dev/null", "not a regular file"));
    TAP_OK(read_fails(empty, "empty"));
    TAP_OK(mkfifo(fifo, 0600) == 0);
    TAP_OK(read_fails(fifo, "not a regular file"));
    g_unlink(fifo);
    g_unlink(empty);
}

static void test_unreadable(void)
{
    g_autofree char *path = test_file("x", 1);

    if (getuid() == 0) {
        tap_skip("root reads every file");
    } else {
        g_chmod(path, 0);
        TAP_OK(read_fails(path, "Permission denied"));
    }
    g_unlink(path);
}

static gboolean identify(GByteArray *image, LodgeKernelKind *kind, const char *cause)
{
    g_autoptr(GBytes) bytes = test_bytes(image);
    g_autoptr(GError) error = NULL;

    if (lodge_kernel_identify(bytes, "some/kernel", kind, &error)) {
        return cause == NULL;
    }
    tap_note("%s", error->message);
    return cause && strstr(error->message, cause) && strstr(error->message, "some/kernel");
}

static void test_identify(void)
{
    g_autoptr(GByteArray) bzimage = test_bzimage();
    g_autoptr(GByteArray) pvh = test_elf(0x100000);
    g_autoptr(GByteArray) multiboot = test_multiboot(0);
    g_autoptr(GByteArray) plain = test_elf(0);
    LodgeKernelKind kind;

    TAP_OK(identify(bzimage, &kind, NULL));
    TAP_EQ(kind, LODGE_KERNEL_BZIMAGE);
    TAP_OK(identify(pvh, &kind, NULL));
    TAP_EQ(kind, LODGE_KERNEL_PVH);
    TAP_OK(identify(multiboot, &kind, NULL));
    TAP_EQ(kind, LODGE_KERNEL_MULTIBOOT);
    TAP_OK(identify(plain, &kind, "neither a PVH"));
    memset(plain->data, 'x', plain->len);
    TAP_OK(identify(plain, &kind, "no kernel Lodge can start"));
}

static void test_refuse_bzimage(void)
{
    static const struct {
        guint offset, width;
        guint64 value;
        const char *cause;
    } rows[] = {
        {0x236, 2, 0, "32-bit kernel"},
        {0x206, 2, 0x0208, "older than 2.12"},
        {0x1f4, 4, 0xffffffff, "truncated"},
        {0x1f1, 1, 255, "truncated"},
        {0x258, 8, 0x100, "impossible load address"},
        {0x258, 8, HV_MIB + 1, "impossible load address"},
    };

    for (gsize i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autoptr(GByteArray) image = test_bzimage();
        LodgeKernelKind kind;

        test_poke(image, rows[i].offset, rows[i].width, rows[i].value);
        TAP_OK(identify(image, &kind, rows[i].cause));
    }
}

static void test_refuse_elf(void)
{
    static const struct {
        guint offset, width;
        guint64 value;
        const char *cause;
    } rows[] = {
        {18, 2, 183, "another processor"}, /* e_machine: AArch64 */
        {5, 1, 2, "another processor"},    /* big-endian */
        {56, 2, 0, "program headers"},     /* e_phnum */
        {56, 2, 0xffff, "program headers"},
        {32, 8, 0xfffffffffffffff0, "truncated"}, /* e_phoff */
        {64 + 8, 8, 1u << 30, "a segment is missing"},
        {64 + 32, 8, 1u << 30, "a segment is missing"}, /* p_filesz */
        {64 + 40, 8, 1, "larger in the file"},          /* p_memsz */
    };

    for (gsize i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autoptr(GByteArray) image = test_elf(0x100000);
        LodgeKernelKind kind;

        test_poke(image, rows[i].offset, rows[i].width, rows[i].value);
        TAP_OK(identify(image, &kind, rows[i].cause));
    }
}

/* No cut of a good image may crash or be taken for a whole one. */
static void test_cuts(void)
{
    GByteArray *(*const make[])(void) = {test_bzimage};
    LodgeKernelKind kind;

    for (gsize i = 0; i < G_N_ELEMENTS(make); i++) {
        g_autoptr(GByteArray) image = make[i]();
        guint whole = image->len;

        for (guint length = 1; length < whole; length++) {
            g_autoptr(GBytes) bytes = g_bytes_new(image->data, length);

            TAP_OK(!lodge_kernel_identify(bytes, "cut", &kind, NULL));
        }
    }
    for (guint length = 1; length < 1024 + 256; length++) {
        g_autoptr(GByteArray) image = test_elf(0x100000);
        g_autoptr(GBytes) bytes = g_bytes_new(image->data, length);

        TAP_OK(!lodge_kernel_identify(bytes, "cut", &kind, NULL));
    }
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"build.image.read", test_read},         {"build.image.unreadable", test_unreadable},
        {"build.image.identify", test_identify}, {"build.image.bzimage", test_refuse_bzimage},
        {"build.image.elf", test_refuse_elf},    {"build.image.cuts", test_cuts},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Kernel images made by hand. */
#include "images.h"

#include <elf.h>
#include <errno.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

static int write_ram(void *context, guint64 gpa, const void *data, guint64 bytes)
{
    TestGuest *guest = context;

    if (bytes > TEST_RAM_BYTES || gpa > TEST_RAM_BYTES - bytes) {
        return -EINVAL;
    }
    memcpy(guest->ram + gpa, data, bytes);
    return 0;
}

void test_guest_init(TestGuest *guest)
{
    const struct hv_platform_layout layout = {
        .low_ram_bytes = TEST_RAM_BYTES,
        .ioapic_base = 0xfec00000,
        .lapic_base = 0xfee00000,
        .hpet_base = 0xfed00000,
        .pm_event_port = 0x600,
        .pm_control_port = 0x604,
        .pm_timer_port = 0x608,
        .sci_irq = 9,
        .reset_port = 0xcf9,
        .reset_value = 6,
        .s5_sleep_type = 5,
        .vcpus = 3,
    };

    guest->ram = g_malloc0(TEST_RAM_BYTES);
    lodge_guest_writer_init(&guest->writer, &layout, write_ram, guest);
}

void test_guest_finish(TestGuest *guest)
{
    lodge_guest_writer_finish(&guest->writer);
    g_free(guest->ram);
}

void test_poke(GByteArray *image, guint offset, guint width, guint64 value)
{
    memcpy(image->data + offset, &value, width);
}

static GByteArray *zeros(guint bytes)
{
    GByteArray *image = g_byte_array_sized_new(bytes);

    g_byte_array_set_size(image, bytes);
    memset(image->data, 0, bytes);
    return image;
}

GByteArray *test_bzimage(void)
{
    GByteArray *image = zeros(5 * 512 + 4096);

    test_poke(image, 0x1f1, 1, 4);         /* setup_sects */
    test_poke(image, 0x1f4, 4, 4096 / 16); /* syssize */
    test_poke(image, 0x1fe, 2, 0xaa55);    /* boot_flag */
    test_poke(image, 0x200, 2, 0x6ceb);    /* jump: the header ends at 0x26e */
    memcpy(image->data + 0x202, "HdrS", 4);
    test_poke(image, 0x206, 2, 0x020f);      /* version */
    test_poke(image, 0x22c, 4, 0x7fffffff);  /* initrd_addr_max */
    test_poke(image, 0x236, 2, 1);           /* xloadflags: 64-bit entry */
    test_poke(image, 0x238, 4, 2047);        /* cmdline_size */
    test_poke(image, 0x258, 8, 16 * HV_MIB); /* pref_address */
    test_poke(image, 0x260, 4, 8 * HV_MIB);  /* init_size */
    memset(image->data + 5 * 512, 0x90, 4096);
    return image;
}

GByteArray *test_elf(guint32 pvh_entry)
{
    enum { NOTE_AT = 512, CODE_AT = 1024 };
    const Elf64_Phdr segments[2] = {
        {.p_type = PT_LOAD,
         .p_offset = CODE_AT,
         .p_paddr = HV_MIB,
         .p_filesz = 256,
         .p_memsz = 4096},
        {.p_type = PT_NOTE, .p_offset = NOTE_AT, .p_filesz = 20},
    };
    const Elf64_Ehdr header = {
        .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
        .e_type = ET_EXEC,
        .e_machine = EM_X86_64,
        .e_entry = HV_MIB,
        .e_phoff = sizeof(header),
        .e_phentsize = sizeof(segments[0]),
        .e_phnum = pvh_entry ? 2 : 1,
    };
    const guint32 note[5] = {4, 4, 18, 0x006e6558, pvh_entry}; /* "Xen" */
    GByteArray *image = zeros(CODE_AT + 256);

    memcpy(image->data, &header, sizeof(header));
    memcpy(image->data + sizeof(header), segments, sizeof(segments));
    memcpy(image->data + NOTE_AT, note, sizeof(note));
    memset(image->data + CODE_AT, 0xf4, 256);
    return image;
}

GByteArray *test_multiboot(guint32 flags)
{
    enum { HEADER_AT = 256, CODE_AT = 512 };
    const Elf32_Phdr segment = {
        .p_type = PT_LOAD, .p_offset = CODE_AT, .p_paddr = HV_MIB, .p_filesz = 128, .p_memsz = 128};
    const Elf32_Ehdr header = {
        .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS32, ELFDATA2LSB, EV_CURRENT},
        .e_type = ET_EXEC,
        .e_machine = EM_386,
        .e_entry = HV_MIB + 16,
        .e_phoff = sizeof(header),
        .e_phentsize = sizeof(segment),
        .e_phnum = 1,
    };
    GByteArray *image = zeros(CODE_AT + 128);

    memcpy(image->data, &header, sizeof(header));
    memcpy(image->data + sizeof(header), &segment, sizeof(segment));
    test_poke(image, HEADER_AT, 4, 0x1badb002);
    test_poke(image, HEADER_AT + 4, 4, flags);
    test_poke(image, HEADER_AT + 8, 4, (guint32) - (0x1badb002 + flags));
    return image;
}

GBytes *test_bytes(GByteArray *image)
{
    return g_bytes_new(image->data, image->len);
}

char *test_file(gconstpointer data, gsize bytes)
{
    char *path = NULL;
    int fd = g_file_open_tmp("lodge-test-XXXXXX", &path, NULL);

    if (fd >= 0 && bytes) {
        gssize wrote = write(fd, data, bytes);

        g_assert_cmpint(wrote, ==, (gssize)bytes);
    }
    g_close(fd, NULL);
    return path;
}

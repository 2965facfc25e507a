/* SPDX-License-Identifier: GPL-3.0-or-later */
/* ELF headers of both widths seen through one structure. */
#include "build/elf-image.h"

#include "build/bytes.h"
#include "common/i18n.h"
#include "common/lodge-error.h"

#include <elf.h>
#include <string.h>

/* More program headers than any kernel has; a bound for loops a file controls. */
#define SEGMENTS_MAX             64u
/* Xen's public/elfnote.h. */
#define XEN_ELFNOTE_PHYS32_ENTRY 18u

typedef struct {
    guint32 type;
    guint64 offset, physical, file_bytes, memory_bytes;
} Segment;

static gboolean is_64(GBytes *image)
{
    return lodge_bytes_number(image, EI_CLASS, 1) == ELFCLASS64;
}

static guint segment_count(GBytes *image)
{
    return (guint)(is_64(image)
                       ? lodge_bytes_number(image, G_STRUCT_OFFSET(Elf64_Ehdr, e_phnum), 2)
                       : lodge_bytes_number(image, G_STRUCT_OFFSET(Elf32_Ehdr, e_phnum), 2));
}

static guint64 segments_offset(GBytes *image)
{
    return is_64(image) ? lodge_bytes_number(image, G_STRUCT_OFFSET(Elf64_Ehdr, e_phoff), 8)
                        : lodge_bytes_number(image, G_STRUCT_OFFSET(Elf32_Ehdr, e_phoff), 4);
}

static Segment segment(GBytes *image, guint index)
{
    if (is_64(image)) {
        guint64 at = segments_offset(image) + (guint64)index * sizeof(Elf64_Phdr);
        Elf64_Phdr header;

        memcpy(&header, lodge_bytes_at(image, at, sizeof(header)), sizeof(header));
        return (Segment){header.p_type, header.p_offset, header.p_paddr, header.p_filesz,
                         header.p_memsz};
    } else {
        guint64 at = segments_offset(image) + (guint64)index * sizeof(Elf32_Phdr);
        Elf32_Phdr header;

        memcpy(&header, lodge_bytes_at(image, at, sizeof(header)), sizeof(header));
        return (Segment){header.p_type, header.p_offset, header.p_paddr, header.p_filesz,
                         header.p_memsz};
    }
}

gboolean lodge_elf_recognise(GBytes *image)
{
    const guint8 *magic = lodge_bytes_at(image, 0, SELFMAG);

    return magic && memcmp(magic, ELFMAG, SELFMAG) == 0;
}

static gboolean refuse(GError **error, const char *path, const char *cause)
{
    g_set_error(error, LODGE_ERROR, LODGE_ERROR_INPUT, _("Cannot start the kernel “%s”: %s"), path,
                cause);
    return FALSE;
}

gboolean lodge_elf_check(GBytes *image, const char *path, GError **error)
{
    gsize header_bytes = is_64(image) ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr);
    guint64 machine;
    guint count;

    if (!lodge_bytes_has(image, 0, is_64(image) ? sizeof(Elf64_Ehdr) : sizeof(Elf32_Ehdr))) {
        return refuse(error, path, _("the file is truncated inside its ELF header"));
    }
    machine = lodge_bytes_number(image, G_STRUCT_OFFSET(Elf64_Ehdr, e_machine), 2);
    if (lodge_bytes_number(image, EI_DATA, 1) != ELFDATA2LSB ||
        (machine != EM_X86_64 && machine != EM_386)) {
        return refuse(error, path, _("it is an ELF file for another processor"));
    }
    count = segment_count(image);
    if (count == 0 || count > SEGMENTS_MAX) {
        return refuse(error, path, _("it has no, or too many, ELF program headers"));
    }
    if (!lodge_bytes_has(image, segments_offset(image), (guint64)count * header_bytes)) {
        return refuse(error, path, _("the file is truncated: its program headers are missing"));
    }
    for (guint i = 0; i < count; i++) {
        Segment one = segment(image, i);

        if (one.type != PT_LOAD && one.type != PT_NOTE) {
            continue;
        }
        if (!lodge_bytes_has(image, one.offset, one.file_bytes)) {
            return refuse(error, path, _("the file is truncated: a segment is missing"));
        }
        if (one.type == PT_LOAD && one.file_bytes > one.memory_bytes) {
            return refuse(error, path, _("a segment is larger in the file than in memory"));
        }
    }
    return TRUE;
}

/* Walk the notes of one segment, each {name size, descriptor size, type, name, descriptor} padded
 * to 4 bytes. */
static gboolean find_in_notes(GBytes *image, const Segment *notes, guint32 *entry_out)
{
    guint64 at = notes->offset;
    guint64 end = notes->offset + notes->file_bytes;

    while (end - at >= 12) {
        guint64 name_bytes = lodge_bytes_number(image, at, 4);
        guint64 value_bytes = lodge_bytes_number(image, at + 4, 4);
        guint64 type = lodge_bytes_number(image, at + 8, 4);
        guint64 value_at = at + 12 + ((name_bytes + 3) & ~G_GUINT64_CONSTANT(3));
        const guint8 *name = lodge_bytes_at(image, at + 12, 4);

        if (value_at > end || value_bytes > end - value_at) {
            return FALSE;
        }
        if (type == XEN_ELFNOTE_PHYS32_ENTRY && name_bytes == 4 && name &&
            memcmp(name, "Xen", 4) == 0 && value_bytes >= 4) {
            *entry_out = (guint32)lodge_bytes_number(image, value_at, 4);
            return TRUE;
        }
        at = MIN(end, value_at + ((value_bytes + 3) & ~G_GUINT64_CONSTANT(3)));
    }
    return FALSE;
}

gboolean lodge_elf_find_pvh_entry(GBytes *image, guint32 *entry_out)
{
    for (guint i = 0; i < segment_count(image); i++) {
        Segment one = segment(image, i);

        if (one.type == PT_NOTE && find_in_notes(image, &one, entry_out)) {
            return TRUE;
        }
    }
    return FALSE;
}

guint64 lodge_elf_entry(GBytes *image)
{
    return is_64(image) ? lodge_bytes_number(image, G_STRUCT_OFFSET(Elf64_Ehdr, e_entry), 8)
                        : lodge_bytes_number(image, G_STRUCT_OFFSET(Elf32_Ehdr, e_entry), 4);
}

gboolean lodge_elf_load(GBytes *image, const char *path, LodgeGuestWriter *writer, GError **error)
{
    guint loaded = 0;

    for (guint i = 0; i < segment_count(image); i++) {
        Segment one = segment(image, i);
        int rc;

        if (one.type != PT_LOAD || one.memory_bytes == 0) {
            continue;
        }
        if (!lodge_guest_writer_take(writer, one.physical, one.memory_bytes, "kernel segment",
                                     error)) {
            return FALSE;
        }
        rc = one.file_bytes
                 ? writer->write(writer->context, one.physical,
                                 lodge_bytes_at(image, one.offset, one.file_bytes), one.file_bytes)
                 : 0;
        if (rc < 0) {
            lodge_error_set_errno(error, rc, _("Cannot write the kernel “%s” into the machine"),
                                  path);
            return FALSE;
        }
        if (!lodge_guest_writer_clear(writer, one.physical + one.file_bytes,
                                      one.memory_bytes - one.file_bytes, "kernel segment", error)) {
            return FALSE;
        }
        loaded++;
    }
    return loaded ? TRUE : refuse(error, path, _("it has nothing to load"));
}

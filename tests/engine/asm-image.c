/* SPDX-License-Identifier: GPL-3.0-or-later */
/* See asm-image.h. The file comes from our own linker: what is checked is that it is one. */
#include "engine/asm-image.h"

#include "lib/tap.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES_MOST (1u << 20)

struct asm_image {
    const Elf64_Ehdr *header;
    const Elf64_Sym *symbol;
    size_t symbols;
    const char *names;
    size_t size;
    _Alignas(Elf64_Ehdr) uint8_t bytes[BYTES_MOST];
};

static const void *at(const struct asm_image *image, uint64_t offset, uint64_t bytes)
{
    return offset <= image->size && bytes <= image->size - offset ? image->bytes + offset : NULL;
}

static bool find_symbols(struct asm_image *image)
{
    const Elf64_Ehdr *header = image->header;
    const Elf64_Shdr *section =
        at(image, header->e_shoff, (uint64_t)header->e_shnum * sizeof(*section));

    for (unsigned i = 0; section && i < header->e_shnum; i++) {
        if (section[i].sh_type == SHT_SYMTAB && section[i].sh_link < header->e_shnum) {
            const Elf64_Shdr *names = &section[section[i].sh_link];

            image->symbol = at(image, section[i].sh_offset, section[i].sh_size);
            image->symbols = section[i].sh_size / sizeof(*image->symbol);
            image->names = at(image, names->sh_offset, names->sh_size);
            return image->symbol && image->names;
        }
    }
    return false;
}

struct asm_image *asm_image_open(const char *path)
{
    struct asm_image *image = calloc(1, sizeof(*image));
    FILE *file = fopen(path, "rb");

    if (!image || !file) {
        tap_note("%s: cannot be read", path);
        goto out;
    }
    image->size = fread(image->bytes, 1, sizeof(image->bytes), file);
    image->header = at(image, 0, sizeof(*image->header));
    if (image->header && memcmp(image->header->e_ident, ELFMAG, SELFMAG) == 0 &&
        image->header->e_ident[EI_CLASS] == ELFCLASS64 && find_symbols(image)) {
        fclose(file);
        return image;
    }
    tap_note("%s: no 64-bit ELF with symbols", path);
out:
    if (file) {
        fclose(file);
    }
    free(image);
    return NULL;
}

void asm_image_close(struct asm_image *image)
{
    free(image);
}

uint64_t asm_image_entry(const struct asm_image *image)
{
    return image->header->e_entry;
}

void asm_image_load(const struct asm_image *image, struct soft_machine *machine)
{
    static const uint8_t zeros[HV_PAGE_SIZE];
    const Elf64_Ehdr *header = image->header;
    const Elf64_Phdr *segment =
        at(image, header->e_phoff, (uint64_t)header->e_phnum * sizeof(*segment));

    for (unsigned i = 0; segment && i < header->e_phnum; i++) {
        const void *bytes = at(image, segment[i].p_offset, segment[i].p_filesz);

        if (segment[i].p_type != PT_LOAD || !bytes) {
            continue;
        }
        for (uint64_t zero = 0; zero < segment[i].p_memsz; zero += sizeof(zeros)) {
            soft_machine_write(machine, segment[i].p_paddr + zero, zeros, sizeof(zeros));
        }
        soft_machine_write(machine, segment[i].p_paddr, bytes, segment[i].p_filesz);
    }
}

bool asm_image_symbol(const struct asm_image *image, const char *name, size_t length,
                      uint64_t *value_out)
{
    for (size_t i = 0; i < image->symbols; i++) {
        const char *candidate = image->names + image->symbol[i].st_name;

        if (strncmp(candidate, name, length) == 0 && candidate[length] == '\0') {
            *value_out = image->symbol[i].st_value;
            return true;
        }
    }
    return false;
}

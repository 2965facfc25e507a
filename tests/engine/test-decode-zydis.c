/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The decoder against Zydis: over the code of whatever large ELF files the system has, and over
 * random bytes in all three modes.
 *
 * LODGE_TEST_LONG in the environment takes the bounds away (minutes instead of seconds),
 * LODGE_TEST_VMLINUX names a kernel to read as well.
 */
#include "engine/isa-encode.h"
#include "engine/zydis-compare.h"
#include "lib/tap.h"

#include <elf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define INSNS_OF_FILE 200000u
#define RANDOM_INSNS  1200000u
#define LONG_FACTOR   100u
/* Times that a row is hit in each mode, operand size and form it has. */
#define ROW_HITS      20u
/* Reports that are printed in full before only the count goes on. */
#define REPORTS       8u

struct tally {
    struct zydis_compare *compare;
    uint64_t instructions; /* of ours that decoded */
    uint64_t differences;
};

static bool is_long(void)
{
    return getenv("LODGE_TEST_LONG") != NULL;
}

/* One instruction by both; a difference is reported with its bytes. Returns the bytes to go on by. */
static unsigned check(struct tally *tally, enum soft_mode mode, const uint8_t *bytes,
                      size_t available)
{
    static const char *const names[] = {"16", "32", "64"};
    char hex[SOFT_INSN_MAX * 3 + 1] = "";
    unsigned length;
    const char *text;
    int row;

    text = zydis_compare(tally->compare, mode, bytes, available, &length, &row);
    if (row >= 0)
        tally->instructions++;
    if (!text)
        return length;
    for (size_t i = 0; i < available && i < SOFT_INSN_MAX; i++)
        sprintf(hex + 3 * i, " %02x", bytes[i]);
    if (++tally->differences <= REPORTS)
        tap_fail(__FILE__, __LINE__, "mode %s:%s: %s", names[mode], hex, text);
    return length;
}

static void report(const struct tally *tally)
{
    tap_note("%" PRIu64 " instructions, %" PRIu64 " differences, %" PRIu64 " excused",
             tally->instructions, tally->differences, zydis_compare_excused(tally->compare));
}

static void check_section(struct tally *tally, const uint8_t *bytes, size_t length, uint64_t *left)
{
    for (size_t at = 0; at < length && *left; (*left)--)
        at += check(tally, SOFT_MODE_64, bytes + at, length - at);
}

/* All executable sections of a 64-bit ELF file; malformed ones are left alone. */
static void check_elf(struct tally *tally, const uint8_t *file, size_t length)
{
    uint64_t left = is_long() ? UINT64_MAX : INSNS_OF_FILE;
    Elf64_Ehdr header;

    if (length < sizeof(header))
        return;
    memcpy(&header, file, sizeof(header));
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_machine != EM_X86_64)
        return;
    for (unsigned i = 0; i < header.e_shnum; i++) {
        size_t at = header.e_shoff + i * sizeof(Elf64_Shdr);
        Elf64_Shdr section;

        if (at > length || length - at < sizeof(section))
            return;
        memcpy(&section, file + at, sizeof(section));
        if (section.sh_type != SHT_PROGBITS || !(section.sh_flags & SHF_EXECINSTR) ||
            section.sh_offset > length || length - section.sh_offset < section.sh_size)
            continue;
        check_section(tally, file + section.sh_offset, section.sh_size, &left);
    }
}

/* Returns false when there is no such file. */
static bool check_file(struct tally *tally, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    void *file;

    if (fd < 0)
        return false;
    if (fstat(fd, &status) != 0 || status.st_size == 0) {
        close(fd);
        return false;
    }
    file = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (file == MAP_FAILED)
        return false;
    check_elf(tally, file, (size_t)status.st_size);
    munmap(file, (size_t)status.st_size);
    return true;
}

static void test_elf(void)
{
    /* The vector code of libm and libcrypto, the ordinary code of the others. */
    static const char *const paths[] = {
        "/lib/x86_64-linux-gnu/libc.so.6",
        "/lib/x86_64-linux-gnu/libm.so.6",
        "/usr/lib/x86_64-linux-gnu/libcrypto.so.3",
        "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
        "/usr/lib/x86_64-linux-gnu/libpython3.11.so.1.0",
        "/usr/bin/python3.11",
        "/lib64/libc.so.6",
    };
    const char *kernel = getenv("LODGE_TEST_VMLINUX");
    struct tally tally = {.compare = zydis_compare_create()};
    unsigned files = 0;

    for (size_t i = 0; i < HV_ARRAY_LEN(paths); i++)
        files += check_file(&tally, paths[i]);
    if (kernel && !check_file(&tally, kernel))
        tap_note("no file %s", kernel);
    report(&tally);
    zydis_compare_destroy(tally.compare);
    if (!files)
        tap_skip("None of the ELF files is there.");
    else
        TAP_OK(tally.instructions > 0);
}

/* Prefixes in front, an opcode map, then noise: plain noise seldom reaches the long encodings. */
static void random_instruction(uint8_t bytes[SOFT_INSN_MAX + 1])
{
    static const uint8_t prefixes[] = {0x66, 0x66, 0x67, 0xf0, 0xf2, 0xf3, 0xf2, 0xf3, 0x2e, 0x3e,
                                       0x64, 0x65, 0x26, 0x36, 0x48, 0x40, 0x41, 0x44, 0x4f};
    uint64_t choice = tap_rng(), noise[2] = {tap_rng(), tap_rng()};
    unsigned at = 0;

    memcpy(bytes, noise, sizeof(noise));
    for (; (choice & 3) == 0 && at < 5; choice >>= 2)
        bytes[at++] = prefixes[tap_rng() % sizeof(prefixes)];
    choice = tap_rng();
    switch (choice & 7) {
    case 0:
    case 1:
        bytes[at] = 0x0f;
        break;
    case 2:
        bytes[at] = 0x0f;
        bytes[at + 1] = choice & 8 ? 0x38 : 0x3a;
        break;
    case 3: /* three-byte VEX, of a map that exists, vvvv mostly unused */
        bytes[at] = 0xc4;
        bytes[at + 1] = (uint8_t)((bytes[at + 1] & 0xe0) | (1 + tap_rng() % 3));
        bytes[at + 2] |= choice & 0x18 ? 0x78 : 0;
        break;
    case 4:
        bytes[at] = 0xc5;
        bytes[at + 1] |= choice & 0x18 ? 0x78 : 0;
        break;
    default:
        break;
    }
}

static void test_random(void)
{
    uint64_t count = RANDOM_INSNS * (is_long() ? (uint64_t)LONG_FACTOR : 1u);
    struct tally tally = {.compare = zydis_compare_create()};
    uint8_t bytes[SOFT_INSN_MAX + 1];

    for (uint64_t i = 0; i < count; i++) {
        random_instruction(bytes);
        /* Every eighth is cut short: SHORT must promise an instruction. */
        check(&tally, (enum soft_mode)(i % 3), bytes,
              i % 8 ? sizeof(bytes) : 1 + tap_rng() % SOFT_INSN_MAX);
    }
    report(&tally);
    zydis_compare_destroy(tally.compare);
    TAP_OK(tally.instructions > count / 2);
}

/* Encodings of @row in every mode, operand size and form. Returns how many there were. */
static unsigned check_row(struct tally *tally, const struct isa_encoder *encoder, uint16_t row,
                          struct isa_random *random)
{
    static const uint8_t sizes[] = {2, 4, 8, 0};
    unsigned hits = 0;

    for (unsigned i = 0; i < 3 * 4 * 2 * 2; i++) {
        struct isa_shape shape = {.mode = (enum soft_mode)(i % 3),
                                  .operand_bytes = sizes[i / 3 % 4],
                                  .memory = i / 12 % 2,
                                  .lock = i / 24 && (soft_isa_row(row)->flags & SOFT_ISA_LOCKABLE),
                                  .repeat = i / 24 && (soft_isa_row(row)->flags & SOFT_ISA_STRING)};
        unsigned times = i / 24 && !shape.lock && !shape.repeat ? 0 : ROW_HITS;

        for (unsigned k = 0; k < times; k++) {
            uint8_t bytes[SOFT_INSN_MAX];
            struct soft_insn insn;

            if (!isa_encode(encoder, row, &shape, random, bytes, &insn))
                break;
            check(tally, shape.mode, bytes, sizeof(bytes));
            hits++;
        }
    }
    return hits;
}

/* No row is left out, however seldom noise would find it. */
static void test_rows(void)
{
    struct tally tally = {.compare = zydis_compare_create()};
    struct isa_encoder *encoder = isa_encoder_create();
    struct isa_random random = {tap_rng()};

    for (size_t row = 0; row < soft_isa_rows(); row++) {
        if (check_row(&tally, encoder, (uint16_t)row, &random) < ROW_HITS)
            tap_fail(__FILE__, __LINE__, "row %zu, %s, was hardly hit", row,
                     soft_isa_row((uint16_t)row)->mnemonic);
    }
    report(&tally);
    isa_encoder_destroy(encoder);
    zydis_compare_destroy(tally.compare);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"engine.decode.elf", test_elf},
        {"engine.decode.random", test_random},
        {"engine.decode.rows", test_rows},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

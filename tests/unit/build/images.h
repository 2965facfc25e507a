/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Kernel images made by hand, and a guest memory that is an array. */
#pragma once

#include "build/guest-writer.h"

/* Memory of the guest that loaders write to. */
#define TEST_RAM_BYTES (64 * HV_MIB)

typedef struct {
    LodgeGuestWriter writer;
    guint8 *ram;
} TestGuest;

/** A guest of TEST_RAM_BYTES, all zero, with the usual layout. */
void test_guest_init(TestGuest *guest);
void test_guest_finish(TestGuest *guest);

/** A bzImage of protocol 2.15 that passes every check: payload of 4 KiB filled with 0x90. */
GByteArray *test_bzimage(void);

/** An ELF64 with one segment at 1 MiB; @pvh_entry != 0 adds a note with it. */
GByteArray *test_elf(guint32 pvh_entry);

/** An ELF32 with a Multiboot header of @flags and one segment at 1 MiB. */
GByteArray *test_multiboot(guint32 flags);

/** Overwrite @width bytes at @offset. */
void test_poke(GByteArray *image, guint offset, guint width, guint64 value);

/** The image as bytes; @image stays the caller's. */
GBytes *test_bytes(GByteArray *image);

/** Write it to a file in the temporary folder; the path is freed with g_free(), the file unlinked by
 * the caller. */
char *test_file(gconstpointer data, gsize bytes);

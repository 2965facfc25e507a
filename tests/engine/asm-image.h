/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A payload of tests/engine/asm as the linker left it: a small ELF of our own making. */
#pragma once

#include "engine/soft-machine.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct asm_image;

/** NULL, with a note said, when @path cannot be read or is no such ELF. */
struct asm_image *asm_image_open(const char *path);
/** Accepts NULL. */
void asm_image_close(struct asm_image *image);

uint64_t asm_image_entry(const struct asm_image *image);
/** Its segments, what the file leaves out as zeros. */
void asm_image_load(const struct asm_image *image, struct soft_machine *machine);
/** The value of the symbol whose name are @length characters at @name. */
bool asm_image_symbol(const struct asm_image *image, const char *name, size_t length,
                      uint64_t *value_out);

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Our decoder against Zydis 4.0, instruction by instruction: validity, length, mnemonic, operands,
 * memory, immediates.
 *
 * Where the two differ for a reason (an extension that we hide, a row in which Zydis departs from
 * the manual or from silicon) the reason stands in a table of zydis-compare.c; every other
 * difference is a failure of one of them.
 */
#pragma once

#include "engine/soft/decode.h"

struct zydis_compare;

/** Three decoders, one a mode. Dies of no memory. */
struct zydis_compare *zydis_compare_create(void);
void zydis_compare_destroy(struct zydis_compare *compare);

/**
 * Decode the instruction at @bytes by both.
 *
 * @length_out  bytes to go on by: the instruction's, or 1 when there is none.
 * @row_out     our row, or -1 when it did not decode.
 *
 * Returns NULL when they agree, or what they disagree in: a text that lasts until the next call.
 */
const char *zydis_compare(struct zydis_compare *compare, enum soft_mode mode, const uint8_t *bytes,
                          size_t available, unsigned *length_out, int *row_out);

/** Times a difference was excused by one of the tables. */
uint64_t zydis_compare_excused(const struct zydis_compare *compare);

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Every shape (row, operand size, kind) of the ring-3 instructions, one after the other, and how
 * often each was had. Which shapes there are is found out once, by trying.
 */
#pragma once

#include "engine/isa-case.h"

struct isa_shape_of_row {
    uint16_t row;
    uint8_t operand_bytes;
    uint8_t kind; /* enum isa_kind */
};

struct isa_coverage;

/** Dies of no memory. */
struct isa_coverage *isa_coverage_create(const struct isa_encoder *encoder,
                                         const struct isa_layout *layout);
void isa_coverage_destroy(struct isa_coverage *coverage);

/** Number of shapes. */
size_t isa_coverage_shapes(const struct isa_coverage *coverage);

/** Turns in which each shape comes at least once. */
size_t isa_coverage_turns(const struct isa_coverage *coverage);

/** Shape at @turn of an endless order in which neighbours have nothing to do with each other. */
const struct isa_shape_of_row *isa_coverage_at(const struct isa_coverage *coverage, size_t turn);

/** A random one of which isa_case_hot() says yes. */
const struct isa_shape_of_row *isa_coverage_hot(const struct isa_coverage *coverage,
                                                struct isa_random *random);

/** A random one of those without memory, and of them one of MOV. */
const struct isa_shape_of_row *isa_coverage_quiet(const struct isa_coverage *coverage,
                                                  struct isa_random *random);
const struct isa_shape_of_row *isa_coverage_move(const struct isa_coverage *coverage,
                                                 struct isa_random *random);

/** A random one that branches on a condition. */
const struct isa_shape_of_row *isa_coverage_branch(const struct isa_coverage *coverage,
                                                   struct isa_random *random);

/** @shape was had once more. */
void isa_coverage_hit(struct isa_coverage *coverage, const struct isa_shape_of_row *shape);

/** Times the shape was had that was had least; *shape_out is it. */
uint32_t isa_coverage_least(const struct isa_coverage *coverage,
                            const struct isa_shape_of_row **shape_out);

/** A row that is not excluded and has no shape, or NULL. */
const char *isa_coverage_lost_row(const struct isa_coverage *coverage);

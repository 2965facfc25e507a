/* SPDX-License-Identifier: GPL-3.0-or-later */
/* All rows by all operand sizes by all kinds, in an order without neighbours. */
#include "engine/isa-coverage.h"

#include "engine/soft/isa-ops.h"

#include <stdlib.h>

/* A shape that could not be made so often is none. */
#define TRIES       8u
/* A prime: any number of shapes but its multiples is walked completely. */
#define STRIDE      7919u
/* One turn of so many is for what faults, since a trial ends with it. */
#define FAULT_EVERY 4u
/* Of the search for shapes: which there are must not depend on the test's seed. */
#define SEED        UINT64_C(0x243f6a8885a308d3)

/* Indices of shapes. */
struct isa_choice {
    size_t count;
    uint32_t *shape;
};

struct isa_coverage {
    size_t count;
    struct isa_shape_of_row *shape;
    uint32_t *hits;
    struct isa_choice faulting, others, hot, quiet, move, branch;
};

static void *allocate(size_t count, size_t bytes)
{
    void *memory = calloc(count, bytes);

    if (!memory) {
        abort();
    }
    return memory;
}

static bool exists(const struct isa_encoder *encoder, const struct isa_layout *layout,
                   const struct isa_shape_of_row *shape, struct isa_random *random)
{
    for (unsigned i = 0; i < TRIES; i++) {
        struct isa_state state;
        struct isa_case test;

        isa_state_randomize(random, &state);
        if (isa_case_make(encoder, layout, shape->row, shape->operand_bytes,
                          (enum isa_kind)shape->kind, random, &state, &test)) {
            return true;
        }
    }
    return false;
}

static void add(struct isa_choice *choice, size_t shape)
{
    choice->shape[choice->count++] = (uint32_t)shape;
}

static void add_shape(struct isa_coverage *coverage, const struct isa_shape_of_row *shape)
{
    add(shape->kind == ISA_KIND_FAULTING ? &coverage->faulting : &coverage->others,
        coverage->count);
    if (isa_case_hot(shape->row)) {
        add(&coverage->hot, coverage->count);
    }
    if (isa_case_hot(shape->row) && shape->kind == ISA_KIND_REGISTER) {
        add(&coverage->quiet, coverage->count);
    }
    if (soft_isa_row(shape->row)->op == SOFT_OP_MOV && shape->kind == ISA_KIND_REGISTER) {
        add(&coverage->move, coverage->count);
    }
    if (soft_isa_row(shape->row)->op == SOFT_OP_JCC) {
        add(&coverage->branch, coverage->count);
    }
    coverage->shape[coverage->count++] = *shape;
}

static void find_shapes(struct isa_coverage *coverage, const struct isa_encoder *encoder,
                        const struct isa_layout *layout)
{
    static const uint8_t sizes[] = {2, 4, 8, 0};
    struct isa_random random = {SEED};

    for (uint16_t row = 0; row < soft_isa_rows(); row++) {
        for (unsigned kind = 0; kind < ISA_KIND_COUNT && !isa_excluded(row); kind++) {
            bool found = false;

            for (unsigned i = 0; i < HV_ARRAY_LEN(sizes); i++) {
                /* Where no size is one of the three (strings of bytes), any will do. */
                const struct isa_shape_of_row shape = {row, sizes[i], (uint8_t)kind};

                if ((sizes[i] != 0 || !found) && exists(encoder, layout, &shape, &random)) {
                    add_shape(coverage, &shape);
                    found = true;
                }
            }
        }
    }
}

struct isa_coverage *isa_coverage_create(const struct isa_encoder *encoder,
                                         const struct isa_layout *layout)
{
    struct isa_coverage *coverage = allocate(1, sizeof(*coverage));
    size_t most = soft_isa_rows() * 3 * ISA_KIND_COUNT;

    coverage->shape = allocate(most, sizeof(*coverage->shape));
    coverage->hits = allocate(most, sizeof(*coverage->hits));
    coverage->faulting.shape = allocate(most, sizeof(uint32_t));
    coverage->others.shape = allocate(most, sizeof(uint32_t));
    coverage->hot.shape = allocate(most, sizeof(uint32_t));
    coverage->quiet.shape = allocate(most, sizeof(uint32_t));
    coverage->move.shape = allocate(most, sizeof(uint32_t));
    coverage->branch.shape = allocate(most, sizeof(uint32_t));
    find_shapes(coverage, encoder, layout);
    return coverage;
}

void isa_coverage_destroy(struct isa_coverage *coverage)
{
    if (!coverage) {
        return;
    }
    free(coverage->shape);
    free(coverage->hits);
    free(coverage->faulting.shape);
    free(coverage->others.shape);
    free(coverage->hot.shape);
    free(coverage->quiet.shape);
    free(coverage->move.shape);
    free(coverage->branch.shape);
    free(coverage);
}

size_t isa_coverage_shapes(const struct isa_coverage *coverage)
{
    return coverage->count;
}

size_t isa_coverage_turns(const struct isa_coverage *coverage)
{
    size_t others = (coverage->others.count + FAULT_EVERY - 2) / (FAULT_EVERY - 1);

    return FAULT_EVERY * (others > coverage->faulting.count ? others : coverage->faulting.count);
}

const struct isa_shape_of_row *isa_coverage_at(const struct isa_coverage *coverage, size_t turn)
{
    size_t round = turn / FAULT_EVERY, in_round = turn % FAULT_EVERY;
    const struct isa_choice *choice = &coverage->faulting;

    if (in_round != FAULT_EVERY - 1) {
        choice = &coverage->others;
        round = round * (FAULT_EVERY - 1) + in_round;
    }
    return &coverage->shape[choice->shape[round % choice->count *
                                          (choice->count % STRIDE ? STRIDE : 1) % choice->count]];
}

static const struct isa_shape_of_row *choose(const struct isa_coverage *coverage,
                                             const struct isa_choice *choice,
                                             struct isa_random *random)
{
    return &coverage->shape[choice->shape[isa_random_below(random, (unsigned)choice->count)]];
}

const struct isa_shape_of_row *isa_coverage_hot(const struct isa_coverage *coverage,
                                                struct isa_random *random)
{
    return choose(coverage, &coverage->hot, random);
}

const struct isa_shape_of_row *isa_coverage_quiet(const struct isa_coverage *coverage,
                                                  struct isa_random *random)
{
    return choose(coverage, &coverage->quiet, random);
}

const struct isa_shape_of_row *isa_coverage_move(const struct isa_coverage *coverage,
                                                 struct isa_random *random)
{
    return choose(coverage, &coverage->move, random);
}

const struct isa_shape_of_row *isa_coverage_branch(const struct isa_coverage *coverage,
                                                   struct isa_random *random)
{
    return choose(coverage, &coverage->branch, random);
}

void isa_coverage_hit(struct isa_coverage *coverage, const struct isa_shape_of_row *shape)
{
    coverage->hits[shape - coverage->shape]++;
}

uint32_t isa_coverage_least(const struct isa_coverage *coverage,
                            const struct isa_shape_of_row **shape_out)
{
    size_t least = 0;

    for (size_t i = 1; i < coverage->count; i++) {
        if (coverage->hits[i] < coverage->hits[least]) {
            least = i;
        }
    }
    *shape_out = &coverage->shape[least];
    return coverage->hits[least];
}

const char *isa_coverage_lost_row(const struct isa_coverage *coverage)
{
    size_t at = 0;

    for (uint16_t row = 0; row < soft_isa_rows(); row++) {
        if (isa_excluded(row)) {
            continue;
        }
        if (at == coverage->count || coverage->shape[at].row != row) {
            return soft_isa_row(row)->mnemonic;
        }
        while (at < coverage->count && coverage->shape[at].row == row) {
            at++;
        }
    }
    return NULL;
}

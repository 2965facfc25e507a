/* SPDX-License-Identifier: GPL-3.0-or-later */
/* All rows by all operand sizes by all kinds, in an order without neighbours. */
#include "engine/isa-case.h"

#include <stdlib.h>

#define SIZES  3u
/* A shape that could not be made so often is none. */
#define TRIES  4u
/* A prime: any number of shapes but its multiples is walked completely. */
#define STRIDE 7919u

struct isa_coverage {
    size_t count; /* of shapes, those included that do not exist */
    size_t at;
    uint32_t *hits;
    uint8_t *misses;
};

struct isa_coverage *isa_coverage_create(void)
{
    struct isa_coverage *coverage = calloc(1, sizeof(*coverage));

    if (!coverage)
        abort();
    coverage->count = soft_isa_rows() * SIZES * ISA_KIND_COUNT;
    if (coverage->count % STRIDE == 0)
        coverage->count++;
    coverage->hits = calloc(coverage->count, sizeof(*coverage->hits));
    coverage->misses = calloc(coverage->count, sizeof(*coverage->misses));
    if (!coverage->hits || !coverage->misses)
        abort();
    return coverage;
}

void isa_coverage_destroy(struct isa_coverage *coverage)
{
    if (!coverage)
        return;
    free(coverage->hits);
    free(coverage->misses);
    free(coverage);
}

static bool try_shape(const struct isa_encoder *encoder, const struct isa_layout *layout,
                      size_t shape, struct isa_random *random, struct isa_state *state,
                      struct isa_case *case_out)
{
    static const uint8_t sizes[SIZES] = {2, 4, 8};
    size_t row = shape / (SIZES * ISA_KIND_COUNT);

    return row < soft_isa_rows() &&
           isa_case_make(encoder, layout, (uint16_t)row, sizes[shape % SIZES],
                         (enum isa_kind)(shape / SIZES % ISA_KIND_COUNT), random, state, case_out);
}

void isa_coverage_next(struct isa_coverage *coverage, const struct isa_encoder *encoder,
                       const struct isa_layout *layout, struct isa_random *random,
                       struct isa_state *state, struct isa_case *case_out)
{
    for (;;) {
        size_t shape = coverage->at;

        coverage->at = (coverage->at + STRIDE) % coverage->count;
        if (coverage->hits[shape] == 0 && coverage->misses[shape] >= TRIES)
            continue;
        if (try_shape(encoder, layout, shape, random, state, case_out)) {
            coverage->hits[shape]++;
            return;
        }
        if (coverage->misses[shape] < TRIES)
            coverage->misses[shape]++;
    }
}

size_t isa_coverage_shapes(const struct isa_coverage *coverage, uint32_t *least_out)
{
    size_t shapes = 0;

    *least_out = UINT32_MAX;
    for (size_t i = 0; i < coverage->count; i++) {
        if (coverage->hits[i] == 0)
            continue;
        shapes++;
        if (coverage->hits[i] < *least_out)
            *least_out = coverage->hits[i];
    }
    return shapes;
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The software engine against the silicon beneath: random ring-3 instructions of every shape the
 * decoder's table has, alone and in sequences, run in a guest and by the host from the same
 * registers, flags and memory (isa-trial.h). All of these must agree afterwards, and exceptions with
 * their error codes and addresses. Rows that are in no trial stand in isa_excluded(), with a reason.
 */
#include "engine/isa-trial.h"
#include "lib/tap.h"

#include "cpu/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Times that every shape is had at least; with LODGE_TEST_LONG ten times as many. A hundred are two
 * million instructions and half a minute; under AddressSanitizer, six times as slow, they are fewer. */
#if defined(__SANITIZE_ADDRESS__)
#define HITS 5u
#else
#define HITS 100u
#endif
#define LONG_FACTOR  10u
/* Fewer shapes than isa.def had when this was written: the generator has lost some. */
#define SHAPES_LEAST 9700u
/* Of them, so many are of extensions. */
#define HIDDEN_LEAST 4400u
#define REPORTS      8u

struct fixture {
    struct isa_host *host;
    struct isa_encoder *encoder;
    struct isa_coverage *coverage;
    struct isa_guest *guest;
    struct isa_maker maker;
    struct isa_trial trial;
    uint64_t trials, cases, faults;
    unsigned failures;
};

static struct fixture fixture;

static bool begin(void)
{
    struct isa_layout layout;

    fixture = (struct fixture){.host = isa_host_create()};
    if (!fixture.host) {
        tap_skip("The host has no AVX.");
        return false;
    }
    layout = (struct isa_layout){isa_host_code(fixture.host) + ISA_CODE_BYTES / 4,
                                 (uintptr_t)isa_host_sandbox(fixture.host)};
    fixture.encoder = isa_encoder_create();
    fixture.coverage = isa_coverage_create(fixture.encoder, &layout);
    fixture.guest = isa_guest_create(isa_host_code(fixture.host), layout.sandbox);
    fixture.maker = (struct isa_maker){.host = fixture.host,
                                       .encoder = fixture.encoder,
                                       .coverage = fixture.coverage,
                                       .policy = isa_guest_policy(fixture.guest)};
    return true;
}

static void end(void)
{
    isa_guest_destroy(fixture.guest);
    isa_coverage_destroy(fixture.coverage);
    isa_encoder_destroy(fixture.encoder);
    isa_host_destroy(fixture.host);
}

/* The shortest beginning of the trial that fails, too. */
static void report(uint64_t seed, size_t turn)
{
    char code[512], difference[128];

    for (unsigned most = 1; most <= ISA_TRIAL_CASES; most++) {
        size_t at = turn;

        isa_trial_make(&fixture.maker, seed, &at, most, &fixture.trial);
        if (!isa_trial_check(&fixture.trial, fixture.guest, difference, sizeof(difference))) {
            isa_trial_print(&fixture.trial, code, sizeof(code));
            tap_fail(__FILE__, __LINE__, "trial %#" PRIx64 " at %zu: %s: %s", seed, turn, code,
                     difference);
            return;
        }
    }
    tap_fail(__FILE__, __LINE__, "trial %#" PRIx64 " at %zu: fails when not made alone", seed,
             turn);
}

static void count_trial(const struct isa_trial *trial)
{
    fixture.trials++;
    fixture.cases += trial->steps;
    fixture.faults += trial->outcome.vector != ISA_VECTOR_NONE;
    for (unsigned i = 0; i < trial->steps; i++) {
        isa_coverage_hit(fixture.coverage, trial->step[i].shape);
    }
}

static void run_trial(size_t *turn, unsigned most)
{
    uint64_t seed = tap_rng();
    size_t start = *turn;
    char difference[128];

    isa_trial_make(&fixture.maker, seed, turn, most, &fixture.trial);
    if (fixture.trial.steps == 0) {
        return;
    }
    count_trial(&fixture.trial);
    if (!isa_trial_check(&fixture.trial, fixture.guest, difference, sizeof(difference)) &&
        ++fixture.failures <= REPORTS) {
        report(seed, start);
    }
}

static void test_agrees(void)
{
    const struct isa_shape_of_row *shape;
    unsigned hits = getenv("LODGE_TEST_LONG") ? HITS * LONG_FACTOR : HITS;
    size_t shapes, turn = 0;
    const char *lost;
    uint32_t least;

    if (!begin()) {
        return;
    }
    shapes = isa_coverage_shapes(fixture.coverage);
    while (turn < isa_coverage_turns(fixture.coverage) * hits) {
        run_trial(&turn, ISA_TRIAL_CASES);
    }
    least = isa_coverage_least(fixture.coverage, &shape);
    tap_note("%" PRIu64 " instructions in %" PRIu64 " trials, %" PRIu64 " faults, %u failures",
             fixture.cases, fixture.trials, fixture.faults, fixture.failures);
    tap_note("%zu shapes, each at least %u times (%s, %u bytes, kind %u)", shapes, least,
             soft_isa_row(shape->row)->mnemonic, shape->operand_bytes, shape->kind);
    lost = isa_coverage_lost_row(fixture.coverage);
    if (lost) {
        tap_note("no shape of %s", lost);
    }
    end();
    TAP_EQ(fixture.failures, 0);
    TAP_OK(!lost);
    TAP_OK(shapes >= SHAPES_LEAST);
    TAP_OK(least >= hits);
}

/* Extensions that the policy hides raise #UD whatever their operands are; the host never sees them. */
static void test_hidden(void)
{
    uint64_t hidden = 0;

    if (!begin()) {
        return;
    }
    isa_guest_policy(fixture.guest)->features = HV_BIT(HV_FEATURE_BASE);
    for (size_t turn = 0; turn < isa_coverage_turns(fixture.coverage);) {
        run_trial(&turn, 1);
        if (fixture.trial.steps > 0) {
            unsigned row = fixture.trial.step[0].shape->row;

            hidden += soft_isa_row((uint16_t)row)->feature != HV_FEATURE_BASE;
        }
    }
    tap_note("%" PRIu64 " instructions hidden", hidden);
    end();
    TAP_EQ(fixture.failures, 0);
    TAP_OK(hidden >= HIDDEN_LEAST);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"engine.soft-native.agrees", test_agrees},
        {"engine.soft-native.hidden", test_hidden},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

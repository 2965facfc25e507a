/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A trial: up to eight random instructions one after the other, run by the host as it is made, so
 * that each is aimed by what the ones before it have left; then run in a guest as a whole, which
 * must end the same way.
 *
 *     before -> case -> case -> ... -> after       host, case by case
 *     before -> [loads case loads case ...] -> ?   guest, as one piece of code
 *
 * Where a case wants registers to have other values than they have, loads (MOV r64, imm64) stand
 * before it in the guest's code. Branches are followed: the next case stands where one went. A fault
 * ends the trial. A flag that the table calls undefined is not compared, and no case reads it.
 *
 * Between the cases the coverage hands out in turn stand others that make company: conditional
 * branches behind comparisons, moves before arithmetic, and instructions that set all flags, because
 * the translator treats such neighbours together.
 */
#pragma once

#include "engine/isa-coverage.h"
#include "engine/isa-guest.h"

#define ISA_TRIAL_CASES 8u

struct isa_step {
    const struct isa_shape_of_row *shape;
    unsigned offset; /* in the code area */
    struct soft_insn insn;
};

struct isa_trial {
    struct isa_state before, after;
    struct isa_outcome outcome;
    uint64_t flags_undefined; /* those that are when it ends */
    uint64_t sandbox;         /* its address */
    unsigned steps;
    struct isa_step step[ISA_TRIAL_CASES];
    uint8_t code[ISA_CODE_BYTES];
    uint8_t memory_before[ISA_SANDBOX_BYTES], memory_after[ISA_SANDBOX_BYTES];
};

/* What trials are made with; all borrowed. */
struct isa_maker {
    struct isa_host *host;
    const struct isa_encoder *encoder;
    const struct isa_coverage *coverage;
    const struct hv_cpu_policy *policy; /* what it hides must be #UD */
};

/**
 * Make the trial that @seed and @turn stand for.
 *
 * @turn  in and out: the shape to begin with, of isa_coverage_at(), and the one to go on with.
 * @most  cases at most; fewer give the beginning of the same trial.
 *
 * Steps can be 0: the shape could not be made this time (and was left behind).
 */
void isa_trial_make(const struct isa_maker *maker, uint64_t seed, size_t *turn, unsigned most,
                    struct isa_trial *trial);

/**
 * Run it in the guest.
 *
 * Returns true when it ended as it should; else @text says what is wrong.
 */
bool isa_trial_check(const struct isa_trial *trial, struct isa_guest *guest, char *text,
                     size_t text_bytes);

/** Its code as text: mnemonics and bytes. */
void isa_trial_print(const struct isa_trial *trial, char *text, size_t text_bytes);

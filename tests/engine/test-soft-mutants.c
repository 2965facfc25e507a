/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * How much test-soft-native notices: two hundred engines with one mistake each, of which its trials
 * must tell nearly all from the host.
 *
 * Three kinds of mistakes, switched on one at a time in this program only:
 *   handlers    copies in the interpreter of gen-mutants.py, taken by another table of labels
 *   functions   the C functions of instructions, around which something is done wrong
 *   thunks      host-executed instructions, compiled from a wrong shape
 *
 * First all trials are run by the right engine, and for each handler, function and instruction some
 * of those that use it are remembered; then each mistake is looked for in the trials that meet it.
 */
#include "engine/isa-trial.h"
#include "engine/soft-mutants.h"
#include "lib/tap.h"

#include "cpu/state.h"
#include "engine/soft/insn.h"
#include "engine/soft/interp.h"
#include "engine/soft/thunk-private.h"
#include "engine/soft/translate-private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HANDLERS       HV_ARRAY_LEN(soft_mutants)
#define FUNCTIONS      25u
#define THUNKS         25u
#define MUTANTS        (HANDLERS + FUNCTIONS + THUNKS)
/* Of a hundred mistakes so many must be found. */
#define CAUGHT_LEAST   95u

#define TRIALS         400000u
/* Trials remembered of each handler, function and instruction. */
#define USES           48u
#define FUNCTIONS_MOST 96u

struct use {
    uint64_t seed;
    size_t turn;
};

struct uses {
    unsigned count;
    struct use use[USES];
};

/* What is done wrong around a function. */
enum function_mistake {
    FUNCTION_MISTAKE_NOTHING, /* it is not called */
    FUNCTION_MISTAKE_FLAG,    /* CF is turned over after it */
    FUNCTION_MISTAKE_REGISTER,
    FUNCTION_MISTAKE_ADDRESS, /* its operand is one byte beside */
    FUNCTION_MISTAKE_STACK,
    FUNCTION_MISTAKE_COUNT,
};

enum thunk_mistake {
    THUNK_MISTAKE_FLAGS,     /* not stored, nor loaded */
    THUNK_MISTAKE_RESULT,    /* the first vector written is not stored */
    THUNK_MISTAKE_IMMEDIATE, /* its lowest bit is wrong */
    THUNK_MISTAKE_REGISTER,  /* the second operand is read from another one */
    THUNK_MISTAKE_COUNT,
};

static struct {
    struct isa_maker maker;
    struct isa_guest *guest;
    struct isa_trial trial;
    const void *const *right;          /* labels */
    const void *wrong[SOFT_UOPS];      /* the same, but one */
    struct uses handler[HANDLERS];     /* of the victims */
    struct uses thunk[UINT16_MAX + 1]; /* by row */
    struct function {
        soft_call_fn *run;
        struct uses uses;
        const char *name;       /* of an instruction it does */
        bool memory;            /* is given an address */
        bool open_carry;        /* leaves CF undefined */
    } function[FUNCTIONS_MOST]; /* those met */
    unsigned functions;
    struct use now; /* the trial that is run */
    bool learning;
    /* The mistake that is switched on. */
    soft_call_fn *function_victim;
    enum function_mistake function_mistake;
    uint16_t thunk_victim;
    bool thunk_wrong;
    enum thunk_mistake thunk_mistake;
    uint16_t row;                /* of the instruction a thunk is asked for */
    uint8_t fit[UINT16_MAX + 1]; /* by row: bit per enum thunk_mistake that changes something */
} rig;

/* ---- Around the engine ------------------------------------------------------------------------ */

/* The linker leads the engine's calls of these here, and calls of __real_ to the engine's own. */
int __real_soft_code_insert(struct soft_code *code, const struct soft_block_plan *plan,
                            const struct soft_block **block_out);
int __wrap_soft_code_insert(struct soft_code *code, const struct soft_block_plan *plan,
                            const struct soft_block **block_out);
soft_call_fn *__real_soft_function_of(const struct soft_insn *insn);
soft_call_fn *__wrap_soft_function_of(const struct soft_insn *insn);
bool __real_soft_function_addresses(soft_call_fn *run);
bool __wrap_soft_function_addresses(soft_call_fn *run);
int __real_soft_thunk_get(struct soft_thunks *thunks, const struct soft_insn *insn,
                          const uint8_t *bytes, const struct soft_thunk **thunk_out);
int __wrap_soft_thunk_get(struct soft_thunks *thunks, const struct soft_insn *insn,
                          const uint8_t *bytes, const struct soft_thunk **thunk_out);
size_t __real_soft_thunk_compile(const struct soft_shape *shape, void *place, size_t bytes);
size_t __wrap_soft_thunk_compile(const struct soft_shape *shape, void *place, size_t bytes);

static void note_use(struct uses *uses)
{
    if (uses->count < USES &&
        (uses->count == 0 || uses->use[uses->count - 1].seed != rig.now.seed)) {
        uses->use[uses->count++] = rig.now;
    }
}

static void note_function(const struct soft_call *call)
{
    const struct soft_isa_row *isa = soft_isa_row(call->insn.row);
    struct function *function = rig.function;

    while (function < &rig.function[rig.functions] && function->run != call->run) {
        function++;
    }
    if (function == &rig.function[rig.functions]) {
        if (rig.functions == FUNCTIONS_MOST) {
            return;
        }
        rig.functions++;
        function->run = call->run;
        function->name = isa->mnemonic;
    }
    for (unsigned i = 0; i < call->insn.operands; i++) {
        function->memory |=
            soft_is_mem(&call->insn.operand[i]) && !__real_soft_function_addresses(call->run);
    }
    function->open_carry |= isa->flags_undefined & HV_RFLAGS_CF;
    note_use(&function->uses);
}

/* What a block is made of. */
int __wrap_soft_code_insert(struct soft_code *code, const struct soft_block_plan *plan,
                            const struct soft_block **block_out)
{
    for (unsigned i = 0; i < plan->uops && rig.learning; i++) {
        const void *label = hv_load_relaxed(&plan->uop[i].handler);

        for (unsigned k = 0; k < HANDLERS; k++) {
            if (rig.right[soft_mutants[k].victim] == label) {
                note_use(&rig.handler[k]);
            }
        }
    }
    for (unsigned i = 0; i < plan->calls && rig.learning; i++) {
        note_function(&plan->call[i]);
    }
    return __real_soft_code_insert(code, plan, block_out);
}

static int wrong_function(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    struct hv_cpu *cpu = vcpu->cpu;
    int rc = SOFT_RESULT_NEXT;

    if (rig.function_mistake == FUNCTION_MISTAKE_NOTHING) {
        return rc;
    }
    if (rig.function_mistake == FUNCTION_MISTAKE_ADDRESS) {
        gva++;
    }
    rc = rig.function_victim(vcpu, call, gva);
    if (rc != SOFT_RESULT_NEXT && rc < SOFT_RESULT_LEAVE) {
        return rc;
    }
    switch (rig.function_mistake) {
    case FUNCTION_MISTAKE_FLAG:
        cpu->arith ^= 0x100;
        break;
    case FUNCTION_MISTAKE_REGISTER:
        cpu->slot[call->insn.operands && soft_is_gpr(&call->insn.operand[0])
                      ? call->insn.operand[0].reg
                      : HV_REG_RCX] ^= 1;
        break;
    case FUNCTION_MISTAKE_STACK:
        cpu->slot[HV_REG_RSP] += 2;
        break;
    case FUNCTION_MISTAKE_NOTHING:
    case FUNCTION_MISTAKE_ADDRESS:
    case FUNCTION_MISTAKE_COUNT:
        break;
    }
    return rc;
}

soft_call_fn *__wrap_soft_function_of(const struct soft_insn *insn)
{
    soft_call_fn *run = __real_soft_function_of(insn);

    return run && run == rig.function_victim ? wrong_function : run;
}

bool __wrap_soft_function_addresses(soft_call_fn *run)
{
    return __real_soft_function_addresses(run == wrong_function ? rig.function_victim : run);
}

int __wrap_soft_thunk_get(struct soft_thunks *thunks, const struct soft_insn *insn,
                          const uint8_t *bytes, const struct soft_thunk **thunk_out)
{
    int rc;

    rig.row = insn->row;
    rc = __real_soft_thunk_get(thunks, insn, bytes, thunk_out);
    if (rc == 0 && rig.learning) {
        note_use(&rig.thunk[insn->row]);
    }
    return rc;
}

/* Make @shape wrong; false when it cannot be in this way. */
static bool make_wrong(struct soft_shape *shape, enum thunk_mistake mistake)
{
    switch (mistake) {
    case THUNK_MISTAKE_FLAGS: {
        bool arith = shape->arith;

        shape->arith = false;
        return arith;
    }
    case THUNK_MISTAKE_RESULT:
        for (unsigned i = 0; i < shape->vectors; i++) {
            if (shape->vector[i].access & SOFT_ACCESS_WRITE) {
                shape->vector[i].access = SOFT_ACCESS_READ;
                return true;
            }
        }
        return false;
    case THUNK_MISTAKE_IMMEDIATE:
        shape->imm[0] ^= 1;
        return shape->imm_bytes > 0;
    case THUNK_MISTAKE_REGISTER:
        for (unsigned i = 1; i < shape->vectors; i++) {
            shape->vector[i].reg ^= 1;
        }
        return shape->vectors > 1;
    case THUNK_MISTAKE_COUNT:
        break;
    }
    return false;
}

size_t __wrap_soft_thunk_compile(const struct soft_shape *shape, void *place, size_t bytes)
{
    struct soft_shape changed = *shape;

    for (unsigned i = 0; i < THUNK_MISTAKE_COUNT && rig.learning; i++) {
        struct soft_shape tried = *shape;

        if (make_wrong(&tried, (enum thunk_mistake)i)) {
            rig.fit[rig.row] |= (uint8_t)(1u << i);
        }
    }
    if (rig.thunk_wrong && rig.row == rig.thunk_victim) {
        (void)make_wrong(&changed, rig.thunk_mistake);
    }
    return __real_soft_thunk_compile(&changed, place, bytes);
}

/* ---- Mistakes --------------------------------------------------------------------------------- */

/* The right engine, without anything the wrong one has made. */
static void set_right(void)
{
    struct hv_engine_vcpu *vcpu = isa_guest_vcpu(rig.guest);

    vcpu->translator->label = rig.right;
    rig.function_victim = NULL;
    rig.thunk_wrong = false;
    /* Blocks go with the code that the next trial writes, before it runs. */
    if (soft_thunks_reset(vcpu->domain->thunks) != 0) {
        abort();
    }
}

/* Do the trials of @uses tell? */
static bool is_caught(const struct uses *uses)
{
    char difference[128];

    for (unsigned i = 0; i < uses->count; i++) {
        size_t turn = uses->use[i].turn;

        isa_trial_make(&rig.maker, uses->use[i].seed, &turn, ISA_TRIAL_CASES, &rig.trial);
        if (!isa_trial_check(&rig.trial, rig.guest, difference, sizeof(difference))) {
            return true;
        }
    }
    return false;
}

static bool judge(const char *kind, const char *what, const char *mistake, const struct uses *uses)
{
    bool caught = is_caught(uses);

    if (!caught) {
        tap_note("missed in %u trials: %s %s %s", uses->count, kind, what, mistake);
    }
    set_right();
    return caught;
}

static unsigned judge_handlers(void)
{
    unsigned caught = 0;

    for (unsigned i = 0; i < HANDLERS; i++) {
        memcpy(rig.wrong, rig.right, sizeof(rig.wrong));
        rig.wrong[soft_mutants[i].victim] = rig.right[SOFT_UOPS + i];
        isa_guest_vcpu(rig.guest)->translator->label = rig.wrong;
        caught += judge("handler", soft_mutants[i].what, "", &rig.handler[i]);
    }
    return caught;
}

/* Does the mistake change anything? */
static bool is_fit(const struct function *function, enum function_mistake mistake)
{
    bool raises = function->run == soft_insn_undefined || function->run == soft_insn_privilege;

    /* Nothing to see, nothing that soft_function_of() gave, or the end of the guest's handlers. */
    if (function->run == soft_insn_fence || function->run == soft_insn_flush_line ||
        function->run == soft_insn_pause || function->run == soft_insn_xstate ||
        function->run == soft_insn_hlt) {
        return false;
    }
    switch (mistake) {
    case FUNCTION_MISTAKE_NOTHING:
        return true;
    case FUNCTION_MISTAKE_FLAG:
        return !raises && !function->open_carry;
    case FUNCTION_MISTAKE_ADDRESS:
        return function->memory;
    case FUNCTION_MISTAKE_REGISTER:
    case FUNCTION_MISTAKE_STACK:
    case FUNCTION_MISTAKE_COUNT:
        break;
    }
    return !raises;
}

static unsigned judge_functions(struct isa_random *random)
{
    static const char *const names[] = {"not called", "CF", "register", "address", "stack pointer"};
    unsigned caught = 0;

    for (unsigned i = 0; i < FUNCTIONS;) {
        const struct function *function = &rig.function[isa_random_below(random, rig.functions)];

        rig.function_mistake =
            (enum function_mistake)isa_random_below(random, FUNCTION_MISTAKE_COUNT);
        if (!is_fit(function, rig.function_mistake)) {
            continue;
        }
        rig.function_victim = function->run;
        caught += judge("function", function->name, names[rig.function_mistake], &function->uses);
        i++;
    }
    return caught;
}

static unsigned judge_thunks(struct isa_random *random)
{
    static const char *const names[] = {"flags", "result", "immediate", "register"};
    unsigned caught = 0;

    for (unsigned i = 0; i < THUNKS;) {
        uint16_t row = (uint16_t)isa_random_below(random, (unsigned)soft_isa_rows());

        rig.thunk_mistake = (enum thunk_mistake)isa_random_below(random, THUNK_MISTAKE_COUNT);
        if (!(rig.fit[row] >> rig.thunk_mistake & 1)) {
            continue;
        }
        rig.thunk_victim = row;
        rig.thunk_wrong = true;
        caught +=
            judge("thunk", soft_isa_row(row)->mnemonic, names[rig.thunk_mistake], &rig.thunk[row]);
        i++;
    }
    return caught;
}

/* ---- The test --------------------------------------------------------------------------------- */

static bool learn(void)
{
    char difference[128];
    size_t turn = 0;

    rig.learning = true;
    for (unsigned i = 0; i < TRIALS; i++) {
        rig.now = (struct use){tap_rng(), turn};
        isa_trial_make(&rig.maker, rig.now.seed, &turn, ISA_TRIAL_CASES, &rig.trial);
        if (rig.trial.steps > 0 &&
            !isa_trial_check(&rig.trial, rig.guest, difference, sizeof(difference))) {
            tap_note("the right engine: %s", difference);
            return false;
        }
    }
    rig.learning = false;
    return true;
}

static void test_caught(void)
{
    struct isa_host *host = isa_host_create();
    struct isa_random random = {tap_rng() | 1};
    struct isa_encoder *encoder;
    struct isa_coverage *coverage;
    struct isa_layout layout;
    unsigned handlers, functions, thunks, caught;
    bool learnt;

    if (!host) {
        tap_skip("The host has no AVX.");
        return;
    }
    layout = (struct isa_layout){isa_host_code(host) + ISA_CODE_BYTES / 4,
                                 (uintptr_t)isa_host_sandbox(host)};
    encoder = isa_encoder_create();
    coverage = isa_coverage_create(encoder, &layout);
    rig.guest = isa_guest_create(isa_host_code(host), layout.sandbox);
    rig.maker = (struct isa_maker){host, encoder, coverage, isa_guest_policy(rig.guest)};
    (void)soft_interpret(NULL, NULL, &rig.right);
    learnt = learn();
    handlers = learnt ? judge_handlers() : 0;
    functions = learnt ? judge_functions(&random) : 0;
    thunks = learnt ? judge_thunks(&random) : 0;
    caught = handlers + functions + thunks;
    isa_guest_destroy(rig.guest);
    isa_coverage_destroy(coverage);
    isa_encoder_destroy(encoder);
    isa_host_destroy(host);
    tap_note("caught: %u of %zu wrong handlers, %u of %u functions, %u of %u thunks", handlers,
             HANDLERS, functions, FUNCTIONS, thunks, THUNKS);
    TAP_OK(learnt);
    TAP_OK(caught * 100 >= MUTANTS * CAUGHT_LEAST);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"engine.soft-mutants.caught", test_caught},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

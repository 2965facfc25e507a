/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Random references, types, pins, seals and frees on a few frames, against a dictionary that knows
 * what each frame should be and a set of TLB entries kept by the naive rule "a change of type must
 * find no older use". After each operation every frame is compared and checked. The same for every
 * strategy about mappers; a wrong one must be found out.
 */
#include "lib/foreign-wrong.h"
#include "unit/mem/mem-fixture.h"

#define FRAMES         24u
#define VCPUS          2u
/* Of a frame: few, so that they come to none and it changes its use often. */
#define REFERENCES_MAX 4u
#define TYPES_MAX      3u

/* What one frame should be. */
struct oracle {
    uint64_t references; /* 0: free */
    uint16_t owner;
    enum hv_frame_type type;
    unsigned reasons;
    uint64_t type_references;
    uint64_t foreign_references; /* of these, the mapper's */
    uint64_t pins;
    bool tainted; /* may have been mapped by a mapper since mappers were last flushed for it */
};

static struct fixture fixture;
static struct hv_holder mapper;
static struct hv_doorbell mapper_bell;

static struct {
    hv_mfn mfn;
    struct oracle is;
} model[FRAMES];

/* Writable entries, by frame: vCPUs and, last, the mapper. Filled while the frame is WRITABLE. */
static bool entry[VCPUS + 1][FRAMES];

static struct hv_frame_access owner_access, foreign_access;

static struct hv_frame *frame_of(unsigned i)
{
    return hv_arena_frame(fixture.arena, model[i].mfn);
}

static void flush_entries(unsigned holder, struct hv_holder *of)
{
    uint64_t time = hv_holder_flush_begin(&fixture.arena->holders);

    memset(entry[holder], 0, sizeof(entry[holder]));
    hv_holder_flushed(of, time);
}

/* Serve what is asked of a holder, as it would before its next lookup. */
static void serve(unsigned holder)
{
    struct hv_doorbell *bell = holder < VCPUS ? &fixture.vcpu[holder].bell : &mapper_bell;
    struct hv_holder *of = holder < VCPUS ? &fixture.vcpu[holder].holder : &mapper;

    if (hv_doorbell_take(bell) & HV_REQUEST_FLUSH) {
        flush_entries(holder, of);
    }
    hv_doorbell_acknowledge(bell);
}

static bool agrees(unsigned i)
{
    const struct oracle *is = &model[i].is;
    const struct hv_frame *frame = frame_of(i);
    bool tainted = (hv_load_seq(&frame->type) & HV_FRAME_FTAINT) != 0;

    hv_frame_check(frame);
    return hv_frame_references(frame) == is->references && hv_frame_owner(frame) == is->owner &&
           hv_frame_type(frame) == is->type && hv_frame_reasons(frame) == is->reasons &&
           hv_frame_type_references(frame) == is->type_references &&
           hv_frame_pinned(frame) == (is->pins > 0) && tainted == is->tainted;
}

/* The point of it all: in use as another type, and nobody can write it. */
static bool safe(unsigned i)
{
    bool in_other_use =
        model[i].is.type_references > 0 && model[i].is.type != HV_FRAME_TYPE_WRITABLE;

    for (unsigned holder = 0; holder <= VCPUS; holder++) {
        /* What is asked is served before the next lookup, so it counts as served. */
        bool asked = hv_load_seq(holder < VCPUS ? &fixture.vcpu[holder].bell.requests
                                                : &mapper_bell.requests) != 0;

        if (in_other_use && entry[holder][i] && !asked) {
            return false;
        }
    }
    return true;
}

/* The page is given another use. A taint goes where a change flushes every mapper. */
static void change_use(struct oracle *is, enum hv_frame_type type, unsigned reasons)
{
    bool leaves_uses =
        is->type == HV_FRAME_TYPE_WRITABLE || (is->reasons & (HV_SEAL_COW | HV_SEAL_PGTABLE)) != 0;
    bool cleanses = fixture_strategy->change && !fixture_strategy->masks;

    is->tainted &= !(leaves_uses && cleanses);
    is->type = type;
    is->reasons = reasons;
}

static void allocate(unsigned i)
{
    struct oracle *is = &model[i].is;

    if (is->references > 0 || hv_heap_claim(fixture.arena->heap, 1) != 0) {
        return;
    }
    TAP_EQ(hv_heap_alloc_frame(fixture.arena->heap, 7, &model[i].mfn), 0);
    *is = (struct oracle){.references = 1, .owner = 7};
    for (unsigned holder = 0; holder <= VCPUS; holder++) {
        entry[holder][i] = false;
    }
}

static void get(unsigned i)
{
    struct oracle *is = &model[i].is;
    uint16_t asked = tap_rng() % 8 == 0 ? 8 : 7;
    bool right = asked == is->owner;

    /* None: its number may be another entry's by now. */
    if (is->references == 0 || is->references == REFERENCES_MAX) {
        return;
    }
    TAP_EQ(hv_frame_get(fixture.arena, model[i].mfn, asked), right ? 0 : (uint64_t)-ENOENT);
    is->references += right;
}

static void put(unsigned i)
{
    struct oracle *is = &model[i].is;

    /* The last reference only when no type holds it: the other way dies, by its own test. */
    if (is->references == 0 || (is->references == 1 && is->type_references > 0) ||
        is->references <= is->pins) {
        return;
    }
    /* Seldom the last one: a frame that is used anew flushes everybody, and hides what is wrong. */
    if (is->references == 1 && tap_rng() % 16 != 0) {
        return;
    }
    hv_frame_put(fixture.arena, model[i].mfn);
    if (--is->references == 0) {
        *is = (struct oracle){.owner = HV_OWNER_NONE};
    }
}

static void type_get(unsigned i)
{
    static const unsigned reasons[] = {0, 0, 0, HV_SEAL_CODE, HV_SEAL_COW, HV_SEAL_PGTABLE};
    struct oracle *is = &model[i].is;
    unsigned reason = reasons[tap_rng() % HV_ARRAY_LEN(reasons)];
    enum hv_frame_type type = reason ? HV_FRAME_TYPE_SEALED : HV_FRAME_TYPE_WRITABLE;
    bool foreign = !reason && tap_rng() % 2 == 0;
    int err;

    if (is->references == 0 || is->type_references >= TYPES_MAX) {
        return;
    }
    err = hv_frame_type_get(fixture.arena, model[i].mfn, type, reason,
                            foreign ? &foreign_access : &owner_access);
    if (is->type_references > 0 && is->type != type) {
        TAP_EQ(err, (uint64_t)-EBUSY);
        return;
    }
    TAP_EQ(err, 0);
    if (is->type_references > 0) {
        is->reasons |= reason;
    } else if (is->type != type || is->reasons != reason) {
        change_use(is, type, reason);
    }
    is->type_references++;
    is->foreign_references += foreign;
    is->tainted |= foreign;
    if (type == HV_FRAME_TYPE_WRITABLE) {
        unsigned holder = foreign ? VCPUS : (unsigned)(tap_rng() % VCPUS);

        serve(holder);
        entry[holder][i] = true;
    }
}

static void type_put(unsigned i)
{
    struct oracle *is = &model[i].is;

    uint64_t own = is->type_references - is->pins - is->foreign_references;
    bool foreign = is->foreign_references > 0 && (own == 0 || tap_rng() % 2);

    if (!foreign && own == 0) {
        return;
    }
    if (foreign && fixture_strategy->unmap) {
        fixture_strategy->unmap(fixture.arena, 7, &mapper);
    }
    hv_frame_type_put(fixture.arena, model[i].mfn);
    is->type_references--;
    is->foreign_references -= foreign;
}

static void pin(unsigned i)
{
    struct oracle *is = &model[i].is;
    int err;

    if (is->references == 0 || is->type_references >= TYPES_MAX) {
        return;
    }
    err = hv_frame_pin(fixture.arena, model[i].mfn, &owner_access);
    if (is->type_references > 0 && is->type != HV_FRAME_TYPE_WRITABLE) {
        TAP_EQ(err, (uint64_t)-EBUSY);
        return;
    }
    TAP_EQ(err, 0);
    if (is->type_references == 0 && is->type != HV_FRAME_TYPE_WRITABLE) {
        change_use(is, HV_FRAME_TYPE_WRITABLE, 0);
    }
    is->type_references++;
    is->references++;
    is->pins++;
}

static void unpin(unsigned i)
{
    struct oracle *is = &model[i].is;

    if (is->pins == 0 || (is->references == 1 && is->type_references > 1)) {
        return;
    }
    hv_frame_unpin(fixture.arena, model[i].mfn);
    is->pins--;
    is->type_references--;
    if (--is->references == 0) {
        *is = (struct oracle){.owner = HV_OWNER_NONE};
    }
}

static void holder_acts(unsigned i)
{
    unsigned holder = i % (VCPUS + 1);

    if (tap_rng() % 2) {
        serve(holder);
    } else {
        flush_entries(holder, holder < VCPUS ? &fixture.vcpu[holder].holder : &mapper);
    }
}

/* More puts than gets, and fewer pins than either, so that types change often. */
static void (*const operations[])(unsigned) = {
    allocate, get,      put, type_get, type_get, type_get, type_put,    type_put,
    type_put, type_put, pin, unpin,    unpin,    unpin,    holder_acts,
};

static bool open_world(void)
{
    if (!fixture_open(&fixture, 2, HV_EXTENT_FRAMES, NULL, NULL)) {
        return false;
    }
    hv_doorbell_init(&mapper_bell);
    hv_holder_init(&mapper, &mapper_bell, "model mapper", 0);
    hv_holders_register_mapper(&fixture.arena->holders, &mapper);
    hv_holder_mark_dirty(&mapper);
    hv_memory_mark_dirty(&fixture.memory, 0);
    hv_memory_mark_dirty(&fixture.memory, 1);
    owner_access = (struct hv_frame_access){.memory = &fixture.memory};
    foreign_access = (struct hv_frame_access){.memory = &fixture.memory, .foreign = true};
    memset(entry, 0, sizeof(entry));
    memset(model, 0, sizeof(model));
    for (unsigned i = 0; i < FRAMES; i++) {
        allocate(i);
    }
    return !tap_failed();
}

static void close_world(void)
{
    for (unsigned i = 0; i < FRAMES; i++) {
        while (model[i].is.type_references > model[i].is.pins) {
            type_put(i);
        }
        while (model[i].is.pins > 0) {
            unpin(i);
        }
        while (model[i].is.references-- > 0) {
            hv_frame_put(fixture.arena, model[i].mfn);
        }
    }
    hv_holders_retire_mapper(&fixture.arena->holders, &mapper);
    fixture_close(&fixture);
}

static unsigned steps_walked;

/* True when all the way no frame could be written that should not be. */
static bool walk(unsigned steps)
{
    bool all_safe = true;

    for (unsigned step = 0; step < steps && all_safe && !tap_failed(); step++) {
        unsigned i = (unsigned)(tap_rng() % FRAMES);

        steps_walked = step;
        operations[tap_rng() % HV_ARRAY_LEN(operations)](i);
        serve((unsigned)(tap_rng() % (VCPUS + 1)));
        for (unsigned k = 0; k < FRAMES; k++) {
            if (model[k].is.references > 0) {
                if (!agrees(k)) {
                    tap_fail(__FILE__, __LINE__, "frame %u differs at step %u", k, step);
                }
                all_safe &= safe(k);
            }
        }
    }
    return all_safe;
}

static void fuzz_right(void)
{
    TAP_OK(open_world());
    TAP_OK(walk(30000));
    /* Both kinds of answer were given, or the run proved little. */
    TAP_OK(hv_load_relaxed(&fixture.memory.type_changes) > 1000);
    TAP_OK(hv_load_relaxed(&fixture.memory.flushes.issued) > 500);
    TAP_OK(hv_load_relaxed(&fixture.memory.flushes.filtered) > 500);
    close_world();
}

static void test_refcount_fuzz(void)
{
    each_strategy(fuzz_right);
}

/* Those that are wrong even when one thing happens after another. */
static void test_refcount_fuzz_wrong(void)
{
    static const struct hv_foreign_strategy *const wrong[] = {&foreign_none, &foreign_clear_all};

    for (unsigned i = 0; i < HV_ARRAY_LEN(wrong); i++) {
        fixture_strategy = wrong[i];
        TAP_OK(open_world());
        TAP_OK(!walk(1000000));
        tap_note("%s: caught at step %u", wrong[i]->name, steps_walked);
        close_world();
    }
    fixture_strategy = &hv_foreign_taint;
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"tlb.refcount-fuzz", test_refcount_fuzz},
        {"tlb.refcount-fuzz-wrong", test_refcount_fuzz_wrong},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

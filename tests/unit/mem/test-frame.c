/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The two words of a frame: every transition, every refusal, every way to die. */
#include "unit/mem/mem-fixture.h"

#include <signal.h>

static struct fixture fixture;
static struct hv_frame_access access_owner;
static hv_mfn mfn;
static struct hv_frame *frame;

/* A frame of the domain that stands in no table: {NONE}, one reference. */
static bool open_with_frame(void)
{
    if (!fixture_open(&fixture, 4, HV_EXTENT_FRAMES, NULL, NULL) ||
        hv_heap_claim(fixture.arena->heap, HV_EXTENT_FRAMES) ||
        hv_heap_alloc_frame(fixture.arena->heap, 7, &mfn)) {
        return false;
    }
    access_owner = (struct hv_frame_access){.memory = &fixture.memory};
    frame = hv_arena_frame(fixture.arena, mfn);
    return true;
}

static void close_with_frame(void)
{
    hv_frame_check(frame);
    hv_frame_put(fixture.arena, mfn);
    hv_frame_check(frame);
    fixture_close(&fixture);
}

static int get(enum hv_frame_type type, unsigned reason)
{
    return hv_frame_type_get(fixture.arena, mfn, type, reason, &access_owner);
}

static uint64_t word(void)
{
    return hv_load_seq(&frame->type);
}

static void test_references(void)
{
    TAP_OK(open_with_frame());
    TAP_EQ(hv_frame_references(frame), 1);
    TAP_EQ(hv_frame_get(fixture.arena, mfn, 8), (uint64_t)-ENOENT);
    TAP_EQ(hv_frame_get(fixture.arena, mfn, 7), 0);
    TAP_EQ(hv_frame_references(frame), 2);
    hv_frame_put(fixture.arena, mfn);
    hv_frame_check(frame);
    hv_add_seq(&frame->count, HV_FRAME_REFS_MASK - 1);
    TAP_EQ(hv_frame_get(fixture.arena, mfn, 7), (uint64_t)-EOVERFLOW);
    hv_sub_seq(&frame->count, HV_FRAME_REFS_MASK - 1);
    hv_frame_put(fixture.arena, mfn);
    TAP_EQ(hv_frame_get(fixture.arena, mfn, 7), (uint64_t)-ENOENT);
    TAP_EQ(hv_frame_owner(frame), HV_OWNER_NONE);
    TAP_EQ(hv_load_seq(&frame->count), HV_FRAME_NEED_SCRUB | HV_FRAME_NEED_FLUSH);
    TAP_EQ(get(HV_FRAME_TYPE_WRITABLE, 0), (uint64_t)-ENOENT);
    fixture_close(&fixture);
}

/* {NONE} → {T,INUSE,1} → {T,INUSE,2} → {T,INUSE,1} → {T,stamp} → {T,INUSE,1}, and no flush. */
static void test_same_type(void)
{
    TAP_OK(open_with_frame());
    hv_memory_mark_dirty(&fixture.memory, 0);
    TAP_EQ(get(HV_FRAME_TYPE_WRITABLE, 0), 0);
    TAP_EQ(hv_frame_type(frame), HV_FRAME_TYPE_WRITABLE);
    TAP_OK(word() & HV_FRAME_VALIDATED);
    TAP_EQ(hv_frame_type_references(frame), 1);
    TAP_EQ(get(HV_FRAME_TYPE_WRITABLE, 0), 0);
    TAP_EQ(hv_frame_type_references(frame), 2);
    TAP_EQ(get(HV_FRAME_TYPE_SEALED, HV_SEAL_COW), (uint64_t)-EBUSY);
    hv_frame_type_put(fixture.arena, mfn);
    TAP_EQ(hv_frame_type_references(frame), 1);
    fake_vcpu_flush(&fixture.vcpu[1]);
    hv_frame_type_put(fixture.arena, mfn);
    TAP_EQ(word() & (HV_FRAME_INUSE | HV_FRAME_STAMPING), 0);
    TAP_EQ(word() & HV_FRAME_VALUE_MASK, hv_flush_clock(&fixture.arena->holders));
    TAP_EQ(hv_frame_type_references(frame), 0);
    TAP_EQ(get(HV_FRAME_TYPE_WRITABLE, 0), 0);
    TAP_OK(word() & HV_FRAME_VALIDATED);
    TAP_EQ(hv_load_relaxed(&fixture.memory.flushes.issued), 0);
    hv_frame_type_put(fixture.arena, mfn);
    close_with_frame();
}

/* A get of the same type from STAMPING: the put's finish finds another word and drops its stamp. */
static void test_same_from_stamping(void)
{
    uint64_t stamping;

    TAP_OK(open_with_frame());
    TAP_EQ(get(HV_FRAME_TYPE_WRITABLE, 0), 0);
    stamping = hv_frame_type_release(frame);
    TAP_OK(stamping != 0);
    TAP_EQ(word(), stamping);
    TAP_OK(word() & HV_FRAME_STAMPING);
    TAP_EQ(get(HV_FRAME_TYPE_WRITABLE, 0), 0);
    TAP_OK(word() & HV_FRAME_VALIDATED);
    hv_frame_type_stamp(fixture.arena, frame, stamping);
    TAP_EQ(hv_frame_type_references(frame), 1);
    hv_frame_type_put(fixture.arena, mfn);
    close_with_frame();
}

/* A change of type asks exactly those who may have entries older than the stamp. */
static void test_change_flushes(void)
{
    TAP_OK(open_with_frame());
    hv_memory_mark_dirty(&fixture.memory, 0);
    hv_memory_mark_dirty(&fixture.memory, 1);
    TAP_EQ(get(HV_FRAME_TYPE_WRITABLE, 0), 0);
    hv_frame_type_put(fixture.arena, mfn);
    fake_vcpu_flush(&fixture.vcpu[0]);
    TAP_EQ(get(HV_FRAME_TYPE_SEALED, HV_SEAL_PGTABLE), 0);
    TAP_EQ(hv_frame_type(frame), HV_FRAME_TYPE_SEALED);
    TAP_EQ(hv_frame_reasons(frame), HV_SEAL_PGTABLE);
    TAP_EQ(hv_load_relaxed(&fixture.memory.flushes.filtered), 1);
    TAP_EQ(hv_load_relaxed(&fixture.memory.flushes.issued), 1);
    TAP_EQ(hv_load_relaxed(&fixture.memory.flushes.lazy), 1);
    TAP_EQ(hv_load_seq(&fixture.vcpu[0].bell.requests), 0);
    TAP_EQ(hv_load_seq(&fixture.vcpu[1].bell.requests), HV_REQUEST_FLUSH);
    TAP_EQ(hv_load_relaxed(&fixture.memory.type_changes), 2); /* from NONE, too */
    TAP_EQ(get(HV_FRAME_TYPE_WRITABLE, 0), (uint64_t)-EBUSY);
    hv_frame_type_put(fixture.arena, mfn);
    close_with_frame();
}

/* The caller's own vCPU is not asked. */
static void test_change_spares_self(void)
{
    TAP_OK(open_with_frame());
    hv_memory_mark_dirty(&fixture.memory, 0);
    hv_memory_mark_dirty(&fixture.memory, 1);
    TAP_EQ(get(HV_FRAME_TYPE_WRITABLE, 0), 0);
    hv_frame_type_put(fixture.arena, mfn);
    access_owner.self = &fixture.vcpu[1].holder;
    TAP_EQ(get(HV_FRAME_TYPE_SEALED, HV_SEAL_COW), 0);
    TAP_EQ(hv_load_seq(&fixture.vcpu[0].bell.requests), HV_REQUEST_FLUSH);
    TAP_EQ(hv_load_seq(&fixture.vcpu[1].bell.requests), 0);
    hv_frame_type_put(fixture.arena, mfn);
    close_with_frame();
}

/* What a type leaves behind, by reason. */
static void leaves(unsigned reason, bool flushes)
{
    uint64_t before;

    TAP_EQ(get(HV_FRAME_TYPE_SEALED, reason), 0);
    hv_frame_type_put(fixture.arena, mfn);
    before = hv_load_relaxed(&fixture.memory.flushes.issued);
    TAP_EQ(get(HV_FRAME_TYPE_WRITABLE, 0), 0);
    TAP_EQ(hv_load_relaxed(&fixture.memory.flushes.issued), before + flushes);
    hv_frame_type_put(fixture.arena, mfn);
}

static void test_seal_reasons(void)
{
    TAP_OK(open_with_frame());
    hv_memory_mark_dirty(&fixture.memory, 0);
    leaves(HV_SEAL_CODE, false);
    leaves(HV_SEAL_COW, true);
    leaves(HV_SEAL_PGTABLE, true);
    /* Reasons stand together, and until the last reference goes. */
    TAP_EQ(get(HV_FRAME_TYPE_SEALED, HV_SEAL_CODE), 0);
    TAP_OK(hv_frame_revocable(frame));
    TAP_EQ(get(HV_FRAME_TYPE_SEALED, HV_SEAL_PGTABLE), 0);
    TAP_EQ(hv_frame_reasons(frame), HV_SEAL_CODE | HV_SEAL_PGTABLE);
    TAP_OK(!hv_frame_revocable(frame));
    hv_frame_type_put(fixture.arena, mfn);
    TAP_EQ(hv_frame_reasons(frame), HV_SEAL_CODE | HV_SEAL_PGTABLE);
    hv_frame_type_put(fixture.arena, mfn);
    /* Other reasons than before are a change, so that the walks cached for PGTABLE go. */
    TAP_EQ(get(HV_FRAME_TYPE_SEALED, HV_SEAL_CODE), 0);
    TAP_EQ(hv_frame_reasons(frame), HV_SEAL_CODE);
    hv_frame_type_put(fixture.arena, mfn);
    close_with_frame();
}

static void test_type_overflow(void)
{
    TAP_OK(open_with_frame());
    TAP_EQ(get(HV_FRAME_TYPE_WRITABLE, 0), 0);
    hv_add_seq(&frame->type, HV_FRAME_VALUE_MASK - 1);
    TAP_EQ(get(HV_FRAME_TYPE_WRITABLE, 0), (uint64_t)-EOVERFLOW);
    hv_sub_seq(&frame->type, HV_FRAME_VALUE_MASK - 1);
    hv_frame_type_put(fixture.arena, mfn);
    close_with_frame();
}

static void test_pins(void)
{
    TAP_OK(open_with_frame());
    TAP_EQ(hv_frame_pin(fixture.arena, mfn, &access_owner), 0);
    TAP_OK(hv_frame_pinned(frame));
    TAP_EQ(hv_frame_references(frame), 2);
    TAP_EQ(hv_frame_type_references(frame), 1);
    hv_frame_check(frame);
    TAP_EQ(get(HV_FRAME_TYPE_SEALED, HV_SEAL_CODE), (uint64_t)-EBUSY);
    hv_frame_unpin(fixture.arena, mfn);
    TAP_OK(!hv_frame_pinned(frame));
    TAP_EQ(get(HV_FRAME_TYPE_SEALED, HV_SEAL_COW), 0);
    TAP_EQ(hv_frame_pin(fixture.arena, mfn, &access_owner), (uint64_t)-EBUSY);
    TAP_EQ(hv_frame_references(frame), 1);
    hv_frame_type_put(fixture.arena, mfn);
    for (unsigned i = 0; i < HV_FRAME_PIN_MAX; i++) {
        TAP_EQ(hv_frame_pin(fixture.arena, mfn, &access_owner), 0);
    }
    TAP_EQ(hv_frame_pin(fixture.arena, mfn, &access_owner), (uint64_t)-EOVERFLOW);
    TAP_EQ(hv_frame_references(frame), HV_FRAME_PIN_MAX + 1);
    for (unsigned i = 0; i < HV_FRAME_PIN_MAX; i++) {
        hv_frame_unpin(fixture.arena, mfn);
    }
    close_with_frame();
}

/* Set by a foreign reference, kept over puts, cleared by a flush of the mappers only. */
static void test_taint(void)
{
    struct hv_frame_access foreign;

    TAP_OK(open_with_frame());
    foreign = (struct hv_frame_access){.memory = &fixture.memory, .foreign = true};
    TAP_EQ(hv_frame_type_get(fixture.arena, mfn, HV_FRAME_TYPE_WRITABLE, 0, &foreign), 0);
    TAP_OK(word() & HV_FRAME_FTAINT);
    TAP_EQ(get(HV_FRAME_TYPE_WRITABLE, 0), 0);
    hv_frame_type_put(fixture.arena, mfn);
    hv_frame_type_put(fixture.arena, mfn);
    TAP_OK(word() & HV_FRAME_FTAINT);
    TAP_EQ(get(HV_FRAME_TYPE_SEALED, HV_SEAL_CODE), 0);
    TAP_OK(!(word() & HV_FRAME_FTAINT));
    hv_frame_type_put(fixture.arena, mfn);
    /* From CODE nobody is flushed, so a taint stays. */
    TAP_EQ(hv_frame_type_get(fixture.arena, mfn, HV_FRAME_TYPE_WRITABLE, 0, &foreign), 0);
    TAP_OK(word() & HV_FRAME_FTAINT);
    hv_frame_type_put(fixture.arena, mfn);
    close_with_frame();
}

static void put_type_unused(void)
{
    if (open_with_frame()) {
        hv_frame_type_put(fixture.arena, mfn);
    }
}

static void put_twice(void)
{
    if (open_with_frame()) {
        hv_frame_put(fixture.arena, mfn);
        hv_frame_put(fixture.arena, mfn);
    }
}

static void put_in_use(void)
{
    if (open_with_frame() && get(HV_FRAME_TYPE_WRITABLE, 0) == 0) {
        hv_frame_put(fixture.arena, mfn);
    }
}

static void unpin_unpinned(void)
{
    if (open_with_frame() && get(HV_FRAME_TYPE_WRITABLE, 0) == 0) {
        hv_frame_unpin(fixture.arena, mfn);
    }
}

static void frame_beyond(void)
{
    if (open_with_frame()) {
        (void)hv_arena_frame(fixture.arena, (hv_mfn){hv_arena_frames(fixture.arena)});
    }
}

static void test_dies(void)
{
    TAP_DIES(put_type_unused, SIGABRT, "word & HV_FRAME_INUSE");
    TAP_DIES(put_twice, SIGABRT, "count & HV_FRAME_ALLOCATED");
    TAP_DIES(put_in_use, SIGABRT, "last &&");
    TAP_DIES(unpin_unpinned, SIGABRT, "count_pins");
    TAP_DIES(frame_beyond, SIGABRT, "frame_count");
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"mem.frame.references", test_references},
        {"mem.frame.same-type", test_same_type},
        {"mem.frame.same-from-stamping", test_same_from_stamping},
        {"mem.frame.change-flushes", test_change_flushes},
        {"mem.frame.change-spares-self", test_change_spares_self},
        {"mem.frame.seal-reasons", test_seal_reasons},
        {"tlb.overflow", test_type_overflow},
        {"mem.frame.pins", test_pins},
        {"mem.frame.taint", test_taint},
        {"mem.frame.dies", test_dies},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

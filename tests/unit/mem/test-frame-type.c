/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Historic races of typed frames, each played as one scripted interleaving against the product and
 * against the wrong ways others shipped. The script must find a stale writable entry with the wrong
 * way and none with ours: a script that the wrong way survives proves nothing. (What mappers leave
 * behind is in test-foreign-strategy.c.)
 *
 * Roles: vCPU 0 and 1 of the owner with a TLB each; `parked` is a thread that stops half way
 * through a put or a get; the rest happens in the test's own thread.
 */
#include "lib/threads.h"
#include "sync/race.h"
#include "unit/mem/mem-fixture.h"

static struct fixture fixture;
static struct hv_frame_access access_owner;
static hv_mfn mfn;
static struct hv_frame *frame;

/* How type references are put and taken: the product's way, or one that was wrong somewhere. */
struct way {
    void (*put)(void);
    int (*get_other)(void); /* PGTABLE, from WRITABLE */
    bool wrong;
};

/* The page stands in no p2m: the TLBs are filled by hand. */
#define SLOT ((hv_gfn){0})

static void put(void)
{
    hv_frame_type_put(fixture.arena, mfn);
}

static int get_writable(void)
{
    return hv_frame_type_get(fixture.arena, mfn, HV_FRAME_TYPE_WRITABLE, 0, &access_owner);
}

static int get_pgtable(void)
{
    return hv_frame_type_get(fixture.arena, mfn, HV_FRAME_TYPE_SEALED, HV_SEAL_PGTABLE,
                             &access_owner);
}

static const struct way product = {put, get_pgtable, false};

static bool open_with_frame(void)
{
    if (!fixture_open(&fixture, 2, HV_EXTENT_FRAMES, NULL, NULL) ||
        hv_heap_claim(fixture.arena->heap, HV_EXTENT_FRAMES) ||
        hv_heap_alloc_frame(fixture.arena->heap, 7, &mfn)) {
        return false;
    }
    frame = hv_arena_frame(fixture.arena, mfn);
    access_owner = (struct hv_frame_access){.memory = &fixture.memory};
    return true;
}

static void close_frame(void)
{
    put();
    hv_frame_put(fixture.arena, mfn);
    fixture_close(&fixture);
}

/* Write through a translation: the vCPU has a writable entry of the frame afterwards. */
static void use(struct fake_vcpu *vcpu)
{
    fake_vcpu_enter(vcpu);
    vcpu->writable[SLOT.v] = mfn;
    hv_doorbell_leave(&vcpu->bell);
}

/* How most scripts begin: a WRITABLE frame that vCPU 0 has written. */
static bool open_used(void)
{
    if (!open_with_frame() || get_writable() != 0) {
        return false;
    }
    use(&fixture.vcpu[0]);
    return true;
}

/* vCPU 1 has flushed since the first use, and uses the page itself. */
static bool use_again(void)
{
    fake_vcpu_flush(&fixture.vcpu[1]);
    if (get_writable() != 0) {
        return false;
    }
    use(&fixture.vcpu[1]);
    return true;
}

/* Somebody could write although the frame is no longer WRITABLE. */
static bool stale(void)
{
    return hv_frame_type(frame) != HV_FRAME_TYPE_WRITABLE &&
           (fake_vcpu_can_write(&fixture.vcpu[0], SLOT) ||
            fake_vcpu_can_write(&fixture.vcpu[1], SLOT));
}

static struct threads parked;
static _Atomic uint32_t parked_result;

static void park_body(unsigned index, void *context)
{
    const struct way *way = context;

    (void)index;
    hv_race_name_thread(1);
    way->put();
    hv_race_name_thread(0);
}

static void park_get_body(unsigned index, void *context)
{
    const struct way *way = context;

    (void)index;
    hv_race_name_thread(1);
    hv_store_seq(&parked_result, (uint32_t)way->get_other());
    hv_race_name_thread(0);
}

static bool park(threads_body *body, const struct way *way, const char *point)
{
    hv_race_begin();
    hv_race_stop(1, point, 0);
    threads_start(&parked, 1, body, (void *)way);
    return hv_race_await(1, point);
}

static void unpark(const char *point)
{
    hv_race_release(1, point);
    threads_join(&parked);
    hv_race_end();
}

/* --- The wrong ways --- */

static uint64_t stamped(uint64_t word, uint64_t stamp)
{
    return (word & ~(HV_FRAME_INUSE | HV_FRAME_STAMPING | HV_FRAME_VALUE_MASK)) | stamp;
}

/* Clock first, then the drop to zero with the stamp in one (XSA-241's order, hosted). */
static void put_clock_first(void)
{
    uint64_t word = hv_load_seq(&frame->type);
    uint64_t stamp = hv_flush_clock(&fixture.arena->holders);
    uint64_t wanted;

    HV_RACE("frame.put.read");
    do {
        wanted = (word & HV_FRAME_VALUE_MASK) == 1 ? stamped(word, stamp) : word - 1;
    } while (!hv_cas_seq(&frame->type, &word, wanted));
}

/* STAMPING without a token: any STAMPING of the type is taken for one's own. */
static void put_without_token(void)
{
    uint64_t word = hv_load_seq(&frame->type);
    uint64_t stamping;
    uint64_t stamp;

    do {
        stamping = (word & ~(HV_FRAME_INUSE | HV_FRAME_VALUE_MASK)) | HV_FRAME_STAMPING;
    } while (
        !hv_cas_seq(&frame->type, &word, (word & HV_FRAME_VALUE_MASK) == 1 ? stamping : word - 1));
    stamp = hv_flush_clock(&fixture.arena->holders);
    HV_RACE("frame.put.clock");
    (void)hv_cas_seq(&frame->type, &stamping, stamped(stamping, stamp));
}

static void flush_owner(uint64_t stamp)
{
    hv_holders_flush(&fixture.arena->holders, fixture.memory.holder,
                     hv_load_seq(&fixture.memory.dirty_mask), HV_MAPPERS_NONE, stamp,
                     &fixture.memory.flushes);
}

static int change(uint64_t word)
{
    const uint64_t wanted = (uint64_t)HV_FRAME_TYPE_SEALED << 60 | (uint64_t)HV_SEAL_PGTABLE << 50 |
                            HV_FRAME_VALIDATED | HV_FRAME_INUSE | 1;

    if (word & HV_FRAME_INUSE) {
        return -EBUSY;
    }
    return hv_cas_seq(&frame->type, &word, wanted) ? 0 : -EBUSY;
}

/* The flush before the reference (XSA-401): what others re-create in between stays. */
static int get_flush_first(void)
{
    flush_owner(hv_load_seq(&frame->type) & HV_FRAME_VALUE_MASK);
    HV_RACE("frame.get.taken");
    return change(hv_load_seq(&frame->type));
}

/* The flush decided by the new type (XSA-408): "a page table was never writable". */
static int get_new_type_condition(void)
{
    uint64_t word = hv_load_seq(&frame->type);
    int err = change(word);

    if (!err && hv_frame_type(frame) == HV_FRAME_TYPE_WRITABLE) {
        flush_owner(word & HV_FRAME_VALUE_MASK);
    }
    return err;
}

/* --- The scripts --- */

/* Ours, whatever is done about mappers, survives; the wrong way is caught. */
static void play(void (*script)(const struct way *way), const struct way *wrong)
{
    for (unsigned i = 0; i < HV_FOREIGN_STRATEGIES && !tap_failed(); i++) {
        fixture_strategy = hv_foreign_strategies[i];
        script(&product);
    }
    fixture_strategy = &hv_foreign_taint;
    if (!tap_failed()) {
        script(wrong);
    }
}

/* The last put stalls at @point while something else happens; then the page changes its type. */
static void stalled_put(const struct way *way, const char *point,
                        bool (*meanwhile)(const struct way *way))
{
    TAP_OK(open_used());
    TAP_OK(park(park_body, way, point));
    TAP_OK(meanwhile(way));
    unpark(point);
    TAP_EQ(get_pgtable(), 0);
    TAP_EQ(stale(), way->wrong);
    close_frame();
}

static bool used_and_put(const struct way *way)
{
    bool used = use_again();

    (void)way;
    put();
    return used;
}

/* The put has begun, but not dropped its reference. */
static void stamp_aba(const struct way *way)
{
    stalled_put(way, "frame.put.read", used_and_put);
}

static void test_stamp_aba(void)
{
    static const struct way clock_first = {put_clock_first, get_pgtable, true};

    if (skip_script()) {
        return;
    }
    play(stamp_aba, &clock_first);
}

/* A second put that stalls, too, so that its STAMPING stands when the first one finishes. */
static void stall_put(const struct way *way)
{
    uint64_t word = hv_load_seq(&frame->type);

    if (!way->wrong) {
        word = hv_frame_type_release(frame);
    } else {
        word = (word & ~(HV_FRAME_INUSE | HV_FRAME_VALUE_MASK)) | HV_FRAME_STAMPING;
    }
    hv_store_seq(&frame->type, word);
}

static bool used_as_before(const struct way *way)
{
    bool used = use_again();

    stall_put(way);
    return used;
}

static bool used_in_between(const struct way *way)
{
    if (get_pgtable() != 0) {
        return false;
    }
    put();
    return used_as_before(way);
}

/* The finisher stalls with its clock in hand; the page is used again as the same type … */
static void token_same_type(const struct way *way)
{
    stalled_put(way, "frame.put.clock", used_as_before);
}

/* … and was a page table in between. */
static void token_cycle(const struct way *way)
{
    stalled_put(way, "frame.put.clock", used_in_between);
}

static void test_stamp_token(void)
{
    static const struct way without_token = {put_without_token, get_pgtable, true};

    if (skip_script()) {
        return;
    }
    play(token_same_type, &without_token);
    play(token_cycle, &without_token);
}

/* The owner maps the page writable again while a change of type is on its way. */
static void get_aba(const struct way *way)
{
    TAP_OK(open_used());
    put();
    TAP_OK(park(park_get_body, way, "frame.get.taken"));
    if (get_writable() == 0) {
        use(&fixture.vcpu[0]);
        put();
    }
    unpark("frame.get.taken");
    TAP_EQ(hv_load_seq(&parked_result), 0);
    TAP_EQ(hv_frame_type(frame), HV_FRAME_TYPE_SEALED);
    TAP_EQ(stale(), way->wrong);
    close_frame();
}

static void test_get_aba(void)
{
    static const struct way flush_first = {put, get_flush_first, true};

    if (skip_script()) {
        return;
    }
    play(get_aba, &flush_first);
}

static void old_type(const struct way *way)
{
    TAP_OK(open_used());
    put();
    TAP_EQ(way->get_other(), 0);
    TAP_EQ(stale(), way->wrong);
    close_frame();
}

static void test_old_type(void)
{
    static const struct way new_type = {put, get_new_type_condition, true};

    play(old_type, &new_type);
}

/* A page table of one owner must not be taken for one that its next owner validated. */
static void test_stale_type_on_steal(void)
{
    uint64_t old;

    for (int wrong = 0; wrong < 2; wrong++) {
        struct hv_frame_taken taken;

        TAP_OK(open_with_frame());
        TAP_EQ(get_pgtable(), 0);
        put();
        old = hv_load_seq(&frame->type);
        TAP_OK(old & HV_FRAME_VALIDATED);
        hv_frame_put(fixture.arena, mfn);
        hv_frame_assign(frame, 9);
        if (wrong) {
            hv_store_seq(&frame->type, old); /* an owner change that wipes nothing */
        }
        TAP_EQ(hv_frame_type_take(frame, HV_FRAME_TYPE_SEALED, HV_SEAL_PGTABLE, false, &taken), 0);
        TAP_EQ((hv_load_seq(&frame->type) & HV_FRAME_VALIDATED) != 0, wrong);
        TAP_EQ(taken.how, wrong ? HV_FRAME_HOW_SAME : HV_FRAME_HOW_CHANGED);
        memory_close(&fixture.memory);
        hv_arena_destroy(fixture.arena); /* with the frame still taken: it was never in a table */
    }
}

/* Whoever shares a type that is not yet validated waits until it is. */
static _Atomic uint32_t shared;

static void share_body(unsigned index, void *context)
{
    (void)index;
    (void)context;
    if (get_pgtable() == 0) {
        hv_store_seq(&shared, hv_load_seq(&frame->type) & HV_FRAME_VALIDATED ? 1 : 2);
    }
}

static void share_waits(void)
{
    struct threads sharer;

    hv_store_seq(&shared, 0);
    TAP_OK(open_with_frame());
    TAP_EQ(get_writable(), 0);
    put();
    TAP_OK(park(park_get_body, &product, "frame.get.taken"));
    threads_start(&sharer, 1, share_body, NULL);
    TAP_AWAIT(hv_load_seq(&fixture.arena->settled.waiters) == 1);
    TAP_EQ(hv_load_seq(&shared), 0);
    unpark("frame.get.taken");
    threads_join(&sharer);
    TAP_EQ(hv_load_seq(&shared), 1);
    put();
    close_frame();
}

static void share_foreign_body(unsigned index, void *context)
{
    const struct hv_frame_access foreign = {.memory = &fixture.memory, .foreign = true};

    (void)index;
    (void)context;
    if (hv_frame_type_get(fixture.arena, mfn, HV_FRAME_TYPE_SEALED, HV_SEAL_PGTABLE, &foreign) ==
        0) {
        hv_store_seq(&shared, 1);
    }
}

/* A foreign reference that comes during the flush keeps its taint: the flush was before it. */
static void share_taints(void)
{
    const struct hv_frame_access foreign = {.memory = &fixture.memory, .foreign = true};
    struct threads sharer;

    hv_store_seq(&shared, 0);
    TAP_OK(open_with_frame());
    TAP_EQ(hv_frame_type_get(fixture.arena, mfn, HV_FRAME_TYPE_WRITABLE, 0, &foreign), 0);
    put();
    TAP_OK(park(park_get_body, &product, "frame.get.taken"));
    threads_start(&sharer, 1, share_foreign_body, NULL);
    TAP_AWAIT(hv_load_seq(&fixture.arena->settled.waiters) == 1);
    unpark("frame.get.taken");
    threads_join(&sharer);
    TAP_EQ(hv_load_seq(&shared), 1);
    TAP_OK(hv_load_seq(&frame->type) & HV_FRAME_FTAINT);
    put();
    close_frame();
}

static void test_share_waits(void)
{
    if (!skip_script()) {
        each_strategy(share_waits);
    }
}

static void test_share_taints(void)
{
    if (!skip_script()) {
        each_strategy(share_taints);
    }
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"tlb.stamp-aba", test_stamp_aba},
        {"tlb.stamp-token", test_stamp_token},
        {"tlb.get-aba", test_get_aba},
        {"tlb.old-type-cond", test_old_type},
        {"tlb.stale-type-on-steal", test_stale_type_on_steal},
        {"tlb.partial-resume", test_share_waits},
        {"tlb.share-taints", test_share_taints},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

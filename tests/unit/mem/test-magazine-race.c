/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Magazines whose frames several threads are after: scripts of who takes what between which steps. */
#include "lib/threads.h"
#include "sync/race.h"
#include "unit/mem/magazine-fixture.h"

enum order {
    ORDER_NONE,
    ORDER_ALLOC, /* with a claim that it has */
    ORDER_CLAIM_AND_ALLOC,
    ORDER_FREE,
    ORDER_DRAIN,
    ORDER_COLLECT,
    ORDER_CLAIM_ALL,
    ORDER_LEAVE,
};

/* A thread with magazines that does one thing when told, and one without. */
static struct actor {
    struct threads thread;
    unsigned number; /* of its race points */
    bool attaches;
    _Atomic uint32_t order;
    hv_mfn mfn; /* allocated, or to be freed */
    int err;
    uint64_t drained;
} owner, other;

static int obey(struct actor *actor, enum order order)
{
    switch (order) {
    case ORDER_CLAIM_AND_ALLOC:
        actor->err = hv_heap_claim(heap, 1);
        return actor->err ? actor->err : hv_heap_alloc_frame(heap, 2, &actor->mfn);
    case ORDER_ALLOC:
        return hv_heap_alloc_frame(heap, 2, &actor->mfn);
    case ORDER_FREE:
        hv_frame_put(arena, actor->mfn);
        return 0;
    case ORDER_DRAIN:
        actor->drained = hv_magazines_drain(heap);
        return 0;
    case ORDER_COLLECT:
        return hv_magazines_collect(heap) ? 0 : -ENOENT;
    case ORDER_CLAIM_ALL:
        return hv_heap_claim(heap, HV_EXTENT_FRAMES);
    case ORDER_NONE:
    case ORDER_LEAVE:
        break;
    }
    return -EINVAL;
}

static void actor_body(unsigned index, void *context)
{
    struct actor *actor = context;
    uint32_t order;

    (void)index;
    hv_race_name_thread(actor->number);
    if (actor->attaches) {
        hv_heap_attach_thread(heap);
    }
    while ((order = hv_load_seq(&actor->order)) != ORDER_LEAVE) {
        if (order != ORDER_NONE) {
            actor->err = obey(actor, (enum order)order);
            hv_store_seq(&actor->order, ORDER_NONE);
        }
        threads_patient(0);
    }
    hv_heap_detach_thread(heap);
}

static bool idle(const struct actor *actor)
{
    return hv_load_seq(&actor->order) == ORDER_NONE;
}

static void begin(struct actor *actor, enum order order)
{
    hv_store_seq(&actor->order, order);
}

/* Tell it, and wait until it has done it; true when that went well. */
static bool let(struct actor *actor, enum order order)
{
    uint64_t end = threads_patience();

    begin(actor, order);
    while (!idle(actor) && threads_patient(end)) {
    }
    return idle(actor) && actor->err == 0;
}

static void start(struct actor *actor, unsigned number, bool attaches)
{
    memset(actor, 0, sizeof(*actor));
    actor->number = number;
    actor->attaches = attaches;
    threads_start(&actor->thread, 1, actor_body, actor);
}

static void leave(struct actor *actor)
{
    begin(actor, ORDER_LEAVE);
    threads_join(&actor->thread);
}

/* All frames of one extent are owned, but for ten in the owner's magazine and some in a shard. */
static bool ten_in_magazine(void)
{
    hv_mfn mine[10];

    if (!open_arena(HV_BACKING_KIND_ANON, 1)) {
        return false;
    }
    start(&owner, 1, true);
    for (unsigned i = 0; i < 10; i++) {
        if (!alloc(&mine[i])) {
            return false;
        }
    }
    for (unsigned i = 0; i < 10; i++) {
        owner.mfn = mine[i];
        if (!let(&owner, ORDER_FREE)) {
            return false;
        }
    }
    return heap_info().magazine_frames == 10;
}

/* All is taken between the owner's look at its last frame and its having it. */
static void test_take_amid_pop(void)
{
    if (skip_script()) {
        return;
    }
    TAP_OK(ten_in_magazine());
    hv_race_begin();
    hv_race_stop(1, "magazine.pop.read", 0);
    begin(&owner, ORDER_CLAIM_AND_ALLOC);
    TAP_OK(hv_race_await(1, "magazine.pop.read"));
    TAP_EQ(hv_magazines_drain(heap), 10);
    hv_race_end();
    TAP_AWAIT(idle(&owner));
    TAP_EQ(owner.err, 0);
    TAP_OK(conserved(1));
    leave(&owner);
    TAP_OK(conserved(1));
    hv_arena_destroy(arena);
}

/* The same, and all that there is has an owner by the time the pop goes on, but for one frame. */
static void test_steal_amid_pop(void)
{
    hv_mfn mfn;

    if (skip_script()) {
        return;
    }
    TAP_OK(ten_in_magazine());
    TAP_EQ(hv_heap_claim(heap, 1), 0);
    hv_race_begin();
    hv_race_stop(1, "magazine.pop.read", 0);
    begin(&owner, ORDER_ALLOC);
    TAP_OK(hv_race_await(1, "magazine.pop.read"));
    for (unsigned i = 0; i < HV_EXTENT_FRAMES - 1; i++) {
        TAP_OK(alloc(&mfn));
    }
    TAP_EQ(heap_info().free_frames, 1);
    hv_race_end();
    TAP_AWAIT(idle(&owner));
    TAP_EQ(owner.err, 0);
    TAP_OK(conserved(HV_EXTENT_FRAMES));
    leave(&owner);
    hv_arena_destroy(arena);
}

/* All is taken between the writing of a slot and its being counted. */
static void test_take_amid_push(void)
{
    if (skip_script()) {
        return;
    }
    TAP_OK(ten_in_magazine());
    TAP_OK(alloc(&owner.mfn));
    hv_race_begin();
    hv_race_stop(1, "magazine.push.written", 0);
    begin(&owner, ORDER_FREE);
    TAP_OK(hv_race_await(1, "magazine.push.written"));
    TAP_EQ(hv_magazines_drain(heap), 10);
    hv_race_end();
    TAP_AWAIT(idle(&owner));
    TAP_EQ(heap_info().magazine_frames, 1);
    TAP_OK(conserved(0));
    leave(&owner);
    TAP_OK(conserved(0));
    hv_arena_destroy(arena);
}

/* A taker that is stopped half way keeps nobody: the owner goes on at once, without what is taken. */
static void test_stopped_taker(void)
{
    if (skip_script()) {
        return;
    }
    TAP_OK(ten_in_magazine());
    start(&other, 2, false);
    hv_race_begin();
    hv_race_stop(2, "magazine.take.copied", 0);
    begin(&other, ORDER_DRAIN);
    TAP_OK(hv_race_await(2, "magazine.take.copied"));
    TAP_OK(let(&owner, ORDER_CLAIM_AND_ALLOC));
    TAP_OK(let(&owner, ORDER_FREE));
    TAP_OK(let(&owner, ORDER_CLAIM_AND_ALLOC));
    /* Who takes after him finds nothing to take where he is at it. */
    TAP_OK(hv_magazines_drain(heap) < HV_EXTENT_FRAMES - 10);
    TAP_OK(heap_info().moving_frames > 0);
    hv_race_end();
    TAP_AWAIT(idle(&other));
    TAP_OK(other.drained >= 10);
    TAP_OK(conserved(1));
    leave(&other);
    leave(&owner);
    TAP_OK(conserved(1));
    hv_arena_destroy(arena);
}

/* This thread's magazines get their one free frame, and the owner, who finds that it may claim it,
 * allocates the one of its own. */
static bool frame_comes_here(hv_mfn mfn)
{
    hv_frame_put(arena, mfn);
    return let(&owner, ORDER_CLAIM_AND_ALLOC);
}

/*
 * There is always one free frame, but while the searcher looks at one thread's magazines it is in
 * the other's, for two whole searches. His claim says that there is one, so he goes on.
 */
static void test_moves_between_magazines(void)
{
    static hv_mfn frames[HV_EXTENT_FRAMES];
    unsigned last = HV_EXTENT_FRAMES - 1;

    if (skip_script()) {
        return;
    }
    TAP_OK(open_attached(1));
    TAP_EQ(hv_magazines_own(heap) - heap->magazines, 0);
    TAP_OK(alloc_many(frames, HV_EXTENT_FRAMES));
    start(&owner, 1, true);
    start(&other, 2, false);
    owner.mfn = frames[last];
    TAP_OK(let(&owner, ORDER_FREE));
    TAP_EQ(hv_heap_claim(heap, 1), 0);
    hv_race_begin();
    hv_race_stop(2, "magazine.steal.next", 1); /* after both of ours */
    begin(&other, ORDER_ALLOC);
    TAP_OK(hv_race_await(2, "magazine.steal.next"));
    TAP_OK(frame_comes_here(frames[0]));
    hv_race_stop(2, "heap.search.begin", 0);
    hv_race_release(2, "magazine.steal.next");
    TAP_OK(hv_race_await(2, "heap.search.begin"));
    /* And back, before the second search. */
    TAP_OK(let(&owner, ORDER_FREE));
    TAP_OK(alloc(&frames[0]));
    hv_race_stop(2, "magazine.steal.next", 1);
    hv_race_release(2, "heap.search.begin");
    TAP_OK(hv_race_await(2, "magazine.steal.next"));
    TAP_OK(frame_comes_here(frames[0]));
    hv_race_end();
    TAP_AWAIT(idle(&other));
    TAP_EQ(other.err, 0);
    TAP_EQ(other.mfn.v, frames[0].v);
    TAP_OK(conserved(HV_EXTENT_FRAMES));
    leave(&other);
    leave(&owner);
    close_attached();
}

/* Ten free frames' credit has left the magazine and is not booked yet: they can be claimed. */
static void test_claim_amid_credit(void)
{
    struct hv_heap_info info;

    if (skip_script()) {
        return;
    }
    TAP_OK(ten_in_magazine());
    start(&other, 2, false);
    hv_race_begin();
    hv_race_stop(1, "magazine.credit.taken", 0);
    begin(&owner, ORDER_COLLECT);
    TAP_OK(hv_race_await(1, "magazine.credit.taken"));
    hv_race_stop(2, "magazine.credit.awaited", 0);
    begin(&other, ORDER_CLAIM_ALL);
    TAP_OK(hv_race_await(2, "magazine.credit.awaited"));
    hv_race_end();
    TAP_AWAIT(idle(&owner) && idle(&other));
    TAP_EQ(other.err, 0);
    info = heap_info();
    TAP_EQ(info.claimed_frames, HV_EXTENT_FRAMES);
    hv_heap_unclaim(heap, HV_EXTENT_FRAMES);
    TAP_EQ(hv_heap_claim(heap, HV_EXTENT_FRAMES + 1), -EINVAL);
    TAP_OK(conserved(0));
    leave(&other);
    leave(&owner);
    hv_arena_destroy(arena);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"magazine.take-amid-pop", test_take_amid_pop},
        {"magazine.steal-amid-pop", test_steal_amid_pop},
        {"magazine.take-amid-push", test_take_amid_push},
        {"magazine.stopped-taker", test_stopped_taker},
        {"magazine.moves-between", test_moves_between_magazines},
        {"magazine.claim-amid-credit", test_claim_amid_credit},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

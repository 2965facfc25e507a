/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Shards, their lists of extents, claims. Allocation is in heap-alloc.c, freeing in heap-free.c, what
 * happens to free memory in between in heap-scrub.c and heap-trim.c.
 */
#include "mem/heap.h"

#include <errno.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "mem/heap-private.h"
#include "sync/race.h"

/* The first shards' worth of extents each, so that a small arena has no empty shard. */
static unsigned shards_for(uint32_t extents)
{
    return extents < HV_HEAP_SHARDS ? extents : HV_HEAP_SHARDS;
}

static void shard_init(struct hv_shard *shard, unsigned index)
{
    hv_lock_init(&shard->lock, HV_RANK_HEAP, "mem.heap.shard", index);
    for (unsigned i = 0; i < HV_EXTENT_LISTS; i++) {
        shard->head[i] = HV_EXTENT_NIL;
    }
}

/* Deal the extents out in runs, and insert backwards so that each list begins with its lowest. */
static void deal_extents(struct hv_heap *heap)
{
    for (uint32_t i = heap->extent_count; i-- > 0;) {
        struct hv_extent *extent = &heap->extents[i];
        struct hv_shard *shard;

        extent->shard = (uint16_t)((uint64_t)i * heap->shard_count / heap->extent_count);
        extent->state = HV_EXTENT_STATE_MOVING;
        shard = &heap->shards[extent->shard];
        hv_lock_take(&shard->lock);
        hv_shard_insert_locked(heap, i, HV_EXTENT_STATE_RETURNED);
        hv_lock_drop(&shard->lock);
    }
}

int hv_heap_create(struct hv_arena *arena, struct hv_heap **heap_out)
{
    struct hv_heap *heap = hv_alloc_aligned(_Alignof(struct hv_heap), sizeof(*heap));

    *heap_out = NULL;
    if (!heap) {
        return -ENOMEM;
    }
    heap->arena = arena;
    heap->extent_count = (uint32_t)(arena->frame_count / HV_EXTENT_FRAMES);
    heap->shard_count = shards_for(heap->extent_count);
    heap->extents = hv_alloc(heap->extent_count, sizeof(*heap->extents));
    heap->shards =
        hv_alloc_aligned(_Alignof(struct hv_shard), heap->shard_count * sizeof(*heap->shards));
    heap->magazines = hv_alloc_aligned(_Alignof(struct hv_magazines),
                                       HV_MAGAZINE_OWNERS * sizeof(*heap->magazines));
    if (!heap->extents || !heap->shards || !heap->magazines) {
        hv_free(heap->extents);
        hv_free(heap->shards);
        hv_free(heap->magazines);
        hv_free(heap);
        return -ENOMEM;
    }
    for (unsigned i = 0; i < heap->shard_count; i++) {
        shard_init(&heap->shards[i], i);
    }
    for (unsigned i = 0; i < HV_DUTIES; i++) {
        hv_doorbell_init(&heap->duty_bell[i]);
    }
    hv_eventcount_init(&heap->settled);
    deal_extents(heap);
    hv_store_relaxed(&heap->unclaimed, arena->frame_count);
    *heap_out = heap;
    return 0;
}

void hv_heap_destroy(struct hv_heap *heap)
{
    if (!heap) {
        return;
    }
    for (unsigned i = 0; i < HV_MAGAZINE_OWNERS; i++) {
        HV_ASSERT(hv_load_seq(&heap->magazines[i].owner) == 0);
    }
    for (unsigned i = 0; i < heap->shard_count; i++) {
        hv_lock_finish(&heap->shards[i].lock);
    }
    hv_free(heap->magazines);
    hv_free(heap->shards);
    hv_free(heap->extents);
    hv_free(heap);
}

/* Frames of the extent that a list counts, by list. */
static void count_extent(struct hv_shard *shard, const struct hv_extent *extent,
                         enum hv_extent_state list, uint64_t sign)
{
    if (list == HV_EXTENT_STATE_CLEAN) {
        hv_count(&shard->clean, sign * HV_EXTENT_FRAMES);
        hv_count(&shard->clean_extents, sign);
    } else if (list == HV_EXTENT_STATE_RETURNED) {
        hv_count(&shard->returned, sign * HV_EXTENT_FRAMES);
    } else if (list == HV_EXTENT_STATE_DIRTY) {
        hv_count(&shard->dirty, sign * HV_EXTENT_FRAMES);
    } else {
        hv_count(&shard->clean, sign * (uint64_t)(extent->free - extent->dirty));
        hv_count(&shard->dirty, sign * (uint64_t)extent->dirty);
    }
}

/* The background has something to do. Under a lock: once for each time that it has gone to sleep. */
static void wake_duties(struct hv_heap *heap)
{
    uint32_t asleep;

    /* Pairs with wait_for_work() in upkeep.c: `backed` changed before this. */
    if (hv_load_seq(&heap->duties_asleep) == 0) {
        return;
    }
    asleep = hv_swap_seq(&heap->duties_asleep, 0);
    for (; asleep != 0; asleep &= asleep - 1) {
        hv_doorbell_ring(&heap->duty_bell[__builtin_ctz(asleep)], HV_REQUEST_EVENT);
    }
}

static bool is_backed(enum hv_extent_state list)
{
    return list == HV_EXTENT_STATE_CLEAN || list == HV_EXTENT_STATE_DIRTY;
}

static void note_backed(struct hv_heap *heap, enum hv_extent_state list)
{
    if (is_backed(list)) {
        hv_add_seq(&heap->backed, 1);
        wake_duties(heap);
    }
}

/* After `backed` has changed: pairs with hv_heap_fewest_backed(), which looks at it after its swap. */
static void note_fewest(struct hv_heap *heap, uint64_t backed)
{
    uint64_t fewest = hv_load_seq(&heap->fewest_backed);

    while (backed < fewest && !hv_cas_weak_seq(&heap->fewest_backed, &fewest, backed)) {
    }
}

static void note_unbacked(struct hv_heap *heap, enum hv_extent_state list)
{
    uint64_t backed;

    if (!is_backed(list)) {
        return;
    }
    backed = hv_sub_seq(&heap->backed, 1) - 1;
    HV_RACE("heap.unbacked");
    note_fewest(heap, backed);
    if (list == HV_EXTENT_STATE_CLEAN) {
        wake_duties(heap);
    }
}

uint64_t hv_heap_fewest_backed(struct hv_heap *heap)
{
    /* Nothing is known of the new period before the swap: who looks at a value from before it is
     * told of by the old one, and its change of `backed` stands by the time we look at that. */
    uint64_t fewest = hv_swap_seq(&heap->fewest_backed, UINT64_MAX);

    HV_RACE("heap.fewest.swapped");
    note_fewest(heap, hv_load_seq(&heap->backed));
    return fewest;
}

void hv_shard_insert_locked(struct hv_heap *heap, uint32_t index, enum hv_extent_state state)
{
    struct hv_extent *extent = &heap->extents[index];
    struct hv_shard *shard = &heap->shards[extent->shard];
    uint32_t *head = &shard->head[state];

    hv_lock_assert_held(&shard->lock);
    HV_ASSERT(extent->state >= HV_EXTENT_LISTS && state < HV_EXTENT_LISTS);
    extent->state = (uint16_t)state;
    extent->prev = HV_EXTENT_NIL;
    extent->next = *head;
    if (extent->next != HV_EXTENT_NIL) {
        heap->extents[extent->next].prev = index;
    }
    *head = index;
    count_extent(shard, extent, state, 1);
    note_backed(heap, state);
}

void hv_shard_remove_locked(struct hv_heap *heap, uint32_t index)
{
    struct hv_extent *extent = &heap->extents[index];
    struct hv_shard *shard = &heap->shards[extent->shard];

    hv_lock_assert_held(&shard->lock);
    HV_ASSERT(extent->state < HV_EXTENT_LISTS);
    count_extent(shard, extent, (enum hv_extent_state)extent->state, UINT64_MAX);
    note_unbacked(heap, (enum hv_extent_state)extent->state);
    if (extent->prev != HV_EXTENT_NIL) {
        heap->extents[extent->prev].next = extent->next;
    } else {
        shard->head[extent->state] = extent->next;
    }
    if (extent->next != HV_EXTENT_NIL) {
        heap->extents[extent->next].prev = extent->prev;
    }
    extent->state = HV_EXTENT_STATE_MOVING;
}

unsigned hv_heap_home(const struct hv_heap *heap, uint16_t owner)
{
    return owner % heap->shard_count;
}

/* The first extent of the shard's list; it is MOVING then. */
static uint32_t take_of_shard(struct hv_heap *heap, struct hv_shard *shard,
                              enum hv_extent_state list)
{
    uint32_t index;

    hv_lock_take(&shard->lock);
    index = shard->head[list];
    if (index != HV_EXTENT_NIL) {
        hv_shard_remove_locked(heap, index);
        /* Under the lock: who finds the list without it finds it moving. */
        hv_heap_hold(heap, HV_EXTENT_FRAMES);
    }
    hv_lock_drop(&shard->lock);
    HV_RACE("heap.take.shard");
    return index;
}

/* The same, of shard @from or else the next that has one. */
static uint32_t take_of_list(struct hv_heap *heap, unsigned from, enum hv_extent_state list)
{
    uint32_t index = HV_EXTENT_NIL;

    for (unsigned i = 0; i < heap->shard_count && index == HV_EXTENT_NIL; i++) {
        index = take_of_shard(heap, &heap->shards[(from + i) % heap->shard_count], list);
    }
    return index;
}

/* The same, of the first of @lists that has one anywhere. */
static uint32_t take_of_lists(struct hv_heap *heap, unsigned from,
                              const enum hv_extent_state *lists, size_t count,
                              enum hv_extent_state *was_out)
{
    uint32_t index = HV_EXTENT_NIL;

    for (size_t k = 0; k < count && index == HV_EXTENT_NIL; k++) {
        *was_out = lists[k];
        if (!is_backed(lists[k]) || hv_load_seq(&heap->backed) > 0) {
            index = take_of_list(heap, from, lists[k]);
        }
    }
    return index;
}

uint32_t hv_heap_take_extent(struct hv_heap *heap, unsigned home, enum hv_extent_state *was_out)
{
    /* Another shard's clean one rather than the own shard's dirty one; and to scrub (a GiB: 160 to
     * 310 ms) rather than to have the host make new pages (300 to 3000). */
    static const enum hv_extent_state lists[] = {
        HV_EXTENT_STATE_CLEAN,
        HV_EXTENT_STATE_DIRTY,
        HV_EXTENT_STATE_RETURNED,
    };
    uint32_t index = take_of_lists(heap, home, lists, HV_ARRAY_LEN(lists), was_out);

    if (index != HV_EXTENT_NIL) {
        /* Invariant (2): it is in our hands. */
        heap->extents[index].shard = (uint16_t)home;
    }
    return index;
}

uint32_t hv_heap_take_spare_extent(struct hv_heap *heap, unsigned from,
                                   enum hv_extent_state *was_out)
{
    static const enum hv_extent_state lists[] = {
        HV_EXTENT_STATE_DIRTY,
        HV_EXTENT_STATE_CLEAN,
    };

    return take_of_lists(heap, from, lists, HV_ARRAY_LEN(lists), was_out);
}

uint32_t hv_heap_take_dirty_extent(struct hv_heap *heap, unsigned from)
{
    return take_of_list(heap, from, HV_EXTENT_STATE_DIRTY);
}

unsigned hv_heap_richest_shard(const struct hv_heap *heap, bool dirty_only)
{
    uint64_t most = 0;
    unsigned found = 0;

    for (unsigned i = 0; i < heap->shard_count; i++) {
        const struct hv_shard *shard = &heap->shards[i];
        uint64_t has =
            hv_load_relaxed(&shard->dirty) + (dirty_only ? 0 : hv_load_relaxed(&shard->clean));

        if (has > most) {
            most = has;
            found = i;
        }
    }
    return found;
}

void hv_heap_let_go(struct hv_heap *heap, uint64_t frames)
{
    /* Pairs with hv_heap_search_on(). */
    hv_sub_seq(&heap->moving, frames);
    hv_eventcount_signal(&heap->settled);
}

void hv_heap_give_extent(struct hv_heap *heap, uint32_t extent, enum hv_extent_state state)
{
    struct hv_shard *shard = hv_extent_shard(heap, extent);

    hv_lock_take(&shard->lock);
    hv_shard_insert_locked(heap, extent, state);
    hv_lock_drop(&shard->lock);
    hv_heap_note_return(heap);
    hv_heap_let_go(heap, HV_EXTENT_FRAMES);
}

void hv_heap_own_extent(struct hv_heap *heap, uint32_t extent)
{
    heap->extents[extent].state = HV_EXTENT_STATE_OWNED;
    hv_heap_let_go(heap, HV_EXTENT_FRAMES);
}

static void begin_search(struct hv_heap *heap, struct hv_heap_search *search)
{
    HV_RACE("heap.search.begin");
    search->listening = true;
    search->ticket = hv_eventcount_listen(&heap->settled);
    search->returns = hv_load_seq(&heap->returns);
}

/* Somebody has found nothing: what the scrubber has may be what he needs. */
static void want_scrubbed(struct hv_heap *heap)
{
    uint32_t busy = HV_SCRUB_BUSY;

    /* Pairs with hv_heap_scrub_spare(), which says that it is busy before it takes an extent. */
    (void)hv_cas_seq(&heap->scrub, &busy, HV_SCRUB_WANTED);
}

/* A search found nothing: can the next one? It is not listening any more. */
static bool may_find(struct hv_heap *heap, const struct hv_heap_search *search)
{
    /* In this order: what moved during the search came back before it stopped moving. */
    bool moving = hv_load_seq(&heap->moving) > 0;
    bool again = hv_load_seq(&heap->returns) != search->returns;

    if (moving && !again) {
        want_scrubbed(heap);
        hv_eventcount_wait(&heap->settled, search->ticket, HV_NS_NEVER);
        return true;
    }
    hv_eventcount_cancel(&heap->settled);
    return again;
}

bool hv_heap_search_on(struct hv_heap *heap, struct hv_heap_search *search, int *err_inout)
{
    if (*err_inout != -EAGAIN) {
        if (search->listening) {
            hv_eventcount_cancel(&heap->settled);
        }
        return false;
    }
    if (search->listening && !may_find(heap, search)) {
        *err_inout = -ENOMEM;
        return false;
    }
    begin_search(heap, search);
    return true;
}

int hv_heap_claim(struct hv_heap *heap, uint64_t frames)
{
    uint64_t unclaimed = hv_load_seq(&heap->unclaimed);

    if (frames == 0 || frames > heap->arena->frame_count) {
        return -EINVAL;
    }
    do {
        while (unclaimed < frames) {
            bool more = hv_magazines_collect(heap);

            unclaimed = hv_load_seq(&heap->unclaimed);
            if (!more && unclaimed < frames) {
                return -ENOMEM;
            }
        }
    } while (!hv_cas_weak_seq(&heap->unclaimed, &unclaimed, unclaimed - frames));
    return 0;
}

void hv_heap_unclaim(struct hv_heap *heap, uint64_t frames)
{
    hv_add_seq(&heap->unclaimed, frames);
}

/* Reads taken again while extents move, so that none is seen in two places, or in none. */
#define INFO_TRIES 8

static void sum_free(const struct hv_heap *heap, struct hv_heap_info *info, uint64_t *credit_out)
{
    *info = (struct hv_heap_info){.total_frames = heap->arena->frame_count};
    for (unsigned i = 0; i < heap->shard_count; i++) {
        info->clean_frames += hv_load_relaxed(&heap->shards[i].clean);
        info->dirty_frames += hv_load_relaxed(&heap->shards[i].dirty);
        info->returned_frames += hv_load_relaxed(&heap->shards[i].returned);
        info->freed_extents += hv_load_relaxed(&heap->shards[i].freed_extents);
    }
    hv_magazines_sum(heap, &info->magazine_frames, credit_out);
    info->moving_frames = hv_load_relaxed(&heap->moving);
    info->free_frames = info->clean_frames + info->dirty_frames + info->returned_frames +
                        info->magazine_frames + info->moving_frames;
}

void hv_heap_get_info(const struct hv_heap *heap, struct hv_heap_info *info_out)
{
    uint64_t moving, returns, unclaimed, credit;
    unsigned tries = 0;

    do {
        moving = hv_load_seq(&heap->moving);
        returns = hv_load_seq(&heap->returns);
        unclaimed = hv_load_seq(&heap->unclaimed);
        sum_free(heap, info_out, &credit);
    } while ((hv_load_seq(&heap->moving) != moving || hv_load_seq(&heap->returns) != returns) &&
             ++tries < INFO_TRIES);
    /* Read apart from the counters: an allocation in between must not make it negative. */
    if (info_out->free_frames > unclaimed + credit) {
        info_out->claimed_frames = info_out->free_frames - unclaimed - credit;
    }
}

unsigned hv_heap_shards(const struct hv_heap *heap)
{
    return heap->shard_count;
}

struct hv_heap_shard_info hv_heap_get_shard(const struct hv_heap *heap, unsigned index)
{
    const struct hv_shard *shard = &heap->shards[index];

    return (struct hv_heap_shard_info){
        .free_frames = hv_load_relaxed(&shard->clean) + hv_load_relaxed(&shard->dirty) +
                       hv_load_relaxed(&shard->returned),
        .lock = hv_lock_counters(&shard->lock),
    };
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A domain's memory: made, declared as RAM or devices, flushed. */
#include "mem/memory.h"

#include <errno.h>

#include "base/assert.h"
#include "base/bits.h"
#include "mem/arena-private.h"
#include "mem/heap.h"
#include "mem/memory-private.h"
#include "sync/race.h"

/* Devices and holes below it are covered by the p2m whatever the size of the RAM. */
#define MEMORY_LOW_FRAMES (4 * HV_GIB / HV_PAGE_SIZE)
/* Leaves changed under one taking of the p2m lock. */
#define KIND_CHUNK        64u

int hv_memory_init(struct hv_memory *memory, struct hv_arena *arena, uint16_t owner, uint64_t bytes,
                   const struct hv_memory_hooks *hooks, void *hook_context)
{
    uint64_t frames = bytes / HV_PAGE_SIZE;
    int err;

    *memory = (struct hv_memory){
        .arena = arena,
        .owner = owner,
        .hooks = hooks,
        .hook_context = hook_context,
        .claimed_frames = frames,
        .undeclared_frames = frames,
    };
    if (bytes % HV_PAGE_SIZE != 0 || frames > hv_arena_frames(arena) || owner >= HV_OWNER_SHARED) {
        return -EINVAL;
    }
    err = hv_heap_claim(hv_arena_heap(arena), frames);
    if (err) {
        return err;
    }
    err = hv_p2m_init(&memory->p2m, hv_align_up(MEMORY_LOW_FRAMES + frames, HV_EXTENT_FRAMES));
    if (err) {
        hv_heap_unclaim(hv_arena_heap(arena), frames);
        return err;
    }
    hv_lock_init(&memory->page_lock, HV_RANK_PAGE_ALLOC, "mem.pages", 0);
    hv_list_init(&memory->changes);
    hv_list_init(&memory->grants);
    hv_eventcount_init(&memory->changed);
    return 0;
}

void hv_memory_finish(struct hv_memory *memory)
{
    if (!memory || !memory->p2m.extents) {
        return;
    }
    HV_BUG_ON(memory->claimed_frames != 0 || hv_load_relaxed(&memory->populated_frames) != 0);
    HV_ASSERT(!hv_list_linked(&memory->changes));
    hv_foreign_revoke_all(memory);
    hv_p2m_finish(&memory->p2m);
    hv_lock_finish(&memory->page_lock);
}

void hv_memory_kill(struct hv_memory *memory)
{
    hv_store_seq(&memory->dying, 1);
}

int hv_memory_hold(struct hv_memory *memory)
{
    return memory->hooks && memory->hooks->hold ? memory->hooks->hold(memory->hook_context) : 0;
}

void hv_memory_release(struct hv_memory *memory)
{
    if (memory->hooks && memory->hooks->release) {
        memory->hooks->release(memory->hook_context);
    }
}

int hv_memory_enter(struct hv_memory *memory)
{
    return memory->hooks && memory->hooks->enter ? memory->hooks->enter(memory->hook_context) : 0;
}

void hv_memory_leave(struct hv_memory *memory)
{
    if (memory->hooks && memory->hooks->leave) {
        memory->hooks->leave(memory->hook_context);
    }
}

int hv_memory_change_begin(struct hv_memory *memory, struct hv_memory_change *change,
                           uint64_t extent)
{
    hv_lock_check_wait(HV_RANK_FLUSH_WAIT, "change of an extent");
    hv_list_init(&change->link);
    change->extent = extent;
    for (;;) {
        uint32_t ticket = hv_eventcount_listen(&memory->changed);
        bool busy = false;
        bool dying;

        hv_lock_take(&memory->page_lock);
        dying = hv_memory_dying(memory);
        HV_RACE("memory.change.looked");
        hv_list_for_each(node, &memory->changes) {
            busy |= hv_list_entry(node, struct hv_memory_change, link)->extent == extent;
        }
        if (!busy && !dying) {
            hv_list_push_tail(&memory->changes, &change->link);
        }
        hv_lock_drop(&memory->page_lock);
        if (dying || !busy) {
            hv_eventcount_cancel(&memory->changed);
            return dying ? -ECANCELED : 0;
        }
        hv_eventcount_wait(&memory->changed, ticket, HV_NS_NEVER);
    }
}

void hv_memory_change_end(struct hv_memory *memory, struct hv_memory_change *change)
{
    hv_lock_take(&memory->page_lock);
    hv_list_unlink(&change->link);
    hv_lock_drop(&memory->page_lock);
    hv_eventcount_signal(&memory->changed);
}

void hv_memory_await_changes(struct hv_memory *memory)
{
    for (;;) {
        uint32_t ticket = hv_eventcount_listen(&memory->changed);
        bool none;

        hv_lock_take(&memory->page_lock);
        none = !hv_list_linked(&memory->changes);
        hv_lock_drop(&memory->page_lock);
        if (none) {
            hv_eventcount_cancel(&memory->changed);
            return;
        }
        hv_eventcount_wait(&memory->changed, ticket, HV_NS_NEVER);
    }
}

static bool all_hole(const struct hv_memory *memory, hv_gfn first, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        if (hv_p2m_lookup(&memory->p2m, (hv_gfn){first.v + i}).kind != HV_LEAF_HOLE) {
            return false;
        }
    }
    return true;
}

static int reserve_declaration(struct hv_memory *memory, uint64_t count)
{
    int err = 0;

    hv_lock_take(&memory->page_lock);
    if (hv_memory_dying(memory)) {
        err = -ECANCELED;
    } else if (memory->undeclared_frames < count) {
        err = -ENOSPC;
    } else {
        memory->undeclared_frames -= count;
    }
    hv_lock_drop(&memory->page_lock);
    return err;
}

static void declare(struct hv_memory *memory, hv_gfn first, uint64_t count)
{
    const struct hv_leaf leaf = {.kind = HV_LEAF_UNPOPULATED};

    hv_lock_take(&memory->p2m.lock);
    for (uint64_t i = 0; i < count; i++) {
        (void)hv_p2m_set_locked(&memory->p2m, (hv_gfn){first.v + i}, leaf);
    }
    hv_lock_drop(&memory->p2m.lock);
}

int hv_memory_add_ram(struct hv_memory *memory, hv_gfn first, uint64_t count)
{
    int err;

    if (count == 0 || hv_range_outside(first.v, count, memory->p2m.frames) ||
        !all_hole(memory, first, count)) {
        return -EINVAL;
    }
    err = hv_p2m_prepare(&memory->p2m, first, count);
    if (err) {
        return err;
    }
    err = reserve_declaration(memory, count);
    if (err) {
        return err;
    }
    /* The lock is dropped now and then: a lookup never waits, but another change would. */
    for (uint64_t i = 0; i < count; i += KIND_CHUNK) {
        declare(memory, (hv_gfn){first.v + i}, count - i < KIND_CHUNK ? count - i : KIND_CHUNK);
    }
    return 0;
}

/* Frames that left the p2m, and what is to be done for them once everybody has forgotten them. */
struct leavers {
    hv_mfn mfn[KIND_CHUNK];
    size_t count;
    uint64_t shared;      /* of `count` */
    uint64_t unpopulated; /* beside them */
};

/* Publish the new kind over [first, first + count), at most a chunk of one extent. */
static void publish_kind(struct hv_memory *memory, hv_gfn first, uint64_t count,
                         enum hv_leaf_kind kind, struct leavers *leavers)
{
    struct hv_leaf leaf = {.kind = kind};

    *leavers = (struct leavers){.count = 0};
    hv_lock_take(&memory->p2m.lock);
    for (uint64_t i = 0; i < count; i++) {
        struct hv_leaf old = hv_p2m_set_locked(&memory->p2m, (hv_gfn){first.v + i}, leaf);

        if (hv_leaf_has_frame(old)) {
            leavers->mfn[leavers->count++] = old.mfn;
            leavers->shared += old.kind == HV_LEAF_SHARED;
        } else if (old.kind == HV_LEAF_UNPOPULATED) {
            leavers->unpopulated++;
        }
    }
    hv_lock_drop(&memory->p2m.lock);
}

static void put_leavers(struct hv_memory *memory, const struct leavers *leavers)
{
    uint64_t unclaimed = leavers->unpopulated + leavers->shared;

    hv_lock_take(&memory->page_lock);
    memory->claimed_frames -= unclaimed;
    hv_count(&memory->populated_frames, -(leavers->count - leavers->shared));
    hv_lock_drop(&memory->page_lock);
    hv_heap_unclaim(hv_arena_heap(memory->arena), unclaimed);
    for (size_t i = 0; i < leavers->count; i++) {
        hv_frame_type_put(memory->arena, leavers->mfn[i]);
        hv_frame_put(memory->arena, leavers->mfn[i]);
    }
}

/* Blocks go before their leaf does, since they know it by its gfn. Seals are refused. */
static int revoke_range(struct hv_memory *memory, hv_gfn first, uint64_t count)
{
    int err = 0;

    for (uint64_t i = 0; i < count && !err; i++) {
        err = hv_memory_revoke_code(memory, (hv_gfn){first.v + i});
    }
    return err;
}

void hv_memory_flush_all(struct hv_memory *memory)
{
    hv_holders_flush(&memory->arena->holders, memory->holder, hv_memory_flush_mask(memory, NULL),
                     HV_MAPPERS_NONE, hv_flush_clock(&memory->arena->holders), &memory->flushes);
}

static int set_kind_in_extent(struct hv_memory *memory, hv_gfn first, uint64_t count,
                              enum hv_leaf_kind kind)
{
    struct hv_memory_change change;
    struct leavers leavers;
    int err;

    hv_memory_refuse_seals(memory);
    err = revoke_range(memory, first, count);
    if (!err) {
        err = hv_memory_change_begin(memory, &change, first.v / HV_EXTENT_FRAMES);
    }
    if (!err) {
        publish_kind(memory, first, count, kind, &leavers);
    }
    hv_memory_allow_seals(memory);
    if (err) {
        return err;
    }
    if (leavers.count > 0) {
        hv_memory_flush_all(memory);
    }
    put_leavers(memory, &leavers);
    hv_memory_change_end(memory, &change);
    return 0;
}

int hv_memory_set_kind(struct hv_memory *memory, hv_gfn first, uint64_t count,
                       enum hv_leaf_kind kind)
{
    int err;

    if (count == 0 || hv_range_outside(first.v, count, memory->p2m.frames) ||
        (kind != HV_LEAF_HOLE && kind != HV_LEAF_MMIO)) {
        return -EINVAL;
    }
    err = hv_p2m_prepare(&memory->p2m, first, count);
    while (!err && count > 0) {
        uint64_t room = KIND_CHUNK - first.v % KIND_CHUNK;
        uint64_t step = count < room ? count : room;

        err = set_kind_in_extent(memory, first, step, kind);
        first.v += step;
        count -= step;
    }
    return err;
}

void hv_memory_add_holder(struct hv_memory *memory, unsigned index, struct hv_holder *holder)
{
    HV_ASSERT(index < HV_MAX_VCPUS && !memory->holder[index] && holder->index == index);
    memory->holder[index] = holder;
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Mappers and their mappings: references, types, and the doorbell of the thread that uses them. */
#include "mem/foreign.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "mem/arena-private.h"
#include "mem/memory-private.h"

#define FOREIGN_PAGES_MAX 512u

struct hv_mapper {
    /* Set at creation. */
    struct hv_arena *arena; /* borrowed */
    char name[32];
    struct hv_doorbell bell;
    struct hv_holder holder;
    /* Guarded by the registry's lock. */
    struct hv_list mappings;
};

struct hv_foreign {
    struct hv_list link; /* guarded by the registry's lock */
    /* Set at creation. */
    struct hv_mapper *mapper;
    uint16_t owner;
    unsigned rights;
    size_t count; /* pages held, while it is made: so far */
    hv_mfn mfn[];
};

int hv_mapper_create(struct hv_arena *arena, const char *name, struct hv_mapper **mapper_out)
{
    struct hv_mapper *mapper = hv_alloc_aligned(_Alignof(struct hv_mapper), sizeof(*mapper));

    *mapper_out = mapper;
    if (!mapper) {
        return -ENOMEM;
    }
    mapper->arena = arena;
    strncpy(mapper->name, name, sizeof(mapper->name) - 1);
    hv_doorbell_init(&mapper->bell);
    hv_holder_init(&mapper->holder, &mapper->bell, mapper->name, 0);
    hv_list_init(&mapper->mappings);
    hv_holders_register_mapper(&arena->holders, &mapper->holder);
    return 0;
}

void hv_mapper_destroy(struct hv_mapper *mapper)
{
    if (!mapper) {
        return;
    }
    HV_BUG_ON(hv_list_linked(&mapper->mappings));
    hv_holders_retire_mapper(&mapper->arena->holders, &mapper->holder);
    hv_free(mapper);
}

/* OUTSIDE it has no pointers, so that a flush is no more than saying so. */
static void mapper_serve(struct hv_mapper *mapper)
{
    uint64_t time = hv_holder_flush_begin(&mapper->arena->holders);

    (void)hv_doorbell_take(&mapper->bell);
    hv_holder_flushed(&mapper->holder, time);
    hv_doorbell_acknowledge(&mapper->bell);
}

void hv_mapper_enter(struct hv_mapper *mapper)
{
    hv_holder_mark_dirty(&mapper->holder);
    while (hv_doorbell_enter(&mapper->bell) != 0) {
        mapper_serve(mapper);
    }
}

void hv_mapper_leave(struct hv_mapper *mapper)
{
    /* Its pointers are void from here on. Pairs with the read of `dirty` in a flush. */
    hv_store_seq(&mapper->holder.dirty, 0);
    hv_doorbell_leave(&mapper->bell);
}

static int hold_page(struct hv_memory *memory, hv_gfn gfn, unsigned rights, hv_mfn *mfn_out)
{
    const struct hv_frame_access access = {.memory = memory, .foreign = true};
    struct hv_leaf leaf;
    int err = hv_memory_get_page(memory, gfn, true, &leaf);

    *mfn_out = leaf.mfn;
    if (err || !(rights & HV_FOREIGN_WRITE)) {
        return err;
    }
    err = leaf.kind == HV_LEAF_ROM_OVER_RAM
              ? -EBUSY
              : hv_frame_type_get(memory->arena, leaf.mfn, HV_FRAME_TYPE_WRITABLE, 0, &access);
    if (err) {
        hv_frame_put(memory->arena, leaf.mfn);
    }
    return err;
}

static void put_pages(struct hv_foreign *foreign)
{
    struct hv_arena *arena = foreign->mapper->arena;

    for (size_t i = 0; i < foreign->count; i++) {
        if (foreign->rights & HV_FOREIGN_WRITE) {
            hv_frame_type_put(arena, foreign->mfn[i]);
        }
        hv_frame_put(arena, foreign->mfn[i]);
    }
}

int hv_foreign_map(struct hv_mapper *mapper, struct hv_memory *memory, hv_gfn first, size_t count,
                   unsigned rights, struct hv_foreign **foreign_out)
{
    struct hv_foreign *foreign;
    int err = 0;

    *foreign_out = NULL;
    HV_ASSERT(!hv_load_relaxed(&mapper->holder.dirty));
    if (count == 0 || count > FOREIGN_PAGES_MAX || rights == 0 ||
        (rights & ~(unsigned)(HV_FOREIGN_READ | HV_FOREIGN_WRITE)) != 0) {
        return -EINVAL;
    }
    foreign = hv_alloc(1, sizeof(*foreign) + count * sizeof(foreign->mfn[0]));
    if (!foreign) {
        return -ENOMEM;
    }
    foreign->mapper = mapper;
    foreign->owner = memory->owner;
    foreign->rights = rights;
    while (!err && foreign->count < count) {
        err = hold_page(memory, (hv_gfn){first.v + foreign->count}, rights,
                        &foreign->mfn[foreign->count]);
        foreign->count += err ? 0 : 1;
    }
    if (err) {
        put_pages(foreign);
        hv_free(foreign);
        return err;
    }
    hv_lock_take(&mapper->arena->holders.lock);
    hv_list_push_tail(&mapper->mappings, &foreign->link);
    hv_lock_drop(&mapper->arena->holders.lock);
    *foreign_out = foreign;
    return 0;
}

void *hv_foreign_page(struct hv_foreign *foreign, size_t index)
{
    HV_BUG_ON(index >= foreign->count);
    HV_ASSERT(hv_load_relaxed(&foreign->mapper->holder.dirty));
    return hv_arena_host(foreign->mapper->arena, foreign->mfn[index]);
}

void hv_foreign_unmap(struct hv_foreign *foreign)
{
    struct hv_holders *holders;

    if (!foreign) {
        return;
    }
    HV_ASSERT(!hv_load_relaxed(&foreign->mapper->holder.dirty));
    holders = &foreign->mapper->arena->holders;
    put_pages(foreign);
    hv_lock_take(&holders->lock);
    hv_list_unlink(&foreign->link);
    hv_lock_drop(&holders->lock);
    hv_free(foreign);
}

static uint64_t frames_of(const struct hv_mapper *mapper, uint16_t owner)
{
    uint64_t frames = 0;

    hv_list_for_each(node, &mapper->mappings) {
        const struct hv_foreign *foreign = hv_list_entry(node, struct hv_foreign, link);

        frames += foreign->owner == owner ? foreign->count : 0;
    }
    return frames;
}

size_t hv_foreign_holds(struct hv_arena *arena, uint16_t owner, struct hv_foreign_hold *holds,
                        size_t max)
{
    size_t count = 0;

    hv_lock_take(&arena->holders.lock);
    hv_list_for_each(node, &arena->holders.mappers) {
        struct hv_holder *holder = hv_list_entry(node, struct hv_holder, link);
        struct hv_mapper *mapper = HV_CONTAINER_OF(holder, struct hv_mapper, holder);
        uint64_t frames = frames_of(mapper, owner);

        if (frames > 0 && count++ < max) {
            memcpy(holds[count - 1].mapper, mapper->name, sizeof(mapper->name));
            holds[count - 1].frames = frames;
        }
    }
    hv_lock_drop(&arena->holders.lock);
    return count;
}

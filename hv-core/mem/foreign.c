/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Mappers, their rights and mappings: references, types, and the doorbell of the thread that uses
 * them. */
#include "mem/foreign.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "mem/foreign-strategy-private.h"
#include "mem/memory-private.h"

#define FOREIGN_PAGES_MAX 512u
#define RIGHTS_ALL        (unsigned)(HV_FOREIGN_READ | HV_FOREIGN_WRITE)

struct hv_mapper {
    /* Set at creation. */
    struct hv_arena *arena; /* borrowed */
    char name[32];
    void (*forget)(void *context);
    void *context;
    struct hv_doorbell bell;
    struct hv_holder holder;
    /* Guarded by the registry's lock. */
    struct hv_list mappings;
    struct hv_list grants;
    /* The mapper's thread's own. */
    struct hv_list kept;
};

/* A memory that the mapper holds, once, while it has any mapping of it. */
struct kept {
    struct hv_list link;
    struct hv_memory *memory;
    size_t mappings;
};

/* What a mapper may do with one memory, known by its address: an owner's id comes again. */
struct grant {
    /* Set at creation. */
    const struct hv_memory *memory;
    /* Guarded by the registry's lock. */
    struct hv_list of_mapper, of_memory;
    unsigned rights;
};

struct hv_foreign {
    struct hv_list link; /* guarded by the registry's lock */
    /* Set at creation. */
    struct hv_mapper *mapper;
    struct kept *kept;
    uint16_t owner;
    unsigned rights;
    size_t count;
    hv_mfn mfn[];
};

int hv_mapper_create(struct hv_arena *arena, const struct hv_mapper_config *config,
                     struct hv_mapper **mapper_out)
{
    struct hv_mapper *mapper = hv_alloc_aligned(_Alignof(struct hv_mapper), sizeof(*mapper));

    *mapper_out = mapper;
    if (!mapper) {
        return -ENOMEM;
    }
    mapper->arena = arena;
    strncpy(mapper->name, config->name, sizeof(mapper->name) - 1);
    mapper->forget = config->forget;
    mapper->context = config->context;
    hv_doorbell_init(&mapper->bell);
    hv_holder_init(&mapper->holder, &mapper->bell, mapper->name, 0);
    hv_list_init(&mapper->mappings);
    hv_list_init(&mapper->grants);
    hv_list_init(&mapper->kept);
    hv_holders_register_mapper(&arena->holders, &mapper->holder);
    return 0;
}

/* Grants that no list of a memory holds any more. */
static void free_grants(struct hv_list *grants)
{
    while (hv_list_linked(grants)) {
        struct grant *grant = hv_list_entry(grants->next, struct grant, of_mapper);

        hv_list_unlink(&grant->of_mapper);
        hv_free(grant);
    }
}

void hv_mapper_destroy(struct hv_mapper *mapper)
{
    struct hv_holders *holders;

    if (!mapper) {
        return;
    }
    HV_BUG_ON(hv_list_linked(&mapper->mappings));
    holders = &mapper->arena->holders;
    hv_holders_retire_mapper(holders, &mapper->holder);
    hv_lock_take(&holders->lock);
    hv_list_for_each(node, &mapper->grants) {
        hv_list_unlink(&hv_list_entry(node, struct grant, of_mapper)->of_memory);
    }
    hv_lock_drop(&holders->lock);
    free_grants(&mapper->grants);
    hv_free(mapper);
}

static void mapper_serve(struct hv_mapper *mapper)
{
    uint64_t time;

    /* First: a request that is taken with these is answered by a flush that began after it, or who
     * made it would wait for one that never comes. */
    (void)hv_doorbell_take(&mapper->bell);
    time = hv_holder_flush_begin(&mapper->arena->holders);
    if (mapper->forget) {
        mapper->forget(mapper->context);
    }
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
    if (!mapper->forget) {
        /* Its pointers are void from here on. Pairs with the read of `dirty` in a flush. */
        hv_store_seq(&mapper->holder.dirty, 0);
    }
    hv_doorbell_leave(&mapper->bell);
}

bool hv_mapper_is_asked(const struct hv_mapper *mapper)
{
    return hv_load_relaxed(&mapper->bell.exit_request) != 0;
}

static struct grant *find_grant_locked(const struct hv_mapper *mapper,
                                       const struct hv_memory *memory)
{
    hv_list_for_each(node, &mapper->grants) {
        struct grant *grant = hv_list_entry(node, struct grant, of_mapper);

        if (grant->memory == memory) {
            return grant;
        }
    }
    return NULL;
}

static void unlink_grant_locked(struct grant *grant)
{
    hv_list_unlink(&grant->of_mapper);
    hv_list_unlink(&grant->of_memory);
}

int hv_foreign_grant(struct hv_mapper *mapper, struct hv_memory *memory, unsigned rights)
{
    struct hv_lock *lock = &mapper->arena->holders.lock;
    struct grant *fresh;
    struct grant *grant;
    int err = 0;

    if (rights == 0 || (rights & ~RIGHTS_ALL) != 0) {
        return -EINVAL;
    }
    fresh = hv_alloc(1, sizeof(*fresh));
    if (!fresh) {
        return -ENOMEM;
    }
    hv_lock_take(lock);
    grant = find_grant_locked(mapper, memory);
    if (hv_memory_dying(memory)) {
        /* Its end revokes all grants, under the lock, once: none may come after it. */
        err = -ECANCELED;
    } else if (grant) {
        grant->rights = rights;
    } else {
        grant = fresh;
        fresh = NULL;
        grant->memory = memory;
        grant->rights = rights;
        hv_list_push_tail(&mapper->grants, &grant->of_mapper);
        hv_list_push_tail(&memory->grants, &grant->of_memory);
    }
    hv_lock_drop(lock);
    hv_free(fresh);
    return err;
}

void hv_foreign_revoke(struct hv_mapper *mapper, const struct hv_memory *memory)
{
    struct hv_lock *lock = &mapper->arena->holders.lock;
    struct grant *grant;

    hv_lock_take(lock);
    grant = find_grant_locked(mapper, memory);
    if (grant) {
        unlink_grant_locked(grant);
    }
    hv_lock_drop(lock);
    hv_free(grant);
}

void hv_foreign_revoke_all(struct hv_memory *memory)
{
    struct hv_holders *holders = &memory->arena->holders;
    struct hv_list ended;

    hv_list_init(&ended);
    hv_lock_take(&holders->lock);
    while (hv_list_linked(&memory->grants)) {
        struct grant *grant = hv_list_entry(memory->grants.next, struct grant, of_memory);

        unlink_grant_locked(grant);
        hv_list_push_tail(&ended, &grant->of_mapper);
    }
    hv_lock_drop(&holders->lock);
    free_grants(&ended);
}

static struct kept *find_kept(const struct hv_mapper *mapper, const struct hv_memory *memory)
{
    hv_list_for_each(node, &mapper->kept) {
        struct kept *kept = hv_list_entry(node, struct kept, link);

        if (kept->memory == memory) {
            return kept;
        }
    }
    return NULL;
}

/* The memory stays where it is for one more mapping, of @frames. */
static int keep(struct hv_mapper *mapper, struct hv_memory *memory, size_t frames,
                struct kept **kept_out)
{
    struct kept *kept = find_kept(mapper, memory);
    int err;

    if (!kept) {
        kept = hv_alloc(1, sizeof(*kept));
        if (!kept) {
            return -ENOMEM;
        }
        err = hv_memory_hold(memory);
        if (err) {
            hv_free(kept);
            return err;
        }
        kept->memory = memory;
        hv_list_push_tail(&mapper->kept, &kept->link);
    }
    kept->mappings++;
    hv_add_seq(&memory->held_frames, frames);
    *kept_out = kept;
    return 0;
}

/* Whoever waits for the last release finds no frame held. */
static void unkeep(struct kept *kept, size_t frames)
{
    struct hv_memory *memory = kept->memory;

    hv_sub_seq(&memory->held_frames, frames);
    if (--kept->mappings == 0) {
        hv_list_unlink(&kept->link);
        hv_free(kept);
        hv_memory_release(memory);
    }
}

static int hold_page(struct hv_memory *memory, hv_gfn gfn, unsigned rights, hv_mfn *mfn_out)
{
    struct hv_leaf leaf;
    int err;

    if (rights & HV_FOREIGN_WRITE) {
        err = hv_memory_get_writable_page(memory, gfn, true, mfn_out);
        return err == -EPERM ? -EBUSY : err;
    }
    err = hv_memory_get_page(memory, gfn, true, &leaf);
    *mfn_out = leaf.mfn;
    return err;
}

static void put_pages(struct hv_foreign *foreign, size_t count)
{
    struct hv_arena *arena = foreign->mapper->arena;
    const struct hv_foreign_strategy *strategy = arena->strategy;

    for (size_t i = 0; i < count; i++) {
        if (foreign->rights & HV_FOREIGN_WRITE) {
            if (strategy->unmap) {
                strategy->unmap(arena, foreign->owner, &foreign->mapper->holder);
            }
            hv_frame_type_put(arena, foreign->mfn[i]);
        }
        hv_frame_put(arena, foreign->mfn[i]);
    }
}

/* Linked from here on, if the mapper may: rights that are revoked later do not reach it. */
static int link_mapping(struct hv_foreign *foreign, const struct hv_memory *memory)
{
    struct hv_mapper *mapper = foreign->mapper;
    const struct grant *grant;
    bool may;

    hv_lock_take(&mapper->arena->holders.lock);
    grant = find_grant_locked(mapper, memory);
    may = grant && (foreign->rights & ~grant->rights) == 0;
    if (may) {
        hv_list_push_tail(&mapper->mappings, &foreign->link);
        hv_holds_add(&foreign->kept->memory->holds, mapper->name, (int64_t)foreign->count);
    }
    hv_lock_drop(&mapper->arena->holders.lock);
    return may ? 0 : -EPERM;
}

static void unlink_mapping(struct hv_foreign *foreign)
{
    hv_lock_take(&foreign->mapper->arena->holders.lock);
    hv_list_unlink(&foreign->link);
    hv_holds_add(&foreign->kept->memory->holds, foreign->mapper->name, -(int64_t)foreign->count);
    hv_lock_drop(&foreign->mapper->arena->holders.lock);
}

static int hold_pages(struct hv_foreign *foreign, struct hv_memory *memory, hv_gfn first)
{
    size_t held = 0;
    int err = hv_memory_dying(memory) ? -ECANCELED : 0;

    while (!err && held < foreign->count) {
        err = hold_page(memory, (hv_gfn){first.v + held}, foreign->rights, &foreign->mfn[held]);
        held += err ? 0 : 1;
    }
    if (err) {
        put_pages(foreign, held);
    }
    return err;
}

static int map_kept(struct hv_foreign *foreign, struct hv_memory *memory, hv_gfn first)
{
    int err = hv_memory_enter(memory);

    if (err) {
        return err;
    }
    err = link_mapping(foreign, memory);
    if (!err) {
        err = hold_pages(foreign, memory, first);
        if (err) {
            unlink_mapping(foreign);
        }
    }
    hv_memory_leave(memory);
    return err;
}

int hv_foreign_map(struct hv_mapper *mapper, struct hv_memory *memory, hv_gfn first, size_t count,
                   unsigned rights, struct hv_foreign **foreign_out)
{
    struct hv_foreign *foreign;
    int err;

    *foreign_out = NULL;
    HV_ASSERT(!hv_doorbell_in_guest(&mapper->bell));
    if (count == 0 || count > FOREIGN_PAGES_MAX || rights == 0 || (rights & ~RIGHTS_ALL) != 0) {
        return -EINVAL;
    }
    foreign = hv_alloc(1, sizeof(*foreign) + count * sizeof(foreign->mfn[0]));
    if (!foreign) {
        return -ENOMEM;
    }
    foreign->mapper = mapper;
    foreign->owner = memory->owner;
    foreign->rights = rights;
    foreign->count = count;
    err = keep(mapper, memory, count, &foreign->kept);
    if (err) {
        goto out;
    }
    err = map_kept(foreign, memory, first);
    if (err) {
        unkeep(foreign->kept, count);
        goto out;
    }
    hv_add_relaxed(&memory->foreign_maps, 1);
    hv_add_relaxed(&memory->foreign_frames, count);
    *foreign_out = foreign;
    foreign = NULL;
out:
    hv_free(foreign);
    return err;
}

void *hv_foreign_page(struct hv_foreign *foreign, size_t index)
{
    HV_BUG_ON(index >= foreign->count);
    HV_ASSERT(hv_doorbell_in_guest(&foreign->mapper->bell));
    return hv_arena_host(foreign->mapper->arena, foreign->mfn[index]);
}

void hv_foreign_unmap(struct hv_foreign *foreign)
{
    if (!foreign) {
        return;
    }
    HV_ASSERT(!hv_doorbell_in_guest(&foreign->mapper->bell));
    put_pages(foreign, foreign->count);
    unlink_mapping(foreign);
    /* Last: whoever waits for it finds the frames free and nobody named. */
    unkeep(foreign->kept, foreign->count);
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

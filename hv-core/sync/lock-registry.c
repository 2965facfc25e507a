/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The lists of locks, and the grace period of those who walk them: see lock-registry.h. */
#include "sync/lock-registry.h"

#include <string.h>

#include "base/assert.h"
#include "sync/eventcount.h"
#include "sync/lock-private.h"
#include "sync/race.h"

/* Walks at one time; more wait. */
#define WALKERS 16

static struct {
    struct hv_lock lock; /* HV_RANK_LEAF: of all lists */
    _Atomic(struct hv_lock_owner *) owners;
    _Atomic uint64_t last_number;
    /* Atomic: see the header. */
    _Atomic uint64_t epoch;
    _Atomic uint64_t walkers[WALKERS];
    struct hv_eventcount left; /* a walk ended */
} registry = {
    .lock = {.head = {.rank = HV_RANK_LEAF, .name = HV_LOCK_REGISTRY_NAME}},
    .epoch = 1,
};

static _Thread_local struct {
    struct hv_lock_owner *owner;
} making;

struct hv_lock_owner *hv_lock_owner_use(struct hv_lock_owner *owner)
{
    struct hv_lock_owner *before = making.owner;

    making.owner = owner;
    return before;
}

/* ---- walking ---- */

void hv_lock_walk_begin(struct hv_lock_walk *walk)
{
    uint32_t ticket = hv_eventcount_listen(&registry.left);

    for (;;) {
        for (unsigned i = 0; i < WALKERS; i++) {
            uint64_t none = 0;

            if (hv_cas_seq(&registry.walkers[i], &none, hv_load_seq(&registry.epoch))) {
                hv_eventcount_cancel(&registry.left);
                HV_RACE("lock.walk.begun");
                /* Pairs with await_walks(): who missed our slot has its epoch seen here, and what
                 * it took off before that is not found. */
                (void)hv_load_seq(&registry.epoch);
                walk->slot = i;
                hv_lock_note_walk(true);
                return;
            }
        }
        hv_eventcount_wait(&registry.left, ticket, HV_NS_NEVER);
        ticket = hv_eventcount_listen(&registry.left);
    }
}

void hv_lock_walk_end(struct hv_lock_walk *walk)
{
    hv_lock_note_walk(false);
    hv_store_seq(&registry.walkers[walk->slot], 0);
    hv_eventcount_signal(&registry.left);
}

const struct hv_lock_owner *hv_lock_walk_owners(const struct hv_lock_owner *owner)
{
    return hv_load_acquire(owner ? &owner->next : &registry.owners);
}

const struct hv_lock_head *hv_lock_walk_locks(const struct hv_lock_owner *owner,
                                              const struct hv_lock_head *lock)
{
    return hv_load_acquire(lock ? &lock->next : &owner->locks);
}

static bool walked_since(uint64_t epoch)
{
    for (unsigned i = 0; i < WALKERS; i++) {
        uint64_t began = hv_load_seq(&registry.walkers[i]);

        if (began != 0 && began < epoch) {
            return false;
        }
    }
    return true;
}

/* Something was taken off a list: wait until nobody can be looking at it. */
static void await_walks(void)
{
    uint64_t epoch = hv_add_seq(&registry.epoch, 1) + 1;

    hv_lock_check_wait(HV_RANK_FLUSH_WAIT, "a walk of the locks");
    for (;;) {
        uint32_t ticket = hv_eventcount_listen(&registry.left);

        if (walked_since(epoch)) {
            hv_eventcount_cancel(&registry.left);
            return;
        }
        HV_RACE("lock.registry.waits");
        hv_eventcount_wait(&registry.left, ticket, HV_NS_NEVER);
    }
}

/* ---- listing ---- */

static void list_lock(struct hv_lock_head *head)
{
    struct hv_lock_head *first;

    head->number = hv_add_relaxed(&registry.last_number, 1) + 1;
    hv_lock_take(&registry.lock);
    first = hv_load_relaxed(&head->owner->locks);
    hv_store_relaxed(&head->next, first);
    if (first) {
        first->before = head;
    }
    /* The last thing: a listed lock is all there. Pairs with hv_lock_walk_locks(). */
    hv_store_release(&head->owner->locks, head);
    hv_lock_drop(&registry.lock);
}

/* Its own `next` stays: a walk that stands on it goes on from there. */
static void unlist_lock(struct hv_lock_head *head)
{
    struct hv_lock_head *next;

    hv_lock_take(&registry.lock);
    next = hv_load_relaxed(&head->next);
    if (next) {
        next->before = head->before;
    }
    hv_store_release(head->before ? &head->before->next : &head->owner->locks, next);
    hv_lock_drop(&registry.lock);
    await_walks();
}

void hv_lock_owner_init(struct hv_lock_owner *owner, const char *name)
{
    struct hv_lock_owner *first;

    *owner = (struct hv_lock_owner){0};
    memcpy(owner->name, name, strnlen(name, sizeof(owner->name) - 1));
    hv_lock_take(&registry.lock);
    first = hv_load_relaxed(&registry.owners);
    hv_store_relaxed(&owner->next, first);
    if (first) {
        first->before = owner;
    }
    hv_store_release(&registry.owners, owner);
    hv_lock_drop(&registry.lock);
}

void hv_lock_owner_finish(struct hv_lock_owner *owner)
{
    struct hv_lock_owner *next;

    HV_BUG_ON(hv_load_relaxed(&owner->locks) != NULL);
    hv_lock_take(&registry.lock);
    next = hv_load_relaxed(&owner->next);
    if (next) {
        next->before = owner->before;
    }
    hv_store_release(owner->before ? &owner->before->next : &registry.owners, next);
    hv_lock_drop(&registry.lock);
    await_walks();
}

/* ---- the ends of a lock's life ---- */

void hv_lock_head_init(struct hv_lock_head *head, enum hv_rank rank, const char *name,
                       unsigned index, struct hv_lock_side *readers)
{
    *head = (struct hv_lock_head){
        .rank = (uint16_t)rank,
        .index = (uint16_t)index,
        .class_index = (uint8_t)hv_lock_class_find(name),
        .side = {.kind = readers ? HV_LOCK_KIND_WRITE : HV_LOCK_KIND_MUTEX},
        .readers = readers,
        .name = name,
        .owner = making.owner,
    };
    if (readers) {
        *readers = (struct hv_lock_side){.kind = HV_LOCK_KIND_READ};
    }
    if (head->owner) {
        list_lock(head);
    }
}

void hv_lock_head_finish(struct hv_lock_head *head)
{
    if (head->owner) {
        unlist_lock(head);
    }
    hv_lock_side_finish(&head->side);
    if (head->readers) {
        hv_lock_side_finish(head->readers);
    }
}

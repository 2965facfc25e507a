/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The flush protocol: filter by time, ring, wait.
 *
 * The clock's reads and the holders' times are sequentially consistent: that a holder with
 * `flushed` > stamp has no entry from before the stamp is an argument over all of them at once
 * (tests/model/stamp.pml).
 */
#include "mem/tlb-holder.h"

#include "base/assert.h"
#include "base/bits.h"
#include "mem/tlb-holder-private.h"
#include "sync/race.h"

void hv_holders_init(struct hv_holders *holders)
{
    hv_store_relaxed(&holders->clock, 1);
    hv_lock_init(&holders->lock, HV_RANK_LEAF, "mem.mappers", 0);
    hv_list_init(&holders->mappers);
    holders->registered = 0;
    hv_eventcount_init(&holders->unwatched);
}

void hv_holders_finish(struct hv_holders *holders)
{
    HV_ASSERT(!hv_list_linked(&holders->mappers));
    hv_lock_finish(&holders->lock);
}

void hv_holder_init(struct hv_holder *holder, struct hv_doorbell *bell, const char *name,
                    unsigned index)
{
    holder->bell = bell;
    holder->name = name;
    holder->index = index;
    hv_store_relaxed(&holder->flushed, 0);
    hv_store_relaxed(&holder->dirty, 0);
    hv_list_init(&holder->link);
    holder->watchers = 0;
}

uint64_t hv_flush_clock(const struct hv_holders *holders)
{
    /* Pairs with hv_holder_flush_begin(): a flush that began before this read is not newer than
     * the stamp made of it. */
    return hv_load_seq(&holders->clock);
}

uint64_t hv_holder_flush_begin(struct hv_holders *holders)
{
    uint64_t time = hv_add_seq(&holders->clock, 1) + 1;

    /* 48 bits last 8.9 years at a million flushes a second. */
    HV_BUG_ON(time > ((UINT64_C(1) << 48) - 1));
    return time;
}

void hv_holder_flushed(struct hv_holder *holder, uint64_t time)
{
    /* Pairs with holder_safe(). */
    hv_store_seq(&holder->flushed, time);
}

static bool holder_safe(const struct hv_holder *holder, uint64_t stamp)
{
    return hv_load_seq(&holder->flushed) > stamp;
}

/* Ring a holder that may have entries as old as @stamp. True when it must be waited for. */
static bool holder_ask(struct hv_holder *holder, uint64_t stamp, struct hv_flush_counters *counters)
{
    if (holder_safe(holder, stamp)) {
        hv_add_relaxed(&counters->filtered, 1);
        return false;
    }
    hv_doorbell_ring(holder->bell, HV_REQUEST_FLUSH);
    hv_add_relaxed(&counters->issued, 1);
    if (!hv_doorbell_in_guest(holder->bell)) {
        hv_add_relaxed(&counters->lazy, 1);
        return false;
    }
    hv_add_relaxed(&counters->waited, 1);
    return true;
}

static void holder_await(struct hv_holder *holder, uint64_t stamp)
{
    for (;;) {
        /* Read before the condition, so that what changes the condition also ends the wait. */
        uint32_t since = hv_doorbell_acknowledged(holder->bell);

        if (holder_safe(holder, stamp) || !hv_doorbell_in_guest(holder->bell)) {
            return;
        }
        hv_doorbell_wait(holder->bell, since);
    }
}

static void flush_vcpus(struct hv_holder *const *vcpus, uint64_t mask, uint64_t stamp,
                        struct hv_flush_counters *counters)
{
    uint64_t waiting = 0;

    for (uint64_t left = mask; left != 0; left &= left - 1) {
        unsigned index = (unsigned)__builtin_ctzll(left);

        if (holder_ask(vcpus[index], stamp, counters)) {
            waiting |= HV_BIT(index);
        }
    }
    for (; waiting != 0; waiting &= waiting - 1) {
        holder_await(vcpus[__builtin_ctzll(waiting)], stamp);
    }
}

/* One that is not using pointers will get them anew. Pairs with hv_holder_mark_dirty(). */
static bool mapper_clean(const struct hv_holder *mapper)
{
    return !hv_load_seq(&mapper->dirty);
}

/* Ring the mappers that need it, and return one that must be waited for, watched; or NULL. */
static struct hv_holder *ask_mappers(struct hv_holders *holders, uint64_t mappers, uint64_t stamp,
                                     struct hv_flush_counters *counters)
{
    struct hv_holder *found = NULL;

    hv_lock_take(&holders->lock);
    hv_list_for_each(node, &holders->mappers) {
        struct hv_holder *mapper = hv_list_entry(node, struct hv_holder, link);

        if (!(mappers & HV_BIT(mapper->index))) {
            continue;
        }
        if (mapper_clean(mapper)) {
            hv_add_relaxed(&counters->filtered, 1);
        } else if (holder_ask(mapper, stamp, counters) && !found) {
            found = mapper;
            found->watchers++;
        }
    }
    hv_lock_drop(&holders->lock);
    return found;
}

static void unwatch(struct hv_holders *holders, struct hv_holder *mapper)
{
    bool last;

    hv_lock_take(&holders->lock);
    last = --mapper->watchers == 0;
    hv_lock_drop(&holders->lock);
    if (last) {
        hv_eventcount_signal(&holders->unwatched);
    }
}

/*
 * Each pass rings again and waits for one, so that no list of those still waited for is needed:
 * who was waited for is filtered in the next pass.
 */
static void flush_mappers(struct hv_holders *holders, uint64_t mappers, uint64_t stamp,
                          struct hv_flush_counters *counters)
{
    struct hv_flush_counters again = {0};
    struct hv_holder *mapper;

    HV_RACE("holders.flush.mappers");
    mapper = ask_mappers(holders, mappers, stamp, counters);
    while (mapper) {
        holder_await(mapper, stamp);
        unwatch(holders, mapper);
        mapper = ask_mappers(holders, mappers, stamp, &again);
    }
}

uint64_t hv_holders_suspects(struct hv_holders *holders, uint64_t mappers, uint64_t stamp)
{
    uint64_t suspects = 0;

    hv_lock_take(&holders->lock);
    hv_list_for_each(node, &holders->mappers) {
        const struct hv_holder *mapper = hv_list_entry(node, struct hv_holder, link);

        if (!mapper_clean(mapper) && !holder_safe(mapper, stamp)) {
            suspects |= mappers & HV_BIT(mapper->index);
        }
    }
    hv_lock_drop(&holders->lock);
    return suspects;
}

void hv_holders_flush(struct hv_holders *holders, struct hv_holder *const *vcpus, uint64_t mask,
                      uint64_t mappers, uint64_t stamp, struct hv_flush_counters *counters)
{
    hv_lock_check_wait(HV_RANK_FLUSH_WAIT, "flush");
    flush_vcpus(vcpus, mask, stamp, counters);
    if (mappers != HV_MAPPERS_NONE) {
        flush_mappers(holders, mappers, stamp, counters);
    }
}

/* Ring them all; @since_out gets what each had acknowledged before. */
static void ring_all(struct hv_holder *const *vcpus, uint64_t mask, uint32_t requests,
                     uint32_t *since_out)
{
    for (uint64_t left = mask; left != 0; left &= left - 1) {
        unsigned index = (unsigned)__builtin_ctzll(left);

        since_out[index] = hv_doorbell_acknowledged(vcpus[index]->bell);
        hv_doorbell_ring(vcpus[index]->bell, requests);
    }
}

/* Wait until the owner has taken @requests. False when it is not IN_GUEST: it will, before it is. */
static bool await_taken(struct hv_doorbell *bell, uint32_t requests)
{
    for (;;) {
        uint32_t since = hv_doorbell_acknowledged(bell);

        if (!hv_doorbell_in_guest(bell)) {
            return false;
        }
        if (!(hv_load_seq(&bell->requests) & requests)) {
            return true;
        }
        hv_doorbell_wait(bell, since);
    }
}

/*
 * An acknowledgement after the ring proves nothing: it may be of requests taken before, or of none
 * (who parks for another's locked access says so by one). So each is waited for until the requests
 * are taken, and then, after a second ring, for an acknowledgement: that comes after what was taken
 * was served.
 */
void hv_holders_post(struct hv_holder *const *vcpus, uint64_t mask, uint32_t requests)
{
    uint32_t since[HV_MAX_VCPUS];

    hv_lock_check_wait(HV_RANK_FLUSH_WAIT, "posting to vCPUs");
    ring_all(vcpus, mask, requests, since);
    for (uint64_t left = mask; left != 0; left &= left - 1) {
        unsigned index = (unsigned)__builtin_ctzll(left);

        if (!await_taken(vcpus[index]->bell, requests)) {
            mask &= ~HV_BIT(index);
        }
    }
    ring_all(vcpus, mask, requests, since);
    for (uint64_t left = mask; left != 0; left &= left - 1) {
        unsigned index = (unsigned)__builtin_ctzll(left);
        struct hv_doorbell *bell = vcpus[index]->bell;

        while (hv_doorbell_in_guest(bell) && hv_doorbell_acknowledged(bell) == since[index]) {
            hv_doorbell_wait(bell, since[index]);
        }
    }
}

void hv_holders_register_mapper(struct hv_holders *holders, struct hv_holder *holder)
{
    hv_lock_take(&holders->lock);
    holder->index = holders->registered++ % 64;
    hv_list_push_tail(&holders->mappers, &holder->link);
    hv_lock_drop(&holders->lock);
}

void hv_holders_retire_mapper(struct hv_holders *holders, struct hv_holder *holder)
{
    for (;;) {
        uint32_t ticket = hv_eventcount_listen(&holders->unwatched);
        bool watched;

        hv_lock_take(&holders->lock);
        watched = holder->watchers > 0;
        if (!watched) {
            hv_list_unlink(&holder->link);
        }
        hv_lock_drop(&holders->lock);
        if (!watched) {
            hv_eventcount_cancel(&holders->unwatched);
            return;
        }
        hv_eventcount_wait(&holders->unwatched, ticket, HV_NS_NEVER);
    }
}

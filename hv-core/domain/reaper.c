/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The queue of dying domains and the threads that serve it: see reaper.h. */
#include "domain/reaper.h"

#include <errno.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/format.h"
#include "domain/core.h"
#include "domain/domain.h"
#include "sync/futex.h"
#include "sync/race.h"
#include "sync/thread.h"

/* ---- places, and what is counted ---- */

static bool is_busy(enum hv_reaper_place place)
{
    return place == HV_REAPER_QUEUED || place == HV_REAPER_IN_WORK;
}

/* A burst is from when there is something to do to when there is nothing, zombies or not. */
static void count_busy_locked(struct hv_reaper *reaper, unsigned busy)
{
    uint64_t now = hv_clock_now(reaper->clock).v;

    hv_lock_assert_held(&reaper->lock);
    if (reaper->busy == 0 && busy > 0) {
        hv_seqcount_store(&reaper->burst_ns, now);
        hv_seqcount_store(&reaper->burst_end_ns, 0);
        hv_seqcount_store(&reaper->burst_frames, 0);
    } else if (reaper->busy > 0 && busy == 0) {
        hv_seqcount_store(&reaper->burst_end_ns, now);
    }
    reaper->busy = busy;
}

/* The domain goes to @place; since it was last booked @done of its frames were given back. */
static void move_locked(struct hv_reaper *reaper, struct hv_domain *domain,
                        enum hv_reaper_place place, uint64_t done)
{
    struct hv_reaping *reaping = &domain->reaping;
    uint64_t left = place == HV_REAPER_AWAY ? 0 : hv_load_relaxed(&domain->memory.populated_frames);
    uint64_t domains = hv_load_relaxed(&reaper->domains) + (place != HV_REAPER_AWAY) -
                       (reaping->place != HV_REAPER_AWAY);

    hv_lock_assert_held(&reaper->lock);
    hv_seqcount_write_begin(&reaper->sequence);
    hv_seqcount_store(&reaper->domains, domains);
    hv_seqcount_store(&reaper->frames_left,
                      hv_load_relaxed(&reaper->frames_left) + left - reaping->frames);
    hv_seqcount_store(&reaper->frames_done, hv_load_relaxed(&reaper->frames_done) + done);
    hv_seqcount_store(&reaper->burst_frames, hv_load_relaxed(&reaper->burst_frames) + done);
    count_busy_locked(reaper, reaper->busy + is_busy(place) - is_busy(reaping->place));
    hv_seqcount_write_end(&reaper->sequence);
    reaping->frames = left;
    reaping->place = place;
}

void hv_reaper_get_info(const struct hv_reaper *reaper, struct hv_reaper_info *info_out)
{
    uint64_t burst, burst_end, frames;
    uint32_t begun;

    do {
        begun = hv_seqcount_read_begin(&reaper->sequence);
        info_out->domains = hv_seqcount_load(&reaper->domains);
        info_out->frames_left = hv_seqcount_load(&reaper->frames_left);
        info_out->frames_done = hv_seqcount_load(&reaper->frames_done);
        burst = hv_seqcount_load(&reaper->burst_ns);
        burst_end = hv_seqcount_load(&reaper->burst_end_ns);
        frames = hv_seqcount_load(&reaper->burst_frames);
    } while (hv_seqcount_read_retry(&reaper->sequence, begun));
    if (burst_end == 0 && burst > 0) {
        burst_end = hv_clock_now(reaper->clock).v;
    }
    info_out->frames_per_s = hv_rate_per_s(frames, burst_end - burst);
}

/* ---- the queue ---- */

static void push_locked(struct hv_reaper *reaper, struct hv_domain *domain, uint64_t done)
{
    move_locked(reaper, domain, HV_REAPER_QUEUED, done);
    domain->reaping.woken = false;
    hv_list_push_tail(&reaper->queue, &domain->reaping.link);
}

void hv_reaper_add(struct hv_reaper *reaper, struct hv_domain *domain)
{
    hv_lock_take(&reaper->lock);
    HV_ASSERT(domain->reaping.place == HV_REAPER_AWAY);
    push_locked(reaper, domain, 0);
    hv_lock_drop(&reaper->lock);
    hv_eventcount_signal(&reaper->work);
}

void hv_reaper_wake(struct hv_reaper *reaper, struct hv_domain *domain)
{
    bool queued = false;

    hv_lock_take(&reaper->lock);
    switch (domain->reaping.place) {
    case HV_REAPER_PARKED:
        push_locked(reaper, domain, 0);
        queued = true;
        break;
    case HV_REAPER_IN_WORK:
        domain->reaping.woken = true;
        break;
    case HV_REAPER_AWAY: /* its killer is about to add it, or it is gone */
    case HV_REAPER_QUEUED:
        break;
    }
    hv_lock_drop(&reaper->lock);
    if (queued) {
        hv_eventcount_signal(&reaper->work);
    }
}

static struct hv_domain *take_first(struct hv_reaper *reaper)
{
    struct hv_domain *domain = NULL;
    struct hv_list *first;

    hv_lock_take(&reaper->lock);
    first = hv_list_pop_head(&reaper->queue);
    if (first) {
        domain = hv_list_entry(first, struct hv_domain, reaping.link);
        move_locked(reaper, domain, HV_REAPER_IN_WORK, 0);
    }
    hv_lock_drop(&reaper->lock);
    return domain;
}

static void put_back(struct hv_reaper *reaper, struct hv_domain *domain, bool waits, uint64_t done)
{
    hv_lock_take(&reaper->lock);
    if (waits && !domain->reaping.woken) {
        move_locked(reaper, domain, HV_REAPER_PARKED, done);
    } else {
        push_locked(reaper, domain, done);
    }
    hv_lock_drop(&reaper->lock);
}

/* ---- the pile ---- */

void hv_reaper_bury(struct hv_reaper *reaper, struct hv_domain *domain)
{
    struct hv_domain *below = hv_load_seq(&reaper->unheld);

    do {
        domain->reaping.below = below;
        /* Pairs with free_unheld(), which takes the whole pile: none of it comes again. */
    } while (!hv_cas_weak_seq(&reaper->unheld, &below, domain));
    hv_eventcount_signal(&reaper->work);
}

static bool free_unheld(struct hv_reaper *reaper)
{
    struct hv_domain *domain =
        hv_load_seq(&reaper->unheld) ? hv_swap_seq(&reaper->unheld, NULL) : NULL;
    bool any = domain != NULL;

    while (domain) {
        struct hv_domain *below = domain->reaping.below;

        hv_domain_free(domain);
        domain = below;
    }
    return any;
}

/* ---- turns ---- */

/* Nothing is left but what its handles refer to. Under the lock, for hv_reaper_await(). */
static void let_go(struct hv_reaper *reaper, struct hv_domain *domain, uint64_t done)
{
    bool last;

    hv_lock_take(&reaper->lock);
    move_locked(reaper, domain, HV_REAPER_AWAY, done);
    hv_store_seq(&domain->state, HV_DOMAIN_STATE_GONE);
    hv_domain_announce(domain);
    HV_RACE("reaper.gone");
    last = hv_directory_put(&domain->core->directory, domain->handle);
    hv_lock_drop(&reaper->lock);
    if (last) {
        hv_domain_free(domain);
    }
    /* After it is freed: who waits for this ends the core. */
    hv_eventcount_signal(&reaper->idle);
}

bool hv_reaper_turn(struct hv_reaper *reaper)
{
    bool freed = free_unheld(reaper);
    struct hv_domain *domain = take_first(reaper);
    uint64_t before, left, done;
    hv_ns end;
    int rc;

    if (!domain) {
        return freed;
    }
    before = hv_load_relaxed(&domain->memory.populated_frames);
    end = hv_ns_add(hv_clock_now(reaper->clock), HV_REAPER_TURN_NS);
    rc = hv_teardown_step(domain, reaper->turn_frames, end);
    left = hv_load_relaxed(&domain->memory.populated_frames);
    /* Who is still inside may have been given some. */
    done = before > left ? before - left : 0;
    HV_RACE("reaper.stepped");
    if (rc == 0) {
        let_go(reaper, domain, done);
    } else {
        put_back(reaper, domain, rc == -EBUSY, done);
    }
    return true;
}

void hv_reaper_await(struct hv_reaper *reaper, struct hv_domain *domain)
{
    hv_lock_check_none("waiting for a domain's end");
    for (;;) {
        uint32_t seen = hv_load_seq(&domain->changes);
        uint32_t state = hv_load_seq(&domain->state);

        if (state == HV_DOMAIN_STATE_GONE) {
            break;
        }
        if (state == HV_DOMAIN_STATE_DEAD) {
            return;
        }
        hv_futex_wait(&domain->changes, seen, HV_NS_NEVER);
    }
    /* Pairs with let_go(): the core's reference is no more, so that the caller's may be the last. */
    hv_lock_take(&reaper->lock);
    hv_lock_drop(&reaper->lock);
}

/* ---- the threads ---- */

static void *run(void *context)
{
    struct hv_reaper *reaper = context;

    while (!hv_load_seq(&reaper->stopping)) {
        uint32_t ticket;

        while (hv_reaper_turn(reaper)) {
        }
        ticket = hv_eventcount_listen(&reaper->work);
        /* Once more: pairs with the signals after a push, and after `stopping`. */
        if (hv_load_seq(&reaper->stopping) || hv_reaper_turn(reaper)) {
            hv_eventcount_cancel(&reaper->work);
        } else {
            hv_eventcount_wait(&reaper->work, ticket, HV_NS_NEVER);
        }
    }
    return NULL;
}

int hv_reaper_create(unsigned threads, const struct hv_clock *clock, struct hv_reaper **reaper_out)
{
    struct hv_reaper *reaper = hv_alloc(1, sizeof(*reaper));
    int rc = 0;

    HV_ASSERT(threads <= HV_REAPER_THREADS_MAX);
    *reaper_out = NULL;
    if (!reaper) {
        return -ENOMEM;
    }
    reaper->clock = clock;
    reaper->turn_frames = HV_REAPER_TURN_FRAMES;
    hv_lock_init(&reaper->lock, HV_RANK_LEAF, "core.reaper", 0);
    hv_list_init(&reaper->queue);
    hv_eventcount_init(&reaper->work);
    hv_eventcount_init(&reaper->idle);
    while (rc == 0 && reaper->threads < threads) {
        char name[16];

        hv_format(name, sizeof(name), "hv-reaper-%u", reaper->threads);
        rc = hv_thread_start(&reaper->thread[reaper->threads], name, run, reaper);
        reaper->threads += rc == 0 ? 1 : 0;
    }
    if (rc < 0) {
        hv_reaper_destroy(reaper);
        return rc;
    }
    *reaper_out = reaper;
    return 0;
}

static void await_idle(struct hv_reaper *reaper)
{
    for (;;) {
        uint32_t ticket = hv_eventcount_listen(&reaper->idle);

        if (hv_load_seq(&reaper->domains) == 0) {
            hv_eventcount_cancel(&reaper->idle);
            return;
        }
        hv_eventcount_wait(&reaper->idle, ticket, HV_NS_NEVER);
    }
}

void hv_reaper_destroy(struct hv_reaper *reaper)
{
    if (!reaper) {
        return;
    }
    hv_lock_check_none("waiting for all domains' end");
    await_idle(reaper);
    hv_store_seq(&reaper->stopping, 1);
    hv_eventcount_signal(&reaper->work);
    for (unsigned i = 0; i < reaper->threads; i++) {
        pthread_join(reaper->thread[i], NULL);
    }
    (void)free_unheld(reaper);
    hv_lock_finish(&reaper->lock);
    hv_free(reaper);
}

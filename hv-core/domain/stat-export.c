/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Rounds of writing statistics into shared pages: see stat-export.h. */
#include "domain/stat-export.h"

#include <errno.h>
#include <pthread.h>

#include "base/alloc.h"
#include "domain/core.h"
#include "domain/domain.h"
#include "stat/stat-pages.h"
#include "sync/eventcount.h"
#include "sync/thread.h"

#define BLOCKS (HV_STAT_EXPORT_FIRST + HV_STAT_EXPORT_DOMAINS)

struct hv_stat_export {
    /* Set at creation. */
    struct hv_core *core; /* borrowed */
    uint64_t period_ns;
    struct hv_stat_pages *pages; /* owned */
    bool runs;                   /* the thread */
    pthread_t thread;
    /* Owned by who writes. */
    struct hv_stat *stats; /* room for a block's, owned */
    hv_handle *listed;     /* room for all there may be, owned; untouched it costs nothing */
    hv_handle shown[HV_STAT_EXPORT_DOMAINS]; /* whose each block is */
    uint64_t rounds;
    /* Atomic. */
    _Atomic uint32_t stopping;
    _Atomic uint64_t begun, ended;    /* rounds: their numbers, from 1 on */
    struct hv_eventcount wake, round; /* the thread is wanted; a round has ended */
};

static void write_block(struct hv_stat_export *export, unsigned block,
                        const struct hv_stat_pages_title *title, size_t wanted)
{
    size_t count = wanted < HV_STAT_PAGES_RECORDS ? wanted : HV_STAT_PAGES_RECORDS;

    hv_stat_pages_write(export->pages, block, title, export->stats, count, wanted);
}

static void write_core(struct hv_stat_export *export, hv_ns now)
{
    const struct hv_stat_pages_title title = {.kind = HV_STAT_PAGES_CORE, .moment = now};

    write_block(export, HV_STAT_EXPORT_CORE, &title,
                hv_core_get_stats(export->core, export->stats, HV_STAT_PAGES_RECORDS));
}

static void write_locks(struct hv_stat_export *export, hv_ns now)
{
    const struct hv_stat_pages_title title = {.kind = HV_STAT_PAGES_LOCKS, .moment = now};

    write_block(export, HV_STAT_EXPORT_LOCKS, &title,
                hv_core_get_lock_stats(export->core, export->stats, HV_STAT_PAGES_RECORDS));
}

/* The place of @handle, which may be none's; HV_STAT_EXPORT_DOMAINS when it has none. */
static unsigned place_of(const struct hv_stat_export *export, hv_handle handle)
{
    unsigned place = 0;

    while (place < HV_STAT_EXPORT_DOMAINS && export->shown[place].v != handle.v) {
        place++;
    }
    return place;
}

/* Show a machine in its place, or, when it is gone, nothing. */
static void write_domain(struct hv_stat_export *export, unsigned place, hv_handle handle, hv_ns now)
{
    struct hv_stat_pages_title title = {
        .kind = HV_STAT_PAGES_DOMAIN, .handle = handle, .moment = now};
    unsigned block = HV_STAT_EXPORT_FIRST + place;
    struct hv_domain *domain;

    if (hv_domain_get(export->core, handle, &domain) < 0) {
        hv_stat_pages_clear(export->pages, block);
        export->shown[place] = HV_HANDLE_NONE;
        return;
    }
    title.name = domain->name;
    write_block(export, block, &title,
                hv_domain_get_stats(domain, export->stats, HV_STAT_PAGES_RECORDS));
    export->shown[place] = handle;
    hv_domain_put(domain);
}

/* Returns how many machines have no block. */
static uint64_t write_domains(struct hv_stat_export *export, hv_ns now)
{
    uint64_t left_out = 0;
    size_t count;

    /* First those that have one, of which some may have gone: then there is room. */
    for (unsigned place = 0; place < HV_STAT_EXPORT_DOMAINS; place++) {
        if (export->shown[place].v != HV_HANDLE_NONE.v) {
            write_domain(export, place, export->shown[place], now);
        }
    }
    count = hv_core_list(export->core, export->listed, HV_DIRECTORY_IDS);
    for (size_t i = 0; i < count; i++) {
        unsigned place = place_of(export, HV_HANDLE_NONE);

        if (place_of(export, export->listed[i]) < HV_STAT_EXPORT_DOMAINS) {
            continue;
        }
        if (place < HV_STAT_EXPORT_DOMAINS) {
            write_domain(export, place, export->listed[i], now);
        } else {
            left_out++;
        }
    }
    return left_out;
}

void hv_stat_export_round(struct hv_stat_export *export)
{
    uint64_t number = hv_load_relaxed(&export->begun) + 1, left_out;
    hv_ns now;

    /* Before anything is read: pairs with the look of who asks for a round. */
    hv_store_seq(&export->begun, number);
    now = hv_clock_now(&export->core->clock);
    write_core(export, now);
    if (export->rounds++ % HV_STAT_EXPORT_LOCK_ROUNDS == 0) {
        write_locks(export, now);
    }
    left_out = write_domains(export, now);
    hv_stat_pages_end_round(export->pages, now, left_out);
    hv_store_seq(&export->ended, number);
    hv_eventcount_signal(&export->round);
}

int hv_stat_export_now(struct hv_stat_export *export)
{
    hv_ns end = hv_ns_add(hv_clock_host_now(), HV_STAT_PAGES_PATIENCE_NS);
    uint64_t begun = hv_load_seq(&export->begun);

    if (!export->runs) {
        return -ENOTSUP;
    }
    hv_eventcount_signal(&export->wake);
    for (;;) {
        uint32_t ticket = hv_eventcount_listen(&export->round);

        if (hv_load_seq(&export->ended) > begun) {
            hv_eventcount_cancel(&export->round);
            return 0;
        }
        if (!hv_ns_before(hv_clock_host_now(), end)) {
            hv_eventcount_cancel(&export->round);
            return -ETIMEDOUT;
        }
        hv_eventcount_wait(&export->round, ticket, end);
    }
}

static void *run(void *context)
{
    struct hv_stat_export *export = context;

    for (;;) {
        hv_ns next = hv_ns_add(hv_clock_now(&export->core->clock), export->period_ns);
        uint32_t ticket = hv_eventcount_listen(&export->wake);

        if (hv_load_seq(&export->stopping)) {
            hv_eventcount_cancel(&export->wake);
            return NULL;
        }
        hv_stat_export_round(export);
        hv_eventcount_wait(&export->wake, ticket, next);
    }
}

int hv_stat_export_create(struct hv_core *core, uint64_t period_ns,
                          struct hv_stat_export **export_out)
{
    struct hv_stat_export *export;
    int rc;

    *export_out = NULL;
    if (period_ns < HV_STAT_EXPORT_PERIOD_MIN) {
        return -EINVAL;
    }
    export = hv_alloc(1, sizeof(*export));
    if (!export) {
        return -ENOMEM;
    }
    export->core = core;
    export->period_ns = period_ns;
    hv_eventcount_init(&export->wake);
    hv_eventcount_init(&export->round);
    export->stats = hv_alloc(HV_STAT_PAGES_RECORDS, sizeof(*export->stats));
    export->listed = hv_alloc(HV_DIRECTORY_IDS, sizeof(*export->listed));
    rc = export->stats && export->listed ? hv_stat_pages_create(BLOCKS, period_ns, &export->pages)
                                         : -ENOMEM;
    if (rc == 0 && period_ns != HV_STAT_EXPORT_BY_HAND) {
        rc = hv_thread_start(&export->thread, "hv-statistics", run, export);
        export->runs = rc == 0;
    }
    if (rc < 0) {
        hv_stat_export_destroy(export);
        return rc;
    }
    *export_out = export;
    return 0;
}

void hv_stat_export_destroy(struct hv_stat_export *export)
{
    if (!export) {
        return;
    }
    if (export->runs) {
        hv_store_seq(&export->stopping, 1);
        hv_eventcount_signal(&export->wake);
        pthread_join(export->thread, NULL);
    }
    hv_stat_pages_destroy(export->pages);
    hv_free(export->listed);
    hv_free(export->stats);
    hv_free(export);
}

int hv_stat_export_fd(const struct hv_stat_export *export)
{
    return hv_stat_pages_fd(export->pages);
}

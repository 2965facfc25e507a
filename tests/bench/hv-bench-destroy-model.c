/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What a destroy would take with more cores than there are: each destroyer works by itself for a
 * while and then wants a heap lock, held for as long as was measured with one thread, and longer by
 * the lines that have to come from the core that had it before.
 *
 * A closed network of one queue (hv-bench-parts.c). Each prediction stands beside what this host does
 * with one thread and with two, measured at once and where others disturbed it least.
 */
#include "bench/hv-bench-destroy.h"

#include <stdlib.h>

#include "bench/hv-bench.h"
#include "sync/lock-profile.h"

/*
 * Beside the lines that an operation writes: who waits looks at the lock's word, so that the holder
 * has to fetch it once more to drop it, and the other again to take it.
 */
#define WAITER_TRANSFERS 2u

struct demand {
    double work_ns;     /* between two operations on a heap lock, of one destroyer */
    double service_ns;  /* with the lock, alone */
    double transfer_ns; /* of one cache line from another core */
};

/* ns between the ends of two operations, of whichever destroyer, when @cores run one each. */
static double operation_ns(const struct destroy_way *way, const struct demand *demand,
                           unsigned cores)
{
    unsigned queues = cores < way->queues ? cores : way->queues;
    unsigned each = (cores + queues - 1) / queues;
    double service = demand->service_ns;

    if (way->serial) {
        return demand->work_ns + service;
    }
    if (each > 1) {
        service += (way->lines + WAITER_TRANSFERS) * demand->transfer_ns;
    }
    return 1 / (bench_closed_rate(each, service, demand->work_ns) * queues);
}

/* ---- what is measured for it ---- */

void destroy_holds(const struct hv_lock *lock, struct hv_histogram *sum_out)
{
    memset(sum_out, 0, sizeof(*sum_out));
    hv_lock_class_sum(&lock->head, &lock->head.side, HV_LOCK_SPAN_HOLD, sum_out);
}

/* ns of an empty hold, as sampled, the median, and of a whole take and drop. */
static void lock_cost(uint64_t rounds, double *hold_out, double *pair_out)
{
    struct hv_histogram holds;
    struct hv_lock lock;
    double start;

    hv_lock_init(&lock, HV_RANK_HEAP, "bench.empty", 0);
    start = bench_thread_ns();
    for (uint64_t i = 0; i < rounds; i++) {
        hv_lock_take(&lock);
        hv_lock_drop(&lock);
    }
    *pair_out = (bench_thread_ns() - start) / (double)rounds;
    destroy_holds(&lock, &holds);
    *hold_out = (double)hv_histogram_quantile(&holds, 500000);
    hv_lock_finish(&lock);
}

/* ---- model and host, pair by pair ---- */

/* Large enough for the ends not to count, small enough to be undisturbed now and then: of pages whose
 * destroyers contend for each, fewer. */
#define TRIAL_DOMAINS   2u
#define TRIAL_PAGES     (64 * HV_MIB / HV_PAGE_SIZE)
#define CONTENDED_PAGES (16 * HV_MIB / HV_PAGE_SIZE)
#define TRIES           5u
#define HERE_MOST       2u /* threads */
/* Fewer say nothing, however few runs of other things are wanted. */
#define PAIRS_LEAST     15u

/* Of one way, an entry a pair. */
struct prediction {
    unsigned pairs;
    struct demand *demand;
    double *operations;         /* a page */
    struct bench_series *here;  /* of each number of threads: ns a page, as measured */
    struct bench_series *wrong; /* by so many per cent is the model */
};

static struct demand demand_of(const struct destroy_trial *alone, double transfer,
                               double empty_hold, double pair)
{
    double operation = alone->cpu_ns / alone->operations;
    double hold = alone->hold_p50_ns - empty_hold;
    struct demand demand = {.transfer_ns = transfer};

    demand.service_ns = (hold > 0 ? hold : 0) + pair;
    demand.work_ns = operation > demand.service_ns ? operation - demand.service_ns : 0;
    return demand;
}

/* Measure the demand, and at once what it is to predict: other tries, by one thread and by two. */
static int pair_once(struct bench *bench, struct destroy *destroy, unsigned run,
                     struct prediction *prediction)
{
    bool contended = !destroy->way->serial && !destroy->way->batched;
    double pages = TRIAL_DOMAINS * (double)(contended ? CONTENDED_PAGES : TRIAL_PAGES);
    double transfer = bench_transfer_ns(bench_size(bench, 500, 20));
    struct destroy_trial trial;
    double empty_hold, pair;
    int err;

    destroy->rig->pages = contended ? CONTENDED_PAGES : TRIAL_PAGES;
    err = destroy_try(destroy, 1, TRIES, &trial);
    lock_cost(bench_size(bench, 500000, 50000), &empty_hold, &pair);
    if (err) {
        return err;
    }
    prediction->demand[run] = demand_of(&trial, transfer, empty_hold, pair);
    prediction->operations[run] = trial.operations / pages;
    for (unsigned threads = 1; threads <= prediction->here->variants; threads++) {
        double said = operation_ns(destroy->way, &prediction->demand[run], threads) *
                      prediction->operations[run];
        double here;

        err = destroy_try(destroy, threads, TRIES, &trial);
        if (err) {
            return err;
        }
        here = trial.wall_ns / pages;
        prediction->here->each[threads - 1].runs[run] = here;
        prediction->wrong->each[threads - 1].runs[run] = 100 * (said - here) / here;
    }
    return 0;
}

static void print_row(struct bench *bench, const struct destroy_way *way,
                      const struct prediction *prediction, double pages, unsigned cores)
{
    static const char *const here_names[HERE_MOST] = {"here_1_ns_per_page", "here_2_ns_per_page"};
    static const char *const miss_names[HERE_MOST] = {"here_1_miss_pct", "here_2_miss_pct"};
    enum { WALL, PER_PAGE, SPEEDUP, FIGURES };
    static const char *const names[FIGURES] = {"wall_s", "ns_per_page", "speedup"};
    struct bench_series *series = bench_series_of(FIGURES, prediction->pairs);

    for (unsigned run = 0; run < prediction->pairs; run++) {
        const struct demand *demand = &prediction->demand[run];
        double each = operation_ns(way, demand, cores) * prediction->operations[run];

        series->each[WALL].runs[run] = each * pages / 1e9;
        series->each[PER_PAGE].runs[run] = each;
        series->each[SPEEDUP].runs[run] =
            operation_ns(way, demand, 1) * prediction->operations[run] / each;
    }
    bench_row_begin_as(bench, "destroy", "model");
    bench_row_text(bench, "strategy", way->name);
    bench_row_number(bench, "cores", cores);
    for (unsigned i = 0; i < FIGURES; i++) {
        bench_row_figure(bench, names[i], &series->each[i]);
    }
    for (unsigned i = 0; i < prediction->here->variants; i++) {
        bench_row_figure(bench, here_names[i], &prediction->here->each[i]);
        bench_row_figure(bench, miss_names[i], &prediction->wrong->each[i]);
    }
    bench_row_end(bench);
    bench_series_destroy(series);
}

static void open_prediction(struct prediction *prediction, unsigned pairs)
{
    unsigned threads = destroy_cpus() < HERE_MOST ? 1 : HERE_MOST;

    prediction->pairs = pairs;
    prediction->demand = calloc(pairs, sizeof(*prediction->demand));
    prediction->operations = calloc(pairs, sizeof(*prediction->operations));
    if (!prediction->demand || !prediction->operations) {
        bench_die("no memory for %u pairs", pairs);
    }
    prediction->here = bench_series_of(threads, pairs);
    prediction->wrong = bench_series_of(threads, pairs);
}

static void close_prediction(struct prediction *prediction)
{
    free(prediction->demand);
    free(prediction->operations);
    bench_series_destroy(prediction->here);
    bench_series_destroy(prediction->wrong);
}

int destroy_model_rows(struct bench *bench, const struct destroy_way *const *ways, unsigned count,
                       double pages, unsigned cores)
{
    struct destroy_rig *rig = aligned_alloc(HV_CACHE_LINE, sizeof(*rig));
    struct destroy *destroy = calloc(1, sizeof(*destroy));
    struct prediction prediction[DESTROY_WAYS];
    unsigned pairs = bench->quick || bench->runs > PAIRS_LEAST ? bench->runs : PAIRS_LEAST;
    int err = 0;

    if (!rig || !destroy) {
        bench_die("no memory for the figures of a pair");
    }
    *rig = (struct destroy_rig){.domains = TRIAL_DOMAINS};
    destroy->rig = rig;
    for (unsigned i = 0; i < count; i++) {
        open_prediction(&prediction[i], pairs);
    }
    for (unsigned run = 0; !err && run < pairs; run++) {
        bench_progress(bench, "model: pair %u of %u", run + 1, pairs);
        for (unsigned i = 0; !err && i < count; i++) {
            unsigned at = (run + i) % count;

            destroy->way = ways[at];
            err = pair_once(bench, destroy, run, &prediction[at]);
        }
    }
    bench_progress(bench, NULL);
    for (unsigned i = 0; !err && i < count; i++) {
        for (unsigned some = 1; some < cores; some *= 2) {
            print_row(bench, ways[i], &prediction[i], pages, some);
        }
        print_row(bench, ways[i], &prediction[i], pages, cores);
    }
    for (unsigned i = 0; i < count; i++) {
        close_prediction(&prediction[i]);
    }
    free(destroy);
    free(rig);
    return err ? bench_fail(bench, "no memory for the model's runs: %s", strerror(-err)) : 0;
}

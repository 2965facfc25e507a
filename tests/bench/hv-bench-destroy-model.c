/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What a destroy would take with more cores than there are: each destroyer works by itself for a
 * while and then wants a heap lock, held for as long as was measured with one thread, and longer by
 * the lines that have to come from the core that had it before.
 *
 * A closed network of one queue, solved by exact mean value analysis:
 *
 *     R(n) = S (1 + Q(n - 1))     X(n) = n / (R(n) + Z)     Q(n) = X(n) R(n)
 *
 * Source: M. Reiser, S. Lavenberg, "Mean-Value Analysis of Closed Multichain Queuing Networks", 1980.
 */
#include "bench/hv-bench-destroy.h"

#include "bench/hv-bench.h"
#include "lib/threads.h"
#include "sync/lock-profile.h"

/* Ends of holds a ns, by so many destroyers at one lock. */
static double throughput(unsigned destroyers, double service, double work)
{
    double waiting = 0, rate = 0;

    for (unsigned n = 1; n <= destroyers; n++) {
        double response = service * (1 + waiting);

        rate = n / (response + work);
        waiting = rate * response;
    }
    return rate;
}

double destroy_model_ns(const struct destroy_way *way, const struct destroy_demand *demand,
                        unsigned cores)
{
    unsigned queues = cores < way->queues ? cores : way->queues;
    unsigned each = (cores + queues - 1) / queues;
    double service = demand->service_ns;

    if (way->serial) {
        return demand->work_ns + service;
    }
    if (each > 1) {
        service += way->lines * demand->transfer_ns;
    }
    return 1 / (throughput(each, service, demand->work_ns) * queues);
}

/* ---- what is measured for it ---- */

/* Exchanges that are timed together: short, so that some are not interrupted. */
#define RALLY 500u

struct court {
    uint64_t rallies;
    double best_ns; /* of one exchange, there and back */
    HV_ALIGNED(HV_CACHE_LINE) _Atomic uint64_t ball;
};

static void await(struct court *court, uint64_t ball)
{
    for (unsigned spins = 1; hv_load_acquire(&court->ball) != ball; spins++) {
        /* With one CPU the other has to come at all. */
        if (spins % 10000 == 0) {
            threads_patient(0);
        }
    }
}

static void play(unsigned index, void *context)
{
    struct court *court = context;

    for (uint64_t rally = 0; rally < court->rallies; rally++) {
        double start = bench_wall_ns();
        double exchange;

        for (uint64_t i = rally * RALLY; i < (rally + 1) * RALLY; i++) {
            await(court, 2 * i + index);
            hv_store_release(&court->ball, 2 * i + index + 1);
        }
        exchange = (bench_wall_ns() - start) / RALLY;
        if (index == 0 && (rally == 0 || exchange < court->best_ns)) {
            court->best_ns = exchange;
        }
    }
}

double destroy_transfer_ns(uint64_t rallies)
{
    struct court court = {.rallies = rallies};

    threads_run(2, play, &court);
    return court.best_ns / 2;
}

void destroy_holds(const struct hv_lock *lock, struct hv_histogram *sum_out)
{
    memset(sum_out, 0, sizeof(*sum_out));
    hv_lock_class_sum(&lock->head, &lock->head.side, HV_LOCK_SPAN_HOLD, sum_out);
}

void destroy_lock_cost(uint64_t rounds, double *hold_out, double *pair_out)
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

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What the models of benches are made of: a queue, and what a line's transfer takes here.
 *
 * Source: M. Reiser, S. Lavenberg, "Mean-Value Analysis of Closed Multichain Queuing Networks", 1980.
 */
#include "bench/hv-bench.h"

#include "lib/threads.h"
#include "sync/atomic.h"

/* R(n) = S (1 + Q(n - 1))     X(n) = n / (R(n) + Z)     Q(n) = X(n) R(n) */
double bench_closed_rate(unsigned customers, double service, double think)
{
    double waiting = 0, rate = 0;

    for (unsigned n = 1; n <= customers; n++) {
        double response = service * (1 + waiting);

        rate = n / (response + think);
        waiting = rate * response;
    }
    return rate;
}

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

static void play(struct court *court, unsigned index)
{
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

static void *return_balls(void *context)
{
    play(context, 1);
    return NULL;
}

double bench_transfer_ns(uint64_t rallies)
{
    struct court court = {.rallies = rallies};
    pthread_t other;

    bench_thread_start(&other, return_balls, &court);
    play(&court, 0);
    pthread_join(other, NULL);
    return court.best_ns / 2;
}

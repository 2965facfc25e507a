/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Threads of a test: see threads.h. */
#include "lib/threads.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define PATIENCE_S 10
#define NS_PER_S   UINT64_C(1000000000)

static void *run_one(void *data)
{
    const struct threads_one *one = data;
    struct threads *group = one->group;

    pthread_barrier_wait(&group->start);
    group->body(one->index, group->context);
    return NULL;
}

void threads_start(struct threads *threads, unsigned count, threads_body *body, void *context)
{
    threads->count = count;
    threads->body = body;
    threads->context = context;
    pthread_barrier_init(&threads->start, NULL, count);
    for (unsigned i = 0; i < count; i++) {
        struct threads_one *one = &threads->each[i];

        one->group = threads;
        one->index = i;
        if (pthread_create(&one->id, NULL, run_one, one) != 0) {
            fputs("cannot start a thread\n", stderr);
            exit(1);
        }
    }
}

void threads_join(struct threads *threads)
{
    for (unsigned i = 0; i < threads->count; i++) {
        pthread_join(threads->each[i].id, NULL);
    }
    pthread_barrier_destroy(&threads->start);
}

void threads_run(unsigned count, threads_body *body, void *context)
{
    struct threads threads;

    threads_start(&threads, count, body, context);
    threads_join(&threads);
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

uint64_t threads_patience(void)
{
    return now_ns() + PATIENCE_S * NS_PER_S;
}

bool threads_patient(uint64_t end_ns)
{
    sched_yield();
    return now_ns() < end_ns;
}

unsigned threads_rounds(unsigned normal)
{
    const char *text = getenv("LODGE_TEST_SCALE");
    unsigned long percent = text ? strtoul(text, NULL, 10) : 100;
    unsigned long rounds = normal * percent / 100;

    return rounds > 0 ? (unsigned)rounds : 1;
}

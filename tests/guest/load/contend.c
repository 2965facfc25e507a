/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A load that lives in one spin lock of the kernel: the threads of a process copy and close a file
 * descriptor, and both take the lock of the table of descriptors.
 *
 *     contend THREADS SECONDS     line `contend THREADS pairs-a-second least-of-a-thread`
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S    UINT64_C(1000000000)
#define MAX_THREADS 64

struct worker {
    pthread_t thread;
    uint64_t pairs;
};

static atomic_bool stop;

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static void *copy_and_close(void *context)
{
    struct worker *worker = context;

    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        int copy = dup(STDIN_FILENO);

        if (copy < 0 || close(copy) < 0) {
            perror("contend");
            exit(1);
        }
        worker->pairs++;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    static struct worker workers[MAX_THREADS];
    unsigned long threads = argc == 3 ? strtoul(argv[1], NULL, 10) : 0;
    unsigned seconds = argc == 3 ? (unsigned)strtoul(argv[2], NULL, 10) : 0;
    uint64_t start, sum = 0, least = UINT64_MAX;

    if (threads == 0 || threads > MAX_THREADS || seconds == 0) {
        fputs("usage: contend THREADS SECONDS, at most 64 threads\n", stderr);
        return 1;
    }
    start = now_ns();
    for (unsigned long i = 0; i < threads; i++) {
        if (pthread_create(&workers[i].thread, NULL, copy_and_close, &workers[i]) != 0) {
            return 1;
        }
    }
    sleep(seconds);
    atomic_store(&stop, true);
    for (unsigned long i = 0; i < threads; i++) {
        pthread_join(workers[i].thread, NULL);
        sum += workers[i].pairs;
        least = workers[i].pairs < least ? workers[i].pairs : least;
    }
    printf("contend %lu %" PRIu64 " %" PRIu64 "\n", threads, sum * NS_PER_S / (now_ns() - start),
           least);
    return 0;
}

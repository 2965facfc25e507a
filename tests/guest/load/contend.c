/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A load around one spin lock of the kernel. Each thread thinks for a while, then has the kernel do
 * something to all semaphores of a set that they share, which it does under the lock of the set:
 * longer for more semaphores.
 *
 *     contend THREADS SECONDS [THOUGHTS [SEMAPHORES]]
 *
 * Prints `contend begins`, and at the end `contend THREADS records-a-second least-of-a-thread`.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S       UINT64_C(1000000000)
#define THREADS_MAX    64
#define SEMAPHORES_MAX 250 /* two operations each; the kernel takes 500 at a time */

static struct worker {
    pthread_t thread;
    uint64_t records, thought;
} workers[THREADS_MAX];

static atomic_bool stop;
static int set = -1;
static unsigned long threads, seconds, thoughts = 2000, semaphores = 20;

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static uint64_t think(uint64_t thought)
{
    for (unsigned long i = 0; i < thoughts; i++) {
        thought ^= thought << 13;
        thought ^= thought >> 7;
        thought ^= thought << 17;
    }
    return thought;
}

/* Up and down by one: nothing is waited for, and all is as it was. */
static void prepare(struct sembuf *operations)
{
    for (unsigned long i = 0; i < semaphores; i++) {
        operations[2 * i] = (struct sembuf){.sem_num = (unsigned short)i, .sem_op = 1};
        operations[2 * i + 1] = (struct sembuf){.sem_num = (unsigned short)i, .sem_op = -1};
    }
}

static void *work(void *context)
{
    struct sembuf operations[2 * SEMAPHORES_MAX];
    struct worker *worker = context;

    prepare(operations);
    worker->thought = (uintptr_t)worker;
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        worker->thought = think(worker->thought);
        if (semop(set, operations, 2 * semaphores) < 0) {
            fail("contend: semop");
        }
        worker->records++;
    }
    return NULL;
}

static bool read_number(const char *word, unsigned long most, unsigned long *number)
{
    char *end;

    errno = 0;
    *number = strtoul(word, &end, 10);
    return errno == 0 && end != word && *end == '\0' && *number <= most;
}

static bool read_arguments(int argc, char **argv)
{
    return argc >= 3 && argc <= 5 && read_number(argv[1], THREADS_MAX, &threads) && threads > 0 &&
           read_number(argv[2], 1000, &seconds) && seconds > 0 &&
           (argc < 4 || read_number(argv[3], 100000000, &thoughts)) &&
           (argc < 5 || (read_number(argv[4], SEMAPHORES_MAX, &semaphores) && semaphores > 0));
}

int main(int argc, char **argv)
{
    uint64_t start, sum = 0, least = UINT64_MAX;

    if (!read_arguments(argc, argv)) {
        fprintf(stderr,
                "usage: contend THREADS SECONDS [THOUGHTS [SEMAPHORES]], at most %d threads "
                "and %d semaphores\n",
                THREADS_MAX, SEMAPHORES_MAX);
        return 1;
    }
    set = semget(IPC_PRIVATE, (int)semaphores, 0600);
    if (set < 0) {
        fail("contend: semget");
    }
    puts("contend begins");
    fflush(stdout);
    start = now_ns();
    for (unsigned long i = 0; i < threads; i++) {
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) {
            fail("contend: pthread_create");
        }
    }
    sleep((unsigned)seconds);
    atomic_store(&stop, true);
    for (unsigned long i = 0; i < threads; i++) {
        pthread_join(workers[i].thread, NULL);
        sum += workers[i].records;
        least = workers[i].records < least ? workers[i].records : least;
    }
    printf("contend %lu %" PRIu64 " %" PRIu64 "\n", threads, sum * NS_PER_S / (now_ns() - start),
           least);
    fflush(stdout);
    semctl(set, 0, IPC_RMID);
    return 0;
}

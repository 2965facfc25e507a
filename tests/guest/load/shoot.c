/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A load that takes translations from other CPUs: the threads of a process map pages, touch them, and
 * take them away again, for which the kernel flushes the TLB of every CPU that runs one of them. A page
 * that comes back is zero.
 *
 *     shoot THREADS ROUNDS        line `shoot good`, or exit status 1
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define MAX_THREADS 64
#define PAGE        4096
#define PAGES       8

static unsigned long rounds;

static bool one_round(unsigned char *memory, unsigned char mark)
{
    for (unsigned i = 0; i < PAGES; i++) {
        if (memory[i * PAGE] != 0) {
            return false;
        }
        memory[i * PAGE] = mark;
    }
    return madvise(memory, PAGES * PAGE, MADV_DONTNEED) == 0;
}

static void *map_and_unmap(void *context)
{
    unsigned char *memory =
        mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool good = memory != MAP_FAILED;

    for (unsigned long i = 0; good && i < rounds; i++) {
        good = one_round(memory, (unsigned char)(i % 255 + 1));
    }
    return good ? context : NULL;
}

int main(int argc, char **argv)
{
    static pthread_t threads[MAX_THREADS];
    unsigned long count = argc == 3 ? strtoul(argv[1], NULL, 10) : 0;
    bool good = true;

    if (count == 0 || count > MAX_THREADS) {
        fprintf(stderr, "usage: shoot THREADS ROUNDS\n");
        return 2;
    }
    rounds = strtoul(argv[2], NULL, 10);
    for (unsigned long i = 0; i < count; i++) {
        if (pthread_create(&threads[i], NULL, map_and_unmap, &threads[i]) != 0) {
            return 1;
        }
    }
    for (unsigned long i = 0; i < count; i++) {
        void *result = NULL;

        good &= pthread_join(threads[i], &result) == 0 && result;
    }
    printf("shoot %s\n", good ? "good" : "bad");
    return good ? 0 : 1;
}

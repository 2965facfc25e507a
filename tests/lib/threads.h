/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Threads of a test: started together, joined together, and waited for by condition, never by
 * sleeping a guessed time.
 *
 * A body reports through atomics or its return into the context: TAP_ checks belong to the main
 * thread.
 */
#pragma once

#include "lib/tap.h"

#include <pthread.h>

#define THREADS_MAX 16

typedef void threads_body(unsigned index, void *context);

struct threads;

struct threads_one {
    pthread_t id;
    struct threads *group;
    unsigned index;
};

struct threads {
    unsigned count;
    threads_body *body;
    void *context;
    pthread_barrier_t start;
    struct threads_one each[THREADS_MAX];
};

/** Start @count threads that run body(index, context), index from 0. Fails the process if it can
 *  not. */
void threads_start(struct threads *threads, unsigned count, threads_body *body, void *context);

void threads_join(struct threads *threads);

/** Both. */
void threads_run(unsigned count, threads_body *body, void *context);

/** For TAP_AWAIT(): when patience ends, and whether it has not (gives up the CPU, too). */
uint64_t threads_patience(void);
bool threads_patient(uint64_t end_ns);

/** Wait until a condition other threads bring about holds; fails the case after 10 s. */
#define TAP_AWAIT(condition)                                                \
    do {                                                                    \
        uint64_t tap_end = threads_patience();                              \
        while (!(condition)) {                                              \
            if (!threads_patient(tap_end)) {                                \
                tap_fail(__FILE__, __LINE__, "never came: %s", #condition); \
                return;                                                     \
            }                                                               \
        }                                                                   \
    } while (0)

/**
 * Rounds of a stress or litmus loop: @normal, times LODGE_TEST_SCALE (a number of per cent) when
 * that is set, at least 1.
 */
unsigned threads_rounds(unsigned normal);

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Race points: named places between two steps where another thread can make a difference. In every
 * build but release a test can park a thread there, let others pass, and so play one interleaving
 * on purpose instead of waiting for it.
 *
 *     hv_race_begin();
 *     hv_race_stop(1, "timer.run.popped", 0);  thread 1 parks there
 *     ... start the threads, each calls hv_race_name_thread(n) ...
 *     hv_race_await(1, "timer.run.popped");    it stands there now
 *     ... act ...
 *     hv_race_release(1, "timer.run.popped");
 *     hv_race_end();
 *
 * Threads without a number are never parked. While no test has begun a point costs one relaxed
 * load; in release builds it is nothing.
 *
 * Names are "folder-or-file.function.what", literals, found by grep.
 */
#pragma once

#include "hv-config.h"

#include <hv/types.h>

#define HV_RACE(name)                \
    do {                             \
        if (HV_CONFIG_RACE_POINTS) { \
            hv_race_point(name);     \
        }                            \
    } while (0)

/** Used through HV_RACE() only. */
void hv_race_point(const char *name);

/** Forget all stops and let points be noticed. One test at a time. */
void hv_race_begin(void);

/** Release every parked thread and let points cost nothing again. */
void hv_race_end(void);

/** Give the calling thread a number, 1 to 31; 0 takes it away. */
void hv_race_name_thread(unsigned number);

/** Let thread @thread park at @point on its arrival number @skip (0 is the first) from now on. */
void hv_race_stop(unsigned thread, const char *point, unsigned skip);

/**
 * Wait until @thread is parked at @point.
 *
 * Returns false when that does not happen within 10 s: the test has failed.
 */
HV_MUST_CHECK bool hv_race_await(unsigned thread, const char *point);

/** Let it go on; a stop that was not reached yet is taken back. */
void hv_race_release(unsigned thread, const char *point);

/**
 * Instead of a script: give up the CPU at random points, the same for the same @seed and arrivals.
 */
void hv_race_shuffle(uint64_t seed);

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The controller of race points: a short table of stops under one mutex.
 *
 * It uses the C library's mutex, not hv_lock: race points stand inside hv_lock, and a parked thread
 * must not count as holding anything.
 */
#include "sync/race.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#include "base/assert.h"
#include "sync/atomic.h"

#define STOPS_MAX   32u
#define THREADS_MAX 32u
#define AWAIT_S     10

struct stop {
    const char *point; /* NULL: free */
    unsigned thread;
    unsigned skip; /* arrivals to let pass yet */
    bool parked;
};

enum race_mode {
    RACE_OFF,
    RACE_SCRIPT,
    RACE_SHUFFLE,
};

static struct {
    _Atomic uint32_t mode;
    _Atomic uint64_t seed;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* Guarded by lock. */
    struct stop stops[STOPS_MAX];
} race = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static _Thread_local struct {
    unsigned number;
    uint64_t rng;
} race_thread;

/* The stop where the thread is parked, if it is, before one that it has yet to reach: so a script
 * can place the next stop before it releases this one. */
static struct stop *find(unsigned thread, const char *point)
{
    struct stop *found = NULL;

    for (unsigned i = 0; i < STOPS_MAX; i++) {
        struct stop *stop = &race.stops[i];

        if (stop->point && stop->thread == thread && strcmp(stop->point, point) == 0 &&
            (!found || stop->parked)) {
            found = stop;
        }
    }
    return found;
}

static void park_if_told(const char *point)
{
    struct stop *stop;

    pthread_mutex_lock(&race.lock);
    stop = find(race_thread.number, point);
    if (stop && stop->skip > 0) {
        stop->skip--;
    } else if (stop) {
        stop->parked = true;
        pthread_cond_broadcast(&race.changed);
        while (stop->point) {
            pthread_cond_wait(&race.changed, &race.lock);
        }
        stop->parked = false;
    }
    pthread_mutex_unlock(&race.lock);
}

static void yield_at_random(void)
{
    uint64_t x = race_thread.rng;

    if (x == 0) {
        x = hv_load_relaxed(&race.seed) * (2 * race_thread.number + 1) | 1;
    }
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    race_thread.rng = x;
    /* Seldom: on a busy host each yield costs the other threads' whole slices. */
    if ((x & 15) == 0) {
        sched_yield();
    }
}

void hv_race_point(const char *name)
{
    uint32_t mode = hv_load_relaxed(&race.mode);

    if (HV_LIKELY(mode == RACE_OFF) || race_thread.number == 0) {
        return;
    }
    if (mode == RACE_SCRIPT) {
        park_if_told(name);
    } else {
        yield_at_random();
    }
}

void hv_race_begin(void)
{
    hv_store_seq(&race.mode, RACE_SCRIPT);
}

void hv_race_shuffle(uint64_t seed)
{
    hv_store_seq(&race.seed, seed);
    hv_store_seq(&race.mode, RACE_SHUFFLE);
}

void hv_race_end(void)
{
    hv_store_seq(&race.mode, RACE_OFF);
    pthread_mutex_lock(&race.lock);
    for (unsigned i = 0; i < STOPS_MAX; i++) {
        race.stops[i].point = NULL;
    }
    pthread_cond_broadcast(&race.changed);
    pthread_mutex_unlock(&race.lock);
}

void hv_race_name_thread(unsigned number)
{
    HV_BUG_ON(number >= THREADS_MAX);
    race_thread.number = number;
    race_thread.rng = 0;
}

void hv_race_stop(unsigned thread, const char *point, unsigned skip)
{
    struct stop *place = NULL;

    pthread_mutex_lock(&race.lock);
    for (unsigned i = 0; i < STOPS_MAX && !place; i++) {
        if (!race.stops[i].point && !race.stops[i].parked) {
            place = &race.stops[i];
        }
    }
    HV_BUG_ON(!place);
    *place = (struct stop){.point = point, .thread = thread, .skip = skip};
    pthread_mutex_unlock(&race.lock);
}

bool hv_race_await(unsigned thread, const char *point)
{
    const struct stop *stop;
    struct timespec until;
    int error = 0;
    bool parked;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += AWAIT_S;
    pthread_mutex_lock(&race.lock);
    stop = find(thread, point);
    while (stop && !stop->parked && error != ETIMEDOUT) {
        error = pthread_cond_timedwait(&race.changed, &race.lock, &until);
    }
    parked = stop && stop->parked;
    pthread_mutex_unlock(&race.lock);
    return parked;
}

void hv_race_release(unsigned thread, const char *point)
{
    struct stop *stop;

    pthread_mutex_lock(&race.lock);
    stop = find(thread, point);
    if (stop) {
        stop->point = NULL;
        pthread_cond_broadcast(&race.changed);
    }
    pthread_mutex_unlock(&race.lock);
}

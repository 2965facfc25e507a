/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sync/rwlock under more threads than CPUs: nobody inside with a writer, and all get their turns. */
#include "sync/rwlock.h"

#include <sched.h>

#include "lib/threads.h"
#include "sync/lock-profile.h"
#include "sync/race.h"

#define THREADS 6

static struct hv_rwlock lock;

static struct {
    /* Guarded by lock; plain, so that a sanitizer sees a writer who is not alone. */
    uint64_t low, high;
    _Atomic uint64_t reads, writes, torn;
} shared;

static unsigned next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(*state >> 33);
}

/* As a host may do at any time: who holds it loses its CPU. */
static void maybe_yield(uint64_t *random)
{
    if (next_random(random) % 32 == 0) {
        sched_yield();
    }
}

static void read_or_write(unsigned index, void *context)
{
    unsigned write_of = *(const unsigned *)context;
    uint64_t random = index + 1;

    hv_race_name_thread(index + 1);
    for (unsigned i = 0; i < threads_rounds(4000); i++) {
        if (next_random(&random) % write_of == 0) {
            hv_rwlock_take_write(&lock);
            shared.low++;
            maybe_yield(&random);
            shared.high++;
            hv_rwlock_drop_write(&lock);
            hv_add_relaxed(&shared.writes, 1);
        } else {
            uint64_t low;

            hv_rwlock_take_read(&lock);
            low = shared.low;
            maybe_yield(&random);
            hv_add_relaxed(&shared.torn, low != shared.high);
            hv_rwlock_drop_read(&lock);
            hv_add_relaxed(&shared.reads, 1);
        }
    }
}

static void mix(unsigned write_of)
{
    hv_rwlock_init(&lock, HV_RANK_VPT, "stress.rwlock", 0);
    shared.low = shared.high = 0;
    shared.reads = shared.writes = shared.torn = 0;
    threads_run(THREADS, read_or_write, &write_of);
    TAP_EQ(shared.torn, 0);
    TAP_EQ(shared.low, shared.writes);
    TAP_EQ(shared.high, shared.writes);
    TAP_EQ(hv_lock_side_acquired(&lock.readers), shared.reads);
    TAP_EQ(hv_lock_side_acquired(&lock.writers.head.side), shared.writes);
    TAP_EQ(shared.reads + shared.writes, (uint64_t)THREADS * threads_rounds(4000));
    TAP_OK(lock.readers.counters.contended <= shared.reads);
    TAP_OK(lock.writers.head.side.counters.contended <= shared.writes);
    TAP_EQ(lock.state & 0x1ffff, 0);
    TAP_EQ(lock.impatient, 0);
    TAP_EQ(lock.writers.word, 0);
    tap_note("%" PRIu64 " of %" PRIu64 " readers and %" PRIu64 " of %" PRIu64 " writers waited",
             lock.readers.counters.contended, shared.reads,
             lock.writers.head.side.counters.contended, shared.writes);
    hv_rwlock_finish(&lock);
}

static void test_few_writers(void)
{
    mix(64);
}

static void test_many_writers(void)
{
    mix(2);
}

/* As above, and everybody gives up the CPU between the steps of taking and dropping. */
static void test_shuffled(void)
{
    hv_race_shuffle(tap_rng() | 1);
    mix(8);
    hv_race_end();
}

static void work(uint64_t turns)
{
    for (_Atomic uint64_t i = 0; i < turns; i++) {
        __builtin_ia32_pause();
    }
}

/* Two threads do nothing but write, for so long that readers lose patience, and get in. */
static void write_long(unsigned index, void *context)
{
    _Atomic uint32_t *readers = context;

    hv_race_name_thread(index + 1);
    if (index < 2) {
        while (hv_load_seq(readers) > 0) {
            hv_rwlock_take_write(&lock);
            shared.low++;
            work(20000);
            hv_rwlock_drop_write(&lock);
        }
        return;
    }
    for (unsigned i = 0; i < threads_rounds(20); i++) {
        hv_rwlock_take_read(&lock);
        hv_add_relaxed(&shared.reads, 1);
        hv_rwlock_drop_read(&lock);
    }
    hv_sub_seq(readers, 1);
}

static void test_readers_starve_not(void)
{
    _Atomic uint32_t readers = 3;

    hv_rwlock_init(&lock, HV_RANK_VPT, "stress.rwlock", 0);
    shared.reads = 0;
    threads_run(5, write_long, &readers);
    TAP_EQ(shared.reads, (uint64_t)3 * threads_rounds(20));
    hv_rwlock_finish(&lock);
}

/* Three threads do nothing but read, and the writer gets in. */
static void read_long(unsigned index, void *context)
{
    _Atomic uint32_t *writers = context;

    hv_race_name_thread(index + 1);
    if (index > 0) {
        while (hv_load_seq(writers) > 0) {
            hv_rwlock_take_read(&lock);
            work(500);
            hv_rwlock_drop_read(&lock);
        }
        return;
    }
    for (unsigned i = 0; i < threads_rounds(20); i++) {
        hv_rwlock_take_write(&lock);
        shared.low++;
        hv_rwlock_drop_write(&lock);
    }
    hv_sub_seq(writers, 1);
}

static void test_writers_starve_not(void)
{
    _Atomic uint32_t writers = 1;

    hv_rwlock_init(&lock, HV_RANK_VPT, "stress.rwlock", 0);
    shared.low = 0;
    threads_run(4, read_long, &writers);
    TAP_EQ(shared.low, threads_rounds(20));
    hv_rwlock_finish(&lock);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"stress.rwlock.few-writers", test_few_writers},
        {"stress.rwlock.many-writers", test_many_writers},
        {"stress.rwlock.shuffled", test_shuffled},
        {"stress.rwlock.readers-starve-not", test_readers_starve_not},
        {"stress.rwlock.writers-starve-not", test_writers_starve_not},
    };
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sync/rwlock: who is inside with whom, who goes first, what is counted, and by script each wake. */
#include "sync/rwlock.h"

#include <signal.h>
#include <string.h>

#include "base/clock.h"
#include "lib/threads.h"
#include "stat/lock-table.h"
#include "sync/lock-profile.h"
#include "sync/race.h"

#define WRITER_THREAD 2
#define READER_THREAD 3
#define FULL          (UINT64_C(1) << 63)
#define READING       (UINT64_C(1) << 17)

static struct hv_rwlock lock;

static struct {
    _Atomic uint32_t inside; /* readers */
    _Atomic uint32_t order;  /* of coming in: a digit each, 1 writer, 2 reader */
    _Atomic uint32_t may_drop;
} play;

static void start(void)
{
    hv_rwlock_init(&lock, HV_RANK_VPT, "test.rwlock", 7);
    play.inside = 0;
    play.order = 0;
    play.may_drop = 0;
}

static void came_in(uint32_t digit)
{
    uint32_t old = hv_load_seq(&play.order);

    while (!hv_cas_seq(&play.order, &old, old * 10 + digit)) {
    }
}

static void await_drop(void)
{
    while (!hv_load_seq(&play.may_drop)) {
        threads_patient(0);
    }
}

static void read_and_hold(unsigned index, void *context)
{
    (void)context;
    hv_race_name_thread(index + READER_THREAD);
    hv_rwlock_take_read(&lock);
    came_in(2);
    hv_add_seq(&play.inside, 1);
    await_drop();
    hv_rwlock_drop_read(&lock);
}

static void write_and_hold(unsigned index, void *context)
{
    (void)index;
    (void)context;
    hv_race_name_thread(WRITER_THREAD);
    hv_rwlock_take_write(&lock);
    came_in(1);
    await_drop();
    hv_rwlock_drop_write(&lock);
}

static uint64_t reads(void)
{
    return hv_lock_side_acquired(&lock.readers);
}

static uint64_t writes(void)
{
    return hv_lock_side_acquired(&lock.writers.head.side);
}

static void test_counts(void)
{
    start();
    for (unsigned i = 0; i < 100; i++) {
        hv_rwlock_take_read(&lock);
        hv_rwlock_assert_read(&lock);
        hv_rwlock_drop_read(&lock);
    }
    for (unsigned i = 0; i < 10; i++) {
        hv_rwlock_take_write(&lock);
        hv_rwlock_assert_write(&lock);
        hv_rwlock_drop_write(&lock);
    }
    TAP_EQ(reads(), 100);
    TAP_EQ(writes(), 10);
    TAP_EQ(lock.readers.counters.contended, 0);
    TAP_EQ(lock.writers.head.side.counters.contended, 0);
    hv_rwlock_finish(&lock);
}

static void test_shared(void)
{
    struct threads threads;

    start();
    threads_start(&threads, 3, read_and_hold, NULL);
    TAP_AWAIT(hv_load_seq(&play.inside) == 3);
    hv_rwlock_take_read(&lock);
    hv_store_seq(&play.may_drop, 1);
    threads_join(&threads);
    hv_rwlock_drop_read(&lock);
    TAP_EQ(reads(), 4);
    hv_rwlock_finish(&lock);
}

/* The count of readings goes on where the word ends. */
static void test_fold(void)
{
    start();
    lock.state = FULL - 2 * READING;
    for (unsigned i = 1; i <= 5; i++) {
        hv_rwlock_take_read(&lock);
        TAP_EQ(reads(), FULL / READING - 2 + i);
        hv_rwlock_drop_read(&lock);
    }
    TAP_EQ(lock.folded, FULL / READING);
    TAP_EQ(lock.state, 3 * READING);
    hv_rwlock_take_write(&lock);
    hv_rwlock_drop_write(&lock);
    TAP_EQ(reads(), FULL / READING + 3);
    hv_rwlock_finish(&lock);
}

static void test_rows(void)
{
    struct hv_lock_owner owner;
    struct hv_lock_row rows[3];

    hv_lock_owner_init(&owner, "web");
    hv_lock_owner_use(&owner);
    start();
    hv_lock_owner_use(NULL);
    for (unsigned i = 0; i < 1000; i++) {
        hv_rwlock_take_read(&lock);
        hv_rwlock_drop_read(&lock);
    }
    hv_rwlock_take_write(&lock);
    hv_rwlock_drop_write(&lock);
    /* Nobody waited for them, and yet the readers have figures of their own. */
    TAP_OK(lock.readers.detail != NULL);
    TAP_OK(lock.writers.head.side.detail == NULL);
    TAP_EQ(hv_lock_table_worst(&owner, NULL, rows, 3), 2);
    TAP_EQ(rows[0].kind, HV_LOCK_KIND_READ);
    TAP_EQ(rows[0].acquired, 1000);
    TAP_EQ(rows[0].index, 7);
    TAP_OK(rows[0].span[HV_LOCK_SPAN_HOLD].max > 0);
    TAP_OK(rows[0].span[HV_LOCK_SPAN_ACQUIRE].p50 > 0);
    TAP_EQ(rows[1].kind, HV_LOCK_KIND_WRITE);
    TAP_EQ(rows[1].acquired, 1);
    TAP_EQ(rows[1].number, rows[0].number);
    hv_rwlock_finish(&lock);
    hv_lock_owner_finish(&owner);
}

/* A writer waits for the reader inside, and keeps new ones out until it had its turn. */
static void test_writer_first(void)
{
    struct threads writer, reader;

    start();
    hv_race_begin();
    hv_race_stop(WRITER_THREAD, "rwlock.write.sleeps", 0);
    hv_race_stop(READER_THREAD, "rwlock.read.sleeps", 0);
    hv_rwlock_take_read(&lock);
    threads_start(&writer, 1, write_and_hold, NULL);
    TAP_OK(hv_race_await(WRITER_THREAD, "rwlock.write.sleeps"));
    threads_start(&reader, 1, read_and_hold, NULL);
    TAP_OK(hv_race_await(READER_THREAD, "rwlock.read.sleeps"));
    TAP_EQ(play.order, 0);
    hv_race_end();
    hv_rwlock_drop_read(&lock);
    TAP_AWAIT(hv_load_seq(&play.order) == 1);
    hv_store_seq(&play.may_drop, 1);
    threads_join(&writer);
    threads_join(&reader);
    TAP_EQ(play.order, 12);
    TAP_EQ(reads(), 2);
    TAP_EQ(writes(), 1);
    TAP_EQ(lock.readers.counters.contended, 1);
    TAP_OK(lock.readers.counters.parked >= 1);
    TAP_EQ(lock.readers.counters.waiters_max, 1);
    TAP_EQ(lock.writers.head.side.counters.contended, 1);
    TAP_OK(lock.writers.head.side.counters.parked >= 1);
    TAP_OK(lock.writers.head.side.counters.wait_ns > 0);
    TAP_EQ(lock.state & (READING - 1), 0);
    hv_rwlock_finish(&lock);
}

/*
 * A refused reader has not taken itself back when the next writer comes, who waits for it: it is the
 * one to wake the writer, although it never was inside.
 */
static void test_refused_reader_wakes(void)
{
    struct threads writer, reader;

    start();
    hv_store_seq(&play.may_drop, 1);
    hv_race_begin();
    hv_race_stop(READER_THREAD, "rwlock.read.refused", 0);
    hv_race_stop(READER_THREAD, "rwlock.read.sleeps", 0);
    hv_race_stop(WRITER_THREAD, "rwlock.write.sleeps", 0);
    hv_rwlock_take_write(&lock);
    threads_start(&reader, 1, read_and_hold, NULL);
    TAP_OK(hv_race_await(READER_THREAD, "rwlock.read.refused"));
    hv_rwlock_drop_write(&lock);
    threads_start(&writer, 1, write_and_hold, NULL);
    TAP_OK(hv_race_await(WRITER_THREAD, "rwlock.write.sleeps"));
    /* Asleep, as far as can be told from outside. */
    hv_race_release(WRITER_THREAD, "rwlock.write.sleeps");
    hv_race_release(READER_THREAD, "rwlock.read.refused");
    TAP_AWAIT(hv_load_seq(&play.order) >= 1);
    hv_race_end();
    threads_join(&writer);
    threads_join(&reader);
    TAP_EQ(reads(), 1);
    TAP_EQ(writes(), 2);
    hv_rwlock_finish(&lock);
}

static void pass_patience(void)
{
    uint64_t start_ns = hv_clock_host_now().v;

    while (hv_clock_host_now().v - start_ns <= HV_NS_PER_MS) {
        threads_patient(0);
    }
}

/* A reader that has waited for long comes before the writer who is next. */
static void test_impatient_reader(void)
{
    struct threads writer, reader;

    start();
    hv_race_begin();
    hv_race_stop(READER_THREAD, "rwlock.read.sleeps", 0);
    hv_race_stop(READER_THREAD, "rwlock.read.impatient", 0);
    hv_race_stop(WRITER_THREAD, "rwlock.write.lets-in", 0);
    hv_rwlock_take_write(&lock);
    threads_start(&reader, 1, read_and_hold, NULL);
    TAP_OK(hv_race_await(READER_THREAD, "rwlock.read.sleeps"));
    pass_patience();
    hv_race_release(READER_THREAD, "rwlock.read.sleeps");
    TAP_OK(hv_race_await(READER_THREAD, "rwlock.read.impatient"));
    threads_start(&writer, 1, write_and_hold, NULL);
    TAP_AWAIT(hv_load_seq(&lock.writers.waiters) == 1);
    hv_rwlock_drop_write(&lock);
    /* The lock is free, and its reader nowhere near: the writer waits for it all the same. */
    TAP_OK(hv_race_await(WRITER_THREAD, "rwlock.write.lets-in"));
    TAP_EQ(play.order, 0);
    hv_race_end();
    TAP_AWAIT(hv_load_seq(&play.order) == 2);
    hv_store_seq(&play.may_drop, 1);
    threads_join(&reader);
    threads_join(&writer);
    TAP_EQ(play.order, 21);
    TAP_EQ(lock.impatient, 0);
    hv_rwlock_finish(&lock);
}

/*
 * A writer leaves between the look and the sleep of a reader that would sleep without an end: the
 * patient ones wake by themselves after 1 ms.
 */
static void test_no_lost_wake(void)
{
    struct threads reader;

    start();
    hv_store_seq(&play.may_drop, 1);
    hv_race_begin();
    hv_race_stop(READER_THREAD, "rwlock.read.impatient", 0);
    hv_rwlock_take_write(&lock);
    threads_start(&reader, 1, read_and_hold, NULL);
    TAP_OK(hv_race_await(READER_THREAD, "rwlock.read.impatient"));
    hv_race_stop(READER_THREAD, "rwlock.read.sleeps", 0);
    hv_race_release(READER_THREAD, "rwlock.read.impatient");
    TAP_OK(hv_race_await(READER_THREAD, "rwlock.read.sleeps"));
    hv_rwlock_drop_write(&lock);
    hv_race_end();
    TAP_AWAIT(hv_load_seq(&play.order) == 2);
    threads_join(&reader);
    hv_rwlock_finish(&lock);
}

static void read_twice(void)
{
    hv_rwlock_take_read(&lock);
    hv_rwlock_take_read(&lock);
}

static void read_then_write(void)
{
    hv_rwlock_take_read(&lock);
    hv_rwlock_take_write(&lock);
}

static void write_then_read(void)
{
    hv_rwlock_take_write(&lock);
    hv_rwlock_take_read(&lock);
}

static void read_under_higher(void)
{
    struct hv_lock tm;

    hv_lock_init(&tm, HV_RANK_TM, "tm", 2);
    hv_lock_take(&tm);
    hv_rwlock_take_read(&lock);
}

static void wait_while_reading(void)
{
    hv_rwlock_take_read(&lock);
    hv_lock_check_wait(HV_RANK_FLUSH_WAIT, "a flush");
}

static void drop_unread(void)
{
    hv_rwlock_drop_read(&lock);
}

static void drop_read_of_writer(void)
{
    hv_rwlock_take_write(&lock);
    hv_rwlock_drop_read(&lock);
}

static void claim_read(void)
{
    hv_rwlock_assert_read(&lock);
}

static void claim_write(void)
{
    hv_rwlock_take_read(&lock);
    hv_rwlock_assert_write(&lock);
}

static void test_wrong_uses(void)
{
    start();
    TAP_DIES(read_twice, SIGABRT, "\"test.rwlock\"[7] (rank 35) is to be taken while");
    TAP_DIES(read_then_write, SIGABRT, "\"test.rwlock\"[7] (rank 35) is to be taken while");
    TAP_DIES(write_then_read, SIGABRT, "\"test.rwlock\"[7] (rank 35) is to be taken while");
    TAP_DIES(read_under_higher, SIGABRT, "while \"tm\"[2] (rank 40) is held");
    TAP_DIES(wait_while_reading, SIGABRT, "while \"test.rwlock\"[7] (rank 35) is held");
    TAP_DIES(drop_unread, SIGABRT, "does not hold it");
    TAP_DIES(drop_read_of_writer, SIGABRT, "does not hold it");
    TAP_DIES(claim_read, SIGABRT, "should be held by a reader here");
    TAP_DIES(claim_write, SIGABRT, "should be held here");
    hv_rwlock_finish(&lock);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"sync.rwlock.counts", test_counts},
        {"sync.rwlock.shared", test_shared},
        {"sync.rwlock.fold", test_fold},
        {"sync.rwlock.rows", test_rows},
        {"sync.rwlock.writer-first", test_writer_first},
        {"sync.rwlock.refused-reader-wakes", test_refused_reader_wakes},
        {"sync.rwlock.impatient-reader", test_impatient_reader},
        {"sync.rwlock.no-lost-wake", test_no_lost_wake},
        {"sync.rwlock.wrong-uses", test_wrong_uses},
    };

    /* The others are scripted, or abort by checks that a release build has not. */
    return tap_run(argc, argv, cases, HV_CONFIG_RACE_POINTS ? HV_ARRAY_LEN(cases) : 4);
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* stat/lock-table: which locks come first, what a row holds, and counting from a mark on. */
#include "stat/lock-mark.h"
#include "stat/lock-table.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "lib/threads.h"
#include "sync/lock-private.h"
#include "sync/lock-profile.h"
#include "sync/rwlock.h"

#define LOCKS 5

static struct hv_lock_owner owner;
static struct hv_lock locks[LOCKS];
static struct hv_lock_row rows[HV_LOCK_WORST_MAX];

static void start(void)
{
    hv_lock_owner_init(&owner, "web");
    hv_lock_owner_use(&owner);
    for (unsigned i = 0; i < LOCKS; i++) {
        hv_lock_init(&locks[i], HV_RANK_HEAP, "test.table", i);
    }
    hv_lock_owner_use(NULL);
}

static void stop(void)
{
    for (unsigned i = 0; i < LOCKS; i++) {
        hv_lock_finish(&locks[i]);
    }
    hv_lock_owner_finish(&owner);
}

/* As if this thread had waited, on behalf of a vCPU. */
static void wait_for(struct hv_lock *lock, uint64_t ns, unsigned vcpu)
{
    const struct hv_lock_wait wait = {.span_ns = ns, .parked = 1, .waiters = 2};

    hv_lock_set_waiter(&owner, vcpu);
    hv_lock_take(lock);
    hv_lock_note_wait(&lock->head, &lock->head.side, &wait);
    hv_lock_drop(lock);
    hv_lock_set_waiter(NULL, 0);
}

static void take_often(struct hv_lock *lock, unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        hv_lock_take(lock);
        hv_lock_drop(lock);
    }
}

static void test_order(void)
{
    start();
    wait_for(&locks[3], 300, 0);
    wait_for(&locks[1], 500, 0);
    wait_for(&locks[4], 100, 0);
    take_often(&locks[2], 10);
    TAP_EQ(hv_lock_table_worst(&owner, NULL, rows, HV_LOCK_WORST_MAX), LOCKS);
    TAP_EQ(rows[0].index, 1);
    TAP_EQ(rows[1].index, 3);
    TAP_EQ(rows[2].index, 4);
    /* Not waited for: those that are taken more come first. */
    TAP_EQ(rows[3].index, 2);
    TAP_EQ(rows[4].index, 0);
    memset(rows, 0, sizeof(rows));
    TAP_EQ(hv_lock_table_worst(&owner, NULL, rows, 2), 2);
    TAP_EQ(rows[0].index, 1);
    TAP_EQ(rows[1].index, 3);
    TAP_EQ(rows[2].number, 0);
    TAP_EQ(hv_lock_table_worst(&owner, NULL, rows, 0), 0);
    stop();
}

/* As if a sampled taking of @side had cost so much, though nobody waited. */
static void sample_taking(const struct hv_rwlock *lock, const struct hv_lock_side *side,
                          uint64_t ns)
{
    const struct hv_lock_sample sample = {
        .class_index = lock->writers.head.class_index,
        .readers = side->kind == HV_LOCK_KIND_READ,
        .acquired = true,
        .acquire_ns = ns,
        .detail = hv_load_relaxed(&side->detail),
    };

    for (unsigned i = 0; i < 100; i++) {
        hv_lock_sample_book(&sample);
    }
}

/*
 * Readers of a lock pass its line between them, and none ever blocks; a lock of one thread is taken
 * ten times as often. The former is the worse one, and comes first.
 */
static void test_rwlock_visible(void)
{
    struct hv_rwlock bouncing, quiet;

    hv_lock_owner_init(&owner, "web");
    hv_lock_owner_use(&owner);
    hv_rwlock_init(&quiet, HV_RANK_HEAP, "test.quiet", 0);
    hv_rwlock_init(&bouncing, HV_RANK_P2M, "test.bouncing", 0);
    hv_lock_owner_use(NULL);
    for (unsigned i = 0; i < 20000; i++) {
        hv_rwlock_take_read(&quiet);
        hv_rwlock_drop_read(&quiet);
        if (i % 10 == 0) {
            hv_rwlock_take_read(&bouncing);
            hv_rwlock_drop_read(&bouncing);
        }
    }
    /* Many more than were sampled just now, so that these are the medians. */
    for (unsigned i = 0; i < 50; i++) {
        sample_taking(&quiet, &quiet.readers, 13);
        sample_taking(&bouncing, &bouncing.readers, 61);
    }
    TAP_EQ(hv_lock_table_worst(&owner, NULL, rows, 4), 4);
    TAP_STR(rows[0].class_name, "test.bouncing");
    TAP_EQ(rows[0].kind, HV_LOCK_KIND_READ);
    TAP_EQ(rows[0].acquired, 2000);
    TAP_EQ(rows[0].contended, 0);
    TAP_EQ(rows[0].wait_ns, 0);
    TAP_STR(rows[1].class_name, "test.quiet");
    TAP_EQ(rows[1].acquired, 20000);
    /* The cheapest there is loses nothing. */
    TAP_EQ(rows[1].lost_ns, 0);
    TAP_EQ(rows[0].lost_ns, 2000 * (61 - 13));
    hv_rwlock_finish(&quiet);
    hv_rwlock_finish(&bouncing);
    hv_lock_owner_finish(&owner);
}

static void test_row(void)
{
    start();
    wait_for(&locks[1], 1000, 3);
    wait_for(&locks[1], 3000, 3);
    wait_for(&locks[1], 7000, 5);
    TAP_OK(hv_lock_try(&locks[2]));
    TAP_OK(!hv_lock_try(&locks[2]));
    hv_lock_drop(&locks[2]);
    TAP_EQ(hv_lock_table_worst(&owner, NULL, rows, 2), 2);
    TAP_STR(rows[0].class_name, "test.table");
    TAP_STR(rows[0].owner, "web");
    TAP_EQ(rows[0].number, locks[1].head.number);
    TAP_EQ(rows[0].rank, HV_RANK_HEAP);
    TAP_EQ(rows[0].kind, HV_LOCK_KIND_MUTEX);
    TAP_EQ(rows[0].acquired, 3);
    TAP_EQ(rows[0].contended, 3);
    TAP_EQ(rows[0].parked, 3);
    TAP_EQ(rows[0].waiters_max, 2);
    TAP_EQ(rows[0].wait_ns, 11000);
    TAP_EQ(rows[0].span[HV_LOCK_SPAN_WAIT].max, 7000);
    TAP_EQ(rows[0].span[HV_LOCK_SPAN_WAIT].p99, 7000);
    TAP_OK(rows[0].span[HV_LOCK_SPAN_WAIT].p50 >= 3000 &&
           rows[0].span[HV_LOCK_SPAN_WAIT].p50 <= 3000 + 3000 / 32);
    TAP_EQ(rows[0].vcpu_wait_ns[3], 4000);
    TAP_EQ(rows[0].vcpu_wait_ns[5], 7000);
    TAP_EQ(rows[0].vcpu_wait_ns[0], 0);
    TAP_EQ(rows[1].index, 2);
    TAP_EQ(rows[1].try_failed, 1);
    TAP_EQ(rows[1].span[HV_LOCK_SPAN_WAIT].max, 0);
    stop();
}

/* A lock without histograms has those of its class; one with, its own. */
static void test_class_or_own(void)
{
    start();
    take_often(&locks[0], 1000);
    TAP_EQ(hv_lock_table_worst(&owner, NULL, rows, HV_LOCK_WORST_MAX), LOCKS);
    for (unsigned i = 0; i < LOCKS; i++) {
        TAP_OK(rows[i].span[HV_LOCK_SPAN_HOLD].max > 0);
        TAP_EQ(rows[i].span[HV_LOCK_SPAN_HOLD].p50, rows[0].span[HV_LOCK_SPAN_HOLD].p50);
    }
    wait_for(&locks[1], 1, 0);
    TAP_EQ(hv_lock_table_worst(&owner, NULL, rows, 1), 1);
    TAP_EQ(rows[0].index, 1);
    TAP_EQ(rows[0].span[HV_LOCK_SPAN_ACQUIRE].p50, 0);
    stop();
}

static void test_mark(void)
{
    struct hv_lock_mark *first, *second;

    start();
    wait_for(&locks[0], 900, 2);
    wait_for(&locks[1], 100, 2);
    TAP_EQ(hv_lock_mark_create(&first), 0);
    wait_for(&locks[1], 40, 2);
    wait_for(&locks[2], 30, 1);
    TAP_EQ(hv_lock_mark_create(&second), 0);
    wait_for(&locks[0], 20, 1);

    TAP_EQ(hv_lock_table_worst(&owner, first, rows, 3), 3);
    TAP_EQ(rows[0].index, 1);
    TAP_EQ(rows[0].wait_ns, 40);
    TAP_EQ(rows[0].acquired, 1);
    TAP_EQ(rows[0].contended, 1);
    TAP_EQ(rows[0].parked, 1);
    TAP_EQ(rows[0].vcpu_wait_ns[2], 40);
    TAP_OK(rows[0].span[HV_LOCK_SPAN_WAIT].max >= 40 && rows[0].span[HV_LOCK_SPAN_WAIT].max < 42);
    TAP_EQ(rows[1].index, 2);
    TAP_EQ(rows[2].index, 0);
    TAP_EQ(rows[2].wait_ns, 20);
    TAP_EQ(rows[2].vcpu_wait_ns[1], 20);
    TAP_EQ(rows[2].vcpu_wait_ns[2], 0);

    TAP_EQ(hv_lock_table_worst(&owner, second, rows, 2), 2);
    TAP_EQ(rows[0].index, 0);
    TAP_EQ(rows[1].wait_ns, 0);
    TAP_EQ(rows[1].span[HV_LOCK_SPAN_WAIT].max, 0);
    /* Nothing was set back. */
    TAP_EQ(hv_lock_table_worst(&owner, NULL, rows, 1), 1);
    TAP_EQ(rows[0].wait_ns, 920);
    hv_lock_mark_destroy(first);
    hv_lock_mark_destroy(second);
    hv_lock_mark_destroy(NULL);
    stop();
}

/* The class is counted from the mark, too; a lock that came after the mark counts whole. */
static void test_mark_class(void)
{
    struct hv_lock_mark *mark;
    struct hv_lock young;

    start();
    take_often(&locks[0], 1000);
    TAP_EQ(hv_lock_mark_create(&mark), 0);
    TAP_EQ(hv_lock_table_worst(&owner, mark, rows, 1), 1);
    TAP_EQ(rows[0].acquired, 0);
    TAP_EQ(rows[0].span[HV_LOCK_SPAN_HOLD].max, 0);
    hv_lock_owner_use(&owner);
    hv_lock_init(&young, HV_RANK_HEAP, "test.young", 7);
    hv_lock_owner_use(NULL);
    take_often(&young, 1000);
    TAP_EQ(hv_lock_table_worst(&owner, mark, rows, 1), 1);
    TAP_EQ(rows[0].index, 7);
    TAP_EQ(rows[0].acquired, 1000);
    TAP_OK(rows[0].span[HV_LOCK_SPAN_HOLD].max > 0);
    hv_lock_finish(&young);
    hv_lock_mark_destroy(mark);
    stop();
}

static void test_no_memory(void)
{
    struct hv_lock_mark *mark = NULL;
    int64_t live = hv_alloc_live();
    uint64_t nth = 0;
    int err;

    start();
    wait_for(&locks[0], 900, 2);
    do {
        hv_alloc_fail_at(++nth);
        err = hv_lock_mark_create(&mark);
        TAP_OK(err == 0 || (err == -ENOMEM && !mark && hv_alloc_live() == live));
    } while (err);
    hv_alloc_fail_at(0);
    TAP_OK(nth > 4);
    hv_lock_mark_destroy(mark);
    TAP_EQ(hv_alloc_live(), live);
    stop();
}

struct all {
    unsigned rows, others;
    uint64_t acquired;
};

static void visit(void *context, const struct hv_lock_row *row)
{
    struct all *all = context;

    if (strcmp(row->class_name, "test.table") == 0) {
        all->rows++;
        all->acquired += row->acquired;
    } else {
        all->others++;
    }
}

static void test_each(void)
{
    struct all all = {0};

    start();
    for (unsigned i = 0; i < LOCKS; i++) {
        take_often(&locks[i], i);
    }
    hv_lock_table_each(NULL, visit, &all);
    TAP_EQ(all.rows, LOCKS);
    TAP_EQ(all.others, 0);
    TAP_EQ(all.acquired, 0 + 1 + 2 + 3 + 4);
    stop();
}

static void test_names(void)
{
    static struct hv_stat stats[64];
    struct hv_stat_list list = {.stats = stats, .max = HV_ARRAY_LEN(stats)};
    const struct hv_lock_row row = {.class_name = "mem.heap.shard",
                                    .index = 3,
                                    .kind = HV_LOCK_KIND_READ,
                                    .vcpu_wait_ns = {[1] = 11}};

    hv_lock_row_add(&list, 4, &row, 2);
    TAP_STR(stats[0].name, "lock.4.class");
    TAP_STR(stats[0].text, "mem.heap.shard");
    TAP_STR(stats[1].name, "lock.4.instance");
    TAP_EQ(stats[1].value, 3);
    TAP_STR(stats[3].text, "read");
    TAP_STR(stats[list.count - 1].name, "lock.4.vcpu.1.wait");
    TAP_EQ(stats[list.count - 1].value, 11);
}

#define EPOCHS 32u

static struct {
    _Atomic uint32_t takers;
    /* What the threads have counted themselves. */
    _Atomic uint64_t acquired[LOCKS], try_failed[LOCKS];
} reference;

/* Take and try all locks, and keep books of it. */
static void take_all(unsigned index, void *context)
{
    uint64_t acquired[LOCKS] = {0}, try_failed[LOCKS] = {0};

    (void)context;
    (void)index;
    for (unsigned i = 0; i < threads_rounds(20000); i++) {
        unsigned at = i % LOCKS;

        if (i % 3 > 0) {
            hv_lock_take(&locks[at]);
        } else if (!hv_lock_try(&locks[at])) {
            try_failed[at]++;
            continue;
        }
        acquired[at]++;
        hv_lock_drop(&locks[at]);
    }
    for (unsigned at = 0; at < LOCKS; at++) {
        hv_add_relaxed(&reference.acquired[at], acquired[at]);
        hv_add_relaxed(&reference.try_failed[at], try_failed[at]);
    }
    hv_sub_seq(&reference.takers, 1);
}

/* Rows since @mark and what the mark has are what the threads have counted, lock by lock. */
static void check_epoch(const struct hv_lock_mark *mark)
{
    TAP_EQ(hv_lock_table_worst(&owner, mark, rows, LOCKS), LOCKS);
    for (unsigned i = 0; i < LOCKS; i++) {
        unsigned at = rows[i].index;
        const struct hv_lock_head *head = &locks[at].head;
        struct hv_lock_marked marked = hv_lock_mark_find(mark, head, &head->side);

        TAP_EQ(marked.acquired + rows[i].acquired, reference.acquired[at]);
        TAP_EQ(marked.try_failed + rows[i].try_failed, reference.try_failed[at]);
        TAP_EQ(marked.contended + rows[i].contended,
               hv_load_relaxed(&head->side.counters.contended));
        TAP_EQ(marked.wait_ns + rows[i].wait_ns, hv_load_relaxed(&head->side.counters.wait_ns));
    }
}

/*
 * What is counted is what was done, and a new epoch, begun at any moment of it, loses nothing: what
 * came before it and after it is all there was.
 */
static void test_exact(void)
{
    const unsigned threads_count = 3;
    struct hv_lock_mark *marks[EPOCHS] = {NULL};
    struct hv_lock_mark *last;
    struct threads threads;
    unsigned epochs = 0;

    start();
    memset(&reference, 0, sizeof(reference));
    hv_store_seq(&reference.takers, threads_count);
    threads_start(&threads, threads_count, take_all, NULL);
    do {
        hv_lock_mark_destroy(marks[epochs % EPOCHS]);
        TAP_EQ(hv_lock_mark_create(&marks[epochs % EPOCHS]), 0);
        TAP_EQ(hv_lock_table_worst(&owner, marks[epochs % EPOCHS], rows, LOCKS), LOCKS);
        for (unsigned i = 0; i < LOCKS; i++) {
            /* Never less than nothing since the mark. */
            TAP_OK(rows[i].acquired <= (uint64_t)threads_count * threads_rounds(20000));
            TAP_OK(rows[i].contended <= rows[i].acquired + threads_count);
            TAP_OK(rows[i].span[HV_LOCK_SPAN_HOLD].max < 60 * HV_NS_PER_S);
        }
        epochs++;
    } while (hv_load_seq(&reference.takers) > 0);
    threads_join(&threads);
    check_epoch(NULL);
    /* An epoch that begins now has nothing, and all of it is in the mark. */
    TAP_EQ(hv_lock_mark_create(&last), 0);
    check_epoch(last);
    for (unsigned i = 0; i < LOCKS; i++) {
        TAP_EQ(rows[i].acquired + rows[i].contended + rows[i].try_failed + rows[i].lost_ns, 0);
    }
    hv_lock_mark_destroy(last);
    for (unsigned i = 0; i < EPOCHS; i++) {
        if (marks[i]) {
            check_epoch(marks[i]);
        }
        hv_lock_mark_destroy(marks[i]);
    }
    tap_note("%u epochs", epochs);
    stop();
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"stat.lock-table.order", test_order},
        {"lp.rwlock-visible", test_rwlock_visible},
        {"stat.lock-table.row", test_row},
        {"stat.lock-table.class-or-own", test_class_or_own},
        {"stat.lock-table.mark", test_mark},
        {"stat.lock-table.mark-class", test_mark_class},
        {"stat.lock-table.no-memory", test_no_memory},
        {"stat.lock-table.each", test_each},
        {"stat.lock-table.names", test_names},
        {"lp.exact", test_exact},
    };
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

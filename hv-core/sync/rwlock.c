/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Readers and writers: see rwlock.h for the state and why nobody is left waiting. */
#include "sync/rwlock.h"

#include "base/assert.h"
#include "base/clock.h"
#include "sync/lock-private.h"
#include "sync/lock-profile.h"
#include "sync/race.h"

#define READER      UINT64_C(1)
#define READERS     UINT64_C(0xffff)
#define WRITER      (UINT64_C(1) << 16)
#define READING     (UINT64_C(1) << 17)
/* Half of what there is room for in the count of readings. */
#define FULL        (UINT64_C(1) << 63)

/* After this long a reader is to be let in. */
#define PATIENCE_NS HV_NS_PER_MS

void hv_rwlock_init(struct hv_rwlock *lock, enum hv_rank rank, const char *name, unsigned index)
{
    *lock = (struct hv_rwlock){0};
    hv_lock_head_init(&lock->writers.head, rank, name, index, &lock->readers);
    hv_eventcount_init(&lock->entered);
    hv_eventcount_init(&lock->turn);
    if (HV_CONFIG_LOCK_PROFILE) {
        /* Readers hurt each other without ever waiting, and so would never get them. */
        hv_lock_side_detail(&lock->readers);
    }
}

void hv_rwlock_finish(struct hv_rwlock *lock)
{
    HV_ASSERT((hv_load_relaxed(&lock->state) & (READERS | WRITER)) == 0);
    hv_lock_finish(&lock->writers);
}

/* ---- counting readings ---- */

/* By one reader at a time; who comes while another does it leaves it to him. */
static HV_COLD void fold(struct hv_rwlock *lock)
{
    uint32_t nobody = 0;

    if (!hv_cas_seq(&lock->folder, &nobody, 1)) {
        return;
    }
    if (hv_load_seq(&lock->state) & FULL) {
        hv_seqcount_write_begin(&lock->folds);
        hv_and_seq(&lock->state, ~FULL);
        hv_seqcount_store(&lock->folded, hv_load_relaxed(&lock->folded) + FULL / READING);
        hv_seqcount_write_end(&lock->folds);
    }
    hv_store_seq(&lock->folder, 0);
}

static uint64_t readings(const struct hv_rwlock *lock)
{
    uint32_t begun;
    uint64_t count;

    do {
        begun = hv_seqcount_read_begin(&lock->folds);
        count = hv_seqcount_load(&lock->folded) + hv_seqcount_load(&lock->state) / READING;
    } while (hv_seqcount_read_retry(&lock->folds, begun));
    return count;
}

uint64_t hv_lock_side_acquired(const struct hv_lock_side *side)
{
    if (side->kind == HV_LOCK_KIND_READ) {
        return readings(HV_CONTAINER_OF(side, struct hv_rwlock, readers));
    }
    return hv_load_relaxed(&side->counters.acquired);
}

/* ---- reading ---- */

/* Out again; the last one lets a waiting writer know. */
static void leave(struct hv_rwlock *lock, uint64_t what)
{
    uint64_t old = hv_sub_seq(&lock->state, what);

    HV_ASSERT((old & READERS) != 0);
    if ((old & WRITER) && (old & READERS) == READER) {
        hv_eventcount_signal(&lock->turn);
    }
}

static bool enter(struct hv_rwlock *lock)
{
    uint64_t old = hv_add_seq(&lock->state, READER + READING);

    HV_ASSERT((old & READERS) != READERS);
    if (HV_UNLIKELY(old & WRITER)) {
        return false;
    }
    if (HV_UNLIKELY(old & FULL)) {
        fold(lock);
    }
    return true;
}

/* As enter(), but only looks while it would be in vain. */
static bool enter_if_free(struct hv_rwlock *lock)
{
    if (hv_load_seq(&lock->state) & WRITER) {
        return false;
    }
    if (enter(lock)) {
        return true;
    }
    leave(lock, READER + READING);
    return false;
}

/* Sleep until inside. Returns how often it slept. */
static unsigned park_reader(struct hv_rwlock *lock, hv_ns start)
{
    hv_ns patient_until = hv_ns_add(start, PATIENCE_NS);
    bool impatient = false;
    unsigned parked = 0;

    for (;;) {
        uint32_t ticket = hv_eventcount_listen(&lock->entered);

        if (enter_if_free(lock)) {
            hv_eventcount_cancel(&lock->entered);
            break;
        }
        if (!impatient && !hv_ns_before(hv_clock_host_now(), patient_until)) {
            hv_eventcount_cancel(&lock->entered);
            impatient = true;
            hv_add_seq(&lock->impatient, 1);
            HV_RACE("rwlock.read.impatient");
            continue;
        }
        parked++;
        HV_RACE("rwlock.read.sleeps");
        hv_eventcount_wait(&lock->entered, ticket, impatient ? HV_NS_NEVER : patient_until);
        HV_RACE("rwlock.read.woken");
    }
    if (impatient && hv_sub_seq(&lock->impatient, 1) == 1) {
        /* Pairs with let_readers_in(). */
        hv_eventcount_signal(&lock->turn);
    }
    return parked;
}

/* The first try was in vain: what it added is still there. */
static HV_COLD void read_slow(struct hv_rwlock *lock)
{
    hv_ns start = hv_clock_host_now();
    uint32_t spins = hv_lock_spin_rounds();
    struct hv_lock_wait wait = {0};
    bool inside = false;

    HV_RACE("rwlock.read.refused");
    leave(lock, READER + READING);
    wait.waiters = hv_load_relaxed(&lock->entered.waiters) + 1;
    while (!inside && spins-- > 0) {
        __builtin_ia32_pause();
        inside = enter_if_free(lock);
    }
    if (!inside) {
        wait.parked = park_reader(lock, start);
    }
    wait.span_ns = hv_clock_host_now().v - start.v;
    if (HV_CONFIG_LOCK_PROFILE) {
        hv_lock_note_wait(&lock->writers.head, &lock->readers, &wait);
    }
}

static HV_COLD void read_sampled(struct hv_rwlock *lock)
{
    uint64_t before = hv_cycles_now();

    if (!enter(lock)) {
        read_slow(lock);
        before = 0;
    }
    hv_lock_sample_begin(&lock->writers.head, &lock->readers, before);
}

HV_NO_TSA void hv_rwlock_take_read(struct hv_rwlock *lock)
{
    if (HV_CONFIG_RANKS) {
        hv_lock_check_take(&lock->writers.head);
    }
    if (hv_lock_sample_due()) {
        read_sampled(lock);
    } else if (HV_UNLIKELY(!enter(lock))) {
        read_slow(lock);
    }
    if (HV_CONFIG_RANKS) {
        hv_lock_note_shared(&lock->writers.head);
    }
}

static HV_COLD void drop_read_sampled(struct hv_rwlock *lock)
{
    struct hv_lock_sample sample;

    hv_lock_sample_end(&lock->writers.head, &lock->readers, &sample);
    leave(lock, READER);
    hv_lock_sample_book(&sample);
}

HV_NO_TSA void hv_rwlock_drop_read(struct hv_rwlock *lock)
{
    if (HV_CONFIG_RANKS) {
        hv_lock_note_unshared(&lock->writers.head);
    }
    if (hv_lock_sampled(&lock->readers)) {
        drop_read_sampled(lock);
    } else {
        leave(lock, READER);
    }
}

/* ---- writing ---- */

/* Readers that have waited for long go first. None waits who is not let in while the bit is clear,
 * so that this ends when those there are have run. */
static void let_readers_in(struct hv_rwlock *lock)
{
    while (hv_load_seq(&lock->impatient) > 0) {
        uint32_t ticket = hv_eventcount_listen(&lock->turn);

        if (hv_load_seq(&lock->impatient) == 0) {
            hv_eventcount_cancel(&lock->turn);
            return;
        }
        HV_RACE("rwlock.write.lets-in");
        hv_eventcount_wait(&lock->turn, ticket, HV_NS_NEVER);
    }
}

static bool drained(const struct hv_rwlock *lock)
{
    return (hv_load_seq(&lock->state) & READERS) == 0;
}

/* Returns how often it slept. */
static unsigned await_drained(struct hv_rwlock *lock)
{
    unsigned parked = 0;

    for (uint32_t spins = hv_lock_spin_rounds(); spins > 0; spins--) {
        if (drained(lock)) {
            return 0;
        }
        __builtin_ia32_pause();
    }
    for (;;) {
        uint32_t ticket = hv_eventcount_listen(&lock->turn);

        if (drained(lock)) {
            hv_eventcount_cancel(&lock->turn);
            return parked;
        }
        parked++;
        HV_RACE("rwlock.write.sleeps");
        hv_eventcount_wait(&lock->turn, ticket, HV_NS_NEVER);
    }
}

/* Some reader is inside, or has waited for long. */
static HV_COLD void write_slow(struct hv_rwlock *lock)
{
    uint64_t start = hv_clock_host_now().v;
    struct hv_lock_wait wait = {.waiters = 1};

    if (!(hv_load_relaxed(&lock->state) & WRITER)) {
        let_readers_in(lock);
        hv_or_seq(&lock->state, WRITER);
    }
    HV_RACE("rwlock.write.announced");
    wait.parked = await_drained(lock);
    wait.span_ns = hv_clock_host_now().v - start;
    if (HV_CONFIG_LOCK_PROFILE) {
        hv_lock_note_wait(&lock->writers.head, &lock->writers.head.side, &wait);
    }
}

/* Returns whether it did so without waiting. */
static inline bool write_unchecked(struct hv_rwlock *lock)
{
    bool free = hv_lock_take_free(&lock->writers);

    if (HV_UNLIKELY(!free)) {
        hv_lock_take_slow(&lock->writers);
    }
    if (HV_UNLIKELY(hv_load_seq(&lock->impatient) > 0) ||
        HV_UNLIKELY((hv_or_seq(&lock->state, WRITER) & READERS) != 0)) {
        write_slow(lock);
        return false;
    }
    return free;
}

static HV_COLD void write_sampled(struct hv_rwlock *lock)
{
    uint64_t before = hv_cycles_now();
    bool free = write_unchecked(lock);

    hv_lock_sample_begin(&lock->writers.head, &lock->writers.head.side, free ? before : 0);
}

HV_NO_TSA void hv_rwlock_take_write(struct hv_rwlock *lock)
{
    if (HV_CONFIG_RANKS) {
        hv_lock_check_take(&lock->writers.head);
    }
    if (hv_lock_sample_due()) {
        write_sampled(lock);
    } else {
        write_unchecked(lock);
    }
    hv_lock_note_acquired(&lock->writers);
}

HV_NO_TSA void hv_rwlock_drop_write(struct hv_rwlock *lock)
{
    HV_ASSERT(hv_load_relaxed(&lock->state) & WRITER);
    hv_and_seq(&lock->state, ~WRITER);
    HV_RACE("rwlock.write.left");
    hv_eventcount_signal(&lock->entered);
    hv_lock_drop(&lock->writers);
}

/* ---- claims ---- */

HV_NO_TSA void hv_rwlock_assert_read(const struct hv_rwlock *lock)
{
    if (HV_CONFIG_RANKS) {
        hv_lock_check_shared(&lock->writers.head);
    }
}

HV_NO_TSA void hv_rwlock_assert_write(const struct hv_rwlock *lock)
{
    hv_lock_assert_held(&lock->writers);
}

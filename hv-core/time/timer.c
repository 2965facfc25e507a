/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Timer queues: see timer.h for states and invariants.
 *
 * The heap has four children a node: half the levels of a binary one, and the four lie side by
 * side. Room is reserved when a timer is made, so that arming, which happens in callbacks and under
 * locks, allocates nothing.
 *
 * `running` stands from before the lock is dropped for a callback until after it has returned; a
 * timer that is running may be armed (by itself, mostly), disarmed, killed and rehomed, but its
 * memory and its place are left alone until then: kill waits, and a move to another queue is put
 * off (`rehome_to`).
 */
#include "time/timer.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "sync/futex.h"
#include "sync/race.h"

#define HEAP_CHILDREN  4u
#define FIRST_CAPACITY 16u
#define NOT_IN_HEAP    SIZE_MAX
#define EVERYBODY      (UINT32_MAX >> 1)

/* ---- the heap ---- */

static void heap_set(struct hv_timer_queue *queue, size_t index, struct hv_timer *timer)
{
    queue->heap[index] = timer;
    timer->heap_index = index;
}

static void heap_up(struct hv_timer_queue *queue, size_t index, struct hv_timer *timer)
{
    while (index > 0) {
        size_t parent = (index - 1) / HEAP_CHILDREN;

        if (!hv_ns_before(timer->deadline, queue->heap[parent]->deadline)) {
            break;
        }
        heap_set(queue, index, queue->heap[parent]);
        index = parent;
    }
    heap_set(queue, index, timer);
}

static void heap_down(struct hv_timer_queue *queue, size_t index, struct hv_timer *timer)
{
    for (;;) {
        size_t first = index * HEAP_CHILDREN + 1;
        size_t least = first;

        if (first >= queue->count) {
            break;
        }
        for (size_t i = first + 1; i < queue->count && i < first + HEAP_CHILDREN; i++) {
            if (hv_ns_before(queue->heap[i]->deadline, queue->heap[least]->deadline)) {
                least = i;
            }
        }
        if (!hv_ns_before(queue->heap[least]->deadline, timer->deadline)) {
            break;
        }
        heap_set(queue, index, queue->heap[least]);
        index = least;
    }
    heap_set(queue, index, timer);
}

/* Put @timer where its deadline belongs, starting at a free or its own place. */
static void heap_place(struct hv_timer_queue *queue, size_t index, struct hv_timer *timer)
{
    heap_up(queue, index, timer);
    heap_down(queue, timer->heap_index, timer);
}

static void heap_remove(struct hv_timer_queue *queue, struct hv_timer *timer)
{
    size_t index = timer->heap_index;
    struct hv_timer *last = queue->heap[--queue->count];

    timer->heap_index = NOT_IN_HEAP;
    if (last != timer) {
        heap_place(queue, index, last);
    }
}

static bool is_armed(const struct hv_timer *timer)
{
    return timer->heap_index != NOT_IN_HEAP;
}

/* ---- the queue ---- */

/* Say what the earliest deadline is now, and ring when it is sooner than the worker knows. */
static void publish_next_locked(struct hv_timer_queue *queue)
{
    uint64_t next = queue->count > 0 ? queue->heap[0]->deadline.v : UINT64_MAX;
    uint64_t known = hv_load_relaxed(&queue->next_ns);

    if (next == known) {
        return;
    }
    /* Pairs with hv_timer_queue_next(), and before the ring: who is rung finds it. */
    hv_store_seq(&queue->next_ns, next);
    if (next < known && queue->bell) {
        hv_doorbell_ring(queue->bell, HV_REQUEST_TIMER);
    }
}

/* One more timer will be able to be armed here. */
static int reserve(struct hv_timer_queue *queue)
{
    for (;;) {
        struct hv_timer **bigger;
        struct hv_timer **unused;
        size_t capacity;

        hv_lock_take(&queue->lock);
        capacity = queue->capacity;
        if (queue->reserved < capacity) {
            queue->reserved++;
            hv_lock_drop(&queue->lock);
            return 0;
        }
        hv_lock_drop(&queue->lock);

        /* The allocator may block: not under the lock, and so look again after. */
        bigger = hv_alloc(capacity * 2, sizeof(struct hv_timer *));
        if (!bigger) {
            return -ENOMEM;
        }
        unused = bigger;
        hv_lock_take(&queue->lock);
        if (queue->capacity == capacity) {
            memcpy(bigger, queue->heap, queue->count * sizeof(struct hv_timer *));
            unused = queue->heap;
            queue->heap = bigger;
            queue->capacity = capacity * 2;
        }
        hv_lock_drop(&queue->lock);
        hv_free(unused);
    }
}

static void unreserve(struct hv_timer_queue *queue)
{
    hv_lock_take(&queue->lock);
    queue->reserved--;
    hv_lock_drop(&queue->lock);
}

int hv_timer_queue_init(struct hv_timer_queue *queue, const struct hv_clock *clock,
                        struct hv_doorbell *bell, unsigned index)
{
    struct hv_timer **heap = hv_alloc(FIRST_CAPACITY, sizeof(struct hv_timer *));

    if (!heap) {
        return -ENOMEM;
    }
    *queue = (struct hv_timer_queue){
        .clock = clock,
        .bell = bell,
        .heap = heap,
        .capacity = FIRST_CAPACITY,
        .next_ns = UINT64_MAX,
    };
    hv_lock_init(&queue->lock, HV_RANK_TIMER_BASE, "timer.queue", index);
    return 0;
}

void hv_timer_queue_finish(struct hv_timer_queue *queue)
{
    HV_BUG_ON(queue->reserved > 0);
    hv_lock_finish(&queue->lock);
    hv_free(queue->heap);
    queue->heap = NULL;
}

/* ---- timers ---- */

int hv_timer_init(struct hv_timer *timer, struct hv_timer_queue *queue, hv_timer_callback *callback,
                  void *context, enum hv_rank lowest_rank)
{
    int error = reserve(queue);

    *timer = (struct hv_timer){
        .deadline = HV_NS_NEVER,
        .heap_index = NOT_IN_HEAP,
        .callback = callback,
        .context = context,
        .lowest_rank = (uint16_t)lowest_rank,
    };
    if (error == 0) {
        hv_store_release(&timer->queue, queue);
    }
    return error;
}

/* Lock the queue that the timer belongs to. It may move while we wait: then to the next. */
HV_NO_TSA static struct hv_timer_queue *lock_home(struct hv_timer *timer)
{
    for (;;) {
        struct hv_timer_queue *queue = hv_load_acquire(&timer->queue);

        HV_RACE("timer.home.read");
        hv_lock_take(&queue->lock);
        if (hv_load_relaxed(&timer->queue) == queue) {
            return queue;
        }
        hv_lock_drop(&queue->lock);
    }
}

static void disarm_locked(struct hv_timer_queue *queue, struct hv_timer *timer)
{
    hv_lock_assert_held(&queue->lock);
    timer->deadline = HV_NS_NEVER;
    if (is_armed(timer)) {
        heap_remove(queue, timer);
        publish_next_locked(queue);
    }
}

HV_NO_TSA void hv_timer_arm(struct hv_timer *timer, hv_ns deadline)
{
    struct hv_timer_queue *queue = lock_home(timer);

    if (timer->killed || deadline.v == HV_NS_NEVER.v) {
        disarm_locked(queue, timer);
    } else {
        timer->deadline = deadline;
        heap_place(queue, is_armed(timer) ? timer->heap_index : queue->count++, timer);
        publish_next_locked(queue);
    }
    hv_lock_drop(&queue->lock);
}

HV_NO_TSA void hv_timer_disarm(struct hv_timer *timer)
{
    struct hv_timer_queue *queue = lock_home(timer);

    disarm_locked(queue, timer);
    hv_lock_drop(&queue->lock);
}

HV_NO_TSA void hv_timer_kill(struct hv_timer *timer)
{
    struct hv_timer_queue *queue;

    hv_lock_check_wait((enum hv_rank)timer->lowest_rank, "a timer's callback");
    queue = lock_home(timer);
    timer->killed = true;
    disarm_locked(queue, timer);
    HV_ASSERT(queue->running != timer || queue->runner != hv_thread_id());
    queue->waiting++;
    while (queue->running == timer) {
        uint32_t since = hv_load_seq(&queue->generation);

        hv_lock_drop(&queue->lock);
        HV_RACE("timer.kill.waits");
        hv_futex_wait(&queue->generation, since, HV_NS_NEVER);
        hv_lock_take(&queue->lock);
    }
    queue->waiting--;
    hv_lock_drop(&queue->lock);
}

HV_NO_TSA void hv_timer_revive(struct hv_timer *timer)
{
    struct hv_timer_queue *queue = lock_home(timer);

    timer->killed = false;
    hv_lock_drop(&queue->lock);
}

HV_NO_TSA bool hv_timer_armed(struct hv_timer *timer)
{
    struct hv_timer_queue *queue = lock_home(timer);
    bool armed = is_armed(timer);

    hv_lock_drop(&queue->lock);
    return armed;
}

void hv_timer_finish(struct hv_timer *timer)
{
    /* Never made, or making it failed. */
    if (!hv_load_relaxed(&timer->queue)) {
        return;
    }
    hv_timer_kill(timer);
    unreserve(hv_load_acquire(&timer->queue));
    hv_store_relaxed(&timer->queue, NULL);
}

/* ---- moving ---- */

/* Both queues are locked, @to has reserved room. */
static void move_locked(struct hv_timer *timer, struct hv_timer_queue *from,
                        struct hv_timer_queue *to)
{
    hv_lock_assert_held(&from->lock);
    hv_lock_assert_held(&to->lock);
    if (is_armed(timer)) {
        heap_remove(from, timer);
        publish_next_locked(from);
        heap_place(to, to->count++, timer);
        publish_next_locked(to);
    }
    from->reserved--;
    /* The last thing: from now on others lock `to` for it. Pairs with lock_home(). */
    hv_store_release(&timer->queue, to);
}

/*
 * One look at where the timer is: true when it has moved, or will, or stays. @unneeded_out gets the
 * queue whose reserved room is not needed after all.
 */
HV_NO_TSA static bool try_rehome(struct hv_timer *timer, struct hv_timer_queue *to,
                                 struct hv_timer_queue **unneeded_out)
{
    struct hv_timer_queue *from = hv_load_acquire(&timer->queue);
    bool same;

    if (from == to) {
        hv_lock_take(&to->lock);
    } else {
        hv_lock_take_pair(&from->lock, &to->lock);
    }
    same = hv_load_relaxed(&timer->queue) == from;
    if (same && from == to) {
        /* At home already: one room of ours is too many, and so is one at an unfinished move's. */
        to->reserved--;
        *unneeded_out = timer->rehome_to;
        timer->rehome_to = NULL;
    } else if (same && from->running == timer) {
        *unneeded_out = timer->rehome_to;
        timer->rehome_to = to;
    } else if (same) {
        move_locked(timer, from, to);
    }
    hv_lock_drop(&to->lock);
    if (from != to) {
        hv_lock_drop(&from->lock);
    }
    return same;
}

int hv_timer_rehome(struct hv_timer *timer, struct hv_timer_queue *to)
{
    struct hv_timer_queue *unneeded = NULL;
    int error = reserve(to);

    if (error < 0) {
        return error;
    }
    while (!try_rehome(timer, to, &unneeded)) {
        /* It moved under our hands: look again. */
    }
    if (unneeded) {
        unreserve(unneeded);
    }
    return 0;
}

/* A callback has returned: make the move that was asked for meanwhile. Keeps the queue locked. */
HV_NO_TSA static void finish_rehome_locked(struct hv_timer_queue *queue, struct hv_timer *timer)
{
    struct hv_timer_queue *to;

    while ((to = timer->rehome_to)) {
        /* The pair is taken in its own order, so ours must go first. The timer stays `running`. */
        hv_lock_drop(&queue->lock);
        HV_RACE("timer.run.moves");
        hv_lock_take_pair(&queue->lock, &to->lock);
        if (timer->rehome_to == to) {
            timer->rehome_to = NULL;
            move_locked(timer, queue, to);
            hv_lock_drop(&to->lock);
            return;
        }
        hv_lock_drop(&to->lock);
    }
}

/* ---- running ---- */

/* Take the earliest if it is due, marked as running; else NULL. */
static struct hv_timer *take_due_locked(struct hv_timer_queue *queue, hv_ns now)
{
    struct hv_timer *timer;

    if (queue->count == 0 || hv_ns_before(now, queue->heap[0]->deadline)) {
        return NULL;
    }
    timer = queue->heap[0];
    heap_remove(queue, timer);
    publish_next_locked(queue);
    queue->running = timer;
    queue->runner = hv_thread_id();
    return timer;
}

unsigned hv_timer_queue_run(struct hv_timer_queue *queue, hv_ns now)
{
    struct hv_timer *timer;
    unsigned count = 0;
    size_t limit;

    hv_lock_check_none("a timer's callback");
    /* Nearly always nothing is due, and no lock is worth taking to learn that. */
    if (hv_ns_before(now, hv_timer_queue_next(queue))) {
        return 0;
    }
    hv_lock_take(&queue->lock);
    limit = queue->count;
    while (count < limit && (timer = take_due_locked(queue, now))) {
        bool waited;

        hv_lock_drop(&queue->lock);
        HV_RACE("timer.run.popped");
        timer->callback(timer, timer->context);
        HV_RACE("timer.run.returned");
        count++;
        hv_lock_take(&queue->lock);
        finish_rehome_locked(queue, timer);
        /* From here on the timer may be gone. */
        queue->running = NULL;
        hv_add_seq(&queue->generation, 1);
        waited = queue->waiting > 0;
        if (waited) {
            hv_lock_drop(&queue->lock);
            hv_futex_wake(&queue->generation, EVERYBODY);
            hv_lock_take(&queue->lock);
        }
    }
    hv_lock_drop(&queue->lock);
    return count;
}

void hv_timer_queue_check(struct hv_timer_queue *queue)
{
    hv_lock_take(&queue->lock);
    HV_BUG_ON(queue->count > queue->reserved);
    HV_BUG_ON(queue->reserved > queue->capacity);
    for (size_t i = 0; i < queue->count; i++) {
        const struct hv_timer *timer = queue->heap[i];

        HV_BUG_ON(timer->heap_index != i);
        HV_BUG_ON(hv_load_relaxed(&timer->queue) != queue);
        HV_BUG_ON(timer->killed);
        HV_BUG_ON(i > 0 &&
                  hv_ns_before(timer->deadline, queue->heap[(i - 1) / HEAP_CHILDREN]->deadline));
    }
    HV_BUG_ON(hv_timer_queue_next(queue).v !=
              (queue->count > 0 ? queue->heap[0]->deadline.v : UINT64_MAX));
    hv_lock_drop(&queue->lock);
}

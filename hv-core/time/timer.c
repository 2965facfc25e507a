/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Timer queues: see timer.h for states and invariants.
 *
 * What is armed stands in a pairing heap: a tree whose parents are due before their children, linked
 * through the timers themselves. So a queue needs no memory of its own: arming, which happens in
 * callbacks and under locks, cannot fail, and neither can a timer's move to another worker. Arming
 * costs one comparison, taking the earliest out or moving a deadline O(log n) amortized.
 * Source: M. Fredman, R. Sedgewick, D. Sleator, R. Tarjan, "The pairing heap: a new form of
 * self-adjusting heap", Algorithmica 1 (1986).
 *
 * `running` stands from before the lock is dropped for a callback until after it has returned; a
 * timer that is running may be armed (by itself, mostly), disarmed, killed and rehomed, but its
 * memory and its place are left alone until then: kill waits, and a move to another queue is put
 * off (`rehome_to`).
 */
#include "time/timer.h"

#include "base/assert.h"
#include "sync/futex.h"
#include "sync/race.h"

#define EVERYBODY (UINT32_MAX >> 1)

/* ---- the heap ---- */

/* The later of two roots becomes the first child of the other. Returns that. */
static struct hv_timer *heap_meld(struct hv_timer *a, struct hv_timer *b)
{
    struct hv_timer *top = hv_ns_before(b->deadline, a->deadline) ? b : a;
    struct hv_timer *under = top == a ? b : a;

    under->before = top;
    under->after = top->first;
    if (top->first) {
        top->first->before = under;
    }
    top->first = under;
    return top;
}

/*
 * One heap of the siblings from @first on, whose parent has gone; NULL of none. Two passes: in pairs
 * from left to right, and these from right to left, which is what makes it logarithmic.
 */
static struct hv_timer *heap_gather(struct hv_timer *first)
{
    struct hv_timer *pairs = NULL;
    struct hv_timer *root = NULL;

    while (first) {
        struct hv_timer *next = first->after;
        struct hv_timer *after = next ? next->after : NULL;
        struct hv_timer *pair = next ? heap_meld(first, next) : first;

        pair->after = pairs;
        pairs = pair;
        first = after;
    }
    while (pairs) {
        struct hv_timer *next = pairs->after;

        root = root ? heap_meld(root, pairs) : pairs;
        pairs = next;
    }
    if (root) {
        root->before = NULL;
        root->after = NULL;
    }
    return root;
}

static void heap_add(struct hv_timer_queue *queue, struct hv_timer *timer)
{
    timer->armed = true;
    queue->count++;
    queue->earliest = queue->earliest ? heap_meld(queue->earliest, timer) : timer;
}

static void heap_remove(struct hv_timer_queue *queue, struct hv_timer *timer)
{
    struct hv_timer *children = heap_gather(timer->first);

    if (timer == queue->earliest) {
        queue->earliest = children;
    } else {
        struct hv_timer **link =
            timer->before->first == timer ? &timer->before->first : &timer->before->after;

        *link = timer->after;
        if (timer->after) {
            timer->after->before = timer->before;
        }
        if (children) {
            queue->earliest = heap_meld(queue->earliest, children);
        }
    }
    timer->first = timer->before = timer->after = NULL;
    timer->armed = false;
    queue->count--;
}

/* ---- the queue ---- */

static uint64_t earliest_ns(const struct hv_timer_queue *queue)
{
    return queue->earliest ? queue->earliest->deadline.v : UINT64_MAX;
}

/* Say what the earliest deadline is now, and ring when it is sooner than the worker knows. */
static void publish_next_locked(struct hv_timer_queue *queue)
{
    uint64_t next = earliest_ns(queue);
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

void hv_timer_queue_init(struct hv_timer_queue *queue, const struct hv_clock *clock,
                         struct hv_doorbell *bell, unsigned index)
{
    *queue = (struct hv_timer_queue){
        .clock = clock,
        .bell = bell,
        .next_ns = UINT64_MAX,
    };
    hv_lock_init(&queue->lock, HV_RANK_TIMER_BASE, "timer.queue", index);
}

void hv_timer_queue_finish(struct hv_timer_queue *queue)
{
    HV_BUG_ON(queue->owned > 0);
    hv_lock_finish(&queue->lock);
}

/* ---- timers ---- */

void hv_timer_init(struct hv_timer *timer, struct hv_timer_queue *queue,
                   hv_timer_callback *callback, void *context, enum hv_rank lowest_rank)
{
    *timer = (struct hv_timer){
        .deadline = HV_NS_NEVER,
        .callback = callback,
        .context = context,
        .lowest_rank = (uint16_t)lowest_rank,
    };
    hv_lock_take(&queue->lock);
    queue->owned++;
    hv_lock_drop(&queue->lock);
    hv_store_release(&timer->queue, queue);
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
    if (timer->armed) {
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
        if (timer->armed) {
            heap_remove(queue, timer);
        }
        timer->deadline = deadline;
        heap_add(queue, timer);
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
    bool armed = timer->armed;

    hv_lock_drop(&queue->lock);
    return armed;
}

HV_NO_TSA void hv_timer_finish(struct hv_timer *timer)
{
    struct hv_timer_queue *queue;

    if (!hv_load_relaxed(&timer->queue)) {
        return; /* never made */
    }
    hv_timer_kill(timer);
    queue = lock_home(timer);
    queue->owned--;
    hv_store_relaxed(&timer->queue, NULL);
    hv_lock_drop(&queue->lock);
}

/* ---- moving ---- */

/* Both queues are locked. */
static void move_locked(struct hv_timer *timer, struct hv_timer_queue *from,
                        struct hv_timer_queue *to)
{
    hv_lock_assert_held(&from->lock);
    hv_lock_assert_held(&to->lock);
    if (timer->armed) {
        heap_remove(from, timer);
        publish_next_locked(from);
        heap_add(to, timer);
        publish_next_locked(to);
    }
    from->owned--;
    to->owned++;
    /* The last thing: from now on others lock `to` for it. Pairs with lock_home(). */
    hv_store_release(&timer->queue, to);
}

/* One look at where the timer is: true when it has moved, or will, or stays. */
HV_NO_TSA static bool try_rehome(struct hv_timer *timer, struct hv_timer_queue *to)
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
        timer->rehome_to = NULL; /* at home already: a move that was put off is off */
    } else if (same && from->running == timer) {
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

void hv_timer_rehome(struct hv_timer *timer, struct hv_timer_queue *to)
{
    while (!try_rehome(timer, to)) {
        /* It moved under our hands: look again. */
    }
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

    if (!queue->earliest || hv_ns_before(now, queue->earliest->deadline)) {
        return NULL;
    }
    timer = queue->earliest;
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

/* The next of @timer in a walk over the whole heap, parents first; NULL after the last. */
static const struct hv_timer *heap_next(const struct hv_timer *timer)
{
    if (timer->first) {
        return timer->first;
    }
    while (timer && !timer->after) {
        while (timer->before && timer->before->first != timer) {
            timer = timer->before; /* back to its first sibling */
        }
        timer = timer->before;
    }
    return timer ? timer->after : NULL;
}

void hv_timer_queue_check(struct hv_timer_queue *queue)
{
    size_t count = 0;

    hv_lock_take(&queue->lock);
    HV_BUG_ON(queue->count > queue->owned);
    HV_BUG_ON(queue->earliest && (queue->earliest->before || queue->earliest->after));
    for (const struct hv_timer *timer = queue->earliest; timer; timer = heap_next(timer)) {
        HV_BUG_ON(++count > queue->count);
        HV_BUG_ON(!timer->armed || timer->killed);
        HV_BUG_ON(hv_load_relaxed(&timer->queue) != queue);
        HV_BUG_ON(timer->after && timer->after->before != timer);
        for (const struct hv_timer *child = timer->first; child; child = child->after) {
            HV_BUG_ON(hv_ns_before(child->deadline, timer->deadline));
        }
        HV_BUG_ON(timer->first && timer->first->before != timer);
    }
    HV_BUG_ON(count != queue->count);
    HV_BUG_ON(hv_timer_queue_next(queue).v != earliest_ns(queue));
    hv_lock_drop(&queue->lock);
}

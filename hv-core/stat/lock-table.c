/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Rows of lock figures: choosing them, reading them, naming them. See lock-table.h. */
#include "stat/lock-table.h"

#include "stat/lock-mark.h"

#include <string.h>

/* What a class says, kept for the length of one reading: locks without histograms share it. */
struct classes {
    struct {
        bool known;
        struct hv_lock_quantiles span[HV_LOCK_SPANS];
    } side[HV_LOCK_CLASSES][2];
};

static struct hv_lock_quantiles quantiles(const struct hv_histogram *histogram)
{
    return (struct hv_lock_quantiles){
        .p50 = hv_histogram_quantile(histogram, 500000),
        .p99 = hv_histogram_quantile(histogram, 990000),
        .max = hv_load_relaxed(&histogram->max_ns),
        .count = hv_histogram_count(histogram),
    };
}

/* As above, of what came after @before, which may be NULL. */
static struct hv_lock_quantiles quantiles_since(const struct hv_histogram *histogram,
                                                const struct hv_histogram *before)
{
    struct hv_histogram since;

    if (!before) {
        return quantiles(histogram);
    }
    memset(&since, 0, sizeof(since));
    hv_histogram_merge(&since, histogram);
    hv_histogram_subtract(&since, before);
    return quantiles(&since);
}

/* What the side's class says. */
static const struct hv_lock_quantiles *class_quantiles(struct classes *classes,
                                                       const struct hv_lock_mark *mark,
                                                       const struct hv_lock_cursor *at)
{
    bool readers = at->side->kind == HV_LOCK_KIND_READ;
    struct hv_histogram sum;

    if (!classes->side[at->head->class_index][readers].known) {
        for (unsigned span = 0; span < HV_LOCK_SPANS; span++) {
            memset(&sum, 0, sizeof(sum));
            hv_lock_class_sum(at->head, at->side, span, &sum);
            classes->side[at->head->class_index][readers].span[span] =
                quantiles_since(&sum, hv_lock_mark_class(mark, at->head, at->side, span));
        }
        classes->side[at->head->class_index][readers].known = true;
    }
    return classes->side[at->head->class_index][readers].span;
}

/* Fewer samples say nothing of a median. */
#define SAMPLES_LEAST 16u

/* What a taking costs that does not wait; 0 when too few were timed. */
static uint64_t taking_ns(struct classes *classes, const struct hv_lock_mark *mark,
                          const struct hv_lock_cursor *at)
{
    const struct hv_lock_detail *detail = hv_load_acquire(&at->side->detail);
    const struct hv_lock_detail *before = hv_lock_mark_find(mark, at->head, at->side).detail;
    struct hv_lock_quantiles acquire;

    acquire = detail ? quantiles_since(&detail->span[HV_LOCK_SPAN_ACQUIRE],
                                       before ? &before->span[HV_LOCK_SPAN_ACQUIRE] : NULL)
                     : class_quantiles(classes, mark, at)[HV_LOCK_SPAN_ACQUIRE];
    return acquire.count >= SAMPLES_LEAST ? acquire.p50 : 0;
}

/* What the cheapest taking costs, of what the cursor is to go through. */
static uint64_t least_taking_ns(struct classes *classes, const struct hv_lock_mark *mark,
                                struct hv_lock_cursor cursor,
                                bool (*next)(struct hv_lock_cursor *cursor))
{
    uint64_t least = UINT64_MAX;

    while (next(&cursor)) {
        uint64_t taking = taking_ns(classes, mark, &cursor);

        least = taking > 0 && taking < least ? taking : least;
    }
    return least;
}

/* See lock-table.h. */
static uint64_t lost_ns(uint64_t wait_ns, uint64_t acquired, uint64_t taking, uint64_t least)
{
    return wait_ns + (taking > least ? acquired * (taking - least) : 0);
}

static void read_detail(const struct hv_lock_detail *detail, const struct hv_lock_detail *before,
                        struct hv_lock_row *row)
{
    for (unsigned i = 0; i < HV_LOCK_SPANS; i++) {
        row->span[i] = quantiles_since(&detail->span[i], before ? &before->span[i] : NULL);
    }
    for (unsigned i = 0; i < HV_MAX_VCPUS; i++) {
        row->vcpu_wait_ns[i] = hv_load_relaxed(&detail->vcpu_wait_ns[i]) -
                               (before ? hv_load_relaxed(&before->vcpu_wait_ns[i]) : 0);
    }
}

static void read_row(struct classes *classes, const struct hv_lock_mark *mark,
                     const struct hv_lock_cursor *at, struct hv_lock_row *row)
{
    const struct hv_lock_counters *counters = &at->side->counters;
    const struct hv_lock_detail *detail = hv_load_acquire(&at->side->detail);
    struct hv_lock_marked since = hv_lock_mark_find(mark, at->head, at->side);

    *row = (struct hv_lock_row){
        .number = at->head->number,
        .class_name = at->head->name,
        .index = at->head->index,
        .rank = at->head->rank,
        .kind = at->side->kind,
        .acquired = hv_lock_side_acquired(at->side) - since.acquired,
        .contended = hv_load_relaxed(&counters->contended) - since.contended,
        .try_failed = hv_load_relaxed(&counters->try_failed) - since.try_failed,
        .parked = hv_load_relaxed(&counters->parked) - since.parked,
        .waiters_max = hv_load_relaxed(&counters->waiters_max),
        .wait_ns = hv_load_relaxed(&counters->wait_ns) - since.wait_ns,
    };
    memcpy(row->owner, at->owner->name, sizeof(row->owner));
    if (detail) {
        read_detail(detail, since.detail, row);
    } else {
        memcpy(row->span, class_quantiles(classes, mark, at), sizeof(row->span));
        /* Others of the class were waited for, not this one; or there was no room to say by whom. */
        row->span[HV_LOCK_SPAN_WAIT] = (struct hv_lock_quantiles){0};
    }
    if (!mark) {
        row->span[HV_LOCK_SPAN_WAIT].max = hv_load_relaxed(&counters->wait_max_ns);
    }
}

/* ---- the worst ---- */

struct choice {
    struct hv_lock_cursor at;
    uint64_t lost_ns, acquired;
};

static bool worse(const struct choice *a, const struct choice *b)
{
    return a->lost_ns != b->lost_ns ? a->lost_ns > b->lost_ns : a->acquired > b->acquired;
}

static struct choice weigh(struct classes *classes, const struct hv_lock_mark *mark,
                           const struct hv_lock_cursor *at, uint64_t least)
{
    const struct hv_lock_counters *counters = &at->side->counters;
    struct hv_lock_marked since = hv_lock_mark_find(mark, at->head, at->side);
    uint64_t acquired = hv_lock_side_acquired(at->side) - since.acquired;
    uint64_t wait_ns = hv_load_relaxed(&counters->wait_ns) - since.wait_ns;

    return (struct choice){
        .at = *at,
        .lost_ns = lost_ns(wait_ns, acquired, taking_ns(classes, mark, at), least),
        .acquired = acquired,
    };
}

/* Into its place among @count sorted ones, of which the last goes when there are @max already. */
static size_t insert(struct choice *choices, size_t count, size_t max, const struct choice *one)
{
    size_t at = count < max ? count : max - 1;

    if (count == max && !worse(one, &choices[at])) {
        return count;
    }
    while (at > 0 && worse(one, &choices[at - 1])) {
        choices[at] = choices[at - 1];
        at--;
    }
    choices[at] = *one;
    return count < max ? count + 1 : max;
}

size_t hv_lock_table_worst(const struct hv_lock_owner *owner, const struct hv_lock_mark *mark,
                           struct hv_lock_row *rows, size_t max)
{
    struct hv_lock_cursor cursor = {.owner = owner};
    struct choice choices[HV_LOCK_WORST_MAX];
    struct classes classes = {0};
    struct hv_lock_walk walk;
    uint64_t least;
    size_t count = 0;

    max = max < HV_LOCK_WORST_MAX ? max : HV_LOCK_WORST_MAX;
    hv_lock_walk_begin(&walk);
    least = least_taking_ns(&classes, mark, cursor, hv_lock_cursor_next_of_owner);
    while (max > 0 && hv_lock_cursor_next_of_owner(&cursor)) {
        const struct choice one = weigh(&classes, mark, &cursor, least);

        count = insert(choices, count, max, &one);
    }
    for (size_t i = 0; i < count; i++) {
        read_row(&classes, mark, &choices[i].at, &rows[i]);
        rows[i].lost_ns = choices[i].lost_ns;
    }
    hv_lock_walk_end(&walk);
    return count;
}

/* ---- all ---- */

void hv_lock_table_each(const struct hv_lock_mark *mark,
                        void (*visit)(void *context, const struct hv_lock_row *row), void *context)
{
    struct hv_lock_cursor cursor = {0};
    struct classes classes = {0};
    struct hv_lock_walk walk;
    struct hv_lock_row row;
    uint64_t least;

    hv_lock_walk_begin(&walk);
    least = least_taking_ns(&classes, mark, cursor, hv_lock_cursor_next);
    while (hv_lock_cursor_next(&cursor)) {
        read_row(&classes, mark, &cursor, &row);
        row.lost_ns = weigh(&classes, mark, &cursor, least).lost_ns;
        row.head = cursor.head;
        row.side = cursor.side;
        visit(context, &row);
    }
    hv_lock_walk_end(&walk);
}

void hv_lock_row_sum(const struct hv_lock_row *row, enum hv_lock_span span,
                     struct hv_histogram *sum)
{
    const struct hv_lock_detail *detail = hv_load_acquire(&row->side->detail);

    if (detail) {
        hv_histogram_merge(sum, &detail->span[span]);
    } else if (span != HV_LOCK_SPAN_WAIT) {
        hv_lock_class_sum(row->head, row->side, span, sum);
    }
}

/* ---- names ---- */

void hv_lock_row_add(struct hv_stat_list *list, size_t number, const struct hv_lock_row *row,
                     unsigned vcpus)
{
    static const char *const kinds[] = {
        [HV_LOCK_KIND_MUTEX] = "mutex",
        [HV_LOCK_KIND_WRITE] = "write",
        [HV_LOCK_KIND_READ] = "read",
    };
    const struct hv_lock_quantiles *wait = &row->span[HV_LOCK_SPAN_WAIT];
    const struct hv_lock_quantiles *hold = &row->span[HV_LOCK_SPAN_HOLD];
    const struct hv_lock_quantiles *acquire = &row->span[HV_LOCK_SPAN_ACQUIRE];

    hv_stat_add_text(list, row->class_name, "lock.%zu.class", number);
    hv_stat_add(list, row->index, "lock.%zu.instance", number);
    hv_stat_add(list, row->rank, "lock.%zu.rank", number);
    hv_stat_add_text(list, kinds[row->kind], "lock.%zu.kind", number);
    hv_stat_add(list, row->acquired, "lock.%zu.acquired", number);
    hv_stat_add(list, row->contended, "lock.%zu.contended", number);
    hv_stat_add(list, row->try_failed, "lock.%zu.try_failed", number);
    hv_stat_add(list, row->waiters_max, "lock.%zu.waiters_max", number);
    hv_stat_add(list, row->parked, "lock.%zu.parked", number);
    hv_stat_add(list, wait->p50, "lock.%zu.wait.p50", number);
    hv_stat_add(list, wait->p99, "lock.%zu.wait.p99", number);
    hv_stat_add(list, wait->max, "lock.%zu.wait.max", number);
    hv_stat_add(list, row->wait_ns, "lock.%zu.wait.total", number);
    hv_stat_add(list, row->lost_ns, "lock.%zu.lost", number);
    hv_stat_add(list, hold->p50, "lock.%zu.hold.p50", number);
    hv_stat_add(list, hold->p99, "lock.%zu.hold.p99", number);
    hv_stat_add(list, hold->max, "lock.%zu.hold.max", number);
    hv_stat_add(list, acquire->p50, "lock.%zu.acquire.p50", number);
    hv_stat_add(list, acquire->p99, "lock.%zu.acquire.p99", number);
    for (unsigned i = 0; i < vcpus; i++) {
        hv_stat_add(list, row->vcpu_wait_ns[i], "lock.%zu.vcpu.%u.wait", number, i);
    }
}

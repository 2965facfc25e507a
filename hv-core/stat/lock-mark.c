/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Marks: copies of what had been counted, by number of the lock.
 *
 * Room is made before the walk that fills it, since nothing is allocated in one. When locks, or
 * their histograms, became more in between, there is another turn with more room. A lock that is
 * made after the last walk is younger than the mark.
 */
#include "stat/lock-mark.h"

#include "base/alloc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CLASS_SPANS ((size_t)HV_LOCK_CLASSES * 2 * HV_LOCK_SPANS)

struct hv_lock_mark {
    size_t sides, details;         /* there is room for */
    size_t side_count;             /* of those used; sorted by number and kind */
    size_t detail_count;           /* may be more than there is room for: then all is void */
    struct hv_lock_marked *marked; /* owned, as are the next two */
    struct hv_lock_detail *detail;
    struct hv_histogram *classes; /* CLASS_SPANS of them */
};

/* ---- sides of locks, one after another ---- */

bool hv_lock_cursor_next_of_owner(struct hv_lock_cursor *cursor)
{
    if (cursor->side && cursor->side != cursor->head->readers && cursor->head->readers) {
        cursor->side = cursor->head->readers;
        return true;
    }
    cursor->head = hv_lock_walk_locks(cursor->owner, cursor->head);
    cursor->side = cursor->head ? &cursor->head->side : NULL;
    return cursor->head != NULL;
}

bool hv_lock_cursor_next(struct hv_lock_cursor *cursor)
{
    if (cursor->owner && hv_lock_cursor_next_of_owner(cursor)) {
        return true;
    }
    while ((cursor->owner = hv_lock_walk_owners(cursor->owner))) {
        if (hv_lock_cursor_next_of_owner(cursor)) {
            return true;
        }
    }
    return false;
}

/* ---- making one ---- */

static void copy_histogram(struct hv_histogram *to, const struct hv_histogram *from)
{
    memset(to, 0, sizeof(*to));
    hv_histogram_merge(to, from);
}

static void copy_detail(struct hv_lock_detail *to, const struct hv_lock_detail *from)
{
    for (unsigned i = 0; i < HV_MAX_VCPUS; i++) {
        hv_store_relaxed(&to->vcpu_wait_ns[i], hv_load_relaxed(&from->vcpu_wait_ns[i]));
    }
    for (unsigned i = 0; i < HV_LOCK_SPANS; i++) {
        copy_histogram(&to->span[i], &from->span[i]);
    }
}

static size_t class_at(const struct hv_lock_head *head, const struct hv_lock_side *side,
                       enum hv_lock_span span)
{
    bool readers = side->kind == HV_LOCK_KIND_READ;

    return ((size_t)head->class_index * 2 + readers) * HV_LOCK_SPANS + span;
}

/* Histograms first, counters after: of what is counted as old, all spans are old, too. */
static void keep(struct hv_lock_mark *mark, const struct hv_lock_cursor *at)
{
    const struct hv_lock_counters *counters = &at->side->counters;
    const struct hv_lock_detail *detail = hv_load_acquire(&at->side->detail);
    struct hv_lock_marked *marked = &mark->marked[mark->side_count];

    if (detail && mark->detail_count < mark->details) {
        copy_detail(&mark->detail[mark->detail_count], detail);
    }
    *marked = (struct hv_lock_marked){
        .number = at->head->number,
        .kind = at->side->kind,
        .acquired = hv_lock_side_acquired(at->side),
        .contended = hv_load_relaxed(&counters->contended),
        .try_failed = hv_load_relaxed(&counters->try_failed),
        .parked = hv_load_relaxed(&counters->parked),
        .wait_ns = hv_load_relaxed(&counters->wait_ns),
        .detail = detail ? &mark->detail[mark->detail_count] : NULL,
    };
    mark->detail_count += detail != NULL;
    for (unsigned span = 0; span < HV_LOCK_SPANS; span++) {
        struct hv_histogram *class = &mark->classes[class_at(at->head, at->side, span)];

        if (hv_histogram_count(class) == 0) {
            hv_lock_class_sum(at->head, at->side, span, class);
        }
    }
}

/* One walk: fill what there is room for, or, without any, count. */
static void fill(struct hv_lock_mark *mark)
{
    struct hv_lock_cursor cursor = {0};
    struct hv_lock_walk walk;

    hv_lock_walk_begin(&walk);
    while (hv_lock_cursor_next(&cursor)) {
        if (mark->side_count < mark->sides) {
            keep(mark, &cursor);
        } else {
            mark->detail_count += hv_load_relaxed(&cursor.side->detail) != NULL;
        }
        mark->side_count++;
    }
    hv_lock_walk_end(&walk);
}

static bool make_room(struct hv_lock_mark *mark)
{
    size_t sides = mark->side_count + 16;
    size_t details = mark->detail_count + 4;

    hv_free(mark->marked);
    hv_free(mark->detail);
    hv_free(mark->classes);
    *mark = (struct hv_lock_mark){
        .sides = sides,
        .details = details,
        .marked = hv_alloc(sides, sizeof(*mark->marked)),
        .detail = hv_alloc(details, sizeof(*mark->detail)),
        .classes = hv_alloc(CLASS_SPANS, sizeof(*mark->classes)),
    };
    return mark->marked && mark->detail && mark->classes;
}

static int by_number(const void *a, const void *b)
{
    const struct hv_lock_marked *left = a, *right = b;

    if (left->number != right->number) {
        return left->number < right->number ? -1 : 1;
    }
    return (int)left->kind - (int)right->kind;
}

int hv_lock_mark_create(struct hv_lock_mark **mark_out)
{
    struct hv_lock_mark *mark = hv_alloc(1, sizeof(*mark));
    bool room = mark != NULL;

    *mark_out = NULL;
    if (mark) {
        fill(mark);
    }
    while (room && (mark->side_count > mark->sides || mark->detail_count > mark->details ||
                    mark->sides == 0)) {
        room = make_room(mark);
        if (room) {
            fill(mark);
        }
    }
    if (!room) {
        hv_lock_mark_destroy(mark);
        return -ENOMEM;
    }
    qsort(mark->marked, mark->side_count, sizeof(mark->marked[0]), by_number);
    *mark_out = mark;
    return 0;
}

void hv_lock_mark_destroy(struct hv_lock_mark *mark)
{
    if (!mark) {
        return;
    }
    hv_free(mark->marked);
    hv_free(mark->detail);
    hv_free(mark->classes);
    hv_free(mark);
}

/* ---- asking it ---- */

struct hv_lock_marked hv_lock_mark_find(const struct hv_lock_mark *mark,
                                        const struct hv_lock_head *head,
                                        const struct hv_lock_side *side)
{
    const struct hv_lock_marked wanted = {.number = head->number, .kind = side->kind};
    const struct hv_lock_marked *found =
        mark ? bsearch(&wanted, mark->marked, mark->side_count, sizeof(wanted), by_number) : NULL;

    return found ? *found : wanted;
}

const struct hv_histogram *hv_lock_mark_class(const struct hv_lock_mark *mark,
                                              const struct hv_lock_head *head,
                                              const struct hv_lock_side *side,
                                              enum hv_lock_span span)
{
    return mark ? &mark->classes[class_at(head, side, span)] : NULL;
}

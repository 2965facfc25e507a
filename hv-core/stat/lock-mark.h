/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What a mark keeps of each lock, for the rows that count from there. See lock-table.h. */
#pragma once

#include "stat/lock-table.h"
#include "sync/lock-profile.h"

/* Of one side of a lock. */
struct hv_lock_marked {
    uint64_t number;
    enum hv_lock_kind kind;
    uint64_t acquired, contended, try_failed, parked, wait_ns;
    const struct hv_lock_detail *detail; /* a copy; NULL when it had none */
};

/** What @mark (may be NULL) has of the side; all zero when it is younger. */
struct hv_lock_marked hv_lock_mark_find(const struct hv_lock_mark *mark,
                                        const struct hv_lock_head *head,
                                        const struct hv_lock_side *side);

/** The spans of the side's class until the mark; NULL when there were none, or no mark. */
const struct hv_histogram *hv_lock_mark_class(const struct hv_lock_mark *mark,
                                              const struct hv_lock_head *head,
                                              const struct hv_lock_side *side,
                                              enum hv_lock_span span);

/** The sides of all locks, during a walk; @side NULL for the first. False after the last. */
struct hv_lock_cursor {
    const struct hv_lock_owner *owner;
    const struct hv_lock_head *head;
    const struct hv_lock_side *side;
};
bool hv_lock_cursor_next(struct hv_lock_cursor *cursor);
/** The same within the one owner that the cursor was given. */
bool hv_lock_cursor_next_of_owner(struct hv_lock_cursor *cursor);

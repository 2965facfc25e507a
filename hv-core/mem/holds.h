/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Who has pages of a memory mapped, told by name to who asks without a lock: a copy, kept with the
 * memory, of what the registry of mappers knows.
 *
 * Mappers of one name stand together. There is room for a few; when it is full, those that come
 * next stand together as the last, "others", and the sum of all is right.
 */
#pragma once

#include "sync/seqcount.h"

#include <hv/teardown.h>

#define HV_HOLDS_NAMED     8u
/* With the others. */
#define HV_HOLDS_MAX       (HV_HOLDS_NAMED + 1)

#define HV_HOLD_NAME_WORDS (sizeof(((struct hv_foreign_hold *)0)->mapper) / sizeof(uint64_t))

struct hv_hold {
    /* Atomic, consistent with each other by the count of the holds. */
    _Atomic uint64_t name[HV_HOLD_NAME_WORDS]; /* bytes in memory */
    _Atomic uint64_t frames;                   /* 0: the place is free */
};

/* Zero-initialised nobody holds anything. Written under the lock of the arena's holders. */
struct hv_holds {
    struct hv_seqcount sequence;
    struct hv_hold hold[HV_HOLDS_MAX];
};

/** @name, zero to its end, maps @frames more, or, negative, unmaps as many. One caller at a time. */
void hv_holds_add(struct hv_holds *holds, const char name[sizeof(uint64_t) * HV_HOLD_NAME_WORDS],
                  int64_t frames);

/**
 * Who holds pages, and how many. Takes no lock; any thread.
 *
 * Returns how many names there are, at most HV_HOLDS_MAX, for which there is room in @out.
 */
size_t hv_holds_read(const struct hv_holds *holds, struct hv_foreign_hold out[HV_HOLDS_MAX]);

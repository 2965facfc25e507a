/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Names and numbers under a sequence count: see holds.h. */
#include "mem/holds.h"

#include <string.h>

static uint64_t frames_of(const struct hv_hold *hold)
{
    return hv_load_relaxed(&hold->frames);
}

static bool is_named(const struct hv_hold *hold, const uint64_t *name)
{
    for (size_t i = 0; i < HV_HOLD_NAME_WORDS; i++) {
        if (hv_load_relaxed(&hold->name[i]) != name[i]) {
            return false;
        }
    }
    return frames_of(hold) > 0;
}

/* The place of that name; else a free one; else that of the others. */
static struct hv_hold *find(struct hv_holds *holds, const uint64_t *name)
{
    struct hv_hold *free = &holds->hold[HV_HOLDS_NAMED];

    for (unsigned i = HV_HOLDS_NAMED; i-- > 0;) {
        if (is_named(&holds->hold[i], name)) {
            return &holds->hold[i];
        }
        if (frames_of(&holds->hold[i]) == 0) {
            free = &holds->hold[i];
        }
    }
    return free;
}

void hv_holds_add(struct hv_holds *holds, const char name[sizeof(uint64_t) * HV_HOLD_NAME_WORDS],
                  int64_t frames)
{
    struct hv_hold *others = &holds->hold[HV_HOLDS_NAMED];
    uint64_t words[HV_HOLD_NAME_WORDS] = {0};
    struct hv_hold *hold;
    uint64_t before;

    memcpy(words, name, sizeof(words));
    hold = find(holds, words);
    before = frames_of(hold);
    hv_seqcount_write_begin(&holds->sequence);
    if (frames < 0 && before < (uint64_t)-frames) {
        /* It came when there was no room, and has found a place since: the rest is there. */
        hv_seqcount_store(&others->frames, frames_of(others) - ((uint64_t)-frames - before));
        hv_seqcount_store(&hold->frames, 0);
    } else {
        for (size_t i = 0; hold != others && i < HV_HOLD_NAME_WORDS; i++) {
            hv_seqcount_store(&hold->name[i], words[i]);
        }
        hv_seqcount_store(&hold->frames, before + (uint64_t)frames);
    }
    hv_seqcount_write_end(&holds->sequence);
}

static void copy_hold(const struct hv_hold *hold, struct hv_foreign_hold *out)
{
    uint64_t words[HV_HOLD_NAME_WORDS] = {0};

    for (size_t i = 0; i < HV_HOLD_NAME_WORDS; i++) {
        words[i] = hv_seqcount_load(&hold->name[i]);
    }
    memcpy(out->mapper, words, sizeof(words));
    out->mapper[sizeof(out->mapper) - 1] = '\0';
    out->frames = hv_seqcount_load(&hold->frames);
}

size_t hv_holds_read(const struct hv_holds *holds, struct hv_foreign_hold out[HV_HOLDS_MAX])
{
    uint32_t begun;
    size_t count;

    do {
        begun = hv_seqcount_read_begin(&holds->sequence);
        count = 0;
        for (unsigned i = 0; i < HV_HOLDS_MAX; i++) {
            copy_hold(&holds->hold[i], &out[count]);
            if (i == HV_HOLDS_NAMED) {
                memcpy(out[count].mapper, "others", sizeof("others"));
            }
            count += out[count].frames > 0;
        }
    } while (hv_seqcount_read_retry(&holds->sequence, begun));
    return count;
}

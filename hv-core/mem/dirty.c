/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The dirty log: two bitmaps by the parity of the epoch.
 *
 * Two kinds of writers. A vCPU notes a page when it fills a write translation and then stores as
 * often as it likes until it adopts the next epoch: a round waits for that. Everybody else notes
 * after the store, and a round waits until nobody is noting in the epoch that ended
 * (memory->noting). So after a round the ended epoch's bitmap is complete and nobody sets a bit in
 * it.
 */
#include "mem/dirty.h"

#include <errno.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/bits.h"
#include "mem/memory-private.h"
#include "sync/race.h"

struct hv_dirty_log {
    /* Set at creation. */
    uint64_t words;
    _Atomic uint64_t *bits[2]; /* by parity of the epoch */
};

static void log_destroy(struct hv_dirty_log *log)
{
    if (log) {
        hv_free(log->bits[0]);
        hv_free(log->bits[1]);
        hv_free(log);
    }
}

static struct hv_dirty_log *log_create(uint64_t frames)
{
    struct hv_dirty_log *log = hv_alloc(1, sizeof(*log));

    if (!log) {
        return NULL;
    }
    log->words = (frames + 63) / 64;
    log->bits[0] = hv_alloc(log->words, sizeof(*log->bits[0]));
    log->bits[1] = hv_alloc(log->words, sizeof(*log->bits[1]));
    if (!log->bits[0] || !log->bits[1]) {
        log_destroy(log);
        return NULL;
    }
    return log;
}

static void log_set(struct hv_dirty_log *log, unsigned side, hv_gfn gfn)
{
    _Atomic uint64_t *word = &log->bits[side][gfn.v / 64];
    uint64_t bit = HV_BIT(gfn.v % 64);

    /* Pairs with the clearing of hv_dirty_harvest(). Most pages are written more than once. */
    if (!(hv_load_seq(word) & bit)) {
        hv_or_seq(word, bit);
    }
}

/* Enter the present epoch as one who notes; returns its parity. */
static unsigned noting_enter(struct hv_memory *memory)
{
    for (;;) {
        uint64_t epoch = hv_load_seq(&memory->epoch);
        unsigned side = (unsigned)(epoch & 1);

        /* Pairs with await_noting(): counted, then the epoch is still the same. */
        hv_add_seq(&memory->noting[side], 1);
        if (hv_load_seq(&memory->epoch) == epoch) {
            return side;
        }
        if (hv_sub_seq(&memory->noting[side], 1) == 1) {
            hv_eventcount_signal(&memory->changed);
        }
    }
}

static void noting_leave(struct hv_memory *memory, unsigned side)
{
    if (hv_sub_seq(&memory->noting[side], 1) == 1) {
        hv_eventcount_signal(&memory->changed);
    }
}

static void await_noting(struct hv_memory *memory, unsigned side)
{
    for (;;) {
        uint32_t ticket = hv_eventcount_listen(&memory->changed);

        if (hv_load_seq(&memory->noting[side]) == 0) {
            hv_eventcount_cancel(&memory->changed);
            return;
        }
        hv_eventcount_wait(&memory->changed, ticket, HV_NS_NEVER);
    }
}

void hv_memory_note_write(struct hv_memory *memory, hv_gfn gfn)
{
    struct hv_dirty_log *log;
    unsigned side;

    if (!hv_load_seq(&memory->dirty_log)) {
        return;
    }
    side = noting_enter(memory);
    HV_RACE("dirty.note.entered");
    /* Again: hv_dirty_stop() waits for those inside before it frees. */
    log = hv_load_seq(&memory->dirty_log);
    if (log && gfn.v < memory->p2m.frames) {
        log_set(log, side, gfn);
    }
    noting_leave(memory, side);
}

/* An unpopulated page is zero at the other side already, and is noted when it is first written. */
static void log_set_populated(struct hv_memory *memory, struct hv_dirty_log *log, unsigned side)
{
    for (uint64_t gfn = 0; gfn < memory->p2m.frames; gfn++) {
        if (!hv_p2m_covers(&memory->p2m, (hv_gfn){gfn})) {
            gfn |= HV_EXTENT_FRAMES - 1;
        } else if (hv_leaf_has_frame(hv_p2m_lookup(&memory->p2m, (hv_gfn){gfn}))) {
            log_set(log, side, (hv_gfn){gfn});
        }
    }
}

int hv_dirty_start(struct hv_memory *memory)
{
    struct hv_dirty_log *log;

    if (hv_load_seq(&memory->dirty_log)) {
        return -EEXIST;
    }
    log = log_create(memory->p2m.frames);
    if (!log) {
        return -ENOMEM;
    }
    /* Published first: what is populated during the scan is noted by its writer. */
    hv_store_seq(&memory->dirty_log, log);
    log_set_populated(memory, log, (unsigned)(hv_load_seq(&memory->epoch) & 1));
    return 0;
}

int hv_dirty_round(struct hv_memory *memory)
{
    uint64_t ended;

    if (!hv_load_seq(&memory->dirty_log)) {
        return -EINVAL;
    }
    ended = hv_add_seq(&memory->epoch, 1);
    hv_holders_post(memory->holder, hv_memory_flush_mask(memory, NULL), HV_REQUEST_EPOCH);
    await_noting(memory, (unsigned)(ended & 1));
    return 0;
}

/* Move up to @max bits of one word to @gfns. */
static size_t take_bits(_Atomic uint64_t *word, uint64_t first, hv_gfn *gfns, size_t max)
{
    uint64_t bits = hv_load_seq(word);
    uint64_t taken = 0;
    size_t count = 0;

    for (; bits != 0 && count < max; bits &= bits - 1) {
        gfns[count++].v = first + (unsigned)__builtin_ctzll(bits);
        taken |= bits & -bits;
    }
    if (taken != 0) {
        /* Pairs with log_set(): cleared before the page is copied. */
        hv_and_seq(word, ~taken);
    }
    return count;
}

size_t hv_dirty_harvest(struct hv_memory *memory, uint64_t *cursor, hv_gfn *gfns, size_t max)
{
    struct hv_dirty_log *log = hv_load_seq(&memory->dirty_log);
    unsigned side = (unsigned)((hv_load_seq(&memory->epoch) - 1) & 1);
    size_t count = 0;

    while (log && *cursor / 64 < log->words && count < max) {
        uint64_t word = *cursor / 64;

        count += take_bits(&log->bits[side][word], word * 64, gfns + count, max - count);
        if (count < max) {
            *cursor = (word + 1) * 64;
        }
    }
    return count;
}

void hv_dirty_stop(struct hv_memory *memory)
{
    struct hv_dirty_log *log = hv_swap_seq(&memory->dirty_log, NULL);

    if (log) {
        await_noting(memory, 0);
        await_noting(memory, 1);
        log_destroy(log);
    }
}

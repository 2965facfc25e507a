/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Magazines: see magazine-private.h for the protocol of their word. */
#include "mem/magazine-private.h"

#include "base/assert.h"
#include "mem/heap-private.h"
#include "sync/race.h"

/* One heap a thread: a worker serves one core. */
static _Thread_local struct {
    const struct hv_heap *heap;
    struct hv_magazines *own;
} mine;

struct hv_magazines *hv_magazines_own(const struct hv_heap *heap)
{
    return mine.heap == heap ? mine.own : NULL;
}

/* Magazines that may have something in them, by a number that is halved to find the owner's two. */
static unsigned count_magazines(const struct hv_heap *heap)
{
    return hv_load_seq(&heap->magazine_owners) * 2;
}

static struct hv_magazine *nth_magazine(const struct hv_heap *heap, unsigned nth)
{
    return &heap->magazines[nth / 2].each[nth % 2];
}

/* Pushes come after this; a searcher that looked before misses as much as one that looked early. */
static void note_owner(struct hv_heap *heap, uint32_t index)
{
    uint32_t known = hv_load_seq(&heap->magazine_owners);

    while (known <= index && !hv_cas_weak_seq(&heap->magazine_owners, &known, index + 1)) {
    }
}

void hv_heap_attach_thread(struct hv_heap *heap)
{
    HV_ASSERT(!mine.heap);
    for (uint32_t i = 0; i < HV_MAGAZINE_OWNERS; i++) {
        struct hv_magazines *free_one = &heap->magazines[i];
        uint64_t nobody = 0;

        /* Pairs with hv_heap_detach_thread(): its last owner is done with it. */
        if (hv_cas_seq(&free_one->owner, &nobody, hv_thread_id())) {
            note_owner(heap, i);
            mine.heap = heap;
            mine.own = free_one;
            return;
        }
    }
}

/* ---- the owner's steps ---- */

static bool pop(struct hv_magazine *magazine, hv_mfn *mfn_out)
{
    uint32_t word = hv_load_seq(&magazine->word);
    uint32_t frame;

    do {
        uint32_t count = hv_magazine_count(word);

        if (count == 0 || (word & HV_MAGAZINE_TAKEN)) {
            return false;
        }
        frame = hv_load_relaxed(&magazine->frames[count - 1]);
        HV_RACE("magazine.pop.read");
    } while (!hv_cas_weak_seq(&magazine->word, &word, word - 1));
    mfn_out->v = frame;
    return true;
}

static bool push(struct hv_magazine *magazine, hv_mfn mfn)
{
    uint32_t word = hv_load_seq(&magazine->word);

    do {
        uint32_t count = hv_magazine_count(word);

        if (count == HV_MAGAZINE_FRAMES || (word & HV_MAGAZINE_TAKEN)) {
            return false;
        }
        hv_store_relaxed(&magazine->frames[count], (uint32_t)mfn.v);
        HV_RACE("magazine.push.written");
    } while (!hv_cas_weak_seq(&magazine->word, &word, word + 1 + HV_MAGAZINE_CREDIT_ONE));
    return true;
}

/* Into an empty one. */
static bool fill(struct hv_magazine *magazine, const struct hv_frame_batch *batch)
{
    uint32_t word = hv_load_seq(&magazine->word);

    /* Before the slots are written: of one that is TAKEN they are being read. */
    if (hv_magazine_count(word) != 0 || (word & HV_MAGAZINE_TAKEN)) {
        return false;
    }
    for (unsigned i = 0; i < batch->count; i++) {
        hv_store_relaxed(&magazine->frames[i], (uint32_t)batch->frames[i].v);
    }
    while (!hv_cas_weak_seq(&magazine->word, &word, word + batch->count)) {
        /* A taker who saw a frame there takes nothing now, but puts 0 when he is done. */
        if (word & HV_MAGAZINE_TAKEN) {
            return false;
        }
    }
    return true;
}

/* ---- anybody's ---- */

/* Credit leaves a word for heap->unclaimed, and is not seen in either. Before and after. */
static void begin_crediting(struct hv_heap *heap)
{
    hv_add_seq(&heap->crediting, 1);
}

static void end_crediting(struct hv_heap *heap)
{
    /* Pairs with hv_magazines_collect(). */
    hv_sub_seq(&heap->crediting, 1);
    hv_eventcount_signal(&heap->settled);
}

/* All frames of a magazine, which count as moving, and its credit. False when there are none, or
 * another thread is at it. */
static bool take(struct hv_heap *heap, struct hv_magazine *magazine, struct hv_frame_batch *batch,
                 uint32_t *credit_out)
{
    uint32_t word;

    if (hv_magazine_count(hv_load_seq(&magazine->word)) == 0) {
        return false;
    }
    /* Before: who finds it empty finds them moving, and its credit on its way. */
    hv_heap_hold(heap, HV_MAGAZINE_FRAMES);
    begin_crediting(heap);
    word = hv_or_seq(&magazine->word, HV_MAGAZINE_TAKEN);
    if (word & HV_MAGAZINE_TAKEN) {
        end_crediting(heap);
        hv_heap_let_go(heap, HV_MAGAZINE_FRAMES);
        return false;
    }
    batch->count = hv_magazine_count(word);
    for (unsigned i = 0; i < batch->count; i++) {
        batch->frames[i].v = hv_load_relaxed(&magazine->frames[i]);
    }
    /* Not older than any free into it, whose pushes were before. */
    batch->stamp = hv_flush_clock(&heap->arena->holders);
    *credit_out = hv_magazine_credit(word);
    HV_RACE("magazine.take.copied");
    hv_store_seq(&magazine->word, 0);
    return true;
}

/* End of what take() began, for the frames that are left in the batch. */
static void put_back(struct hv_heap *heap, struct hv_frame_batch *batch, uint32_t credit)
{
    hv_heap_put_back(heap, batch);
    hv_heap_unclaim(heap, credit);
    end_crediting(heap);
    hv_heap_let_go(heap, HV_MAGAZINE_FRAMES);
}

static unsigned empty(struct hv_heap *heap, struct hv_magazine *magazine)
{
    struct hv_frame_batch batch;
    uint32_t credit;
    unsigned count;

    if (!take(heap, magazine, &batch, &credit)) {
        return 0;
    }
    count = batch.count;
    put_back(heap, &batch, credit);
    return count;
}

/* Book the credit of one magazine. */
static bool book_credit(struct hv_heap *heap, struct hv_magazine *magazine)
{
    uint32_t word = hv_load_seq(&magazine->word);
    uint32_t credit;

    /* TAKEN: who took it books it, and said so before. */
    if (hv_magazine_credit(word) == 0 || (word & HV_MAGAZINE_TAKEN)) {
        return false;
    }
    begin_crediting(heap);
    do {
        credit = word & HV_MAGAZINE_TAKEN ? 0 : hv_magazine_credit(word);
    } while (credit > 0 && !hv_cas_weak_seq(&magazine->word, &word, hv_magazine_count(word)));
    HV_RACE("magazine.credit.taken");
    if (credit > 0) {
        /* Invariant (5). */
        hv_heap_note_return(heap);
        hv_heap_unclaim(heap, credit);
    }
    end_crediting(heap);
    return credit > 0;
}

bool hv_magazines_steal(struct hv_heap *heap, hv_mfn *mfn_out, uint64_t *stamp_out)
{
    for (unsigned i = 0; i < count_magazines(heap); i++) {
        struct hv_frame_batch batch;
        uint32_t credit;

        /* The owner may pop the last one before we have it. */
        if (take(heap, nth_magazine(heap, i), &batch, &credit)) {
            bool found = batch.count > 0;

            if (found) {
                *mfn_out = batch.frames[--batch.count];
                *stamp_out = hv_heap_owes_flush(heap, *mfn_out) ? batch.stamp : 0;
            }
            put_back(heap, &batch, credit);
            if (found) {
                return true;
            }
        }
        HV_RACE("magazine.steal.next");
    }
    return false;
}

uint64_t hv_magazines_drain(struct hv_heap *heap)
{
    uint64_t drained = 0;

    for (unsigned i = 0; i < count_magazines(heap); i++) {
        drained += empty(heap, nth_magazine(heap, i));
    }
    return drained;
}

bool hv_magazines_collect(struct hv_heap *heap)
{
    bool found = false;
    uint32_t ticket;

    hv_lock_check_wait(HV_RANK_HEAP, "credit of a magazine");
    for (unsigned i = 0; i < count_magazines(heap); i++) {
        found |= book_credit(heap, nth_magazine(heap, i));
    }
    if (found) {
        return true;
    }
    /* After the words: what has left one is on its way, or has been booked. */
    ticket = hv_eventcount_listen(&heap->settled);
    if (hv_load_seq(&heap->crediting) == 0) {
        hv_eventcount_cancel(&heap->settled);
        return false;
    }
    HV_RACE("magazine.credit.awaited");
    hv_eventcount_wait(&heap->settled, ticket, HV_NS_NEVER);
    return true;
}

void hv_magazines_sum(const struct hv_heap *heap, uint64_t *frames_out, uint64_t *credit_out)
{
    *frames_out = 0;
    *credit_out = 0;
    for (unsigned i = 0; i < count_magazines(heap); i++) {
        uint32_t word = hv_load_relaxed(&nth_magazine(heap, i)->word);

        if (!(word & HV_MAGAZINE_TAKEN)) {
            *frames_out += hv_magazine_count(word);
            *credit_out += hv_magazine_credit(word);
        }
    }
}

/* ---- the owner's two magazines ---- */

bool hv_magazines_pop(struct hv_heap *heap, struct hv_magazines *own, hv_mfn *mfn_out,
                      uint64_t *stamp_out)
{
    struct hv_magazine *magazine = &own->each[own->loaded];

    if (!pop(magazine, mfn_out)) {
        own->loaded ^= 1;
        magazine = &own->each[own->loaded];
        if (!pop(magazine, mfn_out)) {
            return false;
        }
    }
    *stamp_out = 0;
    if (hv_heap_owes_flush(heap, *mfn_out)) {
        /* One flush is for all that came before it. */
        *stamp_out = magazine->stamp;
        magazine->stamp = 0;
    }
    return true;
}

static bool push_loaded(struct hv_heap *heap, struct hv_magazines *own, hv_mfn mfn)
{
    struct hv_magazine *magazine = &own->each[own->loaded];
    uint64_t before = magazine->stamp;

    /* Nobody but the owner reads it; a taker's stamp is of then. */
    magazine->stamp = hv_flush_clock(&heap->arena->holders);
    if (!push(magazine, mfn)) {
        magazine->stamp = before;
        return false;
    }
    if (hv_magazine_credit(hv_load_relaxed(&magazine->word)) >= HV_MAGAZINE_FRAMES) {
        (void)book_credit(heap, magazine);
    }
    return true;
}

void hv_magazines_push(struct hv_heap *heap, struct hv_magazines *own, hv_mfn mfn)
{
    if (push_loaded(heap, own, mfn)) {
        return;
    }
    own->loaded ^= 1;
    if (push_loaded(heap, own, mfn)) {
        return;
    }
    if (empty(heap, &own->each[own->loaded]) > 0) {
        hv_count(&own->empties, 1);
    }
    if (!push_loaded(heap, own, mfn)) {
        /* Somebody is taking it just now. */
        hv_heap_free_batch(heap, &mfn, 1);
    }
}

void hv_magazines_load(struct hv_heap *heap, struct hv_magazines *own, struct hv_frame_batch *batch)
{
    unsigned count = batch->count;

    if (!fill(&own->each[own->loaded], batch)) {
        own->loaded ^= 1;
        if (!fill(&own->each[own->loaded], batch)) {
            hv_heap_put_back(heap, batch);
            hv_heap_let_go(heap, count);
            return;
        }
    }
    hv_count(&own->loads, 1);
    hv_heap_note_return(heap);
    hv_heap_let_go(heap, count);
}

void hv_heap_detach_thread(struct hv_heap *heap)
{
    struct hv_magazines *own = hv_magazines_own(heap);

    if (!own) {
        return;
    }
    for (unsigned i = 0; i < 2; i++) {
        (void)empty(heap, &own->each[i]);
        /* What was popped since it was pushed has left its credit behind. */
        (void)book_credit(heap, &own->each[i]);
    }
    mine.heap = NULL;
    mine.own = NULL;
    hv_store_seq(&own->owner, 0);
}

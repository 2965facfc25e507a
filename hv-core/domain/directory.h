/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Which domains there are: from a handle to its domain, without a lock and without grace periods.
 *
 * A slot for each id, which stays where it is; one word of it says everything:
 *
 *     word   63:16 generation   15:0 references          0: the id is free
 *
 *     0      --hv_directory_reserve--> {g,0}             being made: not found
 *     {g,0}  --hv_directory_publish--> {g,n}
 *     {g,n}  --hv_directory_get g--> {g,n+1}             n > 0
 *     {g,n}  --hv_directory_put--> {g,n-1}               by the last: {g,0}, not found any more
 *     {g,0}  --hv_directory_release--> 0
 *
 * A look-up compares the generation and adds its reference by one compare-and-swap. So who has got a
 * domain has a reference on it, and only then reads the pointer beside the word; who comes a moment
 * after the last put gets nothing. A generation is given once: a stale handle finds no other domain,
 * however often its id has come again.
 *
 * Who wants them all reads the words of those ids that have a bit set: it is set before the word can
 * be found, and cleared before the id is free.
 *
 * Invariants:
 *   (1) the pointer is written by the maker of {g,0} alone, and read only by holders of a reference;
 *   (2) there are as many references as the word says: at most 65,535, the next look-up is refused.
 */
#pragma once

#include "mem/frame.h"
#include "sync/atomic.h"

#include <hv/types.h>

/* Ids 1 to 65,000; 0 and the top are never a guest's (HV_OWNER_NONE). */
#define HV_DIRECTORY_IDS 65000u
HV_STATIC_ASSERT(HV_DIRECTORY_IDS < HV_OWNER_SHARED, "ids above are no domain's");
#define HV_DIRECTORY_REFERENCES_MAX 0xffffu
#define HV_DIRECTORY_GENERATION_MAX ((UINT64_C(1) << 48) - 1)

struct hv_domain;

struct hv_directory_slot {
    _Atomic uint64_t word;
    struct hv_domain *domain;
};

struct hv_directory {
    struct hv_directory_slot *slots; /* owned; by id. Those never used cost the host no memory. */
    /* Atomic. */
    _Atomic uint64_t used[HV_DIRECTORY_IDS / 64 + 1]; /* a bit for each id that may be found */
    _Atomic uint64_t generation;                      /* of the last that was reserved */
    _Atomic uint32_t next;                            /* where the search for a free id begins */
    _Atomic uint32_t count;                           /* ids that are not free */
};

/** -ENOMEM. */
HV_MUST_CHECK int hv_directory_init(struct hv_directory *directory);
/** All ids are free, or it was never made. */
void hv_directory_finish(struct hv_directory *directory);

/** Give a domain that is being made its name. -ENOSPC when all ids are in use, or all generations. */
HV_MUST_CHECK int hv_directory_reserve(struct hv_directory *directory, hv_handle *handle_out);

/** Let it be found, with @references held. */
void hv_directory_publish(struct hv_directory *directory, hv_handle handle,
                          struct hv_domain *domain, unsigned references);

/**
 * Find a domain and hold it.
 *
 * Returns 0 and *domain_out; -ENOENT when there is none of that name, yet or any more; -EOVERFLOW
 * when it is held too often. Context: any thread, any lock.
 */
HV_MUST_CHECK int hv_directory_get(struct hv_directory *directory, hv_handle handle,
                                   struct hv_domain **domain_out);

/**
 * The handles of all, by rising id: of each that is found from beginning to end of the call, and of
 * none that is not found at some moment of it.
 *
 * Returns how many there are; at most @max are written to @handles. Context: any thread, any lock.
 */
size_t hv_directory_list(const struct hv_directory *directory, hv_handle *handles, size_t max);

/** Let go. True to the last, who takes the domain apart and calls hv_directory_release(). */
HV_MUST_CHECK bool hv_directory_put(struct hv_directory *directory, hv_handle handle);

/** The id may be given to another: nothing names the domain, nor its frames, any more. */
void hv_directory_release(struct hv_directory *directory, hv_handle handle);

static inline uint16_t hv_handle_id(hv_handle handle)
{
    return (uint16_t)handle.v;
}

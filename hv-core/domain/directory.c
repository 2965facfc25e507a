/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The slots of the domains: see directory.h. */
#include "domain/directory.h"

#include <errno.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "sync/race.h"

#define GENERATION_SHIFT 16

static uint64_t generation_of(uint64_t word)
{
    return word >> GENERATION_SHIFT;
}

static unsigned references_of(uint64_t word)
{
    return word & HV_DIRECTORY_REFERENCES_MAX;
}

/* The word of a handle without references: {g,0}. */
static uint64_t bare_word(hv_handle handle)
{
    return generation_of(handle.v) << GENERATION_SHIFT;
}

static struct hv_directory_slot *slot_of(const struct hv_directory *directory, hv_handle handle)
{
    return &directory->slots[hv_handle_id(handle)];
}

int hv_directory_init(struct hv_directory *directory)
{
    *directory = (struct hv_directory){
        .slots = hv_alloc(HV_DIRECTORY_IDS + 1, sizeof(*directory->slots)),
    };
    return directory->slots ? 0 : -ENOMEM;
}

void hv_directory_finish(struct hv_directory *directory)
{
    HV_ASSERT(hv_load_seq(&directory->count) == 0);
    hv_free(directory->slots);
    directory->slots = NULL;
}

static int new_generation(struct hv_directory *directory, uint64_t *generation_out)
{
    uint64_t last = hv_load_relaxed(&directory->generation);

    do {
        if (last == HV_DIRECTORY_GENERATION_MAX) {
            return -ENOSPC;
        }
        *generation_out = last + 1;
    } while (!hv_cas_weak_seq(&directory->generation, &last, last + 1));
    return 0;
}

static void mark_used(struct hv_directory *directory, unsigned id)
{
    hv_or_seq(&directory->used[id / 64], UINT64_C(1) << id % 64);
}

static void mark_free(struct hv_directory *directory, unsigned id)
{
    hv_and_seq(&directory->used[id / 64], ~(UINT64_C(1) << id % 64));
}

/* Ids come again as late as may be: whoever confuses two of them has the more time to be found. */
int hv_directory_reserve(struct hv_directory *directory, hv_handle *handle_out)
{
    uint32_t start = hv_add_relaxed(&directory->next, 1) % HV_DIRECTORY_IDS;
    uint64_t generation;
    int rc = new_generation(directory, &generation);

    *handle_out = HV_HANDLE_NONE;
    for (uint32_t i = 0; rc == 0 && i < HV_DIRECTORY_IDS; i++) {
        uint32_t id = (start + i) % HV_DIRECTORY_IDS + 1;
        struct hv_directory_slot *slot = &directory->slots[id];
        uint64_t free = 0;

        if (hv_load_relaxed(&slot->word) == 0 &&
            hv_cas_seq(&slot->word, &free, generation << GENERATION_SHIFT)) {
            hv_add_seq(&directory->count, 1);
            mark_used(directory, id);
            handle_out->v = generation << GENERATION_SHIFT | id;
            return 0;
        }
    }
    return -ENOSPC;
}

void hv_directory_publish(struct hv_directory *directory, hv_handle handle,
                          struct hv_domain *domain, unsigned references)
{
    struct hv_directory_slot *slot = slot_of(directory, handle);

    HV_ASSERT(hv_load_relaxed(&slot->word) == bare_word(handle) && references > 0);
    slot->domain = domain;
    HV_RACE("directory.publish");
    /* Pairs with the compare-and-swap of a look-up, which reads the pointer after it. */
    hv_store_seq(&slot->word, bare_word(handle) | references);
}

int hv_directory_get(struct hv_directory *directory, hv_handle handle,
                     struct hv_domain **domain_out)
{
    struct hv_directory_slot *slot;
    uint64_t word;

    *domain_out = NULL;
    if (hv_handle_id(handle) > HV_DIRECTORY_IDS) {
        return -ENOENT;
    }
    slot = slot_of(directory, handle);
    word = hv_load_seq(&slot->word);
    do {
        HV_RACE("directory.get.looked");
        if (generation_of(word) != generation_of(handle.v) || references_of(word) == 0) {
            return -ENOENT;
        }
        if (references_of(word) == HV_DIRECTORY_REFERENCES_MAX) {
            return -EOVERFLOW;
        }
    } while (!hv_cas_weak_seq(&slot->word, &word, word + 1));
    *domain_out = slot->domain;
    return 0;
}

size_t hv_directory_list(const struct hv_directory *directory, hv_handle *handles, size_t max)
{
    size_t count = 0;

    for (unsigned i = 0; i < HV_ARRAY_LEN(directory->used); i++) {
        for (uint64_t bits = hv_load_seq(&directory->used[i]); bits != 0; bits &= bits - 1) {
            unsigned id = i * 64 + (unsigned)__builtin_ctzll(bits);
            uint64_t word = hv_load_seq(&directory->slots[id].word);

            if (references_of(word) > 0 && count++ < max) {
                handles[count - 1].v = generation_of(word) << GENERATION_SHIFT | id;
            }
        }
    }
    return count;
}

bool hv_directory_put(struct hv_directory *directory, hv_handle handle)
{
    /* Pairs with itself: what each holder did comes before what the last one does. */
    uint64_t before = hv_sub_seq(&slot_of(directory, handle)->word, 1);

    HV_BUG_ON(generation_of(before) != generation_of(handle.v) || references_of(before) == 0);
    return references_of(before) == 1;
}

void hv_directory_release(struct hv_directory *directory, hv_handle handle)
{
    struct hv_directory_slot *slot = slot_of(directory, handle);

    HV_BUG_ON(hv_load_relaxed(&slot->word) != bare_word(handle));
    slot->domain = NULL;
    mark_free(directory, hv_handle_id(handle));
    HV_RACE("directory.release.between");
    hv_store_seq(&slot->word, 0);
    /* After it: an id that is not counted is free. */
    hv_sub_seq(&directory->count, 1);
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The end of a domain: a handful of words under a sequence count. */
#include "domain/ending.h"

#include <stdint.h>
#include <string.h>

#include "base/assert.h"
#include "sync/futex.h"
#include "sync/race.h"

static const struct hv_domain_status none = {.end = HV_DOMAIN_END_NONE};

void hv_ending_init(struct hv_ending *ending)
{
    hv_lock_init(&ending->lock, HV_RANK_LEAF, "domain.ending", 0);
}

void hv_ending_finish(struct hv_ending *ending)
{
    hv_lock_finish(&ending->lock);
}

/* A writer under the lock that loses its CPU lets readers wait for it, a few stores long. */
static void write_locked(struct hv_ending *ending, const struct hv_domain_status *status)
{
    uint64_t word;

    hv_lock_assert_held(&ending->lock);
    hv_seqcount_write_begin(&ending->sequence);
    hv_seqcount_store(&ending->code, status->code);
    hv_seqcount_store(&ending->vcpu, status->vcpu);
    for (size_t i = 0; i < HV_ENDING_REASON_WORDS; i++) {
        memcpy(&word, status->reason + i * sizeof(word), sizeof(word));
        hv_seqcount_store(&ending->reason[i], word);
    }
    /* Stronger than a store of the count's: pairs with hv_ending_end(). */
    hv_store_seq(&ending->end, status->end);
    hv_seqcount_write_end(&ending->sequence);
}

bool hv_ending_set(struct hv_ending *ending, uint64_t life, enum hv_domain_end end, uint32_t code,
                   unsigned vcpu, const char *reason)
{
    struct hv_domain_status status = {.end = end, .code = code, .vcpu = vcpu};
    bool first;

    memcpy(status.reason, reason, strnlen(reason, sizeof(status.reason) - 1));
    hv_lock_take(&ending->lock);
    first = hv_ending_end(ending) == HV_DOMAIN_END_NONE && hv_ending_life(ending) == life;
    if (first) {
        hv_add_seq(&ending->unsettled, 1);
        write_locked(ending, &status);
    }
    hv_lock_drop(&ending->lock);
    return first;
}

void hv_ending_settle(struct hv_ending *ending)
{
    HV_ASSERT(hv_load_relaxed(&ending->unsettled));
    /* Pairs with hv_ending_renew(). */
    if (hv_sub_seq(&ending->unsettled, 1) == 1) {
        hv_futex_wake(&ending->unsettled, INT32_MAX);
    }
}

bool hv_ending_forget(struct hv_ending *ending)
{
    enum hv_domain_end end;
    bool forget;

    hv_lock_take(&ending->lock);
    end = hv_ending_end(ending);
    forget = end == HV_DOMAIN_END_NONE || end == HV_DOMAIN_END_NO_MEMORY;
    if (forget) {
        write_locked(ending, &none);
    }
    hv_lock_drop(&ending->lock);
    return forget;
}

void hv_ending_renew(struct hv_ending *ending)
{
    bool renewed = false;

    hv_lock_check_wait(HV_RANK_FLUSH_WAIT, "what follows from a domain's end");
    while (!renewed) {
        uint32_t unsettled;

        while ((unsettled = hv_load_seq(&ending->unsettled)) != 0) {
            HV_RACE("ending.renew.waits");
            hv_futex_wait(&ending->unsettled, unsettled, HV_NS_NEVER);
        }
        HV_RACE("ending.renew.settled");
        hv_lock_take(&ending->lock);
        /* An end of this life may have come between; after it none does. */
        renewed = !hv_load_seq(&ending->unsettled);
        if (renewed) {
            write_locked(ending, &none);
            hv_store_seq(&ending->life, hv_ending_life(ending) + 1);
        }
        hv_lock_drop(&ending->lock);
    }
}

void hv_ending_get(const struct hv_ending *ending, struct hv_domain_status *status_out)
{
    uint32_t begun;
    uint64_t word;

    do {
        begun = hv_seqcount_read_begin(&ending->sequence);
        status_out->end = (enum hv_domain_end)hv_seqcount_load(&ending->end);
        status_out->code = hv_seqcount_load(&ending->code);
        status_out->vcpu = hv_seqcount_load(&ending->vcpu);
        for (size_t i = 0; i < HV_ENDING_REASON_WORDS; i++) {
            word = hv_seqcount_load(&ending->reason[i]);
            memcpy(status_out->reason + i * sizeof(word), &word, sizeof(word));
        }
    } while (hv_seqcount_read_retry(&ending->sequence, begun));
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Entities for tests of the scheduler: what a vCPU is to it, with nothing behind. Each call of
 * `run` is counted, may stop at the race point "fake.run" under the entity's number, and ends as
 * the test says.
 */
#pragma once

#include "base/assert.h"
#include "sched/sched.h"
#include "sync/race.h"

struct fake_entity {
    struct hv_sched_entity entity;
    struct hv_doorbell bell;
    unsigned number; /* of the thread that runs it, for race points; 0: none */
    _Atomic uint32_t runs, inside, overlaps;
    _Atomic uint32_t yields; /* runs yet to end by YIELD; the others end by BLOCK */
    _Atomic uint32_t last_worker;
};

static inline enum hv_sched_verdict fake_entity_run(void *context, struct hv_worker *worker,
                                                    hv_ns slice_end)
{
    struct fake_entity *fake = context;
    enum hv_sched_verdict verdict = HV_SCHED_BLOCK;

    (void)slice_end;
    hv_add_seq(&fake->overlaps, hv_add_seq(&fake->inside, 1) > 0);
    hv_store_seq(&fake->last_worker, hv_worker_index(worker));
    hv_add_seq(&fake->runs, 1);
    hv_race_name_thread(fake->number);
    HV_RACE("fake.run");
    (void)hv_doorbell_take(&fake->bell);
    if (hv_load_seq(&fake->yields) > 0) {
        hv_sub_seq(&fake->yields, 1);
        verdict = HV_SCHED_YIELD;
    }
    hv_sub_seq(&fake->inside, 1);
    return verdict;
}

/** Workers of the policy `credit`, as hv_sched_create(). */
static inline int fake_sched_create(unsigned workers, const struct hv_clock *clock,
                                    struct hv_heap *heap, struct hv_sched **sched_out)
{
    const struct hv_sched_config config = {.workers = workers, .clock = clock, .heap = heap};

    return hv_sched_create(&config, sched_out);
}

/** Make it blocked, at home with worker @home: the policy `credit` has room for all. */
static inline void fake_entity_init(struct fake_entity *fake, struct hv_sched *sched, unsigned home,
                                    unsigned number)
{
    *fake = (struct fake_entity){.number = number};
    hv_doorbell_init(&fake->bell);
    fake->entity.run = fake_entity_run;
    fake->entity.context = fake;
    fake->entity.bell = &fake->bell;
    fake->entity.label = number;
    HV_BUG_ON(hv_sched_entity_init(sched, &fake->entity, home) < 0);
}

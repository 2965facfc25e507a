/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The phases of a domain's end: see teardown.h. Devices go before the vCPUs they ring, those before
 * their engine, and that before the memory it points into. */
#include "domain/teardown.h"

#include <errno.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "domain/core.h"
#include "domain/domain.h"
#include "sync/race.h"

/*
 * Who got inside before the state was DYING is there until he leaves, and whoever comes later is
 * refused: they count themselves in and then look at the state. So from the end of this phase on
 * nobody else touches what is taken apart, and no lock needs to be taken once for that: the places
 * that look at the state do not do so under one. The memory's look is its own, mem/memory.h.
 */
static int leave(struct hv_domain *domain, uint64_t budget, uint64_t *used_out)
{
    (void)budget;
    (void)used_out;
    /* Pairs with hv_domain_leave() and leave_domain() of the run loop. */
    if (hv_load_seq(&domain->users) > 0 || hv_load_seq(&domain->active) > 0) {
        return -EBUSY;
    }
    return 0;
}

static int finish_devices(struct hv_domain *domain, uint64_t budget, uint64_t *used_out)
{
    (void)budget;
    (void)used_out;
    hv_platform_finish(&domain->platform);
    return 0;
}

/* One at a time: its TLB is a tenth of a millisecond's work. */
static int destroy_vcpu(struct hv_domain *domain, uint64_t budget, uint64_t *used_out)
{
    uint64_t *cursor = &domain->teardown.cursor;

    (void)budget;
    (void)used_out;
    if (*cursor < domain->vcpus) {
        struct hv_vcpu *vcpu = &domain->vcpu[*cursor];

        /* Waits for the end of a turn that has nothing left to do. */
        hv_sched_retire(domain->core->sched, &vcpu->entity);
        domain->ops->vcpu_destroy(vcpu->engine);
        (*cursor)++;
        return -EAGAIN;
    }
    hv_free(domain->vcpu);
    domain->vcpu = NULL;
    domain->vcpus = 0;
    return 0;
}

static int destroy_engine(struct hv_domain *domain, uint64_t budget, uint64_t *used_out)
{
    (void)budget;
    (void)used_out;
    if (domain->engine && domain->ops->domain_shrink(domain->engine)) {
        return -EAGAIN;
    }
    domain->ops->domain_destroy(domain->engine);
    domain->engine = NULL;
    return 0;
}

/* By whole extents: less would split what can be given back with one lock operation. */
static int relinquish_pages(struct hv_domain *domain, uint64_t budget, uint64_t *used_out)
{
    uint64_t frames = budget < HV_EXTENT_FRAMES ? budget : HV_EXTENT_FRAMES;

    *used_out = frames;
    return hv_memory_relinquish(&domain->memory, frames);
}

static int free_tables(struct hv_domain *domain, uint64_t budget, uint64_t *used_out)
{
    uint64_t tables = budget < HV_EXTENT_FRAMES ? budget : HV_EXTENT_FRAMES;
    int rc;

    *used_out = tables;
    rc = hv_memory_dismantle(&domain->memory, tables);
    if (rc == 0) {
        hv_memory_finish(&domain->memory);
    }
    return rc;
}

/* What mappers hold is the domain's until they let go, and so is its id. Pairs with the last
 * hv_memory_release(). */
static int await_mappers(struct hv_domain *domain, uint64_t budget, uint64_t *used_out)
{
    (void)budget;
    (void)used_out;
    if (hv_load_seq(&domain->memory.held_frames) == 0) {
        return 0;
    }
    if (hv_domain_change(domain, HV_DOMAIN_STATE_DYING, HV_DOMAIN_STATE_DEAD)) {
        hv_domain_announce(domain);
    }
    return -EBUSY;
}

/* One unit of work. Returns as hv_teardown_step(), 0 for the phase; frames, or what takes as long. */
typedef int phase_work(struct hv_domain *domain, uint64_t budget, uint64_t *used_out);

static phase_work *const phases[HV_TEARDOWN_PHASES] = {
    [HV_TEARDOWN_LEAVING] = leave,          [HV_TEARDOWN_DEVICES] = finish_devices,
    [HV_TEARDOWN_VCPUS] = destroy_vcpu,     [HV_TEARDOWN_CODE] = destroy_engine,
    [HV_TEARDOWN_PAGES] = relinquish_pages, [HV_TEARDOWN_TABLES] = free_tables,
    [HV_TEARDOWN_HELD] = await_mappers,
};

/* The next phase begins. For the figures alone its moment matters. */
static void enter_phase(struct hv_domain *domain, enum hv_teardown_phase phase)
{
    struct hv_teardown *teardown = &domain->teardown;
    uint64_t now = hv_clock_now(&domain->core->clock).v;

    teardown->cursor = 0;
    if (phase == HV_TEARDOWN_DEVICES) {
        hv_store_relaxed(&teardown->total_frames,
                         hv_load_relaxed(&domain->memory.populated_frames));
    } else if (phase == HV_TEARDOWN_PAGES) {
        hv_store_relaxed(&teardown->began_ns, now);
    } else if (phase == HV_TEARDOWN_TABLES) {
        hv_store_relaxed(&teardown->ended_ns, now);
    }
    /* Pairs with hv_domain_get_teardown(): the figures of the phase are there. */
    hv_store_release(&teardown->phase, phase);
}

int hv_teardown_step(struct hv_domain *domain, uint64_t frames, hv_ns end)
{
    const struct hv_clock *clock = &domain->core->clock;
    /* Less at the end of a step would split an extent that the next one can give back whole. */
    uint64_t least = frames < HV_EXTENT_FRAMES ? frames : HV_EXTENT_FRAMES;
    int rc = -EAGAIN;

    hv_lock_check_none("taking a domain apart");
    if (hv_load_relaxed(&domain->teardown.phase) == HV_TEARDOWN_NONE) {
        enter_phase(domain, HV_TEARDOWN_LEAVING);
    }
    do {
        enum hv_teardown_phase phase =
            (enum hv_teardown_phase)hv_load_relaxed(&domain->teardown.phase);
        uint64_t used = 1;

        HV_RACE("teardown.step");
        rc = phases[phase](domain, frames, &used);
        if (rc == 0) {
            enter_phase(domain, phase + 1);
            rc = phase + 1 == HV_TEARDOWN_DONE ? 0 : -EAGAIN;
        }
        frames -= used < frames ? used : frames;
    } while (rc == -EAGAIN && frames > 0 && frames >= least &&
             hv_ns_before(hv_clock_now(clock), end));
    return rc;
}

void hv_teardown_undo(struct hv_domain *domain, enum hv_teardown_phase phase)
{
    int rc;

    enter_phase(domain, phase);
    do {
        rc = hv_teardown_step(domain, UINT64_MAX, HV_NS_NEVER);
        /* Nobody can hold what nobody knows. */
        HV_BUG_ON(rc == -EBUSY);
    } while (rc < 0);
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The scheduler as its users see it: start and end, and the way to the queues. See sched.h. */
#include "sched/sched-private.h"

#include <errno.h>

#include "base/alloc.h"
#include "base/format.h"
#include "sched/yield.h"
#include "sync/thread.h"

/* ---- start and end ---- */

static void notify_worker(void *context, unsigned index)
{
    struct hv_sched *sched = context;

    hv_doorbell_ring(&sched->workers[index].bell, HV_REQUEST_EVENT);
}

/* The worker's bell was rung while it runs an entity. */
static void pass_on_ring(void *context)
{
    struct hv_worker *worker = context;

    hv_deadline_kick(worker->sched->deadline, worker->index);
}

static void make_worker(struct hv_sched *sched, unsigned index)
{
    struct hv_worker *worker = &sched->workers[index];

    worker_init(worker, sched, &sched->queues.queue[index], index);
    hv_timer_queue_init(&worker->own_timers, sched->clock, &worker->bell, index);
    worker->timers = &worker->own_timers;
    if (sched->policy == HV_SCHED_POLICY_CREDIT) {
        worker->bell.interrupt = pass_on_ring;
        worker->bell.interrupt_context = worker;
    }
    hv_qsbr_register(&sched->qsbr, &worker->reader);
}

static int start_workers(struct hv_sched *sched, unsigned workers)
{
    int error = 0;

    while (error == 0 && sched->started < workers) {
        struct hv_worker *worker = &sched->workers[sched->started];
        char name[16];

        hv_format(name, sizeof(name), "hv-worker-%u", worker->index);
        error = hv_thread_start(&worker->thread, name, worker_main, worker);
        sched->started += error == 0;
    }
    return error;
}

static int make_parts(struct hv_sched *sched, const struct hv_sched_config *config)
{
    struct hv_sched_tuning tuning = hv_sched_tuning_standard;
    int error;

    tuning.boost = !config->no_boost;
    error = hv_runqueues_init(&sched->queues, config->workers, config->clock, &tuning,
                              notify_worker, sched);
    while (error == 0 && sched->count < config->workers) {
        make_worker(sched, sched->count++);
    }
    if (error == 0 && sched->policy == HV_SCHED_POLICY_CREDIT) {
        error = hv_deadline_create(config->workers, config->clock, &sched->deadline);
    }
    return error < 0 ? error : start_workers(sched, config->workers);
}

int hv_sched_create(const struct hv_sched_config *config, struct hv_sched **sched_out)
{
    struct hv_sched *sched;
    int error;

    *sched_out = NULL;
    if (config->workers == 0 || config->workers > HV_SCHED_MAX_WORKERS) {
        return -EINVAL;
    }
    sched = hv_alloc_aligned(HV_CACHE_LINE,
                             sizeof(struct hv_sched) + config->workers * sizeof(struct hv_worker));
    if (!sched) {
        return -ENOMEM;
    }
    sched->clock = config->clock;
    sched->heap = config->heap;
    sched->policy = config->policy;
    hv_qsbr_init(&sched->qsbr);
    hv_lock_init(&sched->lock, HV_RANK_LEAF, "sched", 0);
    hv_list_init(&sched->vcpu_workers);
    error = make_parts(sched, config);
    if (error < 0) {
        hv_sched_destroy(sched);
        return error;
    }
    *sched_out = sched;
    return 0;
}

void hv_sched_destroy(struct hv_sched *sched)
{
    if (!sched) {
        return;
    }
    host_finish(sched);
    for (unsigned i = 0; i < sched->started; i++) {
        worker_stop(&sched->workers[i]);
    }
    hv_deadline_destroy(sched->deadline);
    for (unsigned i = 0; i < sched->count; i++) {
        struct hv_worker *worker = &sched->workers[i];

        hv_qsbr_unregister(&worker->reader);
        hv_timer_queue_finish(&worker->own_timers);
    }
    hv_runqueues_finish(&sched->queues);
    hv_lock_finish(&sched->lock);
    hv_qsbr_finish(&sched->qsbr);
    hv_free(sched);
}

/* ---- what it has ---- */

enum hv_sched_policy hv_sched_policy(const struct hv_sched *sched)
{
    return sched->policy;
}

unsigned hv_sched_workers(const struct hv_sched *sched)
{
    return sched->count;
}

struct hv_timer_queue *hv_sched_timer_queue(struct hv_sched *sched, unsigned index)
{
    return sched->workers[index % sched->count].timers;
}

struct hv_qsbr *hv_sched_qsbr(struct hv_sched *sched)
{
    return &sched->qsbr;
}

const struct hv_worker_counters *hv_sched_worker_counters(const struct hv_sched *sched,
                                                          unsigned index)
{
    return &sched->workers[index].counters;
}

uint64_t hv_sched_stolen(const struct hv_sched *sched, unsigned index)
{
    return hv_load_relaxed(&sched->queues.queue[index].stolen);
}

uint64_t hv_sched_deadline_wakes(const struct hv_sched *sched)
{
    return sched->deadline ? hv_deadline_wakes(sched->deadline) : 0;
}

void hv_sched_clock_moved(struct hv_sched *sched)
{
    for (unsigned i = 0; i < sched->count; i++) {
        hv_doorbell_ring(&sched->workers[i].bell, HV_REQUEST_TIMER);
    }
    if (sched->deadline) {
        hv_deadline_clock_moved(sched->deadline);
    }
}

/* ---- entities and groups ---- */

int hv_sched_entity_init(struct hv_sched *sched, struct hv_sched_entity *entity, unsigned home)
{
    int error = 0;

    hv_entity_begin_slice(entity);
    if (sched->policy == HV_SCHED_POLICY_HOST) {
        error = host_start(sched, entity);
    } else {
        hv_runqueue_add(&sched->queues, entity, home);
    }
    if (error == 0 && entity->index < HV_MAX_VCPUS) {
        entity->group->member[entity->index] = entity;
    }
    return error;
}

void hv_sched_wake(struct hv_sched_entity *entity)
{
    hv_runqueue_wake(entity);
}

void hv_sched_retire(struct hv_sched *sched, struct hv_sched_entity *entity)
{
    if (!hv_load_relaxed(&entity->home)) {
        return;
    }
    hv_runqueue_retire(entity);
    if (sched->policy == HV_SCHED_POLICY_HOST) {
        host_stop(sched, entity);
    }
}

unsigned hv_sched_home(const struct hv_sched_entity *entity)
{
    return hv_runqueue_home(entity);
}

int hv_sched_check(const struct hv_sched *sched, const struct hv_sched_parameters *parameters,
                   char *why, size_t why_size)
{
    bool shared = parameters->cap_percent || hv_group_is_bound(&parameters->affinity) ||
                  (parameters->weight && parameters->weight != HV_SCHED_WEIGHT_DEFAULT);

    if (shared && sched->policy == HV_SCHED_POLICY_HOST) {
        hv_format(why, why_size,
                  "weight, cap and affinity are the policy “credit”’s; under “host” set them for "
                  "the host’s control group");
        return -ENOTSUP;
    }
    return hv_sched_check_parameters(parameters, sched->count, why, why_size);
}

int hv_sched_set_parameters(struct hv_sched *sched, struct hv_sched_group *group,
                            const struct hv_sched_parameters *parameters, char *why,
                            size_t why_size)
{
    int rc = hv_sched_check(sched, parameters, why, why_size);

    if (rc < 0) {
        return rc;
    }
    hv_group_set(group, parameters);
    for (unsigned i = 0; i < HV_MAX_VCPUS; i++) {
        if (group->member[i]) {
            hv_runqueue_settle(group->member[i]);
        }
    }
    return 0;
}

/* ---- for the run loop ---- */

bool hv_sched_slice_over(const struct hv_worker *worker, hv_ns slice_end)
{
    return hv_load_seq(&worker->running->retiring) ||
           !hv_ns_before(hv_clock_now(worker->sched->clock),
                         hv_runqueue_slice_end(worker->queue, slice_end));
}

bool hv_sched_yield_to(struct hv_worker *worker, struct hv_sched_entity *me,
                       struct hv_sched_entity *target)
{
    return hv_runqueue_yield_to(worker->queue, me, target);
}

bool hv_sched_kick_boost(struct hv_worker *worker, struct hv_sched_entity *me,
                         struct hv_sched_entity *target)
{
    hv_runqueue_wake(target);
    return hv_runqueue_yield_to(worker->queue, me, target);
}

bool hv_sched_on_spin(struct hv_worker *worker, struct hv_sched_entity *me)
{
    return hv_runqueue_on_spin(worker->queue, me);
}

void hv_sched_note_ipi(const struct hv_sched *sched, struct hv_sched_entity *me, unsigned target)
{
    hv_entity_note_ipi(me, target, hv_clock_now(sched->clock));
}

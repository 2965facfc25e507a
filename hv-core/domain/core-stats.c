/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The core's own statistics: memory, reapers, workers, and the locks of all. Names are of docs/stats.md. */
#include "domain/core.h"

#include <string.h>

#include "mem/heap.h"
#include "stat/lock-table.h"
#include "sync/lock-profile.h"

#include <hv/lock-stats.h>

HV_STATIC_ASSERT(HV_LOCK_HISTOGRAM_BUCKETS == HV_HISTOGRAM_BUCKETS, "they are copied whole");

static void add_heap(struct hv_stat_list *list, const struct hv_heap *heap)
{
    struct hv_heap_info info;

    hv_heap_get_info(heap, &info);
    hv_stat_add(list, info.total_frames, "heap.total");
    hv_stat_add(list, info.free_frames, "heap.free");
    hv_stat_add(list, info.clean_frames, "heap.clean");
    hv_stat_add(list, info.dirty_frames, "heap.dirty");
    hv_stat_add(list, info.returned_frames, "heap.returned");
    hv_stat_add(list, info.magazine_frames, "heap.magazines");
    hv_stat_add(list, info.moving_frames, "heap.moving");
    hv_stat_add(list, info.claimed_frames, "heap.claimed");
    hv_stat_add(list, hv_heap_shards(heap), "heap.shard.count");
    for (unsigned i = 0; i < hv_heap_shards(heap); i++) {
        struct hv_heap_shard_info shard = hv_heap_get_shard(heap, i);

        hv_stat_add(list, shard.free_frames, "heap.shard.%u.free", i);
        hv_stat_add(list, hv_load_relaxed(&shard.lock->acquired), "heap.shard.%u.acquired", i);
        hv_stat_add(list, hv_load_relaxed(&shard.lock->contended), "heap.shard.%u.contended", i);
    }
}

static void add_reaper(struct hv_stat_list *list, const struct hv_reaper *reaper)
{
    struct hv_reaper_info info;

    hv_reaper_get_info(reaper, &info);
    hv_stat_add(list, info.domains, "reaper.domains");
    hv_stat_add(list, info.frames_left, "reaper.pages_left");
    hv_stat_add(list, info.frames_per_s, "reaper.rate");
}

static void add_workers(struct hv_stat_list *list, const struct hv_sched *sched)
{
    unsigned count = hv_sched_workers(sched);

    hv_stat_add(list, count, "pcpu.count");
    for (unsigned i = 0; i < count; i++) {
        const struct hv_worker_counters *counters = hv_sched_worker_counters(sched, i);

        hv_stat_add(list, hv_load_relaxed(&counters->busy_ns), "pcpu.%u.busy", i);
        hv_stat_add(list, hv_load_relaxed(&counters->running), "pcpu.%u.domain", i);
        hv_stat_add(list, hv_load_relaxed(&counters->switches), "pcpu.%u.switches", i);
        hv_stat_add(list, hv_load_relaxed(&counters->timers), "pcpu.%u.timers", i);
        hv_stat_add(list, hv_sched_stolen(sched, i), "pcpu.%u.stolen", i);
        hv_stat_add(list, hv_load_relaxed(&counters->sleeps), "pcpu.%u.sleeps", i);
        hv_stat_add(list, hv_load_relaxed(&counters->woken_timer), "pcpu.%u.woken.timer", i);
        hv_stat_add(list, hv_load_relaxed(&counters->woken_event), "pcpu.%u.woken.event", i);
        hv_stat_add(list, hv_load_relaxed(&counters->woken_other), "pcpu.%u.woken.other", i);
    }
    hv_stat_add(list, hv_sched_deadline_wakes(sched), "pcpu.deadline_wakes");
}

size_t hv_core_get_stats(struct hv_core *core, struct hv_stat *stats, size_t max)
{
    struct hv_stat_list list = {.stats = stats, .max = stats ? max : 0};

    add_heap(&list, hv_arena_heap(core->arena));
    add_reaper(&list, core->reaper);
    add_workers(&list, core->sched);
    return list.count;
}

struct lock_walk {
    struct hv_stat_list stats;
    size_t rows;
    struct hv_lock_lists *lists;
};

static void copy_histogram(struct hv_lock_histogram *to, const struct hv_histogram *from)
{
    to->total_ns = hv_load_relaxed(&from->total_ns);
    to->max_ns = hv_load_relaxed(&from->max_ns);
    to->buckets = 0;
    for (uint32_t i = 0; i < HV_HISTOGRAM_BUCKETS; i++) {
        to->counts[i] = hv_load_relaxed(&from->counts[i]);
        to->buckets = to->counts[i] > 0 ? i + 1 : to->buckets;
    }
}

static void add_histograms(struct lock_walk *walk, const struct hv_lock_row *row)
{
    static const enum hv_lock_histogram_span names[HV_LOCK_SPANS] = {
        [HV_LOCK_SPAN_WAIT] = HV_LOCK_HISTOGRAM_WAIT,
        [HV_LOCK_SPAN_HOLD] = HV_LOCK_HISTOGRAM_HOLD,
        [HV_LOCK_SPAN_ACQUIRE] = HV_LOCK_HISTOGRAM_ACQUIRE,
    };
    struct hv_lock_lists *lists = walk->lists;
    struct hv_histogram sum;

    for (unsigned span = 0; span < HV_LOCK_SPANS; span++) {
        memset(&sum, 0, sizeof(sum));
        hv_lock_row_sum(row, span, &sum);
        if (hv_histogram_count(&sum) > 0 && lists->histogram_count++ < lists->histogram_max) {
            struct hv_lock_histogram *to = &lists->histograms[lists->histogram_count - 1];

            to->row = walk->rows;
            to->span = names[span];
            copy_histogram(to, &sum);
        }
    }
}

static void add_lock(void *context, const struct hv_lock_row *row)
{
    struct lock_walk *walk = context;

    hv_lock_row_add(&walk->stats, walk->rows, row, 0);
    hv_stat_add_text(&walk->stats, row->owner, "lock.%zu.domain", walk->rows);
    if (walk->lists) {
        add_histograms(walk, row);
    }
    walk->rows++;
}

static size_t walk_locks(struct hv_stat *stats, size_t max, struct hv_lock_lists *lists)
{
    /* The count is known last, and stands first: room for it is kept. */
    struct lock_walk walk = {
        .stats = {.stats = stats, .max = stats ? max : 0, .count = 1},
        .lists = lists,
    };
    struct hv_stat_list count = {.stats = stats, .max = stats && max > 0 ? 1 : 0};

    hv_lock_table_each(NULL, add_lock, &walk);
    hv_stat_add(&count, walk.rows, "lock.count");
    return walk.stats.count;
}

size_t hv_core_get_lock_stats(struct hv_core *core, struct hv_stat *stats, size_t max)
{
    (void)core;
    return walk_locks(stats, max, NULL);
}

void hv_core_get_lock_lists(struct hv_core *core, struct hv_lock_lists *lists)
{
    (void)core;
    lists->histogram_count = 0;
    lists->stat_count = walk_locks(lists->stats, lists->stat_max, lists);
}

int hv_core_set_lock_sampling(struct hv_core *core, const char *class_name, uint32_t one_in)
{
    (void)core;
    return hv_lock_set_sampling(class_name, one_in);
}

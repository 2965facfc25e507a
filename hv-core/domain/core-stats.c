/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The core's own statistics: memory, reapers, workers, and the locks of all. Names are of docs/stats.md. */
#include "domain/core.h"

#include "mem/heap.h"
#include "stat/lock-table.h"

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
        hv_stat_add(list, hv_load_relaxed(&counters->stolen), "pcpu.%u.stolen", i);
        hv_stat_add(list, hv_load_relaxed(&counters->sleeps), "pcpu.%u.sleeps", i);
    }
}

size_t hv_core_get_stats(struct hv_core *core, struct hv_stat *stats, size_t max)
{
    struct hv_stat_list list = {.stats = stats, .max = stats ? max : 0};

    add_heap(&list, hv_arena_heap(core->arena));
    add_reaper(&list, core->reaper);
    add_workers(&list, core->sched);
    return list.count;
}

struct lock_list {
    struct hv_stat_list stats;
    size_t rows;
};

static void add_lock(void *context, const struct hv_lock_row *row)
{
    struct lock_list *list = context;

    hv_lock_row_add(&list->stats, list->rows, row, 0);
    hv_stat_add_text(&list->stats, row->owner, "lock.%zu.domain", list->rows);
    list->rows++;
}

size_t hv_core_get_lock_stats(struct hv_core *core, struct hv_stat *stats, size_t max)
{
    /* The count is known last, and stands first: room for it is kept. */
    struct lock_list list = {.stats = {.stats = stats, .max = stats ? max : 0, .count = 1}};
    struct hv_stat_list count = {.stats = stats, .max = stats && max > 0 ? 1 : 0};

    (void)core;
    hv_lock_table_each(NULL, add_lock, &list);
    hv_stat_add(&count, list.rows, "lock.count");
    return list.stats.count;
}

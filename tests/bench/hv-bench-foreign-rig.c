/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A migration's mapper, its victim and bystanders: see hv-bench-foreign-rig.h. */
#include "bench/hv-bench-foreign-rig.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "bench/hv-bench.h"
#include "mem/foreign.h"
#include "mem/memory-private.h"

#define OWNER       1u
#define CACHE_SLOTS 1024u
#define NO_PAGE     UINT64_MAX
#define SLICE_PAGES 65536u

/* Per cent of all pages that each round maps. */
static const unsigned rounds[] = {100, 20, 5};

/* What the mapper keeps: direct-mapped, emptied by a new generation. */
struct map_cache {
    struct {
        uint64_t gfn, generation;
        void *page;
    } slot[CACHE_SLOTS];
    uint64_t generation;
};

struct owner {
    struct hv_doorbell bell;
    struct hv_holder holder;
    uint64_t seals, random;
    _Atomic uint64_t tried; /* seals, and pages that the mapper had */
};

struct foreign_rig {
    struct foreign_load load;
    pthread_t vcpu; /* the owner's */
    pthread_t holder[FOREIGN_HOLDERS_MAX];
    /* Of the measured thread: how far it came. */
    unsigned round;
    uint64_t next, random;
    struct hv_arena *arena;
    struct hv_memory memory;
    struct hv_mapper *mapper;
    struct map_cache cache;
    struct owner owner;
    struct foreign_result result;
    /* Atomic: the page that is sealed as code, or NO_PAGE; whose takes it away unseals it. */
    HV_ALIGNED(HV_CACHE_LINE) _Atomic uint64_t sealed;
    /* Atomic: written by the mapper only. */
    HV_ALIGNED(HV_CACHE_LINE) _Atomic uint64_t unmapped; /* the last page */
    _Atomic uint64_t seals_wanted;
    /* Atomic: it is this rig's turn; how many holders are IN_GUEST. */
    _Atomic uint32_t running, present;
    _Atomic uint32_t stop, failed;
    struct hv_eventcount turned;
};

static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return *state >> 33;
}

static void forget(void *context)
{
    struct map_cache *cache = context;

    cache->generation++;
}

/* A block cache of one block: the page is given up when somebody wants to write it. */
static void give_up(void *context, hv_gfn gfn)
{
    struct foreign_rig *rig = context;
    uint64_t sealed = gfn.v;

    if (hv_cas_seq(&rig->sealed, &sealed, NO_PAGE)) {
        hv_memory_unseal_code(&rig->memory, gfn);
    }
}

static const struct hv_memory_hooks hooks = {.revoke_code = give_up};

/* ---- the owner's vCPU ---- */

static void seal_one(struct foreign_rig *rig)
{
    struct owner *owner = &rig->owner;
    uint64_t before = hv_swap_seq(&rig->sealed, NO_PAGE);
    hv_gfn gfn = {hv_load_relaxed(&rig->unmapped)};

    if (before != NO_PAGE) {
        hv_memory_unseal_code(&rig->memory, (hv_gfn){before});
    }
    if (hv_load_relaxed(&owner->tried) % 2 == 1) {
        gfn.v = next_random(&owner->random) % rig->load.pages;
    }
    if (hv_memory_seal_code(&rig->memory, gfn, &owner->holder) == 0) {
        owner->seals++;
        hv_store_seq(&rig->sealed, gfn.v);
    }
    hv_add_seq(&owner->tried, 1);
}

static void *owner_main(void *context)
{
    struct foreign_rig *rig = context;
    struct owner *owner = &rig->owner;

    hv_memory_mark_dirty(&rig->memory, 0);
    while (!hv_load_seq(&rig->stop)) {
        while (hv_load_relaxed(&owner->tried) < hv_load_seq(&rig->seals_wanted)) {
            seal_one(rig);
        }
        (void)hv_doorbell_sleep(&owner->bell, HV_NS_NEVER);
        (void)hv_doorbell_take(&owner->bell);
    }
    if (hv_load_seq(&rig->sealed) != NO_PAGE) {
        give_up(rig, (hv_gfn){hv_load_seq(&rig->sealed)});
    }
    return NULL;
}

/* ---- holders ---- */

static void await_turn(struct foreign_rig *rig)
{
    uint32_t ticket = hv_eventcount_listen(&rig->turned);

    if (hv_load_seq(&rig->running) || hv_load_seq(&rig->stop)) {
        hv_eventcount_cancel(&rig->turned);
    } else {
        hv_eventcount_wait(&rig->turned, ticket, HV_NS_NEVER);
    }
}

/* Busy in a cache of its own, and polite: it leaves when it is asked to flush. */
static void *holder_main(void *context)
{
    const struct hv_mapper_config config = {.name = "bench holder"};
    struct foreign_rig *rig = context;
    struct hv_mapper *holder;

    if (hv_mapper_create(rig->arena, &config, &holder)) {
        hv_store_seq(&rig->failed, 1);
        return NULL;
    }
    while (!hv_load_seq(&rig->stop)) {
        if (!hv_load_seq(&rig->running)) {
            await_turn(rig);
            continue;
        }
        hv_mapper_enter(holder);
        hv_add_seq(&rig->present, 1);
        while (!hv_mapper_is_asked(holder) && hv_load_relaxed(&rig->running)) {
            __builtin_ia32_pause();
        }
        hv_sub_seq(&rig->present, 1);
        hv_mapper_leave(holder);
    }
    hv_mapper_destroy(holder);
    return NULL;
}

/* ---- the mapper ---- */

/* IN_GUEST: would the cache let it write the page that is sealed? */
static void attack(struct foreign_rig *rig)
{
    uint64_t gfn = hv_load_seq(&rig->sealed);
    struct map_cache *cache = &rig->cache;
    uint64_t slot = gfn % CACHE_SLOTS;

    if (gfn != NO_PAGE && cache->slot[slot].gfn == gfn &&
        cache->slot[slot].generation == cache->generation) {
        rig->result.violations++;
        cache->slot[slot].gfn = NO_PAGE; /* once a seal */
    }
}

static bool map_one(struct foreign_rig *rig, uint64_t gfn)
{
    struct map_cache *cache = &rig->cache;
    uint64_t slot = gfn % CACHE_SLOTS;
    struct hv_foreign *foreign;

    if (hv_foreign_map(rig->mapper, &rig->memory, (hv_gfn){gfn}, 1, HV_FOREIGN_WRITE, &foreign)) {
        return false;
    }
    hv_mapper_enter(rig->mapper);
    cache->slot[slot].gfn = gfn;
    cache->slot[slot].generation = cache->generation;
    cache->slot[slot].page = hv_foreign_page(foreign, 0);
    attack(rig);
    hv_mapper_leave(rig->mapper);
    hv_foreign_unmap(foreign);
    return true;
}

static void begin_round(struct foreign_rig *rig, unsigned round)
{
    rig->round = round;
    rig->next = 0;
    rig->random = rig->load.seed + round;
}

/* The next page that is dirty in this round; false when there is none. */
static bool next_page(struct foreign_rig *rig, uint64_t *gfn_out)
{
    while (rig->next < rig->load.pages) {
        *gfn_out = rig->next++;
        if (next_random(&rig->random) % 100 < rounds[rig->round]) {
            return true;
        }
    }
    return false;
}

/* False when the run is over. */
static bool map_slice(struct foreign_rig *rig)
{
    for (unsigned i = 0; i < SLICE_PAGES; i++) {
        uint64_t gfn;

        while (!next_page(rig, &gfn)) {
            if (rig->round + 1 == HV_ARRAY_LEN(rounds)) {
                return false;
            }
            begin_round(rig, rig->round + 1);
        }
        if (!map_one(rig, gfn)) {
            hv_store_seq(&rig->failed, 1);
            return false;
        }
        rig->result.unmaps++;
        hv_store_relaxed(&rig->unmapped, gfn);
        if (rig->load.seal_every != 0 && rig->result.unmaps % rig->load.seal_every == 0) {
            hv_add_seq(&rig->seals_wanted, 1);
            hv_doorbell_ring(&rig->owner.bell, HV_REQUEST_EVENT);
        }
    }
    return true;
}

/* ---- a run ---- */

static bool build(struct foreign_rig *rig, const struct hv_foreign_strategy *strategy)
{
    const struct hv_arena_config arena = {HV_BACKING_KIND_NONE, rig->load.pages * HV_PAGE_SIZE};
    const struct hv_mapper_config mapper = {"bench mapper", forget, &rig->cache};

    rig->cache.generation = 1;
    hv_store_seq(&rig->sealed, NO_PAGE);
    hv_eventcount_init(&rig->turned);
    if (hv_arena_create(&arena, &rig->arena) || hv_arena_set_strategy(rig->arena, strategy) ||
        hv_memory_init(&rig->memory, rig->arena, OWNER, arena.bytes, &hooks, rig) ||
        hv_memory_add_ram(&rig->memory, (hv_gfn){0}, rig->load.pages) ||
        hv_mapper_create(rig->arena, &mapper, &rig->mapper) ||
        hv_foreign_grant(rig->mapper, &rig->memory, HV_FOREIGN_WRITE)) {
        return false;
    }
    for (uint64_t gfn = 0; gfn < rig->load.pages; gfn += HV_EXTENT_FRAMES) {
        struct hv_leaf leaf;

        if (hv_memory_fill(&rig->memory, (hv_gfn){gfn}, &leaf)) {
            return false;
        }
    }
    rig->owner = (struct owner){.random = rig->load.seed};
    hv_doorbell_init(&rig->owner.bell);
    hv_holder_init(&rig->owner.holder, &rig->owner.bell, "bench vCPU", 0);
    hv_memory_add_holder(&rig->memory, 0, &rig->owner.holder);
    begin_round(rig, 0);
    return true;
}

static void close_memory(struct hv_memory *memory)
{
    while (hv_memory_relinquish(memory, HV_EXTENT_FRAMES) == -EAGAIN) {
    }
    hv_memory_finish(memory);
}

/* As far as it was built. */
static void tear_down(struct foreign_rig *rig)
{
    hv_mapper_destroy(rig->mapper);
    if (rig->memory.arena) {
        close_memory(&rig->memory);
    }
    hv_arena_destroy(rig->arena);
    free(rig);
}

static void count_flushes(struct foreign_rig *rig)
{
    const struct hv_flush_counters *of[] = {&rig->memory.flushes, &rig->arena->unmap_flushes};

    for (size_t i = 0; i < HV_ARRAY_LEN(of); i++) {
        rig->result.issued += hv_load_relaxed(&of[i]->issued);
        rig->result.filtered += hv_load_relaxed(&of[i]->filtered);
        rig->result.waited += hv_load_relaxed(&of[i]->waited);
    }
    rig->result.seals = rig->owner.seals;
}

struct foreign_rig *foreign_open(const struct foreign_load *load,
                                 const struct hv_foreign_strategy *strategy)
{
    struct foreign_rig *rig = aligned_alloc(HV_CACHE_LINE, sizeof(*rig));

    if (!rig) {
        return NULL;
    }
    memset(rig, 0, sizeof(*rig));
    rig->load = *load;
    if (!build(rig, strategy)) {
        tear_down(rig);
        return NULL;
    }
    bench_thread_start(&rig->vcpu, owner_main, rig);
    for (unsigned i = 0; i < load->holders; i++) {
        bench_thread_start(&rig->holder[i], holder_main, rig);
    }
    return rig;
}

size_t foreign_slices(const struct foreign_load *load)
{
    uint64_t pages = 0;

    for (unsigned i = 0; i < HV_ARRAY_LEN(rounds); i++) {
        /* By chance some more, if they are few. */
        pages += load->pages * rounds[i] / 50 + 1;
    }
    return pages / SLICE_PAGES + 1;
}

bool foreign_step(struct foreign_rig *rig, struct foreign_slice *slice_out)
{
    double wall, cpu;
    bool more;

    hv_store_seq(&rig->running, 1);
    hv_eventcount_signal(&rig->turned);
    while (hv_load_seq(&rig->present) < rig->load.holders && !hv_load_seq(&rig->failed)) {
        sched_yield();
    }
    wall = bench_wall_ns();
    cpu = bench_thread_ns();
    more = map_slice(rig);
    slice_out->cpu_ns = bench_thread_ns() - cpu;
    slice_out->wall_ns = bench_wall_ns() - wall;
    rig->result.cpu_ns += slice_out->cpu_ns;
    rig->result.wall_ns += slice_out->wall_ns;
    /* What it still has to do must not fall into another rig's turn. */
    while (hv_load_seq(&rig->owner.tried) < hv_load_seq(&rig->seals_wanted)) {
        sched_yield();
    }
    hv_store_seq(&rig->running, 0);
    return more;
}

bool foreign_close(struct foreign_rig *rig, struct foreign_result *result_out)
{
    bool good;

    hv_store_seq(&rig->stop, 1);
    hv_eventcount_signal(&rig->turned);
    hv_doorbell_ring(&rig->owner.bell, HV_REQUEST_STOP);
    pthread_join(rig->vcpu, NULL);
    for (unsigned i = 0; i < rig->load.holders; i++) {
        pthread_join(rig->holder[i], NULL);
    }
    count_flushes(rig);
    good = !hv_load_seq(&rig->failed);
    *result_out = rig->result;
    tear_down(rig);
    return good;
}

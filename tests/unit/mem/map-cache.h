/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A mapper with a map cache: it keeps a page's pointer after it has unmapped the page, as a TLB keeps
 * an entry, until it is told to forget. And an owner that makes page tables of its pages.
 */
#pragma once

#include "unit/mem/mem-fixture.h"

struct map_cache {
    struct hv_mapper *mapper;
    bool pointer[FAKE_PAGES]; /* it could write the page */
};

static inline void map_cache_forget(void *context)
{
    struct map_cache *cache = context;

    memset(cache->pointer, 0, sizeof(cache->pointer));
}

/* May map all of @fixture's pages. */
static inline bool map_cache_open(struct map_cache *cache, struct fixture *fixture)
{
    const struct hv_mapper_config config = {"map cache", map_cache_forget, cache};

    map_cache_forget(cache);
    return hv_mapper_create(fixture->arena, &config, &cache->mapper) == 0 &&
           hv_foreign_grant(cache->mapper, &fixture->memory, HV_FOREIGN_WRITE) == 0;
}

/* Map the page, write it, unmap it. False when somebody has it in another use. */
static inline bool map_cache_use(struct map_cache *cache, struct fixture *fixture, hv_gfn gfn)
{
    struct hv_foreign *foreign;

    if (hv_foreign_map(cache->mapper, &fixture->memory, gfn, 1, HV_FOREIGN_WRITE, &foreign)) {
        return false;
    }
    hv_mapper_enter(cache->mapper);
    cache->pointer[gfn.v] = hv_foreign_page(foreign, 0) != NULL;
    hv_mapper_leave(cache->mapper);
    hv_foreign_unmap(foreign);
    return true;
}

/* Could its next store go through a pointer that it still has? */
static inline bool map_cache_can_write(struct map_cache *cache, hv_gfn gfn)
{
    bool can;

    hv_mapper_enter(cache->mapper);
    can = cache->pointer[gfn.v];
    hv_mapper_leave(cache->mapper);
    return can;
}

/* Drop the leaf's type reference: the frame's stamp is of now, unless a mapper has the page. */
static inline void drop_leaf_type(struct fixture *fixture, hv_gfn gfn)
{
    hv_frame_type_put(fixture->arena, hv_p2m_lookup(&fixture->memory.p2m, gfn).mfn);
}

static inline int take_leaf_type(struct fixture *fixture, hv_gfn gfn, enum hv_frame_type type,
                                 unsigned reason)
{
    const struct hv_frame_access access = {.memory = &fixture->memory};

    return hv_frame_type_get(fixture->arena, hv_p2m_lookup(&fixture->memory.p2m, gfn).mfn, type,
                             reason, &access);
}

/* The leaf, which has no type reference, takes one of a page table. -EBUSY when a mapper has the
 * page. */
static inline int take_table(struct fixture *fixture, hv_gfn gfn)
{
    return take_leaf_type(fixture, gfn, HV_FRAME_TYPE_SEALED, HV_SEAL_PGTABLE);
}

static inline int make_table(struct fixture *fixture, hv_gfn gfn)
{
    drop_leaf_type(fixture, gfn);
    return take_table(fixture, gfn);
}

static inline int make_ram(struct fixture *fixture, hv_gfn gfn)
{
    drop_leaf_type(fixture, gfn);
    return take_leaf_type(fixture, gfn, HV_FRAME_TYPE_WRITABLE, 0);
}

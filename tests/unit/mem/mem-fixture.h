/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * An arena, a domain's memory and vCPUs with a TLB of one flag a guest page: what the tests of mem/
 * stand on. Single-threaded use unless a test says otherwise.
 */
#pragma once

#include "lib/tap.h"
#include "mem/foreign.h"
#include "mem/foreign-strategy-private.h"
#include "mem/heap-private.h"
#include "mem/memory-private.h"

#include <errno.h>
#include <string.h>

#define FAKE_PAGES 2048u

/* Release builds have no race points: a script cannot be played. */
static inline bool skip_script(void)
{
    if (!HV_CONFIG_RACE_POINTS) {
        tap_skip("this build has no race points");
    }
    return !HV_CONFIG_RACE_POINTS;
}

/* A vCPU: its TLB knows for each guest page whether it may be written, and as which frame. */
struct fake_vcpu {
    struct hv_memory *memory;
    struct hv_doorbell bell;
    struct hv_holder holder;
    hv_mfn writable[FAKE_PAGES]; /* HV_MFN_NONE: no entry */
};

static inline void fake_vcpu_clear(struct fake_vcpu *vcpu)
{
    for (unsigned i = 0; i < FAKE_PAGES; i++) {
        vcpu->writable[i] = HV_MFN_NONE;
    }
}

static inline void fake_vcpu_init(struct fake_vcpu *vcpu, struct hv_memory *memory, unsigned index)
{
    vcpu->memory = memory;
    hv_doorbell_init(&vcpu->bell);
    hv_holder_init(&vcpu->holder, &vcpu->bell, "fake vcpu", index);
    hv_memory_add_holder(memory, index, &vcpu->holder);
    fake_vcpu_clear(vcpu);
}

/* Flush for a reason of its own, as a guest's CR3 write does. */
static inline void fake_vcpu_flush(struct fake_vcpu *vcpu)
{
    uint64_t time = hv_holder_flush_begin(hv_arena_holders(vcpu->memory->arena));

    fake_vcpu_clear(vcpu);
    hv_holder_flushed(&vcpu->holder, time);
}

static inline void fake_vcpu_serve(struct fake_vcpu *vcpu)
{
    uint32_t requests = hv_doorbell_take(&vcpu->bell);

    if (requests & HV_REQUEST_FLUSH) {
        fake_vcpu_flush(vcpu);
    }
    hv_doorbell_acknowledge(&vcpu->bell);
}

/* Enter the guest; a TLB may be looked up between this and hv_doorbell_leave() only. */
static inline void fake_vcpu_enter(struct fake_vcpu *vcpu)
{
    hv_memory_mark_dirty(vcpu->memory, vcpu->holder.index);
    while (hv_doorbell_enter(&vcpu->bell) != 0) {
        fake_vcpu_serve(vcpu);
    }
}

/* IN_GUEST: have a writable entry for the page if the p2m allows it. */
static inline bool fake_vcpu_fill(struct fake_vcpu *vcpu, hv_gfn gfn)
{
    struct hv_leaf leaf = hv_p2m_lookup(&vcpu->memory->p2m, gfn);

    if (leaf.kind == HV_LEAF_RAM) {
        vcpu->writable[gfn.v] = leaf.mfn;
    }
    return leaf.kind == HV_LEAF_RAM;
}

/* Could its next instruction write the page through an entry it still has? */
static inline bool fake_vcpu_can_write(struct fake_vcpu *vcpu, hv_gfn gfn)
{
    bool can;

    fake_vcpu_enter(vcpu);
    can = vcpu->writable[gfn.v].v != HV_MFN_NONE.v;
    hv_doorbell_leave(&vcpu->bell);
    return can;
}

/* How stale translations of mappers are dealt with in fixtures opened from here on. */
static const struct hv_foreign_strategy *fixture_strategy = &hv_foreign_taint;

/* Play @script once for each right strategy. */
static inline void each_strategy(void (*script)(void))
{
    for (unsigned i = 0; i < HV_FOREIGN_STRATEGIES && !tap_failed(); i++) {
        fixture_strategy = hv_foreign_strategies[i];
        script();
        if (tap_failed()) {
            tap_note("strategy %s", fixture_strategy->name);
        }
    }
    fixture_strategy = &hv_foreign_taint;
}

struct fixture {
    struct hv_arena *arena;
    struct hv_memory memory;
    struct fake_vcpu vcpu[2];
};

/* @extents of anonymous memory; the domain, id 7, claims @pages and has them as RAM from gfn 0. */
static inline bool fixture_open(struct fixture *fixture, uint64_t extents, uint64_t pages,
                                const struct hv_memory_hooks *hooks, void *context)
{
    const struct hv_arena_config config = {HV_BACKING_KIND_ANON, extents * HV_EXTENT_SIZE};

    memset(fixture, 0, sizeof(*fixture));
    if (hv_arena_create(&config, &fixture->arena) ||
        hv_arena_set_strategy(fixture->arena, fixture_strategy)) {
        return false;
    }
    if (hv_memory_init(&fixture->memory, fixture->arena, 7, pages * HV_PAGE_SIZE, hooks, context) ||
        hv_memory_add_ram(&fixture->memory, (hv_gfn){0}, pages)) {
        return false;
    }
    fake_vcpu_init(&fixture->vcpu[0], &fixture->memory, 0);
    fake_vcpu_init(&fixture->vcpu[1], &fixture->memory, 1);
    return true;
}

static inline void memory_close(struct hv_memory *memory)
{
    while (hv_memory_relinquish(memory, 1000) == -EAGAIN) {
    }
    hv_memory_finish(memory);
}

static inline void fixture_close(struct fixture *fixture)
{
    memory_close(&fixture->memory);
    hv_arena_destroy(fixture->arena);
}

static inline struct hv_heap_info fixture_info(const struct fixture *fixture)
{
    struct hv_heap_info info;

    hv_heap_get_info(fixture->arena->heap, &info);
    return info;
}

/* The frame behind a populated page. */
static inline struct hv_frame *fixture_frame(const struct fixture *fixture, hv_gfn gfn)
{
    return hv_arena_frame(fixture->arena, hv_p2m_lookup(&fixture->memory.p2m, gfn).mfn);
}

/* Populate the page; its frame's number, HV_MFN_NONE when that failed. */
static inline hv_mfn fixture_fill(struct fixture *fixture, hv_gfn gfn)
{
    struct hv_leaf leaf;

    return hv_memory_fill(&fixture->memory, gfn, &leaf) ? HV_MFN_NONE : leaf.mfn;
}

static inline void check_all_frames(struct hv_arena *arena)
{
    for (uint64_t i = 0; i < hv_arena_frames(arena); i++) {
        hv_frame_check(hv_arena_frame(arena, (hv_mfn){i}));
    }
}

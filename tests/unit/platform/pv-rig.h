/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A platform with memory, for the tests of what guests share with it. The guest's side of an area is
 * read and written here as a guest's CPU does, by its address.
 */
#pragma once

#include "unit/mem/mem-fixture.h"
#include "unit/platform/rig.h"

#include "base/bits.h"

#define PV_WALL    0x4b564d00u
#define PV_CLOCK   0x4b564d01u
#define PV_STEAL   0x4b564d03u
#define PV_EOI     0x4b564d04u
#define PV_POLL    0x4b564d05u
#define PV_ALL     UINT32_C(0x01003ae9)
#define PV_ON      UINT64_C(1)

/* Pages with a meaning; the RAM ends at PV_RAM_END. */
#define PV_DEVICE  UINT64_C(0x5000)
#define PV_RAM_END HV_EXTENT_SIZE

static struct fixture pv_memory;

/** A new platform that shows @features, on new memory. NULL when that failed. */
static inline struct rig *pv_rig_new(uint32_t features)
{
    static bool made;
    struct rig *rig;

    if (made) {
        /* The rig lets its areas go. */
        rig_pv_features = 0;
        rig_memory = NULL;
        (void)rig_new();
        fixture_close(&pv_memory);
    }
    made = fixture_open(&pv_memory, 1, HV_EXTENT_FRAMES, NULL, NULL) &&
           hv_memory_set_kind(&pv_memory.memory, (hv_gfn){PV_DEVICE >> HV_PAGE_SHIFT}, 1,
                              HV_LEAF_MMIO) == 0;
    rig_pv_features = features;
    rig_memory = &pv_memory.memory;
    rig = rig_new();
    return made ? rig : NULL;
}

static inline uint64_t pv_peek(uint64_t gpa, unsigned bytes)
{
    uint64_t value = 0;

    if (hv_memory_copy(&pv_memory.memory, (hv_gpa){gpa}, &value, bytes, HV_COPY_FROM_GUEST)) {
        tap_fail(__FILE__, __LINE__, "no memory at %#" PRIx64, gpa);
    }
    return value;
}

static inline void pv_poke(uint64_t gpa, unsigned bytes, uint64_t value)
{
    if (hv_memory_copy(&pv_memory.memory, (hv_gpa){gpa}, &value, bytes, HV_COPY_TO_GUEST)) {
        tap_fail(__FILE__, __LINE__, "no memory at %#" PRIx64, gpa);
    }
}

static inline int pv_wrmsr(struct rig *rig, unsigned vcpu, uint32_t index, uint64_t value)
{
    return hv_platform_msr_write(&rig->platform, vcpu, index, value);
}

static inline uint64_t pv_rdmsr(struct rig *rig, unsigned vcpu, uint32_t index)
{
    uint64_t value = 0;
    int rc = hv_platform_msr_read(&rig->platform, vcpu, index, &value);

    return rc == 0 ? value : UINT64_MAX - (uint64_t)(rc == HV_FAULTED);
}

/** What a run loop does before the guest goes on. */
static inline int pv_settle(struct rig *rig, unsigned vcpu)
{
    return hv_pv_settle(&rig->platform.pv, vcpu, 0);
}

/** WRMSR, and what follows it. */
static inline bool pv_register(struct rig *rig, unsigned vcpu, uint32_t index, uint64_t value)
{
    return pv_wrmsr(rig, vcpu, index, value) == 0 && pv_settle(rig, vcpu) == 0;
}

static inline uint64_t pv_refused(const struct rig *rig, unsigned vcpu)
{
    return hv_load_relaxed(&rig->platform.pv.vcpu[vcpu].counters.areas_refused);
}

static inline bool pv_page_pinned(uint64_t gpa)
{
    struct hv_leaf leaf = hv_p2m_lookup(&pv_memory.memory.p2m, (hv_gfn){gpa >> HV_PAGE_SHIFT});

    return hv_leaf_has_frame(leaf) && hv_frame_pinned(hv_arena_frame(pv_memory.arena, leaf.mfn));
}

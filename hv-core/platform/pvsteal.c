/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Steal time's area: see pvsteal.h. */
#include "platform/pvsteal.h"

#include "sync/race.h"

enum pvsteal_offset {
    PVSTEAL_STEAL = 0,
    PVSTEAL_VERSION = 8,
    PVSTEAL_PREEMPTED = 16,
};

enum pvsteal_preempted {
    PVSTEAL_IS_PREEMPTED = 1u << 0,
    PVSTEAL_FLUSH_TLB = 1u << 1,
};

int hv_pvsteal_register(struct hv_pvsteal *steal, struct hv_memory *memory, hv_gpa gpa)
{
    int err;

    hv_pvsteal_unregister(steal);
    err = hv_area_pin(&steal->area, memory, gpa, HV_PVSTEAL_BYTES);
    if (!err) {
        steal->version = hv_area_load4(&steal->area, PVSTEAL_VERSION) & ~1u;
    }
    return err;
}

void hv_pvsteal_unregister(struct hv_pvsteal *steal)
{
    hv_area_unpin(&steal->area);
}

static void pvsteal_count(struct hv_pvsteal *steal, uint64_t ready_ns)
{
    if (!steal->resumed) {
        steal->steal_ns += ready_ns - steal->counted_ns;
    }
    steal->counted_ns = ready_ns;
    steal->resumed = false;
}

bool hv_pvsteal_enter(struct hv_pvsteal *steal, uint64_t ready_ns)
{
    const struct hv_area *area = &steal->area;

    pvsteal_count(steal, ready_ns);
    if (!hv_area_pinned(area)) {
        return false;
    }
    hv_area_store4(area, PVSTEAL_VERSION, steal->version + 1);
    HV_RACE("pvsteal.enter.odd");
    hv_area_store8(area, PVSTEAL_STEAL, steal->steal_ns);
    steal->version += 2;
    hv_area_store4(area, PVSTEAL_VERSION, steal->version);
    /* In one step: a vCPU that asked for a flush before it is served, one that asks after it finds
     * that we run, and sends an interrupt. */
    return hv_area_swap1(area, PVSTEAL_PREEMPTED, 0) & PVSTEAL_FLUSH_TLB;
}

void hv_pvsteal_leave(struct hv_pvsteal *steal)
{
    if (hv_area_pinned(&steal->area)) {
        hv_area_store1(&steal->area, PVSTEAL_PREEMPTED, PVSTEAL_IS_PREEMPTED);
    }
}

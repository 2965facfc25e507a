/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Pinning areas shared with the guest: see area.h. */
#include "mem/area.h"

#include <errno.h>

#include "base/bits.h"
#include "mem/memory-private.h"
#include "sync/race.h"

bool hv_area_possible(const struct hv_memory *memory, hv_gpa gpa, unsigned bytes)
{
    struct hv_leaf leaf;

    if (bytes == 0 || hv_range_outside(hv_gpa_offset(gpa), bytes, HV_PAGE_SIZE)) {
        return false;
    }
    leaf = hv_p2m_lookup(&memory->p2m, hv_gpa_to_gfn(gpa));
    return leaf.kind == HV_LEAF_UNPOPULATED ||
           (hv_leaf_has_frame(leaf) && leaf.kind != HV_LEAF_ROM_OVER_RAM);
}

int hv_area_pin(struct hv_area *area, struct hv_memory *memory, hv_gpa gpa, unsigned bytes)
{
    const struct hv_frame_access access = {.memory = memory};
    hv_mfn mfn;
    int err;

    HV_ASSERT(!hv_area_pinned(area));
    if (!hv_area_possible(memory, gpa, bytes)) {
        return hv_memory_dying(memory) ? -ECANCELED : -EINVAL;
    }
    err = hv_memory_get_writable_page(memory, hv_gpa_to_gfn(gpa), false, &mfn);
    if (err) {
        return err == -ENOENT || err == -EPERM ? -EINVAL : err;
    }
    HV_RACE("area.pin.held");
    err = hv_frame_pin(memory->arena, mfn, &access);
    if (err == 0) {
        *area = (struct hv_area){
            .memory = memory,
            .host = (uint8_t *)hv_arena_host(memory->arena, mfn) + hv_gpa_offset(gpa),
            .mfn = mfn,
            .gfn = hv_gpa_to_gfn(gpa),
        };
    }
    hv_frame_type_put(memory->arena, mfn);
    hv_frame_put(memory->arena, mfn);
    return err;
}

void hv_area_unpin(struct hv_area *area)
{
    if (hv_area_pinned(area)) {
        hv_frame_unpin(area->memory->arena, area->mfn);
        *area = (struct hv_area){0};
    }
}

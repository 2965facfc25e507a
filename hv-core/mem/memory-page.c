/* SPDX-License-Identifier: GPL-3.0-or-later */
/* From a guest page to its frame, held: what copies and foreign mappings begin with. */
#include "mem/memory-private.h"

#include <errno.h>

#include "sync/race.h"

/* Returns 0 with a reference on the leaf's frame; -EAGAIN when the leaf changed in between. */
static int get_frame(struct hv_memory *memory, hv_gfn gfn, struct hv_leaf leaf)
{
    struct hv_leaf again;
    int err;

    HV_RACE("memory.page.looked-up");
    err = hv_frame_get(memory->arena, leaf.mfn, memory->owner);
    if (err) {
        return err == -ENOENT ? -EAGAIN : err;
    }
    /* With the reference the frame stays; but it may have gone and come back as another page. */
    again = hv_p2m_lookup(&memory->p2m, gfn);
    if (!hv_leaf_has_frame(again) || again.mfn.v != leaf.mfn.v) {
        hv_frame_put(memory->arena, leaf.mfn);
        return -EAGAIN;
    }
    return 0;
}

int hv_memory_get_page(struct hv_memory *memory, hv_gfn gfn, bool populate,
                       struct hv_leaf *leaf_out)
{
    int err;

    do {
        err = 0;
        *leaf_out = hv_p2m_lookup(&memory->p2m, gfn);
        /* Found or not: a long copy ends here when its domain is killed. */
        if (hv_memory_dying(memory)) {
            return -ECANCELED;
        }
        if (leaf_out->kind == HV_LEAF_UNPOPULATED) {
            if (!populate) {
                return 0;
            }
            err = hv_memory_fill(memory, gfn, leaf_out);
        }
        if (!err && !hv_leaf_has_frame(*leaf_out)) {
            return hv_memory_dying(memory) ? -ECANCELED : -ENOENT;
        }
        if (!err) {
            err = get_frame(memory, gfn, *leaf_out);
        }
    } while (err == -EAGAIN);
    return err;
}

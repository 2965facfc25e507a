/* SPDX-License-Identifier: GPL-3.0-or-later */
/* From a guest page to its frame, held: what copies and foreign mappings begin with. */
#include "mem/memory-private.h"

#include <errno.h>

#include "mem/share.h"
#include "sync/race.h"

static uint16_t owner_of(const struct hv_memory *memory, struct hv_leaf leaf)
{
    return leaf.kind == HV_LEAF_SHARED ? HV_OWNER_SHARED : memory->owner;
}

/* Returns 0 with a reference on the leaf's frame; -EAGAIN when the leaf changed in between. */
static int get_frame(struct hv_memory *memory, hv_gfn gfn, struct hv_leaf leaf)
{
    struct hv_leaf again;
    int err;

    HV_RACE("memory.page.looked-up");
    err = hv_frame_get(memory->arena, leaf.mfn, owner_of(memory, leaf));
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

/* Once the frame is had WRITABLE it is not shared any more: so this is looked at after that. */
static bool stands_as_ram(const struct hv_memory *memory, hv_gfn gfn, hv_mfn mfn)
{
    struct hv_leaf leaf = hv_p2m_lookup(&memory->p2m, gfn);

    return (leaf.kind == HV_LEAF_RAM || leaf.kind == HV_LEAF_RAM_RO) && leaf.mfn.v == mfn.v;
}

static int get_ram_type(struct hv_memory *memory, hv_gfn gfn, hv_mfn mfn,
                        const struct hv_frame_access *access)
{
    int err = hv_frame_type_get(memory->arena, mfn, HV_FRAME_TYPE_WRITABLE, 0, access);

    if (err != 0 && err != -EBUSY && err != -ENOENT) {
        return err;
    }
    if (err != -ENOENT && stands_as_ram(memory, gfn, mfn)) {
        return err;
    }
    /* It is being shared, or was, and what stands there now is a copy. */
    if (err == 0) {
        hv_frame_type_put(memory->arena, mfn);
    }
    return -EAGAIN;
}

/* One try; -EAGAIN when the page became another in between. */
static int get_writable(struct hv_memory *memory, hv_gfn gfn, bool foreign, hv_mfn *mfn_out)
{
    const struct hv_frame_access access = {.memory = memory, .foreign = foreign};
    struct hv_leaf leaf;
    int err = hv_memory_get_page(memory, gfn, true, &leaf);

    if (err) {
        return err;
    }
    *mfn_out = leaf.mfn;
    switch (leaf.kind) {
    case HV_LEAF_RAM:
    case HV_LEAF_RAM_RO:
        err = get_ram_type(memory, gfn, leaf.mfn, &access);
        break;
    case HV_LEAF_SHARED:
        err = -EAGAIN;
        break;
    case HV_LEAF_ROM_OVER_RAM:
    case HV_LEAF_HOLE:
    case HV_LEAF_MMIO:
    case HV_LEAF_ABSENT:
    case HV_LEAF_WINDOW:
    case HV_LEAF_UNPOPULATED:
        err = -EPERM;
        break;
    }
    if (err) {
        hv_frame_put(memory->arena, leaf.mfn);
    }
    return err;
}

int hv_memory_get_writable_page(struct hv_memory *memory, hv_gfn gfn, bool foreign, hv_mfn *mfn_out)
{
    int err;

    do {
        err = get_writable(memory, gfn, foreign, mfn_out);
        if (err == -EAGAIN) {
            int parted = hv_memory_unshare(memory, gfn);

            err = parted ? parted : err;
        }
    } while (err == -EAGAIN);
    return err;
}

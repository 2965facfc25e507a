/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Pages that stand in several places, of one memory or of many, until somebody stores to them.
 *
 *     RAM     {WRITABLE, 1}, owned by the memory
 *        --hv_memory_share-->  SHARED  {SEALED(COW), one reference a leaf}, of HV_OWNER_SHARED
 *     SHARED  --hv_memory_unshare, other leaves hold the frame-->  RAM, a copy of its own
 *     SHARED  --hv_memory_unshare, the last leaf-->  RAM, the same frame, taken over
 *
 * Invariants:
 *   (1) a shared frame's bytes never change: it is published to another leaf only after everybody
 *       who could write it has forgotten how (flush after the seal), and is WRITABLE again only when
 *       one leaf is left, and everybody's mappers have forgotten it too: they may know it from another
 *       leaf, though they only read;
 *   (2) a SHARED leaf keeps one frame of its memory's claim, so that to make the page one's own never
 *       fails for want of a claim. The shared frame itself is part of nobody's claim; sharing costs
 *       one claim more than not sharing until the copies are made, and saves host memory meanwhile;
 *   (3) a copy is whole before its leaf is published, and the shared frame is let go after every vCPU
 *       of the memory has forgotten it (D4);
 *   (4) blocks decoded from a SHARED page hold the leaf, not the frame: an engine's blocks are of one
 *       memory's page. They are revoked before the page becomes RAM, because a store to RAM does not
 *       ask for blocks. (So CODE does not stand beside COW in the frame's type.)
 *
 * A foreign mapping or a copy that reads a shared page holds the frame, and goes on reading it when
 * the page has become another's copy: what was stored since is not in it.
 *
 * Source: decisions D1, D4, D8; XSA-214 (a frame's type does not outlive its owner).
 */
#pragma once

#include "mem/memory.h"

/**
 * Have the page @to_gfn of @to, RAM never touched, show what stands at @gfn of @from, until either is
 * stored to. When there is nothing but zeros, because @gfn was never touched either, nothing happens.
 *
 * Returns 0; -ENOENT when there is no RAM at @gfn; -EEXIST when @to_gfn is not untouched RAM; -EBUSY
 * when @gfn is pinned, mapped for writing or being written; -ECANCELED when either is dying; -ENOMEM
 * when no frame can be claimed; -EOVERFLOW. @gfn may be shared with nobody afterwards, which its next
 * store mends.
 * Context: OUTSIDE, no lock held; waits as HV_RANK_FLUSH_WAIT. Both memories stay: the caller is
 * inside both, or no other thread knows them.
 */
HV_MUST_CHECK int hv_memory_share(struct hv_memory *from, hv_gfn gfn, struct hv_memory *to,
                                  hv_gfn to_gfn);

/**
 * Have a SHARED page for oneself, to store to it. 0 also when it is something else: look again.
 *
 * Returns 0; -ENOMEM when the host has no memory; -EBUSY when a hold on code there is not given up;
 * -ECANCELED when dying. Context: OUTSIDE, no lock held; waits as HV_RANK_FLUSH_WAIT.
 */
HV_MUST_CHECK int hv_memory_unshare(struct hv_memory *memory, hv_gfn gfn);

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The frame table: who owns each 4 KiB frame, how many refer to it, and as what it may be used.
 *
 *   type   63:60 type  59 VALIDATED  55 STAMPING  54 FTAINT  53 INUSE  52:50 seal reasons
 *          47:0  INUSE: type references;  STAMPING: token of the put;  else: stamp
 *   count  63 ALLOCATED  61:60 state  59 NEED_SCRUB  58 NEED_FLUSH  57:53 order  52:40 pins
 *          39:0 references
 *
 * Types exclude each other while referenced (decisions D1):
 *
 *     NONE      nobody uses it
 *     WRITABLE  may stand writable in a software TLB, a map cache, a KVM slot, a DMA descriptor
 *     SEALED    read-only for a reason: CODE (blocks are decoded from it), COW (shared), PGTABLE
 *
 *     {T,INUSE,n} --put--> {T,INUSE,n-1}
 *     {T,INUSE,1} --put--> {T,STAMPING,token} --the same put--> {T,stamp}
 *     {T,STAMPING|stamp} --get T--> {T,INUSE,1}                    no flush, VALIDATED kept
 *     {T,STAMPING|stamp} --get U--> {U,INUSE,1} --flush--> VALIDATED
 *                                   the flush only when T leaves what U must not see: writable
 *                                   entries, cached walks, shared mappings; never for CODE alone
 *     CODE alone is revocable: a get of WRITABLE invalidates the frame's blocks and succeeds.
 *
 * Invariants:
 *   (1) the reference is taken before the flush (only it stops others from re-creating the old
 *       mapping: XSA-401);
 *   (2) the flush is decided by the old type and its stamp (XSA-408, XSA-241);
 *   (3) a stamp is read from the flush clock after the last reference is dropped, and published
 *       only over the token of the same put (models/stamp-token.pml);
 *   (4) FTAINT is set by the CAS that takes a foreign reference and cleared only in the exclusive
 *       window after a flush of owner.dirty and every mapper (D3);
 *   (5) type and VALIDATED are wiped when a frame changes owner (XSA-214);
 *   (6) a frame is NEED_SCRUB from the free of a page that had an owner until the scrubber has
 *       zeroed it, and never assigned meanwhile;
 *   (7) pins count only while the type is WRITABLE and INUSE.
 *
 * A type is valid when that flush is done, and not before: who comes meanwhile waits. Nothing of a
 * page's contents is validated, because no engine trusts a guest's tables (D1); so there is no half
 * validated type to resume or to undo, as Xen's PGT_partial is.
 *
 * Source: decisions D1 to D4; Xen's page_info for the shape of the two words.
 */
#pragma once

#include "sync/atomic.h"

#include <hv/types.h>

enum hv_frame_type {
    HV_FRAME_TYPE_NONE,
    HV_FRAME_TYPE_WRITABLE,
    HV_FRAME_TYPE_SEALED,
};

enum hv_seal_reason {
    HV_SEAL_CODE = 1u << 0,
    HV_SEAL_COW = 1u << 1,
    HV_SEAL_PGTABLE = 1u << 2,
};

#define HV_FRAME_BIT(n)     (UINT64_C(1) << (n))
#define HV_FRAME_VALIDATED  HV_FRAME_BIT(59)
#define HV_FRAME_STAMPING   HV_FRAME_BIT(55)
#define HV_FRAME_FTAINT     HV_FRAME_BIT(54)
#define HV_FRAME_INUSE      HV_FRAME_BIT(53)
#define HV_FRAME_VALUE_MASK ((UINT64_C(1) << 48) - 1)

/* No domain: free, or the hypervisor's own. */
#define HV_OWNER_NONE       0xffffu
/* Several memories, none of which may write it (mem/share.h). No domain has that id. */
#define HV_OWNER_SHARED     0xfffeu

struct hv_frame {
    _Atomic uint64_t type;
    _Atomic uint64_t count;
    _Atomic uint64_t owner_gfn; /* 63:48 owner id + 1, 0 for none; 47:0 gfn */
    uint64_t spare;             /* keeps two entries to a cache line */
};
HV_STATIC_ASSERT(sizeof(struct hv_frame) == 32, "16.8 MB of table per 2 GiB of guest");

struct hv_arena;
struct hv_holder;
struct hv_memory;

/**
 * Take a general reference: the frame stays allocated and with its owner while it is held.
 *
 * Returns 0; -ENOENT when the frame is not allocated to @owner; -EOVERFLOW at the count's end.
 * Context: any thread, any lock.
 */
HV_MUST_CHECK int hv_frame_get(struct hv_arena *arena, hv_mfn mfn, uint16_t owner);

/** Drop a general reference; the last one frees the frame to its heap. Locks: HV_RANK_HEAP. */
void hv_frame_put(struct hv_arena *arena, hv_mfn mfn);

/** Whose flush, in case a change of type needs one, and who asks. */
struct hv_frame_access {
    struct hv_memory *memory; /* the owner's: its vCPUs' TLBs hold the old use */
    bool foreign;             /* the new use is another domain's or a mapper's: sets FTAINT */
    /* The calling vCPU's holder, not asked to flush: its thread drops its own entries of the frame
     * before it makes use of the new type. NULL: everybody is asked. */
    const struct hv_holder *self;
};

/**
 * Take a type reference, waiting for a flush when the old use may still be cached.
 *
 * @reason  for SEALED, one enum hv_seal_reason; else 0.
 *
 * The caller holds a general reference, or knows that a leaf's keeps the frame. A page sealed as
 * CODE alone gives way to WRITABLE by the owner's revoke_code hook.
 *
 * Returns 0; -EBUSY when another type is in use and not revocable; -ENOENT when the frame is not
 * the owner's; -EOVERFLOW.
 * Context: OUTSIDE guest mode (every host pointer from before is void, D4); may block as
 * HV_RANK_FLUSH_WAIT.
 */
HV_MUST_CHECK int hv_frame_type_get(struct hv_arena *arena, hv_mfn mfn, enum hv_frame_type type,
                                    unsigned reason, const struct hv_frame_access *access);

/**
 * Drop a type reference. The translation it stood for is already gone from its table.
 * Context: any thread, any lock; never blocks.
 */
void hv_frame_type_put(struct hv_arena *arena, hv_mfn mfn);

/** Hold WRITABLE for an area shared with the hypervisor, or for DMA (D1). Errors as type_get. */
HV_MUST_CHECK int hv_frame_pin(struct hv_arena *arena, hv_mfn mfn,
                               const struct hv_frame_access *access);
void hv_frame_unpin(struct hv_arena *arena, hv_mfn mfn);

enum hv_frame_type hv_frame_type(const struct hv_frame *frame);
unsigned hv_frame_reasons(const struct hv_frame *frame);
uint64_t hv_frame_references(const struct hv_frame *frame);
uint64_t hv_frame_type_references(const struct hv_frame *frame);
uint16_t hv_frame_owner(const struct hv_frame *frame);
hv_gfn hv_frame_gfn(const struct hv_frame *frame);
bool hv_frame_pinned(const struct hv_frame *frame);

/** Abort when one frame breaks an invariant (debug builds). Nobody else may touch it meanwhile. */
void hv_frame_check(const struct hv_frame *frame);

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The block cache of one domain: decoded blocks by physical address, and which 128-byte chunks of a
 * page hold code.
 *
 * A page's first block seals its frame as CODE (decisions D1): from then on every store to it takes
 * the slow path, asks here, and either misses all chunks or invalidates the blocks that overlap. A
 * page that holds no block any more is unsealed by the second store that finds none.
 *
 * Blocks are shared by the domain's vCPUs and read without a lock; insertion and removal hold
 * HV_RANK_CODE. A removed block's memory is reused only after every vCPU acknowledged
 * HV_REQUEST_CODE or was OUTSIDE (D4). The cache is capped at 16 MiB (D23): a full one loses its
 * oldest MiB.
 *
 * Source: Bochs' icache for 128-byte granularity; QEMU's tb-maint for the sealing of pages.
 */
#pragma once

#include "engine/soft/vcpu.h"

#define SOFT_CHUNK_BYTES 128u

/** An empty cache over @memory, which is borrowed. -ENOMEM. */
HV_MUST_CHECK int soft_code_create(struct hv_memory *memory, struct soft_code **code_out);
/** No vCPU runs any more: free a segment that blocks stood in. False when there is none. */
bool soft_code_shrink(struct soft_code *code);
/** No vCPU runs any more. NULL is accepted. */
void soft_code_destroy(struct soft_code *code);

/**
 * A store of @bytes at @gpa, inside one page that is sealed as CODE, was made: invalidate overlapping
 * blocks, of this and other vCPUs.
 *
 * @running  the vCPU that stores, or NULL for devices; when its own running block is hit, it leaves
 *           the block after the present instruction.
 *
 * Returns true when the page holds no code any more (and was unsealed).
 */
bool soft_code_store(struct soft_code *code, struct hv_engine_vcpu *running, hv_gpa gpa,
                     unsigned bytes);

/** Drop all blocks of a page: somebody wants it WRITABLE, or it leaves the p2m. */
void soft_code_revoke(struct soft_code *code, hv_gfn gfn);

/** Bytes in use, for statistics. */
uint64_t soft_code_bytes(const struct soft_code *code);

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Mappings of one domain's pages by an in-core worker of another: save and migration workers,
 * device threads, introspection (decisions D7). Granted by the core for each owner, typed, counted
 * by (owner, mapper), flushed by the `taint` rule: a frame ever mapped foreign is FTAINT, and its
 * next change of type flushes mappers, too.
 *
 * A pointer obtained here is a TLB entry of the mapper's holder: it is used only between
 * hv_mapper_enter() and hv_mapper_leave(), and good until the latter; or, where the mapper has a map
 * cache, until it is told to forget.
 */
#pragma once

#include "mem/memory.h"

#include <hv/teardown.h>

struct hv_mapper;  /* a thread with a map cache */
struct hv_foreign; /* one mapping */

enum hv_foreign_rights {
    HV_FOREIGN_READ = 1u << 0,
    HV_FOREIGN_WRITE = 1u << 1,
};

struct hv_mapper_config {
    const char *name; /* who it is to a zombie's reader, e.g. "migration worker 3"; copied */
    /**
     * The mapper keeps pointers from one enter to the next: forget them all. Called in
     * hv_mapper_enter(), where nothing may be mapped or unmapped. NULL: it keeps none.
     */
    void (*forget)(void *context);
    void *context;
};

/** A mapper without rights, OUTSIDE. -ENOMEM. */
HV_MUST_CHECK int hv_mapper_create(struct hv_arena *arena, const struct hv_mapper_config *config,
                                   struct hv_mapper **mapper_out);
/** All its mappings are gone. NULL is accepted. */
void hv_mapper_destroy(struct hv_mapper *mapper);

/** Begin and end using pointers; the former serves flush requests. The mapper's thread only. */
void hv_mapper_enter(struct hv_mapper *mapper);
void hv_mapper_leave(struct hv_mapper *mapper);

/** Between enter and leave: somebody may be waiting for a flush. Asked now and then, as vCPUs look
 *  at their doorbell at block edges; the answer to it is to leave. */
bool hv_mapper_is_asked(const struct hv_mapper *mapper);

/**
 * Let @mapper map pages of @memory, as @rights say; they replace earlier ones. The grant ends by
 * hv_foreign_revoke(), with the memory, or with the mapper.
 *
 * Returns 0; -EINVAL for rights of none or unknown ones; -ECANCELED when the memory is dying; -ENOMEM.
 * Context: who answers for both, that is the core: any thread, while both are there. Locks: HV_RANK_LEAF.
 */
HV_MUST_CHECK int hv_foreign_grant(struct hv_mapper *mapper, struct hv_memory *memory,
                                   unsigned rights);

/** No new mappings; what is mapped stays so until the mapper unmaps it. Context: as the grant. */
void hv_foreign_revoke(struct hv_mapper *mapper, const struct hv_memory *memory);

/**
 * Map @count pages of @memory from @first.
 *
 * Returns 0 and *foreign_out; -EINVAL for a count of 0 or over 512, or rights of none; -EPERM when
 * the mapper was not granted them all; -ECANCELED when the owner is dying; -ENOENT when some page is
 * no RAM; -EBUSY when one is sealed or ROM and WRITE is asked for (CODE gives way); -EOVERFLOW when
 * the owner is held too often; -ENOMEM. The owner's memory stays in its place until the mapper's last
 * unmap of it: it is held once by each mapper that has mappings, however many.
 * Context: the mapper's thread, not between enter and leave: it may wait for a flush, its own too.
 */
HV_MUST_CHECK int hv_foreign_map(struct hv_mapper *mapper, struct hv_memory *memory, hv_gfn first,
                                 size_t count, unsigned rights, struct hv_foreign **foreign_out);

/**
 * The host address of page @index; between enter and leave only. Who writes through it calls
 * hv_memory_note_write() after the store.
 */
void *hv_foreign_page(struct hv_foreign *foreign, size_t index);

/** Unmap and drop the references. NULL is accepted. Context: as hv_foreign_map(). */
void hv_foreign_unmap(struct hv_foreign *foreign);

/**
 * Who holds frames of @owner, for the reader of a zombie: "12 pages held by migration worker 3".
 *
 * Returns how many mappers do; at most @max are written to @holds. Locks: HV_RANK_LEAF.
 */
size_t hv_foreign_holds(struct hv_arena *arena, uint16_t owner, struct hv_foreign_hold *holds,
                        size_t max);

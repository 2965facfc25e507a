/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What `hv-bench foreign` measures: a machine whose pages a mapper maps, touches through its map
 * cache and unmaps, all of them and then the dirty ones, twice.
 *
 * Meanwhile holders stand IN_GUEST with caches of their own, and the owner's vCPU seals pages as
 * code: by turns the last one that was unmapped, and any. The mapper is malicious: whatever page is
 * sealed, it looks whether its cache would still let it write there. A store that would have gone
 * through is a violation.
 *
 * Frames are without memory, so that 14 GiB fit everywhere.
 */
#pragma once

#include "mem/foreign-strategy-private.h"

#define FOREIGN_HOLDERS_MAX 8u

struct foreign_load {
    uint64_t pages;
    unsigned holders;    /* at most FOREIGN_HOLDERS_MAX */
    uint64_t seal_every; /* pages unmapped between two seals; 0: none is sealed */
    uint64_t seed;
};

struct foreign_result {
    double wall_ns, cpu_ns; /* of the mapper's thread, over all its slices */
    uint64_t unmaps, violations, seals, issued, filtered, waited;
};

struct foreign_rig;

/** Make the machine and the threads around it, at rest. NULL when there is no memory for it. */
struct foreign_rig *foreign_open(const struct foreign_load *load,
                                 const struct hv_foreign_strategy *strategy);

/* At most so many slices make a run. */
size_t foreign_slices(const struct foreign_load *load);

struct foreign_slice {
    double wall_ns, cpu_ns; /* of the mapper's thread */
};

/** Map the next slice of pages, some milliseconds of work. False when it was the last one. */
bool foreign_step(struct foreign_rig *rig, struct foreign_slice *slice_out);

/** Returns false when something went wrong, and the result is of no use. */
bool foreign_close(struct foreign_rig *rig, struct foreign_result *result_out);

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Host memory behind 2 MiB slots of the arena (decisions D6).
 *
 *     memfd      shareable by descriptor, punched to give memory back
 *     anonymous  gets transparent huge pages, cannot be mapped elsewhere
 *     none       frames without memory, for benches of the frame table alone
 */
#pragma once

#include <hv/types.h>

enum hv_backing_kind {
    HV_BACKING_KIND_NONE,
    HV_BACKING_KIND_MEMFD,
    HV_BACKING_KIND_ANON,
};

struct hv_backing {
    enum hv_backing_kind kind;
    int fd; /* memfd only; else -1. Never leaves the core (D7). */
    uint64_t bytes;
};

/**
 * Open a backing of @bytes, a multiple of 2 MiB; no memory is used yet.
 *
 * Returns 0; -EINVAL for a size that is no multiple; -ENOMEM, -EMFILE from the host.
 */
HV_MUST_CHECK int hv_backing_open(struct hv_backing *backing, enum hv_backing_kind kind,
                                  uint64_t bytes);

/** Close. NULL and twice are accepted. Mappings made of it must be gone. */
void hv_backing_close(struct hv_backing *backing);

/** Map [offset, offset + bytes) of it over the reserved address @at. May block: no lock held. */
HV_MUST_CHECK int hv_backing_map(const struct hv_backing *backing, void *at, uint64_t offset,
                                 uint64_t bytes);

/** Make the host provide the pages now (MADV_POPULATE_WRITE). -ENOMEM when it cannot. May block. */
HV_MUST_CHECK int hv_backing_populate(const struct hv_backing *backing, void *at, uint64_t bytes);

/** Give the host its pages back; they read as zero afterwards. May block: no lock held. */
HV_MUST_CHECK int hv_backing_return(const struct hv_backing *backing, void *at, uint64_t offset,
                                    uint64_t bytes);

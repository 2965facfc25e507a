/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What an arena is made of. */
#pragma once

#include "mem/arena.h"
#include "mem/tlb-holder-private.h"

struct hv_foreign_mask;
struct hv_foreign_strategy;

struct hv_arena {
    /* Set at creation. */
    struct hv_backing backing;
    void *reserved; /* the mapping as the kernel gave it */
    uint64_t reserved_bytes;
    uint8_t *base; /* 2 MiB aligned inside it; NULL for frames without memory */
    struct hv_frame *frames;
    uint64_t frame_count;
    struct hv_heap *heap;
    struct hv_holders holders;
    const struct hv_foreign_strategy *strategy;
    struct hv_foreign_mask *masks;          /* owned; NULL unless the strategy keeps some */
    struct hv_flush_counters unmap_flushes; /* asked for by unmaps, if the strategy does so */
    /* A frame was VALIDATED. */
    struct hv_eventcount settled;
};

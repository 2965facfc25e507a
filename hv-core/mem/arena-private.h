/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What an arena is made of. */
#pragma once

#include "mem/arena.h"
#include "mem/tlb-holder-private.h"

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
    /* A frame was VALIDATED. */
    struct hv_eventcount settled;
};

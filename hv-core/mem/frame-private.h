/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The steps of the two words' protocols, apart, for those of mem/ that hold a lock between them (a
 * wait may not happen there) and for tests that script their interleavings.
 */
#pragma once

#include "mem/frame.h"

/* The count word. */
#define HV_FRAME_ALLOCATED  HV_FRAME_BIT(63)
#define HV_FRAME_NEED_SCRUB HV_FRAME_BIT(59)
#define HV_FRAME_NEED_FLUSH HV_FRAME_BIT(58)
#define HV_FRAME_PIN_SHIFT  40
#define HV_FRAME_PIN_MAX    UINT64_C(0x1fff)
#define HV_FRAME_REFS_MASK  ((UINT64_C(1) << HV_FRAME_PIN_SHIFT) - 1)
/* A frame that only its allocation refers to. */
#define HV_FRAME_COUNT_ONE  (HV_FRAME_ALLOCATED | 1)
/* A free frame that had an owner. */
#define HV_FRAME_COUNT_FREE (HV_FRAME_NEED_SCRUB | HV_FRAME_NEED_FLUSH)

/* How a type reference was come by, and so what is left to do. */
enum hv_frame_how {
    HV_FRAME_HOW_SHARED,  /* one more of a type in use: wait until it is VALIDATED */
    HV_FRAME_HOW_SAME,    /* 0 → 1 of the same type: nothing */
    HV_FRAME_HOW_CHANGED, /* 0 → 1 of another: flush by the old word, then set VALIDATED */
};

struct hv_frame_taken {
    enum hv_frame_how how;
    uint64_t old; /* the type word before */
};

/**
 * First half of a get: the reference. -EBUSY when another type is in use; -EOVERFLOW.
 * Context: any; never blocks.
 */
HV_MUST_CHECK int hv_frame_type_take(struct hv_frame *frame, enum hv_frame_type type,
                                     unsigned reason, bool foreign,
                                     struct hv_frame_taken *taken_out);

/** True when the second half may wait, and so must not happen under a lock. */
bool hv_frame_type_must_flush(const struct hv_frame_taken *taken);

/** Second half: the flush that the old use asks for, VALIDATED, or the wait for it. */
void hv_frame_type_settle(struct hv_arena *arena, struct hv_frame *frame,
                          const struct hv_frame_taken *taken, const struct hv_frame_access *access);

/**
 * First half of a put: drop the reference.
 *
 * Returns 0, or the word {T, STAMPING, token} that hv_frame_type_stamp() must finish.
 */
HV_MUST_CHECK uint64_t hv_frame_type_release(struct hv_frame *frame);

/** Second half: the stamp, unless somebody took the frame over. */
void hv_frame_type_stamp(struct hv_arena *arena, struct hv_frame *frame, uint64_t stamping);

/** Drop a general reference; true when it was the last: the frame is to be given to the heap. */
HV_MUST_CHECK bool hv_frame_release(struct hv_frame *frame);

/** SEALED for nothing but CODE: gives way to WRITABLE. */
bool hv_frame_revocable(const struct hv_frame *frame);

/* For the heap: nobody else can reach the frame. */

/** Give a free, zero frame to @owner, holding the allocation's reference. */
void hv_frame_assign(struct hv_frame *frame, uint16_t owner);
/** Wipe owner and type of a frame whose last reference went (invariant 5). */
void hv_frame_wipe(struct hv_frame *frame);

/** Another owner, while the frame is allocated: to who shares it, or back to a domain. Whoever held it
 * by its former owner's name may have it still. */
void hv_frame_give(struct hv_frame *frame, uint16_t owner, hv_gfn gfn);

/** For the p2m: the fresh frame stands at @gfn as RAM, with the leaf's WRITABLE reference. */
void hv_frame_become_ram(struct hv_frame *frame, uint16_t owner, hv_gfn gfn);

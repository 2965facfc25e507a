/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Sleeping on a word of memory. Every wait is a loop around the caller's own condition: it may end
 * for nothing (a signal, a word that moved and came back, a wake meant for the word's last use).
 */
#pragma once

#include <hv/types.h>

/**
 * Sleep while *word is @expected, until woken or @deadline by CLOCK_MONOTONIC (HV_NS_NEVER: no
 * end). The compare and the falling asleep are one step against hv_futex_wake().
 */
void hv_futex_wait(_Atomic uint32_t *word, uint32_t expected, hv_ns deadline);

/** Wake up to @count sleepers on the word. It may have been freed by then: only its address is
 *  used. */
void hv_futex_wake(_Atomic uint32_t *word, uint32_t count);

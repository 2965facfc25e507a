/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Atomic access by named order, on the variable itself.
 *
 * There are no free-standing fences here on purpose: ThreadSanitizer (gcc 12, clang 14) reports a
 * correct fence-based publication as a race. Each use says what it pairs with.
 */
#pragma once

#include <stdatomic.h>

#define hv_load_relaxed(object)         atomic_load_explicit(object, memory_order_relaxed)
#define hv_load_acquire(object)         atomic_load_explicit(object, memory_order_acquire)
#define hv_load_seq(object)             atomic_load_explicit(object, memory_order_seq_cst)

#define hv_store_relaxed(object, value) atomic_store_explicit(object, value, memory_order_relaxed)
#define hv_store_release(object, value) atomic_store_explicit(object, value, memory_order_release)
#define hv_store_seq(object, value)     atomic_store_explicit(object, value, memory_order_seq_cst)

#define hv_swap_seq(object, value)      atomic_exchange_explicit(object, value, memory_order_seq_cst)
#define hv_add_relaxed(object, value)   atomic_fetch_add_explicit(object, value, memory_order_relaxed)
#define hv_add_seq(object, value)       atomic_fetch_add_explicit(object, value, memory_order_seq_cst)
#define hv_sub_seq(object, value)       atomic_fetch_sub_explicit(object, value, memory_order_seq_cst)
#define hv_or_seq(object, value)        atomic_fetch_or_explicit(object, value, memory_order_seq_cst)
#define hv_and_seq(object, value)       atomic_fetch_and_explicit(object, value, memory_order_seq_cst)

/* Both update *expected with what was found when they fail. The weak one may fail for nothing. */
#define hv_cas_seq(object, expected, value)                                                \
    atomic_compare_exchange_strong_explicit(object, expected, value, memory_order_seq_cst, \
                                            memory_order_seq_cst)
#define hv_cas_weak_seq(object, expected, value)                                         \
    atomic_compare_exchange_weak_explicit(object, expected, value, memory_order_seq_cst, \
                                          memory_order_seq_cst)

/* A counter with one writer (or a lock around its writers) that anybody may read. */
#define hv_count(object, more) hv_store_relaxed(object, hv_load_relaxed(object) + (more))

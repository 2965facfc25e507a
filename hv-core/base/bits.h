/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Bit fields of registers, checked arithmetic on sizes, unaligned little-endian access. */
#pragma once

#include <hv/types.h>

#include <string.h>

#define HV_BIT(n) (UINT64_C(1) << (n))

/** Bits [low, low + width) of @value, shifted down. @width is 1 to 63. */
static inline uint64_t hv_bits(uint64_t value, unsigned low, unsigned width)
{
    return (value >> low) & ((UINT64_C(1) << width) - 1);
}

/** A mask of the low @bytes bytes; 8 and more give all ones. */
static inline uint64_t hv_bytes_mask(unsigned bytes)
{
    return bytes >= 8 ? UINT64_MAX : (UINT64_C(1) << (bytes * 8)) - 1;
}

/** The @bytes (1 to 8) bytes of @value from byte @offset (0 to 7) on. */
static inline uint64_t hv_bytes_get(uint64_t value, uint64_t offset, unsigned bytes)
{
    return value >> offset * 8 & hv_bytes_mask(bytes);
}

/** @value with its @bytes (1 to 8) bytes from byte @offset (0 to 7) on taken from @part's low ones. */
static inline uint64_t hv_bytes_put(uint64_t value, uint64_t offset, unsigned bytes, uint64_t part)
{
    uint64_t mask = hv_bytes_mask(bytes) << offset * 8;

    return (value & ~mask) | (part << offset * 8 & mask);
}

static inline bool hv_add_overflows(uint64_t a, uint64_t b, uint64_t *sum_out)
{
    return __builtin_add_overflow(a, b, sum_out);
}

/** True when [start, start + length) is not inside [0, limit). No overflow. */
static inline bool hv_range_outside(uint64_t start, uint64_t length, uint64_t limit)
{
    return start > limit || length > limit - start;
}

static inline uint64_t hv_align_up(uint64_t value, uint64_t power_of_two)
{
    return (value + power_of_two - 1) & ~(power_of_two - 1);
}

/** Read @bytes (1 to 8) little-endian bytes at any alignment. */
static inline uint64_t hv_load_le(const void *from, unsigned bytes)
{
    uint64_t value = 0;

    memcpy(&value, from, bytes);
    return value;
}

/** Write the low @bytes (1 to 8) of @value, little-endian, at any alignment. */
static inline void hv_store_le(void *to, uint64_t value, unsigned bytes)
{
    memcpy(to, &value, bytes);
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Numbers of different spaces are different types.
 *
 *     guest virtual --segment, hv_gva--> linear --page walk--> hv_gpa --p2m--> hv_mfn (arena)
 *
 * A one-member struct travels in a register like the plain integer (checked on gcc 12 and clang 14
 * at -O2), so the distinction is kept in every build. Unwrap by `.v` where arithmetic is meant.
 * Ranges over them are half-open: [start, end), or start + length.
 */
#pragma once

#include <hv/compiler.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HV_PAGE_SHIFT    12
#define HV_PAGE_SIZE     ((uint64_t)1 << HV_PAGE_SHIFT)
#define HV_PAGE_MASK     (~(HV_PAGE_SIZE - 1))
#define HV_EXTENT_SHIFT  21
#define HV_EXTENT_SIZE   ((uint64_t)1 << HV_EXTENT_SHIFT)
/* Frames in a 2 MiB extent, the unit in which the arena is managed. */
#define HV_EXTENT_FRAMES ((uint64_t)1 << (HV_EXTENT_SHIFT - HV_PAGE_SHIFT))

#define HV_KIB           ((uint64_t)1 << 10)
#define HV_MIB           ((uint64_t)1 << 20)
#define HV_GIB           ((uint64_t)1 << 30)

/* Most vCPUs a domain may have; bit arrays over vCPUs are one word. */
#define HV_MAX_VCPUS     64u

/* Guest linear address: after segmentation, before paging. */
typedef struct {
    uint64_t v;
} hv_gva;

/* Guest physical address, in bytes. */
typedef struct {
    uint64_t v;
} hv_gpa;

/* Guest frame number: a guest physical address in pages. */
typedef struct {
    uint64_t v;
} hv_gfn;

/* Machine frame number: an index into the arena's frame table. Never shown to a guest. */
typedef struct {
    uint64_t v;
} hv_mfn;

/* A moment on, or a span of, the hypervisor's monotonic clock, in nanoseconds. */
typedef struct {
    uint64_t v;
} hv_ns;

/* The name of a domain, of one core, for ever: no other will have it. 63:16 generation, 15:0 id. */
typedef struct {
    uint64_t v;
} hv_handle;

/* A domain that never is. */
#define HV_HANDLE_NONE ((hv_handle){0})

#define HV_MFN_NONE    ((hv_mfn){UINT64_MAX})
/* A deadline that never comes. */
#define HV_NS_NEVER    ((hv_ns){UINT64_MAX})

#define HV_NS_PER_US   ((uint64_t)1000)
#define HV_NS_PER_MS   ((uint64_t)1000000)
#define HV_NS_PER_S    ((uint64_t)1000000000)

static inline hv_gfn hv_gpa_to_gfn(hv_gpa gpa)
{
    return (hv_gfn){gpa.v >> HV_PAGE_SHIFT};
}

static inline hv_gpa hv_gfn_to_gpa(hv_gfn gfn)
{
    return (hv_gpa){gfn.v << HV_PAGE_SHIFT};
}

static inline uint64_t hv_gpa_offset(hv_gpa gpa)
{
    return gpa.v & (HV_PAGE_SIZE - 1);
}

static inline hv_ns hv_ns_add(hv_ns moment, uint64_t span_ns)
{
    uint64_t sum = moment.v + span_ns;

    return sum < moment.v ? HV_NS_NEVER : (hv_ns){sum};
}

static inline bool hv_ns_before(hv_ns a, hv_ns b)
{
    return a.v < b.v;
}

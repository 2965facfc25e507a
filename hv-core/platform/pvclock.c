/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The guest clock's areas: see pvclock.h. */
#include "platform/pvclock.h"

#include <errno.h>

#include "sync/race.h"

enum pvclock_offset {
    PVCLOCK_VERSION = 0,
    PVCLOCK_TSC_TIMESTAMP = 8,
    PVCLOCK_SYSTEM_TIME = 16,
    PVCLOCK_MUL = 24,
    PVCLOCK_SHIFT_FLAGS = 28, /* two bytes, and two that are reserved */
};

enum pvclock_flag {
    PVCLOCK_TSC_STABLE = 1u << 0,
    PVCLOCK_GUEST_STOPPED = 1u << 1, /* cleared by the guest */
};

#define PVCLOCK_FLAGS_SHIFT 8

/* The counter that guest TSCs are offsets to; hv_platform_tsc(). */
static uint64_t pvclock_tsc(const struct hv_pvclock *pvclock)
{
    return hv_clock_now(pvclock->clock).v;
}

/* The guest's time at the moment of @tsc. The one place where the two are brought together. */
static uint64_t pvclock_time(const struct hv_pvclock *pvclock, uint64_t tsc)
{
    (void)pvclock;
    return tsc;
}

/* ns = (ticks << shift) * mul / 2^32, with the top bit of mul set: as exact as 32 bits are. */
static void pvclock_set_rate(struct hv_pvclock *pvclock, uint64_t hz)
{
    uint64_t ns = HV_NS_PER_S;
    int shift = 0;

    /* First 1/2 <= ns / hz < 1. */
    while (ns >= hz) {
        hz <<= 1;
        shift++;
    }
    while (ns < hz - hz / 2) {
        ns <<= 1;
        shift--;
    }
    /* Both below 2^32 for the division. */
    while (hz > UINT32_MAX) {
        hz >>= 1;
        ns >>= 1;
    }
    pvclock->mul = (uint32_t)((ns << 32) / hz);
    pvclock->shift = (int8_t)shift;
}

void hv_pvclock_init(struct hv_pvclock *pvclock, const struct hv_clock *clock, uint64_t tsc_khz)
{
    *pvclock = (struct hv_pvclock){.clock = clock};
    pvclock_set_rate(pvclock, tsc_khz * 1000);
    hv_pvclock_rebase(pvclock);
}

void hv_pvclock_rebase(struct hv_pvclock *pvclock)
{
    pvclock->base_tsc = pvclock_tsc(pvclock);
    pvclock->base_ns = pvclock_time(pvclock, pvclock->base_tsc);
}

int hv_pvclock_register(struct hv_pvclock_area *area, struct hv_memory *memory, hv_gpa gpa)
{
    int err;

    hv_pvclock_unregister(area);
    if (gpa.v % 4 != 0) {
        return -EINVAL;
    }
    err = hv_area_pin(&area->area, memory, gpa, HV_PVCLOCK_BYTES);
    if (!err) {
        area->version = hv_area_load4(&area->area, PVCLOCK_VERSION) & ~1u;
    }
    return err;
}

void hv_pvclock_unregister(struct hv_pvclock_area *area)
{
    hv_area_unpin(&area->area);
}

void hv_pvclock_write(const struct hv_pvclock *pvclock, struct hv_pvclock_area *area,
                      uint64_t tsc_offset, bool stable, bool stopped)
{
    const struct hv_area *to = &area->area;
    uint32_t flags;

    if (!hv_area_pinned(to)) {
        return;
    }
    flags = hv_area_load4(to, PVCLOCK_SHIFT_FLAGS) >> PVCLOCK_FLAGS_SHIFT & PVCLOCK_GUEST_STOPPED;
    flags |= (stable ? PVCLOCK_TSC_STABLE : 0u) | (stopped ? PVCLOCK_GUEST_STOPPED : 0u);
    hv_area_store4(to, PVCLOCK_VERSION, area->version + 1);
    HV_RACE("pvclock.write.odd");
    hv_area_store8(to, PVCLOCK_TSC_TIMESTAMP, pvclock->base_tsc + tsc_offset);
    hv_area_store8(to, PVCLOCK_SYSTEM_TIME, pvclock->base_ns);
    hv_area_store4(to, PVCLOCK_MUL, pvclock->mul);
    hv_area_store4(to, PVCLOCK_SHIFT_FLAGS, (uint8_t)pvclock->shift | flags << PVCLOCK_FLAGS_SHIFT);
    area->version += 2;
    hv_area_store4(to, PVCLOCK_VERSION, area->version);
}

/* In three steps, as any other area: who reads meanwhile sees that it is odd. */
int hv_pvclock_write_wall(const struct hv_pvclock *pvclock, struct hv_memory *memory, hv_gpa gpa)
{
    uint64_t begun_ns =
        hv_clock_wall_ns(pvclock->clock) - pvclock_time(pvclock, pvclock_tsc(pvclock));
    uint32_t words[3] = {0, (uint32_t)(begun_ns / HV_NS_PER_S), (uint32_t)(begun_ns % HV_NS_PER_S)};
    uint32_t version;
    int err = gpa.v % 4 == 0 ? 0 : -EINVAL;

    if (!err) {
        err = hv_memory_copy(memory, gpa, &version, sizeof(version), HV_COPY_FROM_GUEST);
    }
    if (!err) {
        words[0] = (version & ~1u) + 1;
        err = hv_memory_copy(memory, gpa, words, sizeof(words), HV_COPY_TO_GUEST);
    }
    if (!err) {
        words[0]++;
        err = hv_memory_copy(memory, gpa, words, sizeof(words[0]), HV_COPY_TO_GUEST);
    }
    return err;
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The guest clock as a formula in guest memory: kvmclock. A guest reads its TSC and works out
 *
 *     time = system_time + ((tsc - tsc_timestamp) << tsc_shift) * tsc_to_system_mul / 2^32
 *
 * from an area of 32 bytes that each of its vCPUs has registered:
 *
 *      0  u32 version               odd while the rest is being written
 *      8  u64 tsc_timestamp
 *     16  u64 system_time
 *     24  u32 tsc_to_system_mul
 *     28  s8  tsc_shift
 *     29  u8  flags                 enum pvclock_flag
 *
 * All areas of a machine are written from one pair of a TSC and a time, the base, so that vCPUs of
 * equal TSCs agree to the bit; the flag TSC_STABLE says so, and is taken back when a guest sets one
 * vCPU's TSC apart from the others'.
 *
 * Threads: an area is its vCPU's thread's. The base changes while no vCPU runs.
 * Source: Linux, Documentation/virt/kvm/x86/msr.rst and asm/pvclock-abi.h.
 */
#pragma once

#include "base/clock.h"
#include "mem/area.h"

#define HV_PVCLOCK_BYTES      32u
#define HV_PVCLOCK_WALL_BYTES 12u

struct hv_pvclock {
    /* Set at creation. */
    const struct hv_clock *clock; /* borrowed */
    uint32_t mul;
    int8_t shift;
    /* The base; written while no vCPU runs. */
    uint64_t base_tsc, base_ns;
};

/* What one vCPU has registered. */
struct hv_pvclock_area {
    struct hv_area area;
    uint32_t version; /* what stands there now, even */
};

/** @tsc_khz  rate of the guest's TSC, of which the platform's counter is nanoseconds. */
void hv_pvclock_init(struct hv_pvclock *pvclock, const struct hv_clock *clock, uint64_t tsc_khz);

/** Take a new base: the guest's time has stood still, or was set. No vCPU runs. */
void hv_pvclock_rebase(struct hv_pvclock *pvclock);

/** Pin @gpa in place of what was registered before. Errors and context as hv_area_pin(). */
HV_MUST_CHECK int hv_pvclock_register(struct hv_pvclock_area *area, struct hv_memory *memory,
                                      hv_gpa gpa);
void hv_pvclock_unregister(struct hv_pvclock_area *area);

/**
 * Write the area, if there is one.
 *
 * @tsc_offset  of the vCPU's TSC to the platform's counter.
 * @stable      all vCPUs have the same.
 * @stopped     the machine stood still: the guest is not to think that it hung itself.
 */
void hv_pvclock_write(const struct hv_pvclock *pvclock, struct hv_pvclock_area *area,
                      uint64_t tsc_offset, bool stable, bool stopped);

/**
 * Write the wall clock's area at @gpa, once: u32 version, u32 seconds and u32 nanoseconds since 1970
 * when the guest's time was 0.
 *
 * Returns 0 or what hv_memory_copy() says, and -EINVAL for an address not aligned to 4. Context: as
 * hv_area_pin().
 */
HV_MUST_CHECK int hv_pvclock_write_wall(const struct hv_pvclock *pvclock, struct hv_memory *memory,
                                        hv_gpa gpa);

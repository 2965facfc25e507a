/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Port and memory I/O of one machine: which device answers at an address.
 *
 * The table is filled before the first vCPU runs and never changes after, so accesses take no lock;
 * each device guards its own registers. An address nobody claims goes to the space's fallback, if
 * it has one; else it reads as all ones and ignores writes. An access that straddles two ranges is
 * split by bytes. The parts of one that is split are one access to the engine: when a later one is
 * answered with -EAGAIN the earlier ones are made again. So a device whose answers come later
 * decodes accesses of all widths.
 */
#pragma once

#include <hv/types.h>

#include <stddef.h>

/* vCPU that makes the access; HV_BUS_NO_VCPU when it is none. */
#define HV_BUS_NO_VCPU UINT32_MAX

struct hv_bus_ops {
    /**
     * Read @bytes (1, 2, 4, 8) at @offset from the range's start.
     *
     * Returns 0 and *value_out, or -EAGAIN when the answer comes later: the vCPU leaves its engine,
     * and the instruction is restarted (decisions D9).
     */
    int (*read)(void *context, uint32_t vcpu, uint64_t offset, unsigned bytes, uint64_t *value_out);
    /** Write the low @bytes of @value. Returns 0 or -EAGAIN. */
    int (*write)(void *context, uint32_t vcpu, uint64_t offset, unsigned bytes, uint64_t value);
};

enum hv_bus_space {
    HV_BUS_PORT, /* 0 … 0xffff */
    HV_BUS_MMIO,
};

struct hv_bus_range {
    uint64_t start;
    uint64_t length;
    const struct hv_bus_ops *ops;
    void *context;
    const char *name;
    unsigned widest; /* widest access in bytes the device decodes, wider ones are split; 0: all */
};

#define HV_BUS_RANGES_MAX 64

struct hv_bus {
    struct hv_bus_range range[2][HV_BUS_RANGES_MAX]; /* by enum hv_bus_space, ascending */
    unsigned count[2];
    struct hv_bus_range fallback[2]; /* ops NULL: none */
};

/** No ranges, no fallback. There is nothing to finish. */
void hv_bus_init(struct hv_bus *bus);

/**
 * Let a device answer at [start, start + length).
 *
 * Returns 0; -EEXIST when it overlaps another; -EINVAL for an empty or wrapping range; -ENOSPC.
 * Before the first vCPU runs only.
 */
HV_MUST_CHECK int hv_bus_add(struct hv_bus *bus, enum hv_bus_space space,
                             const struct hv_bus_range *range);

/** Add @count ranges of one device, up to the first that fails. Errors and context as above. */
HV_MUST_CHECK int hv_bus_add_all(struct hv_bus *bus, enum hv_bus_space space,
                                 const struct hv_bus_range *ranges, size_t count);

/** For struct hv_bus_ops: nothing is read here (all ones, as where nobody answers)… */
int hv_bus_read_nothing(void *context, uint32_t vcpu, uint64_t offset, unsigned bytes,
                        uint64_t *value_out);
/** …and nothing happens when it is written. */
int hv_bus_write_nothing(void *context, uint32_t vcpu, uint64_t offset, unsigned bytes,
                         uint64_t value);

/**
 * Let a device answer where no range does, at addresses that it alone can tell: local APICs, whose
 * place is each vCPU's own. Offsets are addresses.
 */
void hv_bus_set_fallback(struct hv_bus *bus, enum hv_bus_space space, const struct hv_bus_ops *ops,
                         void *context, unsigned widest);

/**
 * An access of @bytes (1, 2, 4, 8) by @vcpu at [address, address + bytes). What lies behind the end
 * of the space is nobody's.
 *
 * Returns 0, with *value_out zero-extended; -EAGAIN as the device did (what came before it in a
 * split access is done). Context: no lock of rank >= DEVICE.
 */
HV_MUST_CHECK int hv_bus_read(const struct hv_bus *bus, enum hv_bus_space space, uint32_t vcpu,
                              uint64_t address, unsigned bytes, uint64_t *value_out);
HV_MUST_CHECK int hv_bus_write(const struct hv_bus *bus, enum hv_bus_space space, uint32_t vcpu,
                               uint64_t address, unsigned bytes, uint64_t value);

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Port and memory I/O: the sorted tables, and how an access finds its device. */
#include "platform/bus.h"

#include <errno.h>
#include <string.h>

#include "base/bits.h"

/* One past the last address of each space. */
static const uint64_t bus_limit[] = {
    [HV_BUS_PORT] = UINT64_C(1) << 16,
    [HV_BUS_MMIO] = UINT64_MAX,
};

void hv_bus_init(struct hv_bus *bus)
{
    memset(bus, 0, sizeof(*bus));
}

/* Index of the first range that ends behind @address. */
static unsigned bus_search(const struct hv_bus *bus, enum hv_bus_space space, uint64_t address)
{
    const struct hv_bus_range *ranges = bus->range[space];
    unsigned low = 0;
    unsigned high = bus->count[space];

    while (low < high) {
        unsigned middle = low + (high - low) / 2;

        if (address - ranges[middle].start < ranges[middle].length ||
            address < ranges[middle].start) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

/* The range that answers at @address, or NULL. */
static const struct hv_bus_range *bus_find(const struct hv_bus *bus, enum hv_bus_space space,
                                           uint64_t address)
{
    unsigned index = bus_search(bus, space, address);

    if (index < bus->count[space] && address >= bus->range[space][index].start) {
        return &bus->range[space][index];
    }
    return bus->fallback[space].ops ? &bus->fallback[space] : NULL;
}

void hv_bus_set_fallback(struct hv_bus *bus, enum hv_bus_space space, const struct hv_bus_ops *ops,
                         void *context, unsigned widest)
{
    bus->fallback[space] = (struct hv_bus_range){
        .length = UINT64_MAX,
        .ops = ops,
        .context = context,
        .name = "fallback",
        .widest = widest,
    };
}

int hv_bus_add(struct hv_bus *bus, enum hv_bus_space space, const struct hv_bus_range *range)
{
    struct hv_bus_range *ranges = bus->range[space];
    unsigned count = bus->count[space];
    unsigned index;

    if (range->length == 0 || hv_range_outside(range->start, range->length, bus_limit[space])) {
        return -EINVAL;
    }
    index = bus_search(bus, space, range->start);
    if (index < count && ranges[index].start < range->start + range->length) {
        return -EEXIST;
    }
    if (count == HV_BUS_RANGES_MAX) {
        return -ENOSPC;
    }
    memmove(&ranges[index + 1], &ranges[index], (count - index) * sizeof(*ranges));
    ranges[index] = *range;
    bus->count[space] = count + 1;
    return 0;
}

int hv_bus_add_all(struct hv_bus *bus, enum hv_bus_space space, const struct hv_bus_range *ranges,
                   size_t count)
{
    int error = 0;

    for (size_t i = 0; !error && i < count; i++) {
        error = hv_bus_add(bus, space, &ranges[i]);
    }
    return error;
}

int hv_bus_read_nothing(void *context, uint32_t vcpu, uint64_t offset, unsigned bytes,
                        uint64_t *value_out)
{
    (void)context;
    (void)vcpu;
    (void)offset;
    (void)bytes;
    *value_out = UINT64_MAX;
    return 0;
}

int hv_bus_write_nothing(void *context, uint32_t vcpu, uint64_t offset, unsigned bytes,
                         uint64_t value)
{
    (void)context;
    (void)vcpu;
    (void)offset;
    (void)bytes;
    (void)value;
    return 0;
}

/*
 * How many bytes one call may carry: all of the access, the widest that the device decodes, or one
 * when the access leaves the range that its first byte is in.
 */
static unsigned bus_step(const struct hv_bus_range *range, uint64_t address, unsigned bytes)
{
    if (!range || bytes > range->length - (address - range->start)) {
        return 1;
    }
    return range->widest && range->widest < bytes ? range->widest : bytes;
}

int hv_bus_read(const struct hv_bus *bus, enum hv_bus_space space, uint32_t vcpu, uint64_t address,
                unsigned bytes, uint64_t *value_out)
{
    unsigned step = bus_step(bus_find(bus, space, address), address, bytes);
    uint64_t value = 0;

    for (unsigned done = 0; done < bytes; done += step) {
        const struct hv_bus_range *range = bus_find(bus, space, address + done);
        uint64_t part = UINT64_MAX;

        if (range) {
            int error =
                range->ops->read(range->context, vcpu, address + done - range->start, step, &part);
            if (error) {
                *value_out = 0;
                return error;
            }
        }
        value |= (part & hv_bytes_mask(step)) << (done * 8);
    }
    *value_out = value;
    return 0;
}

int hv_bus_write(const struct hv_bus *bus, enum hv_bus_space space, uint32_t vcpu, uint64_t address,
                 unsigned bytes, uint64_t value)
{
    unsigned step = bus_step(bus_find(bus, space, address), address, bytes);

    for (unsigned done = 0; done < bytes; done += step) {
        const struct hv_bus_range *range = bus_find(bus, space, address + done);

        if (range) {
            int error = range->ops->write(range->context, vcpu, address + done - range->start, step,
                                          (value >> (done * 8)) & hv_bytes_mask(step));
            if (error) {
                return error;
            }
        }
    }
    return 0;
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Finding the device, overlaps, and accesses that are split. */
#include <errno.h>
#include <string.h>

#include "lib/tap.h"
#include "platform/bus.h"

/* A device that remembers its accesses and holds 16 bytes. */
struct memory_device {
    uint8_t byte[16];
    unsigned reads, writes;
    unsigned widest;
    uint32_t vcpu;
    bool busy;
};

static int memory_read(void *context, uint32_t vcpu, uint64_t offset, unsigned bytes,
                       uint64_t *value_out)
{
    struct memory_device *device = context;

    if (device->busy) {
        return -EAGAIN;
    }
    *value_out = 0;
    memcpy(value_out, device->byte + offset, bytes);
    *value_out |= bytes < 8 ? UINT64_MAX << bytes * 8 : 0; /* garbage above is cut off */
    device->reads++;
    device->vcpu = vcpu;
    device->widest = bytes > device->widest ? bytes : device->widest;
    return 0;
}

static int memory_write(void *context, uint32_t vcpu, uint64_t offset, unsigned bytes,
                        uint64_t value)
{
    struct memory_device *device = context;

    if (device->busy) {
        return -EAGAIN;
    }
    memcpy(device->byte + offset, &value, bytes);
    device->writes++;
    device->vcpu = vcpu;
    device->widest = bytes > device->widest ? bytes : device->widest;
    return 0;
}

static const struct hv_bus_ops memory_ops = {memory_read, memory_write};

static int add(struct hv_bus *bus, enum hv_bus_space space, uint64_t start, uint64_t length,
               struct memory_device *device, unsigned widest)
{
    const struct hv_bus_range range = {start, length, &memory_ops, device, "memory", widest};

    return hv_bus_add(bus, space, &range);
}

static void test_ranges(void)
{
    static const struct {
        uint64_t start, length;
        int want;
    } rows[] = {
        {0x100, 8, 0},
        {0x108, 8, 0},
        {0xf8, 8, 0},
        {0x100, 8, -EEXIST},
        {0x107, 1, -EEXIST},
        {0xf0, 9, -EEXIST},
        {0xf7, 0x20, -EEXIST},
        {0x10f, 2, -EEXIST},
        {0x200, 0, -EINVAL},
        {0xffff, 1, 0},
        {0xffff, 2, -EINVAL},
        {0x10000, 1, -EINVAL},
        {UINT64_MAX, 2, -EINVAL},
    };
    static struct memory_device device;
    static struct hv_bus bus;

    hv_bus_init(&bus);
    for (size_t i = 0; i < HV_ARRAY_LEN(rows); i++) {
        TAP_EQ(add(&bus, HV_BUS_PORT, rows[i].start, rows[i].length, &device, 0), rows[i].want);
    }
    TAP_EQ(bus.count[HV_BUS_PORT], 4);
    for (unsigned i = 1; i < bus.count[HV_BUS_PORT]; i++) {
        TAP_OK(bus.range[HV_BUS_PORT][i - 1].start < bus.range[HV_BUS_PORT][i].start);
    }
}

static void test_full(void)
{
    static struct memory_device device;
    static struct hv_bus bus;
    uint64_t value;

    hv_bus_init(&bus);
    /* Backwards, so that each goes before all others. */
    for (unsigned i = HV_BUS_RANGES_MAX; i > 0; i--) {
        TAP_EQ(add(&bus, HV_BUS_MMIO, i * 0x100, 16, &device, 0), 0);
    }
    TAP_EQ(add(&bus, HV_BUS_MMIO, 0x90000, 16, &device, 0), -ENOSPC);
    for (unsigned i = 1; i <= HV_BUS_RANGES_MAX; i++) {
        device.reads = 0;
        TAP_EQ(hv_bus_read(&bus, HV_BUS_MMIO, 3, i * 0x100 + 8, 8, &value), 0);
        TAP_EQ(hv_bus_read(&bus, HV_BUS_MMIO, 3, i * 0x100 + 16, 8, &value), 0);
        TAP_EQ(hv_bus_read(&bus, HV_BUS_MMIO, 3, i * 0x100 - 8, 8, &value), 0);
        TAP_EQ(value, UINT64_MAX);
        TAP_EQ(device.reads, 1);
        TAP_EQ(device.vcpu, 3);
    }
}

static void test_nobody(void)
{
    static struct hv_bus bus;
    uint64_t value;

    hv_bus_init(&bus);
    TAP_EQ(hv_bus_read(&bus, HV_BUS_PORT, 0, 0x80, 1, &value), 0);
    TAP_EQ(value, 0xff);
    TAP_EQ(hv_bus_read(&bus, HV_BUS_PORT, 0, 0xfffe, 4, &value), 0);
    TAP_EQ(value, UINT32_MAX);
    TAP_EQ(hv_bus_write(&bus, HV_BUS_MMIO, 0, UINT64_MAX - 3, 8, 1), 0);
}

static void test_widest(void)
{
    static struct memory_device device;
    static struct hv_bus bus;
    uint64_t value;

    memset(&device, 0, sizeof(device));
    hv_bus_init(&bus);
    TAP_EQ(add(&bus, HV_BUS_MMIO, 0x1000, 16, &device, 2), 0);
    TAP_EQ(hv_bus_write(&bus, HV_BUS_MMIO, 0, 0x1000, 8, 0x8877665544332211), 0);
    TAP_EQ(device.writes, 4);
    TAP_EQ(device.widest, 2);
    TAP_EQ(hv_bus_read(&bus, HV_BUS_MMIO, 0, 0x1000, 8, &value), 0);
    TAP_EQ(value, 0x8877665544332211);
    TAP_EQ(device.reads, 4);
    TAP_EQ(hv_bus_read(&bus, HV_BUS_MMIO, 0, 0x1007, 1, &value), 0);
    TAP_EQ(value, 0x88);
}

static void test_straddle(void)
{
    static struct memory_device low, high;
    static struct hv_bus bus;
    uint64_t value;

    memset(&low, 0, sizeof(low));
    memset(&high, 0, sizeof(high));
    hv_bus_init(&bus);
    TAP_EQ(add(&bus, HV_BUS_PORT, 0x10, 2, &low, 0), 0);
    TAP_EQ(add(&bus, HV_BUS_PORT, 0x13, 16, &high, 0), 0);
    /* 11h is the first's, 12h nobody's, 13h and 14h the second's. */
    TAP_EQ(hv_bus_write(&bus, HV_BUS_PORT, 0, 0x11, 4, 0x44332211), 0);
    TAP_EQ(low.byte[1], 0x11);
    TAP_EQ(high.byte[0], 0x33);
    TAP_EQ(high.byte[1], 0x44);
    TAP_EQ(low.widest, 1);
    TAP_EQ(high.widest, 1);
    TAP_EQ(hv_bus_read(&bus, HV_BUS_PORT, 0, 0x11, 4, &value), 0);
    TAP_EQ(value, 0x4433ff11);
    TAP_EQ(hv_bus_read(&bus, HV_BUS_PORT, 0, 0x12, 2, &value), 0);
    TAP_EQ(value, 0x33ff);
}

static void test_again(void)
{
    static struct memory_device device;
    static struct hv_bus bus;
    uint64_t value = 1;

    hv_bus_init(&bus);
    device.busy = true;
    TAP_EQ(add(&bus, HV_BUS_PORT, 0x10, 4, &device, 0), 0);
    TAP_EQ(hv_bus_read(&bus, HV_BUS_PORT, 0, 0x10, 4, &value), -EAGAIN);
    TAP_EQ(value, 0);
    TAP_EQ(hv_bus_write(&bus, HV_BUS_PORT, 0, 0x10, 4, 0), -EAGAIN);
}

static void test_fallback(void)
{
    static struct memory_device device, behind;
    static struct hv_bus bus;
    uint64_t value;

    memset(&behind, 0, sizeof(behind));
    hv_bus_init(&bus);
    TAP_EQ(add(&bus, HV_BUS_MMIO, 0x8, 4, &device, 0), 0);
    hv_bus_set_fallback(&bus, HV_BUS_MMIO, &memory_ops, &behind, 4);
    TAP_EQ(hv_bus_write(&bus, HV_BUS_MMIO, 7, 0, 8, UINT64_C(0x0807060504030201)), 0);
    TAP_EQ(behind.writes, 2);
    TAP_EQ(behind.vcpu, 7);
    TAP_EQ(hv_bus_read(&bus, HV_BUS_MMIO, 7, 4, 4, &value), 0);
    TAP_EQ(value, 0x08070605);
    behind.reads = 0;
    TAP_EQ(hv_bus_read(&bus, HV_BUS_MMIO, 7, 8, 4, &value), 0);
    TAP_EQ(behind.reads, 0);
}

/* The first that does not fit ends it; what was added before stays. */
static void test_add_all(void)
{
    static const struct hv_bus_ops nothing = {hv_bus_read_nothing, hv_bus_write_nothing};
    static struct memory_device device;
    static struct hv_bus bus;
    const struct hv_bus_range ranges[] = {
        {0x10, 4, &memory_ops, &device, "memory", 4},
        {0x20, 4, &nothing, NULL, "nothing", 4},
        {0x22, 4, &memory_ops, &device, "overlaps", 4},
        {0x30, 4, &memory_ops, &device, "behind", 4},
    };
    uint64_t value;

    hv_bus_init(&bus);
    TAP_EQ(hv_bus_add_all(&bus, HV_BUS_PORT, ranges, HV_ARRAY_LEN(ranges)), -EEXIST);
    TAP_EQ(bus.count[HV_BUS_PORT], 2);
    TAP_EQ(hv_bus_add_all(&bus, HV_BUS_MMIO, ranges, 2), 0);
    TAP_EQ(bus.count[HV_BUS_MMIO], 2);
    TAP_EQ(hv_bus_write(&bus, HV_BUS_PORT, 0, 0x20, 4, 5), 0);
    TAP_EQ(hv_bus_read(&bus, HV_BUS_PORT, 0, 0x20, 4, &value), 0);
    TAP_EQ(value, UINT32_MAX);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"platform.bus.ranges", test_ranges},     {"platform.bus.full", test_full},
        {"platform.bus.nobody", test_nobody},     {"platform.bus.widest", test_widest},
        {"platform.bus.straddle", test_straddle}, {"platform.bus.again", test_again},
        {"platform.bus.fallback", test_fallback}, {"platform.bus.add-all", test_add_all},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

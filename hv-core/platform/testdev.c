/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The devices of hypervisor test kernels. */
#include "platform/testdev.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/clock.h"

static int testdev_load(struct hv_testdev *testdev, const void *from, unsigned bytes,
                        uint64_t *value_out)
{
    hv_lock_take(&testdev->lock);
    *value_out = hv_load_le(from, bytes);
    hv_lock_drop(&testdev->lock);
    return 0;
}

static int testdev_store(struct hv_testdev *testdev, void *to, unsigned bytes, uint64_t value)
{
    hv_lock_take(&testdev->lock);
    hv_store_le(to, value, bytes);
    hv_lock_drop(&testdev->lock);
    return 0;
}

static int testdev_port_read(void *context, uint32_t vcpu, uint64_t offset, unsigned bytes,
                             uint64_t *value_out)
{
    struct hv_testdev *testdev = context;

    (void)vcpu;
    return testdev_load(testdev, (const uint8_t *)&testdev->port + offset, bytes, value_out);
}

static int testdev_port_write(void *context, uint32_t vcpu, uint64_t offset, unsigned bytes,
                              uint64_t value)
{
    struct hv_testdev *testdev = context;

    (void)vcpu;
    return testdev_store(testdev, (uint8_t *)&testdev->port + offset, bytes, value);
}

static int testdev_exit_write(void *context, uint32_t vcpu, uint64_t offset, unsigned bytes,
                              uint64_t value)
{
    struct hv_testdev *testdev = context;

    (void)vcpu;
    (void)offset;
    (void)bytes;
    testdev->debug_exit(testdev->exit_context, (uint32_t)value);
    return 0;
}

static int testdev_wire_write(void *context, uint32_t vcpu, uint64_t offset, unsigned bytes,
                              uint64_t value)
{
    struct hv_testdev *testdev = context;
    struct hv_irq_line wire = testdev->wire;

    (void)vcpu;
    (void)bytes;
    wire.number = (unsigned)offset;
    hv_lock_take(&testdev->lock);
    hv_irq_line_set(&wire, value != 0);
    hv_lock_drop(&testdev->lock);
    return 0;
}

/* The host's clock is read first: what the guest read before it wrote lies close behind. */
static int testdev_stamp_write(void *context, uint32_t vcpu, uint64_t offset, unsigned bytes,
                               uint64_t value)
{
    uint64_t host = hv_clock_host_now().v;
    struct hv_testdev *testdev = context;
    uint32_t count;

    (void)vcpu;
    (void)bytes;
    hv_lock_take(&testdev->lock);
    count = hv_load_relaxed(&testdev->stamps);
    if (offset == 0) {
        testdev->stamp_low = (uint32_t)value;
    } else if (offset == 4 && count < HV_TESTDEV_STAMPS) {
        hv_store_relaxed(&testdev->stamp[count].guest, value << 32 | testdev->stamp_low);
        hv_store_relaxed(&testdev->stamp[count].host, host);
        /* Pairs with hv_testdev_stamps(). */
        hv_store_release(&testdev->stamps, count + 1);
    }
    hv_lock_drop(&testdev->lock);
    return 0;
}

static int testdev_memory_read(void *context, uint32_t vcpu, uint64_t offset, unsigned bytes,
                               uint64_t *value_out)
{
    struct hv_testdev *testdev = context;

    (void)vcpu;
    return testdev_load(testdev, testdev->memory + offset, bytes, value_out);
}

static int testdev_memory_write(void *context, uint32_t vcpu, uint64_t offset, unsigned bytes,
                                uint64_t value)
{
    struct hv_testdev *testdev = context;

    (void)vcpu;
    return testdev_store(testdev, testdev->memory + offset, bytes, value);
}

static const struct hv_bus_ops testdev_port_ops = {testdev_port_read, testdev_port_write};
/* The page whose address is written is mapped anew at its next use anyway. */
static const struct hv_bus_ops testdev_flush_ops = {hv_bus_read_nothing, hv_bus_write_nothing};
static const struct hv_bus_ops testdev_exit_ops = {hv_bus_read_nothing, testdev_exit_write};
static const struct hv_bus_ops testdev_wire_ops = {hv_bus_read_nothing, testdev_wire_write};
static const struct hv_bus_ops testdev_stamp_ops = {hv_bus_read_nothing, testdev_stamp_write};
static const struct hv_bus_ops testdev_memory_ops = {testdev_memory_read, testdev_memory_write};

int hv_testdev_init(struct hv_testdev *testdev, struct hv_bus *bus, const struct hv_irq_line *wire,
                    void (*debug_exit)(void *context, uint32_t code), void *exit_context)
{
    const struct hv_bus_range ports[] = {
        {0xe0, 4, &testdev_port_ops, testdev, "testdev.port", 4},
        {0xe4, 4, &testdev_flush_ops, testdev, "testdev.flush", 4},
        {0xe8, 4, &testdev_port_ops, testdev, "testdev.bytes", 1},
        {0xf4, 4, &testdev_exit_ops, testdev, "testdev.exit", 4},
        {0x2000, HV_TESTDEV_WIRES, &testdev_wire_ops, testdev, "testdev.wires", 1},
        {HV_TESTDEV_STAMP_PORT, 8, &testdev_stamp_ops, testdev, "testdev.stamp", 4},
    };
    const struct hv_bus_range memory = {HV_TESTDEV_MEMORY,   HV_TESTDEV_MEMORY_BYTES,
                                        &testdev_memory_ops, testdev,
                                        "testdev.memory",    8};
    int error;

    memset(testdev, 0, sizeof(*testdev));
    hv_lock_init(&testdev->lock, HV_RANK_DEVICE, "platform.testdev", 0);
    testdev->wire = *wire;
    testdev->debug_exit = debug_exit;
    testdev->exit_context = exit_context;
    testdev->memory = hv_alloc(1, HV_TESTDEV_MEMORY_BYTES);
    if (!testdev->memory) {
        return -ENOMEM;
    }
    error = hv_bus_add_all(bus, HV_BUS_PORT, ports, HV_ARRAY_LEN(ports));
    return error ? error : hv_bus_add(bus, HV_BUS_MMIO, &memory);
}

void hv_testdev_finish(struct hv_testdev *testdev)
{
    hv_free(testdev->memory);
    testdev->memory = NULL;
    hv_lock_finish(&testdev->lock);
}

void hv_testdev_reset(struct hv_testdev *testdev)
{
    hv_lock_take(&testdev->lock);
    testdev->port = 0;
    testdev->stamp_low = 0;
    hv_store_release(&testdev->stamps, 0);
    memset(testdev->memory, 0, HV_TESTDEV_MEMORY_BYTES);
    hv_lock_drop(&testdev->lock);
}

void hv_testdev_save(struct hv_testdev *testdev, struct hv_testdev_record *record_out)
{
    hv_lock_take(&testdev->lock);
    record_out->version = HV_TESTDEV_RECORD_VERSION;
    record_out->port = testdev->port;
    memcpy(record_out->memory, testdev->memory, HV_TESTDEV_MEMORY_BYTES);
    hv_lock_drop(&testdev->lock);
}

const char *hv_testdev_check(const struct hv_testdev_record *record)
{
    return record->version == HV_TESTDEV_RECORD_VERSION ? NULL : "testdev.version";
}

void hv_testdev_load(struct hv_testdev *testdev, const struct hv_testdev_record *record)
{
    hv_lock_take(&testdev->lock);
    testdev->port = record->port;
    memcpy(testdev->memory, record->memory, HV_TESTDEV_MEMORY_BYTES);
    hv_lock_drop(&testdev->lock);
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What hypervisor test kernels talk to: a port that ends the machine with a code, a port and a
 * range of memory that remember what was written, a port that flushes a page, and one that drives
 * interrupt wires. And a pair of ports of our own, by which a guest's clock is held against the
 * host's: a value written there is kept with the host's time of that moment.
 *
 * Threads: any; one lock, HV_RANK_DEVICE. The hook is called without it.
 * Source: the interfaces of QEMU's isa-debug-exit and pc-testdev, as kvm-unit-tests uses them
 * (lib/x86/io.c, lib/x86/apic.c, x86/emulator.c, x86/eventinj.c).
 */
#pragma once

#include "platform/bus.h"
#include "platform/irq.h"
#include "platform/record.h"
#include "sync/lock.h"

#define HV_TESTDEV_WIRES          24u
#define HV_TESTDEV_MEMORY         UINT64_C(0xff000000)
#define HV_TESTDEV_MEMORY_BYTES   0x10000u
#define HV_TESTDEV_RECORD_VERSION 1
#define HV_TESTDEV_STAMP_PORT     0x2020u /* low 32 bits; the high ones at + 4 make the stamp */
#define HV_TESTDEV_STAMPS         256u

/* What the guest's clock said, and the host's monotonic one, in ns. */
struct hv_testdev_stamp {
    _Atomic uint64_t guest, host;
};

struct hv_testdev {
    struct hv_lock lock; /* HV_RANK_DEVICE */
    /* Set at creation. */
    struct hv_irq_line wire; /* its number is the port's */
    void (*debug_exit)(void *context, uint32_t code);
    void *exit_context;
    /* Guarded by &lock. */
    uint32_t port;   /* what e0h to e3h, and e8h to ebh, read */
    uint8_t *memory; /* HV_TESTDEV_MEMORY_BYTES, owned */
    uint32_t stamp_low;
    /* Atomic: how many stamps stand; written under &lock after they do, read without. */
    _Atomic uint32_t stamps;
    struct hv_testdev_stamp stamp[HV_TESTDEV_STAMPS]; /* the first ones since power-up */
};

struct hv_testdev_record {
    uint32_t version, port;
    uint8_t memory[HV_TESTDEV_MEMORY_BYTES];
};

/** Make it on ports e0h to ebh, f4h, 2000h to 2017h, 2020h to 2027h. Errors of hv_bus_add(); -ENOMEM. */
HV_MUST_CHECK int hv_testdev_init(struct hv_testdev *testdev, struct hv_bus *bus,
                                  const struct hv_irq_line *wire,
                                  void (*debug_exit)(void *context, uint32_t code),
                                  void *exit_context);
/** Zeroed memory is accepted. */
void hv_testdev_finish(struct hv_testdev *testdev);
void hv_testdev_reset(struct hv_testdev *testdev);

/** How many stamps there are: at most HV_TESTDEV_STAMPS, those that came later are lost. No lock. */
static inline unsigned hv_testdev_stamps(const struct hv_testdev *testdev)
{
    return hv_load_acquire(&testdev->stamps);
}

/* Stamps are no state of the machine: no guest reads them, and no record holds them. */

void hv_testdev_save(struct hv_testdev *testdev, struct hv_testdev_record *record_out);
const char *hv_testdev_check(const struct hv_testdev_record *record);
void hv_testdev_load(struct hv_testdev *testdev, const struct hv_testdev_record *record);

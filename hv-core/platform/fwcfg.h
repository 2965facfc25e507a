/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The firmware configuration ports that test kernels read the machine's shape from: a selector and
 * a data port that gives the selected item byte by byte.
 *
 * Threads: any; one lock, HV_RANK_DEVICE.
 * Source: QEMU, docs/specs/fw_cfg.rst (traditional interface).
 */
#pragma once

#include "platform/bus.h"
#include "platform/record.h"
#include "sync/lock.h"

#define HV_FWCFG_PORT           0x510
#define HV_FWCFG_RECORD_VERSION 1

struct hv_fwcfg {
    struct hv_lock lock; /* HV_RANK_DEVICE */
    /* Set at creation. */
    uint64_t memory_bytes;
    uint16_t vcpus;
    /* Guarded by &lock. */
    uint16_t selector;
    uint32_t position;
};

struct hv_fwcfg_record {
    uint32_t version, selector, position;
};

/** Make it on ports 510h and 511h. Errors of hv_bus_add(). */
HV_MUST_CHECK int hv_fwcfg_init(struct hv_fwcfg *fwcfg, struct hv_bus *bus, uint64_t memory_bytes,
                                unsigned vcpus);
void hv_fwcfg_finish(struct hv_fwcfg *fwcfg);
void hv_fwcfg_reset(struct hv_fwcfg *fwcfg);

void hv_fwcfg_save(struct hv_fwcfg *fwcfg, struct hv_fwcfg_record *record_out);
const char *hv_fwcfg_check(const struct hv_fwcfg_record *record);
void hv_fwcfg_load(struct hv_fwcfg *fwcfg, const struct hv_fwcfg_record *record);

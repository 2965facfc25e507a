/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The firmware configuration ports. */
#include "platform/fwcfg.h"

#include <string.h>

/* Item keys, and the signature's bytes "QEMU" by which the interface is recognised. */
enum fwcfg_item {
    FWCFG_SIGNATURE = 0x00,
    FWCFG_ID = 0x01, /* bit 0: traditional interface; no DMA */
    FWCFG_RAM_SIZE = 0x03,
    FWCFG_NB_CPUS = 0x05,
    FWCFG_MAX_CPUS = 0x0f,
};

#define FWCFG_SIGNATURE_VALUE UINT64_C(0x554d4551)
#define FWCFG_ITEM_BYTES      8u

/* Items are numbers, little-endian; bytes behind an item's end, and of others, read zero. */
static uint64_t fwcfg_item(const struct hv_fwcfg *fwcfg)
{
    switch (fwcfg->selector) {
    case FWCFG_SIGNATURE:
        return FWCFG_SIGNATURE_VALUE;
    case FWCFG_ID:
        return 1;
    case FWCFG_RAM_SIZE:
        return fwcfg->memory_bytes;
    case FWCFG_NB_CPUS:
    case FWCFG_MAX_CPUS:
        return fwcfg->vcpus;
    default:
        return 0;
    }
}

static int fwcfg_read(void *context, uint32_t vcpu, uint64_t offset, unsigned bytes,
                      uint64_t *value_out)
{
    struct hv_fwcfg *fwcfg = context;

    (void)vcpu;
    *value_out = 0;
    if (offset != 1 || bytes != 1) {
        return 0; /* the selector is write-only */
    }
    hv_lock_take(&fwcfg->lock);
    if (fwcfg->position < FWCFG_ITEM_BYTES) {
        *value_out = fwcfg_item(fwcfg) >> fwcfg->position * 8 & 0xff;
        fwcfg->position++;
    }
    hv_lock_drop(&fwcfg->lock);
    return 0;
}

static int fwcfg_write(void *context, uint32_t vcpu, uint64_t offset, unsigned bytes,
                       uint64_t value)
{
    struct hv_fwcfg *fwcfg = context;

    (void)vcpu;
    if (offset == 0 && bytes == 2) {
        hv_lock_take(&fwcfg->lock);
        fwcfg->selector = (uint16_t)value;
        fwcfg->position = 0;
        hv_lock_drop(&fwcfg->lock);
    }
    return 0;
}

static const struct hv_bus_ops fwcfg_ops = {fwcfg_read, fwcfg_write};

int hv_fwcfg_init(struct hv_fwcfg *fwcfg, struct hv_bus *bus, uint64_t memory_bytes, unsigned vcpus)
{
    const struct hv_bus_range ports = {HV_FWCFG_PORT, 2, &fwcfg_ops, fwcfg, "fw_cfg", 2};

    memset(fwcfg, 0, sizeof(*fwcfg));
    hv_lock_init(&fwcfg->lock, HV_RANK_DEVICE, "platform.fwcfg", 0);
    fwcfg->memory_bytes = memory_bytes;
    fwcfg->vcpus = (uint16_t)vcpus;
    return hv_bus_add(bus, HV_BUS_PORT, &ports);
}

void hv_fwcfg_finish(struct hv_fwcfg *fwcfg)
{
    hv_lock_finish(&fwcfg->lock);
}

void hv_fwcfg_reset(struct hv_fwcfg *fwcfg)
{
    hv_lock_take(&fwcfg->lock);
    fwcfg->selector = 0;
    fwcfg->position = 0;
    hv_lock_drop(&fwcfg->lock);
}

void hv_fwcfg_save(struct hv_fwcfg *fwcfg, struct hv_fwcfg_record *record_out)
{
    hv_lock_take(&fwcfg->lock);
    *record_out = (struct hv_fwcfg_record){
        .version = HV_FWCFG_RECORD_VERSION,
        .selector = fwcfg->selector,
        .position = fwcfg->position,
    };
    hv_lock_drop(&fwcfg->lock);
}

const char *hv_fwcfg_check(const struct hv_fwcfg_record *record)
{
    if (record->version != HV_FWCFG_RECORD_VERSION) {
        return "fwcfg.version";
    }
    if (record->selector > UINT16_MAX) {
        return "fwcfg.selector";
    }
    return record->position > FWCFG_ITEM_BYTES ? "fwcfg.position" : NULL;
}

void hv_fwcfg_load(struct hv_fwcfg *fwcfg, const struct hv_fwcfg_record *record)
{
    hv_lock_take(&fwcfg->lock);
    fwcfg->selector = (uint16_t)record->selector;
    fwcfg->position = record->position;
    hv_lock_drop(&fwcfg->lock);
}

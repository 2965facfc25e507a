/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The I/O APIC's registers and pins. */
#include "platform/ioapic.h"

#include <string.h>

#include "base/bits.h"

/* Memory-mapped registers (82093AA 3.1) and what the index selects (3.2). */
enum ioapic_register {
    IOAPIC_SELECT = 0x00,
    IOAPIC_WINDOW = 0x10,
    IOAPIC_EOI = 0x40, /* version 20h */
    IOAPIC_INDEX_ID = 0x00,
    IOAPIC_INDEX_VERSION = 0x01,
    IOAPIC_INDEX_ARBITRATION = 0x02,
    IOAPIC_INDEX_ENTRY = 0x10, /* two words for each pin */
};

#define IOAPIC_BYTES   UINT64_C(0x100)
#define IOAPIC_VERSION (0x20u | (HV_IOAPIC_PINS - 1) << 16)
#define IOAPIC_ID_MASK 0x0f000000u

/* Redirection table entry (82093AA 3.2.4). */
enum ioapic_entry {
    IOAPIC_ENTRY_VECTOR = 0xff,
    IOAPIC_ENTRY_DELIVERY_SHIFT = 8,
    IOAPIC_ENTRY_LOGICAL = 1u << 11,
    IOAPIC_ENTRY_REMOTE_IRR = 1u << 14,
    IOAPIC_ENTRY_LEVEL = 1u << 15,
    IOAPIC_ENTRY_MASKED = 1u << 16,
    IOAPIC_ENTRY_WRITABLE = 0x1afff, /* not delivery status, not remote IRR */
    IOAPIC_ENTRY_DESTINATION_SHIFT = 56,
};

/* The two high-order words' bits that exist: the destination. */
#define IOAPIC_ENTRY_ALL (UINT64_C(0xff) << 56 | IOAPIC_ENTRY_WRITABLE | IOAPIC_ENTRY_REMOTE_IRR)

static struct hv_interrupt ioapic_message(uint64_t entry)
{
    uint32_t destination = (uint32_t)(entry >> IOAPIC_ENTRY_DESTINATION_SHIFT);

    return (struct hv_interrupt){
        .destination = destination,
        .broadcast = destination == 0xff,
        .logical = entry & IOAPIC_ENTRY_LOGICAL,
        .vector = (uint8_t)entry,
        .delivery = (uint8_t)hv_bits(entry, IOAPIC_ENTRY_DELIVERY_SHIFT, 3),
        .level = entry & IOAPIC_ENTRY_LEVEL,
    };
}

static void ioapic_send_locked(struct hv_ioapic *ioapic, unsigned pin) HV_REQUIRES(&ioapic->lock)
{
    struct hv_interrupt interrupt = ioapic_message(ioapic->entry[pin]);

    if (interrupt.delivery == HV_DELIVERY_STARTUP) {
        return; /* reserved here */
    }
    hv_count(&ioapic->counters.messages, 1);
    (void)hv_lapics_send(ioapic->lapics, &interrupt);
}

/*
 * A level-triggered pin that is high asks again and again, once for each EOI. Only fixed and
 * lowest-priority messages are ended by one; NMI, INIT and ExtINT are edges whatever the entry
 * says (82093AA 3.2.4, "Delivery mode").
 */
static void ioapic_level_locked(struct hv_ioapic *ioapic, unsigned pin) HV_REQUIRES(&ioapic->lock)
{
    uint64_t entry = ioapic->entry[pin];

    if (!(ioapic->lines & 1u << pin) || !(entry & IOAPIC_ENTRY_LEVEL) ||
        (entry & (IOAPIC_ENTRY_MASKED | IOAPIC_ENTRY_REMOTE_IRR)) ||
        hv_bits(entry, IOAPIC_ENTRY_DELIVERY_SHIFT, 3) > HV_DELIVERY_LOWEST) {
        return;
    }
    ioapic->entry[pin] |= IOAPIC_ENTRY_REMOTE_IRR;
    ioapic_send_locked(ioapic, pin);
}

/* The rising wire of a pin that is edge-triggered, by its entry or its delivery mode. */
static void ioapic_edge_locked(struct hv_ioapic *ioapic, unsigned pin) HV_REQUIRES(&ioapic->lock)
{
    uint64_t entry = ioapic->entry[pin];

    if ((entry & IOAPIC_ENTRY_LEVEL) &&
        hv_bits(entry, IOAPIC_ENTRY_DELIVERY_SHIFT, 3) <= HV_DELIVERY_LOWEST) {
        return;
    }
    if (entry & IOAPIC_ENTRY_MASKED) {
        hv_count(&ioapic->counters.lost, 1);
    } else {
        ioapic_send_locked(ioapic, pin);
    }
}

void hv_ioapic_set(struct hv_ioapic *ioapic, unsigned pin, bool high)
{
    uint32_t bit = 1u << (pin & 31);

    if (pin >= HV_IOAPIC_PINS) {
        return;
    }
    hv_lock_take(&ioapic->lock);
    if (!high) {
        ioapic->lines &= ~bit;
    } else if (!(ioapic->lines & bit)) {
        ioapic->lines |= bit;
        ioapic_edge_locked(ioapic, pin);
        ioapic_level_locked(ioapic, pin);
    }
    hv_lock_drop(&ioapic->lock);
}

bool hv_ioapic_message(struct hv_ioapic *ioapic, unsigned pin, struct hv_interrupt *interrupt_out)
{
    uint64_t entry = IOAPIC_ENTRY_MASKED;

    if (pin < HV_IOAPIC_PINS) {
        hv_lock_take(&ioapic->lock);
        entry = ioapic->entry[pin];
        hv_lock_drop(&ioapic->lock);
    }
    *interrupt_out = ioapic_message(entry);
    return !(entry & IOAPIC_ENTRY_MASKED);
}

int hv_ioapic_vector(struct hv_ioapic *ioapic, unsigned pin)
{
    uint64_t entry;

    if (pin >= HV_IOAPIC_PINS) {
        return -1;
    }
    hv_lock_take(&ioapic->lock);
    entry = ioapic->entry[pin];
    hv_lock_drop(&ioapic->lock);
    if ((entry & IOAPIC_ENTRY_MASKED) ||
        hv_bits(entry, IOAPIC_ENTRY_DELIVERY_SHIFT, 3) > HV_DELIVERY_LOWEST) {
        return -1;
    }
    return (uint8_t)entry;
}

static void ioapic_eoi_locked(struct hv_ioapic *ioapic, uint8_t vector) HV_REQUIRES(&ioapic->lock)
{
    hv_count(&ioapic->counters.eois, 1);
    for (unsigned pin = 0; pin < HV_IOAPIC_PINS; pin++) {
        uint64_t entry = ioapic->entry[pin];

        if ((uint8_t)entry == vector && (entry & IOAPIC_ENTRY_REMOTE_IRR)) {
            ioapic->entry[pin] &= ~(uint64_t)IOAPIC_ENTRY_REMOTE_IRR;
            ioapic_level_locked(ioapic, pin);
        }
    }
}

void hv_ioapic_eoi(struct hv_ioapic *ioapic, uint8_t vector)
{
    hv_lock_take(&ioapic->lock);
    ioapic_eoi_locked(ioapic, vector);
    hv_lock_drop(&ioapic->lock);
}

static uint32_t ioapic_window_read(const struct hv_ioapic *ioapic)
{
    unsigned word = ioapic->index - (unsigned)IOAPIC_INDEX_ENTRY;

    switch (ioapic->index) {
    case IOAPIC_INDEX_ID:
    case IOAPIC_INDEX_ARBITRATION: /* follows the id (82093AA 3.2.3) */
        return ioapic->id;
    case IOAPIC_INDEX_VERSION:
        return IOAPIC_VERSION;
    default:
        return word / 2 < HV_IOAPIC_PINS ? (uint32_t)(ioapic->entry[word / 2] >> (word & 1) * 32)
                                         : 0;
    }
}

static void ioapic_entry_write_locked(struct hv_ioapic *ioapic, unsigned pin, bool high_word,
                                      uint32_t value) HV_REQUIRES(&ioapic->lock)
{
    uint64_t entry = ioapic->entry[pin];

    if (high_word) {
        ioapic->entry[pin] = (entry & UINT32_MAX) | (uint64_t)(value & 0xff000000) << 32;
        return;
    }
    entry = (entry & ~(uint64_t)IOAPIC_ENTRY_WRITABLE) | (value & IOAPIC_ENTRY_WRITABLE);
    /* An edge-triggered pin has no remote IRR; guests rely on this to clear a stuck one. */
    if (!(entry & IOAPIC_ENTRY_LEVEL)) {
        entry &= ~(uint64_t)IOAPIC_ENTRY_REMOTE_IRR;
    }
    ioapic->entry[pin] = entry;
    ioapic_level_locked(ioapic, pin);
}

static void ioapic_window_write_locked(struct hv_ioapic *ioapic, uint32_t value)
    HV_REQUIRES(&ioapic->lock)
{
    unsigned word = ioapic->index - (unsigned)IOAPIC_INDEX_ENTRY;

    if (ioapic->index == IOAPIC_INDEX_ID) {
        ioapic->id = value & IOAPIC_ID_MASK;
    } else if (word / 2 < HV_IOAPIC_PINS) {
        ioapic_entry_write_locked(ioapic, word / 2, word & 1, value);
    }
}

/* Accesses narrower than a register see its low bytes, as the chip set's do. */
static int ioapic_read(void *context, uint32_t vcpu, uint64_t offset, unsigned bytes,
                       uint64_t *value_out)
{
    struct hv_ioapic *ioapic = context;
    uint64_t value = 0;

    (void)vcpu;
    hv_lock_take(&ioapic->lock);
    switch (offset & ~UINT64_C(3)) {
    case IOAPIC_SELECT:
        value = ioapic->index;
        break;
    case IOAPIC_WINDOW:
        value = ioapic_window_read(ioapic);
        break;
    default: /* reserved; EOI is write-only */
        break;
    }
    hv_lock_drop(&ioapic->lock);
    *value_out = hv_bytes_get(value, offset & 3, bytes);
    return 0;
}

static int ioapic_write(void *context, uint32_t vcpu, uint64_t offset, unsigned bytes,
                        uint64_t value)
{
    struct hv_ioapic *ioapic = context;

    (void)vcpu;
    hv_lock_take(&ioapic->lock);
    switch (offset) {
    case IOAPIC_SELECT:
        ioapic->index = (uint8_t)value;
        break;
    case IOAPIC_WINDOW: /* 82093AA 3.1.2: 32 bits only */
        if (bytes == 4) {
            ioapic_window_write_locked(ioapic, (uint32_t)value);
        }
        break;
    case IOAPIC_EOI:
        ioapic_eoi_locked(ioapic, (uint8_t)value);
        break;
    default:
        break;
    }
    hv_lock_drop(&ioapic->lock);
    return 0;
}

static const struct hv_bus_ops ioapic_ops = {ioapic_read, ioapic_write};

int hv_ioapic_init(struct hv_ioapic *ioapic, struct hv_bus *bus, struct hv_lapics *lapics)
{
    const struct hv_bus_range range = {HV_IOAPIC_BASE, IOAPIC_BYTES, &ioapic_ops,
                                       ioapic,         "ioapic",     4};

    memset(ioapic, 0, sizeof(*ioapic));
    hv_lock_init(&ioapic->lock, HV_RANK_IRQ_CHIP, "platform.ioapic", 0);
    ioapic->lapics = lapics;
    hv_ioapic_reset(ioapic);
    return hv_bus_add(bus, HV_BUS_MMIO, &range);
}

void hv_ioapic_finish(struct hv_ioapic *ioapic)
{
    hv_lock_finish(&ioapic->lock);
}

void hv_ioapic_reset(struct hv_ioapic *ioapic)
{
    hv_lock_take(&ioapic->lock);
    ioapic->index = 0;
    ioapic->id = 0;
    for (unsigned pin = 0; pin < HV_IOAPIC_PINS; pin++) {
        ioapic->entry[pin] = IOAPIC_ENTRY_MASKED;
    }
    hv_lock_drop(&ioapic->lock);
}

void hv_ioapic_save(struct hv_ioapic *ioapic, struct hv_ioapic_record *record_out)
{
    memset(record_out, 0, sizeof(*record_out));
    record_out->version = HV_IOAPIC_RECORD_VERSION;
    hv_lock_take(&ioapic->lock);
    record_out->index = ioapic->index;
    record_out->id = ioapic->id;
    record_out->lines = ioapic->lines;
    memcpy(record_out->entry, ioapic->entry, sizeof(ioapic->entry));
    hv_lock_drop(&ioapic->lock);
}

const char *hv_ioapic_check(const struct hv_ioapic_record *record)
{
    if (record->version != HV_IOAPIC_RECORD_VERSION) {
        return "ioapic.version";
    }
    if (record->index > 0xff) {
        return "ioapic.index";
    }
    if (record->id & ~IOAPIC_ID_MASK) {
        return "ioapic.id";
    }
    if (record->lines >> HV_IOAPIC_PINS) {
        return "ioapic.lines";
    }
    for (unsigned pin = 0; pin < HV_IOAPIC_PINS; pin++) {
        uint64_t entry = record->entry[pin];

        if ((entry & ~IOAPIC_ENTRY_ALL) ||
            ((entry & IOAPIC_ENTRY_REMOTE_IRR) && !(entry & IOAPIC_ENTRY_LEVEL))) {
            return "ioapic.entry";
        }
    }
    return NULL;
}

void hv_ioapic_load(struct hv_ioapic *ioapic, const struct hv_ioapic_record *record)
{
    hv_lock_take(&ioapic->lock);
    ioapic->index = (uint8_t)record->index;
    ioapic->id = record->id;
    ioapic->lines = record->lines;
    memcpy(ioapic->entry, record->entry, sizeof(ioapic->entry));
    hv_lock_drop(&ioapic->lock);
}

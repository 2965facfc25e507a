/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The 8254's ports and interrupt. */
#include "platform/pit.h"

#include <string.h>

#include "platform/pit-counter.h"
#include "platform/tick.h"

#define PIT_SPEAKER        2 /* channel whose gate and output are on port 61h */
/* Refresh toggles at each cycle of channel 1, which firmware sets to 18 clocks: 15.1 µs. */
#define PIT_REFRESH_CLOCKS 18

enum pit_port {
    PIT_PORT_CONTROL = 3,
};

/* Control word (figure 7) and read-back command (figure 10). */
enum pit_control {
    PIT_CONTROL_SELECT_SHIFT = 6,
    PIT_CONTROL_READ_BACK = 3,
    PIT_CONTROL_ACCESS_SHIFT = 4,
    PIT_READ_BACK_NO_STATUS = 1u << 4,
    PIT_READ_BACK_NO_COUNT = 1u << 5,
};

/* Port 61h, NMI status and control (PIIX3 2.5.5). */
enum pit_port61 {
    PIT_PORT61_GATE = 1u << 0,
    PIT_PORT61_WRITABLE = 0x0f, /* gate, speaker, two NMI sources' enables */
    PIT_PORT61_REFRESH = 1u << 4,
    PIT_PORT61_OUT = 1u << 5,
};

/* Arm channel 0's timer for what its counter will do. */
static void pit_arm_locked(struct hv_pit *pit) HV_REQUIRES(&pit->lock)
{
    const struct hv_pit_counter *counter = &pit->counter[0];

    if (!counter->counting && pit_counter_periodic(counter)) {
        hv_vpt_hold(&pit->timer); /* the count follows its control word */
    } else if (!counter->counting) {
        hv_vpt_stop(&pit->timer);
    } else if (pit_counter_periodic(counter)) {
        hv_vpt_start_grid(&pit->timer, counter->start_ns, counter->count, HV_PIT_HZ);
    } else if (!pit->irq_done) {
        uint64_t span_ns = hv_ticks_to_ns(counter->count, HV_PIT_HZ);

        hv_vpt_start(&pit->timer, (hv_ns){counter->start_ns + span_ns}, 0);
    } else {
        hv_vpt_stop(&pit->timer);
    }
}

/* Deliver a tick that is due. */
static void pit_settle_locked(struct hv_pit *pit, uint64_t now_ns) HV_REQUIRES(&pit->lock)
{
    struct hv_pit_counter *counter = &pit->counter[0];
    uint32_t count = counter->count;

    if (hv_vpt_expire(&pit->timer, (hv_ns){now_ns})) {
        hv_vpt_issue(&pit->timer);
        if (counter->mode == HV_PIT_MODE_TERMINAL_COUNT) {
            pit->irq_done = true;
            hv_irq_line_set(&pit->irq, true); /* until the next count or control word */
            return;
        }
        /*
         * OUT of modes 2 and 3 is high for most of the time; the controllers see a pulse, so that
         * there is an edge for each tick whatever came before.
         */
        pit->irq_done = !pit_counter_periodic(counter);
        hv_irq_line_pulse(&pit->irq);
    }
    /* A new count takes over at the end of a cycle, whether or not that is a tick by now. */
    pit_counter_follow(counter, now_ns);
    if (counter->count != count) {
        pit_arm_locked(pit);
    }
}

static void pit_expired(void *context)
{
    struct hv_pit *pit = context;

    hv_lock_take(&pit->lock);
    pit_settle_locked(pit, hv_clock_now(pit->clock).v);
    hv_lock_drop(&pit->lock);
}

/* Channel 0 begins anew, or stops: its interrupt falls. */
static void pit_restart_locked(struct hv_pit *pit) HV_REQUIRES(&pit->lock)
{
    pit->irq_done = false;
    hv_irq_line_set(&pit->irq, false);
    pit_arm_locked(pit);
}

static void pit_control_locked(struct hv_pit *pit, uint8_t value, uint64_t now_ns)
    HV_REQUIRES(&pit->lock)
{
    unsigned select = value >> PIT_CONTROL_SELECT_SHIFT;

    if (select == PIT_CONTROL_READ_BACK) {
        for (unsigned i = 0; i < HV_PIT_CHANNELS; i++) {
            if (!(value & 2u << i)) {
                continue;
            }
            if (!(value & PIT_READ_BACK_NO_COUNT)) {
                pit_counter_latch(&pit->counter[i], now_ns);
            }
            if (!(value & PIT_READ_BACK_NO_STATUS)) {
                pit_counter_latch_status(&pit->counter[i], now_ns);
            }
        }
        return;
    }
    if ((value >> PIT_CONTROL_ACCESS_SHIFT & 3) == HV_PIT_ACCESS_LATCH) {
        pit_counter_latch(&pit->counter[select], now_ns);
        return;
    }
    pit_counter_program(&pit->counter[select], value);
    if (select == 0) {
        pit_restart_locked(pit);
    }
}

static int pit_write(void *context, uint32_t vcpu, uint64_t offset, unsigned bytes, uint64_t value)
{
    struct hv_pit *pit = context;
    uint64_t now_ns;

    (void)vcpu;
    (void)bytes;
    hv_lock_take(&pit->lock);
    now_ns = hv_clock_now(pit->clock).v;
    pit_settle_locked(pit, now_ns);
    if (offset == PIT_PORT_CONTROL) {
        pit_control_locked(pit, (uint8_t)value, now_ns);
    } else if (pit_counter_write(&pit->counter[offset], (uint8_t)value, now_ns) && offset == 0) {
        pit_restart_locked(pit);
    }
    hv_lock_drop(&pit->lock);
    return 0;
}

static int pit_read(void *context, uint32_t vcpu, uint64_t offset, unsigned bytes,
                    uint64_t *value_out)
{
    struct hv_pit *pit = context;
    uint64_t now_ns;

    (void)vcpu;
    (void)bytes;
    if (offset == PIT_PORT_CONTROL) { /* write-only: "no operation (3-state)" */
        *value_out = 0xff;
        return 0;
    }
    hv_lock_take(&pit->lock);
    now_ns = hv_clock_now(pit->clock).v;
    pit_settle_locked(pit, now_ns);
    *value_out = pit_counter_read(&pit->counter[offset], now_ns);
    hv_lock_drop(&pit->lock);
    return 0;
}

static int pit_port61_write(void *context, uint32_t vcpu, uint64_t offset, unsigned bytes,
                            uint64_t value)
{
    struct hv_pit *pit = context;

    (void)vcpu;
    (void)offset;
    (void)bytes;
    hv_lock_take(&pit->lock);
    pit->port61 = value & PIT_PORT61_WRITABLE;
    pit_counter_set_gate(&pit->counter[PIT_SPEAKER], value & PIT_PORT61_GATE,
                         hv_clock_now(pit->clock).v);
    hv_lock_drop(&pit->lock);
    return 0;
}

static int pit_port61_read(void *context, uint32_t vcpu, uint64_t offset, unsigned bytes,
                           uint64_t *value_out)
{
    struct hv_pit *pit = context;
    uint64_t now_ns, value;

    (void)vcpu;
    (void)offset;
    (void)bytes;
    hv_lock_take(&pit->lock);
    now_ns = hv_clock_now(pit->clock).v;
    value = pit->port61;
    if (hv_ticks_from_ns(now_ns, HV_PIT_HZ) / PIT_REFRESH_CLOCKS & 1) {
        value |= PIT_PORT61_REFRESH;
    }
    pit_counter_follow(&pit->counter[PIT_SPEAKER], now_ns);
    if (pit_counter_output(&pit->counter[PIT_SPEAKER], now_ns)) {
        value |= PIT_PORT61_OUT;
    }
    hv_lock_drop(&pit->lock);
    *value_out = value;
    return 0;
}

static const struct hv_bus_ops pit_ops = {pit_read, pit_write};
static const struct hv_bus_ops pit_port61_ops = {pit_port61_read, pit_port61_write};

int hv_pit_init(struct hv_pit *pit, struct hv_bus *bus, const struct hv_clock *clock,
                struct hv_vpt_set *timers, const struct hv_irq_line *irq)
{
    const struct hv_bus_range ranges[] = {
        {0x40, 4, &pit_ops, pit, "pit", 1},
        {0x61, 1, &pit_port61_ops, pit, "port61", 1},
    };

    memset(pit, 0, sizeof(*pit));
    hv_lock_init(&pit->lock, HV_RANK_DEVICE, "platform.pit", 0);
    pit->clock = clock;
    pit->irq = *irq;
    hv_vpt_init(&pit->timer, timers, HV_VPT_PIT, 0, pit_expired, pit);
    hv_pit_reset(pit);
    return hv_bus_add_all(bus, HV_BUS_PORT, ranges, HV_ARRAY_LEN(ranges));
}

void hv_pit_finish(struct hv_pit *pit)
{
    hv_vpt_finish(&pit->timer);
    hv_lock_finish(&pit->lock);
}

void hv_pit_reset(struct hv_pit *pit)
{
    hv_lock_take(&pit->lock);
    hv_vpt_reset(&pit->timer);
    pit->port61 = 0;
    for (unsigned i = 0; i < HV_PIT_CHANNELS; i++) {
        pit->counter[i] = (struct hv_pit_counter){
            .gate = i != PIT_SPEAKER,
            .mode = HV_PIT_MODE_SQUARE,
            .access = HV_PIT_ACCESS_BOTH,
        };
    }
    pit_restart_locked(pit);
    hv_lock_drop(&pit->lock);
}

void hv_pit_accepted(struct hv_pit *pit, unsigned vcpu)
{
    hv_lock_take(&pit->lock);
    hv_vpt_accept(&pit->timer, vcpu, &pit->irq);
    hv_lock_drop(&pit->lock);
}

void hv_pit_save(struct hv_pit *pit, struct hv_pit_record *record_out)
{
    uint64_t now_ns;

    memset(record_out, 0, sizeof(*record_out));
    hv_lock_take(&pit->lock);
    now_ns = hv_clock_now(pit->clock).v;
    pit_settle_locked(pit, now_ns);
    record_out->version = HV_PIT_RECORD_VERSION;
    record_out->port61 = pit->port61;
    record_out->irq_done = pit->irq_done;
    for (unsigned i = 0; i < HV_PIT_CHANNELS; i++) {
        struct hv_pit_counter *counter = &pit->counter[i];

        pit_counter_follow(counter, now_ns);
        record_out->counter[i] = (struct hv_pit_counter_record){
            .elapsed_ns = counter->counting ? now_ns - counter->start_ns : 0,
            .held = counter->held,
            .count = counter->count,
            .next_count = counter->next_count,
            .next_at = counter->next_count ? counter->next_at : 0,
            .latch = counter->latch,
            .mode = counter->mode,
            .access = counter->access,
            .bcd = counter->bcd,
            .gate = counter->gate,
            .write_high = counter->write_high,
            .read_high = counter->read_high,
            .write_low = counter->write_low,
            .latched_bytes = counter->latched_bytes,
            .status_latched = counter->status_latched,
            .status = counter->status,
            .counting = counter->counting,
        };
    }
    hv_vpt_save(&pit->timer, (hv_ns){now_ns}, &record_out->timer);
    hv_lock_drop(&pit->lock);
}

/* Channel 0 ticks. */
static bool pit_record_ticks(const struct hv_pit_record *record)
{
    const struct hv_pit_counter_record *counter = &record->counter[0];

    return counter->counting &&
           (counter->mode == HV_PIT_MODE_RATE || counter->mode == HV_PIT_MODE_SQUARE);
}

static const char *pit_check_counter(const struct hv_pit_counter_record *record, unsigned channel)
{
    uint32_t modulus = record->bcd ? 10000 : 0x10000;

    if (record->mode > HV_PIT_MODE_HARD_STROBE) {
        return "pit.mode";
    }
    if (record->access < HV_PIT_ACCESS_LOW || record->access > HV_PIT_ACCESS_BOTH) {
        return "pit.access";
    }
    if ((record->bcd | record->gate | record->write_high | record->read_high |
         record->status_latched | record->counting) > 1) {
        return "pit.flags";
    }
    if (channel != PIT_SPEAKER && !record->gate) {
        return "pit.gate";
    }
    if (record->latched_bytes > (record->access == HV_PIT_ACCESS_BOTH ? 2 : 1)) {
        return "pit.latched_bytes";
    }
    if (record->count > modulus || (record->counting && record->count == 0)) {
        return "pit.count";
    }
    if (record->next_count > modulus || (record->next_count && !record->counting)) {
        return "pit.next_count";
    }
    return NULL;
}

const char *hv_pit_check(const struct hv_pit_record *record)
{
    if (record->version != HV_PIT_RECORD_VERSION) {
        return "pit.version";
    }
    if (record->port61 & ~PIT_PORT61_WRITABLE) {
        return "pit.port61";
    }
    if (hv_record_not_bool(record->irq_done)) {
        return "pit.irq_done";
    }
    for (unsigned i = 0; i < HV_PIT_CHANNELS; i++) {
        const char *field = pit_check_counter(&record->counter[i], i);

        if (field) {
            return field;
        }
    }
    if (record->counter[PIT_SPEAKER].gate != (record->port61 & PIT_PORT61_GATE)) {
        return "pit.gate";
    }
    return hv_vpt_record_check(HV_VPT_PIT, &record->timer, pit_record_ticks(record));
}

void hv_pit_load(struct hv_pit *pit, const struct hv_pit_record *record)
{
    uint64_t now_ns;

    hv_lock_take(&pit->lock);
    now_ns = hv_clock_now(pit->clock).v;
    pit->port61 = record->port61;
    pit->irq_done = record->irq_done;
    for (unsigned i = 0; i < HV_PIT_CHANNELS; i++) {
        const struct hv_pit_counter_record *from = &record->counter[i];

        pit->counter[i] = (struct hv_pit_counter){
            .mode = from->mode,
            .access = from->access,
            .bcd = from->bcd,
            .gate = from->gate,
            .write_high = from->write_high,
            .read_high = from->read_high,
            .write_low = from->write_low,
            .latched_bytes = from->latched_bytes,
            .latch = from->latch,
            .status_latched = from->status_latched,
            .status = from->status,
            .count = from->count,
            .next_count = from->next_count,
            .next_at = from->next_at,
            .counting = from->counting,
            .start_ns = now_ns - from->elapsed_ns,
            .held = from->held,
        };
    }
    pit_arm_locked(pit);
    hv_vpt_load(&pit->timer, (hv_ns){now_ns}, &record->timer);
    hv_lock_drop(&pit->lock);
}

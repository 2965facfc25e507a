/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The HPET's general registers and its save record. */
#include "platform/hpet-private.h"

#include <string.h>

#include "base/bits.h"

#define HPET_BYTES UINT64_C(0x400)
/* 2.3.4: period in fs, vendor 8086h, legacy replacement, 64 bits, index of the last timer, rev. 1. */
#define HPET_CAPABILITY_VALUE                                                                   \
    (HV_HPET_TICK_NS * UINT64_C(1000000) << 32 | UINT64_C(0x8086) << 16 | 1u << 15 | 1u << 13 | \
     (HV_HPET_TIMERS - 1) << 8 | 1u)

static bool hpet_enabled(const struct hv_hpet *hpet)
{
    return hpet->config & HPET_CONFIG_ENABLE;
}

void hpet_take(struct hv_hpet *hpet)
{
    hv_lock_take(&hpet->lock);
    hpet->now = hv_clock_now(hpet->clock);
}

uint64_t hpet_counter(const struct hv_hpet *hpet)
{
    if (!hpet_enabled(hpet)) {
        return hpet->counter;
    }
    return hpet->counter + (hpet->now.v - hpet->start_ns) / HV_HPET_TICK_NS;
}

static void hpet_settle_locked(struct hv_hpet *hpet) HV_REQUIRES(&hpet->lock)
{
    for (unsigned i = 0; i < HV_HPET_TIMERS; i++) {
        hpet_timer_settle_locked(&hpet->timer[i]);
    }
}

/* The counter runs, stops or jumps: all that was derived from it is derived anew. */
static void hpet_set_counter_locked(struct hv_hpet *hpet, uint64_t config, uint64_t counter)
    HV_REQUIRES(&hpet->lock)
{
    hpet->config = config;
    hpet->counter = counter;
    hpet->start_ns = hpet->now.v;
    for (unsigned i = 0; i < HV_HPET_TIMERS; i++) {
        hpet_timer_rematch_locked(&hpet->timer[i]);
        hpet_timer_drive_locked(&hpet->timer[i]);
        hpet_timer_arm_locked(&hpet->timer[i]);
    }
}

static void hpet_write_config_locked(struct hv_hpet *hpet, uint64_t value) HV_REQUIRES(&hpet->lock)
{
    uint64_t counter = hpet_counter(hpet);
    uint64_t change = (hpet->config ^ value) & (HPET_CONFIG_ENABLE | HPET_CONFIG_LEGACY);

    value &= HPET_CONFIG_ENABLE | HPET_CONFIG_LEGACY;
    if (change & HPET_CONFIG_LEGACY) {
        for (unsigned i = 0; i < HV_HPET_TIMERS; i++) {
            hpet_timer_release_locked(&hpet->timer[i]);
        }
        /* PIT and RTC leave their wires low behind when they are cut off. */
        hv_irq_line_set(&hpet->legacy[0], false);
        hv_irq_line_set(&hpet->legacy[1], false);
        hpet->config = value;
        hv_store_relaxed(&hpet->replaces, (value & HPET_CONFIG_LEGACY) != 0);
        for (unsigned i = 0; i < HV_HPET_TIMERS; i++) {
            hpet_timer_drive_locked(&hpet->timer[i]);
        }
    }
    if (change & HPET_CONFIG_ENABLE) {
        hpet_set_counter_locked(hpet, value, counter);
    }
}

static void hpet_write_status_locked(struct hv_hpet *hpet, uint64_t value) HV_REQUIRES(&hpet->lock)
{
    hpet->status &= ~value; /* 2.3.6: write one to clear */
    for (unsigned i = 0; i < HV_HPET_TIMERS; i++) {
        hpet_timer_drive_locked(&hpet->timer[i]);
        hv_vpt_ready(&hpet->timer[i].vpt);
    }
}

/* The timer whose registers are at @offset, or NULL. */
static struct hv_hpet_timer *hpet_timer_at(struct hv_hpet *hpet, uint64_t offset)
{
    uint64_t index = (offset - HPET_TIMER) / HPET_TIMER_BYTES;

    return offset >= HPET_TIMER && index < HV_HPET_TIMERS ? &hpet->timer[index] : NULL;
}

/* The 64-bit register at @offset, a multiple of 8. */
static uint64_t hpet_register(struct hv_hpet *hpet, uint64_t offset)
{
    const struct hv_hpet_timer *timer = hpet_timer_at(hpet, offset);

    if (timer && offset % HPET_TIMER_BYTES == HPET_TIMER_CONFIG) {
        return (uint64_t)HV_HPET_ROUTES << 32 | HPET_TIMER_CAPABLE |
               (timer->config & ~(uint32_t)HPET_TIMER_SET_VALUE);
    }
    if (timer && offset % HPET_TIMER_BYTES == HPET_TIMER_COMPARATOR) {
        return timer->comparator;
    }
    switch (offset) {
    case HPET_CAPABILITY:
        return HPET_CAPABILITY_VALUE;
    case HPET_CONFIG:
        return hpet->config;
    case HPET_STATUS:
        return hpet->status;
    case HPET_COUNTER:
        return hpet_counter(hpet);
    default:
        return 0;
    }
}

static void hpet_write_register_locked(struct hv_hpet *hpet, uint64_t offset, uint64_t value)
    HV_REQUIRES(&hpet->lock)
{
    struct hv_hpet_timer *timer = hpet_timer_at(hpet, offset);

    if (timer && offset % HPET_TIMER_BYTES == HPET_TIMER_CONFIG) {
        hpet_timer_write_config_locked(timer, (uint32_t)value);
    } else if (timer && offset % HPET_TIMER_BYTES == HPET_TIMER_COMPARATOR) {
        hpet_timer_write_comparator_locked(timer, value);
    } else if (offset == HPET_CONFIG) {
        hpet_write_config_locked(hpet, value);
    } else if (offset == HPET_STATUS) {
        hpet_write_status_locked(hpet, value);
    } else if (offset == HPET_COUNTER && !hpet_enabled(hpet)) {
        /* 2.3.7: writes to a running counter are undefined; here they are ignored. */
        hpet_set_counter_locked(hpet, hpet->config, value);
    }
}

static int hpet_read(void *context, uint32_t vcpu, uint64_t offset, unsigned bytes,
                     uint64_t *value_out)
{
    struct hv_hpet *hpet = context;

    (void)vcpu;
    hpet_take(hpet);
    if ((offset & ~UINT64_C(7)) != HPET_COUNTER) { /* the one that is read all the time */
        hpet_settle_locked(hpet);
    }
    *value_out = hv_bytes_get(hpet_register(hpet, offset & ~UINT64_C(7)), offset & 7, bytes);
    hv_lock_drop(&hpet->lock);
    return 0;
}

/* 2.3.2: aligned accesses of 32 and 64 bits; others are ignored. */
static int hpet_write(void *context, uint32_t vcpu, uint64_t offset, unsigned bytes, uint64_t value)
{
    struct hv_hpet *hpet = context;
    uint64_t aligned = offset & ~UINT64_C(7);
    uint64_t old;

    (void)vcpu;
    if (bytes < 4 || offset % bytes) {
        return 0;
    }
    hpet_take(hpet);
    hpet_settle_locked(hpet);
    old = aligned == HPET_STATUS ? 0 : hpet_register(hpet, aligned);
    hpet_write_register_locked(hpet, aligned, hv_bytes_put(old, offset & 7, bytes, value));
    hv_lock_drop(&hpet->lock);
    return 0;
}

static const struct hv_bus_ops hpet_ops = {hpet_read, hpet_write};

int hv_hpet_init(struct hv_hpet *hpet, struct hv_bus *bus, const struct hv_clock *clock,
                 struct hv_vpt_set *timers, const struct hv_irq_line legacy[2],
                 const struct hv_irq_line *pin)
{
    const struct hv_bus_range range = {HV_HPET_BASE, HPET_BYTES, &hpet_ops, hpet, "hpet", 8};

    memset(hpet, 0, sizeof(*hpet));
    hv_lock_init(&hpet->lock, HV_RANK_DEVICE, "platform.hpet", 0);
    hpet->clock = clock;
    hpet->legacy[0] = legacy[0];
    hpet->legacy[1] = legacy[1];
    hpet->pin = *pin;
    for (unsigned i = 0; i < HV_HPET_TIMERS; i++) {
        struct hv_hpet_timer *timer = &hpet->timer[i];

        hv_vpt_init(&timer->vpt, timers, (enum hv_vpt_source)(HV_VPT_HPET0 + i), 0,
                    hpet_timer_expired, timer);
        timer->hpet = hpet;
        timer->index = i;
    }
    hv_hpet_reset(hpet);
    return hv_bus_add(bus, HV_BUS_MMIO, &range);
}

void hv_hpet_finish(struct hv_hpet *hpet)
{
    for (unsigned i = 0; i < HV_HPET_TIMERS; i++) {
        hv_vpt_finish(&hpet->timer[i].vpt);
    }
    hv_lock_finish(&hpet->lock);
}

void hv_hpet_reset(struct hv_hpet *hpet)
{
    hpet_take(hpet);
    for (unsigned i = 0; i < HV_HPET_TIMERS; i++) {
        struct hv_hpet_timer *timer = &hpet->timer[i];

        hpet_timer_release_locked(timer);
        hv_vpt_reset(&timer->vpt);
        timer->config = 0;
        timer->comparator = UINT64_MAX; /* 2.3.9: the default value is all ones */
        timer->period = 0;
        timer->match = 0;
        timer->armed = false;
    }
    hpet->config = 0;
    hpet->status = 0;
    hpet->counter = 0;
    hv_store_relaxed(&hpet->replaces, false);
    hv_lock_drop(&hpet->lock);
}

unsigned hv_hpet_gsi(struct hv_hpet *hpet, unsigned index)
{
    unsigned gsi;

    hpet_take(hpet);
    gsi = hpet_timer_wire(&hpet->timer[index]).number;
    hv_lock_drop(&hpet->lock);
    return gsi;
}

void hv_hpet_accepted(struct hv_hpet *hpet, unsigned index, unsigned vcpu)
{
    struct hv_irq_line wire;

    hpet_take(hpet);
    wire = hpet_timer_wire(&hpet->timer[index]);
    hv_vpt_accept(&hpet->timer[index].vpt, vcpu, &wire);
    hv_lock_drop(&hpet->lock);
}

void hv_hpet_save(struct hv_hpet *hpet, struct hv_hpet_record *record_out)
{
    memset(record_out, 0, sizeof(*record_out));
    hpet_take(hpet);
    hpet_settle_locked(hpet);
    record_out->version = HV_HPET_RECORD_VERSION;
    record_out->config = hpet->config;
    record_out->status = hpet->status;
    record_out->counter = hpet_counter(hpet);
    if (hpet_enabled(hpet)) {
        record_out->phase_ns = (hpet->now.v - hpet->start_ns) % HV_HPET_TICK_NS;
    }
    for (unsigned i = 0; i < HV_HPET_TIMERS; i++) {
        const struct hv_hpet_timer *timer = &hpet->timer[i];

        record_out->timer[i] = (struct hv_hpet_timer_record){
            .comparator = timer->comparator,
            .period = timer->period,
            .match = timer->match,
            .remaining_ns = hv_vpt_remaining_ns(&timer->vpt, hpet->now),
            .config = timer->config,
            .armed = timer->armed,
            .asserted = timer->asserted,
        };
        hv_vpt_save(&timer->vpt, hpet->now, &record_out->timer[i].vpt);
    }
    hv_lock_drop(&hpet->lock);
}

/*
 * May it be that long until the next interrupt? A one-shot's comes with the match. A clamped period has a grid
 * of its own, whose next point is a period away at most, but for the first.
 */
static bool hpet_remaining_possible(const struct hv_hpet_record *record,
                                    const struct hv_hpet_timer_record *timer)
{
    uint64_t match_ns = (timer->match - record->counter) * HV_HPET_TICK_NS - record->phase_ns;
    uint64_t period_ns = hpet_period_ns(timer->config, timer->period);

    if (timer->remaining_ns == UINT64_MAX || period_ns == 0) {
        return timer->remaining_ns == UINT64_MAX || timer->remaining_ns == match_ns;
    }
    match_ns = period_ns > match_ns ? period_ns : match_ns;
    return timer->remaining_ns <= match_ns + HV_VPT_PERIOD_FLOOR_NS;
}

/* What the counter is compared with: the comparator, or where its 32 bits come next. */
static bool hpet_match_possible(const struct hv_hpet_record *record,
                                const struct hv_hpet_timer_record *timer)
{
    if (timer->config & HPET_TIMER_32BIT) {
        return timer->match - record->counter <= UINT64_C(1) << 32;
    }
    return timer->match == timer->comparator;
}

static const char *hpet_check_timer(const struct hv_hpet_record *record, unsigned index)
{
    const struct hv_hpet_timer_record *timer = &record->timer[index];
    uint32_t route = (timer->config & HPET_TIMER_ROUTE) >> HPET_TIMER_ROUTE_SHIFT;
    bool status = record->status >> index & 1;
    bool waits = timer->armed && (timer->config & HPET_TIMER_INTERRUPT) &&
                 (record->config & HPET_CONFIG_ENABLE);

    if ((timer->config & ~(uint32_t)HPET_TIMER_WRITABLE) ||
        (route && !(HV_HPET_ROUTES & 1u << route))) {
        return "hpet.timer.config";
    }
    if (hv_record_not_bool(timer->armed)) {
        return "hpet.timer.armed";
    }
    if (timer->armed && !hpet_match_possible(record, timer)) {
        return "hpet.timer.match";
    }
    if (hv_record_not_bool(timer->asserted) || (timer->asserted && !status)) {
        return "hpet.timer.asserted";
    }
    if (status && !(timer->config & HPET_TIMER_LEVEL)) {
        return "hpet.status";
    }
    if (timer->remaining_ns != UINT64_MAX && (!waits || !hpet_remaining_possible(record, timer))) {
        return "hpet.timer.remaining_ns";
    }
    if ((timer->config & HPET_TIMER_32BIT) && (timer->comparator | timer->period) > UINT32_MAX) {
        return "hpet.timer.comparator";
    }
    return hv_vpt_record_check((enum hv_vpt_source)(HV_VPT_HPET0 + index), &timer->vpt,
                               timer->remaining_ns != UINT64_MAX &&
                                   (timer->config & HPET_TIMER_PERIODIC) && timer->period != 0);
}

const char *hv_hpet_check(const struct hv_hpet_record *record)
{
    if (record->version != HV_HPET_RECORD_VERSION) {
        return "hpet.version";
    }
    if (record->config & ~(uint64_t)(HPET_CONFIG_ENABLE | HPET_CONFIG_LEGACY)) {
        return "hpet.config";
    }
    if (record->status >> HV_HPET_TIMERS) {
        return "hpet.status";
    }
    if (record->phase_ns >= HV_HPET_TICK_NS) {
        return "hpet.phase_ns";
    }
    for (unsigned i = 0; i < HV_HPET_TIMERS; i++) {
        const char *field = hpet_check_timer(record, i);

        if (field) {
            return field;
        }
    }
    return NULL;
}

void hv_hpet_load(struct hv_hpet *hpet, const struct hv_hpet_record *record)
{
    hpet_take(hpet);
    hpet->config = record->config;
    hpet->status = record->status;
    hpet->counter = record->counter;
    hpet->start_ns = hpet->now.v - record->phase_ns;
    hv_store_relaxed(&hpet->replaces, (record->config & HPET_CONFIG_LEGACY) != 0);
    for (unsigned i = 0; i < HV_HPET_TIMERS; i++) {
        const struct hv_hpet_timer_record *from = &record->timer[i];
        struct hv_hpet_timer *timer = &hpet->timer[i];

        timer->config = from->config;
        timer->comparator = from->comparator;
        timer->period = from->period;
        timer->match = from->match;
        timer->armed = from->armed;
        timer->asserted = from->asserted;
        hpet_timer_arm_locked(timer);
        hpet_timer_shift_locked(timer, from->remaining_ns);
        hv_vpt_load(&timer->vpt, hpet->now, &from->vpt);
    }
    hv_lock_drop(&hpet->lock);
}

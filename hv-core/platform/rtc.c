/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The MC146818's ports, flags and interrupts. */
#include "platform/rtc.h"

#include <string.h>

#include "platform/rtc-calendar.h"
#include "platform/tick.h"

#define RTC_HZ               32768u
/* tBUC and tUC at 32.768 kHz (data sheet, table 6): UIP is set before and during an update. */
#define RTC_UIP_NS           ((244 + 1984) * HV_NS_PER_US)
/* The first update comes half a second after the divider's reset ("Divider control"). */
#define RTC_DIVIDER_START_NS (HV_NS_PER_S / 2)
#define RTC_FLAGS            (RTC_C_UF | RTC_C_AF | RTC_C_PF)

static bool rtc_divider_runs(const struct hv_rtc *rtc)
{
    return (rtc->memory[RTC_A] & RTC_A_DIVIDER) == RTC_A_DIVIDER_32K;
}

static bool rtc_clock_runs(const struct hv_rtc *rtc)
{
    return rtc_divider_runs(rtc) && !(rtc->memory[RTC_B] & RTC_B_SET);
}

/* Period of the rate selection in ticks of 32.768 kHz (table 5); 0 for none. */
static uint32_t rtc_period_ticks(uint8_t register_a)
{
    unsigned rate = register_a & RTC_A_RATE;

    if (rate == 0) {
        return 0;
    }
    return 1u << (rate <= 2 ? rate + 6 : rate - 1);
}

/* Ticks of the periodic grid since the divider started. */
static uint64_t rtc_periodic_ticks(const struct hv_rtc *rtc, uint64_t now_ns)
{
    uint32_t period = rtc_period_ticks(rtc->memory[RTC_A]);

    if (period == 0 || !rtc_divider_runs(rtc)) {
        return 0;
    }
    return hv_ticks_from_ns(now_ns - rtc->divider_ns, RTC_HZ) / period;
}

/* IRQF: a flag that is set and enabled. */
static bool rtc_interrupts(const struct hv_rtc *rtc)
{
    return rtc->memory[RTC_C] & rtc->memory[RTC_B] & RTC_FLAGS;
}

/* Set what has happened up to now: clock registers and flags. */
static void rtc_follow_locked(struct hv_rtc *rtc, uint64_t now_ns) HV_REQUIRES(&rtc->lock)
{
    uint64_t seconds = (now_ns - rtc->second_ns) / HV_NS_PER_S;
    uint64_t ticks = rtc_periodic_ticks(rtc, now_ns);

    if (rtc_divider_runs(rtc) && seconds > 0) {
        rtc->second_ns += seconds * HV_NS_PER_S;
        if (rtc_clock_runs(rtc)) {
            bool alarm = rtc_calendar_advance(rtc->memory, seconds);

            rtc->memory[RTC_C] |= (uint8_t)(RTC_C_UF | (alarm ? RTC_C_AF : 0u));
        }
    }
    /* Where ticks interrupt, they come at vpt's pace: one of a backlog between the grid's points. */
    if (ticks > rtc->periodic_seen && !hv_load_relaxed(&rtc->periodic.running)) {
        rtc->memory[RTC_C] |= RTC_C_PF;
    }
    rtc->periodic_seen = ticks;
}

/* Follow the clock, deliver what is due. The line stays high until register C is read. */
static void rtc_settle_locked(struct hv_rtc *rtc, uint64_t now_ns) HV_REQUIRES(&rtc->lock)
{
    bool before = rtc_interrupts(rtc);
    bool tick = hv_vpt_expire(&rtc->periodic, (hv_ns){now_ns});

    if (hv_vpt_expire(&rtc->update, (hv_ns){now_ns})) {
        hv_vpt_skip(&rtc->update); /* nobody waits for the timer itself */
    }
    rtc_follow_locked(rtc, now_ns);
    if (tick) {
        rtc->memory[RTC_C] |= RTC_C_PF;
    }
    if (tick && before) {
        hv_vpt_merge(&rtc->periodic); /* register C has not been read */
    } else if (tick) {
        hv_vpt_issue(&rtc->periodic);
    }
    if (!before && rtc_interrupts(rtc)) {
        hv_irq_line_set(&rtc->irq, true);
    }
}

static void rtc_expired(void *context)
{
    struct hv_rtc *rtc = context;

    hv_lock_take(&rtc->lock);
    rtc_settle_locked(rtc, hv_clock_now(rtc->clock).v);
    hv_lock_drop(&rtc->lock);
}

static void rtc_arm_update_locked(struct hv_rtc *rtc) HV_REQUIRES(&rtc->lock)
{
    if ((rtc->memory[RTC_B] & (RTC_B_UIE | RTC_B_AIE)) && rtc_clock_runs(rtc)) {
        hv_vpt_start_grid(&rtc->update, rtc->second_ns, HV_NS_PER_S, (uint32_t)HV_NS_PER_S);
    } else {
        hv_vpt_stop(&rtc->update);
    }
}

/* Only what can interrupt needs a timer: the rest is found out when it is read. */
static void rtc_arm_locked(struct hv_rtc *rtc) HV_REQUIRES(&rtc->lock)
{
    uint8_t enabled = rtc->memory[RTC_B];
    uint32_t period = rtc_period_ticks(rtc->memory[RTC_A]);

    if ((enabled & RTC_B_PIE) && period && rtc_divider_runs(rtc)) {
        hv_vpt_start_grid(&rtc->periodic, rtc->divider_ns, period, RTC_HZ);
    } else {
        hv_vpt_stop(&rtc->periodic);
    }
    rtc_arm_update_locked(rtc);
}

static void rtc_write_a_locked(struct hv_rtc *rtc, uint8_t value, uint64_t now_ns)
    HV_REQUIRES(&rtc->lock)
{
    bool ran = rtc_divider_runs(rtc);

    rtc->memory[RTC_A] = value & (uint8_t)~RTC_A_UIP;
    if (!ran && rtc_divider_runs(rtc)) {
        rtc->divider_ns = now_ns;
        rtc->second_ns = now_ns - RTC_DIVIDER_START_NS;
    }
    rtc->periodic_seen = rtc_periodic_ticks(rtc, now_ns);
}

static void rtc_write_b_locked(struct hv_rtc *rtc, uint8_t value) HV_REQUIRES(&rtc->lock)
{
    if (value & RTC_B_SET) {
        value &= (uint8_t)~RTC_B_UIE; /* "Register B", SET: clears UIE */
    }
    rtc->memory[RTC_B] = value;
}

static void rtc_write_locked(struct hv_rtc *rtc, uint8_t value) HV_REQUIRES(&rtc->lock)
{
    uint64_t now_ns = hv_clock_now(rtc->clock).v;
    bool before;

    rtc_settle_locked(rtc, now_ns);
    before = rtc_interrupts(rtc);
    switch (rtc->index) {
    case RTC_A:
        rtc_write_a_locked(rtc, value, now_ns);
        break;
    case RTC_B:
        rtc_write_b_locked(rtc, value);
        break;
    case RTC_C:
    case RTC_D:
        return; /* read-only */
    default:
        rtc->memory[rtc->index] = value;
        return;
    }
    rtc_arm_locked(rtc);
    if (before != rtc_interrupts(rtc)) {
        hv_irq_line_set(&rtc->irq, !before);
    }
}

static bool rtc_updating(const struct hv_rtc *rtc, uint64_t now_ns)
{
    return rtc_clock_runs(rtc) && now_ns - rtc->second_ns >= HV_NS_PER_S - RTC_UIP_NS;
}

static uint8_t rtc_read_locked(struct hv_rtc *rtc) HV_REQUIRES(&rtc->lock)
{
    uint64_t now_ns = hv_clock_now(rtc->clock).v;
    uint8_t value;
    bool interrupts;

    rtc_settle_locked(rtc, now_ns);
    value = rtc->memory[rtc->index];
    switch (rtc->index) {
    case RTC_A:
        return (uint8_t)(value | (rtc_updating(rtc, now_ns) ? RTC_A_UIP : 0u));
    case RTC_C:
        interrupts = rtc_interrupts(rtc);
        rtc->memory[RTC_C] = 0;
        if (interrupts) {
            hv_irq_line_set(&rtc->irq, false);
            hv_vpt_ready(&rtc->periodic);
        }
        return (uint8_t)(value | (interrupts ? RTC_C_IRQF : 0u));
    default:
        return value;
    }
}

static int rtc_write(void *context, uint32_t vcpu, uint64_t offset, unsigned bytes, uint64_t value)
{
    struct hv_rtc *rtc = context;

    (void)vcpu;
    (void)bytes;
    hv_lock_take(&rtc->lock);
    if (offset == 0) {
        rtc->index = value & (HV_RTC_BYTES - 1); /* bit 7 masks NMI, of which there is none */
    } else {
        rtc_write_locked(rtc, (uint8_t)value);
    }
    hv_lock_drop(&rtc->lock);
    return 0;
}

static int rtc_read(void *context, uint32_t vcpu, uint64_t offset, unsigned bytes,
                    uint64_t *value_out)
{
    struct hv_rtc *rtc = context;

    (void)vcpu;
    (void)bytes;
    *value_out = 0xff; /* the index port is write-only */
    if (offset != 0) {
        hv_lock_take(&rtc->lock);
        *value_out = rtc_read_locked(rtc);
        hv_lock_drop(&rtc->lock);
    }
    return 0;
}

static const struct hv_bus_ops rtc_ops = {rtc_read, rtc_write};

static uint64_t rtc_wall_apart(const struct hv_rtc *rtc)
{
    return hv_clock_wall_ns(rtc->clock) - hv_clock_now(rtc->clock).v;
}

/* Forward as if the time had passed. Back by whole seconds, and then forward by what is too much. */
static void rtc_move_locked(struct hv_rtc *rtc, uint64_t moved_ns) HV_REQUIRES(&rtc->lock)
{
    if ((int64_t)moved_ns < 0) {
        uint64_t back_s = -moved_ns / HV_NS_PER_S + 1;

        rtc_calendar_go_back(rtc->memory, back_s);
        moved_ns += back_s * HV_NS_PER_S;
    }
    rtc->second_ns -= moved_ns;
    rtc_settle_locked(rtc, hv_clock_now(rtc->clock).v);
    rtc_arm_update_locked(rtc);
}

void hv_rtc_follow_wall(struct hv_rtc *rtc)
{
    uint64_t apart_ns, moved_ns;

    hv_lock_take(&rtc->lock);
    rtc_settle_locked(rtc, hv_clock_now(rtc->clock).v);
    apart_ns = rtc_wall_apart(rtc);
    moved_ns = apart_ns - rtc->wall_apart_ns;
    rtc->wall_apart_ns = apart_ns;
    /* Who has stopped it is about to set it. */
    if (moved_ns != 0 && rtc_clock_runs(rtc)) {
        rtc_move_locked(rtc, moved_ns);
    }
    hv_lock_drop(&rtc->lock);
}

int hv_rtc_init(struct hv_rtc *rtc, struct hv_bus *bus, const struct hv_clock *clock,
                struct hv_vpt_set *timers, const struct hv_irq_line *irq)
{
    const struct hv_bus_range ports = {0x70, 2, &rtc_ops, rtc, "rtc", 1};

    memset(rtc, 0, sizeof(*rtc));
    hv_lock_init(&rtc->lock, HV_RANK_DEVICE, "platform.rtc", 0);
    rtc->clock = clock;
    rtc->irq = *irq;
    rtc->memory[RTC_A] = RTC_A_DIVIDER_32K | 6; /* 1024 Hz, as every PC's firmware leaves it */
    rtc->memory[RTC_B] = RTC_B_24H;
    rtc->memory[RTC_D] = RTC_D_VRT;
    rtc->second_ns = hv_clock_now(clock).v;
    rtc->divider_ns = rtc->second_ns;
    rtc_calendar_set(rtc->memory, hv_clock_wall_s(clock));
    rtc->wall_apart_ns = rtc_wall_apart(rtc);
    hv_vpt_init(&rtc->periodic, timers, HV_VPT_RTC, 0, rtc_expired, rtc);
    hv_vpt_init_plain(&rtc->update, timers, HV_VPT_RTC, rtc_expired, rtc, HV_RANK_DEVICE);
    return hv_bus_add(bus, HV_BUS_PORT, &ports);
}

void hv_rtc_finish(struct hv_rtc *rtc)
{
    hv_vpt_finish(&rtc->periodic);
    hv_vpt_finish(&rtc->update);
    hv_lock_finish(&rtc->lock);
}

void hv_rtc_reset(struct hv_rtc *rtc)
{
    hv_lock_take(&rtc->lock);
    rtc_settle_locked(rtc, hv_clock_now(rtc->clock).v);
    rtc->index = 0;
    rtc->memory[RTC_B] &= (uint8_t) ~(RTC_B_PIE | RTC_B_AIE | RTC_B_UIE | RTC_B_SQWE);
    rtc->memory[RTC_C] = 0;
    hv_vpt_reset(&rtc->periodic);
    rtc_arm_locked(rtc);
    hv_irq_line_set(&rtc->irq, false);
    hv_lock_drop(&rtc->lock);
}

void hv_rtc_accepted(struct hv_rtc *rtc, unsigned vcpu)
{
    hv_lock_take(&rtc->lock);
    hv_vpt_accept(&rtc->periodic, vcpu, NULL); /* its wire stays high until C is read */
    hv_lock_drop(&rtc->lock);
}

void hv_rtc_save(struct hv_rtc *rtc, struct hv_rtc_record *record_out)
{
    uint64_t now_ns;

    memset(record_out, 0, sizeof(*record_out));
    hv_lock_take(&rtc->lock);
    now_ns = hv_clock_now(rtc->clock).v;
    rtc_settle_locked(rtc, now_ns);
    record_out->version = HV_RTC_RECORD_VERSION;
    record_out->index = rtc->index;
    if (rtc_divider_runs(rtc)) {
        record_out->second_elapsed_ns = now_ns - rtc->second_ns;
        record_out->divider_elapsed_ns = now_ns - rtc->divider_ns;
        record_out->periodic_seen = rtc->periodic_seen;
    }
    record_out->wall_apart_ns = rtc->wall_apart_ns;
    memcpy(record_out->memory, rtc->memory, sizeof(rtc->memory));
    hv_vpt_save(&rtc->periodic, (hv_ns){now_ns}, &record_out->periodic);
    hv_lock_drop(&rtc->lock);
}

const char *hv_rtc_check(const struct hv_rtc_record *record)
{
    const uint8_t *memory = record->memory;
    uint32_t period = rtc_period_ticks(memory[RTC_A]);
    uint64_t ticks = hv_ticks_from_ns(record->divider_elapsed_ns, RTC_HZ);

    if (record->version != HV_RTC_RECORD_VERSION) {
        return "rtc.version";
    }
    if (record->index >= HV_RTC_BYTES) {
        return "rtc.index";
    }
    if (memory[RTC_A] & RTC_A_UIP) {
        return "rtc.register_a";
    }
    if ((memory[RTC_B] & RTC_B_SET) && (memory[RTC_B] & RTC_B_UIE)) {
        return "rtc.register_b";
    }
    if (memory[RTC_C] & ~RTC_FLAGS) {
        return "rtc.register_c";
    }
    if (memory[RTC_D] != RTC_D_VRT) {
        return "rtc.register_d";
    }
    if (record->second_elapsed_ns >= HV_NS_PER_S) {
        return "rtc.second_elapsed_ns";
    }
    if (record->periodic_seen != (period ? ticks / period : 0)) {
        return "rtc.periodic_seen";
    }
    return hv_vpt_record_check(HV_VPT_RTC, &record->periodic,
                               period && (memory[RTC_B] & RTC_B_PIE) &&
                                   (memory[RTC_A] & RTC_A_DIVIDER) == RTC_A_DIVIDER_32K);
}

void hv_rtc_load(struct hv_rtc *rtc, const struct hv_rtc_record *record)
{
    uint64_t now_ns;

    hv_lock_take(&rtc->lock);
    now_ns = hv_clock_now(rtc->clock).v;
    rtc->index = record->index;
    memcpy(rtc->memory, record->memory, sizeof(rtc->memory));
    rtc->second_ns = now_ns - record->second_elapsed_ns;
    rtc->divider_ns = now_ns - record->divider_elapsed_ns;
    rtc->periodic_seen = record->periodic_seen;
    rtc->wall_apart_ns = record->wall_apart_ns;
    rtc_arm_locked(rtc);
    hv_vpt_load(&rtc->periodic, (hv_ns){now_ns}, &record->periodic);
    hv_lock_drop(&rtc->lock);
}

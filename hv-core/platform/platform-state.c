/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The platform as a whole: its timers' statistics and pauses, and its save record. */
#include "platform/platform-private.h"

#include <errno.h>
#include <string.h>

#include "base/format.h"

#define PLATFORM_DEVICE_TIMERS (3u + HV_HPET_TIMERS)

/* And the lock of the device that it is part of. */
struct platform_timer {
    struct hv_vpt *vpt;
    struct hv_lock *lock;
};

/*
 * Timers in the order of their numbers: the devices', then each vCPU's. Behind those the RTC's for its
 * seconds, which has no number: nobody waits for its ticks.
 */
static struct platform_timer platform_timer(struct hv_platform *platform, unsigned index)
{
    struct hv_lapic *lapic;

    switch (index) {
    case 0:
        return (struct platform_timer){&platform->pit.timer, &platform->pit.lock};
    case 1:
        return (struct platform_timer){&platform->rtc.periodic, &platform->rtc.lock};
    case 2:
        return (struct platform_timer){&platform->acpi.timer, &platform->acpi.lock};
    default:
        break;
    }
    if (index < PLATFORM_DEVICE_TIMERS) {
        return (struct platform_timer){&platform->hpet.timer[index - 3].vpt, &platform->hpet.lock};
    }
    index -= PLATFORM_DEVICE_TIMERS;
    if (index == platform->lapics.count) {
        return (struct platform_timer){&platform->rtc.update, &platform->rtc.lock};
    }
    lapic = &platform->lapics.lapic[index];
    return (struct platform_timer){&lapic->timer, &lapic->lock};
}

static unsigned platform_numbered(const struct hv_platform *platform)
{
    return PLATFORM_DEVICE_TIMERS + platform->lapics.count;
}

bool hv_platform_lacks(const struct hv_platform *platform, enum hv_vpt_source source)
{
    switch (source) {
    case HV_VPT_PIT:
        return platform->timers_absent & HV_TIMER_PIT;
    case HV_VPT_RTC:
        return platform->timers_absent & HV_TIMER_RTC;
    case HV_VPT_HPET0:
    case HV_VPT_HPET1:
    case HV_VPT_HPET2:
        return platform->timers_absent & HV_TIMER_HPET;
    case HV_VPT_LAPIC:
    case HV_VPT_PM:
    case HV_VPT_SOURCES:
        break;
    }
    return false;
}

static const struct hv_vpt *platform_vpt(const struct hv_platform *platform, unsigned index)
{
    return platform_timer((struct hv_platform *)platform, index).vpt;
}

static bool platform_lacks(const struct hv_platform *platform, unsigned index)
{
    return hv_platform_lacks(platform, platform_vpt(platform, index)->source);
}

/* Those that are absent are passed over. */
static const struct hv_vpt *platform_present(const struct hv_platform *platform, unsigned index)
{
    for (unsigned i = 0; i <= index && i < PLATFORM_DEVICE_TIMERS; i++) {
        index += platform_lacks(platform, i);
    }
    return platform_vpt(platform, index);
}

unsigned hv_platform_timers(const struct hv_platform *platform)
{
    unsigned count = platform->lapics.count;

    for (unsigned i = 0; i < PLATFORM_DEVICE_TIMERS; i++) {
        count += !platform_lacks(platform, i);
    }
    return count;
}

/* Name, and the interrupt where the device alone decides it. */
static void platform_describe(const struct hv_vpt *vpt, struct hv_platform_timer *timer)
{
    const char *name = hv_vpt_source_name(vpt->source);

    if (vpt->source == HV_VPT_LAPIC) {
        hv_format(timer->name, sizeof(timer->name), "%s%u", name, vpt->index);
    } else {
        hv_format(timer->name, sizeof(timer->name), "%s", name);
    }
    if (vpt->source == HV_VPT_RTC) {
        timer->irq = PLATFORM_IRQ_RTC;
    } else if (vpt->source == HV_VPT_PM) {
        timer->irq = HV_ACPI_SCI;
    }
}

void hv_platform_get_timer(const struct hv_platform *platform, unsigned index,
                           struct hv_platform_timer *timer_out)
{
    const struct hv_vpt *vpt = platform_present(platform, index);
    const struct hv_vpt_counters *counters = &vpt->counters;

    *timer_out = (struct hv_platform_timer){
        .vcpu = vpt->index,
        .policy = hv_tick_policy_name((enum hv_tick_policy)hv_load_relaxed(&vpt->policy_kind)),
        .armed = hv_load_relaxed(&vpt->running),
        .period_ns = hv_load_relaxed(&vpt->period_ns),
        .fired = hv_load_relaxed(&counters->fired),
        .issued = hv_load_relaxed(&counters->issued),
        .accepted = hv_load_relaxed(&counters->accepted),
        .merged = hv_load_relaxed(&counters->merged),
        .discarded = hv_load_relaxed(&counters->discarded),
        .masked_skips = hv_load_relaxed(&counters->masked_skips),
        .retargets = hv_load_relaxed(&counters->retargets),
        .period_clamped = hv_load_relaxed(&counters->period_clamped),
        .pending = hv_load_relaxed(&vpt->pending),
        .backlog_max = hv_load_relaxed(&counters->backlog_max),
        .late_p50 = hv_histogram_quantile(&vpt->late, 500000),
        .late_p99 = hv_histogram_quantile(&vpt->late, 990000),
        .late_max = hv_load_relaxed(&vpt->late.max_ns),
        .jitter_p50 = hv_histogram_quantile(&vpt->jitter, 500000),
        .jitter_p99 = hv_histogram_quantile(&vpt->jitter, 990000),
    };
    platform_describe(vpt, timer_out);
}

void hv_platform_set_tick_policy(struct hv_platform *platform, enum hv_vpt_source source,
                                 const struct hv_vpt_policy *policy)
{
    for (unsigned i = 0; i < platform_numbered(platform); i++) {
        struct platform_timer timer = platform_timer(platform, i);

        if (timer.vpt->source == source) {
            hv_lock_take(timer.lock);
            hv_vpt_set_policy(timer.vpt, policy);
            hv_lock_drop(timer.lock);
        }
    }
}

static void platform_each_timer(struct hv_platform *platform, void (*act)(struct hv_vpt *vpt))
{
    for (unsigned i = 0; i <= platform_numbered(platform); i++) {
        act(platform_timer(platform, i).vpt);
    }
}

void hv_platform_halt(struct hv_platform *platform)
{
    platform_each_timer(platform, hv_vpt_halt);
    hv_guest_clock_freeze(&platform->clock);
}

void hv_platform_pause(struct hv_platform *platform)
{
    platform_each_timer(platform, hv_vpt_pause);
    hv_guest_clock_freeze(&platform->clock);
}

void hv_platform_follow_wall(struct hv_platform *platform)
{
    if (platform->rtc_track == HV_RTC_TRACK_WALL) {
        hv_rtc_follow_wall(&platform->rtc);
    }
}

/* The RTC's timer is armed by its new time when all are. */
void hv_platform_resume(struct hv_platform *platform)
{
    hv_guest_clock_thaw(&platform->clock);
    hv_store_seq(&platform->clock_moved, false);
    hv_pv_resume(&platform->pv);
    hv_platform_follow_wall(platform);
    platform_each_timer(platform, hv_vpt_resume);
}

void hv_platform_rearm_timers(struct hv_platform *platform)
{
    /* First: what moves the clock from here on sets it again. */
    hv_store_seq(&platform->clock_moved, false);
    for (unsigned i = 0; i <= platform_numbered(platform); i++) {
        struct platform_timer timer = platform_timer(platform, i);

        hv_lock_take(timer.lock);
        hv_vpt_rearm(timer.vpt);
        hv_lock_drop(timer.lock);
    }
}

/* Devices first: what is overdue is delivered then, into the controllers. */
void hv_platform_save(struct hv_platform *platform, struct hv_platform_record *record_out)
{
    memset(record_out, 0, sizeof(*record_out));
    record_out->version = HV_PLATFORM_RECORD_VERSION;
    record_out->vcpus = platform->lapics.count;
    record_out->testing = platform->testing;
    record_out->timers_absent = platform->timers_absent;
    hv_guest_clock_save(&platform->clock, &record_out->clock);
    hv_pit_save(&platform->pit, &record_out->pit);
    hv_rtc_save(&platform->rtc, &record_out->rtc);
    hv_hpet_save(&platform->hpet, &record_out->hpet);
    hv_acpi_save(&platform->acpi, &record_out->acpi);
    hv_uart_save(&platform->uart, &record_out->uart);
    hv_i8042_save(&platform->i8042, &record_out->i8042);
    if (platform->testing) {
        hv_fwcfg_save(&platform->fwcfg, &record_out->fwcfg);
        hv_testdev_save(&platform->testdev, &record_out->testdev);
    }
    hv_pic_save(&platform->pic, &record_out->pic);
    hv_ioapic_save(&platform->ioapic, &record_out->ioapic);
    for (unsigned i = 0; i < platform->lapics.count; i++) {
        hv_lapic_save(&platform->lapics.lapic[i], &record_out->lapic[i]);
    }
    hv_pv_save(&platform->pv, &record_out->pv);
}

static const char *platform_check_devices(const struct hv_platform_record *record)
{
    const char *fields[] = {
        hv_pit_check(&record->pit),   hv_rtc_check(&record->rtc),
        hv_hpet_check(&record->hpet), hv_acpi_check(&record->acpi),
        hv_uart_check(&record->uart), hv_i8042_check(&record->i8042),
        hv_pic_check(&record->pic),   hv_ioapic_check(&record->ioapic),
    };

    for (size_t i = 0; i < HV_ARRAY_LEN(fields); i++) {
        if (fields[i]) {
            return fields[i];
        }
    }
    return NULL;
}

static const char *platform_check(const struct hv_platform *platform,
                                  const struct hv_platform_record *record)
{
    const char *field = NULL;

    if (record->version != HV_PLATFORM_RECORD_VERSION) {
        return "platform.version";
    }
    if (record->vcpus != platform->lapics.count) {
        return "platform.vcpus";
    }
    if (record->testing != platform->testing) {
        return "platform.testing";
    }
    if (record->timers_absent != platform->timers_absent) {
        return "platform.timers_absent"; /* the guest has looked for them long ago */
    }
    field = hv_guest_clock_check(&record->clock);
    if (!field) {
        field = platform_check_devices(record);
    }
    if (!field && platform->testing) {
        field = hv_fwcfg_check(&record->fwcfg);
    }
    if (!field && platform->testing) {
        field = hv_testdev_check(&record->testdev);
    }
    for (unsigned i = 0; !field && i < record->vcpus; i++) {
        field = hv_lapic_check(&record->lapic[i], platform->lapics.phys_bits);
    }
    return field ? field : hv_pv_check(&platform->pv, &record->pv);
}

int hv_platform_load(struct hv_platform *platform, const struct hv_platform_record *record,
                     const char **field_out)
{
    *field_out = platform_check(platform, record);
    if (*field_out) {
        return -EPROTO;
    }
    /* First: what devices remember is how long ago it was. */
    hv_guest_clock_load(&platform->clock, &record->clock);
    for (unsigned i = 0; i < record->vcpus; i++) {
        hv_lapic_load(&platform->lapics.lapic[i], &record->lapic[i]);
    }
    hv_pv_load(&platform->pv, &record->pv);
    hv_ioapic_load(&platform->ioapic, &record->ioapic);
    hv_pic_load(&platform->pic, &record->pic);
    hv_pit_load(&platform->pit, &record->pit);
    hv_rtc_load(&platform->rtc, &record->rtc);
    hv_hpet_load(&platform->hpet, &record->hpet);
    hv_acpi_load(&platform->acpi, &record->acpi);
    hv_uart_load(&platform->uart, &record->uart);
    hv_i8042_load(&platform->i8042, &record->i8042);
    if (platform->testing) {
        hv_fwcfg_load(&platform->fwcfg, &record->fwcfg);
        hv_testdev_load(&platform->testdev, &record->testdev);
    }
    return 0;
}

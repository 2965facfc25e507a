/* SPDX-License-Identifier: GPL-3.0-or-later */
/* From libvirt's timers to the core's. */
#include "config/machine-time.h"

#include "common/i18n.h"
#include "common/lodge-error.h"

#include <string.h>

#define SLEW_MIN_PERCENT 101u
#define SLEW_MAX_PERCENT 10000u

/* Sources from first to before end: those with ticks that may be missed. */
static const struct {
    const char *name;
    enum hv_timer_part part;
    enum hv_vpt_source first, end;
} timers[LODGE_TIMER_COUNT] = {
    [LODGE_TIMER_PIT] = {"pit", HV_TIMER_PIT, HV_VPT_PIT, HV_VPT_PIT + 1},
    [LODGE_TIMER_RTC] = {"rtc", HV_TIMER_RTC, HV_VPT_RTC, HV_VPT_RTC + 1},
    [LODGE_TIMER_HPET] = {"hpet", HV_TIMER_HPET, HV_VPT_HPET0, HV_VPT_HPET2 + 1},
    [LODGE_TIMER_LAPIC] = {"lapic", HV_TIMER_LAPIC, HV_VPT_LAPIC, HV_VPT_LAPIC + 1},
    [LODGE_TIMER_TSC] = {"tsc", HV_TIMER_TSC, HV_VPT_SOURCES, HV_VPT_SOURCES},
    [LODGE_TIMER_KVMCLOCK] = {"kvmclock", HV_TIMER_KVMCLOCK, HV_VPT_SOURCES, HV_VPT_SOURCES},
};

const char *lodge_timer_name(LodgeTimer timer)
{
    return timers[timer].name;
}

gboolean lodge_timer_find(const char *name, LodgeTimer *timer_out)
{
    for (guint i = 0; i < LODGE_TIMER_COUNT; i++) {
        if (strcmp(name, timers[i].name) == 0) {
            *timer_out = i;
            return TRUE;
        }
    }
    return FALSE;
}

LodgeTimer lodge_timer_of_source(enum hv_vpt_source source)
{
    guint timer = 0;

    while (timer < LODGE_TIMER_COUNT &&
           (source < timers[timer].first || source >= timers[timer].end)) {
        timer++;
    }
    return timer;
}

void lodge_machine_time_set_absent(LodgeMachineTime *time, LodgeTimer timer)
{
    time->timers_absent |= timers[timer].part;
}

void lodge_machine_time_set_policy(LodgeMachineTime *time, LodgeTimer timer,
                                   const struct hv_vpt_policy *policy)
{
    for (guint source = timers[timer].first; source < timers[timer].end; source++) {
        time->policies |= 1u << source;
        time->policy[source] = *policy;
    }
}

static struct hv_vpt_policy get_policy(const LodgeTimerConfig *timer)
{
    static const enum hv_tick_policy kinds[] = {
        [LODGE_TICK_DELAY] = HV_TICK_DELAY,
        [LODGE_TICK_CATCHUP] = HV_TICK_CATCHUP,
        [LODGE_TICK_MERGE] = HV_TICK_MERGE,
        [LODGE_TICK_DISCARD] = HV_TICK_DISCARD,
    };
    struct hv_vpt_policy policy = {.kind = kinds[timer->policy]};

    if (policy.kind == HV_TICK_DELAY || policy.kind == HV_TICK_CATCHUP) {
        policy.limit_ns = timer->limit ? timer->limit * HV_NS_PER_MS : LODGE_LIMIT_DEFAULT_NS;
    }
    if (policy.kind == HV_TICK_CATCHUP) {
        policy.threshold_ns = timer->threshold * HV_NS_PER_MS;
        policy.slew_per_cent = timer->slew ? timer->slew : LODGE_SLEW_DEFAULT_PERCENT;
    }
    return policy;
}

static gboolean get_timer(LodgeTimer which, const LodgeTimerConfig *timer, LodgeMachineTime *time,
                          GError **error)
{
    if (timer->present == LODGE_SWITCH_OFF) {
        lodge_machine_time_set_absent(time, which);
        return TRUE;
    }
    if (timer->slew != 0 && (timer->slew < SLEW_MIN_PERCENT || timer->slew > SLEW_MAX_PERCENT)) {
        return lodge_error_refuse(
            error, _("The timer “%s” catches up with a slew of %u per cent: it takes %u to %u"),
            timers[which].name, timer->slew, SLEW_MIN_PERCENT, SLEW_MAX_PERCENT);
    }
    if (timer->policy != LODGE_TICK_DEFAULT) {
        const struct hv_vpt_policy policy = get_policy(timer);

        lodge_machine_time_set_policy(time, which, &policy);
    }
    return TRUE;
}

static gboolean get_track(LodgeTimerTrack track, LodgeMachineTime *time, GError **error)
{
    switch (track) {
    case LODGE_TRACK_DEFAULT:
    case LODGE_TRACK_WALL:
        time->rtc_track = HV_RTC_TRACK_WALL;
        return TRUE;
    case LODGE_TRACK_GUEST:
        time->rtc_track = HV_RTC_TRACK_GUEST;
        return TRUE;
    case LODGE_TRACK_BOOT:
    case LODGE_TRACK_REALTIME:
        break;
    }
    return lodge_error_refuse(error,
                              _("The timer “rtc” has track “%s”: Lodge's follow “wall” or “guest”"),
                              track == LODGE_TRACK_BOOT ? "boot" : "realtime");
}

gboolean lodge_domain_config_get_time(const LodgeDomainConfig *config, LodgeMachineTime *time_out,
                                      GError **error)
{
    const LodgeClockConfig *clock = &config->clock;

    memset(time_out, 0, sizeof(*time_out));
    time_out->clock_policy =
        config->clock_policy == LODGE_CLOCK_POLICY_FREEZE ? HV_CLOCK_FREEZE : HV_CLOCK_ADVANCE;
    for (guint i = 0; i < LODGE_TIMER_COUNT; i++) {
        if (clock->timer[i].given && !get_timer(i, &clock->timer[i], time_out, error)) {
            return FALSE;
        }
    }
    return get_track(clock->timer[LODGE_TIMER_RTC].track, time_out, error);
}

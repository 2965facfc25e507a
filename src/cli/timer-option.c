/* SPDX-License-Identifier: GPL-3.0-or-later */
/* --timer: libvirt's <timer name= tickpolicy=> and <catchup>, on a command line. */
#include "cli/timer-option.h"

#include "common/i18n.h"
#include "common/lodge-error.h"

#include <string.h>

#define MS_MOST          G_GUINT64_CONSTANT(3600000)
#define PERCENT_MOST     10000u
#define SLEW_DEFAULT     200u
/* The core's own, for the timers that keep their missed ticks by default. */
#define LIMIT_DEFAULT_NS (10 * HV_NS_PER_S)

static const struct {
    const char *name;
    enum hv_vpt_source first, last;
} timers[] = {
    {"pit", HV_VPT_PIT, HV_VPT_PIT},
    {"rtc", HV_VPT_RTC, HV_VPT_RTC},
    {"hpet", HV_VPT_HPET0, HV_VPT_HPET2},
    {"lapic", HV_VPT_LAPIC, HV_VPT_LAPIC},
};

static const struct {
    const char *name;
    enum hv_tick_policy kind;
} policies[] = {
    {"merge", HV_TICK_MERGE},
    {"discard", HV_TICK_DISCARD},
    {"delay", HV_TICK_DELAY},
    {"catchup", HV_TICK_CATCHUP},
};

static gboolean take_name(LodgeTimerOption *option, const char *name)
{
    for (guint i = 0; i < G_N_ELEMENTS(timers); i++) {
        if (g_strcmp0(name, timers[i].name) == 0) {
            option->first = timers[i].first;
            option->last = timers[i].last;
            return TRUE;
        }
    }
    return FALSE;
}

static gboolean take_policy(LodgeTimerOption *option, const char *name)
{
    for (guint i = 0; i < G_N_ELEMENTS(policies); i++) {
        if (strcmp(name, policies[i].name) == 0) {
            option->policy.kind = policies[i].kind;
            return TRUE;
        }
    }
    return FALSE;
}

static gboolean take_ms(const char *text, uint64_t *ns_out)
{
    guint64 ms;

    if (!g_ascii_string_to_unsigned(text, 10, 1, MS_MOST, &ms, NULL)) {
        return FALSE;
    }
    *ns_out = ms * HV_NS_PER_MS;
    return TRUE;
}

static gboolean take_percent(const char *text, uint32_t *percent_out)
{
    guint64 percent;

    if (!g_ascii_string_to_unsigned(text, 10, 101, PERCENT_MOST, &percent, NULL)) {
        return FALSE;
    }
    *percent_out = (uint32_t)percent;
    return TRUE;
}

static gboolean take_part(LodgeTimerOption *option, const char *part)
{
    struct hv_vpt_policy *policy = &option->policy;

    if (g_str_has_prefix(part, "policy=")) {
        return take_policy(option, part + strlen("policy="));
    }
    if (g_str_has_prefix(part, "threshold=")) {
        return take_ms(part + strlen("threshold="), &policy->threshold_ns);
    }
    if (g_str_has_prefix(part, "limit=") && strcmp(part, "limit=0") != 0) {
        return take_ms(part + strlen("limit="), &policy->limit_ns);
    }
    if (strcmp(part, "limit=0") == 0) {
        option->no_limit = TRUE;
        return TRUE;
    }
    return g_str_has_prefix(part, "slew=") &&
           take_percent(part + strlen("slew="), &policy->slew_per_cent);
}

gboolean lodge_timer_option_parse(LodgeTimerOption *option, const char *text, GError **error)
{
    g_auto(GStrv) parts = g_strsplit(text, ",", -1);
    gboolean good = take_name(option, parts[0]) && parts[1];

    for (guint i = 1; good && parts[i]; i++) {
        good = take_part(option, parts[i]);
    }
    if (!good || !strstr(text, ",policy=")) {
        g_set_error(error, LODGE_ERROR, LODGE_ERROR_INPUT,
                    _("--timer %s: expected pit, rtc, hpet or lapic, then ,policy=merge, discard, "
                      "delay or catchup, and for the latter two ,limit=MS; for catchup "
                      ",threshold=MS and ,slew=PERCENT from 101 to %u as well"),
                    text, PERCENT_MOST);
        return FALSE;
    }
    if (option->policy.kind == HV_TICK_CATCHUP && option->policy.slew_per_cent == 0) {
        option->policy.slew_per_cent = SLEW_DEFAULT;
    }
    if (option->policy.kind >= HV_TICK_DELAY && option->policy.limit_ns == 0 && !option->no_limit) {
        option->policy.limit_ns = LIMIT_DEFAULT_NS;
    }
    option->text = g_strdup(text);
    return TRUE;
}

void lodge_timer_option_clear(LodgeTimerOption *option)
{
    g_clear_pointer(&option->text, g_free);
}

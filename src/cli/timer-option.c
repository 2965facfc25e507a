/* SPDX-License-Identifier: GPL-3.0-or-later */
/* --timer: libvirt's <timer name= present= tickpolicy= track=> and <catchup>, on a command line. */
#include "cli/timer-option.h"

#include "common/i18n.h"
#include "common/lodge-error.h"

#include <string.h>

#define MS_MOST      G_GUINT64_CONSTANT(3600000)
#define PERCENT_MOST 10000u

/* What stands in one option. */
typedef struct {
    LodgeTimer timer;
    gboolean absent, has_policy, has_track;
    const char *for_policy; /* a part that says more of the policy; NULL: there is none */
    gboolean no_limit;
    struct hv_vpt_policy policy;
    enum hv_rtc_track track;
} Given;

static const struct {
    const char *name;
    enum hv_tick_policy kind;
} policies[] = {
    {"merge", HV_TICK_MERGE},
    {"discard", HV_TICK_DISCARD},
    {"delay", HV_TICK_DELAY},
    {"catchup", HV_TICK_CATCHUP},
};

static gboolean take_policy(Given *given, const char *name)
{
    for (guint i = 0; i < G_N_ELEMENTS(policies); i++) {
        if (strcmp(name, policies[i].name) == 0) {
            given->policy.kind = policies[i].kind;
            given->has_policy = given->timer < LODGE_TIMER_TSC;
            return given->has_policy;
        }
    }
    return FALSE;
}

static gboolean take_track(Given *given, const char *name)
{
    given->has_track = given->timer == LODGE_TIMER_RTC;
    given->track = strcmp(name, "guest") == 0 ? HV_RTC_TRACK_GUEST : HV_RTC_TRACK_WALL;
    return given->has_track && (strcmp(name, "guest") == 0 || strcmp(name, "wall") == 0);
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

/* One that says more of the policy. */
static gboolean take_limit(Given *given, const char *part)
{
    struct hv_vpt_policy *policy = &given->policy;

    given->for_policy = part;
    if (strcmp(part, "limit=0") == 0) {
        given->no_limit = TRUE;
        return TRUE;
    }
    if (g_str_has_prefix(part, "limit=")) {
        return take_ms(part + strlen("limit="), &policy->limit_ns);
    }
    if (g_str_has_prefix(part, "threshold=")) {
        return take_ms(part + strlen("threshold="), &policy->threshold_ns);
    }
    return g_str_has_prefix(part, "slew=") &&
           take_percent(part + strlen("slew="), &policy->slew_per_cent);
}

static gboolean take_part(Given *given, const char *part)
{
    if (strcmp(part, "present=no") == 0) {
        given->absent = TRUE;
        return TRUE;
    }
    if (g_str_has_prefix(part, "policy=")) {
        return take_policy(given, part + strlen("policy="));
    }
    if (g_str_has_prefix(part, "track=")) {
        return take_track(given, part + strlen("track="));
    }
    return take_limit(given, part);
}

/* Has one of the parts before it the same key? */
static gboolean is_repeated(GStrv parts, guint index)
{
    gsize key = strcspn(parts[index], "=");

    for (guint i = 1; i < index; i++) {
        if (strncmp(parts[i], parts[index], key) == 0 && parts[i][key] == '=') {
            return TRUE;
        }
    }
    return FALSE;
}

/* What is wrong with it; NULL: nothing. Free with g_free(). */
static char *take(Given *given, GStrv parts)
{
    if (!parts[0] || !lodge_timer_find(parts[0], &given->timer)) {
        return g_strdup_printf(_("“%s” is no timer"), parts[0] ? parts[0] : "");
    }
    if (!parts[1]) {
        return g_strdup_printf(_("nothing comes after “%s”"), parts[0]);
    }
    for (guint i = 1; parts[i]; i++) {
        if (!take_part(given, parts[i])) {
            return g_strdup_printf(_("“%s” is wrong"), parts[i]);
        }
        if (is_repeated(parts, i)) {
            return g_strdup_printf(_("“%s” comes again"), parts[i]);
        }
    }
    return given->for_policy && !given->has_policy
               ? g_strdup_printf(_("“%s” without a policy"), given->for_policy)
               : NULL;
}

static void complete_policy(Given *given)
{
    struct hv_vpt_policy *policy = &given->policy;

    if (policy->kind == HV_TICK_CATCHUP && policy->slew_per_cent == 0) {
        policy->slew_per_cent = LODGE_SLEW_DEFAULT_PERCENT;
    }
    if (policy->kind >= HV_TICK_DELAY && policy->limit_ns == 0 && !given->no_limit) {
        policy->limit_ns = LODGE_LIMIT_DEFAULT_NS;
    }
}

gboolean lodge_timer_option_parse(LodgeMachineTime *time, guint *taken, const char *text,
                                  GError **error)
{
    g_auto(GStrv) parts = g_strsplit(text, ",", -1);
    Given given = {0};
    g_autofree char *wrong = take(&given, parts);

    if (wrong) {
        return lodge_error_refuse(
            error,
            _("--timer %s: %s: expected pit, rtc, hpet, lapic, tsc or kvmclock, then ,present=no; "
              "or "
              "one of the first four, then ,policy=merge, discard, delay or catchup, and for the "
              "latter two ,limit=MS; for catchup ,threshold=MS and ,slew=PERCENT from 101 to %u as "
              "well; rtc takes ,track=wall or guest"),
            text, wrong, PERCENT_MOST);
    }
    if (*taken >> given.timer & 1) {
        return lodge_error_refuse(error,
                                  _("--timer %s: another --timer is about “%s” already; say all of "
                                    "it in one"),
                                  text, lodge_timer_name(given.timer));
    }
    *taken |= 1u << given.timer;
    if (given.absent && given.timer == LODGE_TIMER_LAPIC) {
        return lodge_error_refuse(
            error, _("--timer %s: virtual CPUs need the local APIC's timer; leave the option out"),
            text);
    }
    if (given.absent && (given.has_policy || given.has_track)) {
        return lodge_error_refuse(
            error, _("--timer %s: a timer that is absent has neither policy nor track"), text);
    }
    if (given.absent) {
        lodge_machine_time_set_absent(time, given.timer);
    }
    if (given.has_policy) {
        complete_policy(&given);
        lodge_machine_time_set_policy(time, given.timer, &given.policy);
    }
    if (given.has_track) {
        time->rtc_track = given.track;
    }
    return TRUE;
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The clock a machine starts with, and its timers: libvirt's <clock>.
 *
 * libvirt knows timers that Lodge has not; they are kept, and do nothing. Lodge has one that libvirt
 * does not know, the local APIC's, since its ticks have a policy as the others'.
 */
#include "config/domain-config-private.h"
#include "config/machine-time.h"

#include "common/i18n.h"
#include "common/lodge-error.h"

#include <string.h>

enum {
    HAS_POLICY = 1u << 0,
    HAS_TRACK = 1u << 1,
    HAS_TSC = 1u << 2, /* frequency and mode */
};

static const guint timer_has[LODGE_TIMER_COUNT] = {
    [LODGE_TIMER_PIT] = HAS_POLICY,  [LODGE_TIMER_RTC] = HAS_POLICY | HAS_TRACK,
    [LODGE_TIMER_HPET] = HAS_POLICY, [LODGE_TIMER_LAPIC] = HAS_POLICY,
    [LODGE_TIMER_TSC] = HAS_TSC,     [LODGE_TIMER_KVMCLOCK] = 0,
};

static const char *const foreign_timers[] = {"platform", "hypervclock", "armvtimer"};

static const char *const offsets[] = {NULL, "utc", "localtime", "timezone", "variable", "absolute"};
static const char *const bases[] = {NULL, "utc", "localtime"};
static const char *const switches[] = {NULL, "yes", "no"};
static const char *const policies[] = {NULL, "delay", "catchup", "merge", "discard"};
static const char *const tracks[] = {NULL, "boot", "guest", "wall", "realtime"};
static const char *const modes[] = {NULL, "auto", "native", "emulate", "paravirt", "smpsafe"};

const char *lodge_tick_policy_name(LodgeTickPolicy policy)
{
    return policies[policy];
}

/* The clock itself. */

static gboolean parse_adjustment(const xmlNode *node, LodgeClockConfig *clock, GError **error)
{
    g_autofree char *text = lodge_xml_attribute(node, "adjustment");
    g_autofree char *quoted = NULL;

    clock->adjustment_given = text != NULL;
    clock->adjustment_reset = g_strcmp0(text, "reset") == 0;
    if (!text || clock->adjustment_reset ||
        g_ascii_string_to_signed(text, 10, G_MININT64, G_MAXINT64, &clock->adjustment_s, NULL)) {
        return TRUE;
    }
    quoted = lodge_text_quote(text);
    return lodge_xml_refuse(
        error, node, _("<clock> adjustment is %s: expected a number of seconds, or reset"), quoted);
}

static gboolean parse_offset(const xmlNode *node, LodgeClockConfig *clock, GError **error)
{
    guint offset = LODGE_CLOCK_UTC, basis = 0;

    if (!lodge_xml_attribute_name(node, "offset", offsets, G_N_ELEMENTS(offsets), &offset, error) ||
        !lodge_xml_attribute_name(node, "basis", bases, G_N_ELEMENTS(bases), &basis, error) ||
        !lodge_xml_attribute_number(node, "start", 0, G_MAXINT64, &clock->start_s, error) ||
        !parse_adjustment(node, clock, error)) {
        return FALSE;
    }
    clock->offset = offset;
    /* Where they mean nothing, they are not kept. */
    clock->basis_localtime = offset == LODGE_CLOCK_VARIABLE && basis == 2;
    clock->start_s = offset == LODGE_CLOCK_ABSOLUTE ? clock->start_s : 0;
    clock->timezone = lodge_xml_attribute(node, "timezone");
    if (offset == LODGE_CLOCK_ABSOLUTE && !xmlHasProp(node, (const xmlChar *)"start")) {
        return lodge_xml_refuse(error, node,
                                _("<clock offset='absolute'> needs start=, in seconds "
                                  "since 1970"));
    }
    return TRUE;
}

/* Timers. */

static gboolean is_foreign(const char *name)
{
    for (gsize i = 0; i < G_N_ELEMENTS(foreign_timers); i++) {
        if (strcmp(name, foreign_timers[i]) == 0) {
            return TRUE;
        }
    }
    return FALSE;
}

static gboolean parse_catchup(const xmlNode *node, LodgeTimerConfig *timer, GError **error)
{
    const struct {
        const char *name;
        guint32 *value;
    } attributes[] = {
        {"threshold", &timer->threshold}, {"slew", &timer->slew}, {"limit", &timer->limit}};

    for (gsize i = 0; i < G_N_ELEMENTS(attributes); i++) {
        guint64 value = 0;

        if (!lodge_xml_attribute_number(node, attributes[i].name, 1, G_MAXUINT32, &value, error)) {
            return FALSE;
        }
        *attributes[i].value = (guint32)value;
    }
    return TRUE;
}

static gboolean parse_timer_fields(const xmlNode *node, LodgeTimerConfig *timer, GError **error)
{
    const xmlNode *catchup = lodge_xml_child(node, "catchup");
    guint present = 0, policy = 0, track = 0, mode = 0;

    if (!lodge_xml_attribute_name(node, "present", switches, G_N_ELEMENTS(switches), &present,
                                  error) ||
        !lodge_xml_attribute_name(node, "tickpolicy", policies, G_N_ELEMENTS(policies), &policy,
                                  error) ||
        !lodge_xml_attribute_name(node, "track", tracks, G_N_ELEMENTS(tracks), &track, error) ||
        !lodge_xml_attribute_name(node, "mode", modes, G_N_ELEMENTS(modes), &mode, error) ||
        !lodge_xml_attribute_number(node, "frequency", 1, G_MAXINT64, &timer->frequency_hz,
                                    error)) {
        return FALSE;
    }
    timer->given = TRUE;
    timer->present = present;
    timer->policy = policy;
    timer->track = track;
    timer->mode = mode;
    if (catchup && policy != LODGE_TICK_CATCHUP) {
        return lodge_xml_refuse(error, catchup,
                                _("<catchup> stands in a timer of tickpolicy %s: it goes with "
                                  "tickpolicy='catchup' alone"),
                                policy ? policies[policy] : _("by default"));
    }
    return !catchup || parse_catchup(catchup, timer, error);
}

static gboolean parse_timer(const xmlNode *node, LodgeClockConfig *clock, GError **error)
{
    g_autofree char *name = lodge_xml_attribute(node, "name");
    g_autofree char *quoted = lodge_text_quote(name ? name : "");
    LodgeTimer timer = LODGE_TIMER_PIT;

    if (name && is_foreign(name)) {
        return TRUE;
    }
    if (!name || !lodge_timer_find(name, &timer)) {
        return lodge_xml_refuse(error, node,
                                _("<timer> name is %s, and may be: pit, rtc, hpet, lapic, tsc, "
                                  "kvmclock"),
                                quoted);
    }
    if (clock->timer[timer].given) {
        return lodge_xml_refuse(error, node, _("the timer %s is given twice: keep one of them"),
                                quoted);
    }
    return parse_timer_fields(node, &clock->timer[timer], error);
}

gboolean lodge_domain_parse_clock(const xmlNode *domain, LodgeDomainConfig *config, GError **error)
{
    const xmlNode *clock = lodge_xml_child(domain, "clock");

    config->clock.offset = LODGE_CLOCK_UTC;
    if (!clock) {
        return TRUE;
    }
    if (!parse_offset(clock, &config->clock, error)) {
        return FALSE;
    }
    for (const xmlNode *child = clock->children; child; child = child->next) {
        if (lodge_xml_is(child, "timer") && !parse_timer(child, &config->clock, error)) {
            return FALSE;
        }
    }
    return lodge_domain_check_clock(&config->clock, error) || lodge_xml_locate(error, clock);
}

/* Rules between fields. */

static gboolean check_timer(LodgeTimer which, const LodgeTimerConfig *timer, GError **error)
{
    const char *name = lodge_timer_name(which);
    guint has = timer_has[which];

    if (which == LODGE_TIMER_LAPIC && timer->present == LODGE_SWITCH_OFF) {
        return lodge_error_refuse(error, _("The timer “%s” cannot be absent: virtual CPUs need it"),
                                  name);
    }
    if (timer->policy && !(has & HAS_POLICY)) {
        return lodge_error_refuse(error, _("The timer “%s” has no ticks, and so no tickpolicy"),
                                  name);
    }
    if (timer->track && !(has & HAS_TRACK)) {
        return lodge_error_refuse(error, _("The timer “%s” has no track: only rtc has"), name);
    }
    if ((timer->mode || timer->frequency_hz) && !(has & HAS_TSC)) {
        return lodge_error_refuse(
            error, _("The timer “%s” has neither frequency nor mode: only tsc has"), name);
    }
    if ((timer->threshold || timer->slew || timer->limit) && timer->policy != LODGE_TICK_CATCHUP) {
        return lodge_error_refuse(
            error,
            _("The timer “%s” has limits for catching up: they go with tickpolicy "
              "“catchup” alone"),
            name);
    }
    return TRUE;
}

gboolean lodge_domain_check_clock(const LodgeClockConfig *clock, GError **error)
{
    if ((clock->offset == LODGE_CLOCK_TIMEZONE) != (clock->timezone != NULL)) {
        return lodge_error_refuse(error,
                                  _("A clock has a timezone= exactly if its offset is “timezone”"));
    }
    if (clock->timezone && !lodge_text_check_line(_("time zone"), clock->timezone, error)) {
        return FALSE;
    }
    if (clock->adjustment_given && !clock->adjustment_reset &&
        clock->offset == LODGE_CLOCK_ABSOLUTE) {
        return lodge_error_refuse(error, _("A clock of offset “absolute” has no adjustment"));
    }
    for (guint i = 0; i < LODGE_TIMER_COUNT; i++) {
        if (!check_timer(i, &clock->timer[i], error)) {
            return FALSE;
        }
    }
    return TRUE;
}

/* Back into the document. */

static void write_number(xmlNode *node, const char *name, guint64 value)
{
    if (value) {
        lodge_xml_set_attribute_number(node, name, value);
    } else {
        lodge_xml_set_attribute(node, name, NULL);
    }
}

static void write_timer(xmlNode *node, const LodgeTimerConfig *timer)
{
    xmlNode *catchup = lodge_xml_child(node, "catchup");

    lodge_xml_set_attribute(node, "present", switches[timer->present]);
    lodge_xml_set_attribute(node, "tickpolicy", policies[timer->policy]);
    lodge_xml_set_attribute(node, "track", tracks[timer->track]);
    write_number(node, "frequency", timer->frequency_hz);
    lodge_xml_set_attribute(node, "mode", modes[timer->mode]);
    if (timer->threshold || timer->slew || timer->limit) {
        catchup = lodge_xml_ensure(node, "catchup");
        write_number(catchup, "threshold", timer->threshold);
        write_number(catchup, "slew", timer->slew);
        write_number(catchup, "limit", timer->limit);
    } else if (timer->policy != LODGE_TICK_CATCHUP) {
        lodge_xml_remove(catchup);
    }
}

static void write_timers(xmlNode *clock, const LodgeClockConfig *config)
{
    gboolean written[LODGE_TIMER_COUNT] = {FALSE};
    xmlNode *next;

    for (xmlNode *child = clock->children; child; child = next) {
        g_autofree char *name =
            lodge_xml_is(child, "timer") ? lodge_xml_attribute(child, "name") : NULL;
        LodgeTimer timer = LODGE_TIMER_PIT;

        next = child->next;
        if (!name || !lodge_timer_find(name, &timer)) {
            continue;
        }
        if (config->timer[timer].given) {
            write_timer(child, &config->timer[timer]);
            written[timer] = TRUE;
        } else {
            lodge_xml_remove(child);
        }
    }
    for (guint i = 0; i < LODGE_TIMER_COUNT; i++) {
        if (config->timer[i].given && !written[i]) {
            xmlNode *node = lodge_xml_append(clock, "timer");

            lodge_xml_set_attribute(node, "name", lodge_timer_name(i));
            write_timer(node, &config->timer[i]);
        }
    }
}

void lodge_domain_write_clock(xmlNode *domain, const LodgeDomainConfig *config)
{
    const LodgeClockConfig *clock = &config->clock;
    xmlNode *node = lodge_xml_ensure(domain, "clock");

    lodge_xml_set_attribute(node, "offset", offsets[clock->offset]);
    if (!clock->adjustment_given || clock->adjustment_reset) {
        lodge_xml_set_attribute(node, "adjustment", clock->adjustment_given ? "reset" : NULL);
    } else {
        g_autofree char *text = g_strdup_printf("%" G_GINT64_FORMAT, clock->adjustment_s);

        lodge_xml_set_attribute(node, "adjustment", text);
    }
    if (clock->offset != LODGE_CLOCK_VARIABLE) {
        lodge_xml_set_attribute(node, "basis", NULL);
    } else {
        lodge_xml_set_attribute(node, "basis", clock->basis_localtime ? "localtime" : "utc");
    }
    lodge_xml_set_attribute(node, "timezone", clock->timezone);
    if (clock->offset == LODGE_CLOCK_ABSOLUTE) {
        lodge_xml_set_attribute_number(node, "start", clock->start_s);
    } else {
        lodge_xml_set_attribute(node, "start", NULL);
    }
    write_timers(node, clock);
}

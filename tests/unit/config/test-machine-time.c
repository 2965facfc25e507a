/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What a definition's <clock> and <lodge:clock> come to for the core. */
#include "config/machine-time.h"
#include "config/xml-node.h"
#include "lib/tap.h"

#include <string.h>

#define MS HV_NS_PER_MS

static LodgeDomainConfig *parse(const char *timers, const char *ours, GError **error)
{
    g_autofree char *xml =
        g_strdup_printf("<domain type='lodge'><name>n</name><memory>4096</memory>"
                        "<clock offset='utc'>%s</clock>%s</domain>",
                        timers, ours);

    return lodge_domain_config_parse(xml, -1, NULL, error);
}

static gboolean get(const char *timers, const char *ours, LodgeMachineTime *time_out,
                    GError **error)
{
    g_autoptr(LodgeDomainConfig) config = parse(timers, ours, error);

    return config && lodge_domain_config_get_time(config, time_out, error);
}

static void test_plain(void)
{
    static const LodgeMachineTime nothing = {.clock_policy = HV_CLOCK_ADVANCE,
                                             .rtc_track = HV_RTC_TRACK_WALL};
    LodgeMachineTime time;

    TAP_OK(get("", "", &time, NULL));
    TAP_EQ(time.clock_policy, nothing.clock_policy);
    TAP_EQ(time.rtc_track, nothing.rtc_track);
    TAP_EQ(time.timers_absent, 0);
    TAP_EQ(time.policies, 0);
}

static void test_absent(void)
{
    static const struct {
        const char *timers;
        guint absent;
    } rows[] = {
        {"<timer name='pit' present='no'/>", HV_TIMER_PIT},
        {"<timer name='pit' present='yes'/>", 0},
        {"<timer name='rtc' present='no' tickpolicy='merge'/>", HV_TIMER_RTC},
        {"<timer name='hpet' present='no'/><timer name='tsc' present='no'/>",
         HV_TIMER_HPET | HV_TIMER_TSC},
        {"<timer name='kvmclock' present='no'/><timer name='hypervclock' present='yes'/>",
         HV_TIMER_KVMCLOCK},
    };

    for (gsize i = 0; i < G_N_ELEMENTS(rows); i++) {
        LodgeMachineTime time;

        TAP_OK(get(rows[i].timers, "", &time, NULL));
        TAP_EQ(time.timers_absent, rows[i].absent);
        TAP_EQ(time.policies, 0); /* those that are absent have none */
    }
}

static void test_policies(void)
{
    static const struct {
        const char *timers;
        guint policies; /* the first of them: */
        struct hv_vpt_policy policy;
    } rows[] = {
        {"<timer name='pit' tickpolicy='delay'/>",
         1u << HV_VPT_PIT,
         {.kind = HV_TICK_DELAY, .limit_ns = 10000 * MS}},
        {"<timer name='hpet' tickpolicy='merge'/>",
         1u << HV_VPT_HPET0 | 1u << HV_VPT_HPET1 | 1u << HV_VPT_HPET2,
         {.kind = HV_TICK_MERGE}},
        {"<timer name='lapic' tickpolicy='discard'/>",
         1u << HV_VPT_LAPIC,
         {.kind = HV_TICK_DISCARD}},
        {"<timer name='rtc' tickpolicy='catchup'/>",
         1u << HV_VPT_RTC,
         {.kind = HV_TICK_CATCHUP, .slew_per_cent = 200, .limit_ns = 10000 * MS}},
        {"<timer name='rtc' tickpolicy='catchup'><catchup threshold='123' slew='120' "
         "limit='4294967295'/></timer>",
         1u << HV_VPT_RTC,
         {.kind = HV_TICK_CATCHUP,
          .threshold_ns = 123 * MS,
          .slew_per_cent = 120,
          .limit_ns = 4294967295 * MS}},
    };

    for (gsize i = 0; i < G_N_ELEMENTS(rows); i++) {
        const struct hv_vpt_policy *got, *want = &rows[i].policy;
        LodgeMachineTime time;

        TAP_OK(get(rows[i].timers, "", &time, NULL));
        TAP_EQ(time.policies, rows[i].policies);
        got = &time.policy[g_bit_nth_lsf(time.policies, -1)];
        TAP_EQ(got->kind, want->kind);
        TAP_EQ(got->threshold_ns, want->threshold_ns);
        TAP_EQ(got->slew_per_cent, want->slew_per_cent);
        TAP_EQ(got->limit_ns, want->limit_ns);
    }
}

static void test_track(void)
{
    LodgeMachineTime time;

    TAP_OK(get("<timer name='rtc' track='guest'/>", "", &time, NULL));
    TAP_EQ(time.rtc_track, HV_RTC_TRACK_GUEST);
    TAP_OK(get("<timer name='rtc' track='wall' tickpolicy='delay'/>", "", &time, NULL));
    TAP_EQ(time.rtc_track, HV_RTC_TRACK_WALL);
    TAP_EQ(time.policies, 1u << HV_VPT_RTC);
}

#define OURS "<lodge:clock xmlns:lodge='" LODGE_XML_NAMESPACE "' policy='%s'/>"

/* And back into the document. */
static void test_clock_policy(void)
{
    for (guint i = 0; i < 2; i++) {
        const char *policy = i ? "freeze" : "advance";
        g_autofree char *ours = g_strdup_printf(OURS, policy);
        g_autoptr(LodgeDomainConfig) config = parse("", ours, NULL);
        g_autofree char *wanted = g_strdup_printf("policy='%s'", i ? "advance" : "freeze");
        g_autofree char *text = NULL;
        LodgeMachineTime time;

        TAP_OK(config && lodge_domain_config_get_time(config, &time, NULL));
        TAP_EQ(time.clock_policy, i ? HV_CLOCK_FREEZE : HV_CLOCK_ADVANCE);
        config->clock_policy = i ? LODGE_CLOCK_POLICY_ADVANCE : LODGE_CLOCK_POLICY_FREEZE;
        text = lodge_domain_config_format(config, NULL, 0);
        TAP_OK(strstr(text, wanted) && !strstr(text, policy));
        config->clock_policy = LODGE_CLOCK_POLICY_DEFAULT;
        g_free(text);
        text = lodge_domain_config_format(config, NULL, 0);
        TAP_OK(!strstr(text, ":clock"));
    }
}

static void test_refused(void)
{
    static const struct {
        const char *timers, *ours;
        const char *words[3];
    } rows[] = {
        {"<timer name='lapic' present='no'/>", "", {"lapic", "absent", "need"}},
        {"<timer name='rtc' track='boot'/>", "", {"rtc", "boot", "wall"}},
        {"<timer name='rtc' track='realtime'/>", "", {"rtc", "realtime", "guest"}},
        {"<timer name='pit' tickpolicy='catchup'><catchup slew='100'/></timer>",
         "",
         {"pit", "100", "101"}},
        {"<timer name='pit' tickpolicy='catchup'><catchup slew='10001'/></timer>",
         "",
         {"pit", "10001", "10000"}},
        {"",
         "<clock xmlns='" LODGE_XML_NAMESPACE "' policy='stop'/>",
         {"policy", "stop", "freeze"}},
        {"", "<clock xmlns='" LODGE_XML_NAMESPACE "'/>", {"clock", "policy", "line"}},
    };

    for (gsize i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autoptr(GError) error = NULL;
        LodgeMachineTime time;

        TAP_OK(!get(rows[i].timers, rows[i].ours, &time, &error));
        for (gsize word = 0; word < G_N_ELEMENTS(rows[i].words); word++) {
            if (!strstr(error->message, rows[i].words[word])) {
                tap_note("%s", error->message);
            }
            TAP_OK(strstr(error->message, rows[i].words[word]) != NULL);
        }
    }
}

/* Each source that has a policy is some timer's. */
static void test_sources(void)
{
    TAP_EQ(lodge_timer_of_source(HV_VPT_LAPIC), LODGE_TIMER_LAPIC);
    TAP_EQ(lodge_timer_of_source(HV_VPT_PIT), LODGE_TIMER_PIT);
    TAP_EQ(lodge_timer_of_source(HV_VPT_RTC), LODGE_TIMER_RTC);
    TAP_EQ(lodge_timer_of_source(HV_VPT_HPET0), LODGE_TIMER_HPET);
    TAP_EQ(lodge_timer_of_source(HV_VPT_HPET2), LODGE_TIMER_HPET);
    TAP_EQ(lodge_timer_of_source(HV_VPT_PM), LODGE_TIMER_COUNT);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"config.machine-time.plain", test_plain},
        {"config.machine-time.absent", test_absent},
        {"config.machine-time.policies", test_policies},
        {"config.machine-time.track", test_track},
        {"config.machine-time.clock-policy", test_clock_policy},
        {"config.machine-time.refused", test_refused},
        {"config.machine-time.sources", test_sources},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What holds for any XML: see domain-invariants.h. */
#include "domain-invariants.h"

#include "common/lodge-error.h"
#include "config/domain-metadata.h"
#include "config/machine-time.h"

#include <string.h>

#define SAME(field) (a->field == b->field)
#define TEXT(field) (g_strcmp0(a->field, b->field) == 0)

static gboolean same_clock(const LodgeClockConfig *a, const LodgeClockConfig *b)
{
    for (guint i = 0; i < LODGE_TIMER_COUNT; i++) {
        const LodgeTimerConfig *s = &a->timer[i], *t = &b->timer[i];

        if (s->given != t->given || s->present != t->present || s->policy != t->policy ||
            s->track != t->track || s->frequency_hz != t->frequency_hz || s->mode != t->mode ||
            s->threshold != t->threshold || s->slew != t->slew || s->limit != t->limit) {
            return FALSE;
        }
    }
    return SAME(offset) && SAME(adjustment_given) && SAME(adjustment_reset) && SAME(adjustment_s) &&
           SAME(basis_localtime) && TEXT(timezone) && SAME(start_s);
}

static gboolean same_tune(const LodgeTuneConfig *a, const LodgeTuneConfig *b)
{
    return SAME(shares) && SAME(period_us) && SAME(quota_us) && SAME(global_period_us) &&
           SAME(global_quota_us) && memcmp(a->pin, b->pin, sizeof(a->pin)) == 0 &&
           memcmp(&a->emulator_pin, &b->emulator_pin, sizeof(LodgeCpuSet)) == 0 &&
           memcmp(&a->cpuset, &b->cpuset, sizeof(LodgeCpuSet)) == 0;
}

static gboolean same(const LodgeDomainConfig *a, const LodgeDomainConfig *b)
{
    return TEXT(name) && memcmp(a->uuid, b->uuid, LODGE_UUID_BYTES) == 0 && TEXT(title) &&
           TEXT(description) && SAME(memory_bytes) && SAME(current_memory_bytes) &&
           SAME(vcpus_max) && SAME(vcpus) && same_tune(&a->tune, &b->tune) && TEXT(kernel) &&
           TEXT(initrd) && TEXT(command_line) && SAME(acpi) && SAME(apic) && SAME(pae) &&
           same_clock(&a->clock, &b->clock) && SAME(on_poweroff) && SAME(on_reboot) &&
           SAME(on_crash) && TEXT(emulator) && SAME(serial.type) && TEXT(serial.path) &&
           SAME(serial.append) && SAME(engine) && SAME(pool) && SAME(clock_policy) &&
           SAME(debug_flags) && TEXT(kernel_fdgroup) && TEXT(initrd_fdgroup) &&
           g_strv_equal((const char *const *)a->inert, (const char *const *)b->inert);
}

/* @text comes from @config: it is read as the same. */
static char *check_text(const LodgeDomainConfig *config, const char *what, const char *text)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(LodgeDomainConfig) again = lodge_domain_config_parse(text, -1, NULL, &error);
    g_autofree char *second = NULL;

    if (!again) {
        return g_strdup_printf("%s is refused: %s\n%s", what, error->message, text);
    }
    if (!same(config, again)) {
        return g_strdup_printf("%s has other fields:\n%s", what, text);
    }
    second = lodge_domain_config_format(again, NULL, LODGE_FORMAT_SECURE);
    if (strcmp(what, "the live form") != 0 && strcmp(text, second) != 0) {
        return g_strdup_printf("%s is written as another:\n%s\n%s", what, text, second);
    }
    return NULL;
}

/* As an application's element: refused, or the same after the definition was written and read. */
static char *check_metadata(const char *xml)
{
    static const char machine[] =
        "<domain type='lodge'><name>m</name><memory>4096</memory></domain>";
    g_autoptr(LodgeDomainConfig) config = lodge_domain_config_parse(machine, -1, NULL, NULL);
    g_autoptr(LodgeDomainConfig) again = NULL;
    g_autoptr(GError) error = NULL;
    g_autoptr(GError) deeper = NULL;
    g_autofree char *text = NULL;
    g_autofree char *got = NULL;
    g_autofree char *got_again = NULL;

    if (!lodge_domain_config_set_metadata(config, "urn:fuzz", "fuzz", xml, &error)) {
        return error ? NULL : g_strdup("metadata is refused without an error");
    }
    got = lodge_domain_config_get_metadata(config, "urn:fuzz");
    text = lodge_domain_config_format(config, NULL, 0);
    again = lodge_domain_config_parse(text, -1, NULL, &deeper);
    if (!again) {
        /* It stands two levels deeper now. */
        return strstr(deeper->message, "nested deeper")
                   ? NULL
                   : g_strdup_printf("metadata makes it unreadable: %s\n%s", deeper->message, text);
    }
    got_again = lodge_domain_config_get_metadata(again, "urn:fuzz");
    return g_strcmp0(got, got_again) != 0 || !got
               ? g_strdup_printf("metadata is another:\n%s\n%s", got, got_again)
               : NULL;
}

static char *check_definition(const char *xml, gsize length)
{
    static const LodgeDomainLive live = {3, "/dev/pts/5"};
    g_autoptr(GError) error = NULL;
    g_autoptr(LodgeDomainConfig) config =
        lodge_domain_config_parse(xml, (gssize)length, "fuzz.xml", &error);
    g_autoptr(LodgeDomainConfig) copy = NULL;
    g_autofree char *text = NULL;
    g_autofree char *copied = NULL;
    g_autofree char *running = NULL;
    LodgeCpuShare share;
    LodgeMachineTime time;
    char *wrong = NULL;

    if (!config) {
        return !error || error->domain != LODGE_ERROR || !strstr(error->message, "fuzz.xml")
                   ? g_strdup_printf("refused without a proper error: %s",
                                     error ? error->message : "(none)")
                   : NULL;
    }
    if (error) {
        return g_strdup("a definition and an error");
    }
    lodge_domain_config_get_share(config, &share);
    if (share.weight < 1 || share.weight > 65535 || share.cap_percent > 100 * HV_MAX_VCPUS) {
        return g_strdup("a share out of range");
    }
    if (!lodge_domain_config_get_time(config, &time, &error)) {
        if (!error || error->domain != LODGE_ERROR) {
            return g_strdup("a clock refused without a proper error");
        }
        g_clear_error(&error);
    } else if (time.timers_absent & HV_TIMER_LAPIC) {
        return g_strdup("a machine without local APIC timers");
    }
    text = lodge_domain_config_format(config, NULL, LODGE_FORMAT_SECURE);
    wrong = check_text(config, "the stored form", text);
    if (wrong) {
        return wrong;
    }
    copy = lodge_domain_config_copy(config);
    copied = lodge_domain_config_format(copy, NULL, LODGE_FORMAT_SECURE);
    if (!same(config, copy) || strcmp(text, copied) != 0) {
        return g_strdup("a copy is another");
    }
    running = lodge_domain_config_format(config, &live, LODGE_FORMAT_SECURE);
    return check_text(config, "the live form", running);
}

char *domain_invariants_check(const char *xml, gsize length)
{
    g_autofree char *text = g_strndup(xml, length);
    char *wrong = check_definition(xml, length);

    return wrong ? wrong : check_metadata(text);
}

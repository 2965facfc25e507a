/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A machine's part in the CPUs: libvirt's <cputune>, and what the core's scheduler makes of it. */
#include "config/domain-config-private.h"

#include "common/i18n.h"
#include "common/lodge-error.h"

/* libvirt's defaults and bounds. */
#define SHARES_DEFAULT    1024u
#define SHARES_MIN        2u
#define SHARES_MAX        262144u
#define PERIOD_DEFAULT_US 100000u
#define PERIOD_MIN_US     1000u
#define PERIOD_MAX_US     1000000u
#define QUOTA_MIN_US      1000
#define QUOTA_MAX_US      (G_MAXINT64 / 1000)

/* Of the core: hv/sched.h. */
#define WEIGHT_DEFAULT    256u
#define WEIGHT_MAX        65535u

/* Text of the child @name; NULL without one. */
static char *child_text(const xmlNode *parent, const char *name, const xmlNode **node_out)
{
    *node_out = lodge_xml_child(parent, name);
    return lodge_xml_text(*node_out);
}

static gboolean parse_number(const xmlNode *tune, const char *name, guint64 min, guint64 max,
                             guint64 *value_out, GError **error)
{
    const xmlNode *node = NULL;
    g_autofree char *text = child_text(tune, name, &node);
    g_autofree char *what = g_strdup_printf("<%s>", name);

    return lodge_xml_take_number(node, what, text, min, max, value_out, error);
}

static gboolean parse_quota(const xmlNode *tune, const char *name, gint64 *value_out,
                            GError **error)
{
    const xmlNode *node = NULL;
    g_autofree char *text = child_text(tune, name, &node);
    g_autofree char *quoted = lodge_text_quote(text ? text : "");
    gint64 value = 0;

    if (!text) {
        return TRUE;
    }
    if (!g_ascii_string_to_signed(g_strstrip(text), 10, G_MININT64, QUOTA_MAX_US, &value, NULL) ||
        (value >= 0 && value < QUOTA_MIN_US)) {
        return lodge_xml_refuse(error, node,
                                _("<%s> is %s: expected microseconds, at least 1,000, or a "
                                  "negative number for no limit"),
                                name, quoted);
    }
    *value_out = value;
    return TRUE;
}

static gboolean parse_cpus(const xmlNode *node, LodgeCpuSet *set_out, GError **error)
{
    g_autofree char *text = lodge_xml_attribute(node, "cpuset");

    if (!text) {
        return lodge_xml_refuse(error, node, _("<%s> needs cpuset=: which host CPUs it may use"),
                                (const char *)node->name);
    }
    return lodge_cpu_set_parse(text, set_out, error) || lodge_xml_locate(error, node);
}

static gboolean parse_pin(const xmlNode *node, guint vcpus, LodgeTuneConfig *tune, GError **error)
{
    guint64 vcpu = 0;

    if (!xmlHasProp(node, (const xmlChar *)"vcpu")) {
        return lodge_xml_refuse(error, node, _("<vcpupin> needs vcpu=: whose CPUs these are"));
    }
    if (!lodge_xml_attribute_number(node, "vcpu", 0, vcpus - 1, &vcpu, error)) {
        return FALSE;
    }
    if (!lodge_cpu_set_is_empty(&tune->pin[vcpu])) {
        return lodge_xml_refuse(
            error, node, _("vCPU %" G_GUINT64_FORMAT " is pinned twice: keep one <vcpupin>"), vcpu);
    }
    return parse_cpus(node, &tune->pin[vcpu], error);
}

gboolean lodge_domain_parse_tune(const xmlNode *domain, LodgeDomainConfig *config, GError **error)
{
    const xmlNode *node = lodge_xml_child(domain, "cputune");
    const xmlNode *emulator = lodge_xml_child(node, "emulatorpin");
    LodgeTuneConfig *tune = &config->tune;

    if (!node) {
        return TRUE;
    }
    for (const xmlNode *child = node->children; child; child = child->next) {
        if (lodge_xml_is(child, "vcpupin") && !parse_pin(child, config->vcpus_max, tune, error)) {
            return FALSE;
        }
    }
    return (!emulator || parse_cpus(emulator, &tune->emulator_pin, error)) &&
           parse_number(node, "shares", SHARES_MIN, SHARES_MAX, &tune->shares, error) &&
           parse_number(node, "period", PERIOD_MIN_US, PERIOD_MAX_US, &tune->period_us, error) &&
           parse_number(node, "global_period", PERIOD_MIN_US, PERIOD_MAX_US,
                        &tune->global_period_us, error) &&
           parse_quota(node, "quota", &tune->quota_us, error) &&
           parse_quota(node, "global_quota", &tune->global_quota_us, error);
}

static gboolean check_range(const char *name, guint64 value, guint64 min, guint64 max,
                            GError **error)
{
    if (value == 0 || (value >= min && value <= max)) {
        return TRUE;
    }
    return lodge_error_refuse(error,
                              _("%s is %" G_GUINT64_FORMAT
                                ": expected a number from %" G_GUINT64_FORMAT
                                " to %" G_GUINT64_FORMAT),
                              name, value, min, max);
}

static gboolean check_quota(const char *name, gint64 value, GError **error)
{
    if (value <= 0 || (value >= QUOTA_MIN_US && value <= QUOTA_MAX_US)) {
        return TRUE;
    }
    return lodge_error_refuse(error,
                              _("%s is %" G_GINT64_FORMAT
                                ": expected microseconds, at least 1,000, or a "
                                "negative number for no limit"),
                              name, value);
}

gboolean lodge_domain_check_tune(const LodgeTuneConfig *tune, guint vcpus, GError **error)
{
    for (guint i = vcpus; i < HV_MAX_VCPUS; i++) {
        if (!lodge_cpu_set_is_empty(&tune->pin[i])) {
            return lodge_error_refuse(error, _("vCPU %u is pinned, and the machine has %u"), i,
                                      vcpus);
        }
    }
    return check_range("shares", tune->shares, SHARES_MIN, SHARES_MAX, error) &&
           check_range("period", tune->period_us, PERIOD_MIN_US, PERIOD_MAX_US, error) &&
           check_range("global_period", tune->global_period_us, PERIOD_MIN_US, PERIOD_MAX_US,
                       error) &&
           check_quota("quota", tune->quota_us, error) &&
           check_quota("global_quota", tune->global_quota_us, error);
}

/* Back into the document. */

static void write_number(xmlNode *tune, const char *name, gint64 value)
{
    g_autofree char *text = value ? g_strdup_printf("%" G_GINT64_FORMAT, value) : NULL;

    lodge_xml_set_child(tune, name, text);
}

static void write_cpus(xmlNode *node, const LodgeCpuSet *set)
{
    g_autofree char *text = lodge_cpu_set_format(set);

    lodge_xml_set_attribute(node, "cpuset", text);
}

static void write_pins(xmlNode *node, const LodgeTuneConfig *tune)
{
    gboolean written[HV_MAX_VCPUS] = {FALSE};
    xmlNode *next;

    for (xmlNode *child = node->children; child; child = next) {
        g_autofree char *text =
            lodge_xml_is(child, "vcpupin") ? lodge_xml_attribute(child, "vcpu") : NULL;
        guint64 vcpu = 0;

        next = child->next;
        if (!text || !g_ascii_string_to_unsigned(text, 10, 0, HV_MAX_VCPUS - 1, &vcpu, NULL)) {
            continue;
        }
        if (lodge_cpu_set_is_empty(&tune->pin[vcpu])) {
            lodge_xml_remove(child);
        } else {
            write_cpus(child, &tune->pin[vcpu]);
            written[vcpu] = TRUE;
        }
    }
    for (guint i = 0; i < HV_MAX_VCPUS; i++) {
        if (!written[i] && !lodge_cpu_set_is_empty(&tune->pin[i])) {
            xmlNode *pin = lodge_xml_append(node, "vcpupin");

            lodge_xml_set_attribute_number(pin, "vcpu", i);
            write_cpus(pin, &tune->pin[i]);
        }
    }
}

static gboolean says_anything(const LodgeTuneConfig *tune)
{
    gboolean pinned = !lodge_cpu_set_is_empty(&tune->emulator_pin);

    for (guint i = 0; i < HV_MAX_VCPUS; i++) {
        pinned |= !lodge_cpu_set_is_empty(&tune->pin[i]);
    }
    return pinned || tune->shares || tune->period_us || tune->quota_us || tune->global_period_us ||
           tune->global_quota_us;
}

void lodge_domain_write_tune(xmlNode *domain, const LodgeDomainConfig *config)
{
    const LodgeTuneConfig *tune = &config->tune;
    xmlNode *node = lodge_xml_child(domain, "cputune");

    if (!node && !says_anything(tune)) {
        return;
    }
    node = lodge_xml_ensure(domain, "cputune");
    write_number(node, "shares", (gint64)tune->shares);
    write_number(node, "period", (gint64)tune->period_us);
    write_number(node, "quota", tune->quota_us);
    write_number(node, "global_period", (gint64)tune->global_period_us);
    write_number(node, "global_quota", tune->global_quota_us);
    write_pins(node, tune);
    if (lodge_cpu_set_is_empty(&tune->emulator_pin)) {
        lodge_xml_remove(lodge_xml_child(node, "emulatorpin"));
    } else {
        write_cpus(lodge_xml_ensure(node, "emulatorpin"), &tune->emulator_pin);
    }
    if (!node->children && !node->properties) {
        lodge_xml_remove(node);
    }
}

/* What the scheduler makes of it. */

/* Per cent of one CPU, at least 1; G_MAXUINT32 without a limit. */
static guint32 percent(gint64 quota_us, guint64 period_us, guint64 times)
{
    guint64 period = period_us ? period_us : PERIOD_DEFAULT_US;
    guint64 share;

    if (quota_us <= 0) {
        return G_MAXUINT32;
    }
    /* Below 2^64: the quota is at most 2^63 / 1000. Times 64 it is still in range, being divided. */
    share = (guint64)quota_us * 100 / period;
    share = MIN(share, G_MAXUINT32) * times;
    return (guint32)CLAMP(share, 1, G_MAXUINT32);
}

void lodge_domain_config_get_share(const LodgeDomainConfig *config, LodgeCpuShare *share_out)
{
    const LodgeTuneConfig *tune = &config->tune;
    guint64 shares = tune->shares ? tune->shares : SHARES_DEFAULT;
    guint32 all = MIN(percent(tune->quota_us, tune->period_us, config->vcpus_max),
                      percent(tune->global_quota_us, tune->global_period_us, 1));
    gboolean anywhere = FALSE;

    *share_out = (LodgeCpuShare){0};
    share_out->weight = (guint32)CLAMP(shares * WEIGHT_DEFAULT / SHARES_DEFAULT, 1, WEIGHT_MAX);
    /* As much as all vCPUs can use is no limit. */
    share_out->cap_percent = all >= 100 * config->vcpus_max ? 0 : all;
    for (guint i = 0; i < config->vcpus_max; i++) {
        const LodgeCpuSet *set =
            lodge_cpu_set_is_empty(&tune->pin[i]) ? &tune->cpuset : &tune->pin[i];

        anywhere |= lodge_cpu_set_is_empty(set);
        lodge_cpu_set_unite(&share_out->affinity, set);
    }
    if (anywhere) {
        share_out->affinity = (LodgeCpuSet){0};
    }
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Who a machine is, and how large: name, UUID, memory, vCPUs. */
#include "config/domain-config-private.h"

#include "common/i18n.h"

#include <string.h>

/* libvirt's units of memory, in any case of letters. */
static const struct {
    const char *name;
    guint64 bytes;
} units[] = {
    {"b", 1},
    {"bytes", 1},
    {"KB", 1000},
    {"k", HV_KIB},
    {"KiB", HV_KIB},
    {"MB", 1000 * 1000},
    {"M", HV_MIB},
    {"MiB", HV_MIB},
    {"GB", 1000 * 1000 * 1000},
    {"G", HV_GIB},
    {"GiB", HV_GIB},
    {"TB", G_GUINT64_CONSTANT(1000) * 1000 * 1000 * 1000},
    {"T", HV_GIB *HV_KIB},
    {"TiB", HV_GIB *HV_KIB},
    {"PB", G_GUINT64_CONSTANT(1000) * 1000 * 1000 * 1000 * 1000},
    {"P", HV_GIB *HV_MIB},
    {"PiB", HV_GIB *HV_MIB},
    {"EB", G_GUINT64_CONSTANT(1000) * 1000 * 1000 * 1000 * 1000 * 1000},
    {"E", HV_GIB *HV_GIB},
    {"EiB", HV_GIB *HV_GIB},
};

static gboolean take_unit(const xmlNode *node, guint64 *bytes_out, GError **error)
{
    g_autofree char *unit = lodge_xml_attribute(node, "unit");
    g_autofree char *quoted = NULL;

    for (gsize i = 0; i < G_N_ELEMENTS(units); i++) {
        if (g_ascii_strcasecmp(unit ? unit : "KiB", units[i].name) == 0) {
            *bytes_out = units[i].bytes;
            return TRUE;
        }
    }
    quoted = lodge_text_quote(unit);
    return lodge_xml_refuse(error, node,
                            _("<%s> has the unit %s, and may have: bytes, KiB, MiB, GiB, TiB, KB, "
                              "MB, GB, TB"),
                            (const char *)node->name, quoted);
}

/* A whole number of MiB, rounded up, as the core deals memory out. */
static gboolean take_memory(const xmlNode *node, guint64 *bytes_out, GError **error)
{
    const char *name = (const char *)node->name;
    g_autofree char *text = lodge_xml_text(node);
    g_autofree char *quoted = lodge_text_quote(text ? text : "");
    g_autofree char *what = g_strdup_printf("<%s>", name);
    guint64 count = 0, unit = 0, bytes = 0;

    if (!take_unit(node, &unit, error) ||
        !lodge_xml_take_number(node, what, text ? text : "", 0, G_MAXUINT64, &count, error)) {
        return FALSE;
    }
    if (!g_uint64_checked_mul(&bytes, count, unit) ||
        !g_uint64_checked_add(&bytes, bytes, HV_MIB - 1)) {
        return lodge_xml_refuse(error, node, _("<%s> is %s of its unit, beyond 64 bits of bytes"),
                                name, quoted);
    }
    bytes -= bytes % HV_MIB;
    if (bytes < 2 * HV_MIB) {
        return lodge_xml_refuse(error, node,
                                _("<%s> is %s of its unit: a machine has at least "
                                  "2 MiB"),
                                name, quoted);
    }
    *bytes_out = bytes;
    return TRUE;
}

static gboolean parse_memory(const xmlNode *domain, LodgeDomainConfig *config, GError **error)
{
    const xmlNode *memory = lodge_xml_child(domain, "memory");
    const xmlNode *current = lodge_xml_child(domain, "currentMemory");

    if (!memory) {
        return lodge_xml_refuse(error, domain,
                                _("there is no <memory>: say how much the machine has, such as "
                                  "<memory unit='MiB'>512</memory>"));
    }
    if (!take_memory(memory, &config->memory_bytes, error)) {
        return FALSE;
    }
    config->current_memory_bytes = config->memory_bytes;
    return !current || take_memory(current, &config->current_memory_bytes, error);
}

static gboolean parse_vcpus(const xmlNode *domain, LodgeDomainConfig *config, GError **error)
{
    const xmlNode *vcpu = lodge_xml_child(domain, "vcpu");
    g_autofree char *text = lodge_xml_text(vcpu);
    g_autofree char *cpuset = NULL;
    guint64 max = 1, current;

    if (!lodge_xml_take_number(vcpu, "<vcpu>", text, 1, HV_MAX_VCPUS, &max, error)) {
        return FALSE;
    }
    current = max;
    if (vcpu && !lodge_xml_attribute_number(vcpu, "current", 1, max, &current, error)) {
        return FALSE;
    }
    config->vcpus_max = (guint)max;
    config->vcpus = (guint)current;
    cpuset = vcpu ? lodge_xml_attribute(vcpu, "cpuset") : NULL;
    if (cpuset && !lodge_cpu_set_parse(cpuset, &config->tune.cpuset, error)) {
        return lodge_xml_locate(error, vcpu);
    }
    return TRUE;
}

static gboolean parse_uuid(const xmlNode *domain, LodgeDomainConfig *config, GError **error)
{
    const xmlNode *node = lodge_xml_child(domain, "uuid");
    g_autofree char *text = lodge_xml_text(node);
    g_autofree char *quoted = NULL;

    if (!node) {
        lodge_uuid_generate(config->uuid);
        return TRUE;
    }
    if (lodge_uuid_parse(text ? text : "", config->uuid)) {
        return TRUE;
    }
    quoted = lodge_text_quote(text ? text : "");
    return lodge_xml_refuse(
        error, node, _("%s is no UUID: write 32 hexadecimal digits, or leave <uuid> out"), quoted);
}

static gboolean parse_name(const xmlNode *domain, LodgeDomainConfig *config, GError **error)
{
    const xmlNode *node = lodge_xml_child(domain, "name");

    if (!node) {
        return lodge_xml_refuse(error, domain, _("there is no <name>: give the machine one"));
    }
    config->name = lodge_xml_text(node);
    if (!config->name) {
        config->name = g_strdup("");
    }
    return lodge_text_check_name(config->name, error) || lodge_xml_locate(error, node);
}

gboolean lodge_domain_parse_basics(const xmlNode *domain, LodgeDomainConfig *config, GError **error)
{
    config->title = lodge_xml_text(lodge_xml_child(domain, "title"));
    config->description = lodge_xml_text(lodge_xml_child(domain, "description"));
    return parse_name(domain, config, error) && parse_uuid(domain, config, error) &&
           parse_memory(domain, config, error) && parse_vcpus(domain, config, error);
}

static void write_memory(xmlNode *domain, const char *name, guint64 bytes)
{
    xmlNode *node = lodge_xml_ensure(domain, name);
    g_autofree char *text = g_strdup_printf("%" G_GUINT64_FORMAT, bytes / HV_KIB);

    lodge_xml_set_attribute(node, "unit", "KiB");
    lodge_xml_set_text(node, text);
}

void lodge_domain_write_basics(xmlNode *domain, const LodgeDomainConfig *config)
{
    g_autofree char *uuid = lodge_uuid_format(config->uuid);
    g_autofree char *vcpus = g_strdup_printf("%u", config->vcpus_max);
    g_autofree char *current = g_strdup_printf("%u", config->vcpus);
    g_autofree char *cpuset = lodge_cpu_set_format(&config->tune.cpuset);
    xmlNode *vcpu;

    lodge_xml_set_child(domain, "name", config->name);
    lodge_xml_set_child(domain, "uuid", uuid);
    lodge_xml_set_child(domain, "title", config->title);
    lodge_xml_set_child(domain, "description", config->description);
    write_memory(domain, "memory", config->memory_bytes);
    write_memory(domain, "currentMemory", config->current_memory_bytes);
    vcpu = lodge_xml_ensure(domain, "vcpu");
    if (!xmlHasProp(vcpu, (const xmlChar *)"placement")) {
        lodge_xml_set_attribute(vcpu, "placement", "static");
    }
    lodge_xml_set_attribute(vcpu, "cpuset", cpuset[0] != '\0' ? cpuset : NULL);
    lodge_xml_set_attribute(vcpu, "current", config->vcpus < config->vcpus_max ? current : NULL);
    lodge_xml_set_text(vcpu, vcpus);
}

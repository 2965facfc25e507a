/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Lodge's own elements, in its own namespace, at the end of the <domain>:
 *
 *     <lodge:engine name='auto|soft|kvm'/>
 *     <lodge:pool mode='shared|own'/>
 *     <lodge:clock policy='advance|freeze'/>    what becomes of time in which it cannot run
 *     <lodge:kernel fdgroup='NAME'/>    descriptors that a client gave before the machine starts
 *     <lodge:initrd fdgroup='NAME'/>
 *     <lodge:debug flag='testdev|force-io-exit|trace-blocks'/>    one each
 */
#include "config/domain-config-private.h"

#include "common/i18n.h"
#include "config/domain-layout.h"

#include <hv/domain.h>
#include <string.h>

static const char *const engines[] = {NULL, "auto", "soft", "kvm"};
static const char *const pools[] = {NULL, "shared", "own"};
static const char *const clock_policies[] = {NULL, "advance", "freeze"};
static const char *const flags[] = {NULL, "testdev", "force-io-exit", "trace-blocks"};
static const guint flag_bits[] = {0, HV_DOMAIN_TESTDEV, HV_DOMAIN_FORCE_IO_EXIT,
                                  HV_DOMAIN_TRACE_BLOCKS};

const char *lodge_engine_name(LodgeEngine engine)
{
    return engine ? engines[engine] : "auto";
}

/* The one attribute that counts; an element without it is a mistake. */
static gboolean take(const xmlNode *node, const char *attribute, const char *const *names,
                     guint count, guint *value_out, GError **error)
{
    *value_out = 0;
    if (!xmlHasProp(node, (const xmlChar *)attribute)) {
        return lodge_xml_refuse(error, node, _("<lodge:%s> needs %s="), (const char *)node->name,
                                attribute);
    }
    return lodge_xml_attribute_name(node, attribute, names, count, value_out, error);
}

static gboolean take_fdgroup(const xmlNode *node, char **group_out, GError **error)
{
    g_autofree char *group = lodge_xml_attribute(node, "fdgroup");

    if (!group || group[0] == '\0') {
        return lodge_xml_refuse(error, node, _("<lodge:%s> needs fdgroup="),
                                (const char *)node->name);
    }
    if (!lodge_text_check_line("fdgroup", group, error)) {
        return lodge_xml_locate(error, node);
    }
    *group_out = g_steal_pointer(&group);
    return TRUE;
}

static gboolean parse_element(const xmlNode *node, LodgeDomainConfig *config, GError **error)
{
    guint value = 0;

    if (lodge_xml_is_ours(node, "engine")) {
        if (!take(node, "name", engines, G_N_ELEMENTS(engines), &value, error)) {
            return FALSE;
        }
        config->engine = value;
    } else if (lodge_xml_is_ours(node, "pool")) {
        if (!take(node, "mode", pools, G_N_ELEMENTS(pools), &value, error)) {
            return FALSE;
        }
        config->pool = value;
    } else if (lodge_xml_is_ours(node, "clock")) {
        if (!take(node, "policy", clock_policies, G_N_ELEMENTS(clock_policies), &value, error)) {
            return FALSE;
        }
        config->clock_policy = value;
    } else if (lodge_xml_is_ours(node, "debug")) {
        if (!take(node, "flag", flags, G_N_ELEMENTS(flags), &value, error)) {
            return FALSE;
        }
        config->debug_flags |= flag_bits[value];
    } else if (lodge_xml_is_ours(node, "kernel")) {
        return take_fdgroup(node, &config->kernel_fdgroup, error);
    } else if (lodge_xml_is_ours(node, "initrd")) {
        return take_fdgroup(node, &config->initrd_fdgroup, error);
    }
    return TRUE;
}

static gboolean is_first(const xmlNode *node)
{
    return lodge_xml_child_ours(node->parent, (const char *)node->name) == node;
}

gboolean lodge_domain_parse_ours(const xmlNode *domain, LodgeDomainConfig *config, GError **error)
{
    for (const xmlNode *child = domain->children; child; child = child->next) {
        if (!lodge_domain_is_ours(child)) {
            continue;
        }
        if (!lodge_xml_is_ours(child, "debug") && !is_first(child)) {
            return lodge_xml_refuse(error, child, _("<lodge:%s> stands twice: keep one of them"),
                                    (const char *)child->name);
        }
        if (!parse_element(child, config, error)) {
            return FALSE;
        }
    }
    return TRUE;
}

/* Back into the document. */

/* The namespace, declared at the <domain> under a prefix that nobody has. */
static xmlNs *our_namespace(xmlNode *domain)
{
    xmlNs *ns = xmlSearchNsByHref(domain->doc, domain, (const xmlChar *)LODGE_XML_NAMESPACE);
    g_autofree char *prefix = g_strdup(LODGE_XML_PREFIX);

    if (ns) {
        return ns;
    }
    for (guint i = 1; xmlSearchNs(domain->doc, domain, (const xmlChar *)prefix); i++) {
        g_free(prefix);
        prefix = g_strdup_printf("%s%u", LODGE_XML_PREFIX, i);
    }
    return lodge_xml_declare(domain, LODGE_XML_NAMESPACE, prefix);
}

static xmlNode *append_ours(xmlNode *domain, const char *name)
{
    xmlNode *node = lodge_xml_append(domain, name);

    xmlSetNs(node, our_namespace(domain));
    return node;
}

static void write_element(xmlNode *domain, const char *name, const char *attribute,
                          const char *value)
{
    xmlNode *node = lodge_xml_child_ours(domain, name);

    if (!value) {
        lodge_xml_remove(node);
        return;
    }
    if (!node) {
        node = append_ours(domain, name);
    }
    lodge_xml_set_attribute(node, attribute, value);
}

static void write_debug(xmlNode *domain, guint wanted)
{
    xmlNode *next;

    for (xmlNode *child = domain->children; child; child = next) {
        g_autofree char *flag =
            lodge_xml_is_ours(child, "debug") ? lodge_xml_attribute(child, "flag") : NULL;

        next = child->next;
        for (gsize i = 1; flag && i < G_N_ELEMENTS(flags); i++) {
            if (strcmp(flag, flags[i]) != 0) {
                continue;
            }
            if (wanted & flag_bits[i]) {
                wanted &= ~flag_bits[i];
            } else {
                lodge_xml_remove(child);
            }
            break;
        }
    }
    for (gsize i = 1; i < G_N_ELEMENTS(flags); i++) {
        if (wanted & flag_bits[i]) {
            lodge_xml_set_attribute(append_ours(domain, "debug"), "flag", flags[i]);
        }
    }
}

void lodge_domain_write_ours(xmlNode *domain, const LodgeDomainConfig *config)
{
    write_element(domain, "engine", "name", engines[config->engine]);
    write_element(domain, "pool", "mode", pools[config->pool]);
    write_element(domain, "clock", "policy", clock_policies[config->clock_policy]);
    write_element(domain, "kernel", "fdgroup", config->kernel_fdgroup);
    write_element(domain, "initrd", "fdgroup", config->initrd_fdgroup);
    write_debug(domain, config->debug_flags);
}

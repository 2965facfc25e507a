/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A machine's definition, put together from its sections: see domain-config.h. */
#include "config/domain-config.h"

#include "common/i18n.h"
#include "common/lodge-error.h"
#include "config/domain-config-private.h"
#include "config/domain-layout.h"
#include "config/xml-write.h"

#include <string.h>

/* Types that clients ask for, and Lodge's machines are not. */
static const struct {
    const char *type, *reason;
} other_types[] = {
    {"kvm", N_("Lodge has no KVM engine yet")},
    {"qemu", N_("that is QEMU's")},
    {"xen", N_("that is Xen's")},
};

static gboolean check_type(const xmlNode *domain, GError **error)
{
    g_autofree char *type = lodge_xml_attribute(domain, "type");
    g_autofree char *quoted = lodge_text_quote(type ? type : "");

    if (g_strcmp0(type, "lodge") == 0) {
        return TRUE;
    }
    for (gsize i = 0; type && i < G_N_ELEMENTS(other_types); i++) {
        if (strcmp(type, other_types[i].type) == 0) {
            return lodge_xml_refuse(error, domain, _("<domain> type is %s: %s; write type='lodge'"),
                                    quoted, _(other_types[i].reason));
        }
    }
    return lodge_xml_refuse(error, domain, _("<domain> type is %s, and may be: lodge"), quoted);
}

static gboolean check_root(const xmlNode *root, GError **error)
{
    g_autofree char *quoted = lodge_text_quote((const char *)root->name);

    if (root->ns) {
        g_autofree char *namespace = lodge_text_quote((const char *)root->ns->href);

        return lodge_xml_refuse(error, root,
                                _("the root is the element %s of the namespace %s: "
                                  "expected <domain> of none"),
                                quoted, namespace);
    }
    if (!lodge_xml_is(root, "domain")) {
        return lodge_xml_refuse(error, root, _("the root is the element %s: expected <domain>"),
                                quoted);
    }
    return check_type(root, error);
}

/* Sections after a stripped and well-ordered document; @config has what is parsed so far. */
static gboolean parse_sections(const xmlNode *domain, LodgeDomainConfig *config, GError **error)
{
    return lodge_domain_parse_basics(domain, config, error) &&
           lodge_domain_parse_boot(domain, config, error) &&
           lodge_domain_parse_clock(domain, config, error) &&
           lodge_domain_parse_tune(domain, config, error) &&
           lodge_domain_parse_devices(domain, config, error) &&
           lodge_domain_parse_ours(domain, config, error);
}

/* The fields, into their places in the document. */
static void write_sections(xmlNode *domain, const LodgeDomainConfig *config,
                           const LodgeDomainLive *live)
{
    lodge_domain_write_basics(domain, config);
    lodge_domain_write_boot(domain, config);
    lodge_domain_write_clock(domain, config);
    lodge_domain_write_tune(domain, config);
    lodge_domain_write_devices(domain, config, live);
    lodge_domain_write_ours(domain, config);
    lodge_xml_set_attribute(domain, "id", NULL);
    lodge_domain_sort(domain);
}

LodgeDomainConfig *lodge_domain_config_parse(const char *xml, gssize length, const char *source,
                                             GError **error)
{
    g_autoptr(LodgeDomainConfig) config = g_new0(LodgeDomainConfig, 1);
    xmlNode *root = NULL;

    config->document = lodge_xml_read(xml, length < 0 ? strlen(xml) : (gsize)length, source, error);
    if (!config->document) {
        return NULL;
    }
    root = xmlDocGetRootElement(config->document);
    if (!check_root(root, error) || !lodge_xml_strip(root, lodge_domain_kind_of, error)) {
        return NULL;
    }
    lodge_domain_sort(root);
    if (!lodge_domain_list_inert(root, &config->inert, error) ||
        !parse_sections(root, config, error)) {
        return NULL;
    }
    if (!lodge_domain_config_check(config, error)) {
        lodge_xml_locate(error, root);
        return NULL;
    }
    return g_steal_pointer(&config);
}

static gboolean check_sizes(const LodgeDomainConfig *config, GError **error)
{
    if (config->memory_bytes < 2 * HV_MIB || config->memory_bytes % HV_MIB) {
        return lodge_error_refuse(error,
                                  _("The memory is %" G_GUINT64_FORMAT
                                    " bytes: a machine has a multiple of "
                                    "1 MiB, at least 2 MiB"),
                                  config->memory_bytes);
    }
    if (config->current_memory_bytes < HV_MIB || config->current_memory_bytes % HV_MIB ||
        config->current_memory_bytes > config->memory_bytes) {
        return lodge_error_refuse(
            error,
            _("The current memory is %" G_GUINT64_FORMAT " MiB: it is at least 1 MiB, "
              "and at most the memory, %" G_GUINT64_FORMAT " MiB"),
            config->current_memory_bytes / HV_MIB, config->memory_bytes / HV_MIB);
    }
    if (config->vcpus_max < 1 || config->vcpus_max > HV_MAX_VCPUS) {
        return lodge_error_refuse(error, _("There are %u vCPUs: a machine has 1 to %u"),
                                  config->vcpus_max, HV_MAX_VCPUS);
    }
    if (config->vcpus < 1 || config->vcpus > config->vcpus_max) {
        return lodge_error_refuse(
            error,
            _("%u vCPUs are to run at first: expected 1 to %u, as many as the "
              "machine has"),
            config->vcpus, config->vcpus_max);
    }
    return TRUE;
}

static gboolean check_paths(const LodgeDomainConfig *config, GError **error)
{
    const LodgePortConfig *serial = &config->serial;

    if (serial->type == LODGE_PORT_FILE && !serial->path) {
        return lodge_error_refuse(error, _("A serial port of type file needs a path"));
    }
    return (!config->kernel || lodge_text_check_path(_("kernel"), config->kernel, error)) &&
           (!config->initrd || lodge_text_check_path(_("initrd"), config->initrd, error)) &&
           (!config->emulator || lodge_text_check_path(_("emulator"), config->emulator, error)) &&
           (serial->type != LODGE_PORT_FILE ||
            lodge_text_check_path(_("serial port's file"), serial->path, error));
}

gboolean lodge_domain_config_check(const LodgeDomainConfig *config, GError **error)
{
    if (!lodge_text_check_name(config->name, error) ||
        (config->title && !lodge_text_check_line(_("title"), config->title, error))) {
        return FALSE;
    }
    if (!config->kernel && !config->kernel_fdgroup &&
        (config->initrd || config->initrd_fdgroup || config->command_line)) {
        return lodge_error_refuse(
            error, _("There is an initrd or a command line, and no kernel for it: give "
                     "<kernel>"));
    }
    return check_paths(config, error) && check_sizes(config, error) &&
           lodge_domain_check_clock(&config->clock, error) &&
           lodge_domain_check_tune(&config->tune, config->vcpus_max, error);
}

/* libvirt shows no password unless it is asked to. */
static void hide_passwords(xmlNode *domain)
{
    xmlNode *devices = lodge_xml_child(domain, "devices");

    for (xmlNode *child = devices ? devices->children : NULL; child; child = child->next) {
        if (lodge_xml_is(child, "graphics")) {
            lodge_xml_set_attribute(child, "passwd", NULL);
        }
    }
}

static xmlDoc *copy_document(const LodgeDomainConfig *config)
{
    xmlDoc *document = xmlCopyDoc(config->document, 1);

    if (!document) {
        g_error("out of memory in libxml2");
    }
    return document;
}

char *lodge_domain_config_format(const LodgeDomainConfig *config, const LodgeDomainLive *live,
                                 guint flags)
{
    g_autoptr(xmlDoc) document = copy_document(config);
    xmlNode *domain = xmlDocGetRootElement(document);

    write_sections(domain, config, live);
    if (live) {
        lodge_xml_set_attribute_number(domain, "id", (guint64)live->id);
    }
    if (!(flags & LODGE_FORMAT_SECURE)) {
        hide_passwords(domain);
    }
    return lodge_xml_write(domain, lodge_domain_kind_of);
}

/* The strings that a config owns, for those who copy and free them all. */
static void list_strings(LodgeDomainConfig *config, char **strings[11])
{
    char **all[] = {&config->name,           &config->title,         &config->description,
                    &config->kernel,         &config->initrd,        &config->command_line,
                    &config->clock.timezone, &config->emulator,      &config->serial.path,
                    &config->kernel_fdgroup, &config->initrd_fdgroup};

    memcpy(strings, all, sizeof(all));
}

LodgeDomainConfig *lodge_domain_config_copy(const LodgeDomainConfig *config)
{
    LodgeDomainConfig *copy = g_memdup2(config, sizeof(*config));
    char **strings[11];

    list_strings(copy, strings);
    for (gsize i = 0; i < G_N_ELEMENTS(strings); i++) {
        *strings[i] = g_strdup(*strings[i]);
    }
    copy->inert = g_strdupv(config->inert);
    copy->document = copy_document(config);
    return copy;
}

void lodge_domain_config_free(LodgeDomainConfig *config)
{
    char **strings[11];

    if (!config) {
        return;
    }
    list_strings(config, strings);
    for (gsize i = 0; i < G_N_ELEMENTS(strings); i++) {
        g_free(*strings[i]);
    }
    g_strfreev(config->inert);
    xmlFreeDoc(config->document);
    g_free(config);
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What a machine boots, which features it has, and what becomes of it when it ends. */
#include "config/domain-config-private.h"

#include "common/i18n.h"

#include <string.h>

static const char *const actions[] = {NULL, "destroy", "restart", "preserve"};

/* Elements of <os> that would have the machine boot in a way it cannot. */
static const struct {
    const char *name, *reason;
} refused[] = {
    {"loader", N_("Lodge has no firmware: a machine boots a <kernel>")},
    {"nvram", N_("Lodge has no firmware: a machine boots a <kernel>")},
    {"init", N_("Lodge runs machines, not containers: give a <kernel>")},
};

static gboolean check_type(const xmlNode *os, GError **error)
{
    static const char *const types[] = {NULL, "hvm"};
    static const char *const architectures[] = {NULL, "x86_64"};
    static const char *const machines[] = {NULL, "pc"};
    const xmlNode *type = lodge_xml_child(os, "type");
    g_autofree char *text = lodge_xml_text(type);
    guint value = 0;

    return !type || (lodge_xml_take_name(type, "<os> type", text, types, G_N_ELEMENTS(types),
                                         &value, error) &&
                     lodge_xml_attribute_name(type, "arch", architectures,
                                              G_N_ELEMENTS(architectures), &value, error) &&
                     lodge_xml_attribute_name(type, "machine", machines, G_N_ELEMENTS(machines),
                                              &value, error));
}

static gboolean parse_os(const xmlNode *os, LodgeDomainConfig *config, GError **error)
{
    g_autofree char *firmware = lodge_xml_attribute(os, "firmware");

    if (firmware) {
        g_autofree char *quoted = lodge_text_quote(firmware);

        return lodge_xml_refuse(error, os,
                                _("<os> firmware is %s: Lodge has no firmware, a "
                                  "machine boots a <kernel>"),
                                quoted);
    }
    for (gsize i = 0; i < G_N_ELEMENTS(refused); i++) {
        const xmlNode *node = lodge_xml_child(os, refused[i].name);

        if (node) {
            return lodge_xml_refuse(error, node, _("<%s> cannot be used: %s"), refused[i].name,
                                    _(refused[i].reason));
        }
    }
    config->kernel = lodge_xml_text(lodge_xml_child(os, "kernel"));
    config->initrd = lodge_xml_text(lodge_xml_child(os, "initrd"));
    config->command_line = lodge_xml_text(lodge_xml_child(os, "cmdline"));
    return check_type(os, error);
}

static gboolean parse_action(const xmlNode *domain, const char *name, LodgeAction *action_out,
                             GError **error)
{
    const xmlNode *node = lodge_xml_child(domain, name);
    g_autofree char *text = lodge_xml_text(node);
    g_autofree char *what = g_strdup_printf("<%s>", name);
    guint value = LODGE_ACTION_DEFAULT;

    if (!lodge_xml_take_name(node, what, text, actions, G_N_ELEMENTS(actions), &value, error)) {
        return FALSE;
    }
    *action_out = value;
    return TRUE;
}

gboolean lodge_domain_parse_boot(const xmlNode *domain, LodgeDomainConfig *config, GError **error)
{
    const xmlNode *os = lodge_xml_child(domain, "os");
    const xmlNode *features = lodge_xml_child(domain, "features");

    config->acpi = lodge_xml_child(features, "acpi") != NULL;
    config->apic = lodge_xml_child(features, "apic") != NULL;
    config->pae = lodge_xml_child(features, "pae") != NULL;
    return (!os || parse_os(os, config, error)) &&
           parse_action(domain, "on_poweroff", &config->on_poweroff, error) &&
           parse_action(domain, "on_reboot", &config->on_reboot, error) &&
           parse_action(domain, "on_crash", &config->on_crash, error);
}

/* First in <os>, as libvirt has it. */
static xmlNode *ensure_type(xmlNode *os)
{
    xmlNode *type = lodge_xml_child(os, "type");

    if (!type) {
        type = lodge_xml_append(os, "type");
        if (os->children != type) {
            xmlAddPrevSibling(os->children, type);
        }
    }
    return type;
}

static void write_feature(xmlNode *domain, const char *name, gboolean on)
{
    xmlNode *features =
        on ? lodge_xml_ensure(domain, "features") : lodge_xml_child(domain, "features");

    if (on) {
        lodge_xml_ensure(features, name);
    } else {
        lodge_xml_remove(lodge_xml_child(features, name));
    }
}

void lodge_domain_write_boot(xmlNode *domain, const LodgeDomainConfig *config)
{
    xmlNode *os = lodge_xml_ensure(domain, "os");
    xmlNode *type = ensure_type(os);

    lodge_xml_set_attribute(type, "arch", "x86_64");
    lodge_xml_set_attribute(type, "machine", "pc");
    lodge_xml_set_text(type, "hvm");
    lodge_xml_set_child(os, "kernel", config->kernel);
    lodge_xml_set_child(os, "initrd", config->initrd);
    lodge_xml_set_child(os, "cmdline", config->command_line);
    write_feature(domain, "acpi", config->acpi);
    write_feature(domain, "apic", config->apic);
    write_feature(domain, "pae", config->pae);
    lodge_xml_set_child(domain, "on_poweroff", actions[config->on_poweroff]);
    lodge_xml_set_child(domain, "on_reboot", actions[config->on_reboot]);
    lodge_xml_set_child(domain, "on_crash", actions[config->on_crash]);
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The serial port, which is the console, and the emulator's path. Other devices are kept.
 *
 * libvirt's clients may give the port as <serial>, as <console>, or as both, and look for it as
 * either: both are written, and say the same.
 */
#include "config/domain-config-private.h"

#include "common/i18n.h"

#include <string.h>

static const char *const types[] = {NULL, "pty", "file", "null"};
static const char *const switches[] = {NULL, "on", "off"};
static const char *const targets[] = {NULL, "isa-serial", "serial"}; /* of <serial>, <console> */

/* What the port is, and to which port of the machine it belongs. */
static gboolean parse_port(const xmlNode *node, LodgePortConfig *port, GError **error)
{
    const xmlNode *source = lodge_xml_child(node, "source");
    const xmlNode *target = lodge_xml_child(node, "target");
    g_autofree char *type = lodge_xml_attribute(node, "type");
    guint kind = LODGE_PORT_NONE, append = LODGE_SWITCH_DEFAULT, target_type = 0;
    guint64 number = 0;

    if (!lodge_xml_attribute_name(node, "type", types, G_N_ELEMENTS(types), &kind, error) ||
        (target && !lodge_xml_attribute_name(target, "type", targets, G_N_ELEMENTS(targets),
                                             &target_type, error)) ||
        (target && !lodge_xml_attribute_number(target, "port", 0, 0, &number, error)) ||
        (source && !lodge_xml_attribute_name(source, "append", switches, G_N_ELEMENTS(switches),
                                             &append, error))) {
        return FALSE;
    }
    if (!type) {
        return lodge_xml_refuse(error, node, _("<%s> needs type=: pty, file or null"),
                                (const char *)node->name);
    }
    port->type = kind;
    if (kind != LODGE_PORT_FILE) {
        return TRUE;
    }
    port->append = append;
    port->path = source ? lodge_xml_attribute(source, "path") : NULL;
    if (!port->path) {
        return lodge_xml_refuse(error, node, _("<%s type='file'> needs <source path='…'/>"),
                                (const char *)node->name);
    }
    return lodge_text_check_path(_("serial port's file"), port->path, error) ||
           lodge_xml_locate(error, source);
}

/* A console of another kind, such as virtio's, is kept and does nothing. */
static gboolean is_serial_console(const xmlNode *node)
{
    const xmlNode *target = lodge_xml_child(node, "target");
    g_autofree char *type = target ? lodge_xml_attribute(target, "type") : NULL;

    return lodge_xml_is(node, "console") && (!type || strcmp(type, "serial") == 0);
}

static const xmlNode *find_console(const xmlNode *devices)
{
    const xmlNode *child = devices ? devices->children : NULL;

    while (child && !is_serial_console(child)) {
        child = child->next;
    }
    return child;
}

/* The port is given once, or once in each form. */
static gboolean check_single(const xmlNode *devices, GError **error)
{
    guint serials = 0, consoles = 0;

    for (const xmlNode *child = devices->children; child; child = child->next) {
        serials += lodge_xml_is(child, "serial");
        consoles += is_serial_console(child);
        if (serials > 1 || consoles > 1) {
            return lodge_xml_refuse(error, child,
                                    _("this is a second <%s>: a machine has one serial port"),
                                    (const char *)child->name);
        }
    }
    return TRUE;
}

gboolean lodge_domain_parse_devices(const xmlNode *domain, LodgeDomainConfig *config,
                                    GError **error)
{
    const xmlNode *devices = lodge_xml_child(domain, "devices");
    const xmlNode *emulator = lodge_xml_child(devices, "emulator");
    const xmlNode *port = lodge_xml_child(devices, "serial");

    if (!devices) {
        return TRUE;
    }
    config->emulator = lodge_xml_text(emulator);
    if (config->emulator && !lodge_text_check_path(_("emulator"), config->emulator, error)) {
        return lodge_xml_locate(error, emulator);
    }
    if (!port) {
        port = find_console(devices);
    }
    return check_single(devices, error) && (!port || parse_port(port, &config->serial, error));
}

/* Back into the document. */

static void write_source(xmlNode *node, const LodgePortConfig *port, const char *live_path)
{
    const char *path = port->type == LODGE_PORT_FILE ? port->path : live_path;
    xmlNode *source = lodge_xml_child(node, "source");

    if (!path) {
        lodge_xml_remove(source);
        return;
    }
    if (!source) {
        source = lodge_xml_append(node, "source");
        if (node->children != source) {
            xmlAddPrevSibling(node->children, source);
        }
    }
    lodge_xml_set_attribute(source, "path", path);
    lodge_xml_set_attribute(source, "append", switches[port->append]);
}

/* libvirt numbers devices while a machine runs; names that a person gave begin with "ua-". */
static void write_alias(xmlNode *node, gboolean live)
{
    xmlNode *alias = lodge_xml_child(node, "alias");
    g_autofree char *name = alias ? lodge_xml_attribute(alias, "name") : NULL;

    if (name && g_str_has_prefix(name, "ua-")) {
        return;
    }
    if (live) {
        lodge_xml_set_attribute(lodge_xml_ensure(node, "alias"), "name", "serial0");
    } else {
        lodge_xml_remove(alias);
    }
}

static void write_port(xmlNode *node, const LodgePortConfig *port, const LodgeDomainLive *live,
                       const char *target_type)
{
    const char *live_path = live && port->type == LODGE_PORT_PTY ? live->serial_path : NULL;
    xmlNode *target = lodge_xml_ensure(node, "target");

    lodge_xml_set_attribute(node, "type", types[port->type]);
    write_source(node, port, live_path);
    lodge_xml_set_attribute(target, "type", target_type);
    lodge_xml_set_attribute(target, "port", "0");
    write_alias(node, live != NULL);
    if (lodge_xml_is(node, "console")) {
        lodge_xml_set_attribute(node, "tty", live_path);
    }
}

void lodge_domain_write_devices(xmlNode *domain, const LodgeDomainConfig *config,
                                const LodgeDomainLive *live)
{
    xmlNode *devices = lodge_xml_ensure(domain, "devices");
    xmlNode *serial = lodge_xml_child(devices, "serial");
    xmlNode *console = (xmlNode *)find_console(devices);

    lodge_xml_set_child(devices, "emulator", config->emulator);
    if (config->serial.type == LODGE_PORT_NONE) {
        lodge_xml_remove(serial);
        lodge_xml_remove(console);
        return;
    }
    if (!serial) {
        serial = lodge_xml_append(devices, "serial");
        if (console) {
            xmlAddPrevSibling(console, serial);
        }
    }
    if (!console) {
        console = lodge_xml_append(devices, "console");
        xmlAddNextSibling(serial, console);
    }
    write_port(serial, &config->serial, live, "isa-serial");
    write_port(console, &config->serial, live, "serial");
}

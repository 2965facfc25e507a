/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Setting what differs between definitions, and naming the files that stand in them. */
#include "client/machine-xml.h"

#include "common/i18n.h"
#include "config/xml-node.h"
#include "config/xml-read.h"

#include <stdlib.h>
#include <string.h>

#define FILES_MOST 64u

xmlDoc *lodge_machine_xml_parse(const char *text, gsize length, const char *source, GError **error)
{
    g_autoptr(xmlDoc) definition = lodge_xml_read(text, length, source, error);

    if (definition && !lodge_xml_is(xmlDocGetRootElement(definition), "domain")) {
        lodge_xml_refuse(error, xmlDocGetRootElement(definition),
                         _("it is no <domain>, which a machine's definition is"));
        return NULL;
    }
    return g_steal_pointer(&definition);
}

char *lodge_machine_xml_name(const xmlDoc *definition)
{
    return lodge_xml_text(lodge_xml_child(xmlDocGetRootElement(definition), "name"));
}

static void set_path(xmlNode *parent, const char *element, const char *path)
{
    if (path) {
        g_autofree char *absolute = g_canonicalize_filename(path, NULL);

        lodge_xml_set_child(parent, element, absolute);
    }
}

void lodge_machine_xml_change(xmlDoc *definition, const LodgeMachineChanges *changes)
{
    xmlNode *domain = xmlDocGetRootElement(definition);

    if (changes->kernel || changes->initrd || changes->append) {
        xmlNode *os = lodge_xml_ensure(domain, "os");

        set_path(os, "kernel", changes->kernel);
        set_path(os, "initrd", changes->initrd);
        if (changes->append) {
            lodge_xml_set_child(os, "cmdline", changes->append);
        }
    }
    if (changes->memory_bytes) {
        xmlNode *memory = lodge_xml_ensure(domain, "memory");
        g_autofree char *kib = g_strdup_printf("%" G_GUINT64_FORMAT, changes->memory_bytes / 1024);

        lodge_xml_set_text(memory, kib);
        lodge_xml_set_attribute(memory, "unit", "KiB");
        lodge_xml_remove(lodge_xml_child(domain, "currentMemory"));
    }
    if (changes->vcpus) {
        xmlNode *vcpu = lodge_xml_ensure(domain, "vcpu");
        g_autofree char *count = g_strdup_printf("%u", changes->vcpus);

        lodge_xml_set_text(vcpu, count);
        lodge_xml_set_attribute(vcpu, "current", NULL);
    }
}

char *lodge_machine_xml_instance(xmlDoc *definition, const char *name)
{
    xmlNode *domain = xmlDocGetRootElement(definition);
    xmlNode *devices = lodge_xml_child(domain, "devices");
    xmlChar *text = NULL;
    char *copy;
    int length = 0;

    lodge_xml_set_child(domain, "name", name);
    lodge_xml_remove(lodge_xml_child(domain, "uuid"));
    lodge_xml_set_attribute(domain, "id", NULL);
    for (xmlNode *device = devices ? devices->children : NULL; device; device = device->next) {
        if (lodge_xml_is(device, "interface")) {
            lodge_xml_remove(lodge_xml_child(device, "mac"));
        }
    }
    xmlDocDumpMemoryEnc(definition, &text, &length, "UTF-8");
    copy = g_strndup((const char *)text, (gsize)length);
    xmlFree(text);
    return copy;
}

static void add_file(GPtrArray *files, char *path)
{
    if (path && files->len < FILES_MOST &&
        !g_ptr_array_find_with_equal_func(files, path, g_str_equal, NULL)) {
        g_ptr_array_add(files, path);
    } else {
        g_free(path);
    }
}

GStrv lodge_machine_xml_files(virDomainPtr domain)
{
    char *text = virDomainGetXMLDesc(domain, VIR_DOMAIN_XML_INACTIVE);
    g_autoptr(xmlDoc) definition =
        text ? lodge_machine_xml_parse(text, strlen(text), NULL, NULL) : NULL;
    GPtrArray *files;
    const xmlNode *root, *os, *devices;

    free(text);
    if (!definition) {
        return NULL;
    }
    files = g_ptr_array_new();
    root = xmlDocGetRootElement(definition);
    os = lodge_xml_child(root, "os");
    devices = lodge_xml_child(root, "devices");
    add_file(files, lodge_xml_text(lodge_xml_child(os, "kernel")));
    add_file(files, lodge_xml_text(lodge_xml_child(os, "initrd")));
    for (const xmlNode *device = devices ? devices->children : NULL; device;
         device = device->next) {
        const xmlNode *source = lodge_xml_child(device, "source");

        if (source) {
            add_file(files, lodge_xml_attribute(source, "file"));
            add_file(files, lodge_xml_attribute(source, "dev"));
            if (lodge_xml_is(device, "serial") || lodge_xml_is(device, "console")) {
                add_file(files, lodge_xml_attribute(source, "path"));
            }
        }
    }
    g_ptr_array_add(files, NULL);
    return (GStrv)g_ptr_array_free(files, FALSE);
}

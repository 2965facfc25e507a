/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Reading definitions from where they may be, and setting what differs. */
#include "cli/machine-xml.h"

#include "common/i18n.h"
#include "common/lodge-error.h"
#include "config/text.h"
#include "config/xml-node.h"
#include "config/xml-read.h"

#include <libvirt/virterror.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILES_MOST 64u

/* A FIFO or a device may be meant, but not without end. */
static GString *read_bounded(int fd, const char *path, GError **error)
{
    g_autoptr(GString) text = g_string_new(NULL);
    char buffer[8192];
    ssize_t got;

    while ((got = read(fd, buffer, sizeof(buffer))) != 0) {
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            lodge_error_refuse(error, _("Cannot read the definition “%s”: %s"), path,
                               g_strerror(errno));
            return NULL;
        }
        if (text->len + (gsize)got > LODGE_XML_BYTES_MAX) {
            lodge_error_refuse(
                error, _("“%s” is no definition of a machine: it is longer than 1 MiB"), path);
            return NULL;
        }
        g_string_append_len(text, buffer, got);
    }
    return g_steal_pointer(&text);
}

static xmlDoc *parse(const char *text, gsize length, const char *source, GError **error)
{
    g_autoptr(xmlDoc) definition = lodge_xml_read(text, length, source, error);

    if (definition && !lodge_xml_is(xmlDocGetRootElement(definition), "domain")) {
        lodge_xml_refuse(error, xmlDocGetRootElement(definition),
                         _("it is no <domain>, which a machine's definition is"));
        return NULL;
    }
    return g_steal_pointer(&definition);
}

static xmlDoc *read_file(const char *path, GError **error)
{
    gboolean standard = strcmp(path, "-") == 0;
    int fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    GString *text;
    xmlDoc *definition = NULL;

    if (fd < 0) {
        lodge_error_refuse(error, _("Cannot read the definition “%s”: %s"), path,
                           g_strerror(errno));
        return NULL;
    }
    text = read_bounded(fd, standard ? _("standard input") : path, error);
    if (text) {
        definition = parse(text->str, text->len, standard ? _("standard input") : path, error);
        g_string_free(text, TRUE);
    }
    if (!standard) {
        close(fd);
    }
    return definition;
}

/* The person's own come before the system's. NULL: there is none of that name. */
static char *find_template(const char *name)
{
    const char *const *folders = g_get_system_data_dirs();
    g_autofree char *file = g_strconcat(name, ".xml", NULL);
    char *path = g_build_filename(g_get_user_config_dir(), "lodge", "templates", file, NULL);

    for (guint i = 0; folders[i] && access(path, F_OK) < 0; i++) {
        g_free(path);
        path = g_build_filename(folders[i], "lodge", "templates", file, NULL);
    }
    if (access(path, F_OK) < 0) {
        g_clear_pointer(&path, g_free);
    }
    return path;
}

static xmlDoc *read_machine(virConnectPtr connection, const char *name, GError **error)
{
    g_autoptr(virDomain) domain = virDomainLookupByName(connection, name);
    g_autofree char *quoted = lodge_text_quote(name);
    char *text = domain ? virDomainGetXMLDesc(domain, VIR_DOMAIN_XML_INACTIVE) : NULL;
    xmlDoc *definition;

    if (!domain && lodge_connection_error_code() == VIR_ERR_NO_DOMAIN) {
        lodge_error_refuse(error,
                           _("--from %s: there is no template and no machine of that name; a file "
                             "is named as “./%s.xml”"),
                           quoted, name);
        return NULL;
    }
    if (!text) {
        lodge_connection_set_error(error, _("Cannot read the definition of %s"), quoted);
        return NULL;
    }
    definition = parse(text, strlen(text), name, error);
    free(text);
    return definition;
}

xmlDoc *lodge_machine_xml_read(virConnectPtr connection, const char *from, GError **error)
{
    g_autofree char *template = NULL;

    if (strchr(from, '/') || g_str_has_suffix(from, ".xml") || strcmp(from, "-") == 0) {
        return read_file(from, error);
    }
    template = find_template(from);
    return template ? read_file(template, error) : read_machine(connection, from, error);
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
    g_autoptr(xmlDoc) definition = text ? parse(text, strlen(text), NULL, NULL) : NULL;
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

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Reading definitions from where they may be. */
#include "cli/definition.h"

#include "client/machine-xml.h"
#include "common/i18n.h"
#include "common/lodge-error.h"
#include "config/text.h"

#include <libvirt/virterror.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
        definition = lodge_machine_xml_parse(text->str, text->len,
                                             standard ? _("standard input") : path, error);
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
    definition = lodge_machine_xml_parse(text, strlen(text), name, error);
    free(text);
    return definition;
}

xmlDoc *lodge_definition_read(virConnectPtr connection, const char *from, GError **error)
{
    g_autofree char *template = NULL;

    if (strchr(from, '/') || g_str_has_suffix(from, ".xml") || strcmp(from, "-") == 0) {
        return read_file(from, error);
    }
    template = find_template(from);
    return template ? read_file(template, error) : read_machine(connection, from, error);
}

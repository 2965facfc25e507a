/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Definitions on disk: reading them, and saying what is wrong with the others. */
#include "config/store-private.h"

#include "common/i18n.h"
#include "common/lodge-error.h"
#include "config/file-name.h"

#include <errno.h>
#include <string.h>

/* What one look at the folder has found. */
typedef struct {
    LodgeDomainStore *store;
    GPtrArray *domains, *problems;
    GHashTable *uuids; /* as text, to the path where it stands */
} Load;

char *lodge_store_stem(const char *file, const char *suffix)
{
    g_autofree char *stem = NULL;
    g_autofree char *name = NULL;

    if (!g_str_has_suffix(file, suffix)) {
        return NULL;
    }
    stem = g_strndup(file, strlen(file) - strlen(suffix));
    name = lodge_file_name_decode(stem);
    return name ? g_steal_pointer(&stem) : NULL;
}

static void free_domain(gpointer data)
{
    LodgeStoredDomain *domain = data;

    lodge_domain_config_free(domain->config);
    g_free(domain);
}

static void free_problem(gpointer data)
{
    LodgeStoreProblem *problem = data;

    g_free(problem->path);
    g_free(problem->name);
    g_error_free(problem->error);
    g_free(problem);
}

/* @cause is moved in. */
static void add_problem(Load *load, const char *file, const char *stem, GError *cause)
{
    LodgeStoreProblem *problem = g_new0(LodgeStoreProblem, 1);

    problem->path = lodge_disk_path(&load->store->disk, file);
    problem->name = stem ? lodge_file_name_decode(stem) : NULL;
    problem->error = cause;
    g_ptr_array_add(load->problems, problem);
}

static GError *file_error(const Load *load, const char *file, const char *cause)
{
    g_autofree char *path = lodge_disk_path(&load->store->disk, file);
    g_autofree char *quoted = lodge_text_show(path, 1000);

    return g_error_new(LODGE_ERROR, LODGE_ERROR_INPUT, "“%s”: %s", quoted, cause);
}

static LodgeDomainConfig *read_config(const Load *load, const char *file, GError **error)
{
    g_autofree char *path = lodge_disk_path(&load->store->disk, file);
    g_autoptr(GBytes) data = NULL;
    int result = lodge_disk_read(&load->store->disk, file, LODGE_XML_BYTES_MAX, &data);

    if (result < 0) {
        g_set_error(error, LODGE_ERROR, LODGE_ERROR_FAILED, _("Cannot read “%s”: %s"), path,
                    result == -EINVAL ? _("it is no regular file") : g_strerror(-result));
        return NULL;
    }
    return lodge_domain_config_parse(g_bytes_get_data(data, NULL), (gssize)g_bytes_get_size(data),
                                     path, error);
}

/* Is it the machine that its file's name says, and the only one with its UUID? */
static gboolean check_place(Load *load, const char *file, const char *stem,
                            const LodgeDomainConfig *config, GError **error)
{
    g_autofree char *own = lodge_file_name_encode(config->name);
    g_autofree char *uuid = lodge_uuid_format(config->uuid);
    g_autofree char *quoted = lodge_text_quote(config->name);
    g_autofree char *cause = NULL;
    const char *other = g_hash_table_lookup(load->uuids, uuid);

    if (strcmp(own, stem) != 0) {
        cause = g_strdup_printf(_("it holds the machine %s, whose file is called “%s.xml”: rename "
                                  "the file, or the machine in it"),
                                quoted, own);
    } else if (other) {
        cause =
            g_strdup_printf(_("it has the UUID %s, as “%s” has: change one of them"), uuid, other);
    } else {
        g_hash_table_insert(load->uuids, g_steal_pointer(&uuid),
                            lodge_disk_path(&load->store->disk, file));
        return TRUE;
    }
    if (error) {
        *error = file_error(load, file, cause);
    }
    return FALSE;
}

static void load_definition(Load *load, const char *file, const char *stem)
{
    g_autofree char *mark = g_strconcat(stem, LODGE_STORE_AUTOSTART, NULL);
    g_autofree char *old = g_strconcat(stem, LODGE_STORE_OLD, NULL);
    g_autoptr(LodgeDomainConfig) config = NULL;
    LodgeStoredDomain *domain = NULL;
    GError *error = NULL;

    config = read_config(load, file, &error);
    if (!config && lodge_disk_has(&load->store->disk, old)) {
        g_autofree char *kept = lodge_disk_path(&load->store->disk, old);
        GError *cause = error;

        error = g_error_new(cause->domain, cause->code,
                            _("%s; the definition before it is in “%s”"), cause->message, kept);
        g_error_free(cause);
    }
    if (!config || !check_place(load, file, stem, config, &error)) {
        add_problem(load, file, stem, error);
        return;
    }
    domain = g_new0(LodgeStoredDomain, 1);
    domain->config = g_steal_pointer(&config);
    domain->autostart = lodge_disk_has(&load->store->disk, mark);
    g_ptr_array_add(load->domains, domain);
}

/* What goes with a definition, and has none. */
static void look_at_companion(Load *load, const char *file, const char *stem)
{
    g_autofree char *xml = g_strconcat(stem, LODGE_STORE_XML, NULL);

    if (!lodge_disk_has(&load->store->disk, xml)) {
        g_autofree char *cause =
            g_strdup_printf(_("its machine's definition, “%s”, is missing"), xml);

        add_problem(load, file, stem, file_error(load, file, cause));
    }
}

static void look_at(Load *load, const char *file)
{
    static const char *const companions[] = {LODGE_STORE_OLD, LODGE_STORE_AUTOSTART,
                                             LODGE_STORE_NEW, LODGE_STORE_KEEP};
    g_autofree char *stem = lodge_store_stem(file, LODGE_STORE_XML);

    if (strcmp(file, LODGE_JOURNAL_NAME) == 0) {
        return;
    }
    if (stem) {
        load_definition(load, file, stem);
        return;
    }
    for (gsize i = 0; i < G_N_ELEMENTS(companions); i++) {
        g_autofree char *owner = lodge_store_stem(file, companions[i]);

        if (owner) {
            look_at_companion(load, file, owner);
            return;
        }
    }
    add_problem(
        load, file, NULL,
        file_error(load, file, _("it is no machine's file, by its name; it is left alone")));
}

gboolean lodge_domain_store_load(LodgeDomainStore *store, GPtrArray **domains_out,
                                 GPtrArray **problems_out, GError **error)
{
    g_autoptr(GHashTable) uuids = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    Load load = {store, NULL, NULL, uuids};
    g_auto(GStrv) names = NULL;
    int result;

    g_mutex_lock(&store->mutex);
    result = lodge_disk_list(&store->disk, &names);
    if (result == 0) {
        load.domains = g_ptr_array_new_with_free_func(free_domain);
        load.problems = g_ptr_array_new_with_free_func(free_problem);
    }
    for (guint i = 0; names && names[i]; i++) {
        look_at(&load, names[i]);
    }
    g_mutex_unlock(&store->mutex);
    *domains_out = load.domains;
    *problems_out = load.problems;
    return result == 0 ||
           lodge_store_refuse(store, error, result, NULL, _("Cannot list the machines"));
}

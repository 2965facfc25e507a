/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Files of machines that run. */
#include "daemon/live-store.h"

#include "common/i18n.h"
#include "common/lodge-error.h"
#include "config/disk.h"
#include "daemon/core.h"

#include <errno.h>
#include <string.h>

struct _LodgeLiveStore {
    LodgeDisk disk;
};

#define RECORD     ".xml"
#define UNFINISHED ".new"

static void remove_unfinished(LodgeLiveStore *store)
{
    g_auto(GStrv) names = NULL;
    int rc = lodge_disk_list(&store->disk, &names);

    for (guint i = 0; rc == 0 && names[i]; i++) {
        if (g_str_has_suffix(names[i], UNFINISHED)) {
            lodge_disk_remove(&store->disk, names[i]);
        }
    }
}

LodgeLiveStore *lodge_live_store_open(GError **error)
{
    LodgeLiveStore *store = g_new0(LodgeLiveStore, 1);
    g_autofree char *folder = lodge_core_folder();
    g_autofree char *path = g_build_filename(folder, "live", NULL);
    int rc;

    store->disk.folder = -1;
    /* Nobody else's: the core insists on that. */
    if (g_mkdir_with_parents(folder, 0700) < 0) {
        rc = -errno;
    } else {
        rc = lodge_disk_open(&store->disk, path, NULL);
    }
    if (rc < 0) {
        g_set_error(error, LODGE_ERROR, LODGE_ERROR_FAILED, _("Cannot open the folder “%s”: %s"),
                    path, g_strerror(-rc));
        g_clear_pointer(&store, lodge_live_store_close);
        return NULL;
    }
    remove_unfinished(store);
    return store;
}

void lodge_live_store_close(LodgeLiveStore *store)
{
    lodge_disk_close(&store->disk);
    g_free(store);
}

gboolean lodge_live_store_save(LodgeLiveStore *store, int id, const LodgeDomainConfig *config,
                               GError **error)
{
    g_autofree char *text = lodge_domain_config_format(config, NULL, LODGE_FORMAT_SECURE);
    g_autofree char *name = g_strdup_printf("%d" RECORD, id);
    g_autofree char *new = g_strdup_printf("%d" UNFINISHED, id);
    int rc = lodge_disk_write(&store->disk, new, text, strlen(text));

    if (rc == 0) {
        rc = lodge_disk_rename(&store->disk, new, name);
    }
    if (rc < 0) {
        g_autofree char *path = lodge_disk_path(&store->disk, name);

        g_set_error(error, LODGE_ERROR, LODGE_ERROR_FAILED, _("Cannot write “%s”: %s"), path,
                    g_strerror(-rc));
    }
    return rc == 0;
}

void lodge_live_store_remove(LodgeLiveStore *store, int id)
{
    g_autofree char *name = g_strdup_printf("%d" RECORD, id);

    lodge_disk_remove(&store->disk, name);
}

void lodge_live_record_free(LodgeLiveRecord *record)
{
    lodge_domain_config_free(record->config);
    g_free(record);
}

/* 0: it is none of ours. */
static int id_of(const char *name)
{
    g_autofree char *stem = g_strndup(name, strlen(name) - MIN(strlen(name), strlen(RECORD)));
    guint64 id;

    return g_str_has_suffix(name, RECORD) &&
                   g_ascii_string_to_unsigned(stem, 10, 1, G_MAXINT, &id, NULL)
               ? (int)id
               : 0;
}

/* NULL: it is damaged, or cannot be read. */
static LodgeLiveRecord *read_record(LodgeLiveStore *store, const char *name)
{
    g_autofree char *path = lodge_disk_path(&store->disk, name);
    g_autoptr(GBytes) data = NULL;
    g_autoptr(GError) error = NULL;
    LodgeDomainConfig *config = NULL;
    LodgeLiveRecord *record;
    int rc = lodge_disk_read(&store->disk, name, LODGE_XML_BYTES_MAX, &data);

    if (rc < 0) {
        g_warning(_("Cannot read “%s”, of a machine that may run: %s"), path, g_strerror(-rc));
        return NULL;
    }
    config = lodge_domain_config_parse(g_bytes_get_data(data, NULL), (gssize)g_bytes_get_size(data),
                                       path, &error);
    if (!config) {
        g_warning("%s", error->message);
        return NULL;
    }
    record = g_new(LodgeLiveRecord, 1);
    *record = (LodgeLiveRecord){id_of(name), config};
    return record;
}

GPtrArray *lodge_live_store_load(LodgeLiveStore *store, int *last_id_out, GError **error)
{
    GPtrArray *records;
    g_auto(GStrv) names = NULL;
    int rc = lodge_disk_list(&store->disk, &names);

    *last_id_out = 0;
    if (rc < 0) {
        g_set_error(error, LODGE_ERROR, LODGE_ERROR_FAILED, _("Cannot list the folder “%s”: %s"),
                    store->disk.path, g_strerror(-rc));
        return NULL;
    }
    records = g_ptr_array_new_with_free_func((GDestroyNotify)lodge_live_record_free);
    for (guint i = 0; names[i]; i++) {
        int id = id_of(names[i]);
        LodgeLiveRecord *record = id > 0 ? read_record(store, names[i]) : NULL;

        *last_id_out = MAX(*last_id_out, id);
        if (record) {
            g_ptr_array_add(records, record);
        }
    }
    return records;
}

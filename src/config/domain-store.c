/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Definitions on disk: what changes them. Reading them is in store-load.c. */
#include "config/domain-store.h"

#include "common/file-lock.h"
#include "common/i18n.h"
#include "common/lodge-error.h"
#include "config/file-name.h"
#include "config/store-private.h"

#include <errno.h>
#include <string.h>

/* Of every machine, in the order in which they go. Its definition goes last: until then it is there. */
static const char *const suffixes[] = {LODGE_STORE_AUTOSTART, LODGE_STORE_OLD, LODGE_STORE_NEW,
                                       LODGE_STORE_KEEP, LODGE_STORE_XML};

static char *file_of(const char *stem, const char *suffix)
{
    return g_strconcat(stem, suffix, NULL);
}

gboolean lodge_store_refuse(const LodgeDomainStore *store, GError **error, int result,
                            const char *file, const char *format, ...)
{
    g_autofree char *path = file ? lodge_disk_path(&store->disk, file) : NULL;
    g_autofree char *what = NULL;
    gboolean input = result == -ENOENT || result == -EEXIST;
    va_list args;

    va_start(args, format);
    what = g_strdup_vprintf(format, args);
    va_end(args);
    g_set_error(error, LODGE_ERROR, input ? LODGE_ERROR_INPUT : LODGE_ERROR_FAILED,
                _("%s in “%s”: %s"), what, path ? path : store->disk.path, g_strerror(-result));
    return FALSE;
}

/* Steps that take more than one file. Each can be done again from the beginning. */

static int delete_files(LodgeDomainStore *store, const char *stem)
{
    int result = 0;

    for (gsize i = 0; i < G_N_ELEMENTS(suffixes) && result == 0; i++) {
        g_autofree char *file = file_of(stem, suffixes[i]);

        result = lodge_disk_remove(&store->disk, file);
    }
    return result;
}

/* One file of the machine, if it is there (still). */
static int move_file(LodgeDomainStore *store, const char *stem, const char *to, const char *suffix)
{
    g_autofree char *from = file_of(stem, suffix);
    g_autofree char *into = file_of(to, suffix);

    return lodge_disk_has(&store->disk, from) ? lodge_disk_rename(&store->disk, from, into) : 0;
}

static int rename_files(LodgeDomainStore *store, const char *stem, const char *to)
{
    g_autofree char *new = file_of(to, LODGE_STORE_NEW);
    g_autofree char *xml = file_of(to, LODGE_STORE_XML);
    int result;

    /* It was not decided after all: decide() could not say so. */
    if (!lodge_disk_has(&store->disk, new) && !lodge_disk_has(&store->disk, xml)) {
        return 0;
    }
    result = move_file(store, stem, to, LODGE_STORE_AUTOSTART);
    if (result == 0 && lodge_disk_has(&store->disk, new)) {
        result = lodge_disk_rename(&store->disk, new, xml);
    }
    /* What it was called before is its definition before. */
    if (result == 0) {
        g_autofree char *former = file_of(stem, LODGE_STORE_XML);
        g_autofree char *old = file_of(to, LODGE_STORE_OLD);

        result =
            lodge_disk_has(&store->disk, former) ? lodge_disk_rename(&store->disk, former, old) : 0;
    }
    return result ? result : delete_files(store, stem);
}

/* Do what is decided. */
static int finish(LodgeDomainStore *store)
{
    const LodgeJournalRecord *record = &store->decided;
    int result = 0;

    switch (record->verb) {
    case LODGE_JOURNAL_IDLE:
        return 0;
    case LODGE_JOURNAL_DELETE:
        result = delete_files(store, record->stem);
        break;
    case LODGE_JOURNAL_RENAME:
        result = rename_files(store, record->stem, record->to);
        break;
    }
    if (result == 0) {
        result = lodge_disk_sync(&store->disk);
    }
    if (result == 0) {
        result = lodge_journal_end(&store->journal);
    }
    if (result == 0) {
        lodge_journal_record_clear(&store->decided);
    }
    return result;
}

/* Decide, and do. The journal is there: begin_change() has seen to it. */
static int decide(LodgeDomainStore *store, LodgeJournalVerb verb, const char *stem, const char *to)
{
    LodgeJournalRecord record = {verb, g_strdup(stem), g_strdup(to)};
    int result = lodge_journal_begin(&store->journal, &record);

    if (result < 0) {
        lodge_journal_record_clear(&record);
        /* Whether it is on disk is not known: it must not be found there after other changes. */
        store->unsure = lodge_journal_end(&store->journal) < 0;
        return result;
    }
    store->decided = record;
    return finish(store);
}

/* Before anything changes: the journal is there, and nothing decided is left undone. */
static int begin_change(LodgeDomainStore *store)
{
    if (store->journal.fd < 0) {
        LodgeJournalRecord record;
        int result = lodge_journal_open(&store->journal, &store->disk, &record);

        if (result < 0) {
            lodge_journal_record_clear(&record);
            return result;
        }
        store->decided = record;
    }
    if (store->unsure) {
        int result = lodge_journal_end(&store->journal);

        if (result < 0) {
            return result;
        }
        store->unsure = FALSE;
    }
    return finish(store);
}

/* Remove what an unfinished write has left; only names that are ours. */
static int remove_leftovers(LodgeDomainStore *store)
{
    g_auto(GStrv) names = NULL;
    int result = lodge_disk_list(&store->disk, &names);

    for (guint i = 0; result == 0 && names[i]; i++) {
        g_autofree char *stem = lodge_store_stem(names[i], LODGE_STORE_NEW);

        if (!stem) {
            stem = lodge_store_stem(names[i], LODGE_STORE_KEEP);
        }
        if (stem) {
            result = lodge_disk_remove(&store->disk, names[i]);
        }
    }
    return result;
}

LodgeDomainStore *lodge_domain_store_open_watched(const char *folder, const LodgeDiskWatch *watch,
                                                  GError **error)
{
    g_autoptr(LodgeDomainStore) store = g_new0(LodgeDomainStore, 1);
    int result;

    g_mutex_init(&store->mutex);
    store->journal.fd = -1;
    result = lodge_disk_open(&store->disk, folder, watch);
    if (result < 0) {
        g_set_error(error, LODGE_ERROR, LODGE_ERROR_FAILED,
                    _("Cannot open the folder of machines “%s”: %s"), folder, g_strerror(-result));
        return NULL;
    }
    /* A file system without locks keeps nobody out, which is no reason to refuse. */
    if (lodge_file_lock(store->disk.folder) == -EWOULDBLOCK) {
        g_set_error(error, LODGE_ERROR, LODGE_ERROR_FAILED,
                    _("Cannot open the folder of machines “%s”: another process has it"), folder);
        return NULL;
    }
    /* What cannot be finished now, on a disk that cannot be written to, is tried before each change. */
    if (begin_change(store) == 0 && remove_leftovers(store) < 0) {
        g_info("Files of unfinished writes are left in “%s”", folder);
    }
    return g_steal_pointer(&store);
}

LodgeDomainStore *lodge_domain_store_open(const char *folder, GError **error)
{
    return lodge_domain_store_open_watched(folder, NULL, error);
}

void lodge_domain_store_close(LodgeDomainStore *store)
{
    if (store) {
        lodge_journal_close(&store->journal);
        lodge_journal_record_clear(&store->decided);
        lodge_disk_close(&store->disk);
        g_mutex_clear(&store->mutex);
        g_free(store);
    }
}

char *lodge_domain_store_default_folder(void)
{
    return g_build_filename(g_get_user_config_dir(), "lodge", "machines", NULL);
}

/* Definitions. */

/* Is it what the file holds already? */
static gboolean is_stored(LodgeDomainStore *store, const char *file, const char *text)
{
    g_autoptr(GBytes) data = NULL;

    return lodge_disk_read(&store->disk, file, LODGE_XML_BYTES_MAX, &data) == 0 &&
           g_bytes_get_size(data) == strlen(text) &&
           memcmp(g_bytes_get_data(data, NULL), text, strlen(text)) == 0;
}

/* A second name for the definition that is there; on a file system without such, a copy. */
static int keep_copy(LodgeDomainStore *store, const char *xml, const char *keep)
{
    g_autoptr(GBytes) data = NULL;
    int result = lodge_disk_remove(&store->disk, keep);

    if (result == 0) {
        result = lodge_disk_link(&store->disk, xml, keep);
    }
    if (result == -EPERM || result == -EOPNOTSUPP || result == -ENOSYS || result == -EMLINK) {
        result = lodge_disk_read(&store->disk, xml, LODGE_XML_BYTES_MAX, &data);
        if (result == 0) {
            result = lodge_disk_write(&store->disk, keep, g_bytes_get_data(data, NULL),
                                      g_bytes_get_size(data));
        }
    }
    return result;
}

/* The definition that is there becomes the one before: never without either. */
static int keep_old(LodgeDomainStore *store, const char *stem)
{
    g_autofree char *xml = file_of(stem, LODGE_STORE_XML);
    g_autofree char *keep = file_of(stem, LODGE_STORE_KEEP);
    g_autofree char *old = file_of(stem, LODGE_STORE_OLD);
    int result = lodge_disk_has(&store->disk, xml) ? keep_copy(store, xml, keep) : -ENOENT;

    if (result == 0) {
        result = lodge_disk_rename(&store->disk, keep, old);
    }
    /* Two names of one file: then rename() has left both, as POSIX has it. */
    if (result == 0) {
        result = lodge_disk_remove(&store->disk, keep);
    }
    return result == -ENOENT ? 0 : result;
}

static int save_text(LodgeDomainStore *store, const char *stem, const char *text)
{
    g_autofree char *xml = file_of(stem, LODGE_STORE_XML);
    g_autofree char *new = file_of(stem, LODGE_STORE_NEW);
    int result;

    if (is_stored(store, xml, text)) {
        return 0;
    }
    result = lodge_disk_write(&store->disk, new, text, strlen(text));
    if (result == 0) {
        result = keep_old(store, stem);
    }
    if (result == 0) {
        result = lodge_disk_rename(&store->disk, new, xml);
    }
    if (result < 0) {
        lodge_disk_remove(&store->disk, new);
        return result;
    }
    return lodge_disk_sync(&store->disk);
}

/* The text of a definition, which the next start can read: it may have grown beyond what is read. */
static char *format_checked(LodgeDomainStore *store, const LodgeDomainConfig *config,
                            const char *stem, GError **error)
{
    g_autofree char *text = lodge_domain_config_format(config, NULL, LODGE_FORMAT_SECURE);
    g_autofree char *file = file_of(stem, LODGE_STORE_XML);
    g_autofree char *path = lodge_disk_path(&store->disk, file);
    g_autoptr(LodgeDomainConfig) again = lodge_domain_config_parse(text, -1, path, error);

    return again ? g_steal_pointer(&text) : NULL;
}

gboolean lodge_domain_store_save(LodgeDomainStore *store, const LodgeDomainConfig *config,
                                 GError **error)
{
    g_autofree char *stem = lodge_file_name_encode(config->name);
    g_autofree char *xml = file_of(stem, LODGE_STORE_XML);
    g_autofree char *text = format_checked(store, config, stem, error);
    g_autofree char *quoted = lodge_text_quote(config->name);
    int result;

    if (!text) {
        return FALSE;
    }
    g_mutex_lock(&store->mutex);
    result = begin_change(store);
    if (result == 0) {
        result = save_text(store, stem, text);
    }
    g_mutex_unlock(&store->mutex);
    return result == 0 ||
           lodge_store_refuse(store, error, result, xml, _("Cannot store the machine %s"), quoted);
}

gboolean lodge_domain_store_check_free(LodgeDomainStore *store, const char *name, GError **error)
{
    g_autofree char *stem = lodge_file_name_encode(name);
    g_autofree char *xml = file_of(stem, LODGE_STORE_XML);
    g_autofree char *path = lodge_disk_path(&store->disk, xml);
    g_autofree char *quoted = lodge_text_quote(name);
    gboolean there;

    g_mutex_lock(&store->mutex);
    there = lodge_disk_has(&store->disk, xml);
    g_mutex_unlock(&store->mutex);
    return !there || lodge_error_refuse(error,
                                        _("The machine %s cannot be made: its file would be “%s”, "
                                          "which is there and could not be used; repair it and "
                                          "start the daemon anew, or move it away"),
                                        quoted, path);
}

static int rename_locked(LodgeDomainStore *store, const char *stem, const char *to,
                         const char *text)
{
    g_autofree char *former = file_of(stem, LODGE_STORE_XML);
    g_autofree char *xml = file_of(to, LODGE_STORE_XML);
    g_autofree char *new = file_of(to, LODGE_STORE_NEW);
    int result = begin_change(store);

    if (result < 0) {
        return result;
    }
    if (!lodge_disk_has(&store->disk, former)) {
        return -ENOENT;
    }
    if (lodge_disk_has(&store->disk, xml)) {
        return -EEXIST;
    }
    result = lodge_disk_write(&store->disk, new, text, strlen(text));
    /* The journal counts on it: its name has to be on disk before. */
    if (result == 0) {
        result = lodge_disk_sync(&store->disk);
    }
    if (result == 0) {
        result = decide(store, LODGE_JOURNAL_RENAME, stem, to);
    }
    if (result < 0 && store->decided.verb == LODGE_JOURNAL_IDLE && !store->unsure) {
        lodge_disk_remove(&store->disk, new);
    }
    return result;
}

gboolean lodge_domain_store_rename(LodgeDomainStore *store, const char *old_name,
                                   const LodgeDomainConfig *config, GError **error)
{
    g_autofree char *stem = lodge_file_name_encode(old_name);
    g_autofree char *to = lodge_file_name_encode(config->name);
    g_autofree char *text = format_checked(store, config, to, error);
    g_autofree char *old_quoted = lodge_text_quote(old_name);
    g_autofree char *quoted = lodge_text_quote(config->name);
    int result;

    if (!text || !lodge_text_check_name(old_name, error)) {
        return FALSE;
    }
    g_mutex_lock(&store->mutex);
    result = rename_locked(store, stem, to, text);
    g_mutex_unlock(&store->mutex);
    return result == 0 ||
           lodge_store_refuse(store, error, result, NULL, _("Cannot rename the machine %s to %s"),
                              old_quoted, quoted);
}

static int delete_locked(LodgeDomainStore *store, const char *stem)
{
    gboolean any = FALSE;
    int result = begin_change(store);

    for (gsize i = 0; i < G_N_ELEMENTS(suffixes); i++) {
        g_autofree char *file = file_of(stem, suffixes[i]);

        any |= lodge_disk_has(&store->disk, file);
    }
    return result < 0 || !any ? result : decide(store, LODGE_JOURNAL_DELETE, stem, NULL);
}

gboolean lodge_domain_store_delete(LodgeDomainStore *store, const char *name, GError **error)
{
    g_autofree char *stem = lodge_file_name_encode(name);
    g_autofree char *quoted = lodge_text_quote(name);
    int result;

    if (!lodge_text_check_name(name, error)) {
        return FALSE;
    }
    g_mutex_lock(&store->mutex);
    result = delete_locked(store, stem);
    g_mutex_unlock(&store->mutex);
    return result == 0 || lodge_store_refuse(store, error, result, NULL,
                                             _("Cannot delete the machine %s"), quoted);
}

static int set_autostart_locked(LodgeDomainStore *store, const char *stem, gboolean on)
{
    g_autofree char *xml = file_of(stem, LODGE_STORE_XML);
    g_autofree char *mark = file_of(stem, LODGE_STORE_AUTOSTART);
    int result = begin_change(store);

    if (result == 0 && !lodge_disk_has(&store->disk, xml)) {
        result = -ENOENT;
    }
    if (result == 0) {
        result = on ? lodge_disk_write(&store->disk, mark, "", 0)
                    : lodge_disk_remove(&store->disk, mark);
    }
    return result ? result : lodge_disk_sync(&store->disk);
}

gboolean lodge_domain_store_set_autostart(LodgeDomainStore *store, const char *name, gboolean on,
                                          GError **error)
{
    g_autofree char *stem = lodge_file_name_encode(name);
    g_autofree char *quoted = lodge_text_quote(name);
    int result;

    if (!lodge_text_check_name(name, error)) {
        return FALSE;
    }
    g_mutex_lock(&store->mutex);
    result = set_autostart_locked(store, stem, on);
    g_mutex_unlock(&store->mutex);
    return result == 0 ||
           lodge_store_refuse(store, error, result, NULL,
                              _("Cannot set the autostart of the machine %s"), quoted);
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The journal: what it holds after every kind of write, and what the store makes of it. */
#include "config/store-private.h"
#include "lib/tap.h"
#include "store-tools.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static char *journal_path(const char *folder)
{
    return g_build_filename(folder, LODGE_JOURNAL_NAME, NULL);
}

/* Begin @record, and leave it as a crash does. */
static gboolean leave_begun(const char *folder, const LodgeJournalRecord *record)
{
    LodgeJournalRecord former;
    LodgeJournal journal;
    LodgeDisk disk;
    gboolean begun = lodge_disk_open(&disk, folder, NULL) == 0 &&
                     lodge_journal_open(&journal, &disk, &former) == 0 &&
                     former.verb == LODGE_JOURNAL_IDLE &&
                     lodge_journal_begin(&journal, record) == 0;

    lodge_journal_close(&journal);
    lodge_disk_close(&disk);
    return begun;
}

/* The verb that is read; -1 when the journal cannot be opened. The record is "web" to "new". */
static int read_verb(const char *folder)
{
    LodgeJournalRecord record;
    LodgeJournal journal;
    LodgeDisk disk;
    int verb = -1;

    if (lodge_disk_open(&disk, folder, NULL) == 0 &&
        lodge_journal_open(&journal, &disk, &record) == 0) {
        verb = (int)record.verb;
        if (verb && (strcmp(record.stem, "web") != 0 || g_strcmp0(record.to, "new") != 0)) {
            verb = -2;
        }
        lodge_journal_record_clear(&record);
        lodge_journal_close(&journal);
    }
    lodge_disk_close(&disk);
    return verb;
}

static void test_begin_and_end(void)
{
    static const LodgeJournalRecord record = {LODGE_JOURNAL_RENAME, (char *)"web", (char *)"new"};
    g_autofree char *folder = store_folder_make();
    LodgeJournalRecord found;
    LodgeJournal journal;
    LodgeDisk disk;

    TAP_EQ(read_verb(folder), LODGE_JOURNAL_IDLE);
    TAP_OK(leave_begun(folder, &record));
    TAP_EQ(read_verb(folder), LODGE_JOURNAL_RENAME);
    TAP_EQ(lodge_disk_open(&disk, folder, NULL), 0);
    TAP_EQ(lodge_journal_open(&journal, &disk, &found), 0);
    lodge_journal_record_clear(&found);
    TAP_EQ(lodge_journal_end(&journal), 0);
    lodge_journal_close(&journal);
    lodge_disk_close(&disk);
    TAP_EQ(read_verb(folder), LODGE_JOURNAL_IDLE);
    store_folder_remove(folder);
}

/* A record of which any part is missing or changed was never on disk. */
static void test_damaged(void)
{
    static const LodgeJournalRecord record = {LODGE_JOURNAL_RENAME, (char *)"web", (char *)"new"};
    g_autofree char *folder = store_folder_make();
    g_autofree char *path = journal_path(folder);
    g_autofree char *whole = NULL;
    gsize length = 0;

    TAP_OK(leave_begun(folder, &record));
    TAP_OK(g_file_get_contents(path, &whole, &length, NULL));
    for (gsize at = 0; at <= strlen(whole) && !tap_failed(); at++) {
        g_autofree char *torn = g_memdup2(whole, length);
        g_autofree char *changed = g_memdup2(whole, length);

        memset(torn + at, 0, length - at);
        changed[at] ^= 1;
        TAP_OK(g_file_set_contents(path, torn, (gssize)length, NULL));
        TAP_EQ(read_verb(folder), at < strlen(whole) ? LODGE_JOURNAL_IDLE : LODGE_JOURNAL_RENAME);
        TAP_OK(g_file_set_contents(path, torn, (gssize)at, NULL));
        TAP_EQ(read_verb(folder), LODGE_JOURNAL_IDLE);
        TAP_OK(g_file_set_contents(path, changed, (gssize)length, NULL));
        TAP_EQ(read_verb(folder), LODGE_JOURNAL_IDLE);
    }
    store_folder_remove(folder);
}

/* However whole the record is, it names files of this folder. */
static void test_elsewhere(void)
{
    static const LodgeJournalRecord record = {LODGE_JOURNAL_DELETE, (char *)"../web", NULL};
    g_autofree char *folder = store_folder_make();

    TAP_OK(leave_begun(folder, &record));
    TAP_EQ(read_verb(folder), LODGE_JOURNAL_IDLE);
    store_folder_remove(folder);
}

/* Something large of that name is nobody's record; a folder is in the way, and stays. */
static void test_foreign(void)
{
    g_autofree char *folder = store_folder_make();
    g_autofree char *path = journal_path(folder);
    g_autofree char *large = g_strnfill(100000, 'x');
    g_autoptr(LodgeDomainStore) store = NULL;
    g_autoptr(LodgeDomainConfig) config = store_machine("a", 4);
    g_autofree char *summary = NULL;

    TAP_OK(g_file_set_contents(path, large, -1, NULL));
    TAP_EQ(read_verb(folder), LODGE_JOURNAL_IDLE);
    TAP_EQ(unlink(path), 0);
    TAP_EQ(g_mkdir_with_parents(path, 0700), 0);
    store = lodge_domain_store_open(folder, NULL);
    TAP_OK(store && !lodge_domain_store_save(store, config, NULL));
    TAP_EQ(rmdir(path), 0);
    TAP_OK(lodge_domain_store_save(store, config, NULL));
    summary = store_summary(store);
    TAP_STR(summary, "a:4");
    store_folder_remove(folder);
}

/* A rename without the definition that was to take the place: what there is stays. */
static void test_rename_without_new(void)
{
    static const LodgeJournalRecord record = {LODGE_JOURNAL_RENAME, (char *)"web", (char *)"new"};
    g_autofree char *folder = store_folder_make();
    g_autoptr(LodgeDomainStore) store = lodge_domain_store_open(folder, NULL);
    g_autoptr(LodgeDomainConfig) config = store_machine("web", 4);
    g_autofree char *summary = NULL;

    TAP_OK(store && lodge_domain_store_save(store, config, NULL));
    TAP_OK(lodge_domain_store_set_autostart(store, "web", TRUE, NULL));
    g_clear_pointer(&store, lodge_domain_store_close);
    TAP_OK(leave_begun(folder, &record));
    store = lodge_domain_store_open(folder, NULL);
    summary = store_summary(store);
    TAP_STR(summary, "web:4*");
    TAP_EQ(store->decided.verb, LODGE_JOURNAL_IDLE);
    store_folder_remove(folder);
}

/* The journal's write is cut off by an error, and so is the one that takes it back, @failures in all. */
typedef struct {
    guint failures;
} Broken;

static int break_journal(void *context, const LodgeDiskStep *step)
{
    Broken *broken = context;
    gboolean fails = broken->failures > 0 && g_strcmp0(step->name, LODGE_JOURNAL_NAME) == 0 &&
                     (step->op == LODGE_DISK_SYNC ||
                      (step->op == LODGE_DISK_OVERWRITE && ((const char *)step->data)[0] == '\0'));

    broken->failures -= fails;
    return fails ? -EIO : 0;
}

/* Of a delete that failed nothing comes back, whatever has been done since. */
static void test_failed_delete_stays_undone(void)
{
    for (guint failures = 1; failures <= 3; failures++) {
        g_autofree char *folder = store_folder_make();
        Broken broken = {0};
        const LodgeDiskWatch watch = {break_journal, &broken};
        g_autoptr(LodgeDomainStore) store = lodge_domain_store_open_watched(folder, &watch, NULL);
        g_autoptr(LodgeDomainConfig) config = store_machine("web", 4);
        g_autoptr(LodgeDomainConfig) larger = store_machine("web", 8);
        g_autofree char *summary = NULL;

        TAP_OK(store && lodge_domain_store_save(store, config, NULL));
        broken.failures = failures;
        TAP_OK(!lodge_domain_store_delete(store, "web", NULL));
        while (!lodge_domain_store_save(store, larger, NULL)) {
            TAP_OK(broken.failures < failures);
        }
        g_clear_pointer(&store, lodge_domain_store_close);
        store = lodge_domain_store_open(folder, NULL);
        summary = store_summary(store);
        TAP_STR(summary, "web:8");
        store_folder_remove(folder);
    }
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"config.store-journal.begin-and-end", test_begin_and_end},
        {"config.store-journal.damaged", test_damaged},
        {"config.store-journal.elsewhere", test_elsewhere},
        {"config.store-journal.foreign", test_foreign},
        {"config.store-journal.rename-without-new", test_rename_without_new},
        {"config.store-journal.failed-delete-stays-undone", test_failed_delete_stays_undone},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

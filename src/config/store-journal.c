/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The store's journal: see store-journal.h. */
#include "config/store-journal.h"

#include "config/file-name.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* One sector: written as a whole, or not at all, by what disks promise; the sum says which. */
#define RECORD_BYTES 512
#define SUM_DIGITS   16

static const char *const verbs[] = {NULL, "delete", "rename"};

/* "delete STEM - SUM", padded by zeros. */
static void format_record(const LodgeJournalRecord *record, char text[RECORD_BYTES])
{
    g_autofree char *what = g_strdup_printf("%s %s %s", verbs[record->verb], record->stem,
                                            record->to ? record->to : "-");
    g_autofree char *sum = g_compute_checksum_for_string(G_CHECKSUM_SHA256, what, -1);

    memset(text, 0, RECORD_BYTES);
    g_snprintf(text, RECORD_BYTES, "%s %.*s\n", what, SUM_DIGITS, sum);
}

/* No path to elsewhere. */
static gboolean is_stem(const char *text)
{
    g_autofree char *name = lodge_file_name_decode(text);

    return name != NULL;
}

/* IDLE for anything that format_record() has not made. */
static void parse_record(GBytes *data, LodgeJournalRecord *record)
{
    char text[RECORD_BYTES] = {0}, again[RECORD_BYTES];
    gsize length = 0;
    const char *bytes = g_bytes_get_data(data, &length);
    g_auto(GStrv) words = NULL;
    guint verb = LODGE_JOURNAL_DELETE;

    *record = (LodgeJournalRecord){LODGE_JOURNAL_IDLE, NULL, NULL};
    if (length < RECORD_BYTES) {
        return;
    }
    memcpy(text, bytes, RECORD_BYTES - 1);
    words = g_strsplit(text, " ", 4);
    if (g_strv_length(words) != 4) {
        return;
    }
    while (verb < G_N_ELEMENTS(verbs) && strcmp(words[0], verbs[verb]) != 0) {
        verb++;
    }
    if (verb == G_N_ELEMENTS(verbs)) {
        return;
    }
    record->verb = verb;
    record->stem = g_strdup(words[1]);
    record->to = verb == LODGE_JOURNAL_RENAME ? g_strdup(words[2]) : NULL;
    format_record(record, again);
    if (memcmp(text, again, RECORD_BYTES) != 0 || !is_stem(record->stem) ||
        (record->to && !is_stem(record->to))) {
        lodge_journal_record_clear(record);
    }
}

/* Its size never changes again: what is written over it needs no room. */
static int make_file(LodgeDisk *disk)
{
    static const char empty[RECORD_BYTES];
    int result = lodge_disk_write(disk, LODGE_JOURNAL_NAME, empty, sizeof(empty));

    return result ? result : lodge_disk_sync(disk);
}

int lodge_journal_open(LodgeJournal *journal, LodgeDisk *disk, LodgeJournalRecord *record_out)
{
    g_autoptr(GBytes) data = NULL;
    int result = lodge_disk_read(disk, LODGE_JOURNAL_NAME, RECORD_BYTES, &data);

    *journal = (LodgeJournal){disk, -1};
    *record_out = (LodgeJournalRecord){LODGE_JOURNAL_IDLE, NULL, NULL};
    if (result == 0) {
        parse_record(data, record_out);
    }
    /* A crash while it was made leaves a shorter one, and nothing begun; a longer one is not ours. */
    if (result == -ENOENT || result == -EFBIG ||
        (result == 0 && g_bytes_get_size(data) < RECORD_BYTES)) {
        result = make_file(disk);
    }
    if (result == 0) {
        journal->fd = openat(disk->folder, LODGE_JOURNAL_NAME, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
        result = journal->fd < 0 ? -errno : 0;
    }
    return result;
}

void lodge_journal_close(LodgeJournal *journal)
{
    if (journal->fd >= 0) {
        close(journal->fd);
    }
    journal->fd = -1;
}

int lodge_journal_begin(LodgeJournal *journal, const LodgeJournalRecord *record)
{
    char text[RECORD_BYTES];

    format_record(record, text);
    return lodge_disk_overwrite(journal->disk, journal->fd, LODGE_JOURNAL_NAME, text, sizeof(text));
}

int lodge_journal_end(LodgeJournal *journal)
{
    static const char empty[RECORD_BYTES];

    return lodge_disk_overwrite(journal->disk, journal->fd, LODGE_JOURNAL_NAME, empty,
                                sizeof(empty));
}

void lodge_journal_record_clear(LodgeJournalRecord *record)
{
    g_clear_pointer(&record->stem, g_free);
    g_clear_pointer(&record->to, g_free);
    record->verb = LODGE_JOURNAL_IDLE;
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What the store is about to do where that takes more than one step, so that the next start can finish
 * it: one record, written over in place, so that a full disk does not stand in the way of a delete.
 *
 *     idle --begin--> on disk, and so decided --the steps--> --end--> idle
 *
 * A record that is cut off was never on disk whole when begin returned: nothing had been done.
 */
#pragma once

#include "config/disk.h"

typedef enum {
    LODGE_JOURNAL_IDLE,
    LODGE_JOURNAL_DELETE, /* all files of @stem */
    LODGE_JOURNAL_RENAME, /* all files of @stem to @to, of which @to.new is there already */
} LodgeJournalVerb;

typedef struct {
    LodgeJournalVerb verb;
    char *stem, *to; /* encoded names */
} LodgeJournalRecord;

typedef struct {
    LodgeDisk *disk; /* borrowed */
    int fd;          /* -1: there is no file to write to */
} LodgeJournal;

/** Name of the file in the folder. */
#define LODGE_JOURNAL_NAME "journal"

/**
 * Open the file, made if need be, and read what was begun and not ended.
 *
 * @record_out  IDLE, or a record: lodge_journal_record_clear().
 *
 * Returns 0, or a negative errno: *record_out is then IDLE, or what could be read.
 */
int lodge_journal_open(LodgeJournal *journal, LodgeDisk *disk, LodgeJournalRecord *record_out);
void lodge_journal_close(LodgeJournal *journal);

/** Decide: returns 0 when it is on disk, and any crash from now on has the steps done. */
int lodge_journal_begin(LodgeJournal *journal, const LodgeJournalRecord *record);
/** The steps are done and on disk. */
int lodge_journal_end(LodgeJournal *journal);

void lodge_journal_record_clear(LodgeJournalRecord *record);

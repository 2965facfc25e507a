/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Inside of the store, and for tests that watch each of its steps. */
#pragma once

#include "config/disk.h"
#include "config/domain-store.h"
#include "config/store-journal.h"

#define LODGE_STORE_XML       ".xml"
#define LODGE_STORE_OLD       ".old"
#define LODGE_STORE_AUTOSTART ".autostart"
#define LODGE_STORE_NEW       ".new"
#define LODGE_STORE_KEEP      ".keep"

struct _LodgeDomainStore {
    LodgeDisk disk;
    GMutex mutex;
    /* Guarded by mutex. */
    LodgeJournal journal;
    LodgeJournalRecord decided; /* and not done yet */
    gboolean unsure;            /* the journal may hold what was not decided */
};

/** As lodge_domain_store_open(). @watch: copied; NULL: none. */
LodgeDomainStore *lodge_domain_store_open_watched(const char *folder, const LodgeDiskWatch *watch,
                                                  GError **error);

/** @file without @suffix, when a machine's files are called so; else NULL. Free with g_free(). */
char *lodge_store_stem(const char *file, const char *suffix);

/**
 * Set @error: what was tried, @file (NULL: the folder), and what @result, a negative errno of the
 * system, means. Returns FALSE.
 */
gboolean lodge_store_refuse(const LodgeDomainStore *store, GError **error, int result,
                            const char *file, const char *format, ...) G_GNUC_PRINTF(5, 6);

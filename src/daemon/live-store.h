/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What runs, for the daemon after this one: a file a machine in $XDG_RUNTIME_DIR/lodge/live, ID.xml,
 * with the definition that the instance runs by. It is there before the machine can outlive the daemon,
 * and goes after it has ended: a file without a machine means that nothing was made, or nothing is left.
 */
#pragma once

#include "config/domain-config.h"

typedef struct _LodgeLiveStore LodgeLiveStore;

/** Open, and remove what a crash has left unfinished. NULL with LODGE_ERROR_FAILED naming folder and cause. */
LodgeLiveStore *lodge_live_store_open(GError **error);
void lodge_live_store_close(LodgeLiveStore *store);

/** Returns FALSE with LODGE_ERROR_FAILED naming file and cause. */
gboolean lodge_live_store_save(LodgeLiveStore *store, int id, const LodgeDomainConfig *config,
                               GError **error);
void lodge_live_store_remove(LodgeLiveStore *store, int id);

typedef struct {
    int id;
    LodgeDomainConfig *config;
} LodgeLiveRecord;

void lodge_live_record_free(LodgeLiveRecord *record);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(LodgeLiveRecord, lodge_live_record_free)

/**
 * All of them; what cannot be read is told on the log, and left out.
 *
 * @last_id_out  the highest id that a file has, of one left out too: its machine may run.
 *
 * Returns NULL with LODGE_ERROR_FAILED when the folder cannot be listed.
 */
GPtrArray *lodge_live_store_load(LodgeLiveStore *store, int *last_id_out, GError **error);

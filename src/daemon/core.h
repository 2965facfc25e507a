/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A core that machines run on: the process lodge-core, started when there is none, joined when there
 * is. It goes on without us. One whose connection is lost stays lost: who needs a core opens another.
 *
 * Any thread. Counted: instances hold the core that they are of.
 */
#pragma once

#include "common/stat-reader.h"
#include "daemon/console.h"

#include <hv/domain.h>

typedef struct _LodgeCore LodgeCore;

/** Where cores have their sockets: $XDG_RUNTIME_DIR/lodge. Free with g_free(). */
char *lodge_core_folder(void);

/**
 * Join the pool's core, or start it.
 *
 * @memory_bytes  for all its machines, when it is started; 0: as much as the host has, which is also
 *                what it gets for more.
 * @linger_s      how long it stays without machine and daemon, when it is started.
 *
 * Returns NULL with LODGE_ERROR_FAILED, and what lodge-core said of it.
 */
LodgeCore *lodge_core_open(const char *pool, guint64 memory_bytes, guint linger_s, GError **error);
/** Join it if there is one. */
LodgeCore *lodge_core_join(const char *pool, GError **error);
LodgeCore *lodge_core_ref(LodgeCore *core);
/** With the last, the connection ends; machines live on. NULL is accepted. */
void lodge_core_unref(LodgeCore *core);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(LodgeCore, lodge_core_unref)

struct hv_core *lodge_core_get(LodgeCore *core);
gboolean lodge_core_is_lost(LodgeCore *core);

/* What a reader of statistics remembers of a machine, or of a core, from one time to the next. Zeroed to
 * begin with; any threads. */
typedef struct {
    _Atomic LodgeStatPlace place;
    _Atomic guint64 asked_ns; /* when the core was asked last, by CLOCK_MONOTONIC */
} LodgeStatMemory;

/** Have the core write all its statistics into the pages that it shares with us (hv/stat-pages.h): one
 * question for all of its machines. */
void lodge_core_write_stats(LodgeCore *core);

/**
 * A snapshot from those pages, which asks nothing of the core: of the last second, or newer. Where there
 * is none, because the machine is new, or the core has been late for long, the core is asked. No counter
 * is less than it was before.
 *
 * @domain  NULL: the core's own.
 *
 * Returns a list of *@count_out, for g_free().
 */
struct hv_stat *lodge_core_read_stats(LodgeCore *core, struct hv_domain *domain,
                                      LodgeStatMemory *memory, gsize *count_out);
/** The same of this moment: the core is asked. */
struct hv_stat *lodge_core_ask_stats(LodgeCore *core, struct hv_domain *domain,
                                     LodgeStatMemory *memory, gsize *count_out);

/** A machine may have ended, or the connection is lost. Must neither wait nor call back. */
typedef void LodgeCoreNews(gpointer user_data);

/** Hear of a machine from now on. */
void lodge_core_watch(LodgeCore *core, hv_handle handle, LodgeCoreNews *news, gpointer user_data);
/** No more: @news is not running when this returns. */
void lodge_core_unwatch(LodgeCore *core, hv_handle handle);

/** Of a machine that goes on without us, keep the console's ring until the connection has ended. */
void lodge_core_keep_ring(LodgeCore *core, LodgeConsoleRing *ring);

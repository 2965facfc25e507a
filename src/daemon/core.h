/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A core that machines run on, for as long as any of them holds it. Any thread. */
#pragma once

#include <glib.h>

struct hv_core;

typedef struct _LodgeCore LodgeCore;

/**
 * Start one with a worker for each of the host's CPUs.
 *
 * @memory_bytes  for all its machines; rounded up to what a core can have.
 *
 * Returns NULL with LODGE_ERROR_FAILED.
 */
LodgeCore *lodge_core_new(guint64 memory_bytes, GError **error);
LodgeCore *lodge_core_ref(LodgeCore *core);
/** The last one ends it: a thread that may wait for its machines' memory. NULL is accepted. */
void lodge_core_unref(LodgeCore *core);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(LodgeCore, lodge_core_unref)

struct hv_core *lodge_core_get(LodgeCore *core);

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A machine that runs: the core's domain, with what it was made of. Counted, since a watcher, consoles
 * and statistics look at it while others end it; each call does what hv/domain.h says of one that is
 * killed. This and core.h, console.h are all that the daemon knows of the core.
 */
#pragma once

#include "config/domain-config.h"
#include "daemon/boot-images.h"
#include "daemon/console.h"
#include "daemon/core.h"

#include <hv/domain.h>
#include <json-glib/json-glib.h>

typedef struct _LodgeInstance LodgeInstance;

/**
 * Take over a machine that an earlier daemon made, by its name.
 *
 * @config  borrowed for the call: what it runs by.
 *
 * Returns NULL with LODGE_ERROR_GONE when the core has said that it has none of that name that has not
 * ended, or another record's; with LODGE_ERROR_FAILED when that cannot be found out.
 */
LodgeInstance *lodge_instance_adopt(LodgeCore *core, const LodgeDomainConfig *config,
                                    GError **error);

/**
 * Read the images that @config names, make a domain of it, and load it. It is paused, and goes with
 * the daemon until it is kept or runs.
 *
 * @core    a reference is taken.
 * @config  borrowed for the call.
 * @fds     the same.
 *
 * Returns NULL with an error that names the value or the file, and nothing is left.
 */
LodgeInstance *lodge_instance_new(LodgeCore *core, const LodgeDomainConfig *config,
                                  LodgeFdGroups *fds, GError **error);
LodgeInstance *lodge_instance_ref(LodgeInstance *instance);
void lodge_instance_unref(LodgeInstance *instance);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(LodgeInstance, lodge_instance_unref)

/** Each returns FALSE with LODGE_ERROR_FAILED when its state, or its end, forbids it. */
gboolean lodge_instance_resume(LodgeInstance *instance, GError **error);
gboolean lodge_instance_pause(LodgeInstance *instance, GError **error);
gboolean lodge_instance_press_power(LodgeInstance *instance, GError **error);
gboolean lodge_instance_press_nmi(LodgeInstance *instance, GError **error);
/** From now on it outlives the daemon, though it does not run. */
gboolean lodge_instance_keep(LodgeInstance *instance, GError **error);
/** Power it off and on, whatever it does: reset and loaded anew as @config says, paused. */
gboolean lodge_instance_restart(LodgeInstance *instance, const LodgeDomainConfig *config,
                                LodgeFdGroups *fds, GError **error);

/** Kill it; others may still wait for it. Any thread, does not wait. */
void lodge_instance_kill(LodgeInstance *instance);
/** It is being taken apart, and may be for long. */
typedef void LodgeInstanceProgress(gpointer user_data);

/**
 * Kill it, and wait until its memory is back, or its core is lost. Once.
 *
 * @progress  called when it is killed, each second until it is gone, and then; may be NULL.
 */
void lodge_instance_destroy(LodgeInstance *instance, LodgeInstanceProgress *progress,
                            gpointer user_data);
/** How far that is; and how one that has ended crashed. Owned by the caller. */
JsonNode *lodge_instance_teardown_json(LodgeInstance *instance);
JsonNode *lodge_instance_crash_json(LodgeInstance *instance, const char *reason);

void lodge_instance_get_status(LodgeInstance *instance, struct hv_domain_status *status_out);

/** Hear that it may have ended: lodge_instance_get_status() tells. As lodge_core_watch(). */
void lodge_instance_watch(LodgeInstance *instance, LodgeCoreNews *news, gpointer user_data);
void lodge_instance_unwatch(LodgeInstance *instance);
gboolean lodge_instance_is_lost(LodgeInstance *instance);

LodgeConsoleRing *lodge_instance_console(LodgeInstance *instance);
/** Let the guest's console go on. */
void lodge_instance_console_resume(LodgeInstance *instance);
/** Returns how many bytes the guest's serial port took. */
gsize lodge_instance_console_input(LodgeInstance *instance, const guint8 *data, gsize bytes);

/** A snapshot of its statistics, of this moment; free with g_free(). */
struct hv_stat *lodge_instance_get_stats(LodgeInstance *instance, gsize *count_out);
/** The same, as lodge_core_read_stats() finds it. */
struct hv_stat *lodge_instance_read_stats(LodgeInstance *instance, gsize *count_out);
/** The core that it runs on, borrowed. */
LodgeCore *lodge_instance_core(LodgeInstance *instance);
/** The value of that name in a list; 0 when there is none. */
guint64 lodge_stat_find(const struct hv_stat *stats, gsize count, const char *name);
/** One of a new snapshot. */
guint64 lodge_instance_get_stat(LodgeInstance *instance, const char *name);
/** All of them and its core's; all locks of that core. Owned by the caller. */
JsonNode *lodge_instance_stats_json(LodgeInstance *instance);
JsonNode *lodge_instance_locks_json(LodgeInstance *instance);
/** Change its part in the CPUs while it runs. */
gboolean lodge_instance_set_share(LodgeInstance *instance, const LodgeCpuShare *share,
                                  GError **error);

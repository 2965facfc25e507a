/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Definitions of machines on disk: one XML file each, in one folder, and nothing else to be in step
 * with. NAME is the machine's, encoded (file-name.h).
 *
 *     NAME.xml         its definition
 *     NAME.old         the one before it
 *     NAME.autostart   empty: the machine starts with the daemon
 *     NAME.new, .keep  not finished: removed at the next start
 *     journal          what is being deleted or renamed: store-journal.h
 *
 * A definition is written to NAME.new and put in its place by one rename, so that there is the old one
 * or the new one at any time, and a crash in a create leaves either nothing or all. Deletes and renames,
 * of several files, are decided in the journal first. Each function returns when what it did outlives
 * a power cut. When one fails, what was before stands, or the whole of what was asked for: a delete or
 * rename that was decided is finished by the next call, or the next start.
 *
 * Threads may call at the same time. One process has a folder.
 */
#pragma once

#include "config/domain-config.h"

typedef struct _LodgeDomainStore LodgeDomainStore;

/**
 * Open, finish what a crash has left, and keep others out.
 *
 * Returns a store, owned by the caller; NULL with LODGE_ERROR_FAILED naming folder and cause. One that
 * cannot be written to can be opened and loaded.
 */
LodgeDomainStore *lodge_domain_store_open(const char *folder, GError **error);
void lodge_domain_store_close(LodgeDomainStore *store);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(LodgeDomainStore, lodge_domain_store_close)

/** $XDG_CONFIG_HOME/lodge/machines. Free with g_free(). */
char *lodge_domain_store_default_folder(void);

typedef struct {
    LodgeDomainConfig *config;
    gboolean autostart;
} LodgeStoredDomain;

/* A file that is no machine, or not one that can be used. It stays as it is. */
typedef struct {
    char *path;
    char *name;    /* of the machine, when the file's name tells; else NULL */
    GError *error; /* why, with the path */
} LodgeStoreProblem;

/**
 * Read all definitions. One that is damaged, cannot be read, has the UUID of one before it, or stands
 * under a name that is not its own is a problem; so is a file that is none of ours.
 *
 * @domains_out   of LodgeStoredDomain, in the order of file names; owned by the caller.
 * @problems_out  of LodgeStoreProblem; owned by the caller.
 *
 * Returns FALSE with LODGE_ERROR_FAILED when the folder cannot be listed.
 */
gboolean lodge_domain_store_load(LodgeDomainStore *store, GPtrArray **domains_out,
                                 GPtrArray **problems_out, GError **error);

/**
 * Create, or replace the definition of that name and keep it as the one before.
 *
 * Returns FALSE with LODGE_ERROR_INPUT for a definition that could not be read again: its fields do
 * not pass lodge_domain_config_check(), or its text is over a bound of xml-read.h; LODGE_ERROR_FAILED
 * naming file and cause.
 */
gboolean lodge_domain_store_save(LodgeDomainStore *store, const LodgeDomainConfig *config,
                                 GError **error);

/**
 * Whether a machine of that name, which there is none of, would write over nothing: a file that could not
 * be loaded is not absent.
 *
 * Returns FALSE with LODGE_ERROR_INPUT naming the file.
 */
gboolean lodge_domain_store_check_free(LodgeDomainStore *store, const char *name, GError **error);

/**
 * Give the machine @old_name the definition @config, which has another name.
 *
 * Returns FALSE with LODGE_ERROR_INPUT when there is no such machine, or one of the new name.
 */
gboolean lodge_domain_store_rename(LodgeDomainStore *store, const char *old_name,
                                   const LodgeDomainConfig *config, GError **error);

/** All files of the machine, also of one that is damaged. TRUE when there is none. */
gboolean lodge_domain_store_delete(LodgeDomainStore *store, const char *name, GError **error);

/** Returns FALSE with LODGE_ERROR_INPUT when there is no such machine. */
gboolean lodge_domain_store_set_autostart(LodgeDomainStore *store, const char *name, gboolean on,
                                          GError **error);

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Folders of machines for tests, and what is in them as one line of text. */
#pragma once

#include "config/store-private.h"

/** An empty folder of its own: store_folder_remove(), and g_free(). */
char *store_folder_make(void);
void store_folder_remove(const char *folder);
/** Write a file of it, as it is. */
gboolean store_folder_write(const char *folder, const char *file, const char *text);

/** A machine of that name and memory, with a UUID of its own; g_free() by lodge_domain_config_free(). */
LodgeDomainConfig *store_machine(const char *name, guint mib);

/**
 * All that the store loads: "a:4 b:8*", name and MiB, and a star for autostart; then "!" and the file of
 * each problem. Free with g_free().
 */
char *store_summary(LodgeDomainStore *store);

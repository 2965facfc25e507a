/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A sequence of changes of a store, with what it holds after each: for tests that break off in the
 * middle.
 */
#pragma once

#include "store-tools.h"

/** How many changes there are. */
#define STORE_SCRIPT_CHANGES 10u

/** Do change number @index. Returns FALSE with @error. */
gboolean store_script_do(LodgeDomainStore *store, guint index, GError **error);

/** What is no definition, companion of one, or journal: half made. NULL, or a sentence: g_free(). */
char *store_script_find_leftover(LodgeDomainStore *store);

/**
 * Is the store as after @done changes, or as after one more? Nothing else lies in its folder, what was
 * before a definition is kept, and all can be deleted.
 *
 * @next  FALSE: only as after @done changes.
 *
 * Returns NULL, or what is wrong: g_free().
 */
char *store_script_check(const char *folder, guint done, gboolean next);

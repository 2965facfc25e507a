/* SPDX-License-Identifier: GPL-3.0-or-later */
/* All locks as a table for people: what was waited for longest comes first. */
#pragma once

#include <hv/domain.h>

#include <glib.h>

/** The locks of the core and its machines that were taken at all. Free with g_free(). */
char *lodge_stats_to_lock_table(struct hv_core *core);

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Sets of host CPUs as libvirt writes them: "0-3,^2,7". */
#pragma once

#include <glib.h>

#define LODGE_CPU_SET_CPUS 256u /* as many workers as a core may have */

/* CPU n is bit n % 64 of word[n / 64]. */
typedef struct {
    guint64 word[LODGE_CPU_SET_CPUS / 64];
} LodgeCpuSet;

/**
 * Parse a list of numbers, of ranges, and of numbers taken away by "^".
 *
 * Returns FALSE with LODGE_ERROR_INPUT naming @text when it is no such list, names a CPU beyond
 * 255, or leaves none.
 */
gboolean lodge_cpu_set_parse(const char *text, LodgeCpuSet *set_out, GError **error);

/** The shortest such list; "" for none. Free with g_free(). */
char *lodge_cpu_set_format(const LodgeCpuSet *set);

gboolean lodge_cpu_set_has(const LodgeCpuSet *set, guint cpu);
gboolean lodge_cpu_set_is_empty(const LodgeCpuSet *set);
/** Add all of @other. */
void lodge_cpu_set_unite(LodgeCpuSet *set, const LodgeCpuSet *other);

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Sets of host CPUs: see cpu-set.h. */
#include "config/cpu-set.h"

#include "common/i18n.h"
#include "common/lodge-error.h"
#include "config/text.h"

#include <string.h>

gboolean lodge_cpu_set_has(const LodgeCpuSet *set, guint cpu)
{
    return cpu < LODGE_CPU_SET_CPUS && (set->word[cpu / 64] >> cpu % 64 & 1);
}

gboolean lodge_cpu_set_is_empty(const LodgeCpuSet *set)
{
    static const LodgeCpuSet none;

    return memcmp(set, &none, sizeof(none)) == 0;
}

void lodge_cpu_set_unite(LodgeCpuSet *set, const LodgeCpuSet *other)
{
    for (guint i = 0; i < G_N_ELEMENTS(set->word); i++) {
        set->word[i] |= other->word[i];
    }
}

static void put(LodgeCpuSet *set, guint cpu, gboolean in)
{
    guint64 bit = G_GUINT64_CONSTANT(1) << cpu % 64;

    if (in) {
        set->word[cpu / 64] |= bit;
    } else {
        set->word[cpu / 64] &= ~bit;
    }
}

static gboolean take_cpu(const char *text, guint *cpu_out)
{
    guint64 cpu = 0;

    if (!g_ascii_string_to_unsigned(text, 10, 0, LODGE_CPU_SET_CPUS - 1, &cpu, NULL)) {
        return FALSE;
    }
    *cpu_out = (guint)cpu;
    return TRUE;
}

/* "5", "2-4" or "^3". */
static gboolean take_part(LodgeCpuSet *set, char *part)
{
    gboolean in = part[0] != '^';
    char *dash = in ? strchr(part, '-') : NULL;
    guint first = 0, last = 0;

    if (dash) {
        *dash = '\0';
    }
    if (!take_cpu(in ? part : part + 1, &first) ||
        !take_cpu(dash ? dash + 1
                  : in ? part
                       : part + 1,
                  &last) ||
        last < first) {
        return FALSE;
    }
    for (guint cpu = first; cpu <= last; cpu++) {
        put(set, cpu, in);
    }
    return TRUE;
}

gboolean lodge_cpu_set_parse(const char *text, LodgeCpuSet *set_out, GError **error)
{
    g_auto(GStrv) parts = g_strsplit(text, ",", -1);
    LodgeCpuSet set = {0};
    gboolean good = TRUE;

    for (guint i = 0; parts[i] && good; i++) {
        good = take_part(&set, g_strstrip(parts[i]));
    }
    if (!good || lodge_cpu_set_is_empty(&set)) {
        g_autofree char *quoted = lodge_text_quote(text);

        return lodge_error_refuse(
            error,
            _("%s is no set of CPUs: write at least one of the numbers 0 to 255, as "
              "“0-3,^2,7”"),
            quoted);
    }
    *set_out = set;
    return TRUE;
}

char *lodge_cpu_set_format(const LodgeCpuSet *set)
{
    GString *text = g_string_new(NULL);

    for (guint cpu = 0; cpu < LODGE_CPU_SET_CPUS; cpu++) {
        guint last = cpu;

        if (!lodge_cpu_set_has(set, cpu)) {
            continue;
        }
        while (lodge_cpu_set_has(set, last + 1)) {
            last++;
        }
        g_string_append_printf(text, text->len ? ",%u" : "%u", cpu);
        if (last > cpu) {
            g_string_append_printf(text, "-%u", last);
        }
        cpu = last;
    }
    return g_string_free(text, FALSE);
}

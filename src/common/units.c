/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Sizes as people write them. */
#include "common/units.h"

#include "common/i18n.h"
#include "common/lodge-error.h"

#include <string.h>

static guint unit_shift(const char *suffix)
{
    static const struct {
        const char *suffix;
        guint shift;
    } units[] = {{"", 20}, {"K", 10}, {"k", 10}, {"M", 20}, {"m", 20}, {"G", 30}, {"g", 30}};

    for (gsize i = 0; i < G_N_ELEMENTS(units); i++) {
        if (strcmp(suffix, units[i].suffix) == 0) {
            return units[i].shift;
        }
    }
    return 0;
}

gboolean lodge_parse_memory(const char *text, guint64 *bytes_out, GError **error)
{
    char *end = NULL;
    guint64 number;
    guint shift;

    number = g_ascii_isdigit(text[0]) ? g_ascii_strtoull(text, &end, 10) : 0;
    shift = end ? unit_shift(end) : 0;
    if (shift == 0) {
        g_set_error(error, LODGE_ERROR, LODGE_ERROR_INPUT,
                    _("“%s” is not a memory size: write a number with K, M or G, such as 512M"),
                    text);
        return FALSE;
    }
    if (number > G_MAXUINT64 >> shift) {
        g_set_error(error, LODGE_ERROR, LODGE_ERROR_INPUT, _("Memory size “%s” is out of range"),
                    text);
        return FALSE;
    }
    *bytes_out = number << shift;
    return TRUE;
}

char *lodge_format_bytes(guint64 bytes)
{
    static const struct {
        guint shift;
        const char *unit;
    } units[] = {{30, "GiB"}, {20, "MiB"}, {10, "KiB"}};

    for (gsize i = 0; i < G_N_ELEMENTS(units); i++) {
        if (bytes != 0 && (bytes & ((G_GUINT64_CONSTANT(1) << units[i].shift) - 1)) == 0) {
            return g_strdup_printf("%" G_GUINT64_FORMAT " %s", bytes >> units[i].shift,
                                   units[i].unit);
        }
    }
    return g_strdup_printf("%" G_GUINT64_FORMAT " bytes", bytes);
}

/* @value in the largest of @units in which it is 1 or more, each @step times the one before. */
static char *format_rough(double value, double step, const char *const *units, gsize count)
{
    gsize unit = 0;

    while (value >= step && unit + 1 < count) {
        value /= step;
        unit++;
    }
    return g_strdup_printf("%.*f%s",
                           unit == 0 || value >= 100 ? 0
                           : value >= 10             ? 1
                                                     : 2,
                           value, units[unit]);
}

char *lodge_format_rough_bytes(guint64 bytes)
{
    static const char *const units[] = {" B", " KiB", " MiB", " GiB", " TiB"};

    return format_rough((double)bytes, 1024, units, G_N_ELEMENTS(units));
}

char *lodge_format_span(guint64 ns)
{
    static const char *const units[] = {"ns", "µs", "ms", "s"};

    return format_rough((double)ns, 1000, units, G_N_ELEMENTS(units));
}

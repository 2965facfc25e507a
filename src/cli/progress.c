/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One line, drawn again and again. */
#include "cli/progress.h"

#include "common/i18n.h"
#include "config/text.h"

#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define BAR_CELLS    24u
#define COLUMNS_LESS 80u /* where the terminal does not know */

void lodge_progress_init(LodgeProgress *progress)
{
    progress->present = isatty(STDERR_FILENO) != 0;
    progress->drawn = FALSE;
}

static guint columns(void)
{
    struct winsize size = {0};

    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col
                                                                           : COLUMNS_LESS;
}

void lodge_progress_draw(LodgeProgress *progress, guint done, guint all, const char *doing,
                         const char *label)
{
    g_autofree char *shown = lodge_text_show(label ? label : "", 64);
    g_autoptr(GString) line = g_string_new(NULL);
    guint full = all ? done * BAR_CELLS / all : BAR_CELLS;
    g_autofree char *cut = NULL;

    if (!progress->present) {
        return;
    }
    g_string_append_printf(line, "%s [", doing);
    for (guint i = 0; i < BAR_CELLS; i++) {
        g_string_append_c(line, i < full ? '#' : '.');
    }
    g_string_append_printf(line, _("] %u of %u  %s"), done, all, shown);
    /* A line that wraps could not be drawn over. Half the width is enough for wide characters. */
    cut = g_utf8_substring(line->str, 0, MIN(columns() - 1, (guint)g_utf8_strlen(line->str, -1)));
    g_printerr("\r\033[K%s", cut);
    progress->drawn = TRUE;
}

void lodge_progress_clear(LodgeProgress *progress)
{
    if (progress->drawn) {
        g_printerr("\r\033[K");
        progress->drawn = FALSE;
    }
}

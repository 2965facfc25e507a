/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Looks by a timer, and what is between: keys and signals. */
#include "cli/live.h"

#include "cli/signals.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "common/i18n.h"
#include "common/thread.h"

#include <glib-unix.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define CTRL_C      3
#define CTRL_D      4
#define ROWS_LESS   24u /* where the terminal does not know */

/* Another screen, no cursor, no wrapped lines; and back. */
#define SCREEN_TAKE "\033[?1049h\033[?25l\033[?7l"
#define SCREEN_GIVE "\033[?7h\033[?25h\033[?1049l"
#define SCREEN_HOME "\033[H"
#define LINE_REST   "\033[K"
#define SCREEN_REST "\033[J"

typedef struct {
    LodgeVerbOptions options;
    virConnectPtr connection;
    LodgeLiveLook *look;
    gpointer user_data;
    GMainLoop *loop;
    guint left; /* looks until the one that is printed */
    gboolean live;
    int status;
    GError *error;
} Live;

static void end(Live *live, int status)
{
    live->status = status;
    g_main_loop_quit(live->loop);
}

static guint rows(void)
{
    struct winsize size = {0};

    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row
                                                                           : ROWS_LESS;
}

static void draw(const LodgeTable *table)
{
    guint room = rows();
    /* The title and "… and 3 more" take a line each, and the last line is left free. */
    g_autofree char *text = lodge_table_to_text(table, room > 4 ? room - 3 : 1);
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    g_autofree char *screen = g_strjoinv(LINE_REST "\n", lines);

    g_print("%s%s%s", SCREEN_HOME, screen, SCREEN_REST);
    fflush(stdout);
}

static void look_now(Live *live)
{
    g_autoptr(LodgeTable) table =
        live->look(live->connection, live->options.parameters, live->user_data, &live->error);
    g_autofree char *text = NULL;

    if (!table) {
        end(live, LODGE_EXIT_FAILED);
        return;
    }
    if (live->live) {
        draw(table);
        if (ferror(stdout)) {
            end(live, LODGE_EXIT_FAILED);
        }
        return;
    }
    if (live->left > 0 && --live->left > 0) {
        return;
    }
    text = live->options.json ? lodge_table_to_json(table) : lodge_table_to_text(table, 0);
    g_print("%s", text);
    end(live, LODGE_EXIT_OK);
}

static gboolean on_time(gpointer data)
{
    look_now(data);
    return G_SOURCE_CONTINUE;
}

static gboolean on_start(gpointer data)
{
    look_now(data);
    return G_SOURCE_REMOVE;
}

static gboolean on_key(gint fd, GIOCondition condition, gpointer data)
{
    Live *live = data;
    char key;

    (void)condition;
    if (read(fd, &key, 1) != 1 || key == 'q' || key == CTRL_C || key == CTRL_D) {
        end(live, LODGE_EXIT_OK);
    } else if (key == ' ') {
        look_now(live);
    }
    return G_SOURCE_CONTINUE;
}

static void on_signal(int number, gpointer data)
{
    end(data, LODGE_EXIT_SIGNAL + number);
}

/* Until somebody ends it. */
static void stay(Live *live)
{
    LodgeTerminal terminal = {0};
    LodgeSignals signals = {0};
    guint keys = 0, time;

    lodge_signals_watch(&signals, on_signal, live);
    if (live->live) {
        lodge_terminal_open(&terminal);
        g_print(SCREEN_TAKE);
        keys = g_unix_fd_add(STDIN_FILENO, G_IO_IN | G_IO_HUP, on_key, live);
    }
    g_idle_add(on_start, live);
    time = g_timeout_add((guint)(live->options.interval_s * 1000), on_time, live);
    g_main_loop_run(live->loop);
    g_source_remove(time);
    if (live->live) {
        g_source_remove(keys);
        g_print(SCREEN_GIVE);
        fflush(stdout);
        lodge_terminal_close(&terminal);
    }
    lodge_signals_forget(&signals);
}

int lodge_live_run(const LodgeVerbHelp *help, guint looks, LodgeLiveLook *look, gpointer user_data,
                   int argc, char **argv)
{
    g_autoptr(GMainLoop) loop = g_main_loop_new(NULL, FALSE);
    g_autoptr(virConnect) connection = NULL;
    Live live = {.look = look, .user_data = user_data, .loop = loop, .left = looks};

    if (lodge_verb_options_parse(&live.options, help,
                                 LODGE_VERB_OPTION_JSON | LODGE_VERB_OPTION_LIVE, NULL, argc, argv,
                                 &live.error)) {
        connection =
            lodge_connection_open(live.options.connect, LODGE_CONNECTION_EVENTS, &live.error);
    }
    if (connection && lodge_thread_reserve(&live.error)) {
        live.connection = connection;
        live.live = isatty(STDOUT_FILENO) && isatty(STDIN_FILENO) && !live.options.once &&
                    !live.options.json;
        stay(&live);
    }
    lodge_verb_options_clear(&live.options);
    if (live.error) {
        live.status = lodge_verb_fail(live.error);
        g_clear_error(&live.error);
    }
    return live.status;
}

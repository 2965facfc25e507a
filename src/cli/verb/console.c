/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * `lodgectl console`: this terminal at a machine's serial port.
 *
 *     open --stream ends, or fails--> ended
 *        \--Ctrl-A X, signal-------> left: the machine runs on
 *
 * The stream is read only while the console takes what it brings: a terminal that stands still holds
 * back the daemon, not this process's memory.
 */
#include "cli/verb.h"

#include "cli/console.h"
#include "cli/machines.h"
#include "cli/signals.h"
#include "cli/verb-options.h"
#include "common/i18n.h"
#include "common/lodge-error.h"
#include "common/thread.h"
#include "config/text.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#define CHUNK_BYTES 4096u

typedef struct {
    virStreamPtr stream;
    LodgeConsole *console;
    GMainLoop *loop;
    int status;
    GError *error;
    gboolean finished; /* the other end has ended the stream */
    /* Read, and not taken by the console yet. */
    guint8 chunk[CHUNK_BYTES];
    gsize start, end;
    gboolean reading; /* asked to be told when there is more */
} Session;

G_DEFINE_AUTOPTR_CLEANUP_FUNC(virStream, virStreamFree)

static void leave(Session *session, int status)
{
    session->status = status;
    g_main_loop_quit(session->loop);
}

static void fail(Session *session)
{
    if (!session->error) {
        lodge_connection_set_error(&session->error, _("The console has broken"));
    }
    leave(session, LODGE_EXIT_FAILED);
}

/* Room for what is kept, or for more: TRUE. */
static gboolean pass_on(Session *session)
{
    session->start += lodge_console_write(session->console, session->chunk + session->start,
                                          session->end - session->start);
    return session->start == session->end;
}

/* Be told of what comes only when it could be taken. */
static void set_reading(Session *session, gboolean reading)
{
    session->reading = reading;
    if (virStreamEventUpdateCallback(session->stream,
                                     (reading ? (int)VIR_STREAM_EVENT_READABLE : 0) |
                                         VIR_STREAM_EVENT_ERROR | VIR_STREAM_EVENT_HANGUP) < 0) {
        fail(session);
    }
}

static void read_stream(Session *session)
{
    int got = virStreamRecv(session->stream, (char *)session->chunk, sizeof(session->chunk));

    if (got == -2) {
        return; /* nothing yet */
    }
    if (got < 0) {
        fail(session);
        return;
    }
    if (got == 0) {
        session->finished = TRUE;
        leave(session, LODGE_EXIT_OK);
        return;
    }
    if (lodge_console_is_broken(session->console)) {
        /* Nobody reads us any more: the machine has others, or its daemon's buffer. */
        g_set_error(&session->error, LODGE_ERROR, LODGE_ERROR_FAILED,
                    _("Cannot write the console's output: %s"),
                    g_strerror(lodge_console_flush(session->console)));
        leave(session, LODGE_EXIT_FAILED);
        return;
    }
    session->start = 0;
    session->end = (gsize)got;
    if (!pass_on(session)) {
        set_reading(session, FALSE);
    }
}

static void on_stream(virStreamPtr stream, int events, void *data)
{
    Session *session = data;

    (void)stream;
    if (events & VIR_STREAM_EVENT_READABLE) {
        read_stream(session);
    } else if (events & (VIR_STREAM_EVENT_ERROR | VIR_STREAM_EVENT_HANGUP)) {
        /* What is still to be read comes first, and after it the cause. */
        read_stream(session);
        if (!session->error && !session->finished) {
            session->finished = (events & VIR_STREAM_EVENT_ERROR) == 0;
            leave(session, session->finished ? LODGE_EXIT_OK : LODGE_EXIT_FAILED);
        }
    }
}

/* The library tells streams nothing of it. */
static void on_close(virConnectPtr connection, int reason, void *data)
{
    Session *session = data;

    (void)connection;
    (void)reason;
    if (!session->error) {
        g_set_error(&session->error, LODGE_ERROR, LODGE_ERROR_FAILED,
                    _("The daemon has gone, or does not answer; “lodgectl doctor” tells more"));
    }
    leave(session, LODGE_EXIT_FAILED);
}

/* The machine's side of the console. */

static gsize type_at_stream(gpointer data, const guint8 *bytes, gsize count)
{
    Session *session = data;
    int sent = virStreamSend(session->stream, (const char *)bytes, MIN(count, CHUNK_BYTES));

    if (sent == -1) {
        fail(session);
    }
    return sent > 0 ? (gsize)sent : 0;
}

static gboolean on_room(gpointer data)
{
    Session *session = data;

    if (!session->reading && pass_on(session)) {
        set_reading(session, TRUE);
    }
    return G_SOURCE_REMOVE;
}

/* On the console's own thread. */
static void go_on_reading(gpointer data)
{
    g_idle_add(on_room, data);
}

static const LodgeConsoleMachine stream_at_console = {
    .input = type_at_stream,
    .writable = go_on_reading,
};

static void on_leave(gpointer data)
{
    Session *session = data;

    if (isatty(STDOUT_FILENO)) {
        /* The shell's prompt does not come behind the guest's. */
        lodge_console_write(session->console, (const guint8 *)"\r\n", 2);
    }
    leave(session, LODGE_EXIT_OK);
}

static void on_signal(int number, gpointer data)
{
    leave(data, LODGE_EXIT_SIGNAL + number);
}

static gboolean open_stream(Session *session, const LodgeMachine *machine, gboolean force,
                            GError **error)
{
    g_autofree char *quoted = lodge_text_quote(machine->name);

    if (!machine->active) {
        return lodge_error_refuse(error, _("The machine %s is shut off: “lodgectl start” first"),
                                  quoted);
    }
    if (virDomainOpenConsole(machine->domain, NULL, session->stream,
                             force ? VIR_DOMAIN_CONSOLE_FORCE : VIR_DOMAIN_CONSOLE_SAFE) < 0) {
        return lodge_connection_set_error(error, _("Cannot open the console of %s"), quoted);
    }
    session->reading = TRUE;
    if (virStreamEventAddCallback(session->stream,
                                  VIR_STREAM_EVENT_READABLE | VIR_STREAM_EVENT_ERROR |
                                      VIR_STREAM_EVENT_HANGUP,
                                  on_stream, session, NULL) < 0) {
        return lodge_connection_set_error(error, _("Cannot hear the console of %s"), quoted);
    }
    return TRUE;
}

static void close_stream(Session *session)
{
    virStreamEventRemoveCallback(session->stream);
    if (session->finished) {
        virStreamFinish(session->stream);
    } else {
        virStreamAbort(session->stream);
    }
    while (g_idle_remove_by_data(session)) {
    }
}

static int talk(Session *session, virConnectPtr connection, const LodgeMachine *machine,
                gboolean force)
{
    LodgeSignals signals = {0};
    g_autofree char *name = lodge_text_show(machine->name, 64);
    /* Drivers in this process do not go, and have no such thing. */
    gboolean watched = virConnectRegisterCloseCallback(connection, on_close, session, NULL) == 0;

    lodge_signals_watch(&signals, on_signal, session);
    /* The terminal becomes raw only when there is something to talk to. */
    if (open_stream(session, machine, force, &session->error)) {
        if (isatty(STDIN_FILENO)) {
            g_printerr(_("Console of %s; Ctrl-A X leaves it, Ctrl-A H helps\n"), name);
        } else if (isatty(STDERR_FILENO)) {
            g_printerr(_("Console of %s until the machine ends; Ctrl-C leaves it\n"), name);
        }
        session->console = lodge_console_new(
            STDOUT_FILENO, TRUE, N_("Ctrl-A X  leave the console (the machine runs on)"), on_leave,
            session, &session->error);
        if (session->console) {
            lodge_console_attach(session->console, &stream_at_console, session);
            g_main_loop_run(session->loop);
            lodge_console_attach(session->console, NULL, NULL);
            lodge_console_free(session->console);
        }
        close_stream(session);
    }
    if (watched) {
        virConnectUnregisterCloseCallback(connection, on_close);
    }
    lodge_signals_forget(&signals);
    return session->error ? lodge_verb_fail(session->error) : session->status;
}

int lodge_verb_console(int argc, char **argv)
{
    static const LodgeVerbHelp help = {
        .verb = "console",
        .parameters = N_("NAME"),
        .summary = N_("Connects this terminal to a machine's serial console. Ctrl-A X leaves it, "
                      "Ctrl-A H helps."),
        .description =
            N_("Without a terminal it sends what its input holds, and shows what the machine says "
               "until that ends.\nExit status: 0 when the machine or the person has ended it, 1 "
               "when it broke, "
               "128+N after signal N."),
        .min = 1,
        .max = 1,
    };
    gboolean force = FALSE;
    const GOptionEntry own[] = {
        {"force", 0, 0, G_OPTION_ARG_NONE, &force, N_("take it from who has it"), NULL},
        {NULL},
    };
    g_auto(LodgeVerbOptions) options = {0};
    g_autoptr(virConnect) connection = NULL;
    g_autoptr(GPtrArray) machines = NULL;
    g_autoptr(virStream) stream = NULL;
    g_autoptr(GMainLoop) loop = NULL;
    g_autoptr(GError) error = NULL;
    LodgeMachine *machine = NULL;
    Session session = {0};
    int status;

    signal(SIGPIPE, SIG_IGN);
    if (lodge_verb_options_parse(&options, &help, 0, own, argc, argv, &error)) {
        machines =
            lodge_machines_open(options.connect, LODGE_CONNECTION_EVENTS, &connection, &error);
    }
    if (machines) {
        machine = lodge_machines_find(machines, options.parameters[0], &error);
    }
    if (!machine || !lodge_thread_reserve(&error)) {
        return lodge_verb_fail(error);
    }
    session.stream = stream = virStreamNew(connection, VIR_STREAM_NONBLOCK);
    if (!stream) {
        lodge_connection_set_error(&error, _("Cannot make a stream"));
        return lodge_verb_fail(error);
    }
    loop = g_main_loop_new(NULL, FALSE);
    session.loop = loop;
    status = talk(&session, connection, machine, force);
    g_clear_error(&session.error);
    return status;
}

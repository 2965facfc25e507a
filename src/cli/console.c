/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A machine's serial console. */
#include "cli/console.h"

#include "cli/terminal.h"
#include "common/i18n.h"
#include "common/thread.h"

#include <errno.h>
#include <glib-unix.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#define RING_BYTES     65536u
#define FLUSH_LIMIT_US G_USEC_PER_SEC
#define CTRL_A         1
#define INPUT_MOST     65536u
#define INPUT_RETRY_MS 10

struct _LodgeConsole {
    int fd;
    GThread *writer;
    GMutex mutex;
    GCond changed;
    /* Guarded by mutex. */
    guint8 ring[RING_BYTES];
    guint64 written, drained; /* totals; the ring holds the difference */
    gboolean refused;         /* the machine was told "less than all" and waits to be called */
    gboolean closing, broken;
    int broken_by;    /* errno */
    gboolean calling; /* the writer is inside ops->writable() */
    const LodgeConsoleMachine *ops;
    gpointer machine; /* NULL: none */
    /* Main thread only. */
    guint source, retry;
    gboolean escaped, ended;
    GByteArray *input; /* read, but not taken by the machine yet */
    gint64 flush_limit_us;
    LodgeTerminal terminal;
    const char *leaving;
    LodgeConsoleLeave *leave;
    gpointer user_data;
};

gsize lodge_console_write(LodgeConsole *console, const guint8 *data, gsize bytes)
{
    gsize taken;

    g_mutex_lock(&console->mutex);
    taken = MIN(bytes, RING_BYTES - (gsize)(console->written - console->drained));
    if (console->broken) {
        /* Nobody will ever read it: the guest must not stall. */
        taken = bytes;
    } else {
        for (gsize i = 0; i < taken; i++) {
            console->ring[(console->written + i) % RING_BYTES] = data[i];
        }
        console->written += taken;
        console->refused = taken < bytes;
        g_cond_broadcast(&console->changed);
    }
    g_mutex_unlock(&console->mutex);
    return taken;
}

/* Write some of [data, data + bytes); or a negative errno when the other end refuses. */
static gssize write_some(int fd, const guint8 *data, gsize bytes)
{
    for (;;) {
        ssize_t wrote = write(fd, data, bytes);

        if (wrote > 0) {
            return wrote;
        }
        if (wrote < 0 && errno == EAGAIN) {
            struct pollfd ready = {.fd = fd, .events = POLLOUT};

            poll(&ready, 1, -1);
        } else if (wrote < 0 && errno != EINTR) {
            return -errno;
        }
    }
}

static void drained_locked(LodgeConsole *console, gssize bytes)
{
    if (bytes < 0) {
        console->broken = TRUE;
        console->broken_by = (int)-bytes;
        console->drained = console->written;
    } else {
        console->drained += (gsize)bytes;
    }
    g_cond_broadcast(&console->changed);
    if (console->refused && console->machine) {
        const LodgeConsoleMachine *ops = console->ops;
        gpointer machine = console->machine;

        console->refused = FALSE;
        console->calling = TRUE;
        /* It calls back into lodge_console_write(), so not under the mutex; attach() waits for us. */
        g_mutex_unlock(&console->mutex);
        ops->writable(machine);
        g_mutex_lock(&console->mutex);
        console->calling = FALSE;
        g_cond_broadcast(&console->changed);
    }
}

static gpointer drain(gpointer data)
{
    LodgeConsole *console = data;

    g_mutex_lock(&console->mutex);
    while (!console->broken) {
        guint64 start = console->drained;
        gsize bytes = (gsize)MIN(console->written - start, RING_BYTES - start % RING_BYTES);
        gssize wrote;

        if (bytes == 0 && console->closing) {
            break;
        }
        if (bytes == 0) {
            g_cond_wait(&console->changed, &console->mutex);
            continue;
        }
        g_mutex_unlock(&console->mutex);
        /* Only this thread moves `drained`, so these bytes stay as they are. */
        wrote = write_some(console->fd, console->ring + start % RING_BYTES, bytes);
        g_mutex_lock(&console->mutex);
        drained_locked(console, wrote);
    }
    g_mutex_unlock(&console->mutex);
    return NULL;
}

static void print_keys(LodgeConsole *console)
{
    g_autofree char *text = g_strdup_printf("\r\n%s\r\n%s", _(console->leaving),
                                            _("Ctrl-A H  this help\r\n"
                                              "Ctrl-A Ctrl-A  send Ctrl-A\r\n"));

    lodge_console_write(console, (const guint8 *)text, strlen(text));
}

static gboolean on_input(gint fd, GIOCondition condition, gpointer data);

static void poll_input(LodgeConsole *console)
{
    console->source = g_unix_fd_add(STDIN_FILENO, G_IO_IN | G_IO_HUP, on_input, console);
}

/* Give the machine what it takes. TRUE when that is all. */
static gboolean pass_on(LodgeConsole *console)
{
    if (console->machine && console->input->len > 0) {
        gsize taken =
            console->ops->input(console->machine, console->input->data, console->input->len);

        g_byte_array_remove_range(console->input, 0, (guint)taken);
    }
    return console->input->len == 0;
}

/* Again after a while: nobody tells when the machine has read. */
static gboolean on_retry(gpointer data)
{
    LodgeConsole *console = data;

    if (!pass_on(console)) {
        return G_SOURCE_CONTINUE;
    }
    console->retry = 0;
    if (!console->source && !console->ended) {
        poll_input(console);
    }
    return G_SOURCE_REMOVE;
}

/* Keep what is for the guest; act on what follows a Ctrl-A. */
static void filter_input(LodgeConsole *console, const guint8 *data, gsize bytes)
{
    for (gsize i = 0; i < bytes; i++) {
        guint8 key = data[i];

        if (!console->escaped && key == CTRL_A) {
            console->escaped = TRUE;
            continue;
        }
        if (console->escaped && (key == 'x' || key == 'X')) {
            console->escaped = FALSE;
            if (console->leave) {
                console->leave(console->user_data);
            }
            return;
        }
        if (console->escaped && (key == 'h' || key == 'H' || key == '?')) {
            console->escaped = FALSE;
            print_keys(console);
            continue;
        }
        console->escaped = FALSE;
        if (console->input->len < INPUT_MOST) {
            g_byte_array_append(console->input, &key, 1);
        }
    }
}

/*
 * What the machine does not take is kept and offered again. A file or a pipe is not read meanwhile; a
 * terminal is, and what is typed beyond the limit lost, so that Ctrl-A X is always heard.
 */
static gboolean on_input(gint fd, GIOCondition condition, gpointer data)
{
    LodgeConsole *console = data;
    guint8 buffer[256];
    ssize_t got;

    (void)condition;
    lodge_terminal_retake(&console->terminal);
    got = read(fd, buffer, sizeof(buffer));
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) {
        return G_SOURCE_CONTINUE;
    }
    if (got > 0) {
        filter_input(console, buffer, (gsize)got);
        if (pass_on(console)) {
            return G_SOURCE_CONTINUE;
        }
        if (!console->retry) {
            console->retry = g_timeout_add(INPUT_RETRY_MS, on_retry, console);
        }
        if (console->terminal.present) {
            return G_SOURCE_CONTINUE;
        }
    } else {
        /* End of input: the machine goes on without it. */
        console->ended = TRUE;
    }
    console->source = 0;
    return G_SOURCE_REMOVE;
}

LodgeConsole *lodge_console_new(int fd, gboolean input, const char *leaving,
                                LodgeConsoleLeave *leave, gpointer user_data, GError **error)
{
    g_autoptr(LodgeConsole) console = g_new0(LodgeConsole, 1);

    console->fd = fd;
    console->input = g_byte_array_new();
    console->flush_limit_us = FLUSH_LIMIT_US;
    console->leaving = leaving;
    console->leave = leave;
    console->user_data = user_data;
    g_mutex_init(&console->mutex);
    g_cond_init(&console->changed);
    if (input) {
        lodge_terminal_open(&console->terminal);
    }
    console->writer = lodge_thread_new("console", drain, console, error);
    if (!console->writer) {
        return NULL;
    }
    if (input) {
        poll_input(console);
    }
    return g_steal_pointer(&console);
}

void lodge_console_attach(LodgeConsole *console, const LodgeConsoleMachine *ops, gpointer machine)
{
    g_mutex_lock(&console->mutex);
    while (console->calling) {
        g_cond_wait(&console->changed, &console->mutex);
    }
    console->ops = ops;
    console->machine = machine;
    g_mutex_unlock(&console->mutex);
}

gboolean lodge_console_is_broken(LodgeConsole *console)
{
    gboolean broken;

    g_mutex_lock(&console->mutex);
    broken = console->broken;
    g_mutex_unlock(&console->mutex);
    return broken;
}

/* True when everything is out, or the limit has passed. */
static void wait_until_drained(LodgeConsole *console)
{
    gint64 limit = g_get_monotonic_time() + console->flush_limit_us;

    while (!console->broken && console->drained != console->written &&
           g_cond_wait_until(&console->changed, &console->mutex, limit)) {
    }
}

void lodge_console_hurry(LodgeConsole *console, gint64 limit_us)
{
    console->flush_limit_us = limit_us;
}

int lodge_console_flush(LodgeConsole *console)
{
    int refused;

    g_mutex_lock(&console->mutex);
    wait_until_drained(console);
    console->flush_limit_us = 0; /* once is enough */
    refused = console->broken_by;
    g_mutex_unlock(&console->mutex);
    return refused;
}

void lodge_console_release_terminal(LodgeConsole *console)
{
    lodge_terminal_close(&console->terminal);
}

void lodge_console_free(LodgeConsole *console)
{
    gboolean stuck;

    if (!console) {
        return;
    }
    g_mutex_lock(&console->mutex);
    wait_until_drained(console);
    stuck = !console->broken && console->drained != console->written;
    console->closing = TRUE;
    g_cond_broadcast(&console->changed);
    g_mutex_unlock(&console->mutex);
    g_clear_handle_id(&console->source, g_source_remove);
    g_clear_handle_id(&console->retry, g_source_remove);
    g_byte_array_unref(console->input);
    lodge_terminal_close(&console->terminal);
    if (stuck) {
        /* The writer sleeps in write() for a reader that does not read: it goes with the process. */
        g_thread_unref(console->writer);
        return;
    }
    g_clear_pointer(&console->writer, g_thread_join);
    g_mutex_clear(&console->mutex);
    g_cond_clear(&console->changed);
    g_free(console);
}

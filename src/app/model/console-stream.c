/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A stream of libvirt's that does not wait, told of by the main loop; opened and ended by workers. */
#include "app/model/console-stream.h"

#include "app/model/failure.h"
#include "app/model/worker.h"
#include "common/i18n.h"

#define CHUNK_BYTES   4096u
#define CHUNKS_A_TURN 16u /* then others have their turn */

struct _LodgeConsoleStream {
    GObject parent_instance;
    virStreamPtr stream; /* owned while OPEN */
    GByteArray *kept;    /* not taken yet */
    gboolean closed;     /* nothing more is to come of it */
};

G_DEFINE_FINAL_TYPE(LodgeConsoleStream, lodge_console_stream, G_TYPE_OBJECT)

static guint data_signal, ended_signal;

static void end_in_worker(GTask *task, gpointer source, gpointer data, GCancellable *cancellable)
{
    (void)source, (void)cancellable;
    (void)virStreamAbort(data);
    virStreamFree(data);
    g_task_return_boolean(task, TRUE);
}

/* Takes @stream. */
static void end_later(virStreamPtr stream)
{
    GTask *task = g_task_new(NULL, NULL, NULL, NULL);

    g_task_set_task_data(task, stream, NULL);
    lodge_worker_run(task, end_in_worker);
}

void lodge_console_stream_close(LodgeConsoleStream *stream)
{
    g_return_if_fail(LODGE_IS_CONSOLE_STREAM(stream));

    stream->closed = TRUE;
    if (stream->stream) {
        (void)virStreamEventRemoveCallback(stream->stream);
        end_later(g_steal_pointer(&stream->stream));
    }
}

static void end(LodgeConsoleStream *stream, const char *why)
{
    if (!stream->closed) {
        lodge_console_stream_close(stream);
        g_signal_emit(stream, ended_signal, 0, why);
    }
}

static int wanted_events(const LodgeConsoleStream *stream)
{
    return VIR_STREAM_EVENT_READABLE | VIR_STREAM_EVENT_ERROR | VIR_STREAM_EVENT_HANGUP |
           (stream->kept->len ? VIR_STREAM_EVENT_WRITABLE : 0);
}

/* FALSE: it has ended. */
static gboolean receive(LodgeConsoleStream *stream)
{
    char buffer[CHUNK_BYTES];

    for (guint i = 0; i < CHUNKS_A_TURN && !stream->closed; i++) {
        int got = virStreamRecv(stream->stream, buffer, sizeof(buffer));

        if (got == -2) {
            return TRUE;
        }
        if (got <= 0) {
            g_autofree char *why = got < 0 ? lodge_connection_error_text() : NULL;

            end(stream, why);
            return FALSE;
        } else {
            g_autoptr(GBytes) bytes = g_bytes_new(buffer, (gsize)got);

            g_signal_emit(stream, data_signal, 0, bytes);
        }
    }
    return !stream->closed;
}

static gboolean pass_on(LodgeConsoleStream *stream)
{
    while (stream->kept->len > 0) {
        int sent = virStreamSend(stream->stream, (const char *)stream->kept->data,
                                 MIN(stream->kept->len, CHUNK_BYTES));

        if (sent == -2) {
            break;
        }
        if (sent < 0) {
            g_autofree char *why = lodge_connection_error_text();

            end(stream, why);
            return FALSE;
        }
        g_byte_array_remove_range(stream->kept, 0, (guint)sent);
    }
    (void)virStreamEventUpdateCallback(stream->stream, wanted_events(stream));
    return TRUE;
}

static void on_event(virStreamPtr handle, int events, void *data)
{
    g_autoptr(LodgeConsoleStream) stream = g_weak_ref_get(data);

    if (!stream || stream->stream != handle) {
        return;
    }
    if ((events & VIR_STREAM_EVENT_READABLE) && !receive(stream)) {
        return;
    }
    if ((events & VIR_STREAM_EVENT_WRITABLE) && !pass_on(stream)) {
        return;
    }
    if (events & (VIR_STREAM_EVENT_ERROR | VIR_STREAM_EVENT_HANGUP)) {
        end(stream, NULL);
    }
}

static void free_weak(void *data)
{
    g_weak_ref_clear(data);
    g_free(data);
}

/* Opened has a stream when it is good. */
static void open_in_worker(GTask *task, gpointer source, gpointer data, GCancellable *cancellable)
{
    virDomainPtr domain = data;
    virStreamPtr stream = virStreamNew(virDomainGetConnect(domain), VIR_STREAM_NONBLOCK);
    GError *error = NULL;

    (void)source, (void)cancellable;
    if (stream && virDomainOpenConsole(domain, NULL, stream, VIR_DOMAIN_CONSOLE_FORCE) == 0) {
        g_task_return_pointer(task, stream, NULL);
    } else {
        lodge_failure_set(&error, _("The console cannot be opened"));
        if (stream) {
            virStreamFree(stream);
        }
        g_task_return_error(task, error);
    }
    virDomainFree(domain);
}

static void on_opened(GObject *object, GAsyncResult *result, gpointer user_data)
{
    LodgeConsoleStream *stream = LODGE_CONSOLE_STREAM(object);
    g_autoptr(GError) error = NULL;
    virStreamPtr opened = g_task_propagate_pointer(G_TASK(result), &error);
    GWeakRef *weak;

    (void)user_data;
    if (!opened) {
        end(stream, error->message);
        return;
    }
    if (stream->closed) {
        end_later(opened);
        return;
    }
    stream->stream = opened;
    weak = g_new0(GWeakRef, 1);
    g_weak_ref_init(weak, stream);
    if (virStreamEventAddCallback(opened, wanted_events(stream), on_event, weak, free_weak) < 0) {
        g_autofree char *why = lodge_connection_error_text();

        free_weak(weak);
        end(stream, why);
    }
}

void lodge_console_stream_send(LodgeConsoleStream *stream, const void *data, gsize bytes)
{
    g_return_if_fail(LODGE_IS_CONSOLE_STREAM(stream));

    if (stream->closed) {
        return;
    }
    bytes = MIN(bytes, LODGE_CONSOLE_KEPT_MOST - stream->kept->len);
    g_byte_array_append(stream->kept, data, (guint)bytes);
    if (stream->stream) {
        (void)pass_on(stream);
    }
}

static void dispose(GObject *object)
{
    lodge_console_stream_close(LODGE_CONSOLE_STREAM(object));
    G_OBJECT_CLASS(lodge_console_stream_parent_class)->dispose(object);
}

static void finalize(GObject *object)
{
    g_byte_array_unref(LODGE_CONSOLE_STREAM(object)->kept);
    G_OBJECT_CLASS(lodge_console_stream_parent_class)->finalize(object);
}

static void lodge_console_stream_class_init(LodgeConsoleStreamClass *class)
{
    GObjectClass *object_class = G_OBJECT_CLASS(class);

    object_class->dispose = dispose;
    object_class->finalize = finalize;
    data_signal = g_signal_new("data", LODGE_TYPE_CONSOLE_STREAM, G_SIGNAL_RUN_LAST, 0, NULL, NULL,
                               NULL, G_TYPE_NONE, 1, G_TYPE_BYTES);
    ended_signal = g_signal_new("ended", LODGE_TYPE_CONSOLE_STREAM, G_SIGNAL_RUN_LAST, 0, NULL,
                                NULL, NULL, G_TYPE_NONE, 1, G_TYPE_STRING);
}

static void lodge_console_stream_init(LodgeConsoleStream *stream)
{
    stream->kept = g_byte_array_new();
}

LodgeConsoleStream *lodge_console_stream_new(LodgeMachineItem *machine)
{
    virDomainPtr domain = lodge_machine_item_ref_domain(machine);
    LodgeConsoleStream *stream;
    GTask *task;

    if (!domain) {
        return NULL;
    }
    stream = g_object_new(LODGE_TYPE_CONSOLE_STREAM, NULL);
    task = g_task_new(stream, NULL, on_opened, NULL);
    g_task_set_task_data(task, domain, NULL);
    lodge_worker_run(task, open_in_worker);
    return stream;
}

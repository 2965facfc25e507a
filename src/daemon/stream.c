/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A console's bytes between its ring and a client. */
#include "daemon/stream.h"

#include "common/i18n.h"
#include "daemon/client.h"
#include "daemon/dispatch.h"
#include "daemon/libvirt-error.h"

#define PACKET_BYTES   65536u
/* Of bytes that the client has not read: as long as there are more, the stream waits. */
#define BACKLOG_MAX    (256u << 10)
/* Typed, but not taken by the guest. */
#define INPUT_MAX      (1u << 20)
/* Nobody tells when the guest has read. */
#define INPUT_RETRY_MS 10

struct _LodgeStream {
    /* Set at creation. */
    LodgeClient *client; /* borrowed: it has the stream */
    LodgeStreamName name;
    LodgeInstance *instance;
    guint reader;
    /* Guarded by the client. */
    gboolean started;
    /* Main thread. */
    gboolean ended;
    GByteArray *input;
    guint retry;
};

static void on_ready(gpointer client)
{
    lodge_client_wake(client);
}

LodgeStream *lodge_stream_new_console(LodgeClient *client, const LodgeStreamName *name,
                                      LodgeInstance *instance, gboolean force, GError **error)
{
    guint reader =
        lodge_console_ring_open(lodge_instance_console(instance), force, on_ready, client);
    LodgeStream *stream;

    if (!reader) {
        lodge_refuse(error, VIR_ERR_OPERATION_FAILED,
                     _("The machine's console is open elsewhere; take it from there with --force"));
        return NULL;
    }
    stream = g_new0(LodgeStream, 1);
    *stream = (LodgeStream){
        .client = client,
        .name = *name,
        .instance = lodge_instance_ref(instance),
        .reader = reader,
        .input = g_byte_array_new(),
    };
    return stream;
}

void lodge_stream_free(LodgeStream *stream)
{
    g_clear_handle_id(&stream->retry, g_source_remove);
    if (lodge_console_ring_close(lodge_instance_console(stream->instance), stream->reader)) {
        lodge_instance_console_resume(stream->instance);
    }
    lodge_instance_unref(stream->instance);
    g_byte_array_unref(stream->input);
    g_free(stream);
}

guint32 lodge_stream_serial(const LodgeStream *stream)
{
    return stream->name.serial;
}

void lodge_stream_start(LodgeStream *stream)
{
    stream->started = TRUE;
}

static LodgeMessageHeader header_of(const LodgeStream *stream, LodgeMessageStatus status)
{
    return (LodgeMessageHeader){
        .program = stream->name.program,
        .version = LODGE_MESSAGE_VERSION,
        .procedure = stream->name.procedure,
        .type = LODGE_MESSAGE_STREAM,
        .serial = stream->name.serial,
        .status = status,
    };
}

static void send_packet(LodgeStream *stream, LodgeMessageStatus status, const guint8 *data,
                        gsize bytes)
{
    const LodgeMessageHeader header = header_of(stream, status);
    g_autoptr(GBytes) message = lodge_message_encode_bytes(&header, data, bytes);

    lodge_client_send(stream->client, message);
}

static gboolean fail(LodgeStream *stream, const char *text)
{
    const LodgeMessageHeader header = header_of(stream, LODGE_MESSAGE_ERROR);
    g_autoptr(GError) error =
        g_error_new_literal(LODGE_LIBVIRT_ERROR, VIR_ERR_OPERATION_FAILED, text);
    g_autoptr(GBytes) message = lodge_dispatch_encode_error(&header, error);

    lodge_client_send(stream->client, message);
    return FALSE;
}

gboolean lodge_stream_pump(LodgeStream *stream)
{
    LodgeConsoleRing *ring = lodge_instance_console(stream->instance);

    while (stream->started && !stream->ended &&
           lodge_client_backlog(stream->client) < BACKLOG_MAX) {
        guint8 data[PACKET_BYTES];
        gboolean resume;
        gsize bytes;

        switch (
            lodge_console_ring_read(ring, stream->reader, data, sizeof(data), &bytes, &resume)) {
        case LODGE_RING_LOST:
            return fail(stream, _("The machine's console was taken by another client"));
        case LODGE_RING_ENDED:
            send_packet(stream, LODGE_MESSAGE_CONTINUE, NULL, 0);
            stream->ended = TRUE;
            break;
        case LODGE_RING_OPEN:
            if (bytes == 0) {
                return TRUE;
            }
            send_packet(stream, LODGE_MESSAGE_CONTINUE, data, bytes);
            break;
        }
        if (resume) {
            lodge_instance_console_resume(stream->instance);
        }
    }
    return TRUE;
}

static gboolean push_input(gpointer data)
{
    LodgeStream *stream = data;

    if (stream->input->len > 0) {
        gsize taken =
            lodge_instance_console_input(stream->instance, stream->input->data, stream->input->len);

        g_byte_array_remove_range(stream->input, 0, (guint)taken);
    }
    if (stream->input->len > 0) {
        return G_SOURCE_CONTINUE;
    }
    stream->retry = 0;
    return G_SOURCE_REMOVE;
}

gboolean lodge_stream_take(LodgeStream *stream, guint32 status, const guint8 *data, gsize bytes)
{
    if (status != LODGE_MESSAGE_CONTINUE) {
        send_packet(stream, LODGE_MESSAGE_OK, NULL, 0);
        return FALSE;
    }
    if (stream->input->len + bytes > INPUT_MAX) {
        return fail(stream, _("The machine does not read from its serial port, and more was typed "
                              "than is kept for it"));
    }
    g_byte_array_append(stream->input, data, (guint)bytes);
    if (!stream->retry && push_input(stream)) {
        stream->retry = g_timeout_add(INPUT_RETRY_MS, push_input, stream);
    }
    return TRUE;
}

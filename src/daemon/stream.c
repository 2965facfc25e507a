/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Two kinds of streams: a console's bytes both ways, and a line of statistics each second. */
#include "daemon/stream.h"

#include "common/i18n.h"
#include "daemon/client.h"
#include "daemon/dispatch.h"
#include "daemon/libvirt-error.h"

#include <string.h>

#define PACKET_BYTES   65536u
/* Of bytes that the client has not read: as long as there are more, the stream waits. */
#define BACKLOG_MAX    (256u << 10)
/* Typed, but not taken by the guest. */
#define INPUT_MAX      (1u << 20)
/* Nobody tells when the guest has read. */
#define INPUT_RETRY_MS 10
#define FEED_PERIOD_MS 1000

struct _LodgeStream {
    /* Set at creation. */
    LodgeClient *client; /* borrowed: it has the stream */
    LodgeStreamName name;
    guint reader; /* of the console's ring; 0: it is a feed */
    /* Atomic: set when the reply is on its way, by the call's thread. */
    gint started;
    /* Main thread. */
    LodgeInstance *instance; /* NULL: it has ended */
    GByteArray *input;       /* to the guest */
    guint timer;             /* a console's: to try again; a feed's: to the next line */
    gboolean due;            /* a feed's line */
};

static LodgeStream *make(LodgeClient *client, const LodgeStreamName *name, LodgeInstance *instance)
{
    LodgeStream *stream = g_new0(LodgeStream, 1);

    *stream = (LodgeStream){
        .client = client,
        .name = *name,
        .instance = lodge_instance_ref(instance),
        .input = g_byte_array_new(),
        .due = TRUE,
    };
    return stream;
}

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
                     _("The machine's console is open elsewhere; --force takes it from there"));
        return NULL;
    }
    stream = make(client, name, instance);
    stream->reader = reader;
    return stream;
}

LodgeStream *lodge_stream_new_feed(LodgeClient *client, const LodgeStreamName *name,
                                   LodgeInstance *instance)
{
    return make(client, name, instance);
}

/* A client may keep a stream for as long as it likes: with it, it shall not keep a core. */
static void leave_instance(LodgeStream *stream)
{
    g_clear_handle_id(&stream->timer, g_source_remove);
    if (stream->instance && stream->reader &&
        lodge_console_ring_close(lodge_instance_console(stream->instance), stream->reader)) {
        lodge_instance_console_resume(stream->instance);
    }
    g_clear_pointer(&stream->instance, lodge_instance_unref);
}

void lodge_stream_free(LodgeStream *stream)
{
    leave_instance(stream);
    g_byte_array_unref(stream->input);
    g_free(stream);
}

guint32 lodge_stream_serial(const LodgeStream *stream)
{
    return stream->name.serial;
}

void lodge_stream_start(LodgeStream *stream)
{
    g_atomic_int_set(&stream->started, TRUE);
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

static void send_packet(LodgeStream *stream, LodgeMessageStatus status, const void *data,
                        gsize bytes)
{
    const LodgeMessageHeader header = header_of(stream, status);
    g_autoptr(GBytes) message = lodge_message_encode_bytes(&header, data, bytes);

    lodge_client_send(stream->client, message);
}

/* The end of what comes: an empty packet. The client says that it is over. */
static void end(LodgeStream *stream)
{
    send_packet(stream, LODGE_MESSAGE_CONTINUE, NULL, 0);
    leave_instance(stream);
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

static gboolean may_send(const LodgeStream *stream)
{
    return g_atomic_int_get(&stream->started) && stream->instance &&
           lodge_client_backlog(stream->client) < BACKLOG_MAX;
}

static gboolean pump_console(LodgeStream *stream)
{
    while (may_send(stream)) {
        LodgeConsoleRing *ring = lodge_instance_console(stream->instance);
        guint8 data[PACKET_BYTES];
        gboolean resume;
        gsize bytes;

        switch (
            lodge_console_ring_read(ring, stream->reader, data, sizeof(data), &bytes, &resume)) {
        case LODGE_RING_LOST:
            return fail(stream, _("The machine's console was taken by another client"));
        case LODGE_RING_ENDED:
            end(stream);
            return TRUE;
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

static gboolean on_period(gpointer data)
{
    LodgeStream *stream = data;

    stream->due = TRUE;
    lodge_client_wake(stream->client);
    return G_SOURCE_CONTINUE;
}

static void send_line(LodgeStream *stream)
{
    g_autoptr(JsonNode) node = lodge_instance_stats_json(stream->instance);
    g_autofree char *text = json_to_string(node, FALSE);
    g_autofree char *line = g_strconcat(text, "\n", NULL);
    gsize bytes = strlen(line);

    for (gsize at = 0; at < bytes; at += PACKET_BYTES) {
        send_packet(stream, LODGE_MESSAGE_CONTINUE, line + at, MIN(bytes - at, PACKET_BYTES));
    }
}

/* Of a client that does not read, lines are left out. */
static void pump_feed(LodgeStream *stream)
{
    struct hv_domain_status status;

    if (!may_send(stream) || !stream->due) {
        return;
    }
    if (!stream->timer) {
        stream->timer = g_timeout_add(FEED_PERIOD_MS, on_period, stream);
    }
    stream->due = FALSE;
    lodge_instance_get_status(stream->instance, &status);
    if (status.state >= HV_DOMAIN_STATE_DYING) {
        end(stream);
    } else {
        send_line(stream);
    }
}

gboolean lodge_stream_pump(LodgeStream *stream)
{
    if (stream->reader) {
        return pump_console(stream);
    }
    pump_feed(stream);
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
    stream->timer = 0;
    return G_SOURCE_REMOVE;
}

gboolean lodge_stream_take(LodgeStream *stream, guint32 status, const guint8 *data, gsize bytes)
{
    if (status != LODGE_MESSAGE_CONTINUE) {
        send_packet(stream, LODGE_MESSAGE_OK, NULL, 0);
        return FALSE;
    }
    /* What is said to a feed, or after the end, nobody hears. */
    if (!stream->reader || !stream->instance || bytes == 0) {
        return TRUE;
    }
    if (stream->input->len + bytes > INPUT_MAX) {
        return fail(stream, _("The machine does not read from its serial port, and more was typed "
                              "than is kept for it"));
    }
    g_byte_array_append(stream->input, data, (guint)bytes);
    if (!stream->timer && push_input(stream)) {
        stream->timer = g_timeout_add(INPUT_RETRY_MS, push_input, stream);
    }
    return TRUE;
}

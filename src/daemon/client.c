/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A connection on the main loop: one source that reads, writes and pumps. */
#include "daemon/client.h"

#include "daemon/dispatch.h"
#include "wire/message-reader.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

/* Calls of one client that may be under way. */
#define CALLS_MAX         64u
/* Bytes that it has not read, beyond which no more calls of it are read. */
#define BACKLOG_CALLS_MAX (64u << 20)
/* … and beyond which an event cuts it off. */
#define BACKLOG_EVENT_MAX (16u << 20)

struct _LodgeClient {
    gatomicrefcount references;
    /* Set at creation. */
    LodgeDaemon *daemon;
    GSource *source;
    gpointer tag;
    /* Main thread. */
    int fd;
    LodgeMessageReader reader;
    GMutex mutex;
    /* Guarded by mutex. */
    GQueue out;         /* of GBytes */
    gsize out_bytes;    /* in it */
    gsize out_sent;     /* of its first */
    GPtrArray *streams; /* added by any thread, removed by the main thread */
    guint calls;
    gboolean open, read_only, closed, hopeless;
    char *uri;
};

typedef struct {
    GSource source;
    LodgeClient *client;
} ClientSource;

LodgeClient *lodge_client_ref(LodgeClient *client)
{
    g_atomic_ref_count_inc(&client->references);
    return client;
}

static void free_stream(gpointer stream)
{
    lodge_stream_free(stream);
}

void lodge_client_unref(LodgeClient *client)
{
    if (g_atomic_ref_count_dec(&client->references)) {
        /* A call that was under way may have registered for events, given descriptors, or opened a
         * stream. */
        lodge_event_hub_forget(client->daemon->hub, client);
        lodge_fd_groups_forget(client->daemon->fds, client);
        g_ptr_array_set_free_func(client->streams, free_stream);
        g_ptr_array_unref(client->streams);
        g_source_unref(client->source);
        g_queue_clear_full(&client->out, (GDestroyNotify)g_bytes_unref);
        lodge_message_reader_finish(&client->reader);
        g_mutex_clear(&client->mutex);
        g_free(client->uri);
        g_free(client);
    }
}

void lodge_client_wake(LodgeClient *client)
{
    g_source_set_ready_time(client->source, 0);
}

static void send_message(LodgeClient *client, GBytes *message, gsize backlog_max)
{
    g_mutex_lock(&client->mutex);
    if (client->out_bytes > backlog_max) {
        client->hopeless = TRUE;
    } else if (!client->closed) {
        g_queue_push_tail(&client->out, g_bytes_ref(message));
        client->out_bytes += g_bytes_get_size(message);
    }
    g_mutex_unlock(&client->mutex);
    lodge_client_wake(client);
}

void lodge_client_send(LodgeClient *client, GBytes *message)
{
    send_message(client, message, G_MAXSIZE);
}

void lodge_client_send_event(gpointer client, GBytes *message)
{
    send_message(client, message, BACKLOG_EVENT_MAX);
}

gsize lodge_client_backlog(LodgeClient *client)
{
    gsize backlog;

    g_mutex_lock(&client->mutex);
    backlog = client->out_bytes;
    g_mutex_unlock(&client->mutex);
    return backlog;
}

void lodge_client_begin_call(LodgeClient *client)
{
    g_mutex_lock(&client->mutex);
    client->calls++;
    g_mutex_unlock(&client->mutex);
}

void lodge_client_end_call(LodgeClient *client)
{
    g_mutex_lock(&client->mutex);
    client->calls--;
    g_mutex_unlock(&client->mutex);
    lodge_client_wake(client);
}

gboolean lodge_client_open(LodgeClient *client, const char *uri, gboolean read_only)
{
    gboolean opened;

    g_mutex_lock(&client->mutex);
    opened = !client->open;
    if (opened) {
        client->open = TRUE;
        client->read_only |= read_only;
        client->uri = g_strdup(uri);
    }
    g_mutex_unlock(&client->mutex);
    return opened;
}

/* A flag that the mutex guards. */
static gboolean look(LodgeClient *client, const gboolean *flag)
{
    gboolean value;

    g_mutex_lock(&client->mutex);
    value = *flag;
    g_mutex_unlock(&client->mutex);
    return value;
}

gboolean lodge_client_is_open(LodgeClient *client)
{
    return look(client, &client->open);
}

gboolean lodge_client_is_read_only(LodgeClient *client)
{
    return look(client, &client->read_only);
}

char *lodge_client_get_uri(LodgeClient *client)
{
    char *uri;

    g_mutex_lock(&client->mutex);
    uri = g_strdup(client->uri);
    g_mutex_unlock(&client->mutex);
    return uri;
}

void lodge_client_add_stream(LodgeClient *client, LodgeStream *stream)
{
    g_mutex_lock(&client->mutex);
    g_ptr_array_add(client->streams, stream);
    g_mutex_unlock(&client->mutex);
}

void lodge_client_start_stream(LodgeClient *client, LodgeStream *stream)
{
    g_mutex_lock(&client->mutex);
    /* It may be gone with the connection. */
    if (g_ptr_array_find(client->streams, stream, NULL)) {
        lodge_stream_start(stream);
    }
    g_mutex_unlock(&client->mutex);
    lodge_client_wake(client);
}

/* What there is now. Only the main thread removes streams, so they stay. */
static GPtrArray *list_streams(LodgeClient *client)
{
    GPtrArray *list = g_ptr_array_new();

    g_mutex_lock(&client->mutex);
    for (guint i = 0; i < client->streams->len; i++) {
        g_ptr_array_add(list, client->streams->pdata[i]);
    }
    g_mutex_unlock(&client->mutex);
    return list;
}

static void remove_stream(LodgeClient *client, LodgeStream *stream)
{
    g_mutex_lock(&client->mutex);
    g_ptr_array_remove(client->streams, stream);
    g_mutex_unlock(&client->mutex);
    lodge_stream_free(stream);
}

static void pump_streams(LodgeClient *client)
{
    g_autoptr(GPtrArray) streams = list_streams(client);

    for (guint i = 0; i < streams->len; i++) {
        if (!lodge_stream_pump(streams->pdata[i])) {
            remove_stream(client, streams->pdata[i]);
        }
    }
}

static void take_stream_message(LodgeClient *client, const LodgeMessageHeader *header,
                                const guint8 *payload, gsize bytes)
{
    g_autoptr(GPtrArray) streams = list_streams(client);

    /* Of one that is over, messages may be on the way still. */
    for (guint i = 0; i < streams->len; i++) {
        if (lodge_stream_serial(streams->pdata[i]) == header->serial &&
            !lodge_stream_take(streams->pdata[i], header->status, payload, bytes)) {
            remove_stream(client, streams->pdata[i]);
            return;
        }
    }
}

/* FALSE: what comes is no conversation. */
static gboolean take_message(LodgeClient *client, const LodgeMessageHeader *header,
                             const guint8 *payload, gsize bytes)
{
    if (header->program == LODGE_MESSAGE_KEEPALIVE) {
        if (header->type == LODGE_MESSAGE_EVENT && header->procedure == LODGE_MESSAGE_PING) {
            LodgeMessageHeader pong = *header;
            g_autoptr(GBytes) message = NULL;

            pong.procedure = LODGE_MESSAGE_PONG;
            message = lodge_message_encode_bytes(&pong, NULL, 0);
            lodge_client_send(client, message);
        }
        return TRUE;
    }
    if (header->type == LODGE_MESSAGE_STREAM) {
        take_stream_message(client, header, payload, bytes);
        return TRUE;
    }
    if (header->type != LODGE_MESSAGE_CALL && header->type != LODGE_MESSAGE_CALL_WITH_FDS) {
        return FALSE;
    }
    lodge_dispatch(client->daemon, client, header, payload, bytes,
                   lodge_message_reader_steal_fds(&client->reader));
    return TRUE;
}

static gboolean may_take(LodgeClient *client)
{
    gboolean may;

    g_mutex_lock(&client->mutex);
    may = client->calls < CALLS_MAX && client->out_bytes < BACKLOG_CALLS_MAX;
    g_mutex_unlock(&client->mutex);
    return may;
}

/* Messages that are there whole. FALSE: there is no way to go on. */
static gboolean take_messages(LodgeClient *client)
{
    LodgeMessageHeader header;
    const guint8 *payload;
    gsize bytes;

    while (may_take(client)) {
        switch (lodge_message_reader_next(&client->reader, &header, &payload, &bytes, NULL)) {
        case LODGE_READER_MORE:
            return TRUE;
        case LODGE_READER_BAD:
            return FALSE;
        case LODGE_READER_MESSAGE:
            if (!take_message(client, &header, payload, bytes)) {
                return FALSE;
            }
            break;
        }
    }
    return TRUE;
}

static gboolean read_some(LodgeClient *client)
{
    gssize got = lodge_message_reader_fill(&client->reader, client->fd);

    return (got > 0 || got == -EAGAIN) && take_messages(client);
}

/* The first message, or NULL. */
static GBytes *peek(LodgeClient *client)
{
    GBytes *message;

    g_mutex_lock(&client->mutex);
    message = g_queue_peek_head(&client->out);
    g_mutex_unlock(&client->mutex);
    return message;
}

static void sent(LodgeClient *client, gsize bytes)
{
    GBytes *message;

    g_mutex_lock(&client->mutex);
    message = g_queue_peek_head(&client->out);
    client->out_sent += bytes;
    if (client->out_sent == g_bytes_get_size(message)) {
        client->out_bytes -= client->out_sent;
        client->out_sent = 0;
        g_bytes_unref(g_queue_pop_head(&client->out));
    }
    g_mutex_unlock(&client->mutex);
}

/* FALSE: it has gone. */
static gboolean write_all(LodgeClient *client)
{
    GBytes *message;

    /* Only this thread takes messages away, so the first one stays. */
    while ((message = peek(client))) {
        gsize bytes;
        const guint8 *data = g_bytes_get_data(message, &bytes);
        gssize wrote = send(client->fd, data + client->out_sent, bytes - client->out_sent,
                            MSG_NOSIGNAL | MSG_DONTWAIT);

        if (wrote < 0 && errno == EINTR) {
            continue;
        }
        if (wrote < 0) {
            return errno == EAGAIN;
        }
        sent(client, (gsize)wrote);
    }
    return TRUE;
}

static gboolean work(LodgeClient *client, GIOCondition condition)
{
    if (!take_messages(client)) {
        return FALSE;
    }
    if ((condition & (G_IO_IN | G_IO_HUP | G_IO_ERR)) && !read_some(client)) {
        return FALSE;
    }
    pump_streams(client);
    if (look(client, &client->hopeless) || !write_all(client)) {
        return FALSE;
    }
    g_source_modify_unix_fd(client->source, client->tag,
                            (may_take(client) ? G_IO_IN : 0) | (peek(client) ? G_IO_OUT : 0));
    return TRUE;
}

static gboolean on_source(GSource *source, GSourceFunc unused, gpointer data)
{
    LodgeClient *client = lodge_client_ref(((ClientSource *)source)->client);

    (void)unused;
    (void)data;
    g_source_set_ready_time(source, -1);
    if (!work(client, g_source_query_unix_fd(source, client->tag))) {
        lodge_client_close(client);
    }
    lodge_client_unref(client);
    return G_SOURCE_CONTINUE;
}

static GSourceFuncs source_functions = {.dispatch = on_source};

LodgeClient *lodge_client_new(LodgeDaemon *daemon, int fd, gboolean read_only)
{
    LodgeClient *client = g_new0(LodgeClient, 1);

    g_atomic_ref_count_init(&client->references);
    g_mutex_init(&client->mutex);
    g_queue_init(&client->out);
    client->streams = g_ptr_array_new();
    lodge_message_reader_init(&client->reader);
    client->daemon = daemon;
    client->read_only = read_only;
    client->fd = fd;
    client->source = g_source_new(&source_functions, sizeof(ClientSource));
    ((ClientSource *)client->source)->client = client;
    client->tag = g_source_add_unix_fd(client->source, fd, G_IO_IN);
    g_source_set_name(client->source, "client");
    g_source_attach(client->source, NULL);
    g_ptr_array_add(daemon->clients, client);
    lodge_daemon_look_idle(daemon);
    return client;
}

void lodge_client_close(LodgeClient *client)
{
    g_autoptr(GPtrArray) streams = NULL;

    if (client->fd < 0) {
        return;
    }
    g_source_destroy(client->source);
    lodge_event_hub_forget(client->daemon->hub, client);
    lodge_fd_groups_forget(client->daemon->fds, client);
    g_mutex_lock(&client->mutex);
    client->closed = TRUE;
    g_mutex_unlock(&client->mutex);
    streams = list_streams(client);
    for (guint i = 0; i < streams->len; i++) {
        remove_stream(client, streams->pdata[i]);
    }
    close(client->fd);
    client->fd = -1;
    g_ptr_array_remove(client->daemon->clients, client);
    lodge_daemon_look_idle(client->daemon);
    lodge_client_unref(client);
}

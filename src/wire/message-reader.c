/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A buffer that is cut into messages. */
#include "wire/message-reader.h"

#include <errno.h>
#include <sys/socket.h>

#define CHUNK_BYTES 65536u
#define KEPT_BYTES  (2 * CHUNK_BYTES)

void lodge_message_reader_init(LodgeMessageReader *reader)
{
    *reader = (LodgeMessageReader){.bytes = g_byte_array_new()};
}

void lodge_message_reader_finish(LodgeMessageReader *reader)
{
    g_clear_pointer(&reader->bytes, g_byte_array_unref);
}

/* What was given away makes room. A long message's memory goes with it. */
static void compact(LodgeMessageReader *reader)
{
    if (reader->taken > KEPT_BYTES && reader->taken == reader->bytes->len) {
        g_byte_array_unref(reader->bytes);
        reader->bytes = g_byte_array_new();
        reader->taken = 0;
    } else if (reader->taken > 0) {
        g_byte_array_remove_range(reader->bytes, 0, (guint)reader->taken);
        reader->taken = 0;
    }
}

gssize lodge_message_reader_fill(LodgeMessageReader *reader, int fd)
{
    guint had;
    gssize got;
    int cause;

    compact(reader);
    had = reader->bytes->len;
    g_byte_array_set_size(reader->bytes, had + CHUNK_BYTES);
    do {
        got = recv(fd, reader->bytes->data + had, CHUNK_BYTES, 0);
        cause = errno;
    } while (got < 0 && cause == EINTR);
    g_byte_array_set_size(reader->bytes, had + (guint)MAX(got, 0));
    if (got < 0) {
        return cause == EWOULDBLOCK ? -EAGAIN : -cause;
    }
    return got;
}

void lodge_message_reader_feed(LodgeMessageReader *reader, const void *data, gsize bytes)
{
    compact(reader);
    g_byte_array_append(reader->bytes, data, (guint)bytes);
}

LodgeReaderResult lodge_message_reader_next(LodgeMessageReader *reader,
                                            LodgeMessageHeader *header_out,
                                            const guint8 **payload_out, gsize *bytes_out,
                                            GError **error)
{
    const guint8 *start = reader->bytes->data + reader->taken;
    gsize there = reader->bytes->len - reader->taken;
    guint32 length;

    if (there < LODGE_MESSAGE_HEADER_BYTES) {
        return LODGE_READER_MORE;
    }
    if (!lodge_message_parse(start, header_out, &length, error)) {
        return LODGE_READER_BAD;
    }
    if (there < length) {
        return LODGE_READER_MORE;
    }
    *payload_out = start + LODGE_MESSAGE_HEADER_BYTES;
    *bytes_out = length - LODGE_MESSAGE_HEADER_BYTES;
    reader->taken += length;
    return LODGE_READER_MESSAGE;
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A buffer that is cut into messages. */
#include "wire/message-reader.h"

#include "common/i18n.h"
#include "common/lodge-error.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHUNK_BYTES 65536u
#define KEPT_BYTES  (2 * CHUNK_BYTES)

void lodge_message_reader_init(LodgeMessageReader *reader)
{
    *reader = (LodgeMessageReader){.bytes = g_byte_array_new()};
}

void lodge_message_reader_finish(LodgeMessageReader *reader)
{
    g_clear_pointer(&reader->bytes, g_byte_array_unref);
    g_clear_object(&reader->given);
    while (reader->fd_count > 0) {
        close(reader->fds[--reader->fd_count]);
    }
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

gboolean lodge_message_reader_feed_fd(LodgeMessageReader *reader, int fd)
{
    if (reader->fd_count == LODGE_READER_FDS_MAX) {
        close(fd);
        return FALSE;
    }
    reader->fds[reader->fd_count++] = fd;
    return TRUE;
}

/* What came with the bytes; all of it is ours now. FALSE: it was too much. */
static gboolean take_ancillary(LodgeMessageReader *reader, struct msghdr *message)
{
    gboolean good = !(message->msg_flags & MSG_CTRUNC);

    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part)) {
        gsize count;

        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (gsize i = 0; i < count; i++) {
            int fd;

            memcpy(&fd, CMSG_DATA(part) + i * sizeof(fd), sizeof(fd));
            good &= lodge_message_reader_feed_fd(reader, fd);
        }
    }
    return good;
}

gssize lodge_message_reader_fill(LodgeMessageReader *reader, int fd)
{
    union {
        struct cmsghdr aligned;
        guint8 room[CMSG_SPACE(LODGE_MESSAGE_FDS_MAX * sizeof(int))];
    } ancillary;
    struct iovec bytes = {.iov_len = CHUNK_BYTES};
    struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1};
    guint had;
    gssize got;
    int cause;

    compact(reader);
    had = reader->bytes->len;
    g_byte_array_set_size(reader->bytes, had + CHUNK_BYTES);
    do {
        bytes.iov_base = reader->bytes->data + had;
        message.msg_control = &ancillary;
        message.msg_controllen = sizeof(ancillary);
        got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
        cause = errno;
    } while (got < 0 && cause == EINTR);
    g_byte_array_set_size(reader->bytes, had + (guint)MAX(got, 0));
    if (got < 0) {
        return cause == EWOULDBLOCK ? -EAGAIN : -cause;
    }
    return take_ancillary(reader, &message) ? got : -EPROTO;
}

void lodge_message_reader_feed(LodgeMessageReader *reader, const void *data, gsize bytes)
{
    compact(reader);
    g_byte_array_append(reader->bytes, data, (guint)bytes);
}

/* The count before such a message's payload. FALSE: no message has so many. */
static gboolean read_fd_count(const guint8 *payload, gsize bytes, guint32 *count_out,
                              GError **error)
{
    guint32 word;

    if (bytes < sizeof(word)) {
        return lodge_error_refuse(error, _("A message has descriptors, and does not say how many"));
    }
    memcpy(&word, payload, sizeof(word));
    *count_out = GUINT32_FROM_BE(word);
    return *count_out <= LODGE_MESSAGE_FDS_MAX ||
           lodge_error_refuse(error, _("A message has %u descriptors; it can have %u"), *count_out,
                              LODGE_MESSAGE_FDS_MAX);
}

/* The first @count are this message's. */
static void give_fds(LodgeMessageReader *reader, guint count)
{
    reader->given = g_unix_fd_list_new_from_array(reader->fds, (gint)count);
    reader->fd_count -= count;
    memmove(reader->fds, reader->fds + count, reader->fd_count * sizeof(reader->fds[0]));
}

GUnixFDList *lodge_message_reader_steal_fds(LodgeMessageReader *reader)
{
    return g_steal_pointer(&reader->given);
}

LodgeReaderResult lodge_message_reader_next(LodgeMessageReader *reader,
                                            LodgeMessageHeader *header_out,
                                            const guint8 **payload_out, gsize *bytes_out,
                                            GError **error)
{
    const guint8 *start = reader->bytes->data + reader->taken;
    gsize there = reader->bytes->len - reader->taken;
    guint32 length, fds = 0;
    gsize before = LODGE_MESSAGE_HEADER_BYTES;

    g_clear_object(&reader->given);
    if (there < LODGE_MESSAGE_HEADER_BYTES) {
        return LODGE_READER_MORE;
    }
    if (!lodge_message_parse(start, header_out, &length, error)) {
        return LODGE_READER_BAD;
    }
    if (there < length) {
        return LODGE_READER_MORE;
    }
    if (header_out->type == LODGE_MESSAGE_CALL_WITH_FDS ||
        header_out->type == LODGE_MESSAGE_REPLY_WITH_FDS) {
        if (!read_fd_count(start + before, length - before, &fds, error)) {
            return LODGE_READER_BAD;
        }
        before += sizeof(fds);
    }
    if (there - length < fds || reader->fd_count < fds) {
        return there - length < fds ? LODGE_READER_MORE : LODGE_READER_BAD;
    }
    if (fds > 0) {
        give_fds(reader, fds);
    }
    *payload_out = start + before;
    *bytes_out = length - before;
    reader->taken += length + fds;
    return LODGE_READER_MESSAGE;
}

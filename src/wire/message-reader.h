/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Messages from a socket: bytes come as they like, messages go whole, with their descriptors.
 *
 * What a peer says about a length takes no memory before its bytes are there. Descriptors belong to
 * messages in the order in which both come; a reader holds at most LODGE_READER_FDS_MAX that no message
 * has claimed, and closes what nobody takes.
 */
#pragma once

#include "wire/message.h"

#include <gio/gunixfdlist.h>

#define LODGE_READER_FDS_MAX (2 * LODGE_MESSAGE_FDS_MAX)

typedef struct {
    GByteArray *bytes; /* read, from `taken` on not given away yet */
    gsize taken;
    int fds[LODGE_READER_FDS_MAX]; /* owned, of messages that are not whole yet */
    guint fd_count;
    GUnixFDList *given; /* of the message that was taken last, or NULL */
} LodgeMessageReader;

void lodge_message_reader_init(LodgeMessageReader *reader);
void lodge_message_reader_finish(LodgeMessageReader *reader);

/**
 * Read what is there, at most 64 KiB.
 *
 * @fd  a socket that does not block.
 *
 * Returns how much; 0 at the end; -EAGAIN when nothing is there; -EPROTO when more descriptors came than
 * a reader holds, or than this process may have open; another negative errno.
 */
gssize lodge_message_reader_fill(LodgeMessageReader *reader, int fd);

/** The same from memory. */
void lodge_message_reader_feed(LodgeMessageReader *reader, const void *data, gsize bytes);
/** A descriptor that came with bytes; moved. FALSE: it is one too many, and closed. */
gboolean lodge_message_reader_feed_fd(LodgeMessageReader *reader, int fd);

typedef enum {
    LODGE_READER_MESSAGE,
    LODGE_READER_MORE, /* it is not there whole yet */
    LODGE_READER_BAD,  /* a length, or a count, that no message has: there is no way to go on */
} LodgeReaderResult;

/**
 * Take the next message.
 *
 * @payload_out  what follows the header, and the count of descriptors; valid until the next call with
 *               this reader.
 */
LodgeReaderResult lodge_message_reader_next(LodgeMessageReader *reader,
                                            LodgeMessageHeader *header_out,
                                            const guint8 **payload_out, gsize *bytes_out,
                                            GError **error);
/**
 * The descriptors of the message that was taken last, owned by the caller; NULL when it has none. Those
 * that nobody takes are closed with the next message.
 */
GUnixFDList *lodge_message_reader_steal_fds(LodgeMessageReader *reader);

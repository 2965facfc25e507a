/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Messages from a socket: bytes come as they like, messages go whole.
 *
 * What a peer says about a length takes no memory before its bytes are there.
 */
#pragma once

#include "wire/message.h"

typedef struct {
    GByteArray *bytes; /* read, from `taken` on not given away yet */
    gsize taken;
} LodgeMessageReader;

void lodge_message_reader_init(LodgeMessageReader *reader);
void lodge_message_reader_finish(LodgeMessageReader *reader);

/**
 * Read what is there, at most 64 KiB.
 *
 * @fd  a socket that does not block.
 *
 * Returns how much; 0 at the end; -EAGAIN when nothing is there; another negative errno.
 */
gssize lodge_message_reader_fill(LodgeMessageReader *reader, int fd);

/** The same from memory. */
void lodge_message_reader_feed(LodgeMessageReader *reader, const void *data, gsize bytes);

typedef enum {
    LODGE_READER_MESSAGE,
    LODGE_READER_MORE, /* it is not there whole yet */
    LODGE_READER_BAD,  /* a length that no message has: there is no way to go on */
} LodgeReaderResult;

/**
 * Take the next message.
 *
 * @payload_out  what follows the header; valid until the next call with this reader.
 */
LodgeReaderResult lodge_message_reader_next(LodgeMessageReader *reader,
                                            LodgeMessageHeader *header_out,
                                            const guint8 **payload_out, gsize *bytes_out,
                                            GError **error);

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * One message of libvirt's wire protocol.
 *
 *     0   length      of all that follows and of itself
 *     4   program, version, procedure, type, serial, status
 *     28  payload     XDR, or a stream's bytes
 *
 * A payload of the types …_WITH_FDS begins with a count of descriptors, which come behind the message:
 * a zero byte each, with the descriptor as its ancillary data.
 *
 * Numbers are 32 bits, big endian. A reply carries program, procedure and serial of its call, and comes
 * in any order; what comes unasked has the serial 0.
 */
#pragma once

#include <glib.h>
#include <rpc/rpc.h>

#define LODGE_MESSAGE_HEADER_BYTES 28u
#define LODGE_MESSAGE_BYTES_MAX    (33554432u + 4u)
/* Of a stream's message: what the oldest clients take. */
#define LODGE_MESSAGE_STREAM_MAX   262120u
#define LODGE_MESSAGE_VERSION      1u
/* Descriptors that go with a message. */
#define LODGE_MESSAGE_FDS_MAX      32u

/* Beside those of libvirt.x. */
#define LODGE_MESSAGE_KEEPALIVE    0x6b656570u
#define LODGE_MESSAGE_PING         1u
#define LODGE_MESSAGE_PONG         2u

typedef enum {
    LODGE_MESSAGE_CALL,
    LODGE_MESSAGE_REPLY,
    LODGE_MESSAGE_EVENT,
    LODGE_MESSAGE_STREAM,
    LODGE_MESSAGE_CALL_WITH_FDS,
    LODGE_MESSAGE_REPLY_WITH_FDS,
    LODGE_MESSAGE_STREAM_HOLE,
} LodgeMessageType;

typedef enum {
    LODGE_MESSAGE_OK,
    LODGE_MESSAGE_ERROR,
    LODGE_MESSAGE_CONTINUE,
} LodgeMessageStatus;

typedef struct {
    guint32 program, version, procedure;
    guint32 type; /* LodgeMessageType, when it is one */
    guint32 serial;
    guint32 status; /* LodgeMessageStatus, when it is one */
} LodgeMessageHeader;

/**
 * Take a header apart.
 *
 * @bytes       LODGE_MESSAGE_HEADER_BYTES of them.
 * @length_out  of the message, its header included.
 *
 * Returns FALSE with LODGE_ERROR_INPUT for a length that no message has. The numbers are not looked at.
 */
gboolean lodge_message_parse(const guint8 *bytes, LodgeMessageHeader *header_out,
                             guint32 *length_out, GError **error);

/**
 * A message with an XDR payload.
 *
 * @xdr    of libvirt.x; NULL: an empty payload.
 * @value  borrowed; not changed.
 *
 * Returns NULL with LODGE_ERROR_FAILED when the value is beyond a bound, or the message would be.
 */
GBytes *lodge_message_encode(const LodgeMessageHeader *header, xdrproc_t xdr, const void *value,
                             GError **error);

/** A message with these bytes; at most LODGE_MESSAGE_STREAM_MAX. */
GBytes *lodge_message_encode_bytes(const LodgeMessageHeader *header, const void *data, gsize bytes);

/**
 * Decode a payload.
 *
 * @xdr    NULL: there is none.
 * @value  zeroed. lodge_message_free() frees what is in it, after a failure too.
 *
 * Returns FALSE with LODGE_ERROR_INPUT when it is not of that layout, is beyond a bound, or too long.
 */
gboolean lodge_message_decode(const void *payload, gsize bytes, xdrproc_t xdr, void *value,
                              GError **error);
/** Free what is in a decoded value, not the value itself. */
void lodge_message_free(xdrproc_t xdr, void *value);

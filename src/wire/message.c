/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Messages between bytes and structures. */
#include "wire/message.h"

#include "common/i18n.h"
#include "common/lodge-error.h"

#include <string.h>

#define HEADER_WORDS (LODGE_MESSAGE_HEADER_BYTES / sizeof(guint32))

gboolean lodge_message_parse(const guint8 *bytes, LodgeMessageHeader *header_out,
                             guint32 *length_out, GError **error)
{
    guint32 words[HEADER_WORDS];

    memcpy(words, bytes, sizeof(words));
    for (gsize i = 0; i < HEADER_WORDS; i++) {
        words[i] = GUINT32_FROM_BE(words[i]);
    }
    *length_out = words[0];
    *header_out = (LodgeMessageHeader){
        .program = words[1],
        .version = words[2],
        .procedure = words[3],
        .type = words[4],
        .serial = words[5],
        .status = words[6],
    };
    if (words[0] < LODGE_MESSAGE_HEADER_BYTES || words[0] > LODGE_MESSAGE_BYTES_MAX) {
        return lodge_error_refuse(error,
                                  _("A message says that it has %u bytes; it can have %u to %u"),
                                  words[0], LODGE_MESSAGE_HEADER_BYTES, LODGE_MESSAGE_BYTES_MAX);
    }
    return TRUE;
}

static void put_header(const LodgeMessageHeader *header, guint8 *bytes, guint32 length)
{
    const guint32 words[HEADER_WORDS] = {
        GUINT32_TO_BE(length),          GUINT32_TO_BE(header->program),
        GUINT32_TO_BE(header->version), GUINT32_TO_BE(header->procedure),
        GUINT32_TO_BE(header->type),    GUINT32_TO_BE(header->serial),
        GUINT32_TO_BE(header->status),
    };

    memcpy(bytes, words, sizeof(words));
}

GBytes *lodge_message_encode(const LodgeMessageHeader *header, xdrproc_t xdr, const void *value,
                             GError **error)
{
    /* XDR's functions take what they encode as if they might change it; they do not. */
    void *subject = (void *)value;
    gulong payload = xdr ? xdr_sizeof(xdr, subject) : 0;
    gsize length = LODGE_MESSAGE_HEADER_BYTES + payload;
    g_autofree guint8 *bytes = NULL;

    if (length > LODGE_MESSAGE_BYTES_MAX) {
        g_set_error(error, LODGE_ERROR, LODGE_ERROR_FAILED,
                    _("The answer has %" G_GSIZE_FORMAT " bytes; a message can have %u"), length,
                    LODGE_MESSAGE_BYTES_MAX);
        return NULL;
    }
    bytes = g_malloc(length);
    put_header(header, bytes, (guint32)length);
    if (xdr) {
        XDR stream;
        gboolean good;

        xdrmem_create(&stream, (char *)bytes + LODGE_MESSAGE_HEADER_BYTES, (u_int)payload,
                      XDR_ENCODE);
        good = xdr(&stream, subject) && xdr_getpos(&stream) == payload;
        xdr_destroy(&stream);
        if (!good) {
            g_set_error(error, LODGE_ERROR, LODGE_ERROR_FAILED,
                        _("The answer holds a text or a list that is longer than libvirt's "
                          "protocol allows"));
            return NULL;
        }
    }
    return g_bytes_new_take(g_steal_pointer(&bytes), length);
}

GBytes *lodge_message_encode_bytes(const LodgeMessageHeader *header, const void *data, gsize bytes)
{
    guint8 *message = g_malloc(LODGE_MESSAGE_HEADER_BYTES + bytes);

    g_assert(bytes <= LODGE_MESSAGE_STREAM_MAX);
    put_header(header, message, (guint32)(LODGE_MESSAGE_HEADER_BYTES + bytes));
    if (bytes > 0) {
        memcpy(message + LODGE_MESSAGE_HEADER_BYTES, data, bytes);
    }
    return g_bytes_new_take(message, LODGE_MESSAGE_HEADER_BYTES + bytes);
}

gboolean lodge_message_decode(const void *payload, gsize bytes, xdrproc_t xdr, void *value,
                              GError **error)
{
    gboolean good = bytes == 0;

    if (xdr) {
        XDR stream;

        xdrmem_create(&stream, (char *)payload, (u_int)bytes, XDR_DECODE);
        good = xdr(&stream, value) && xdr_getpos(&stream) == bytes;
        xdr_destroy(&stream);
    }
    return good || lodge_error_refuse(error,
                                      _("A message's payload of %" G_GSIZE_FORMAT
                                        " bytes has not the layout of its procedure"),
                                      bytes);
}

void lodge_message_free(xdrproc_t xdr, void *value)
{
    if (xdr) {
        xdr_free(xdr, value);
    }
}

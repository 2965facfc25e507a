/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What a client may send, under libFuzzer: bytes are cut into messages however they arrive; a call's
 * arguments are refused, or mean the same when they are written and read again.
 */
#include "wire/message-reader.h"
#include "wire/procedures.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void insist(gboolean condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "%s\n", what);
        __builtin_trap();
    }
}

/* NULL: refused. */
static GBytes *read_and_write(const LodgeMessageHeader *header, xdrproc_t xdr, gsize room,
                              const guint8 *payload, gsize bytes)
{
    g_autofree gpointer value = g_malloc0(MAX(room, 1));
    GBytes *message = NULL;

    if (lodge_message_decode(payload, bytes, xdr, value, NULL)) {
        message = lodge_message_encode(header, xdr, value, NULL);
        insist(message != NULL, "what was read cannot be written");
    }
    lodge_message_free(xdr, value);
    return message;
}

static void check_layout(const LodgeMessageHeader *header, xdrproc_t xdr, gsize room,
                         const guint8 *payload, gsize bytes)
{
    g_autoptr(GBytes) once = read_and_write(header, xdr, room, payload, bytes);
    g_autoptr(GBytes) twice = NULL;

    if (once) {
        gsize length;
        const guint8 *text = g_bytes_get_data(once, &length);

        /* Not longer: what is not there was not made up. */
        insist(length <= LODGE_MESSAGE_HEADER_BYTES + bytes, "it grew");
        twice = read_and_write(header, xdr, room, text + LODGE_MESSAGE_HEADER_BYTES,
                               length - LODGE_MESSAGE_HEADER_BYTES);
        insist(twice && g_bytes_equal(once, twice), "the second time it means something else");
    }
}

static void take(const LodgeMessageHeader *header, const guint8 *payload, gsize bytes)
{
    const LodgeProcedure *procedure = lodge_procedure_find(header->program, header->procedure);
    /* A copy of exactly this size, so that a read beyond it is seen. */
    g_autofree guint8 *copy = g_memdup2(payload, bytes);

    if (procedure) {
        check_layout(header, procedure->args_xdr, procedure->args_bytes, copy, bytes);
        check_layout(header, procedure->ret_xdr, procedure->ret_bytes, copy, bytes);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    LodgeReaderResult result = LODGE_READER_MORE;
    LodgeMessageReader reader;
    gsize step = size > 0 ? 1 + data[0] : 1;

    lodge_message_reader_init(&reader);
    for (gsize at = 1; at < size && result != LODGE_READER_BAD; at += step) {
        lodge_message_reader_feed(&reader, data + at, MIN(step, size - at));
        /* After an odd first byte, one comes with each piece. */
        if ((data[0] & 1) && !lodge_message_reader_feed_fd(&reader, dup(STDERR_FILENO))) {
            break;
        }
        do {
            LodgeMessageHeader header;
            const guint8 *payload;
            gsize bytes;

            result = lodge_message_reader_next(&reader, &header, &payload, &bytes, NULL);
            if (result == LODGE_READER_MESSAGE) {
                g_autoptr(GUnixFDList) fds = lodge_message_reader_steal_fds(&reader);

                insist(!fds || header.type == LODGE_MESSAGE_CALL_WITH_FDS ||
                           header.type == LODGE_MESSAGE_REPLY_WITH_FDS,
                       "descriptors of a message that has none");
                insist(bytes + LODGE_MESSAGE_HEADER_BYTES <= LODGE_MESSAGE_BYTES_MAX, "too long");
                take(&header, payload, bytes);
            }
        } while (result == LODGE_READER_MESSAGE);
    }
    lodge_message_reader_finish(&reader);
    return 0;
}

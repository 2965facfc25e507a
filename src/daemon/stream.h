/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A stream of a client: a console, or a feed of statistics.
 *
 *     call, reply -> OPEN --(the machine has ended: an empty packet)--> ENDED --(client: OK)--> gone
 *                    OPEN --(client: OK or ERROR, answered by OK)--> gone
 *                    OPEN --(an error goes to the client)--> gone
 *
 * The daemon never sends OK unasked: clients drop the connection for that. Main thread, but for _new.
 */
#pragma once

#include "daemon/instance.h"
#include "wire/message.h"

typedef struct _LodgeClient LodgeClient;
typedef struct _LodgeStream LodgeStream;

/* By what call it came. */
typedef struct {
    guint32 program, procedure, serial;
} LodgeStreamName;

/**
 * A console's stream.
 *
 * @client  borrowed: it has the stream.
 * @force   take it from another reader.
 *
 * Returns NULL with VIR_ERR_OPERATION_FAILED when another reads it. Any thread.
 */
LodgeStream *lodge_stream_new_console(LodgeClient *client, const LodgeStreamName *name,
                                      LodgeInstance *instance, gboolean force, GError **error);
/** A stream with a line of JSON each second: all statistics of the machine, and its core's. */
LodgeStream *lodge_stream_new_feed(LodgeClient *client, const LodgeStreamName *name,
                                   LodgeInstance *instance);
void lodge_stream_free(LodgeStream *stream);

guint32 lodge_stream_serial(const LodgeStream *stream);
void lodge_stream_start(LodgeStream *stream);

/** Send what there is, as long as the client reads. FALSE: it is over, to be freed. */
gboolean lodge_stream_pump(LodgeStream *stream);
/** A message of the client's. FALSE: it is over, to be freed. */
gboolean lodge_stream_take(LodgeStream *stream, guint32 status, const guint8 *data, gsize bytes);

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A machine's serial port, between the guest and at most one reader.
 *
 *     guest --ops--> ring --read--> reader            reader --hv_domain_console_input--> guest
 *
 * Without a reader the ring keeps the last 64 KiB, and the next reader gets what nobody has read
 * yet. With one, the guest waits when the ring is full: nothing is lost on the way to a slow terminal.
 */
#pragma once

#include <glib.h>

struct hv_console_ops;

typedef struct _LodgeConsoleRing LodgeConsoleRing;

/** Something can be read, or no more ever will: called on any thread, must not call back. */
typedef void LodgeConsoleReady(gpointer user_data);

LodgeConsoleRing *lodge_console_ring_new(void);
LodgeConsoleRing *lodge_console_ring_ref(LodgeConsoleRing *ring);
void lodge_console_ring_unref(LodgeConsoleRing *ring);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(LodgeConsoleRing, lodge_console_ring_unref)

/** What to give to hv_domain_create(), with the ring as context. */
extern const struct hv_console_ops lodge_console_ring_ops;

/**
 * Become the reader.
 *
 * @force  take it from the one there is, who then reads LODGE_RING_LOST.
 *
 * Returns a reader's number, not 0; 0 when there is another.
 */
guint lodge_console_ring_open(LodgeConsoleRing *ring, gboolean force, LodgeConsoleReady *ready,
                              gpointer user_data);
/** Stop reading: @ready is not called any more when this returns. TRUE: tell the core to go on. */
gboolean lodge_console_ring_close(LodgeConsoleRing *ring, guint reader);

/**
 * Take nothing from the guest any more: it is the core's to keep for who comes after us. The reader
 * reads on what there is.
 */
void lodge_console_ring_hold(LodgeConsoleRing *ring);

typedef enum {
    LODGE_RING_OPEN,
    LODGE_RING_ENDED, /* all is read, and the guest is gone */
    LODGE_RING_LOST,  /* another has taken it */
} LodgeRingState;

/**
 * Take what there is.
 *
 * @bytes_out   0 when there is nothing now.
 * @resume_out  TRUE: the guest waits for room, and hv_domain_console_writable() lets it go on.
 */
LodgeRingState lodge_console_ring_read(LodgeConsoleRing *ring, guint reader, guint8 *data,
                                       gsize max, gsize *bytes_out, gboolean *resume_out);

/** The guest writes no more. */
void lodge_console_ring_end(LodgeConsoleRing *ring);

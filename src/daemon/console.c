/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The ring behind a machine's serial port. */
#include "daemon/console.h"

#include <hv/domain.h>

#define RING_BYTES 65536u

struct _LodgeConsoleRing {
    gatomicrefcount references;
    GMutex mutex;
    /* Guarded by mutex. */
    guint8 bytes[RING_BYTES];
    guint64 written, read; /* totals; the ring holds the difference */
    gboolean refused;      /* the core was told "less than all" and waits to be called */
    gboolean ended;
    gboolean held;             /* nothing is taken any more */
    guint reader, last_reader; /* 0: nobody reads */
    LodgeConsoleReady *ready;
    gpointer user_data;
};

static void tell_locked(LodgeConsoleRing *ring)
{
    if (ring->reader) {
        ring->ready(ring->user_data);
    }
}

static void put_locked(LodgeConsoleRing *ring, const uint8_t *data, gsize bytes)
{
    for (gsize i = 0; i < bytes; i++) {
        ring->bytes[(ring->written + i) % RING_BYTES] = data[i];
    }
    ring->written += bytes;
}

static size_t take_output(void *context, const uint8_t *data, size_t bytes)
{
    LodgeConsoleRing *ring = context;
    gsize taken = bytes;

    g_mutex_lock(&ring->mutex);
    if (ring->held) {
        taken = 0;
    } else if (ring->reader) {
        taken = MIN(bytes, RING_BYTES - (gsize)(ring->written - ring->read));
        ring->refused = taken < bytes;
    }
    put_locked(ring, data, taken);
    /* Nobody reads: the oldest goes. */
    if (ring->written - ring->read > RING_BYTES) {
        ring->read = ring->written - RING_BYTES;
    }
    tell_locked(ring);
    g_mutex_unlock(&ring->mutex);
    return taken;
}

const struct hv_console_ops lodge_console_ring_ops = {
    .write = take_output,
};

LodgeConsoleRing *lodge_console_ring_new(void)
{
    LodgeConsoleRing *ring = g_new0(LodgeConsoleRing, 1);

    g_atomic_ref_count_init(&ring->references);
    g_mutex_init(&ring->mutex);
    return ring;
}

LodgeConsoleRing *lodge_console_ring_ref(LodgeConsoleRing *ring)
{
    g_atomic_ref_count_inc(&ring->references);
    return ring;
}

void lodge_console_ring_unref(LodgeConsoleRing *ring)
{
    if (ring && g_atomic_ref_count_dec(&ring->references)) {
        g_mutex_clear(&ring->mutex);
        g_free(ring);
    }
}

guint lodge_console_ring_open(LodgeConsoleRing *ring, gboolean force, LodgeConsoleReady *ready,
                              gpointer user_data)
{
    guint reader = 0;

    g_mutex_lock(&ring->mutex);
    if (!ring->reader || force) {
        /* The one before finds out when it reads. */
        tell_locked(ring);
        reader = ++ring->last_reader;
        ring->reader = reader;
        ring->ready = ready;
        ring->user_data = user_data;
        tell_locked(ring);
    }
    g_mutex_unlock(&ring->mutex);
    return reader;
}

gboolean lodge_console_ring_close(LodgeConsoleRing *ring, guint reader)
{
    gboolean resume = FALSE;

    g_mutex_lock(&ring->mutex);
    if (ring->reader == reader) {
        ring->reader = 0;
        resume = ring->refused;
        ring->refused = FALSE;
    }
    g_mutex_unlock(&ring->mutex);
    return resume;
}

void lodge_console_ring_hold(LodgeConsoleRing *ring)
{
    g_mutex_lock(&ring->mutex);
    ring->held = TRUE;
    g_mutex_unlock(&ring->mutex);
}

LodgeRingState lodge_console_ring_read(LodgeConsoleRing *ring, guint reader, guint8 *data,
                                       gsize max, gsize *bytes_out, gboolean *resume_out)
{
    LodgeRingState state = LODGE_RING_OPEN;

    *bytes_out = 0;
    *resume_out = FALSE;
    g_mutex_lock(&ring->mutex);
    if (ring->reader != reader) {
        state = LODGE_RING_LOST;
    } else if (ring->ended && ring->read == ring->written) {
        state = LODGE_RING_ENDED;
    } else {
        *bytes_out = (gsize)MIN(max, ring->written - ring->read);
        for (gsize i = 0; i < *bytes_out; i++) {
            data[i] = ring->bytes[(ring->read + i) % RING_BYTES];
        }
        ring->read += *bytes_out;
        *resume_out = ring->refused && *bytes_out > 0;
        ring->refused &= !*resume_out;
    }
    g_mutex_unlock(&ring->mutex);
    return state;
}

void lodge_console_ring_end(LodgeConsoleRing *ring)
{
    g_mutex_lock(&ring->mutex);
    ring->ended = TRUE;
    tell_locked(ring);
    g_mutex_unlock(&ring->mutex);
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Three positions, and a buffer between them: see console-ring.h. */
#include "control/console-ring.h"

#include <errno.h>
#include <string.h>

#include "base/assert.h"

void hv_console_ring_init(struct hv_console_ring *ring, struct hv_eventcount *news)
{
    ring->news = news;
    hv_lock_init(&ring->lock, HV_RANK_LEAF, "control.console", 0);
}

void hv_console_ring_finish(struct hv_console_ring *ring)
{
    hv_lock_finish(&ring->lock);
}

static uint64_t room_locked(const struct hv_console_ring *ring)
{
    return HV_CONSOLE_RING_BYTES - (ring->written - ring->accepted);
}

/* Copy to, or from, the position. */
static void put_locked(struct hv_console_ring *ring, const uint8_t *data, size_t bytes)
{
    size_t at = ring->written % HV_CONSOLE_RING_BYTES;
    size_t first = bytes < HV_CONSOLE_RING_BYTES - at ? bytes : HV_CONSOLE_RING_BYTES - at;

    memcpy(ring->data + at, data, first);
    memcpy(ring->data, data + first, bytes - first);
    ring->written += bytes;
}

static void get_locked(const struct hv_console_ring *ring, uint8_t *data, size_t bytes)
{
    size_t at = ring->sent % HV_CONSOLE_RING_BYTES;
    size_t first = bytes < HV_CONSOLE_RING_BYTES - at ? bytes : HV_CONSOLE_RING_BYTES - at;

    memcpy(data, ring->data + at, first);
    memcpy(data + first, ring->data, bytes - first);
}

/* Nobody will ever take the oldest. */
static void make_room_locked(struct hv_console_ring *ring, size_t bytes)
{
    uint64_t room = room_locked(ring);

    if (room < bytes) {
        ring->accepted += bytes - room;
        ring->sent = ring->accepted;
    }
}

static size_t write_ring(void *context, const uint8_t *data, size_t bytes)
{
    struct hv_console_ring *ring = context;
    size_t taken = bytes < HV_CONSOLE_RING_BYTES ? bytes : HV_CONSOLE_RING_BYTES;
    bool news;

    hv_lock_take(&ring->lock);
    if (!ring->attached) {
        make_room_locked(ring, taken);
    } else if (taken > room_locked(ring)) {
        taken = room_locked(ring);
    }
    put_locked(ring, data, taken);
    ring->refused = taken < bytes;
    news = ring->attached;
    hv_lock_drop(&ring->lock);
    if (news) {
        hv_eventcount_signal(ring->news);
    }
    return taken;
}

const struct hv_console_ops hv_console_ring_ops = {.write = write_ring};

uint64_t hv_console_ring_attach(struct hv_console_ring *ring)
{
    uint64_t position;

    hv_lock_take(&ring->lock);
    ring->attached = true;
    ring->sent = ring->accepted;
    position = ring->sent;
    hv_lock_drop(&ring->lock);
    hv_eventcount_signal(ring->news);
    return position;
}

bool hv_console_ring_detach(struct hv_console_ring *ring)
{
    bool writable;

    hv_lock_take(&ring->lock);
    ring->attached = false;
    ring->sent = ring->accepted;
    writable = ring->refused;
    ring->refused = false;
    hv_lock_drop(&ring->lock);
    return writable;
}

static uint64_t window_locked(const struct hv_console_ring *ring)
{
    return ring->attached ? HV_OP_CONSOLE_WINDOW - (ring->sent - ring->accepted) : 0;
}

bool hv_console_ring_take(struct hv_console_ring *ring, struct hv_op_console *console)
{
    uint64_t bytes;

    hv_lock_take(&ring->lock);
    HV_ASSERT(ring->accepted <= ring->sent && ring->sent <= ring->written);
    bytes = ring->written - ring->sent;
    bytes = bytes < window_locked(ring) ? bytes : window_locked(ring);
    bytes = bytes < HV_OP_CONSOLE_BYTES ? bytes : HV_OP_CONSOLE_BYTES;
    console->position = ring->sent;
    console->bytes = (uint32_t)bytes;
    console->reserved = 0;
    get_locked(ring, console->data, bytes);
    ring->sent += bytes;
    hv_lock_drop(&ring->lock);
    return bytes > 0;
}

uint64_t hv_console_ring_written(struct hv_console_ring *ring)
{
    uint64_t written;

    hv_lock_take(&ring->lock);
    written = ring->written;
    hv_lock_drop(&ring->lock);
    return written;
}

bool hv_console_ring_owes(struct hv_console_ring *ring, uint64_t position)
{
    bool owes;

    hv_lock_take(&ring->lock);
    owes = ring->sent < position && window_locked(ring) > 0;
    hv_lock_drop(&ring->lock);
    return owes;
}

int hv_console_ring_accept(struct hv_console_ring *ring, uint64_t position, bool *writable_out)
{
    int rc = 0;

    *writable_out = false;
    hv_lock_take(&ring->lock);
    if (position > ring->sent) {
        rc = -EINVAL;
    } else if (position > ring->accepted) {
        ring->accepted = position;
        *writable_out = ring->refused;
        ring->refused = false;
    }
    hv_lock_drop(&ring->lock);
    if (rc == 0) {
        hv_eventcount_signal(ring->news);
    }
    return rc;
}

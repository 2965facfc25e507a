/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A machine's output between the machine and who takes it. */
#include "control/console-ring.h"

#include "lib/tap.h"

#include <errno.h>
#include <string.h>

static struct hv_eventcount news;
static struct hv_console_ring ring;
static struct hv_op_console console;

static void make(void)
{
    memset(&ring, 0, sizeof(ring));
    hv_eventcount_init(&news);
    hv_console_ring_init(&ring, &news);
}

/* The byte at each position. */
static uint8_t byte_at(uint64_t position)
{
    return (uint8_t)(position * 7 + position / 251);
}

static size_t write_bytes(size_t bytes)
{
    uint8_t data[997];
    size_t written = 0;

    while (written < bytes) {
        size_t part = bytes - written < sizeof(data) ? bytes - written : sizeof(data);
        size_t taken;

        for (size_t i = 0; i < part; i++) {
            data[i] = byte_at(ring.written + i);
        }
        taken = hv_console_ring_ops.write(&ring, data, part);
        written += taken;
        if (taken < part) {
            break;
        }
    }
    return written;
}

static bool is_right(void)
{
    for (uint32_t i = 0; i < console.bytes; i++) {
        if (console.data[i] != byte_at(console.position + i)) {
            return false;
        }
    }
    return console.reserved == 0;
}

static void test_window(void)
{
    uint64_t position = 0;
    bool writable;

    make();
    TAP_EQ(hv_console_ring_attach(&ring), 0u);
    TAP_OK(!hv_console_ring_take(&ring, &console));
    /* Attached: full, it takes no more. */
    TAP_EQ(write_bytes(3 * HV_CONSOLE_RING_BYTES), HV_CONSOLE_RING_BYTES);
    while (hv_console_ring_take(&ring, &console)) {
        TAP_EQ(console.position, position);
        TAP_OK(console.bytes > 0 && console.bytes <= HV_OP_CONSOLE_BYTES && is_right());
        position += console.bytes;
    }
    TAP_EQ(position, HV_OP_CONSOLE_WINDOW);
    TAP_OK(!hv_console_ring_owes(&ring, ring.written));
    /* What was never sent cannot have arrived. */
    TAP_EQ(hv_console_ring_accept(&ring, position + 1, &writable), -EINVAL);
    TAP_EQ(hv_console_ring_accept(&ring, UINT64_MAX, &writable), -EINVAL);
    TAP_EQ(hv_console_ring_accept(&ring, 100, &writable), 0);
    TAP_OK(writable);
    /* Older news is none. */
    TAP_EQ(hv_console_ring_accept(&ring, 99, &writable), 0);
    TAP_OK(!writable);
    TAP_EQ(write_bytes(1000), 100u);
    TAP_OK(hv_console_ring_owes(&ring, ring.written));
    TAP_OK(hv_console_ring_take(&ring, &console));
    TAP_EQ(console.position, position);
    TAP_EQ(console.bytes, 100u);
    hv_console_ring_finish(&ring);
}

static void test_wrap(void)
{
    uint64_t taken = 0;
    bool writable;

    make();
    hv_console_ring_attach(&ring);
    while (taken < 5 * HV_CONSOLE_RING_BYTES) {
        TAP_EQ(write_bytes(1777), 1777u);
        while (hv_console_ring_take(&ring, &console)) {
            TAP_OK(is_right());
            taken = console.position + console.bytes;
            TAP_EQ(hv_console_ring_accept(&ring, taken, &writable), 0);
        }
        TAP_EQ(taken, ring.written);
    }
    hv_console_ring_finish(&ring);
}

/* Nobody takes it: the machine does not wait, and the latest is kept. */
static void test_detached(void)
{
    bool writable;

    make();
    TAP_EQ(write_bytes(HV_CONSOLE_RING_BYTES + 1234), HV_CONSOLE_RING_BYTES + 1234u);
    TAP_OK(!hv_console_ring_take(&ring, &console));
    TAP_OK(!hv_console_ring_owes(&ring, ring.written));
    TAP_EQ(hv_console_ring_attach(&ring), 1234u);
    TAP_OK(hv_console_ring_take(&ring, &console));
    TAP_EQ(console.position, 1234u);
    TAP_OK(is_right());
    /* It went away before it said that it has them; the machine was waiting. */
    TAP_EQ(write_bytes(1), 0u);
    TAP_OK(hv_console_ring_detach(&ring));
    TAP_OK(!hv_console_ring_detach(&ring));
    TAP_EQ(hv_console_ring_attach(&ring), 1234u);
    TAP_OK(hv_console_ring_take(&ring, &console));
    TAP_EQ(console.position, 1234u);
    TAP_EQ(hv_console_ring_accept(&ring, 1234 + console.bytes, &writable), 0);
    TAP_OK(!writable);
    hv_console_ring_finish(&ring);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"control.console-ring.window", test_window},
        {"control.console-ring.wrap", test_wrap},
        {"control.console-ring.detached", test_detached},
    };
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

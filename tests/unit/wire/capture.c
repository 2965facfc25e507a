/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One text, under a mutex: see capture.h. */
#include "capture.h"

#include <string.h>

static struct {
    GMutex mutex;
    /* Guarded by the mutex. */
    GString *output;
    gsize room;
} captured;

static size_t take(void *context, const uint8_t *data, size_t bytes)
{
    gsize taken;

    (void)context;
    g_mutex_lock(&captured.mutex);
    taken = MIN(bytes, captured.room);
    captured.room -= taken;
    g_string_append_len(captured.output, (const char *)data, (gssize)taken);
    g_mutex_unlock(&captured.mutex);
    return taken;
}

const struct hv_console_ops capture_ops = {.write = take};

void capture_begin(gsize room)
{
    g_mutex_lock(&captured.mutex);
    if (captured.output) {
        g_string_free(captured.output, TRUE);
    }
    captured.output = g_string_new("");
    captured.room = room;
    g_mutex_unlock(&captured.mutex);
}

void capture_set_room(gsize room)
{
    g_mutex_lock(&captured.mutex);
    captured.room = room;
    g_mutex_unlock(&captured.mutex);
}

bool capture_is(const char *text)
{
    bool is;

    g_mutex_lock(&captured.mutex);
    is = strcmp(captured.output->str, text) == 0;
    g_mutex_unlock(&captured.mutex);
    return is;
}

bool capture_holds(const char *text)
{
    bool holds;

    g_mutex_lock(&captured.mutex);
    holds = strstr(captured.output->str, text) != NULL;
    g_mutex_unlock(&captured.mutex);
    return holds;
}

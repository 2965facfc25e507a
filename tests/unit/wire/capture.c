/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One text, under a mutex, which is not GLib's: ThreadSanitizer does not see those. See capture.h. */
#include "capture.h"

#include <pthread.h>
#include <string.h>

static struct {
    pthread_mutex_t mutex;
    /* Guarded by the mutex. */
    GString *output;
    gsize room;
} captured = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static size_t take(void *context, const uint8_t *data, size_t bytes)
{
    gsize taken;

    (void)context;
    pthread_mutex_lock(&captured.mutex);
    taken = MIN(bytes, captured.room);
    captured.room -= taken;
    g_string_append_len(captured.output, (const char *)data, (gssize)taken);
    pthread_mutex_unlock(&captured.mutex);
    return taken;
}

const struct hv_console_ops capture_ops = {.write = take};

void capture_begin(gsize room)
{
    pthread_mutex_lock(&captured.mutex);
    if (captured.output) {
        g_string_free(captured.output, TRUE);
    }
    captured.output = g_string_new("");
    captured.room = room;
    pthread_mutex_unlock(&captured.mutex);
}

void capture_set_room(gsize room)
{
    pthread_mutex_lock(&captured.mutex);
    captured.room = room;
    pthread_mutex_unlock(&captured.mutex);
}

bool capture_is(const char *text)
{
    bool is;

    pthread_mutex_lock(&captured.mutex);
    is = strcmp(captured.output->str, text) == 0;
    pthread_mutex_unlock(&captured.mutex);
    return is;
}

bool capture_holds(const char *text)
{
    bool holds;

    pthread_mutex_lock(&captured.mutex);
    holds = strstr(captured.output->str, text) != NULL;
    pthread_mutex_unlock(&captured.mutex);
    return holds;
}

/* ---- the slow one ---- */

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    /* Guarded by the mutex. */
    bool begun, may_take;
    int taken;
} slow = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static size_t take_slowly(void *context, const uint8_t *data, size_t bytes)
{
    (void)context, (void)data;
    pthread_mutex_lock(&slow.mutex);
    slow.begun = true;
    while (!slow.may_take) {
        pthread_cond_wait(&slow.changed, &slow.mutex);
    }
    slow.taken++;
    pthread_mutex_unlock(&slow.mutex);
    return MIN(bytes, 1);
}

const struct hv_console_ops capture_slow_ops = {.write = take_slowly};

bool capture_slow_begun(void)
{
    bool begun;

    pthread_mutex_lock(&slow.mutex);
    begun = slow.begun;
    pthread_mutex_unlock(&slow.mutex);
    return begun;
}

void capture_slow_go(void)
{
    pthread_mutex_lock(&slow.mutex);
    slow.may_take = true;
    pthread_cond_signal(&slow.changed);
    pthread_mutex_unlock(&slow.mutex);
}

int capture_slow_taken(void)
{
    int taken;

    pthread_mutex_lock(&slow.mutex);
    taken = slow.taken;
    pthread_mutex_unlock(&slow.mutex);
    return taken;
}

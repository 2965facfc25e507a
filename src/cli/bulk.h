/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * One verb on many machines at once.
 *
 *     waiting --a worker takes it--> begun --act--> done | not needed | failed
 *        \--Ctrl-C--> not begun
 *
 * Workers are threads, as many as wished and not more than there are machines. The main thread runs
 * the default main context: it hears signals, draws the progress, and prints each result as it comes.
 * After a first SIGINT, SIGTERM or SIGHUP nothing more is begun and what has begun is waited for; a second
 * leaves it as it is. Either way the last line says what was done. For programs there are no lines but an
 * array in the end, an object for each item in their order:
 *
 *     {"name": "web", "outcome": "failed", "error": "cannot be started: …"}
 *
 * where the outcome is done, not-needed, failed, not-begun or, after a second signal, left.
 */
#pragma once

#include <glib.h>

typedef struct LodgeBulk LodgeBulk;

typedef enum {
    LODGE_BULK_NOT_BEGUN,
    LODGE_BULK_DONE,
    LODGE_BULK_NOT_NEEDED, /* it does not apply, which the error says: no failure */
    LODGE_BULK_FAILED,     /* why: the error */
} LodgeBulkOutcome;

typedef struct {
    /* Marked by N_(). */
    const char *doing; /* beside the bar: "starting" */
    const char *done;  /* "web: started", and in the end "7 of 10 started" */
    /**
     * Do it, on a worker.
     *
     * @error  set unless LODGE_BULK_DONE; it does not name the machine.
     */
    LodgeBulkOutcome (*act)(LodgeBulk *bulk, gpointer item, gpointer user_data, GError **error);
    /** What lines call the item. Borrowed. */
    const char *(*label)(gpointer item);
    /** Around it all, on the main thread: to hear what ends a lodge_bulk_sleep(). May be NULL. */
    void (*begin)(LodgeBulk *bulk, gpointer user_data);
    void (*end)(LodgeBulk *bulk, gpointer user_data);
    gboolean json; /* for programs */
} LodgeBulkVerb;

/**
 * Do it to all.
 *
 * @items  borrowed.
 * @jobs   at a time, at least 1.
 *
 * Returns an exit status: LODGE_EXIT_OK when none has failed, LODGE_EXIT_FAILED, or
 * LODGE_EXIT_SIGNAL and the signal's number when somebody interrupted it. Has said what it did.
 * Context: the main thread.
 */
int lodge_bulk_run(const LodgeBulkVerb *verb, GPtrArray *items, guint jobs, gpointer user_data);

/** How often lodge_bulk_wake() was called: to be read before one looks, and slept on after. */
guint lodge_bulk_turn(LodgeBulk *bulk);
/** End every lodge_bulk_sleep(): what they wait for may have come. Any thread. */
void lodge_bulk_wake(LodgeBulk *bulk);
/**
 * Sleep until lodge_bulk_wake() has been called since @turn, or @until (g_get_monotonic_time()).
 *
 * Returns FALSE when somebody interrupted: it is not to be waited any longer.
 */
gboolean lodge_bulk_sleep(LodgeBulk *bulk, guint turn, gint64 until);

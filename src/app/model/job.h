/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Something that is done to many, LODGE_JOB_PARALLEL at a time, in workers; and what came of it.
 *
 *     (new) --run--> RUNNING --(the last has ended)--> ENDED
 *
 * Cancelling takes no more of those that have not begun, and waits for the others. A failure of one
 * does not stop the rest.
 *
 * Properties, read only: "title", "running", "fraction" (0 to 1), "detail" (how far, how fast, how
 * long still), "failures" (a line each that failed, or NULL). Signal "ended".
 * Context: main thread, but for LodgeJobWork.
 */
#pragma once

#include <gio/gio.h>

#define LODGE_JOB_PARALLEL 8u

#define LODGE_TYPE_JOB     (lodge_job_get_type())
G_DECLARE_FINAL_TYPE(LodgeJob, lodge_job, LODGE, JOB, GObject)

/* What is done to one item, in a worker, which may wait. FALSE with an error. */
typedef gboolean LodgeJobWork(gpointer item, GError **error);

typedef struct {
    LodgeJobWork *work;
    const char *(*label)(gpointer item); /* borrowed from the item */
    /* In the main thread, after each, and for each that was not begun; or NULL. */
    void (*done)(gpointer item, gboolean good);
} LodgeJobKind;

/**
 * @items  with the function that frees each; moved in.
 * @kind   static.
 */
LodgeJob *lodge_job_new(const char *title, const LodgeJobKind *kind, GPtrArray *items);
/** Begin; it keeps itself alive until it has ended. */
void lodge_job_run(LodgeJob *job);
void lodge_job_cancel(LodgeJob *job);

/** Borrowed. */
const char *lodge_job_get_title(LodgeJob *job);
const char *lodge_job_get_detail(LodgeJob *job);
const char *lodge_job_get_failures(LodgeJob *job);
gboolean lodge_job_is_running(LodgeJob *job);
gdouble lodge_job_get_fraction(LodgeJob *job);
/** Items that ended well. */
guint lodge_job_get_good(LodgeJob *job);
/** How long it took, or has taken. */
gint64 lodge_job_get_span_us(LodgeJob *job);

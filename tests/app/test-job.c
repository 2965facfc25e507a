/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Jobs: how many at a time, failures, cancelling, and what they say. */
#include "app/model/job.h"

#include "loop.h"

#include <gio/gio.h>

#include <locale.h>

typedef struct {
    GMutex mutex;
    GCond changed;
    /* Guarded by mutex. */
    guint working, most;
    gboolean held;
    /* Main thread. */
    guint done, undone;
} Watch;

typedef struct {
    Watch *watch;
    gboolean fails;
    char name[16];
} Thing;

static gboolean work(gpointer item, GError **error)
{
    Thing *thing = item;
    Watch *watch = thing->watch;

    g_mutex_lock(&watch->mutex);
    watch->working++;
    watch->most = MAX(watch->most, watch->working);
    g_cond_broadcast(&watch->changed);
    while (watch->held) {
        g_cond_wait(&watch->changed, &watch->mutex);
    }
    watch->working--;
    g_mutex_unlock(&watch->mutex);
    if (thing->fails) {
        g_set_error_literal(error, G_IO_ERROR, G_IO_ERROR_FAILED, "it would not");
    }
    return !thing->fails;
}

static const char *label(gpointer item)
{
    return ((Thing *)item)->name;
}

static void done(gpointer item, gboolean good)
{
    Watch *watch = ((Thing *)item)->watch;

    watch->done += good;
    watch->undone += !good;
}

static const LodgeJobKind kind = {.work = work, .label = label, .done = done};

static GPtrArray *things(Watch *watch, guint count, guint failing)
{
    GPtrArray *all = g_ptr_array_new_with_free_func(g_free);

    for (guint i = 0; i < count; i++) {
        Thing *thing = g_new0(Thing, 1);

        thing->watch = watch;
        thing->fails = i < failing;
        g_snprintf(thing->name, sizeof(thing->name), "thing-%u", i);
        g_ptr_array_add(all, thing);
    }
    return all;
}

static void hold(Watch *watch, gboolean held)
{
    g_mutex_lock(&watch->mutex);
    watch->held = held;
    g_cond_broadcast(&watch->changed);
    g_mutex_unlock(&watch->mutex);
}

/* Wait until so many are at work. */
static void await(Watch *watch, guint count)
{
    g_mutex_lock(&watch->mutex);
    while (watch->working < count) {
        g_cond_wait(&watch->changed, &watch->mutex);
    }
    g_mutex_unlock(&watch->mutex);
}

static void count_end(LodgeJob *job, guint *ends)
{
    (void)job;
    (*ends)++;
}

static void test_all(void)
{
    Watch watch = {.held = TRUE};
    g_autoptr(LodgeJob) job = lodge_job_new("All", &kind, things(&watch, 20, 0));
    guint ends = 0;

    g_signal_connect(job, "ended", G_CALLBACK(count_end), &ends);
    lodge_job_run(job);
    await(&watch, LODGE_JOB_PARALLEL);
    hold(&watch, FALSE);
    LOOP_UNTIL(ends > 0);
    g_assert_false(lodge_job_is_running(job));
    g_assert_cmpuint(watch.most, ==, LODGE_JOB_PARALLEL);
    g_assert_cmpuint(watch.done, ==, 20);
    g_assert_cmpuint(lodge_job_get_good(job), ==, 20);
    g_assert_cmpstr(lodge_job_get_detail(job), ==, "20 of 20");
    g_assert_cmpfloat(lodge_job_get_fraction(job), ==, 1);
    g_assert_null(lodge_job_get_failures(job));
    g_assert_cmpuint(ends, ==, 1);
}

static void test_failures(void)
{
    Watch watch = {0};
    g_autoptr(LodgeJob) job = lodge_job_new("Some", &kind, things(&watch, 10, 2));

    lodge_job_run(job);
    LOOP_UNTIL(!lodge_job_is_running(job));
    g_assert_cmpuint(watch.done, ==, 8);
    g_assert_cmpuint(watch.undone, ==, 2);
    g_assert_cmpstr(lodge_job_get_detail(job), ==, "8 of 10 · 2 failed");
    g_assert_nonnull(strstr(lodge_job_get_failures(job), "thing-0: it would not"));
    g_assert_nonnull(strstr(lodge_job_get_failures(job), "thing-1: it would not"));
}

/* What has begun is waited for, nothing else begins, and those are told of, too. */
static void test_cancel(void)
{
    Watch watch = {.held = TRUE};
    g_autoptr(LodgeJob) job = lodge_job_new("Few", &kind, things(&watch, 20, 0));

    lodge_job_run(job);
    await(&watch, LODGE_JOB_PARALLEL);
    lodge_job_cancel(job);
    g_assert_true(lodge_job_is_running(job));
    g_assert_nonnull(strstr(lodge_job_get_detail(job), "waiting for what has begun"));
    hold(&watch, FALSE);
    LOOP_UNTIL(!lodge_job_is_running(job));
    g_assert_cmpuint(watch.done, ==, LODGE_JOB_PARALLEL);
    g_assert_cmpuint(watch.undone, ==, 20 - LODGE_JOB_PARALLEL);
    g_assert_cmpstr(lodge_job_get_detail(job), ==, "8 of 20 · 12 not begun");
}

static void test_alone(void)
{
    Watch watch = {.held = TRUE};
    LodgeJob *job = lodge_job_new("Alone", &kind, things(&watch, 1, 0));
    gpointer weak = job;

    g_object_add_weak_pointer(G_OBJECT(job), &weak);
    lodge_job_run(job);
    g_object_unref(job);
    await(&watch, 1);
    g_assert_nonnull(weak);
    hold(&watch, FALSE);
    LOOP_UNTIL(weak == NULL);
    g_assert_cmpuint(watch.done, ==, 1);
}

int main(int argc, char **argv)
{
    setlocale(LC_ALL, "");
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/app/job/all", test_all);
    g_test_add_func("/app/job/failures", test_failures);
    g_test_add_func("/app/job/cancel", test_cancel);
    g_test_add_func("/app/job/alone", test_alone);
    return g_test_run();
}

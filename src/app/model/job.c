/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Items go to workers one by one, and come back to the main thread, which gives out the next. */
#include "app/model/job.h"

#include "app/model/worker.h"
#include "common/i18n.h"
#include "config/text.h"

#define LABEL_CHARS 64u

struct _LodgeJob {
    GObject parent_instance;
    char *title, *detail;
    const LodgeJobKind *kind;
    GPtrArray *items;
    guint next, ended, good;
    gboolean running, cancelled;
    GString *failures;
    gint64 began_us, ended_us;
};

enum { PROP_0, PROP_TITLE, PROP_RUNNING, PROP_FRACTION, PROP_DETAIL, PROP_FAILURES, N_PROPS };

static GParamSpec *properties[N_PROPS];
static guint ended_signal;

G_DEFINE_FINAL_TYPE(LodgeJob, lodge_job, G_TYPE_OBJECT)

static void get_property(GObject *object, guint id, GValue *value, GParamSpec *spec)
{
    LodgeJob *job = LODGE_JOB(object);

    switch (id) {
    case PROP_TITLE:
        g_value_set_string(value, job->title);
        break;
    case PROP_RUNNING:
        g_value_set_boolean(value, job->running);
        break;
    case PROP_FRACTION:
        g_value_set_double(value, lodge_job_get_fraction(job));
        break;
    case PROP_DETAIL:
        g_value_set_string(value, job->detail);
        break;
    case PROP_FAILURES:
        g_value_set_string(value, lodge_job_get_failures(job));
        break;
    default:
        G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, spec);
    }
}

static void finalize(GObject *object)
{
    LodgeJob *job = LODGE_JOB(object);

    g_free(job->title);
    g_free(job->detail);
    g_string_free(job->failures, TRUE);
    g_ptr_array_unref(job->items);
    G_OBJECT_CLASS(lodge_job_parent_class)->finalize(object);
}

static void lodge_job_class_init(LodgeJobClass *class)
{
    GObjectClass *object_class = G_OBJECT_CLASS(class);
    const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS;

    object_class->get_property = get_property;
    object_class->finalize = finalize;
    properties[PROP_TITLE] = g_param_spec_string("title", NULL, NULL, NULL, flags);
    properties[PROP_RUNNING] = g_param_spec_boolean("running", NULL, NULL, FALSE, flags);
    properties[PROP_FRACTION] = g_param_spec_double("fraction", NULL, NULL, 0, 1, 0, flags);
    properties[PROP_DETAIL] = g_param_spec_string("detail", NULL, NULL, NULL, flags);
    properties[PROP_FAILURES] = g_param_spec_string("failures", NULL, NULL, NULL, flags);
    g_object_class_install_properties(object_class, N_PROPS, properties);
    ended_signal = g_signal_new("ended", LODGE_TYPE_JOB, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL,
                                G_TYPE_NONE, 0);
}

static void lodge_job_init(LodgeJob *job)
{
    job->failures = g_string_new(NULL);
}

/* "12 of 20 · 3.4 a second · 3 s left"; at the end what came of it. */
static void set_detail(LodgeJob *job)
{
    gdouble span_s = (gdouble)lodge_job_get_span_us(job) / G_TIME_SPAN_SECOND;
    gdouble rate = span_s > 0 ? job->ended / span_s : 0;
    guint failed = job->ended - job->good;
    g_autoptr(GString) text = g_string_new(NULL);

    g_string_append_printf(text, _("%u of %u"), job->running ? job->ended : job->good,
                           job->items->len);
    if (job->running && job->cancelled) {
        g_string_append_printf(text, " · %s", _("waiting for what has begun"));
    } else if (job->running && rate > 0) {
        g_string_append_printf(text, _(" · %.1f a second · %.0f s left"), rate,
                               (job->items->len - job->ended) / rate);
    }
    if (failed > 0) {
        g_string_append_printf(text, _(" · %u failed"), failed);
    }
    if (!job->running && job->ended < job->items->len) {
        g_string_append_printf(text, _(" · %u not begun"), job->items->len - job->ended);
    }
    g_free(job->detail);
    job->detail = g_strdup(text->str);
    g_object_notify_by_pspec(G_OBJECT(job), properties[PROP_DETAIL]);
    g_object_notify_by_pspec(G_OBJECT(job), properties[PROP_FRACTION]);
}

static void add_failure(LodgeJob *job, gpointer item, const GError *error)
{
    g_autofree char *label = lodge_text_show(job->kind->label(item), LABEL_CHARS);

    g_string_append_printf(job->failures, "%s%s: %s", job->failures->len ? "\n" : "", label,
                           error->message);
    g_object_notify_by_pspec(G_OBJECT(job), properties[PROP_FAILURES]);
}

static void work(GTask *task, gpointer source, gpointer data, GCancellable *cancellable)
{
    LodgeJob *job = source;
    GError *error = NULL;

    (void)cancellable;
    if (job->kind->work(data, &error)) {
        g_task_return_boolean(task, TRUE);
    } else {
        g_task_return_error(task, error);
    }
}

static guint under_way(const LodgeJob *job)
{
    return job->next - job->ended;
}

static void tell_done(LodgeJob *job, gpointer item, gboolean good)
{
    if (job->kind->done) {
        job->kind->done(item, good);
    }
}

static void on_one(GObject *object, GAsyncResult *result, gpointer user_data);

static void give_out(LodgeJob *job)
{
    while (!job->cancelled && job->next < job->items->len && under_way(job) < LODGE_JOB_PARALLEL) {
        GTask *task = g_task_new(job, NULL, on_one, NULL);

        g_task_set_task_data(task, g_ptr_array_index(job->items, job->next++), NULL);
        lodge_worker_run(task, work);
    }
    if (under_way(job) == 0 && job->running) {
        for (guint i = job->next; i < job->items->len; i++) {
            tell_done(job, g_ptr_array_index(job->items, i), FALSE);
        }
        job->ended_us = g_get_monotonic_time();
        job->running = FALSE;
        set_detail(job);
        g_object_notify_by_pspec(G_OBJECT(job), properties[PROP_RUNNING]);
        g_signal_emit(job, ended_signal, 0);
        g_object_unref(job);
    }
}

static void on_one(GObject *object, GAsyncResult *result, gpointer user_data)
{
    g_autoptr(LodgeJob) job = g_object_ref(LODGE_JOB(object));
    gpointer item = g_task_get_task_data(G_TASK(result));
    g_autoptr(GError) error = NULL;

    (void)user_data;
    job->ended++;
    if (g_task_propagate_boolean(G_TASK(result), &error)) {
        job->good++;
    } else {
        add_failure(job, item, error);
    }
    tell_done(job, item, error == NULL);
    set_detail(job);
    give_out(job);
}

LodgeJob *lodge_job_new(const char *title, const LodgeJobKind *kind, GPtrArray *items)
{
    LodgeJob *job = g_object_new(LODGE_TYPE_JOB, NULL);

    job->title = g_strdup(title);
    job->kind = kind;
    job->items = items;
    return job;
}

void lodge_job_run(LodgeJob *job)
{
    g_return_if_fail(LODGE_IS_JOB(job) && !job->began_us);

    g_object_ref(job);
    job->began_us = g_get_monotonic_time();
    job->running = TRUE;
    g_object_notify_by_pspec(G_OBJECT(job), properties[PROP_RUNNING]);
    set_detail(job);
    give_out(job);
}

void lodge_job_cancel(LodgeJob *job)
{
    g_return_if_fail(LODGE_IS_JOB(job));

    if (job->running && !job->cancelled) {
        job->cancelled = TRUE;
        set_detail(job);
    }
}

const char *lodge_job_get_title(LodgeJob *job)
{
    return job->title;
}

const char *lodge_job_get_detail(LodgeJob *job)
{
    return job->detail;
}

const char *lodge_job_get_failures(LodgeJob *job)
{
    return job->failures->len > 0 ? job->failures->str : NULL;
}

gboolean lodge_job_is_running(LodgeJob *job)
{
    return job->running;
}

gdouble lodge_job_get_fraction(LodgeJob *job)
{
    return job->items->len > 0 ? (gdouble)job->ended / job->items->len : 1;
}

guint lodge_job_get_good(LodgeJob *job)
{
    return job->good;
}

gint64 lodge_job_get_span_us(LodgeJob *job)
{
    return (job->ended_us ? job->ended_us : g_get_monotonic_time()) - job->began_us;
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A timer, and a worker now and then. */
#include "app/model/stats-watch.h"

#include "app/model/failure.h"
#include "app/model/worker.h"
#include "common/i18n.h"

#define LOOK_S 1u

struct _LodgeStatsWatch {
    GObject parent_instance;
    LodgeMachineItem *machine;
    guint source;
    gboolean looking, stopped;
};

G_DEFINE_FINAL_TYPE(LodgeStatsWatch, lodge_stats_watch, G_TYPE_OBJECT)

static guint looked_signal;

static void free_stats(gpointer stats)
{
    lodge_stats_free(stats);
}

static void look_in_worker(GTask *task, gpointer source, gpointer data, GCancellable *cancellable)
{
    virDomainPtr domains[] = {data, NULL};
    virDomainStatsRecordPtr *records = NULL;
    int count = virDomainListGetStats(domains, 0, &records, 0);
    GError *error = NULL;

    (void)source, (void)cancellable;
    if (count > 0) {
        g_task_return_pointer(task, lodge_stats_new(records[0]), free_stats);
    } else if (count == 0) {
        g_task_return_new_error(task, LODGE_ERROR, LODGE_ERROR_FAILED, "%s",
                                _("The machine is no longer there"));
    } else {
        lodge_failure_set(&error, _("Its statistics cannot be read"));
        g_task_return_error(task, error);
    }
    if (count >= 0) {
        virDomainStatsRecordListFree(records);
    }
    virDomainFree(domains[0]);
}

static void on_looked(GObject *object, GAsyncResult *result, gpointer user_data)
{
    LodgeStatsWatch *watch = LODGE_STATS_WATCH(object);
    g_autoptr(GError) error = NULL;
    g_autoptr(LodgeStats) stats = g_task_propagate_pointer(G_TASK(result), &error);

    (void)user_data;
    watch->looking = FALSE;
    if (!watch->stopped) {
        g_signal_emit(watch, looked_signal, 0, stats, error ? error->message : NULL);
    }
}

static gboolean on_tick(gpointer data)
{
    LodgeStatsWatch *watch = data;
    virDomainPtr domain = watch->looking ? NULL : lodge_machine_item_ref_domain(watch->machine);

    if (domain) {
        GTask *task = g_task_new(watch, NULL, on_looked, NULL);

        watch->looking = TRUE;
        g_task_set_task_data(task, domain, NULL);
        lodge_worker_run(task, look_in_worker);
    }
    return G_SOURCE_CONTINUE;
}

void lodge_stats_watch_stop(LodgeStatsWatch *watch)
{
    g_return_if_fail(LODGE_IS_STATS_WATCH(watch));

    watch->stopped = TRUE;
    g_clear_handle_id(&watch->source, g_source_remove);
}

static void dispose(GObject *object)
{
    LodgeStatsWatch *watch = LODGE_STATS_WATCH(object);

    lodge_stats_watch_stop(watch);
    g_clear_object(&watch->machine);
    G_OBJECT_CLASS(lodge_stats_watch_parent_class)->dispose(object);
}

static void lodge_stats_watch_class_init(LodgeStatsWatchClass *class)
{
    G_OBJECT_CLASS(class)->dispose = dispose;
    looked_signal = g_signal_new("looked", LODGE_TYPE_STATS_WATCH, G_SIGNAL_RUN_LAST, 0, NULL, NULL,
                                 NULL, G_TYPE_NONE, 2, G_TYPE_POINTER, G_TYPE_STRING);
}

static void lodge_stats_watch_init(LodgeStatsWatch *watch)
{
    watch->source = g_timeout_add_seconds(LOOK_S, on_tick, watch);
}

LodgeStatsWatch *lodge_stats_watch_new(LodgeMachineItem *machine)
{
    LodgeStatsWatch *watch = g_object_new(LODGE_TYPE_STATS_WATCH, NULL);

    watch->machine = g_object_ref(machine);
    (void)on_tick(watch);
    return watch;
}

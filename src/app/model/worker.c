/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One pool for the whole program. */
#include "app/model/worker.h"

typedef struct {
    GTask *task;
    GTaskThreadFunc function;
} Work;

static gboolean let_go(gpointer task)
{
    g_object_unref(task);
    return G_SOURCE_REMOVE;
}

static void run(gpointer data, gpointer user_data)
{
    Work *work = data;
    GTask *task = work->task;

    (void)user_data;
    work->function(task, g_task_get_source_object(task), g_task_get_task_data(task),
                   g_task_get_cancellable(task));
    /* It may be the last one, and the source object's too: that ends where it was made. */
    g_idle_add_full(G_PRIORITY_DEFAULT, let_go, task, NULL);
    g_free(work);
}

static GThreadPool *get_pool(void)
{
    static gsize pool;

    if (g_once_init_enter(&pool)) {
        /* Shared with GLib: threads come when there is work, and go when there is none. */
        g_once_init_leave(&pool, (gsize)g_thread_pool_new(run, NULL, LODGE_WORKERS, FALSE, NULL));
    }
    return (GThreadPool *)pool;
}

void lodge_worker_run(GTask *task, GTaskThreadFunc function)
{
    Work *work = g_new0(Work, 1);

    work->task = task;
    work->function = function;
    /* Without a new thread the work waits for one of those that there are. */
    g_thread_pool_push(get_pool(), work, NULL);
}

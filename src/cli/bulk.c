/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Workers take items in order; results go to the main thread as idle sources. */
#include "cli/bulk.h"

#include "cli/progress.h"
#include "cli/signals.h"
#include "cli/table.h"
#include "cli/verb.h"
#include "common/i18n.h"
#include "common/lodge-error.h"
#include "common/thread.h"
#include "config/text.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

struct LodgeBulk {
    const LodgeBulkVerb *verb;
    GPtrArray *items;
    gpointer user_data;
    GMutex mutex;
    GCond changed;
    /* Guarded by mutex. */
    guint next;           /* the first item that nobody took */
    guint turn;           /* times somebody woke the sleepers */
    gboolean interrupted; /* take no more */
    guint working;        /* workers that have not ended */
    /* Main thread only. */
    GMainLoop *loop;
    LodgeProgress progress;
    guint counts[LODGE_BULK_FAILED + 1];
    GHashTable *results; /* item -> Result, with `json` */
    int signal_number;   /* the first that came; 0: none */
    gboolean left;       /* a second came */
};

typedef struct {
    LodgeBulk *bulk;
    gpointer item;
    LodgeBulkOutcome outcome;
    GError *error;
} Result;

static void free_result(gpointer data)
{
    Result *result = data;

    g_clear_error(&result->error);
    g_free(result);
}

guint lodge_bulk_turn(LodgeBulk *bulk)
{
    guint turn;

    g_mutex_lock(&bulk->mutex);
    turn = bulk->turn;
    g_mutex_unlock(&bulk->mutex);
    return turn;
}

void lodge_bulk_wake(LodgeBulk *bulk)
{
    g_mutex_lock(&bulk->mutex);
    bulk->turn++;
    g_cond_broadcast(&bulk->changed);
    g_mutex_unlock(&bulk->mutex);
}

gboolean lodge_bulk_sleep(LodgeBulk *bulk, guint turn, gint64 until)
{
    gboolean interrupted;

    g_mutex_lock(&bulk->mutex);
    while (bulk->turn == turn && !bulk->interrupted &&
           g_cond_wait_until(&bulk->changed, &bulk->mutex, until)) {
    }
    interrupted = bulk->interrupted;
    g_mutex_unlock(&bulk->mutex);
    return !interrupted;
}

static guint finished(const LodgeBulk *bulk)
{
    return bulk->counts[LODGE_BULK_DONE] + bulk->counts[LODGE_BULK_NOT_NEEDED] +
           bulk->counts[LODGE_BULK_FAILED];
}

/* One line: on a terminal with a bar only what is not as wished; elsewhere all. */
static void print_result(LodgeBulk *bulk, const Result *result)
{
    g_autofree char *label = lodge_text_show(bulk->verb->label(result->item), 64);

    switch (result->outcome) {
    case LODGE_BULK_DONE:
        if (!bulk->progress.present) {
            g_print("%s: %s\n", label, _(bulk->verb->done));
        }
        break;
    case LODGE_BULK_NOT_NEEDED:
        if (!bulk->progress.present) {
            g_print("%s: %s\n", label, result->error->message);
        }
        break;
    case LODGE_BULK_FAILED:
        lodge_progress_clear(&bulk->progress);
        g_printerr("lodgectl: %s: %s\n", label, result->error->message);
        break;
    case LODGE_BULK_NOT_BEGUN:
        break;
    }
}

static gboolean on_result(gpointer data)
{
    Result *result = data;
    LodgeBulk *bulk = result->bulk;

    bulk->counts[result->outcome]++;
    if (!bulk->verb->json) {
        print_result(bulk, result);
    }
    lodge_progress_draw(&bulk->progress, finished(bulk), bulk->items->len, _(bulk->verb->doing),
                        bulk->verb->label(result->item));
    if (bulk->verb->json) {
        g_hash_table_insert(bulk->results, result->item, result);
    } else {
        free_result(result);
    }
    return G_SOURCE_REMOVE;
}

static gboolean on_last_worker(gpointer data)
{
    LodgeBulk *bulk = data;

    g_main_loop_quit(bulk->loop);
    return G_SOURCE_REMOVE;
}

/* The next item, or NULL. */
static gpointer take(LodgeBulk *bulk)
{
    gpointer item = NULL;

    g_mutex_lock(&bulk->mutex);
    if (!bulk->interrupted && bulk->next < bulk->items->len) {
        item = g_ptr_array_index(bulk->items, bulk->next++);
    }
    g_mutex_unlock(&bulk->mutex);
    return item;
}

static gpointer work(gpointer data)
{
    LodgeBulk *bulk = data;
    gboolean last;

    for (gpointer item = take(bulk); item; item = take(bulk)) {
        Result *result = g_new0(Result, 1);

        result->bulk = bulk;
        result->item = item;
        result->outcome = bulk->verb->act(bulk, item, bulk->user_data, &result->error);
        /* Results come before the end that the last worker tells: sources of one priority keep
         * their order. */
        g_idle_add(on_result, result);
    }
    g_mutex_lock(&bulk->mutex);
    last = --bulk->working == 0;
    g_mutex_unlock(&bulk->mutex);
    if (last) {
        g_idle_add(on_last_worker, bulk);
    }
    return NULL;
}

static void on_signal(int number, gpointer data)
{
    LodgeBulk *bulk = data;

    if (bulk->signal_number) {
        bulk->left = TRUE;
        g_main_loop_quit(bulk->loop);
        return;
    }
    bulk->signal_number = number;
    g_mutex_lock(&bulk->mutex);
    bulk->interrupted = TRUE;
    g_cond_broadcast(&bulk->changed);
    g_mutex_unlock(&bulk->mutex);
    lodge_progress_clear(&bulk->progress);
    g_printerr("%s\n", _("lodgectl: interrupted; waiting for what has begun (again: leave it)"));
}

enum { NAME, OUTCOME, ERROR };

static const LodgeColumn columns[] = {
    [NAME] = {"name", NULL, LODGE_CELL_TEXT},
    [OUTCOME] = {"outcome", NULL, LODGE_CELL_TEXT},
    [ERROR] = {"error", NULL, LODGE_CELL_TEXT},
};

/* Items are begun in their order. */
static void print_json(LodgeBulk *bulk, guint begun)
{
    static const char *const outcomes[] = {
        [LODGE_BULK_NOT_BEGUN] = "not-begun",
        [LODGE_BULK_DONE] = "done",
        [LODGE_BULK_NOT_NEEDED] = "not-needed",
        [LODGE_BULK_FAILED] = "failed",
    };
    g_autoptr(LodgeTable) table = lodge_table_new(columns, G_N_ELEMENTS(columns));
    g_autofree char *text = NULL;

    for (guint i = 0; i < bulk->items->len; i++) {
        gpointer item = g_ptr_array_index(bulk->items, i);
        const Result *result = g_hash_table_lookup(bulk->results, item);
        const char *outcome = i < begun ? "left" : outcomes[LODGE_BULK_NOT_BEGUN];

        lodge_table_add_row(table);
        lodge_table_set_text(table, NAME, bulk->verb->label(item));
        lodge_table_set_text(table, OUTCOME, result ? outcomes[result->outcome] : outcome);
        if (result && result->error) {
            lodge_table_set_text(table, ERROR, result->error->message);
        }
    }
    text = lodge_table_to_json(table);
    g_print("%s", text);
}

static void print_summary(LodgeBulk *bulk)
{
    guint all = bulk->items->len;
    g_autoptr(GString) line = g_string_new(NULL);
    guint begun;

    g_mutex_lock(&bulk->mutex);
    begun = bulk->next;
    g_mutex_unlock(&bulk->mutex);
    if (bulk->verb->json) {
        print_json(bulk, begun);
        return;
    }
    if (all == 1 && finished(bulk) == 1 && !bulk->progress.present) {
        return; /* its own line says it all */
    }
    g_string_append_printf(line, _("%u of %u %s"), bulk->counts[LODGE_BULK_DONE], all,
                           _(bulk->verb->done));
    if (bulk->counts[LODGE_BULK_NOT_NEEDED]) {
        g_string_append_printf(line, _("; %u did not need it"),
                               bulk->counts[LODGE_BULK_NOT_NEEDED]);
    }
    if (bulk->counts[LODGE_BULK_FAILED]) {
        g_string_append_printf(line, _("; %u failed"), bulk->counts[LODGE_BULK_FAILED]);
    }
    if (begun > finished(bulk)) {
        g_string_append_printf(line, _("; %u begun and left"), begun - finished(bulk));
    }
    if (begun < all) {
        g_string_append_printf(line, _("; %u not begun"), all - begun);
    }
    g_print("%s\n", line->str);
}

/* Without a single worker all stays as it was. */
static gboolean start_workers(LodgeBulk *bulk, GPtrArray *threads, guint jobs, GError **error)
{
    guint wanted = MIN(jobs, bulk->items->len);

    bulk->working = wanted;
    for (guint i = 0; i < wanted; i++) {
        GThread *thread = lodge_thread_new("bulk", work, bulk, i == 0 ? error : NULL);

        if (!thread && i == 0) {
            return FALSE;
        }
        if (!thread) {
            /* Fewer will do. */
            g_mutex_lock(&bulk->mutex);
            bulk->working -= wanted - i;
            if (bulk->working == 0) {
                g_idle_add(on_last_worker, bulk);
            }
            g_mutex_unlock(&bulk->mutex);
            break;
        }
        g_ptr_array_add(threads, thread);
    }
    return TRUE;
}

static int judge(const LodgeBulk *bulk)
{
    if (bulk->signal_number) {
        return LODGE_EXIT_SIGNAL + bulk->signal_number;
    }
    return bulk->counts[LODGE_BULK_FAILED] ? LODGE_EXIT_FAILED : LODGE_EXIT_OK;
}

static void end_workers(LodgeBulk *bulk, GPtrArray *threads)
{
    if (bulk->left) {
        /* They sleep in calls that nobody can end: they go with the process, and what they hold. */
        fflush(NULL);
        _exit(judge(bulk));
    }
    for (guint i = 0; i < threads->len; i++) {
        g_thread_join(g_ptr_array_index(threads, i));
    }
}

int lodge_bulk_run(const LodgeBulkVerb *verb, GPtrArray *items, guint jobs, gpointer user_data)
{
    g_autoptr(GPtrArray) threads = g_ptr_array_new();
    g_autoptr(GError) error = NULL;
    LodgeBulk bulk = {.verb = verb, .items = items, .user_data = user_data};
    LodgeSignals signals = {0};
    int status;

    if (items->len == 0) {
        g_print("%s\n", verb->json ? "[]" : _("There are no machines."));
        return LODGE_EXIT_OK;
    }
    if (!lodge_thread_reserve(&error)) {
        return lodge_verb_fail(error);
    }
    /* A reader of our lines that goes away does not end the work half way. */
    signal(SIGPIPE, SIG_IGN);
    g_mutex_init(&bulk.mutex);
    g_cond_init(&bulk.changed);
    bulk.loop = g_main_loop_new(NULL, FALSE);
    bulk.results = g_hash_table_new_full(NULL, NULL, NULL, free_result);
    lodge_signals_watch(&signals, on_signal, &bulk);
    lodge_progress_init(&bulk.progress);
    lodge_progress_draw(&bulk.progress, 0, items->len, _(verb->doing), NULL);
    if (verb->begin) {
        verb->begin(&bulk, user_data);
    }
    if (start_workers(&bulk, threads, jobs, &error)) {
        g_main_loop_run(bulk.loop);
        lodge_progress_clear(&bulk.progress);
        print_summary(&bulk);
        end_workers(&bulk, threads);
    }
    if (verb->end) {
        verb->end(&bulk, user_data);
    }
    status = error ? lodge_verb_fail(error) : judge(&bulk);
    lodge_signals_forget(&signals);
    g_hash_table_unref(bulk.results);
    g_main_loop_unref(bulk.loop);
    g_cond_clear(&bulk.changed);
    g_mutex_clear(&bulk.mutex);
    return status;
}

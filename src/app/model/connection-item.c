/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Opening, looking, losing and opening again. */
#include "app/model/connection-item.h"

#include "app/model/failure.h"
#include "app/model/worker.h"
#include "common/i18n.h"

#include <libvirt/virterror.h>

#include <string.h>

#define LOOK_S    1u
#define SOON_MS   100u /* events of many machines come together */
#define SILENT_US (3 * G_TIME_SPAN_SECOND)

struct _LodgeConnectionItem {
    GObject parent_instance;
    char *uri, *title, *trouble;
    LodgeConnectionState state;
    virConnectPtr connection; /* owned while OPEN */
    int lifecycle;            /* the callback's number; -1: none */
    GListStore *machines;
    GHashTable *by_uuid; /* borrowed keys and values */
    guint look_source, retry_source;
    guint retry_s;
    guint generation; /* of connections: answers of earlier ones are none */
    gboolean looking;
    gboolean again; /* something happened after the look that is under way had begun */
    gint64 look_began_us;
};

enum { PROP_0, PROP_URI, PROP_TITLE, PROP_STATE, PROP_TROUBLE, PROP_MACHINES, N_PROPS };

static GParamSpec *properties[N_PROPS];
static guint looked_signal;

G_DEFINE_FINAL_TYPE(LodgeConnectionItem, lodge_connection_item, G_TYPE_OBJECT)

/* What a worker made of it. */
typedef struct {
    guint generation;
    virConnectPtr connection; /* owned */
    GWeakRef *item;           /* for events; moved to the library */
    int lifecycle;
    gboolean gone;
} Opened;

static void begin_look(LodgeConnectionItem *item);
static void lose(LodgeConnectionItem *item, const char *why);

static GWeakRef *weak_new(gpointer item)
{
    GWeakRef *weak = g_new0(GWeakRef, 1);

    g_weak_ref_init(weak, item);
    return weak;
}

static void weak_free(gpointer data)
{
    g_weak_ref_clear(data);
    g_free(data);
}

static void opened_free(gpointer data)
{
    Opened *opened = data;

    g_clear_pointer(&opened->item, weak_free);
    g_free(opened);
}

static void set_trouble(LodgeConnectionItem *item, const char *trouble)
{
    if (g_strcmp0(item->trouble, trouble) != 0) {
        g_free(item->trouble);
        item->trouble = g_strdup(trouble);
        g_object_notify_by_pspec(G_OBJECT(item), properties[PROP_TROUBLE]);
    }
}

static void set_state(LodgeConnectionItem *item, LodgeConnectionState state)
{
    if (item->state != state) {
        item->state = state;
        g_object_notify_by_pspec(G_OBJECT(item), properties[PROP_STATE]);
    }
}

/* --- Events: from whatever thread, to the main one. --- */

static gboolean on_something(gpointer data)
{
    g_autoptr(LodgeConnectionItem) item = g_weak_ref_get(data);

    if (item) {
        lodge_connection_item_look(item);
    }
    return G_SOURCE_REMOVE;
}

static gboolean on_gone(gpointer data)
{
    g_autoptr(LodgeConnectionItem) item = g_weak_ref_get(data);

    if (item && item->state == LODGE_CONNECTION_OPEN && virConnectIsAlive(item->connection) == 0) {
        lose(item, _("the daemon has gone"));
    }
    return G_SOURCE_REMOVE;
}

static void tell(GWeakRef *weak, GSourceFunc function)
{
    g_autoptr(GObject) item = g_weak_ref_get(weak);

    if (item) {
        g_idle_add_full(G_PRIORITY_DEFAULT, function, weak_new(item), weak_free);
    }
}

static int on_lifecycle(virConnectPtr connection, virDomainPtr domain, int event, int detail,
                        void *data)
{
    (void)connection, (void)domain, (void)event, (void)detail;
    tell(data, on_something);
    return 0;
}

static void on_closed(virConnectPtr connection, int reason, void *data)
{
    (void)connection, (void)reason;
    tell(data, on_gone);
}

/* --- Opening. --- */

static void open_in_worker(GTask *task, gpointer source, gpointer data, GCancellable *cancellable)
{
    Opened *opened = data;
    g_autofree char *why = NULL;

    (void)cancellable;
    opened->connection =
        lodge_connection_try(lodge_connection_item_get_uri(source), LODGE_CONNECTION_EVENTS, &why);
    if (!opened->connection) {
        g_task_return_new_error(task, LODGE_ERROR, LODGE_ERROR_FAILED, "%s", why);
        return;
    }
    /* Drivers without events are looked at all the same, once a second. */
    opened->lifecycle = virConnectDomainEventRegisterAny(
        opened->connection, NULL, VIR_DOMAIN_EVENT_ID_LIFECYCLE,
        VIR_DOMAIN_EVENT_CALLBACK(on_lifecycle), opened->item, weak_free);
    if (opened->lifecycle >= 0) {
        g_autoptr(GObject) item = g_object_ref(source);

        opened->item = weak_new(item);
    }
    if (virConnectRegisterCloseCallback(opened->connection, on_closed, opened->item, weak_free) ==
        0) {
        opened->item = NULL;
    }
    g_task_return_boolean(task, TRUE);
}

/* Ends what the library still does for it, off the main thread. @task's data is Opened. */
static void close_in_worker(GTask *task, gpointer source, gpointer data, GCancellable *cancellable)
{
    Opened *opened = data;

    (void)source, (void)cancellable;
    if (opened->lifecycle >= 0) {
        (void)virConnectDomainEventDeregisterAny(opened->connection, opened->lifecycle);
    }
    (void)virConnectUnregisterCloseCallback(opened->connection, on_closed);
    (void)virConnectClose(opened->connection);
    g_task_return_boolean(task, TRUE);
}

/* Takes @connection. */
static void close_later(virConnectPtr connection, int lifecycle)
{
    Opened *opened = g_new0(Opened, 1);
    GTask *task = g_task_new(NULL, NULL, NULL, NULL);

    opened->connection = connection;
    opened->lifecycle = lifecycle;
    g_task_set_task_data(task, opened, opened_free);
    lodge_worker_run(task, close_in_worker);
}

static gboolean on_tick(gpointer data)
{
    LodgeConnectionItem *item = data;

    if (item->looking && g_get_monotonic_time() - item->look_began_us > SILENT_US) {
        g_autofree char *text = g_strdup_printf(
            _("%s does not answer. What it runs goes on; this window waits for it."), item->title);

        set_trouble(item, text);
    }
    begin_look(item);
    return G_SOURCE_CONTINUE;
}

static void on_opened(GObject *object, GAsyncResult *result, gpointer user_data)
{
    LodgeConnectionItem *item = LODGE_CONNECTION_ITEM(object);
    Opened *opened = g_task_get_task_data(G_TASK(result));
    g_autoptr(GError) error = NULL;
    gboolean good = g_task_propagate_boolean(G_TASK(result), &error);

    (void)user_data;
    if (opened->generation != item->generation) {
        if (good) {
            close_later(opened->connection, opened->lifecycle);
        }
        return;
    }
    if (!good) {
        lose(item, error->message);
        return;
    }
    item->connection = opened->connection;
    item->lifecycle = opened->lifecycle;
    item->retry_s = 0;
    set_state(item, LODGE_CONNECTION_OPEN);
    item->look_source = g_timeout_add_seconds(LOOK_S, on_tick, item);
    begin_look(item);
}

void lodge_connection_item_open(LodgeConnectionItem *item)
{
    Opened *opened;
    GTask *task;

    g_return_if_fail(LODGE_IS_CONNECTION_ITEM(item));
    if (item->state == LODGE_CONNECTION_OPENING || item->state == LODGE_CONNECTION_OPEN) {
        return;
    }
    g_clear_handle_id(&item->retry_source, g_source_remove);
    opened = g_new0(Opened, 1);
    opened->generation = ++item->generation;
    opened->item = weak_new(item);
    set_state(item, LODGE_CONNECTION_OPENING);
    task = g_task_new(item, NULL, on_opened, NULL);
    g_task_set_task_data(task, opened, opened_free);
    lodge_worker_run(task, open_in_worker);
}

/* --- Losing. --- */

static void drop_connection(LodgeConnectionItem *item)
{
    item->generation++;
    item->looking = FALSE;
    item->again = FALSE;
    g_clear_handle_id(&item->look_source, g_source_remove);
    g_clear_handle_id(&item->retry_source, g_source_remove);
    for (guint i = 0; i < g_list_model_get_n_items(G_LIST_MODEL(item->machines)); i++) {
        g_autoptr(LodgeMachineItem) machine =
            g_list_model_get_item(G_LIST_MODEL(item->machines), i);

        lodge_machine_item_forget(machine);
    }
    if (item->connection) {
        close_later(g_steal_pointer(&item->connection), item->lifecycle);
    }
}

static gboolean on_retry(gpointer data)
{
    LodgeConnectionItem *item = data;

    item->retry_source = 0;
    lodge_connection_item_open(item);
    return G_SOURCE_REMOVE;
}

static void lose(LodgeConnectionItem *item, const char *why)
{
    g_autofree char *text = NULL;

    drop_connection(item);
    item->retry_s = CLAMP(item->retry_s * 2, 1, LODGE_CONNECTION_RETRY_MOST_S);
    text = g_strdup_printf(_("No connection to %s: %s"), item->title, why);
    set_trouble(item, text);
    set_state(item, LODGE_CONNECTION_LOST);
    item->retry_source = g_timeout_add_seconds(item->retry_s, on_retry, item);
}

void lodge_connection_item_close(LodgeConnectionItem *item)
{
    g_return_if_fail(LODGE_IS_CONNECTION_ITEM(item));

    drop_connection(item);
    item->retry_s = 0;
    set_trouble(item, NULL);
    set_state(item, LODGE_CONNECTION_CLOSED);
}

/* --- Looking. --- */

static void look_in_worker(GTask *task, gpointer source, gpointer data, GCancellable *cancellable)
{
    Opened *opened = data;
    GPtrArray *all = lodge_machine_facts_look(opened->connection);

    (void)source, (void)cancellable;
    if (all) {
        g_task_return_pointer(task, all, (GDestroyNotify)g_ptr_array_unref);
    } else {
        g_autoptr(GError) error = NULL;

        lodge_failure_set(&error, _("Its machines cannot be listed"));
        opened->gone = virConnectIsAlive(opened->connection) == 0;
        g_task_return_error(task, g_steal_pointer(&error));
    }
    (void)virConnectClose(opened->connection);
}

/* Take those away that are no longer there: what the look told is in @seen, by UUID. */
static void remove_others(LodgeConnectionItem *item, GHashTable *seen)
{
    GListModel *model = G_LIST_MODEL(item->machines);

    for (guint i = g_list_model_get_n_items(model); i-- > 0;) {
        g_autoptr(LodgeMachineItem) machine = g_list_model_get_item(model, i);

        if (!g_hash_table_contains(seen, lodge_machine_item_get_uuid(machine))) {
            g_hash_table_remove(item->by_uuid, lodge_machine_item_get_uuid(machine));
            g_list_store_remove(item->machines, i);
        }
    }
}

static void take(LodgeConnectionItem *item, GPtrArray *all)
{
    g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);
    g_autoptr(GPtrArray) added = g_ptr_array_new_with_free_func(g_object_unref);

    for (guint i = 0; i < all->len; i++) {
        const LodgeMachineFacts *facts = g_ptr_array_index(all, i);
        LodgeMachineItem *machine = g_hash_table_lookup(item->by_uuid, facts->uuid);

        g_hash_table_add(seen, facts->uuid);
        if (machine) {
            lodge_machine_item_update(machine, facts);
            continue;
        }
        machine = lodge_machine_item_new(G_OBJECT(item), facts);
        g_hash_table_insert(item->by_uuid, (char *)lodge_machine_item_get_uuid(machine), machine);
        g_ptr_array_add(added, machine);
    }
    remove_others(item, seen);
    if (added->len > 0) {
        g_list_store_splice(item->machines, g_list_model_get_n_items(G_LIST_MODEL(item->machines)),
                            0, added->pdata, added->len);
    }
}

static void on_looked(GObject *object, GAsyncResult *result, gpointer user_data)
{
    LodgeConnectionItem *item = LODGE_CONNECTION_ITEM(object);
    const Opened *opened = g_task_get_task_data(G_TASK(result));
    g_autoptr(GError) error = NULL;
    g_autoptr(GPtrArray) all = g_task_propagate_pointer(G_TASK(result), &error);
    gboolean again;

    (void)user_data;
    if (opened->generation != item->generation) {
        return;
    }
    again = item->again;
    item->looking = FALSE;
    item->again = FALSE;
    if (opened->gone) {
        lose(item, error->message);
        return;
    }
    set_trouble(item, error ? error->message : NULL);
    if (all) {
        take(item, all);
        g_signal_emit(item, looked_signal, 0);
    }
    if (again) {
        lodge_connection_item_look(item);
    }
}

static void begin_look(LodgeConnectionItem *item)
{
    Opened *opened;
    GTask *task;

    if (item->looking || item->state != LODGE_CONNECTION_OPEN) {
        return;
    }
    opened = g_new0(Opened, 1);
    opened->generation = item->generation;
    opened->connection = lodge_connection_item_ref_connection(item);
    item->looking = TRUE;
    item->look_began_us = g_get_monotonic_time();
    task = g_task_new(item, NULL, on_looked, NULL);
    g_task_set_task_data(task, opened, opened_free);
    lodge_worker_run(task, look_in_worker);
}

static gboolean on_soon(gpointer data)
{
    g_autoptr(LodgeConnectionItem) item = g_weak_ref_get(data);

    if (item) {
        begin_look(item);
    }
    return G_SOURCE_REMOVE;
}

void lodge_connection_item_look(LodgeConnectionItem *item)
{
    g_return_if_fail(LODGE_IS_CONNECTION_ITEM(item));

    if (item->looking) {
        item->again = TRUE;
    } else if (item->state == LODGE_CONNECTION_OPEN) {
        g_timeout_add_full(G_PRIORITY_DEFAULT, SOON_MS, on_soon, weak_new(item), weak_free);
    }
}

/* --- The object. --- */

static void get_property(GObject *object, guint id, GValue *value, GParamSpec *spec)
{
    LodgeConnectionItem *item = LODGE_CONNECTION_ITEM(object);

    switch (id) {
    case PROP_URI:
        g_value_set_string(value, item->uri);
        break;
    case PROP_TITLE:
        g_value_set_string(value, item->title);
        break;
    case PROP_STATE:
        g_value_set_int(value, (int)item->state);
        break;
    case PROP_TROUBLE:
        g_value_set_string(value, item->trouble);
        break;
    case PROP_MACHINES:
        g_value_set_object(value, item->machines);
        break;
    default:
        G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, spec);
    }
}

static void dispose(GObject *object)
{
    LodgeConnectionItem *item = LODGE_CONNECTION_ITEM(object);

    drop_connection(item);
    g_hash_table_remove_all(item->by_uuid);
    g_list_store_remove_all(item->machines);
    G_OBJECT_CLASS(lodge_connection_item_parent_class)->dispose(object);
}

static void finalize(GObject *object)
{
    LodgeConnectionItem *item = LODGE_CONNECTION_ITEM(object);

    g_object_unref(item->machines);
    g_hash_table_unref(item->by_uuid);
    g_free(item->uri);
    g_free(item->title);
    g_free(item->trouble);
    G_OBJECT_CLASS(lodge_connection_item_parent_class)->finalize(object);
}

static void lodge_connection_item_class_init(LodgeConnectionItemClass *class)
{
    GObjectClass *object_class = G_OBJECT_CLASS(class);
    const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS;

    object_class->get_property = get_property;
    object_class->dispose = dispose;
    object_class->finalize = finalize;
    properties[PROP_URI] = g_param_spec_string("uri", NULL, NULL, NULL, flags);
    properties[PROP_TITLE] = g_param_spec_string("title", NULL, NULL, NULL, flags);
    properties[PROP_STATE] =
        g_param_spec_int("state", NULL, NULL, LODGE_CONNECTION_CLOSED, LODGE_CONNECTION_LOST,
                         LODGE_CONNECTION_CLOSED, flags);
    properties[PROP_TROUBLE] = g_param_spec_string("trouble", NULL, NULL, NULL, flags);
    properties[PROP_MACHINES] =
        g_param_spec_object("machines", NULL, NULL, G_TYPE_LIST_MODEL, flags);
    g_object_class_install_properties(object_class, N_PROPS, properties);
    looked_signal = g_signal_new("looked", LODGE_TYPE_CONNECTION_ITEM, G_SIGNAL_RUN_LAST, 0, NULL,
                                 NULL, NULL, G_TYPE_NONE, 0);
}

static void lodge_connection_item_init(LodgeConnectionItem *item)
{
    item->machines = g_list_store_new(LODGE_TYPE_MACHINE_ITEM);
    item->by_uuid = g_hash_table_new(g_str_hash, g_str_equal);
    item->lifecycle = -1;
}

/* The daemon's own session is this computer; else the host, or what there is. */
static char *make_title(const char *uri)
{
    g_autoptr(GUri) parsed = g_uri_parse(uri, G_URI_FLAGS_PARSE_RELAXED, NULL);
    const char *host = parsed ? g_uri_get_host(parsed) : NULL;

    if (strcmp(uri, LODGE_CONNECTION_DEFAULT) == 0) {
        return g_strdup(_("This computer"));
    }
    if (host && *host) {
        return g_strdup(host);
    }
    if (parsed && g_uri_get_path(parsed)) {
        return g_strdup_printf("%s %s", g_uri_get_scheme(parsed),
                               g_uri_get_path(parsed) + strspn(g_uri_get_path(parsed), "/"));
    }
    return g_utf8_make_valid(uri, -1);
}

LodgeConnectionItem *lodge_connection_item_new(const char *uri)
{
    LodgeConnectionItem *item = g_object_new(LODGE_TYPE_CONNECTION_ITEM, NULL);

    item->uri = g_strdup(uri);
    item->title = make_title(uri);
    return item;
}

const char *lodge_connection_item_get_uri(LodgeConnectionItem *item)
{
    return item->uri;
}

const char *lodge_connection_item_get_title(LodgeConnectionItem *item)
{
    return item->title;
}

const char *lodge_connection_item_get_trouble(LodgeConnectionItem *item)
{
    return item->trouble;
}

GListModel *lodge_connection_item_get_machines(LodgeConnectionItem *item)
{
    return G_LIST_MODEL(item->machines);
}

LodgeConnectionState lodge_connection_item_get_state(LodgeConnectionItem *item)
{
    return item->state;
}

LodgeMachineItem *lodge_connection_item_find(LodgeConnectionItem *item, const char *uuid)
{
    return g_hash_table_lookup(item->by_uuid, uuid);
}

virConnectPtr lodge_connection_item_ref_connection(LodgeConnectionItem *item)
{
    return item->state == LODGE_CONNECTION_OPEN && virConnectRef(item->connection) == 0
               ? item->connection
               : NULL;
}

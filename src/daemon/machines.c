/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Who there is: finding, listing, running. Definitions are changed in machine-define.c. */
#include "daemon/machines-private.h"

#include "common/i18n.h"
#include "common/lodge-error.h"
#include "daemon/libvirt-error.h"
#include "wire/core-sweep.h"

#include <string.h>

#define LOOKERS         8
#define SHARED_POOL     "default"
/* A core for one machine, without it and without a daemon. */
#define OWN_LINGER_S    1u
#define SHARED_LINGER_S 30u
/* Between looks at cores that are about to end. */
#define SWEEP_S         (OWN_LINGER_S + 1)

/* A machine that may have ended. */
typedef struct {
    LodgeMachine *machine;
    LodgeInstance *instance;
} Look;

static void run_look(gpointer data, gpointer unused)
{
    Look *look = data;

    (void)unused;
    lodge_machine_look(look->machine, look->instance);
    lodge_instance_unref(look->instance);
    lodge_machine_unref(look->machine);
    g_free(look);
}

/* On the thread of a core's client: somebody else looks, who may wait. */
static void on_news(gpointer user_data)
{
    LodgeMachine *machine = user_data;
    LodgeInstance *instance = lodge_machine_get_instance(machine);
    Look *look;

    if (instance) {
        look = g_new(Look, 1);
        *look = (Look){lodge_machine_ref(machine), instance};
        g_thread_pool_push(machine->machines->lookers, look, NULL);
    }
}

void lodge_machines_watch(LodgeMachine *machine, LodgeInstance *instance)
{
    /* Borrowed: it is unwatched before the instance, and so before the machine goes. */
    lodge_instance_watch(instance, on_news, machine);
}

LodgeMachines *lodge_machines_new(LodgeDomainStore *store, LodgeLiveStore *live, LodgeEventHub *hub,
                                  LodgeFdGroups *fds)
{
    LodgeMachines *machines = g_new0(LodgeMachines, 1);

    g_mutex_init(&machines->changing);
    g_mutex_init(&machines->mutex);
    machines->store = store;
    machines->live = live;
    machines->hub = hub;
    machines->fds = fds;
    machines->missing = g_ptr_array_new_with_free_func((GDestroyNotify)lodge_live_record_free);
    machines->all = g_ptr_array_new_with_free_func((GDestroyNotify)lodge_machine_unref);
    /* Not exclusive: it makes threads when there is work, and does not fail. */
    machines->lookers = g_thread_pool_new(run_look, NULL, LOOKERS, FALSE, NULL);
    return machines;
}

void lodge_machines_free(LodgeMachines *machines)
{
    g_clear_handle_id(&machines->sweeper, g_source_remove);
    g_ptr_array_unref(machines->missing);
    g_ptr_array_unref(machines->all);
    lodge_core_unref(machines->shared);
    g_mutex_clear(&machines->mutex);
    g_mutex_clear(&machines->changing);
    g_free(machines);
}

LodgeEventHub *lodge_machines_get_hub(LodgeMachines *machines)
{
    return machines->hub;
}

LodgeFdGroups *lodge_machines_get_fds(LodgeMachines *machines)
{
    return machines->fds;
}

/* From the end: those that are read come in about that order. */
static void insert_locked(LodgeMachines *machines, LodgeMachine *machine)
{
    guint place = machines->all->len;

    while (place > 0) {
        const LodgeMachine *before = machines->all->pdata[place - 1];

        if (strcmp(before->config->name, machine->config->name) < 0) {
            break;
        }
        place--;
    }
    g_ptr_array_insert(machines->all, (gint)place, lodge_machine_ref(machine));
}

void lodge_machines_add(LodgeMachines *machines, LodgeMachine *machine)
{
    g_mutex_lock(&machines->mutex);
    insert_locked(machines, machine);
    g_mutex_unlock(&machines->mutex);
}

void lodge_machines_set_renamed(LodgeMachines *machines, LodgeMachine *machine,
                                LodgeDomainConfig *config)
{
    g_mutex_lock(&machines->mutex);
    g_ptr_array_remove(machines->all, machine);
    g_mutex_lock(&machine->mutex);
    lodge_domain_config_free(machine->config);
    machine->config = config;
    g_mutex_unlock(&machine->mutex);
    insert_locked(machines, machine);
    g_mutex_unlock(&machines->mutex);
}

void lodge_machines_remove(LodgeMachines *machines, LodgeMachine *machine)
{
    g_mutex_lock(&machine->mutex);
    machine->gone = TRUE;
    g_cond_broadcast(&machine->idle);
    g_mutex_unlock(&machine->mutex);
    g_mutex_lock(&machines->mutex);
    g_ptr_array_remove(machines->all, machine);
    g_mutex_unlock(&machines->mutex);
}

typedef gboolean Matches(const LodgeMachine *machine, gconstpointer key);

static gboolean has_uuid(const LodgeMachine *machine, gconstpointer key)
{
    return memcmp(machine->config->uuid, key, LODGE_UUID_BYTES) == 0;
}

static gboolean has_name(const LodgeMachine *machine, gconstpointer key)
{
    return strcmp(machine->config->name, key) == 0;
}

static gboolean has_id(const LodgeMachine *machine, gconstpointer key)
{
    return machine->id == *(const int *)key;
}

static LodgeMachine *find(LodgeMachines *machines, Matches *matches, gconstpointer key)
{
    LodgeMachine *found = NULL;

    g_mutex_lock(&machines->mutex);
    for (guint i = 0; i < machines->all->len && !found; i++) {
        LodgeMachine *machine = machines->all->pdata[i];

        g_mutex_lock(&machine->mutex);
        if (matches(machine, key)) {
            found = lodge_machine_ref(machine);
        }
        g_mutex_unlock(&machine->mutex);
    }
    g_mutex_unlock(&machines->mutex);
    return found;
}

LodgeMachine *lodge_machines_find_uuid(LodgeMachines *machines, const char *uuid, GError **error)
{
    LodgeMachine *machine = find(machines, has_uuid, uuid);

    if (!machine) {
        g_autofree char *text = lodge_uuid_format((const guint8 *)uuid);

        lodge_refuse(error, VIR_ERR_NO_DOMAIN, _("There is no machine with the UUID %s"), text);
    }
    return machine;
}

LodgeMachine *lodge_machines_find_name(LodgeMachines *machines, const char *name, GError **error)
{
    LodgeMachine *machine = find(machines, has_name, name);

    if (!machine) {
        g_autofree char *valid = g_utf8_make_valid(name, -1);
        g_autofree char *quoted = lodge_text_quote(valid);

        lodge_refuse(error, VIR_ERR_NO_DOMAIN, _("There is no machine %s"), quoted);
    }
    return machine;
}

LodgeMachine *lodge_machines_find_id(LodgeMachines *machines, int id, GError **error)
{
    LodgeMachine *machine = id > 0 ? find(machines, has_id, &id) : NULL;

    if (!machine) {
        lodge_refuse(error, VIR_ERR_NO_DOMAIN, _("No machine runs under the id %d"), id);
    }
    return machine;
}

LodgeMachine *lodge_machines_find(LodgeMachines *machines, const lv_domain *dom, GError **error)
{
    LodgeMachine *machine = find(machines, has_uuid, dom->uuid);

    if (!machine) {
        g_autofree char *valid = g_utf8_make_valid(dom->name, -1);
        g_autofree char *quoted = lodge_text_quote(valid);
        g_autofree char *uuid = lodge_uuid_format((const guint8 *)dom->uuid);

        lodge_refuse(error, VIR_ERR_NO_DOMAIN, _("There is no machine %s (UUID %s) any more"),
                     quoted, uuid);
    }
    return machine;
}

GPtrArray *lodge_machines_list(LodgeMachines *machines)
{
    GPtrArray *list = g_ptr_array_new_with_free_func((GDestroyNotify)lodge_machine_unref);

    g_mutex_lock(&machines->mutex);
    for (guint i = 0; i < machines->all->len; i++) {
        g_ptr_array_add(list, lodge_machine_ref(machines->all->pdata[i]));
    }
    g_mutex_unlock(&machines->mutex);
    return list;
}

guint lodge_machines_count_active(LodgeMachines *machines)
{
    guint active = 0;

    g_mutex_lock(&machines->mutex);
    for (guint i = 0; i < machines->all->len; i++) {
        active += lodge_machine_is_active(machines->all->pdata[i]);
    }
    g_mutex_unlock(&machines->mutex);
    return active;
}

/* With `changing` held: starting one takes a while, and nobody who looks shall wait for that. */
static LodgeCore *get_shared(LodgeMachines *machines, GError **error)
{
    if (machines->shared && lodge_core_is_lost(machines->shared)) {
        g_clear_pointer(&machines->shared, lodge_core_unref);
    }
    if (!machines->shared) {
        machines->shared = lodge_core_open(SHARED_POOL, 0, SHARED_LINGER_S, error);
    }
    return machines->shared ? lodge_core_ref(machines->shared) : NULL;
}

/* A core of its own is called by the machine's UUID. */
static char *pool_of(const LodgeDomainConfig *config)
{
    g_autofree char *uuid = lodge_uuid_format(config->uuid);
    g_auto(GStrv) parts = g_strsplit(uuid, "-", -1);

    return g_strjoinv("", parts);
}

LodgeCore *lodge_machines_get_core(LodgeMachines *machines, const LodgeDomainConfig *config,
                                   GError **error)
{
    gboolean own = config->pool == LODGE_POOL_OWN;
    LodgeCore *core = NULL;

    g_mutex_lock(&machines->changing);
    if (machines->stopping) {
        own = lodge_refuse(error, VIR_ERR_OPERATION_FAILED,
                           _("The machine “%s” cannot start: the daemon is about to end"),
                           config->name);
    } else if (!own) {
        core = get_shared(machines, error);
    }
    g_mutex_unlock(&machines->changing);
    if (own) {
        g_autofree char *pool = pool_of(config);

        core = lodge_core_open(pool, config->memory_bytes, OWN_LINGER_S, error);
    }
    return core;
}

/* Cores that machines run on; the shared one always counts, and may linger. */
static guint count_cores_locked(LodgeMachines *machines)
{
    guint cores = 1;

    for (guint i = 0; i < machines->all->len; i++) {
        LodgeMachine *machine = machines->all->pdata[i];

        g_mutex_lock(&machine->mutex);
        cores += machine->live && machine->live->pool == LODGE_POOL_OWN;
        g_mutex_unlock(&machine->mutex);
    }
    return cores;
}

static gboolean on_sweep(gpointer data)
{
    LodgeMachines *machines = data;
    guint live = lodge_core_sweep();
    gboolean again;

    g_mutex_lock(&machines->mutex);
    /* Some linger still, or have begun just now. */
    again = live > count_cores_locked(machines);
    if (!again) {
        machines->sweeper = 0;
    }
    g_mutex_unlock(&machines->mutex);
    return again;
}

void lodge_machines_sweep(LodgeMachines *machines)
{
    g_mutex_lock(&machines->mutex);
    if (!machines->sweeper) {
        machines->sweeper = g_timeout_add_seconds(SWEEP_S, on_sweep, machines);
    }
    g_mutex_unlock(&machines->mutex);
}

int lodge_machines_next_id(LodgeMachines *machines)
{
    return g_atomic_int_add(&machines->last_id, 1) + 1;
}

gboolean lodge_machines_remember(LodgeMachines *machines, int id, const LodgeDomainConfig *live,
                                 GError **error)
{
    return lodge_live_store_save(machines->live, id, live, error);
}

void lodge_machines_forget(LodgeMachines *machines, int id)
{
    lodge_live_store_remove(machines->live, id);
}

static gboolean load_stored(LodgeMachines *machines, GError **error)
{
    g_autoptr(GPtrArray) domains = NULL;
    g_autoptr(GPtrArray) problems = NULL;

    if (!lodge_domain_store_load(machines->store, &domains, &problems, error)) {
        return FALSE;
    }
    for (guint i = 0; i < problems->len; i++) {
        const LodgeStoreProblem *problem = problems->pdata[i];

        g_warning("%s", problem->error->message);
    }
    for (guint i = 0; i < domains->len; i++) {
        LodgeStoredDomain *stored = domains->pdata[i];
        g_autoptr(LodgeMachine) machine =
            lodge_machine_new(machines, g_steal_pointer(&stored->config), TRUE);

        machine->autostart = stored->autostart;
        lodge_machines_add(machines, machine);
    }
    return TRUE;
}

/* The core that it runs on, if that is still there. */
static LodgeCore *join_core(LodgeMachines *machines, const LodgeDomainConfig *config,
                            GError **error)
{
    g_autofree char *pool = pool_of(config);

    if (config->pool == LODGE_POOL_OWN) {
        return lodge_core_join(pool, error);
    }
    if (!machines->shared) {
        machines->shared = lodge_core_join(SHARED_POOL, error);
    }
    return machines->shared ? lodge_core_ref(machines->shared) : NULL;
}

/* The record is proven to be of no machine that runs. */
static gboolean is_gone(const LodgeDomainConfig *config, const LodgeCore *core, const GError *cause)
{
    g_autofree char *own = pool_of(config);

    /* Of a core that was joined the word counts, of one that was not the lock. */
    return core ? g_error_matches(cause, LODGE_ERROR, LODGE_ERROR_GONE)
                : !lodge_core_sweep_pool(config->pool == LODGE_POOL_OWN ? own : SHARED_POOL);
}

/* What becomes of it when it cannot be adopted: forgotten when it is gone, kept until then. */
static void settle(LodgeMachines *machines, LodgeLiveRecord *record, const LodgeCore *core,
                   const GError *cause)
{
    g_autoptr(LodgeLiveRecord) owned = record;
    const char *why = cause ? cause->message : "";

    if (is_gone(record->config, core, cause)) {
        g_message(_("“%s” does not run any more: %s"), record->config->name, why);
        lodge_machines_forget(machines, record->id);
    } else {
        g_warning(_("“%s” may run, and cannot be found: %s"), record->config->name, why);
        g_ptr_array_add(machines->missing, g_steal_pointer(&owned));
    }
}

/* @record: moved. */
static void adopt(LodgeMachines *machines, LodgeLiveRecord *record)
{
    g_autoptr(GError) cause = NULL;
    g_autoptr(LodgeCore) core = join_core(machines, record->config, &cause);
    LodgeInstance *instance = core ? lodge_instance_adopt(core, record->config, &cause) : NULL;
    g_autoptr(LodgeMachine) machine = NULL;

    if (!instance) {
        settle(machines, record, core, cause);
        return;
    }
    machine = lodge_machines_find_uuid(machines, (const char *)record->config->uuid, NULL);
    if (!machine) {
        machine = lodge_machine_new(machines, lodge_domain_config_copy(record->config), FALSE);
        lodge_machines_add(machines, machine);
    }
    lodge_machine_adopt(machine, instance, g_steal_pointer(&record->config), record->id);
    lodge_live_record_free(record);
    /* What it did before it was watched. */
    on_news(machine);
}

gboolean lodge_machines_load(LodgeMachines *machines, GError **error)
{
    g_autoptr(GPtrArray) records = NULL;

    if (!load_stored(machines, error)) {
        return FALSE;
    }
    records = lodge_live_store_load(machines->live, &machines->last_id, error);
    if (!records) {
        return FALSE;
    }
    g_ptr_array_set_free_func(records, NULL);
    for (guint i = 0; i < records->len; i++) {
        adopt(machines, records->pdata[i]);
    }
    lodge_machines_sweep(machines);
    return TRUE;
}

/* Its core has ended since, or it still may run. */
static gboolean check_missing(LodgeMachines *machines, const LodgeLiveRecord *record,
                              GError **error)
{
    g_autofree char *own = pool_of(record->config);
    const char *pool = record->config->pool == LODGE_POOL_OWN ? own : SHARED_POOL;

    if (!lodge_core_sweep_pool(pool)) {
        lodge_machines_forget(machines, record->id);
        return TRUE;
    }
    return lodge_refuse(
        error, VIR_ERR_OPERATION_FAILED,
        _("The machine “%s” may still run on the core of the pool “%s”, which could "
          "not be asked when the daemon began: its log says why. Mend that, and "
          "start virtlodged anew, which finds it again; or end that lodge-core"),
        record->config->name, pool);
}

gboolean lodge_machines_check_missing(LodgeMachines *machines, const LodgeDomainConfig *config,
                                      GError **error)
{
    gboolean good = TRUE;

    g_mutex_lock(&machines->changing);
    for (guint i = machines->missing->len; i > 0 && good; i--) {
        const LodgeLiveRecord *record = machines->missing->pdata[i - 1];

        if (memcmp(record->config->uuid, config->uuid, LODGE_UUID_BYTES) == 0 ||
            strcmp(record->config->name, config->name) == 0) {
            good = check_missing(machines, record, error);
            if (good) {
                g_ptr_array_remove_index(machines->missing, i - 1);
            }
        }
    }
    g_mutex_unlock(&machines->changing);
    return good;
}

void lodge_machines_leave(LodgeMachines *machines)
{
    g_autoptr(GPtrArray) list = NULL;

    g_mutex_lock(&machines->changing);
    machines->stopping = TRUE;
    g_mutex_unlock(&machines->changing);
    list = lodge_machines_list(machines);
    for (guint i = 0; i < list->len; i++) {
        g_autoptr(LodgeInstance) instance = NULL;

        /* A start that was under way is over then. */
        if (lodge_machine_begin(list->pdata[i], NULL)) {
            lodge_machine_end(list->pdata[i]);
        }
        instance = lodge_machine_get_instance(list->pdata[i]);
        if (instance) {
            lodge_instance_unwatch(instance);
        }
    }
    g_thread_pool_free(g_steal_pointer(&machines->lookers), FALSE, TRUE);
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Who there is: finding, listing, running. Definitions are changed in machine-define.c. */
#include "daemon/machines-private.h"

#include "common/i18n.h"
#include "daemon/libvirt-error.h"

#include <string.h>

LodgeMachines *lodge_machines_new(LodgeDomainStore *store, LodgeEventHub *hub, guint64 memory_bytes)
{
    LodgeMachines *machines = g_new0(LodgeMachines, 1);

    g_mutex_init(&machines->changing);
    g_mutex_init(&machines->mutex);
    g_cond_init(&machines->unwatched);
    machines->store = store;
    machines->hub = hub;
    machines->memory_bytes = memory_bytes;
    machines->all = g_ptr_array_new_with_free_func((GDestroyNotify)lodge_machine_unref);
    return machines;
}

void lodge_machines_free(LodgeMachines *machines)
{
    g_ptr_array_unref(machines->all);
    lodge_core_unref(machines->shared);
    g_cond_clear(&machines->unwatched);
    g_mutex_clear(&machines->mutex);
    g_mutex_clear(&machines->changing);
    g_free(machines);
}

LodgeEventHub *lodge_machines_get_hub(LodgeMachines *machines)
{
    return machines->hub;
}

void lodge_machines_add(LodgeMachines *machines, LodgeMachine *machine)
{
    g_mutex_lock(&machines->mutex);
    g_ptr_array_add(machines->all, lodge_machine_ref(machine));
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

gboolean lodge_machines_load(LodgeMachines *machines, GError **error)
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

static gint by_name(gconstpointer a, gconstpointer b)
{
    const LodgeMachine *one = *(LodgeMachine *const *)a;
    const LodgeMachine *other = *(LodgeMachine *const *)b;

    return strcmp(one->config->name, other->config->name);
}

GPtrArray *lodge_machines_list(LodgeMachines *machines)
{
    GPtrArray *list = g_ptr_array_new_with_free_func((GDestroyNotify)lodge_machine_unref);

    /* Under both, so that names stay while they are compared. */
    g_mutex_lock(&machines->changing);
    g_mutex_lock(&machines->mutex);
    for (guint i = 0; i < machines->all->len; i++) {
        g_ptr_array_add(list, lodge_machine_ref(machines->all->pdata[i]));
    }
    g_mutex_unlock(&machines->mutex);
    g_ptr_array_sort(list, by_name);
    g_mutex_unlock(&machines->changing);
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

/* With `changing` held: making one takes a while, and nobody who looks shall wait for that. */
static LodgeCore *get_shared(LodgeMachines *machines, GError **error)
{
    if (!machines->shared) {
        machines->shared = lodge_core_new(machines->memory_bytes, error);
    }
    return machines->shared ? lodge_core_ref(machines->shared) : NULL;
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
    return own ? lodge_core_new(config->memory_bytes, error) : core;
}

int lodge_machines_next_id(LodgeMachines *machines)
{
    return g_atomic_int_add(&machines->last_id, 1) + 1;
}

void lodge_machines_begin_watch(LodgeMachines *machines)
{
    g_mutex_lock(&machines->mutex);
    machines->watchers++;
    g_mutex_unlock(&machines->mutex);
}

void lodge_machines_end_watch(LodgeMachines *machines)
{
    g_mutex_lock(&machines->mutex);
    if (--machines->watchers == 0) {
        g_cond_broadcast(&machines->unwatched);
    }
    g_mutex_unlock(&machines->mutex);
}

void lodge_machines_stop(LodgeMachines *machines)
{
    g_autoptr(GPtrArray) list = NULL;

    g_mutex_lock(&machines->changing);
    machines->stopping = TRUE;
    g_mutex_unlock(&machines->changing);
    list = lodge_machines_list(machines);
    /* All at once: one does not wait for another's memory. */
    for (guint i = 0; i < list->len; i++) {
        g_autoptr(LodgeInstance) instance = lodge_machine_get_instance(list->pdata[i]);

        if (instance) {
            lodge_instance_kill(instance);
        }
    }
    for (guint i = 0; i < list->len; i++) {
        /* A start that was under way is over then. */
        if (lodge_machine_begin(list->pdata[i], NULL)) {
            lodge_machine_end(list->pdata[i]);
        }
        /* Not there, or ended meanwhile, is as good. */
        lodge_machine_destroy(list->pdata[i], NULL);
    }
    g_mutex_lock(&machines->mutex);
    while (machines->watchers > 0) {
        g_cond_wait(&machines->unwatched, &machines->mutex);
    }
    g_mutex_unlock(&machines->mutex);
}

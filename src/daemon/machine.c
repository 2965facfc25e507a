/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Machines: jobs, and how others see them. Starting and ending is in machine-run.c. */
#include "daemon/machine-private.h"

#include "common/i18n.h"
#include "daemon/libvirt-error.h"

#include <libvirt/libvirt.h>
#include <string.h>

/* As long as libvirt's own drivers wait for their turn. */
#define TURN_LIMIT_US (30 * G_TIME_SPAN_SECOND)

LodgeMachine *lodge_machine_new(LodgeMachines *machines, LodgeDomainConfig *config,
                                gboolean persistent)
{
    LodgeMachine *machine = g_new0(LodgeMachine, 1);

    g_atomic_ref_count_init(&machine->references);
    g_mutex_init(&machine->mutex);
    g_cond_init(&machine->idle);
    machine->machines = machines;
    machine->config = config;
    machine->persistent = persistent;
    machine->id = -1;
    lodge_machine_set_state(machine, VIR_DOMAIN_SHUTOFF, VIR_DOMAIN_SHUTOFF_UNKNOWN);
    return machine;
}

LodgeMachine *lodge_machine_ref(LodgeMachine *machine)
{
    g_atomic_ref_count_inc(&machine->references);
    return machine;
}

void lodge_machine_unref(LodgeMachine *machine)
{
    if (machine && g_atomic_ref_count_dec(&machine->references)) {
        lodge_instance_unref(machine->instance);
        lodge_domain_config_free(machine->config);
        lodge_domain_config_free(machine->live);
        g_cond_clear(&machine->idle);
        g_mutex_clear(&machine->mutex);
        g_free(machine);
    }
}

gboolean lodge_machine_begin(LodgeMachine *machine, GError **error)
{
    gint64 limit = g_get_monotonic_time() + TURN_LIMIT_US;
    gboolean mine;

    g_mutex_lock(&machine->mutex);
    while (machine->busy && g_cond_wait_until(&machine->idle, &machine->mutex, limit)) {
    }
    mine = !machine->busy && !machine->gone;
    if (machine->busy) {
        lodge_refuse(error, VIR_ERR_OPERATION_TIMEOUT,
                     _("The machine “%s” is busy with another change; try again"),
                     machine->config->name);
    } else if (machine->gone) {
        lodge_refuse(error, VIR_ERR_NO_DOMAIN, _("There is no machine “%s” any more"),
                     machine->config->name);
    }
    machine->busy |= mine;
    g_mutex_unlock(&machine->mutex);
    return mine;
}

void lodge_machine_end(LodgeMachine *machine)
{
    g_mutex_lock(&machine->mutex);
    machine->busy = FALSE;
    g_cond_signal(&machine->idle);
    g_mutex_unlock(&machine->mutex);
}

void lodge_machine_set_state(LodgeMachine *machine, int state, int reason)
{
    g_mutex_lock(&machine->mutex);
    machine->state = state;
    machine->reason = reason;
    g_mutex_unlock(&machine->mutex);
}

gboolean lodge_machine_refuse_idle(const LodgeMachine *machine, GError **error)
{
    return lodge_refuse(error, VIR_ERR_OPERATION_INVALID, _("The machine “%s” does not run"),
                        machine->config->name);
}

gboolean lodge_machine_refuse_transient(const LodgeMachine *machine, GError **error)
{
    return lodge_refuse(error, VIR_ERR_OPERATION_INVALID,
                        _("The machine “%s” is transient: it has no stored definition"),
                        machine->config->name);
}

static void fill_handle_locked(const LodgeMachine *machine, lv_domain *dom)
{
    dom->name = g_strdup(machine->config->name);
    memcpy(dom->uuid, machine->config->uuid, sizeof(dom->uuid));
    dom->id = machine->id;
}

void lodge_machine_handle(LodgeMachine *machine, lv_domain *dom_out)
{
    g_mutex_lock(&machine->mutex);
    fill_handle_locked(machine, dom_out);
    g_mutex_unlock(&machine->mutex);
}

void lodge_machine_tell(LodgeMachine *machine, int event, int detail)
{
    lv_domain dom;

    lodge_machine_handle(machine, &dom);
    lodge_event_hub_lifecycle(lodge_machines_get_hub(machine->machines), &dom, event, detail);
    g_free(dom.name);
}

void lodge_machine_view(LodgeMachine *machine, LodgeMachineView *view_out)
{
    const LodgeDomainConfig *config;

    g_mutex_lock(&machine->mutex);
    config = machine->live ? machine->live : machine->config;
    *view_out = (LodgeMachineView){
        .state = machine->state,
        .reason = machine->reason,
        .persistent = machine->persistent,
        .autostart = machine->autostart,
        .busy = machine->busy,
        .max_memory_bytes = config->memory_bytes,
        .memory_bytes = machine->live ? config->memory_bytes : config->current_memory_bytes,
        .vcpus = config->vcpus,
        .vcpus_max = config->vcpus_max,
    };
    fill_handle_locked(machine, &view_out->dom);
    g_mutex_unlock(&machine->mutex);
}

void lodge_machine_view_clear(LodgeMachineView *view)
{
    g_clear_pointer(&view->dom.name, g_free);
}

gboolean lodge_machine_is_active(LodgeMachine *machine)
{
    gboolean active;

    g_mutex_lock(&machine->mutex);
    active = machine->id >= 0;
    g_mutex_unlock(&machine->mutex);
    return active;
}

LodgeDomainConfig *lodge_machine_copy_definition(LodgeMachine *machine, LodgeDefinition which,
                                                 GError **error)
{
    LodgeDomainConfig *copy = NULL;

    g_mutex_lock(&machine->mutex);
    if (which == LODGE_DEFINITION_STORED && !machine->persistent) {
        lodge_machine_refuse_transient(machine, error);
    } else if (which == LODGE_DEFINITION_LIVE && !machine->live) {
        lodge_machine_refuse_idle(machine, error);
    } else if (which != LODGE_DEFINITION_STORED && machine->live) {
        copy = lodge_domain_config_copy(machine->live);
    } else {
        copy = lodge_domain_config_copy(machine->config);
    }
    g_mutex_unlock(&machine->mutex);
    return copy;
}

char *lodge_machine_format(LodgeMachine *machine, gboolean stored, guint flags)
{
    char *text;

    g_mutex_lock(&machine->mutex);
    if (machine->live && !(stored && machine->persistent)) {
        const LodgeDomainLive live = {.id = machine->id};

        text = lodge_domain_config_format(machine->live, stored ? NULL : &live, flags);
    } else {
        text = lodge_domain_config_format(machine->config, NULL, flags);
    }
    g_mutex_unlock(&machine->mutex);
    return text;
}

LodgeInstance *lodge_machine_get_instance(LodgeMachine *machine)
{
    LodgeInstance *instance;

    g_mutex_lock(&machine->mutex);
    instance = machine->instance ? lodge_instance_ref(machine->instance) : NULL;
    g_mutex_unlock(&machine->mutex);
    return instance;
}

LodgeInstance *lodge_machine_need_instance(LodgeMachine *machine, GError **error)
{
    LodgeInstance *instance = lodge_machine_get_instance(machine);

    if (!instance) {
        g_mutex_lock(&machine->mutex);
        lodge_machine_refuse_idle(machine, error);
        g_mutex_unlock(&machine->mutex);
    }
    return instance;
}

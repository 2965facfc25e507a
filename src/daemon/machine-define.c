/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What changes definitions, in memory and on disk. */
#include "daemon/machines-private.h"

#include "common/i18n.h"
#include "daemon/libvirt-error.h"

#include <libvirt/libvirt.h>
#include <string.h>

/* With `changing` held. TRUE: nobody has the name or the UUID. */
static gboolean is_free(LodgeMachines *machines, const LodgeDomainConfig *config, GError **error)
{
    gboolean is_new = TRUE;

    g_mutex_lock(&machines->mutex);
    for (guint i = 0; i < machines->all->len && is_new; i++) {
        const LodgeDomainConfig *other = ((LodgeMachine *)machines->all->pdata[i])->config;
        g_autofree char *uuid = NULL;

        if (memcmp(other->uuid, config->uuid, LODGE_UUID_BYTES) == 0) {
            uuid = lodge_uuid_format(other->uuid);
            is_new = lodge_refuse(error, VIR_ERR_DOM_EXIST,
                                  _("The machine “%s” cannot have the UUID %s: it is that of “%s”"),
                                  config->name, uuid, other->name);
        } else if (strcmp(other->name, config->name) == 0) {
            uuid = lodge_uuid_format(other->uuid);
            is_new = lodge_refuse(
                error, VIR_ERR_DOM_EXIST,
                _("There is a machine “%s” already, with the UUID %s; use another name, or that "
                  "UUID to change it"),
                config->name, uuid);
        }
    }
    g_mutex_unlock(&machines->mutex);
    return is_new;
}

static LodgeMachine *add_new(LodgeMachines *machines, LodgeDomainConfig *config,
                             gboolean persistent, GError **error)
{
    g_autoptr(LodgeDomainConfig) mine = config;
    LodgeMachine *machine = NULL;

    g_mutex_lock(&machines->changing);
    if (is_free(machines, mine, error) &&
        lodge_domain_store_check_free(machines->store, mine->name, error) &&
        (!persistent || lodge_domain_store_save(machines->store, mine, error))) {
        machine = lodge_machine_new(machines, g_steal_pointer(&mine), persistent);
        lodge_machines_add(machines, machine);
    }
    g_mutex_unlock(&machines->changing);
    return machine;
}

/* In a job: @config is the stored definition from now on. */
static gboolean store(LodgeMachine *machine, LodgeDomainConfig *config, GError **error)
{
    LodgeMachines *machines = machine->machines;
    LodgeDomainConfig *unused = config;
    gboolean saved;

    g_mutex_lock(&machines->changing);
    saved = lodge_domain_store_save(machines->store, config, error);
    if (saved) {
        g_mutex_lock(&machine->mutex);
        unused = machine->config;
        machine->config = config;
        machine->persistent = TRUE;
        g_mutex_unlock(&machine->mutex);
    }
    g_mutex_unlock(&machines->changing);
    lodge_domain_config_free(unused);
    return saved;
}

/* In a job. */
static gboolean redefine(LodgeMachine *machine, LodgeDomainConfig *config, GError **error)
{
    g_autoptr(LodgeDomainConfig) mine = config;

    if (strcmp(mine->name, machine->config->name) != 0) {
        return lodge_refuse(error, VIR_ERR_OPERATION_FAILED,
                            _("The UUID is that of the machine “%s”, the name is “%s”; rename it "
                              "first, or give the new one another UUID"),
                            machine->config->name, mine->name);
    }
    return store(machine, g_steal_pointer(&mine), error);
}

LodgeMachine *lodge_machines_define(LodgeMachines *machines, LodgeDomainConfig *config,
                                    GError **error)
{
    g_autoptr(LodgeDomainConfig) mine = config;
    g_autoptr(LodgeMachine) machine =
        lodge_machines_find_uuid(machines, (const char *)mine->uuid, NULL);
    gboolean was_there = machine != NULL;

    if (machine && lodge_machine_begin(machine, error)) {
        gboolean done = redefine(machine, g_steal_pointer(&mine), error);

        lodge_machine_end(machine);
        if (!done) {
            return NULL;
        }
    } else if (machine) {
        return NULL;
    } else {
        machine = add_new(machines, g_steal_pointer(&mine), TRUE, error);
    }
    if (machine) {
        lodge_machine_tell(machine, VIR_DOMAIN_EVENT_DEFINED,
                           was_there ? VIR_DOMAIN_EVENT_DEFINED_UPDATED
                                     : VIR_DOMAIN_EVENT_DEFINED_ADDED);
    }
    return g_steal_pointer(&machine);
}

LodgeMachine *lodge_machines_create(LodgeMachines *machines, LodgeDomainConfig *config,
                                    gboolean paused, GError **error)
{
    g_autoptr(LodgeMachine) machine = add_new(machines, config, FALSE, error);

    if (!machine) {
        return NULL;
    }
    if (!lodge_machine_start(machine, paused, error)) {
        /* It may have been removed by its own end; twice is as good. */
        lodge_machines_remove(machines, machine);
        return NULL;
    }
    return g_steal_pointer(&machine);
}

/* In a job. */
static gboolean undefine(LodgeMachine *machine, GError **error)
{
    LodgeMachines *machines = machine->machines;
    gboolean done;

    if (!machine->persistent) {
        return lodge_refuse(error, VIR_ERR_OPERATION_INVALID,
                            _("The machine “%s” is transient: it goes when it is destroyed"),
                            machine->config->name);
    }
    g_mutex_lock(&machines->changing);
    done = lodge_domain_store_delete(machines->store, machine->config->name, error);
    if (done) {
        g_mutex_lock(&machine->mutex);
        machine->persistent = FALSE;
        machine->autostart = FALSE;
        g_mutex_unlock(&machine->mutex);
        if (!machine->instance) {
            lodge_machines_remove(machines, machine);
        }
    }
    g_mutex_unlock(&machines->changing);
    return done;
}

gboolean lodge_machine_undefine(LodgeMachine *machine, GError **error)
{
    gboolean done;

    if (!lodge_machine_begin(machine, error)) {
        return FALSE;
    }
    done = undefine(machine, error);
    if (done) {
        lodge_machine_tell(machine, VIR_DOMAIN_EVENT_UNDEFINED, VIR_DOMAIN_EVENT_UNDEFINED_REMOVED);
    }
    lodge_machine_end(machine);
    return done;
}

/* In a job, with `changing` held. */
static gboolean rename_machine(LodgeMachine *machine, const char *name, GError **error)
{
    LodgeMachines *machines = machine->machines;
    g_autoptr(LodgeDomainConfig) config = lodge_domain_config_copy(machine->config);
    g_autoptr(LodgeMachine) other = lodge_machines_find_name(machines, name, NULL);

    if (machine->instance || !machine->persistent) {
        return lodge_refuse(error, VIR_ERR_OPERATION_INVALID,
                            _("The machine “%s” runs, or is not defined: only one that is shut off "
                              "can be renamed"),
                            machine->config->name);
    }
    if (other) {
        return lodge_refuse(error, VIR_ERR_OPERATION_INVALID,
                            _("The machine “%s” cannot be called “%s”: there is one of that name"),
                            machine->config->name, name);
    }
    g_free(config->name);
    config->name = g_strdup(name);
    if (!lodge_domain_store_check_free(machines->store, name, error) ||
        !lodge_domain_store_rename(machines->store, machine->config->name, config, error)) {
        return FALSE;
    }
    lodge_machines_set_renamed(machines, machine, g_steal_pointer(&config));
    return TRUE;
}

gboolean lodge_machine_rename(LodgeMachine *machine, const char *name, GError **error)
{
    lv_domain before;
    gboolean done;

    if (!lodge_text_check_name(name, error) || !lodge_machine_begin(machine, error)) {
        return FALSE;
    }
    lodge_machine_handle(machine, &before);
    g_mutex_lock(&machine->machines->changing);
    done = rename_machine(machine, name, error);
    g_mutex_unlock(&machine->machines->changing);
    if (done) {
        lodge_event_hub_lifecycle(machine->machines->hub, &before, VIR_DOMAIN_EVENT_UNDEFINED,
                                  VIR_DOMAIN_EVENT_UNDEFINED_RENAMED);
        lodge_machine_tell(machine, VIR_DOMAIN_EVENT_DEFINED, VIR_DOMAIN_EVENT_DEFINED_RENAMED);
    }
    g_free(before.name);
    lodge_machine_end(machine);
    return done;
}

/* In a job. */
static gboolean set_autostart(LodgeMachine *machine, gboolean on, GError **error)
{
    LodgeMachines *machines = machine->machines;
    gboolean done;

    if (!machine->persistent) {
        return lodge_refuse(error, VIR_ERR_OPERATION_INVALID,
                            _("The machine “%s” is transient: it cannot start with the daemon"),
                            machine->config->name);
    }
    g_mutex_lock(&machines->changing);
    done = lodge_domain_store_set_autostart(machines->store, machine->config->name, on, error);
    g_mutex_unlock(&machines->changing);
    if (done) {
        g_mutex_lock(&machine->mutex);
        machine->autostart = on;
        g_mutex_unlock(&machine->mutex);
    }
    return done;
}

gboolean lodge_machine_set_autostart(LodgeMachine *machine, gboolean on, GError **error)
{
    gboolean done;

    if (!lodge_machine_begin(machine, error)) {
        return FALSE;
    }
    done = set_autostart(machine, on, error);
    lodge_machine_end(machine);
    return done;
}

static gboolean edit_copy(const LodgeDomainConfig *from, const LodgeMachineChange *change,
                          LodgeDomainConfig **copy_out, GError **error)
{
    *copy_out = lodge_domain_config_copy(from);
    return change->edit(*copy_out, change->user_data, error) &&
           lodge_domain_config_check(*copy_out, error);
}

/* In a job. */
static gboolean change_both(LodgeMachine *machine, const LodgeMachineChange *change, GError **error)
{
    g_autoptr(LodgeDomainConfig) live = NULL;
    g_autoptr(LodgeDomainConfig) stored = NULL;

    if (change->live && !machine->live) {
        return lodge_machine_refuse_idle(machine, error);
    }
    if (change->stored && !machine->persistent) {
        return lodge_machine_refuse_transient(machine, error);
    }
    if ((change->live && !edit_copy(machine->live, change, &live, error)) ||
        (change->stored && !edit_copy(machine->config, change, &stored, error)) ||
        (live && change->apply && !change->apply(machine->instance, live, error))) {
        return FALSE;
    }
    if (stored && !store(machine, g_steal_pointer(&stored), error)) {
        /* As it was; it was possible then. */
        if (live && change->apply) {
            change->apply(machine->instance, machine->live, NULL);
        }
        return FALSE;
    }
    if (live) {
        g_mutex_lock(&machine->mutex);
        lodge_domain_config_free(machine->live);
        machine->live = g_steal_pointer(&live);
        g_mutex_unlock(&machine->mutex);
    }
    return TRUE;
}

gboolean lodge_machine_change(LodgeMachine *machine, const LodgeMachineChange *change,
                              GError **error)
{
    gboolean done;

    if (!lodge_machine_begin(machine, error)) {
        return FALSE;
    }
    done = change_both(machine, change, error);
    lodge_machine_end(machine);
    return done;
}

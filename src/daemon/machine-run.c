/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A machine's instance: start, changes of state, and what becomes of its end. All in a job, which alone
 * changes what these functions read without the mutex.
 */
#include "daemon/machine-private.h"

#include "common/i18n.h"
#include "daemon/libvirt-error.h"

#include <libvirt/libvirt.h>

/* Nothing of it runs on its core any more, or yet. */
static void leave_core(LodgeMachine *machine, const LodgeDomainConfig *live)
{
    if (live->pool == LODGE_POOL_OWN) {
        lodge_machines_sweep(machine->machines);
    }
}

/* @node: moved. */
static void tell_monitor(LodgeMachine *machine, const char *event, JsonNode *node)
{
    g_autofree char *details = json_to_string(node, FALSE);
    lv_domain dom;

    json_node_unref(node);
    lodge_machine_handle(machine, &dom);
    lodge_event_hub_monitor(lodge_machines_get_hub(machine->machines), &dom, event, details);
    g_free(dom.name);
}

static void tell_teardown(gpointer data)
{
    LodgeMachine *machine = data;

    tell_monitor(machine, LODGE_MONITOR_TEARDOWN, lodge_instance_teardown_json(machine->instance));
}

/* What costs questions to the core is asked only for those who want to hear it. */
static gboolean is_heard(LodgeMachine *machine, const char *event)
{
    lv_domain dom;
    gboolean heard;

    lodge_machine_handle(machine, &dom);
    heard = lodge_event_hub_wants_monitor(lodge_machines_get_hub(machine->machines), &dom, event);
    g_free(dom.name);
    return heard;
}

/* Memory is back, the machine is off, and a transient one is gone. */
static void stop(LodgeMachine *machine, int reason, int detail)
{
    LodgeInstance *instance = machine->instance;
    LodgeDomainConfig *live;

    lodge_instance_unwatch(instance);
    lodge_instance_destroy(
        instance, is_heard(machine, LODGE_MONITOR_TEARDOWN) ? tell_teardown : NULL, machine);
    lodge_machines_forget(machine->machines, machine->id);
    g_mutex_lock(&machine->mutex);
    machine->instance = NULL;
    live = g_steal_pointer(&machine->live);
    machine->id = -1;
    machine->again = FALSE;
    g_mutex_unlock(&machine->mutex);
    lodge_machine_set_state(machine, VIR_DOMAIN_SHUTOFF, reason);
    lodge_machine_tell(machine, VIR_DOMAIN_EVENT_STOPPED, detail);
    if (!machine->persistent) {
        lodge_machines_remove(machine->machines, machine);
    }
    lodge_instance_unref(instance);
    leave_core(machine, live);
    lodge_domain_config_free(live);
}

static void tell_reboot(LodgeMachine *machine)
{
    lv_domain dom;

    lodge_machine_handle(machine, &dom);
    lodge_event_hub_reboot(lodge_machines_get_hub(machine->machines), &dom);
    g_free(dom.name);
}

/* Why it has crashed, and where; the event of its life has but a number for that. */
static void tell_crash(LodgeMachine *machine, const char *why)
{
    if (is_heard(machine, LODGE_MONITOR_CRASH)) {
        tell_monitor(machine, LODGE_MONITOR_CRASH,
                     lodge_instance_crash_json(machine->instance, why));
    }
}

/* The instance has ended, or is to: power it off and on. */
static gboolean restart(LodgeMachine *machine, gboolean run, GError **error)
{
    machine->again = FALSE;
    if (!lodge_instance_restart(machine->instance, machine->live,
                                lodge_machines_get_fds(machine->machines), error) ||
        (run && !lodge_instance_resume(machine->instance, error))) {
        return FALSE;
    }
    if (run) {
        lodge_machine_set_state(machine, VIR_DOMAIN_RUNNING, VIR_DOMAIN_RUNNING_BOOTED);
    }
    tell_reboot(machine);
    return TRUE;
}

/* What becomes of an instance that ended by itself. */
static void act(LodgeMachine *machine, LodgeAction action, gboolean crashed)
{
    g_autoptr(GError) error = NULL;

    switch (action) {
    case LODGE_ACTION_RESTART:
        if (!restart(machine, TRUE, &error)) {
            g_warning("%s: %s", machine->config->name, error->message);
            stop(machine, VIR_DOMAIN_SHUTOFF_FAILED, VIR_DOMAIN_EVENT_STOPPED_FAILED);
        }
        break;
    case LODGE_ACTION_PRESERVE:
        if (crashed) {
            lodge_machine_set_state(machine, VIR_DOMAIN_CRASHED, VIR_DOMAIN_CRASHED_PANICKED);
            lodge_machine_tell(machine, VIR_DOMAIN_EVENT_CRASHED,
                               VIR_DOMAIN_EVENT_CRASHED_PANICKED);
        } else {
            lodge_machine_set_state(machine, VIR_DOMAIN_SHUTDOWN, VIR_DOMAIN_SHUTDOWN_USER);
            lodge_machine_tell(machine, VIR_DOMAIN_EVENT_SHUTDOWN, VIR_DOMAIN_EVENT_SHUTDOWN_GUEST);
        }
        break;
    case LODGE_ACTION_DEFAULT:
    case LODGE_ACTION_DESTROY:
        if (crashed) {
            stop(machine, VIR_DOMAIN_SHUTOFF_CRASHED, VIR_DOMAIN_EVENT_STOPPED_CRASHED);
        } else {
            stop(machine, VIR_DOMAIN_SHUTOFF_SHUTDOWN, VIR_DOMAIN_EVENT_STOPPED_SHUTDOWN);
        }
        break;
    }
}

static void judge_end(LodgeMachine *machine, const struct hv_domain_status *status)
{
    const LodgeDomainConfig *config = machine->live;

    switch (status->end) {
    case HV_DOMAIN_END_NONE:
    case HV_DOMAIN_END_NO_MEMORY:
        break;
    case HV_DOMAIN_END_POWEROFF:
    case HV_DOMAIN_END_DEBUG_EXIT:
    case HV_DOMAIN_END_HALTED:
        act(machine, machine->again ? LODGE_ACTION_RESTART : config->on_poweroff, FALSE);
        break;
    case HV_DOMAIN_END_REBOOT:
        act(machine,
            config->on_reboot == LODGE_ACTION_DEFAULT ? LODGE_ACTION_RESTART : config->on_reboot,
            FALSE);
        break;
    case HV_DOMAIN_END_TRIPLE_FAULT:
    case HV_DOMAIN_END_CRASH:
        g_message("%s: %s", config->name, status->reason);
        tell_crash(machine, status->reason);
        act(machine, config->on_crash, TRUE);
        break;
    }
}

/* The host had no memory for a page: the machine goes on when somebody resumes it. */
static void out_of_memory(LodgeMachine *machine)
{
    if (machine->state == VIR_DOMAIN_RUNNING) {
        g_message(_("%s: the host has no memory for it; it is paused"), machine->config->name);
        lodge_machine_set_state(machine, VIR_DOMAIN_PAUSED, VIR_DOMAIN_PAUSED_IOERROR);
        lodge_machine_tell(machine, VIR_DOMAIN_EVENT_SUSPENDED, VIR_DOMAIN_EVENT_SUSPENDED_IOERROR);
    }
}

/* In a job: it may have ended, or have been ended. */
static void look(LodgeMachine *machine)
{
    struct hv_domain_status status;

    lodge_instance_get_status(machine->instance, &status);
    if (lodge_instance_is_lost(machine->instance)) {
        g_warning(_("%s: its core has ended, and the machine with it"), machine->config->name);
        stop(machine, VIR_DOMAIN_SHUTOFF_CRASHED, VIR_DOMAIN_EVENT_STOPPED_FAILED);
    } else if (status.state >= HV_DOMAIN_STATE_DYING) {
        stop(machine, VIR_DOMAIN_SHUTOFF_DESTROYED, VIR_DOMAIN_EVENT_STOPPED_DESTROYED);
    } else if (status.state == HV_DOMAIN_STATE_SHUTDOWN) {
        judge_end(machine, &status);
    } else if (status.state == HV_DOMAIN_STATE_PAUSED && status.end == HV_DOMAIN_END_NO_MEMORY) {
        out_of_memory(machine);
    }
}

void lodge_machine_look(LodgeMachine *machine, LodgeInstance *instance)
{
    for (;;) {
        g_autoptr(GError) error = NULL;

        if (lodge_machine_begin(machine, &error)) {
            break;
        }
        if (error->code == VIR_ERR_NO_DOMAIN) {
            return;
        }
    }
    /* Others may have done it meanwhile. */
    if (machine->instance == instance) {
        look(machine);
    }
    lodge_machine_end(machine);
}

/* Others see it from here on, and may kill it. */
static void publish(LodgeMachine *machine, LodgeInstance *instance, LodgeDomainConfig *live, int id)
{
    g_mutex_lock(&machine->mutex);
    machine->instance = instance;
    machine->live = live;
    machine->id = id;
    machine->again = FALSE;
    g_mutex_unlock(&machine->mutex);
    lodge_machine_set_state(machine, VIR_DOMAIN_PAUSED, VIR_DOMAIN_PAUSED_STARTING_UP);
    lodge_machines_watch(machine, instance);
}

/* From here on it can outlive the daemon: the next one must know of it first. */
static gboolean go(LodgeMachine *machine, gboolean paused, GError **error)
{
    return lodge_machines_remember(machine->machines, machine->id, machine->live, error) &&
           (paused ? lodge_instance_keep(machine->instance, error)
                   : lodge_instance_resume(machine->instance, error));
}

static gboolean start(LodgeMachine *machine, gboolean paused, GError **error)
{
    g_autoptr(LodgeDomainConfig) live = NULL;
    g_autoptr(LodgeInstance) instance = NULL;
    g_autoptr(LodgeCore) core = NULL;

    if (machine->instance) {
        return lodge_refuse(error, VIR_ERR_OPERATION_INVALID, _("The machine “%s” runs already"),
                            machine->config->name);
    }
    if (!lodge_machines_check_missing(machine->machines, machine->config, error)) {
        return FALSE;
    }
    live = lodge_domain_config_copy(machine->config);
    core = lodge_machines_get_core(machine->machines, live, error);
    instance =
        core ? lodge_instance_new(core, live, lodge_machines_get_fds(machine->machines), error)
             : NULL;
    if (!instance) {
        leave_core(machine, live);
        return FALSE;
    }
    publish(machine, g_steal_pointer(&instance), g_steal_pointer(&live),
            lodge_machines_next_id(machine->machines));
    if (!go(machine, paused, error)) {
        stop(machine, VIR_DOMAIN_SHUTOFF_FAILED, VIR_DOMAIN_EVENT_STOPPED_FAILED);
        return FALSE;
    }
    if (paused) {
        lodge_machine_set_state(machine, VIR_DOMAIN_PAUSED, VIR_DOMAIN_PAUSED_USER);
    } else {
        lodge_machine_set_state(machine, VIR_DOMAIN_RUNNING, VIR_DOMAIN_RUNNING_BOOTED);
    }
    lodge_machine_tell(machine, VIR_DOMAIN_EVENT_STARTED, VIR_DOMAIN_EVENT_STARTED_BOOTED);
    if (paused) {
        lodge_machine_tell(machine, VIR_DOMAIN_EVENT_SUSPENDED, VIR_DOMAIN_EVENT_SUSPENDED_PAUSED);
    }
    return TRUE;
}

static gboolean refuse_ended(const LodgeMachine *machine, GError **error)
{
    return lodge_refuse(error, VIR_ERR_OPERATION_INVALID,
                        _("The machine “%s” has ended: reset or destroy it"),
                        machine->config->name);
}

static gboolean suspend(LodgeMachine *machine, gboolean unused, GError **error)
{
    (void)unused;
    if (!machine->instance) {
        return lodge_machine_refuse_idle(machine, error);
    }
    if (machine->state == VIR_DOMAIN_PAUSED) {
        return TRUE;
    }
    if (machine->state != VIR_DOMAIN_RUNNING) {
        return refuse_ended(machine, error);
    }
    if (!lodge_instance_pause(machine->instance, error)) {
        return FALSE;
    }
    lodge_machine_set_state(machine, VIR_DOMAIN_PAUSED, VIR_DOMAIN_PAUSED_USER);
    lodge_machine_tell(machine, VIR_DOMAIN_EVENT_SUSPENDED, VIR_DOMAIN_EVENT_SUSPENDED_PAUSED);
    return TRUE;
}

static gboolean resume(LodgeMachine *machine, gboolean unused, GError **error)
{
    (void)unused;
    if (!machine->instance) {
        return lodge_machine_refuse_idle(machine, error);
    }
    if (machine->state != VIR_DOMAIN_PAUSED) {
        return lodge_refuse(error, VIR_ERR_OPERATION_INVALID, _("The machine “%s” is not paused"),
                            machine->config->name);
    }
    if (!lodge_instance_resume(machine->instance, error)) {
        return FALSE;
    }
    lodge_machine_set_state(machine, VIR_DOMAIN_RUNNING, VIR_DOMAIN_RUNNING_UNPAUSED);
    lodge_machine_tell(machine, VIR_DOMAIN_EVENT_RESUMED, VIR_DOMAIN_EVENT_RESUMED_UNPAUSED);
    return TRUE;
}

static gboolean reset(LodgeMachine *machine, gboolean unused, GError **error)
{
    (void)unused;
    return machine->instance ? restart(machine, machine->state != VIR_DOMAIN_PAUSED, error)
                             : lodge_machine_refuse_idle(machine, error);
}

/* Who presses a button waits for the guest to do something about it. */
static gboolean check_running(LodgeMachine *machine, GError **error)
{
    if (!machine->instance) {
        return lodge_machine_refuse_idle(machine, error);
    }
    if (machine->state == VIR_DOMAIN_PAUSED) {
        return lodge_refuse(error, VIR_ERR_OPERATION_INVALID,
                            _("The machine “%s” is paused: resume it first"),
                            machine->config->name);
    }
    return machine->state == VIR_DOMAIN_RUNNING || refuse_ended(machine, error);
}

static gboolean press_power(LodgeMachine *machine, gboolean again, GError **error)
{
    if (!check_running(machine, error) || !lodge_instance_press_power(machine->instance, error)) {
        return FALSE;
    }
    machine->again = again;
    return TRUE;
}

static gboolean press_nmi(LodgeMachine *machine, gboolean unused, GError **error)
{
    (void)unused;
    return check_running(machine, error) && lodge_instance_press_nmi(machine->instance, error);
}

static gboolean in_job(LodgeMachine *machine,
                       gboolean (*change)(LodgeMachine *, gboolean, GError **), gboolean how,
                       GError **error)
{
    gboolean done;

    if (!lodge_machine_begin(machine, error)) {
        return FALSE;
    }
    done = change(machine, how, error);
    lodge_machine_end(machine);
    return done;
}

gboolean lodge_machine_start(LodgeMachine *machine, gboolean paused, GError **error)
{
    return in_job(machine, start, paused, error);
}

gboolean lodge_machine_suspend(LodgeMachine *machine, GError **error)
{
    return in_job(machine, suspend, FALSE, error);
}

gboolean lodge_machine_resume(LodgeMachine *machine, GError **error)
{
    return in_job(machine, resume, FALSE, error);
}

gboolean lodge_machine_reset(LodgeMachine *machine, GError **error)
{
    return in_job(machine, reset, FALSE, error);
}

gboolean lodge_machine_shutdown(LodgeMachine *machine, gboolean again, GError **error)
{
    return in_job(machine, press_power, again, error);
}

gboolean lodge_machine_press_nmi(LodgeMachine *machine, GError **error)
{
    return in_job(machine, press_nmi, FALSE, error);
}

gboolean lodge_machine_destroy(LodgeMachine *machine, GError **error)
{
    g_autoptr(LodgeInstance) instance = lodge_machine_need_instance(machine, error);
    g_autoptr(GError) cause = NULL;

    if (!instance) {
        return FALSE;
    }
    lodge_instance_kill(instance);
    if (!lodge_machine_begin(machine, &cause)) {
        /* Its watcher was faster, and it was transient. */
        if (cause->code == VIR_ERR_NO_DOMAIN) {
            return TRUE;
        }
        g_propagate_error(error, g_steal_pointer(&cause));
        return FALSE;
    }
    if (machine->instance == instance) {
        stop(machine, VIR_DOMAIN_SHUTOFF_DESTROYED, VIR_DOMAIN_EVENT_STOPPED_DESTROYED);
    }
    lodge_machine_end(machine);
    return TRUE;
}

void lodge_machine_adopt(LodgeMachine *machine, LodgeInstance *instance, LodgeDomainConfig *live,
                         int id)
{
    struct hv_domain_status status;

    publish(machine, instance, live, id);
    lodge_instance_get_status(instance, &status);
    if (status.state == HV_DOMAIN_STATE_PAUSED) {
        lodge_machine_set_state(machine, VIR_DOMAIN_PAUSED, VIR_DOMAIN_PAUSED_UNKNOWN);
    } else {
        lodge_machine_set_state(machine, VIR_DOMAIN_RUNNING, VIR_DOMAIN_RUNNING_UNKNOWN);
    }
}

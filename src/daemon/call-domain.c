/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What one can see of a machine, but for its statistics. */
#include "daemon/call.h"

#include <libvirt/libvirt.h>

static guint64 cpu_time_ns(LodgeMachine *machine)
{
    g_autoptr(LodgeInstance) instance = lodge_machine_get_instance(machine);

    return instance ? lodge_instance_get_stat(instance, "cpu.time") : 0;
}

static gboolean get_info(LodgeCall *call, void *args, void *ret, GError **error)
{
    g_auto(LodgeMachineView) view = {0};
    lv_domain_info_ret *answer = ret;

    (void)args, (void)error;
    lodge_machine_view(call->machine, &view);
    *answer = (lv_domain_info_ret){
        .state = (u_int)view.state,
        .max_memory = view.max_memory_bytes / HV_KIB,
        .memory = view.memory_bytes / HV_KIB,
        .vcpus = view.vcpus,
        .cpu_time = cpu_time_ns(call->machine),
    };
    return TRUE;
}

static gboolean get_state(LodgeCall *call, void *args, void *ret, GError **error)
{
    const lv_domain_flags_args *asked = args;
    g_auto(LodgeMachineView) view = {0};
    lv_domain_state_ret *answer = ret;

    if (!lodge_call_check_flags(asked->flags, 0, error)) {
        return FALSE;
    }
    lodge_machine_view(call->machine, &view);
    answer->state = view.state;
    answer->reason = view.reason;
    return TRUE;
}

static gboolean get_control_info(LodgeCall *call, void *args, void *ret, GError **error)
{
    g_auto(LodgeMachineView) view = {0};
    lv_control_info_ret *answer = ret;

    (void)args, (void)error;
    lodge_machine_view(call->machine, &view);
    answer->state = view.busy ? VIR_DOMAIN_CONTROL_JOB : VIR_DOMAIN_CONTROL_OK;
    return TRUE;
}

static gboolean get_max_memory(LodgeCall *call, void *args, void *ret, GError **error)
{
    g_auto(LodgeMachineView) view = {0};
    lv_ulong_ret *answer = ret;

    (void)args, (void)error;
    lodge_machine_view(call->machine, &view);
    answer->value = view.max_memory_bytes / HV_KIB;
    return TRUE;
}

static gboolean get_max_vcpus(LodgeCall *call, void *args, void *ret, GError **error)
{
    g_auto(LodgeMachineView) view = {0};
    lv_int_ret *answer = ret;

    (void)args, (void)error;
    lodge_machine_view(call->machine, &view);
    answer->value = (int)view.vcpus_max;
    return TRUE;
}

static gboolean get_os_type(LodgeCall *call, void *args, void *ret, GError **error)
{
    lv_string_ret *answer = ret;

    (void)call, (void)args, (void)error;
    answer->text = g_strdup("hvm");
    return TRUE;
}

static gboolean is_active(LodgeCall *call, void *args, void *ret, GError **error)
{
    lv_int_ret *answer = ret;

    (void)args, (void)error;
    answer->value = lodge_machine_is_active(call->machine);
    return TRUE;
}

static gboolean is_persistent(LodgeCall *call, void *args, void *ret, GError **error)
{
    g_auto(LodgeMachineView) view = {0};
    lv_int_ret *answer = ret;

    (void)args, (void)error;
    lodge_machine_view(call->machine, &view);
    answer->value = view.persistent;
    return TRUE;
}

/* Of saved images and snapshots, a machine has none: the answer is the zeroed one. */
static gboolean has_none(LodgeCall *call, void *args, void *ret, GError **error)
{
    (void)call, (void)args, (void)ret, (void)error;
    return TRUE;
}

/* What is long enough to have progress is not under way: VIR_DOMAIN_JOB_NONE, 0. */
static gboolean get_no_job(LodgeCall *call, void *args, void *ret, GError **error)
{
    G_STATIC_ASSERT(VIR_DOMAIN_JOB_NONE == 0);
    (void)call, (void)args, (void)ret, (void)error;
    return TRUE;
}

/* What it says in its definition that does nothing. */
static gboolean get_messages(LodgeCall *call, void *args, void *ret, GError **error)
{
    const lv_domain_flags_args *asked = args;
    lv_messages_ret *answer = ret;
    g_autoptr(LodgeDomainConfig) config = NULL;

    if (!lodge_call_check_flags(
            asked->flags, VIR_DOMAIN_MESSAGE_DEPRECATION | VIR_DOMAIN_MESSAGE_TAINTING, error)) {
        return FALSE;
    }
    config = lodge_machine_copy_definition(call->machine, LODGE_DEFINITION_CURRENT, error);
    if (!config) {
        return FALSE;
    }
    if (asked->flags == 0 || (asked->flags & VIR_DOMAIN_MESSAGE_TAINTING)) {
        answer->messages.messages_len = g_strv_length(config->inert);
        answer->messages.messages_val = g_new0(lv_string, answer->messages.messages_len);
    }
    for (guint i = 0; i < answer->messages.messages_len; i++) {
        answer->messages.messages_val[i] =
            g_strdup_printf("Lodge keeps <%s>, and it does nothing", config->inert[i]);
    }
    return TRUE;
}

static const LodgeCallEntry entries[] = {
    {LV_DOMAIN_GET_INFO, LODGE_CALL_READS, get_info, TRUE},
    {LV_DOMAIN_GET_STATE, LODGE_CALL_READS, get_state, TRUE},
    {LV_DOMAIN_GET_CONTROL_INFO, LODGE_CALL_READS, get_control_info, TRUE},
    {LV_DOMAIN_GET_MAX_MEMORY, LODGE_CALL_READS, get_max_memory, TRUE},
    {LV_DOMAIN_GET_MAX_VCPUS, LODGE_CALL_READS, get_max_vcpus, TRUE},
    {LV_DOMAIN_GET_OS_TYPE, LODGE_CALL_READS, get_os_type, TRUE},
    {LV_DOMAIN_IS_ACTIVE, LODGE_CALL_READS, is_active, TRUE},
    {LV_DOMAIN_IS_PERSISTENT, LODGE_CALL_READS, is_persistent, TRUE},
    {LV_DOMAIN_HAS_MANAGED_SAVE_IMAGE, LODGE_CALL_READS, has_none, TRUE},
    {LV_DOMAIN_SNAPSHOT_NUM, LODGE_CALL_READS, has_none, TRUE},
    {LV_DOMAIN_GET_JOB_INFO, LODGE_CALL_READS, get_no_job, TRUE},
    {LV_DOMAIN_GET_JOB_STATS, LODGE_CALL_READS, get_no_job, TRUE},
    {LV_DOMAIN_GET_MESSAGES, LODGE_CALL_READS, get_messages, TRUE},
};

const LodgeCallFamily lodge_calls_domain = {LV_REMOTE, entries, G_N_ELEMENTS(entries)};

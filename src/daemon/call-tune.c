/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A machine's part in the CPUs: libvirt's scheduler parameters, and which host CPUs it may use. */
#include "daemon/call.h"

#include "common/i18n.h"

#include <libvirt/libvirt.h>
#include <string.h>

/* Each is 64 bits of the definition. Zero stands for what holds when it is not given. */
static const struct {
    const char *name;
    int type;
    gsize offset;
    gint64 standard;
} parameters[] = {
    {VIR_DOMAIN_SCHEDULER_CPU_SHARES, VIR_TYPED_PARAM_ULLONG,
     G_STRUCT_OFFSET(LodgeTuneConfig, shares), 1024},
    {VIR_DOMAIN_SCHEDULER_VCPU_PERIOD, VIR_TYPED_PARAM_ULLONG,
     G_STRUCT_OFFSET(LodgeTuneConfig, period_us), 100000},
    {VIR_DOMAIN_SCHEDULER_VCPU_QUOTA, VIR_TYPED_PARAM_LLONG,
     G_STRUCT_OFFSET(LodgeTuneConfig, quota_us), -1},
    {VIR_DOMAIN_SCHEDULER_GLOBAL_PERIOD, VIR_TYPED_PARAM_ULLONG,
     G_STRUCT_OFFSET(LodgeTuneConfig, global_period_us), 100000},
    {VIR_DOMAIN_SCHEDULER_GLOBAL_QUOTA, VIR_TYPED_PARAM_LLONG,
     G_STRUCT_OFFSET(LodgeTuneConfig, global_quota_us), -1},
};

static gboolean get_type(LodgeCall *call, void *args, void *ret, GError **error)
{
    lv_sched_type_ret *answer = ret;

    (void)call, (void)args, (void)error;
    answer->type = g_strdup("credit");
    answer->nparams = G_N_ELEMENTS(parameters);
    return TRUE;
}

static gboolean get(LodgeMachine *machine, int room, guint flags, lv_sched_ret *answer,
                    GError **error)
{
    g_autoptr(LodgeDomainConfig) config = NULL;

    if (!lodge_call_check_flags(flags, LODGE_CALL_AFFECT | VIR_TYPED_PARAM_STRING_OKAY, error)) {
        return FALSE;
    }
    config = lodge_call_copy_definition(machine, flags, error);
    if (!config) {
        return FALSE;
    }
    answer->params.params_len = (u_int)CLAMP(room, 0, (int)G_N_ELEMENTS(parameters));
    answer->params.params_val = g_new0(lv_param, answer->params.params_len);
    for (guint i = 0; i < answer->params.params_len; i++) {
        lv_param *param = &answer->params.params_val[i];
        gint64 value = G_STRUCT_MEMBER(gint64, &config->tune, parameters[i].offset);

        param->field = g_strdup(parameters[i].name);
        param->value.type = parameters[i].type;
        /* Signed or not, it is the same word. */
        param->value.lv_value_u.l = value ? value : parameters[i].standard;
    }
    return TRUE;
}

static gboolean get_parameters(LodgeCall *call, void *args, void *ret, GError **error)
{
    const lv_get_sched_args *asked = args;

    return get(call->machine, asked->nparams, 0, ret, error);
}

static gboolean get_parameters_flags(LodgeCall *call, void *args, void *ret, GError **error)
{
    const lv_get_sched_flags_args *asked = args;

    return get(call->machine, asked->nparams, asked->flags, ret, error);
}

static gboolean take_parameter(LodgeTuneConfig *tune, const lv_param *param, GError **error)
{
    for (gsize i = 0; i < G_N_ELEMENTS(parameters); i++) {
        if (strcmp(param->field, parameters[i].name) != 0) {
            continue;
        }
        if (param->value.type != parameters[i].type) {
            return lodge_refuse(error, VIR_ERR_INVALID_ARG,
                                _("The scheduler parameter “%s” is of the type %d, not %d"),
                                parameters[i].name, parameters[i].type, param->value.type);
        }
        G_STRUCT_MEMBER(gint64, tune, parameters[i].offset) = param->value.lv_value_u.l;
        return TRUE;
    }
    return lodge_refuse(error, VIR_ERR_INVALID_ARG,
                        _("There is no such scheduler parameter; there are cpu_shares, "
                          "vcpu_period, vcpu_quota, global_period and global_quota"));
}

static gboolean edit_parameters(LodgeDomainConfig *config, gpointer user_data, GError **error)
{
    const lv_set_sched_args *asked = user_data;

    for (guint i = 0; i < asked->params.params_len; i++) {
        if (!take_parameter(&config->tune, &asked->params.params_val[i], error)) {
            return FALSE;
        }
    }
    return TRUE;
}

static gboolean apply_share(LodgeInstance *instance, const LodgeDomainConfig *config,
                            GError **error)
{
    LodgeCpuShare share;

    lodge_domain_config_get_share(config, &share);
    return lodge_instance_set_share(instance, &share, error);
}

static gboolean change(LodgeMachine *machine, guint flags, LodgeMachineEdit *edit,
                       gpointer user_data, GError **error)
{
    LodgeMachineChange what = {.edit = edit, .apply = apply_share, .user_data = user_data};

    if (!lodge_call_check_flags(flags, LODGE_CALL_AFFECT, error)) {
        return FALSE;
    }
    lodge_call_scope(machine, flags, &what.live, &what.stored);
    return lodge_machine_change(machine, &what, error);
}

/* Those who watch hear of it under the names that libvirt has for that. */
static void tell(LodgeCall *call, const lv_set_sched_args *asked)
{
    g_autofree lv_param *params = g_new0(lv_param, asked->params.params_len);
    lv_domain dom;

    for (guint i = 0; i < asked->params.params_len; i++) {
        params[i] = asked->params.params_val[i];
        params[i].field = g_strconcat("cputune.", params[i].field, NULL);
    }
    lodge_machine_handle(call->machine, &dom);
    lodge_event_hub_tunable(call->daemon->hub, &dom, params, asked->params.params_len);
    g_free(dom.name);
    for (guint i = 0; i < asked->params.params_len; i++) {
        g_free(params[i].field);
    }
}

static gboolean set_parameters(LodgeCall *call, void *args, void *ret, GError **error)
{
    lv_set_sched_args *asked = args;

    (void)ret;
    if (!change(call->machine, 0, edit_parameters, asked, error)) {
        return FALSE;
    }
    tell(call, asked);
    return TRUE;
}

static gboolean set_parameters_flags(LodgeCall *call, void *args, void *ret, GError **error)
{
    const lv_set_sched_flags_args *asked = args;
    lv_set_sched_args list = {
        .dom = asked->dom,
        .params = {asked->params.params_len, asked->params.params_val},
    };

    (void)ret;
    if (!change(call->machine, asked->flags, edit_parameters, &list, error)) {
        return FALSE;
    }
    if (!(asked->flags & VIR_DOMAIN_AFFECT_CONFIG)) {
        tell(call, &list);
    }
    return TRUE;
}

typedef struct {
    guint vcpu;
    LodgeCpuSet set;
} Pin;

static gboolean edit_pin(LodgeDomainConfig *config, gpointer user_data, GError **error)
{
    const Pin *pin = user_data;

    if (pin->vcpu >= config->vcpus_max) {
        return lodge_refuse(error, VIR_ERR_INVALID_ARG,
                            _("The machine “%s” has no virtual CPU %u; it has %u"), config->name,
                            pin->vcpu, config->vcpus_max);
    }
    config->tune.pin[pin->vcpu] = pin->set;
    return TRUE;
}

static gboolean set_pin(LodgeCall *call, guint vcpu, const char *map, guint bytes, guint flags,
                        GError **error)
{
    const GArray *cpus = call->daemon->host->cpus;
    Pin pin = {.vcpu = vcpu};

    for (guint i = 0; i < cpus->len; i++) {
        guint cpu = g_array_index(cpus, LodgeHostCpu, i).id;

        if (cpu < LODGE_CPU_SET_CPUS && cpu / 8 < bytes && (map[cpu / 8] >> cpu % 8 & 1)) {
            pin.set.word[cpu / 64] |= UINT64_C(1) << cpu % 64;
        }
    }
    if (lodge_cpu_set_is_empty(&pin.set)) {
        return lodge_refuse(error, VIR_ERR_INVALID_ARG,
                            _("There is no host CPU among those that virtual CPU %u shall use"),
                            vcpu);
    }
    return change(call->machine, flags, edit_pin, &pin, error);
}

static gboolean pin_vcpu(LodgeCall *call, void *args, void *ret, GError **error)
{
    const lv_pin_vcpu_args *asked = args;

    (void)ret;
    return set_pin(call, asked->vcpu, asked->map.map_val, asked->map.map_len, 0, error);
}

static gboolean pin_vcpu_flags(LodgeCall *call, void *args, void *ret, GError **error)
{
    const lv_pin_vcpu_flags_args *asked = args;

    (void)ret;
    return set_pin(call, asked->vcpu, asked->map.map_val, asked->map.map_len, asked->flags, error);
}

static const LodgeCallEntry entries[] = {
    {LV_DOMAIN_GET_SCHEDULER_TYPE, LODGE_CALL_READS, get_type, TRUE},
    {LV_DOMAIN_GET_SCHEDULER_PARAMETERS, LODGE_CALL_READS, get_parameters, TRUE},
    {LV_DOMAIN_GET_SCHEDULER_PARAMETERS_FLAGS, LODGE_CALL_READS, get_parameters_flags, TRUE},
    {LV_DOMAIN_SET_SCHEDULER_PARAMETERS, LODGE_CALL_WRITES, set_parameters, TRUE},
    {LV_DOMAIN_SET_SCHEDULER_PARAMETERS_FLAGS, LODGE_CALL_WRITES, set_parameters_flags, TRUE},
    {LV_DOMAIN_PIN_VCPU, LODGE_CALL_WRITES, pin_vcpu, TRUE},
    {LV_DOMAIN_PIN_VCPU_FLAGS, LODGE_CALL_WRITES, pin_vcpu_flags, TRUE},
};

const LodgeCallFamily lodge_calls_tune = {LV_REMOTE, entries, G_N_ELEMENTS(entries)};

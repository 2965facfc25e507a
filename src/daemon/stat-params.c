/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The core's list and the daemon's own, by group and type. */
#include "daemon/stat-params.h"

#include <libvirt/libvirt.h>
#include <string.h>

/* By the beginning of a name. What is Lodge's own goes with VM. */
static const struct {
    const char *prefix;
    guint group;
} groups[] = {
    {"state.", VIR_DOMAIN_STATS_STATE},     {"cpu.", VIR_DOMAIN_STATS_CPU_TOTAL},
    {"balloon.", VIR_DOMAIN_STATS_BALLOON}, {"vcpu.", VIR_DOMAIN_STATS_VCPU},
    {"dirty.", VIR_DOMAIN_STATS_DIRTYRATE}, {"", VIR_DOMAIN_STATS_VM},
};

/* As libvirt documents them; 64 bits without a sign are the rule. */
static const struct {
    const char *name;
    int type;
} types[] = {
    {"state.state", VIR_TYPED_PARAM_INT},
    {"state.reason", VIR_TYPED_PARAM_INT},
    {"vcpu.current", VIR_TYPED_PARAM_UINT},
    {"vcpu.maximum", VIR_TYPED_PARAM_UINT},
};

guint lodge_stat_params_groups(void)
{
    return VIR_DOMAIN_STATS_STATE | VIR_DOMAIN_STATS_CPU_TOTAL | VIR_DOMAIN_STATS_BALLOON |
           VIR_DOMAIN_STATS_VCPU | VIR_DOMAIN_STATS_VM;
}

static gboolean is_wanted(const char *name, guint mask)
{
    for (gsize i = 0; i < G_N_ELEMENTS(groups); i++) {
        if (g_str_has_prefix(name, groups[i].prefix)) {
            return mask == 0 || (mask & groups[i].group);
        }
    }
    return FALSE;
}

static void put_number(lv_value *value, const char *name, guint64 number)
{
    value->type = VIR_TYPED_PARAM_ULLONG;
    for (gsize i = 0; i < G_N_ELEMENTS(types); i++) {
        if (strcmp(name, types[i].name) == 0) {
            value->type = types[i].type;
        }
    }
    if (value->type == VIR_TYPED_PARAM_INT) {
        value->lv_value_u.i = (int)number;
    } else if (value->type == VIR_TYPED_PARAM_UINT) {
        value->lv_value_u.ui = (u_int)number;
    } else {
        value->lv_value_u.ul = number;
    }
}

static void add_number(GArray *params, guint mask, const char *name, guint64 number)
{
    lv_param param = {0};

    if (is_wanted(name, mask)) {
        param.field = g_strdup(name);
        put_number(&param.value, name, number);
        g_array_append_val(params, param);
    }
}

static void add_stat(GArray *params, guint mask, const struct hv_stat *stat)
{
    lv_param param = {0};

    if (!stat->is_text) {
        add_number(params, mask, stat->name, stat->value);
    } else if (is_wanted(stat->name, mask)) {
        param.field = g_strdup(stat->name);
        param.value.type = VIR_TYPED_PARAM_STRING;
        param.value.lv_value_u.s = g_strdup(stat->text);
        g_array_append_val(params, param);
    }
}

/* The daemon knows better than the core how it came to a state. */
static void add_state(GArray *params, guint mask, const LodgeMachineView *view)
{
    add_number(params, mask, "state.state", (guint64)view->state);
    add_number(params, mask, "state.reason", (guint64)view->reason);
}

static void add_idle(GArray *params, guint mask, const LodgeMachineView *view)
{
    add_number(params, mask, "balloon.maximum", view->max_memory_bytes / HV_KIB);
    add_number(params, mask, "vcpu.current", view->vcpus);
    add_number(params, mask, "vcpu.maximum", view->vcpus_max);
}

void lodge_stat_params_fill(LodgeMachine *machine, guint mask, lv_domain_stats *stats_out)
{
    g_autoptr(LodgeInstance) instance = lodge_machine_get_instance(machine);
    GArray *params = g_array_new(FALSE, FALSE, sizeof(lv_param));
    g_auto(LodgeMachineView) view = {0};
    gsize count = 0;
    g_autofree struct hv_stat *stats = NULL;

    lodge_machine_view(machine, &view);
    stats_out->dom = view.dom;
    view.dom.name = NULL;
    add_state(params, mask, &view);
    /* The state alone is asked for most, and the list is long. */
    if (instance && mask != VIR_DOMAIN_STATS_STATE) {
        stats = lodge_instance_read_stats(instance, &count);
    } else if (!instance) {
        add_idle(params, mask, &view);
    }
    for (gsize i = 0; i < count && params->len < LV_STAT_PARAMS_MAX; i++) {
        if (strcmp(stats[i].name, "state.state") != 0) {
            add_stat(params, mask, &stats[i]);
        }
    }
    stats_out->params.params_len = params->len;
    stats_out->params.params_val = (lv_param *)(void *)g_array_free(params, FALSE);
}

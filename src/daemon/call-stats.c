/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Statistics of machines: all at once, and the older ways to some of them. */
#include "daemon/call.h"

#include "common/i18n.h"
#include "daemon/stat-params.h"

#include <libvirt/libvirt.h>

/* By which machines are chosen: the bits of VIR_CONNECT_LIST_DOMAINS_… */
#define FILTERS                                                                                   \
    (VIR_CONNECT_GET_ALL_DOMAINS_STATS_ACTIVE | VIR_CONNECT_GET_ALL_DOMAINS_STATS_INACTIVE |      \
     VIR_CONNECT_GET_ALL_DOMAINS_STATS_PERSISTENT | VIR_CONNECT_GET_ALL_DOMAINS_STATS_TRANSIENT | \
     VIR_CONNECT_GET_ALL_DOMAINS_STATS_RUNNING | VIR_CONNECT_GET_ALL_DOMAINS_STATS_PAUSED |       \
     VIR_CONNECT_GET_ALL_DOMAINS_STATS_SHUTOFF | VIR_CONNECT_GET_ALL_DOMAINS_STATS_OTHER)
/* Reading never waits for anything, and there are no images with backing files. */
#define HINTS (VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT | VIR_CONNECT_GET_ALL_DOMAINS_STATS_BACKING)

/* Those that are named; of one that is gone meanwhile, there are none. */
static GPtrArray *find_named(LodgeCall *call, const lv_all_stats_args *asked)
{
    GPtrArray *machines = g_ptr_array_new_with_free_func((GDestroyNotify)lodge_machine_unref);

    for (guint i = 0; i < asked->doms.doms_len; i++) {
        LodgeMachine *machine =
            lodge_machines_find(call->daemon->machines, &asked->doms.doms_val[i], NULL);

        if (machine) {
            g_ptr_array_add(machines, machine);
        }
    }
    return machines;
}

static GPtrArray *find_all(LodgeCall *call, guint filter)
{
    GPtrArray *machines = lodge_machines_list(call->daemon->machines);

    for (guint i = machines->len; i > 0; i--) {
        g_auto(LodgeMachineView) view = {0};

        lodge_machine_view(machines->pdata[i - 1], &view);
        if (!lodge_call_passes(&view, filter)) {
            g_ptr_array_remove_index(machines, i - 1);
        }
    }
    return machines;
}

/* Each core writes those of all its machines at once; then they are read from its pages. */
static void have_written(const GPtrArray *machines)
{
    g_autoptr(GHashTable) asked =
        g_hash_table_new_full(NULL, NULL, (GDestroyNotify)lodge_core_unref, NULL);

    for (guint i = 0; i < machines->len; i++) {
        g_autoptr(LodgeInstance) instance = lodge_machine_get_instance(machines->pdata[i]);
        LodgeCore *core = instance ? lodge_instance_core(instance) : NULL;

        if (core && g_hash_table_add(asked, lodge_core_ref(core))) {
            lodge_core_write_stats(core);
        }
    }
}

static gboolean get_all(LodgeCall *call, void *args, void *ret, GError **error)
{
    const lv_all_stats_args *asked = args;
    lv_all_stats_ret *answer = ret;
    g_autoptr(GPtrArray) machines = NULL;
    guint missing = asked->stats & ~lodge_stat_params_groups();

    if (!lodge_call_check_flags(asked->flags,
                                FILTERS | HINTS | VIR_CONNECT_GET_ALL_DOMAINS_STATS_ENFORCE_STATS,
                                error)) {
        return FALSE;
    }
    if (missing && (asked->flags & VIR_CONNECT_GET_ALL_DOMAINS_STATS_ENFORCE_STATS)) {
        return lodge_refuse(error, VIR_ERR_ARGUMENT_UNSUPPORTED,
                            _("There are no statistics of the groups 0x%x"), missing);
    }
    machines =
        asked->doms.doms_len > 0 ? find_named(call, asked) : find_all(call, asked->flags & FILTERS);
    /* The state alone is asked for most, and the daemon knows it. */
    if (asked->stats != VIR_DOMAIN_STATS_STATE) {
        have_written(machines);
    }
    answer->domains.domains_val = g_new0(lv_domain_stats, machines->len);
    answer->domains.domains_len = machines->len;
    for (guint i = 0; i < machines->len; i++) {
        lodge_stat_params_fill(machines->pdata[i], asked->stats, &answer->domains.domains_val[i]);
    }
    return TRUE;
}

static gboolean memory_stats(LodgeCall *call, void *args, void *ret, GError **error)
{
    static const struct {
        int tag;
        const char *name;
    } known[] = {
        {VIR_DOMAIN_MEMORY_STAT_ACTUAL_BALLOON, "balloon.current"},
        {VIR_DOMAIN_MEMORY_STAT_RSS, "balloon.rss"},
    };
    const lv_memory_stats_args *asked = args;
    lv_memory_stats_ret *answer = ret;
    g_autoptr(LodgeInstance) instance = NULL;
    g_autofree struct hv_stat *stats = NULL;
    guint count = MIN(asked->max, G_N_ELEMENTS(known));
    gsize all;

    if (!lodge_call_check_flags(asked->flags, 0, error)) {
        return FALSE;
    }
    instance = lodge_machine_need_instance(call->machine, error);
    if (!instance) {
        return FALSE;
    }
    stats = lodge_instance_get_stats(instance, &all);
    answer->stats.stats_val = g_new0(lv_memory_stat, count);
    answer->stats.stats_len = count;
    for (guint i = 0; i < count; i++) {
        answer->stats.stats_val[i].tag = known[i].tag;
        answer->stats.stats_val[i].value = lodge_stat_find(stats, all, known[i].name);
    }
    return TRUE;
}

/* Time is booked for each virtual CPU and each worker, not for a host CPU: there is the total alone. */
static gboolean cpu_stats(LodgeCall *call, void *args, void *ret, GError **error)
{
    const lv_cpu_stats_args *asked = args;
    lv_cpu_stats_ret *answer = ret;
    g_autoptr(LodgeInstance) instance = NULL;

    if (!lodge_call_check_flags(asked->flags, VIR_TYPED_PARAM_STRING_OKAY, error)) {
        return FALSE;
    }
    if (asked->start_cpu != -1) {
        return lodge_refuse(error, VIR_ERR_NO_SUPPORT,
                            _("What a machine used of each host CPU is not counted; the total is: "
                              "virsh cpu-stats --total"));
    }
    instance = lodge_machine_need_instance(call->machine, error);
    if (!instance) {
        return FALSE;
    }
    answer->nparams = 1;
    if (asked->nparams > 0) {
        lv_param *param = g_new0(lv_param, 1);

        param->field = g_strdup(VIR_DOMAIN_CPU_STATS_CPUTIME);
        param->value.type = VIR_TYPED_PARAM_ULLONG;
        param->value.lv_value_u.ul = lodge_instance_get_stat(instance, "cpu.time");
        answer->params.params_val = param;
        answer->params.params_len = 1;
    }
    return TRUE;
}

static const LodgeCallEntry entries[] = {
    {LV_CONNECT_GET_ALL_DOMAIN_STATS, LODGE_CALL_READS, get_all, FALSE},
    {LV_DOMAIN_MEMORY_STATS, LODGE_CALL_READS, memory_stats, TRUE},
    {LV_DOMAIN_GET_CPU_STATS, LODGE_CALL_READS, cpu_stats, TRUE},
};

const LodgeCallFamily lodge_calls_stats = {LV_REMOTE, entries, G_N_ELEMENTS(entries)};

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* How many virtual CPUs and how much memory a machine has, and where the former are. */
#include "daemon/call.h"

#include "common/i18n.h"

#include <libvirt/libvirt.h>

/* Room for @count maps of @bytes each, in @bytes_out. FALSE: no message holds that. */
static gboolean check_maps(int count, int bytes, gsize *bytes_out, GError **error)
{
    if (count < 0 || bytes < 0 || count > LV_VCPUS_MAX || bytes > LV_CPU_MAP_MAX ||
        (gint64)count * bytes > LV_CPU_MAPS_MAX) {
        return lodge_refuse(error, VIR_ERR_INVALID_ARG,
                            _("%d maps of %d bytes are more than can be answered"), count, bytes);
    }
    *bytes_out = (gsize)count * (gsize)bytes;
    return TRUE;
}

/* The host CPUs that a virtual one may use, as bits. */
static void fill_map(const LodgeHostInfo *host, const LodgeDomainConfig *config, guint vcpu,
                     char *map, gsize bytes)
{
    const LodgeCpuSet *set = lodge_cpu_set_is_empty(&config->tune.pin[vcpu])
                                 ? &config->tune.cpuset
                                 : &config->tune.pin[vcpu];

    for (guint i = 0; i < host->cpus->len; i++) {
        guint cpu = g_array_index(host->cpus, LodgeHostCpu, i).id;
        gboolean allowed = lodge_cpu_set_is_empty(set) || lodge_cpu_set_has(set, cpu);

        if (allowed && cpu / 8 < bytes) {
            map[cpu / 8] = (char)(map[cpu / 8] | 1 << cpu % 8);
        }
    }
}

/* A vCPU's figure; @what: "time", say. */
static guint64 figure_of(const struct hv_stat *stats, gsize count, const char *group, guint vcpu,
                         const char *what)
{
    g_autofree char *name = g_strdup_printf("%s.%u.%s", group, vcpu, what);

    return lodge_stat_find(stats, count, name);
}

static gboolean get_vcpus(LodgeCall *call, void *args, void *ret, GError **error)
{
    const lv_vcpus_args *asked = args;
    lv_vcpus_ret *answer = ret;
    g_autoptr(LodgeDomainConfig) config = NULL;
    g_autoptr(LodgeInstance) instance = NULL;
    g_autofree struct hv_stat *stats = NULL;
    gsize bytes = 0, count;

    if (!check_maps(asked->maxinfo, asked->maplen, &bytes, error)) {
        return FALSE;
    }
    instance = lodge_machine_need_instance(call->machine, error);
    config = instance ? lodge_machine_copy_definition(call->machine, LODGE_DEFINITION_LIVE, error)
                      : NULL;
    if (!config) {
        return FALSE;
    }
    stats = lodge_instance_get_stats(instance, &count);
    answer->info.info_len = MIN((guint)asked->maxinfo, config->vcpus);
    answer->info.info_val = g_new0(lv_vcpu_info, answer->info.info_len);
    /* Clients insist on as much as they asked for. */
    answer->maps.maps_len = (u_int)bytes;
    answer->maps.maps_val = g_malloc0(bytes);
    for (guint i = 0; i < answer->info.info_len; i++) {
        answer->info.info_val[i] = (lv_vcpu_info){
            .number = i,
            .state = VIR_VCPU_RUNNING,
            .cpu_time = figure_of(stats, count, "vcpu", i, "time"),
            .cpu = (int)figure_of(stats, count, "sched.vcpu", i, "pcpu"),
        };
        fill_map(call->daemon->host, config, i,
                 answer->maps.maps_val + (gsize)i * (gsize)asked->maplen, (gsize)asked->maplen);
    }
    return TRUE;
}

static gboolean get_pins(LodgeCall *call, void *args, void *ret, GError **error)
{
    const lv_vcpu_pins_args *asked = args;
    lv_vcpu_pins_ret *answer = ret;
    g_autoptr(LodgeDomainConfig) config = NULL;
    gsize bytes = 0;

    if (!lodge_call_check_flags(asked->flags, LODGE_CALL_AFFECT, error) ||
        !check_maps(asked->ncpumaps, asked->maplen, &bytes, error)) {
        return FALSE;
    }
    config = lodge_call_copy_definition(call->machine, asked->flags, error);
    if (!config) {
        return FALSE;
    }
    answer->count = (int)MIN((guint)asked->ncpumaps, config->vcpus_max);
    answer->maps.maps_len = (u_int)bytes;
    answer->maps.maps_val = g_malloc0(bytes);
    for (guint i = 0; i < (guint)answer->count; i++) {
        fill_map(call->daemon->host, config, i,
                 answer->maps.maps_val + (gsize)i * (gsize)asked->maplen, (gsize)asked->maplen);
    }
    return TRUE;
}

static gboolean get_vcpu_count(LodgeCall *call, void *args, void *ret, GError **error)
{
    const lv_domain_flags_args *asked = args;
    lv_int_ret *answer = ret;
    g_autoptr(LodgeDomainConfig) config = NULL;

    if (!lodge_call_check_flags(asked->flags, LODGE_CALL_AFFECT | VIR_DOMAIN_VCPU_MAXIMUM, error)) {
        return FALSE;
    }
    config = lodge_call_copy_definition(call->machine, asked->flags, error);
    if (config) {
        answer->value =
            (int)(asked->flags & VIR_DOMAIN_VCPU_MAXIMUM ? config->vcpus_max : config->vcpus);
    }
    return config != NULL;
}

typedef struct {
    guint64 value;
    gboolean maximum;
} Size;

/* Neither can change under a guest: there is no hot plug, and no balloon. */
static gboolean change_stored(LodgeMachine *machine, guint flags, LodgeMachineEdit *edit,
                              Size *size, GError **error)
{
    LodgeMachineChange change = {.edit = edit, .user_data = size};

    lodge_call_scope(machine, flags, &change.live, &change.stored);
    if (change.live) {
        return lodge_refuse(error, VIR_ERR_OPERATION_UNSUPPORTED,
                            _("Memory and virtual CPUs of a machine that runs cannot change; "
                              "--config changes them for its next start"));
    }
    return lodge_machine_change(machine, &change, error);
}

static gboolean edit_vcpus(LodgeDomainConfig *config, gpointer user_data, GError **error)
{
    const Size *size = user_data;

    if (size->value < 1 || size->value > HV_MAX_VCPUS) {
        return lodge_refuse(error, VIR_ERR_INVALID_ARG,
                            _("A machine can have 1 to %u virtual CPUs, not %" G_GUINT64_FORMAT),
                            HV_MAX_VCPUS, size->value);
    }
    if (size->maximum) {
        config->vcpus_max = (guint)size->value;
        config->vcpus = MIN(config->vcpus, config->vcpus_max);
    } else {
        config->vcpus = (guint)size->value;
    }
    return TRUE;
}

static gboolean set_vcpus(LodgeCall *call, void *args, void *ret, GError **error)
{
    const lv_domain_uint_args *asked = args;
    Size size = {.value = asked->value};

    (void)ret;
    return change_stored(call->machine, 0, edit_vcpus, &size, error);
}

static gboolean set_vcpus_flags(LodgeCall *call, void *args, void *ret, GError **error)
{
    const lv_domain_uint_flags_args *asked = args;
    Size size = {.value = asked->value, .maximum = asked->flags & VIR_DOMAIN_VCPU_MAXIMUM};

    (void)ret;
    return lodge_call_check_flags(asked->flags, LODGE_CALL_AFFECT | VIR_DOMAIN_VCPU_MAXIMUM,
                                  error) &&
           change_stored(call->machine, asked->flags, edit_vcpus, &size, error);
}

static gboolean edit_memory(LodgeDomainConfig *config, gpointer user_data, GError **error)
{
    const Size *size = user_data;
    guint64 mib = size->value / 1024 + (size->value % 1024 != 0);

    /* As <memory> is: in whole MiB, rounded up. */
    if (mib == 0 || mib > G_MAXUINT64 / HV_MIB) {
        return lodge_refuse(error, VIR_ERR_INVALID_ARG,
                            _("A machine cannot have %" G_GUINT64_FORMAT " KiB of memory"),
                            size->value);
    }
    if (size->maximum) {
        config->memory_bytes = mib * HV_MIB;
        config->current_memory_bytes = MIN(config->current_memory_bytes, config->memory_bytes);
    } else {
        config->current_memory_bytes = mib * HV_MIB;
    }
    return TRUE;
}

static gboolean set_memory(LodgeCall *call, void *args, void *ret, GError **error)
{
    const lv_domain_ulong_args *asked = args;
    Size size = {.value = asked->value};

    (void)ret;
    return change_stored(call->machine, 0, edit_memory, &size, error);
}

static gboolean set_max_memory(LodgeCall *call, void *args, void *ret, GError **error)
{
    const lv_domain_ulong_args *asked = args;
    Size size = {.value = asked->value, .maximum = TRUE};

    (void)ret;
    return change_stored(call->machine, 0, edit_memory, &size, error);
}

static gboolean set_memory_flags(LodgeCall *call, void *args, void *ret, GError **error)
{
    const lv_domain_ulong_flags_args *asked = args;
    Size size = {.value = asked->value, .maximum = asked->flags & VIR_DOMAIN_MEM_MAXIMUM};

    (void)ret;
    return lodge_call_check_flags(asked->flags, LODGE_CALL_AFFECT | VIR_DOMAIN_MEM_MAXIMUM,
                                  error) &&
           change_stored(call->machine, asked->flags, edit_memory, &size, error);
}

static const LodgeCallEntry entries[] = {
    {LV_DOMAIN_GET_VCPUS, LODGE_CALL_READS, get_vcpus, TRUE},
    {LV_DOMAIN_GET_VCPU_PIN_INFO, LODGE_CALL_READS, get_pins, TRUE},
    {LV_DOMAIN_GET_VCPUS_FLAGS, LODGE_CALL_READS, get_vcpu_count, TRUE},
    {LV_DOMAIN_SET_VCPUS, LODGE_CALL_WRITES, set_vcpus, TRUE},
    {LV_DOMAIN_SET_VCPUS_FLAGS, LODGE_CALL_WRITES, set_vcpus_flags, TRUE},
    {LV_DOMAIN_SET_MEMORY, LODGE_CALL_WRITES, set_memory, TRUE},
    {LV_DOMAIN_SET_MAX_MEMORY, LODGE_CALL_WRITES, set_max_memory, TRUE},
    {LV_DOMAIN_SET_MEMORY_FLAGS, LODGE_CALL_WRITES, set_memory_flags, TRUE},
};

const LodgeCallFamily lodge_calls_vcpu = {LV_REMOTE, entries, G_N_ELEMENTS(entries)};

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* From a definition to a domain, and the domain's operations. */
#include "daemon/instance.h"

#include "build/builder.h"
#include "common/i18n.h"
#include "common/lodge-error.h"
#include "common/stats-json.h"
#include "common/thread.h"
#include "config/machine-time.h"

#include <errno.h>
#include <string.h>

struct _LodgeInstance {
    gatomicrefcount references;
    LodgeCore *core;
    LodgeBuilder *builder;
    LodgeConsoleRing *console;
    struct hv_domain *domain; /* two references: this one's, and lodge_instance_destroy()'s */
};

static void fill_share(const LodgeCpuShare *share, struct hv_sched_parameters *sched)
{
    G_STATIC_ASSERT(sizeof(sched->affinity.word) == sizeof(share->affinity.word));
    *sched = (struct hv_sched_parameters){
        .weight = share->weight,
        .cap_percent = share->cap_percent,
    };
    memcpy(sched->affinity.word, share->affinity.word, sizeof(sched->affinity.word));
}

static gboolean create_domain(LodgeInstance *instance, const LodgeDomainConfig *config,
                              const LodgeMachineTime *time, GError **error)
{
    struct hv_domain_config domain = {
        .name = config->name,
        .engine = lodge_engine_name(config->engine),
        .memory_bytes = config->memory_bytes,
        .vcpus = config->vcpus,
        .flags = config->debug_flags,
        .console = &lodge_console_ring_ops,
        .console_context = instance->console,
        .clock_policy = time->clock_policy,
        .rtc_track = time->rtc_track,
        .timers_absent = time->timers_absent,
    };
    struct hv_core *core = lodge_core_get(instance->core);
    char why[128] = "";
    LodgeCpuShare share;
    int rc;

    lodge_domain_config_get_share(config, &share);
    fill_share(&share, &domain.sched);
    rc = hv_domain_create(core, &domain, &instance->domain, why, sizeof(why));
    if (rc == 0) {
        struct hv_domain *again;

        /* Nobody else can have killed it, or hold it. */
        rc = hv_domain_get(core, hv_domain_handle(instance->domain), &again);
        g_assert(rc == 0 && again == instance->domain);
        return TRUE;
    }
    lodge_error_set_errno(error, rc, _("Cannot make the machine “%s” (%s)"), config->name, why);
    return FALSE;
}

static gboolean set_policies(LodgeInstance *instance, const LodgeDomainConfig *config,
                             const LodgeMachineTime *time, GError **error)
{
    for (guint source = 0; source < HV_VPT_SOURCES; source++) {
        enum hv_vpt_source which = (enum hv_vpt_source)source;
        char why[128] = "";

        if ((time->policies >> source & 1) &&
            hv_domain_set_tick_policy(instance->domain, which, &time->policy[source], why,
                                      sizeof(why)) < 0) {
            return lodge_error_refuse(
                error, _("The machine “%s” cannot have that tickpolicy for its timer “%s”: %s"),
                config->name, lodge_timer_name(lodge_timer_of_source(which)), why);
        }
    }
    return TRUE;
}

static gboolean check_boot(const LodgeDomainConfig *config, GError **error)
{
    if (config->kernel_fdgroup || config->initrd_fdgroup) {
        return lodge_error_refuse(error,
                                  _("The machine “%s” takes its kernel or initrd from descriptors, "
                                    "and none was given; name files in <kernel> and <initrd>"),
                                  config->name);
    }
    if (!config->kernel) {
        return lodge_error_refuse(
            error, _("The machine “%s” has no kernel to start: give it <os><kernel>PATH</kernel>"),
            config->name);
    }
    return TRUE;
}

LodgeInstance *lodge_instance_new(LodgeCore *core, const LodgeDomainConfig *config, GError **error)
{
    g_autoptr(LodgeInstance) instance = g_new0(LodgeInstance, 1);
    LodgeMachineTime time;

    g_atomic_ref_count_init(&instance->references);
    instance->core = lodge_core_ref(core);
    instance->console = lodge_console_ring_new();
    if (!check_boot(config, error) || !lodge_domain_config_get_time(config, &time, error)) {
        return NULL;
    }
    instance->builder =
        lodge_builder_new(config->kernel, config->initrd, config->command_line, error);
    if (!instance->builder || !create_domain(instance, config, &time, error)) {
        return NULL;
    }
    if (!set_policies(instance, config, &time, error) ||
        !lodge_builder_load(instance->builder, instance->domain, error)) {
        lodge_instance_destroy(instance);
        return NULL;
    }
    return g_steal_pointer(&instance);
}

LodgeInstance *lodge_instance_ref(LodgeInstance *instance)
{
    g_atomic_ref_count_inc(&instance->references);
    return instance;
}

void lodge_instance_unref(LodgeInstance *instance)
{
    if (instance && g_atomic_ref_count_dec(&instance->references)) {
        hv_domain_put(instance->domain);
        lodge_builder_free(instance->builder);
        lodge_console_ring_unref(instance->console);
        lodge_core_unref(instance->core);
        g_free(instance);
    }
}

static gboolean judge(int rc, const char *what, GError **error)
{
    if (rc < 0) {
        lodge_error_set_errno(error, rc, "%s", what);
    }
    return rc == 0;
}

gboolean lodge_instance_resume(LodgeInstance *instance, GError **error)
{
    return judge(hv_domain_unpause(instance->domain), _("Cannot let the machine run"), error);
}

gboolean lodge_instance_pause(LodgeInstance *instance, GError **error)
{
    return judge(hv_domain_pause(instance->domain), _("Cannot pause the machine"), error);
}

gboolean lodge_instance_press_power(LodgeInstance *instance, GError **error)
{
    return judge(hv_domain_press_power(instance->domain), _("Cannot press the power button"),
                 error);
}

gboolean lodge_instance_restart(LodgeInstance *instance, GError **error)
{
    int rc = hv_domain_pause(instance->domain);

    /* Busy: it has ended by itself, and its vCPUs are out all the same. */
    if (rc == 0 || rc == -EBUSY) {
        rc = hv_domain_reset(instance->domain);
    }
    return judge(rc, _("Cannot reset the machine"), error) &&
           lodge_builder_load(instance->builder, instance->domain, error);
}

void lodge_instance_kill(LodgeInstance *instance)
{
    /* Killed already is as good. */
    int rc = hv_domain_kill(instance->domain);

    g_assert(rc == 0 || rc == -ECANCELED);
}

void lodge_instance_destroy(LodgeInstance *instance)
{
    hv_domain_destroy(instance->domain);
    lodge_console_ring_end(instance->console);
}

void lodge_instance_get_status(LodgeInstance *instance, struct hv_domain_status *status_out)
{
    hv_domain_get_status(instance->domain, status_out);
}

typedef struct {
    LodgeInstance *instance;
    LodgeInstanceEnded *ended;
    gpointer user_data;
    GDestroyNotify destroy;
} Watch;

static gpointer watch(gpointer data)
{
    Watch *watch = data;
    struct hv_domain *domain = watch->instance->domain;
    struct hv_domain_status status;
    gboolean more = TRUE;

    while (more) {
        hv_domain_get_status(domain, &status);
        if (status.state >= HV_DOMAIN_STATE_SHUTDOWN ||
            (status.state == HV_DOMAIN_STATE_PAUSED && status.end == HV_DOMAIN_END_NO_MEMORY)) {
            more = watch->ended(watch->instance, watch->user_data);
            more &= status.state < HV_DOMAIN_STATE_DYING;
        }
        if (more) {
            /* A limit it will not see: it just looks again. */
            (void)!hv_domain_wait_change(domain, status.state, UINT64_MAX);
        }
    }
    lodge_instance_unref(watch->instance);
    watch->destroy(watch->user_data);
    g_free(watch);
    return NULL;
}

gboolean lodge_instance_watch(LodgeInstance *instance, LodgeInstanceEnded *ended,
                              gpointer user_data, GDestroyNotify destroy, GError **error)
{
    Watch *data = g_new(Watch, 1);
    GThread *thread;

    *data = (Watch){lodge_instance_ref(instance), ended, user_data, destroy};
    thread = lodge_thread_new("machine", watch, data, error);
    if (!thread) {
        lodge_instance_unref(instance);
        g_free(data);
        destroy(user_data);
        return FALSE;
    }
    g_thread_unref(thread);
    return TRUE;
}

LodgeConsoleRing *lodge_instance_console(LodgeInstance *instance)
{
    return instance->console;
}

void lodge_instance_console_resume(LodgeInstance *instance)
{
    hv_domain_console_writable(instance->domain);
}

gsize lodge_instance_console_input(LodgeInstance *instance, const guint8 *data, gsize bytes)
{
    return hv_domain_console_input(instance->domain, data, bytes);
}

struct hv_stat *lodge_instance_get_stats(LodgeInstance *instance, gsize *count_out)
{
    gsize room = hv_domain_get_stats(instance->domain, NULL, 0);
    struct hv_stat *stats = g_new(struct hv_stat, room);

    *count_out = MIN(hv_domain_get_stats(instance->domain, stats, room), room);
    return stats;
}

guint64 lodge_stat_find(const struct hv_stat *stats, gsize count, const char *name)
{
    for (gsize i = 0; i < count; i++) {
        if (strcmp(stats[i].name, name) == 0) {
            return stats[i].value;
        }
    }
    return 0;
}

guint64 lodge_instance_get_stat(LodgeInstance *instance, const char *name)
{
    gsize count;
    g_autofree struct hv_stat *stats = lodge_instance_get_stats(instance, &count);

    return lodge_stat_find(stats, count, name);
}

JsonNode *lodge_instance_stats_json(LodgeInstance *instance)
{
    return lodge_stats_to_node(lodge_core_get(instance->core), instance->domain);
}

JsonNode *lodge_instance_locks_json(LodgeInstance *instance)
{
    return lodge_lock_stats_to_node(lodge_core_get(instance->core));
}

gboolean lodge_instance_set_share(LodgeInstance *instance, const LodgeCpuShare *share,
                                  GError **error)
{
    struct hv_sched_parameters sched;
    char why[128] = "";
    int rc;

    fill_share(share, &sched);
    rc = hv_domain_set_sched(instance->domain, &sched, why, sizeof(why));
    if (rc < 0) {
        lodge_error_set_errno(error, rc, _("Cannot change the machine's part in the CPUs (%s)"),
                              why);
    }
    return rc == 0;
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* From a definition to a domain, and the domain's operations. */
#include "daemon/instance.h"

#include "common/event-json.h"
#include "common/i18n.h"
#include "common/lodge-error.h"
#include "common/stats-json.h"
#include "config/machine-time.h"
#include "daemon/console-file.h"
#include "wire/core-client.h"

#include <errno.h>
#include <string.h>

#define PROGRESS_NS G_GUINT64_CONSTANT(1000000000)
#define HOLDS_MAX   32u

struct _LodgeInstance {
    gatomicrefcount references;
    LodgeCore *core;
    LodgeBuilder *builder; /* NULL: adopted, and not started anew since */
    LodgeConsoleRing *console;
    LodgeConsoleFile *file;   /* NULL: its serial port goes to none */
    struct hv_domain *domain; /* two references: this one's, and lodge_instance_destroy()'s */
    gint destroyed;           /* atomic */
    LodgeStatMemory seen, seen_of_core;
    guint64 pages_total; /* when it was killed; its destroyer's */
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

/* For lodge_instance_destroy(), which lets go. FALSE: it is not held at all. */
static gboolean hold_again(LodgeInstance *instance, GError **error)
{
    struct hv_domain *again;
    int rc =
        hv_domain_get(lodge_core_get(instance->core), hv_domain_handle(instance->domain), &again);

    if (rc < 0) {
        lodge_error_set_errno(error, rc, _("Cannot hold the machine “%s”"),
                              hv_domain_name(instance->domain));
        g_clear_pointer(&instance->domain, hv_domain_put);
    }
    return rc == 0;
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
    if (rc < 0) {
        lodge_error_set_errno(error, rc, _("Cannot make the machine “%s” (%s)"), config->name, why);
        return FALSE;
    }
    if (!hold_again(instance, error)) {
        lodge_core_keep_ring(instance->core, instance->console);
        return FALSE;
    }
    return TRUE;
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

static LodgeInstance *make(LodgeCore *core)
{
    LodgeInstance *instance = g_new0(LodgeInstance, 1);

    g_atomic_ref_count_init(&instance->references);
    instance->core = lodge_core_ref(core);
    instance->console = lodge_console_ring_new();
    return instance;
}

static gboolean open_file(LodgeInstance *instance, const LodgeDomainConfig *config, gboolean append,
                          GError **error)
{
    if (config->serial.type == LODGE_PORT_FILE) {
        instance->file = lodge_console_file_open(config->serial.path, append, error);
        if (instance->file && (lodge_console_file_is(instance->file, config->kernel) ||
                               lodge_console_file_is(instance->file, config->initrd))) {
            return lodge_error_refuse(error,
                                      _("The serial port of “%s” would write over what the machine "
                                        "boots, “%s”: give it another file"),
                                      config->name, config->serial.path);
        }
        return instance->file != NULL;
    }
    return TRUE;
}

static gboolean start_file(LodgeInstance *instance, GError **error)
{
    return !instance->file ||
           lodge_console_file_start(instance->file, instance->console, instance->domain, error);
}

LodgeInstance *lodge_instance_new(LodgeCore *core, const LodgeDomainConfig *config,
                                  LodgeFdGroups *fds, GError **error)
{
    g_autoptr(LodgeInstance) instance = make(core);
    LodgeMachineTime time;

    if (!lodge_domain_config_get_time(config, &time, error)) {
        return NULL;
    }
    instance->builder = lodge_boot_images_open(config, fds, error);
    if (!instance->builder ||
        !open_file(instance, config, config->serial.append == LODGE_SWITCH_ON, error) ||
        !create_domain(instance, config, &time, error)) {
        return NULL;
    }
    if (!set_policies(instance, config, &time, error) ||
        !lodge_builder_load(instance->builder, instance->domain, error) ||
        !start_file(instance, error)) {
        lodge_instance_destroy(instance, NULL, NULL);
        return NULL;
    }
    return g_steal_pointer(&instance);
}

/* Held, when it is the one. Returns -ENOENT when it is not. */
static int get_if_named(struct hv_core *core, hv_handle handle, const char *name,
                        struct hv_domain **domain_out)
{
    struct hv_domain_status status;
    struct hv_domain *domain;
    int rc = hv_domain_get(core, handle, &domain);

    *domain_out = NULL;
    if (rc < 0) {
        return rc;
    }
    hv_domain_get_status(domain, &status);
    if (strcmp(hv_domain_name(domain), name) == 0 && status.state < HV_DOMAIN_STATE_DYING) {
        *domain_out = domain;
        return 0;
    }
    hv_domain_put(domain);
    return -ENOENT;
}

/* Returns 0 and the domain, held; -ENOENT when the core has said that there is none. */
static int find_domain(struct hv_core *core, const char *name, struct hv_domain **domain_out)
{
    g_autofree hv_handle *handles = NULL;
    gsize room, count = 0;
    int rc = lodge_core_client_list(core, NULL, 0, &room);

    *domain_out = NULL;
    if (rc == 0) {
        handles = g_new0(hv_handle, MAX(room, 1));
        rc = lodge_core_client_list(core, handles, room, &count);
    }
    count = MIN(count, room);
    for (gsize i = 0; i < count && (rc == 0 || rc == -ENOENT) && !*domain_out; i++) {
        rc = get_if_named(core, handles[i], name, domain_out);
    }
    if (!*domain_out && (rc == 0 || rc == -ENOENT)) {
        /* Had the connection been lost meanwhile, all would have looked as if they had ended. */
        rc = lodge_core_client_list(core, NULL, 0, &room);
        return rc < 0 ? rc : -ENOENT;
    }
    return rc;
}

/* A machine that runs goes on without its file. */
static void follow_file(LodgeInstance *instance, const LodgeDomainConfig *config, guint64 position)
{
    g_autoptr(GError) error = NULL;

    if (!open_file(instance, config, TRUE, &error)) {
        g_warning("%s: %s", config->name, error->message);
        return;
    }
    if (instance->file && config->serial.append != LODGE_SWITCH_ON) {
        lodge_console_file_skip(instance->file, position);
    }
    if (!start_file(instance, &error)) {
        g_warning("%s: %s", config->name, error->message);
        g_clear_pointer(&instance->file, lodge_console_file_close);
    }
}

LodgeInstance *lodge_instance_adopt(LodgeCore *core, const LodgeDomainConfig *config,
                                    GError **error)
{
    g_autoptr(LodgeInstance) instance = make(core);
    const char *name = config->name;
    guint64 position;
    int rc;

    rc = find_domain(lodge_core_get(core), name, &instance->domain);
    if (rc == -ENOENT) {
        g_set_error(error, LODGE_ERROR, LODGE_ERROR_GONE,
                    _("The core has no machine “%s” any more"), name);
        return NULL;
    }
    if (rc < 0) {
        lodge_error_set_errno(error, rc, _("Cannot look for the machine “%s”"), name);
        return NULL;
    }
    if (!hold_again(instance, error)) {
        return NULL;
    }
    rc = lodge_core_client_attach(instance->domain, &lodge_console_ring_ops, instance->console,
                                  &position);
    if (rc == -EEXIST) {
        g_set_error(error, LODGE_ERROR, LODGE_ERROR_GONE,
                    _("The core's machine “%s” is that of another record"), name);
        return NULL;
    }
    if (rc < 0) {
        lodge_error_set_errno(error, rc, _("Cannot have the console of the machine “%s”"), name);
        return NULL;
    }
    follow_file(instance, config, position);
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
        lodge_console_file_close(instance->file);
        if (instance->domain && !g_atomic_int_get(&instance->destroyed)) {
            /* It goes on without us, and writes until the connection has ended. */
            lodge_core_keep_ring(instance->core, instance->console);
            hv_domain_put(instance->domain);
        } else if (instance->domain) {
            /* What it has written may still be on its way to the ring. */
            lodge_core_client_detach(instance->domain);
        }
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

gboolean lodge_instance_press_nmi(LodgeInstance *instance, GError **error)
{
    return judge(hv_domain_press_nmi(instance->domain), _("Cannot press the NMI button"), error);
}

gboolean lodge_instance_keep(LodgeInstance *instance, GError **error)
{
    return judge(lodge_core_client_keep(instance->domain), _("Cannot keep the machine"), error);
}

gboolean lodge_instance_restart(LodgeInstance *instance, const LodgeDomainConfig *config,
                                LodgeFdGroups *fds, GError **error)
{
    int rc;

    if (!instance->builder) {
        instance->builder = lodge_boot_images_open(config, fds, error);
        if (!instance->builder) {
            return FALSE;
        }
    }
    rc = hv_domain_pause(instance->domain);
    /* Busy: it has ended by itself, and its vCPUs are out all the same. */
    if (rc == 0 || rc == -EBUSY) {
        rc = hv_domain_reset(instance->domain);
    }
    return judge(rc, _("Cannot reset the machine"), error) &&
           lodge_builder_load(instance->builder, instance->domain, error);
}

void lodge_instance_kill(LodgeInstance *instance)
{
    /* Killed already, or lost with its core, is as good. */
    int rc = hv_domain_kill(instance->domain);

    (void)rc;
}

static gboolean is_there(struct hv_domain *domain, enum hv_domain_state *state_out)
{
    struct hv_domain_status status;

    hv_domain_get_status(domain, &status);
    *state_out = status.state;
    return status.state < HV_DOMAIN_STATE_DEAD;
}

static void tell_progress(LodgeInstance *instance, LodgeInstanceProgress *progress,
                          gpointer user_data)
{
    enum hv_domain_state state;

    while (is_there(instance->domain, &state)) {
        int rc;

        progress(user_data);
        rc = hv_domain_wait_change(instance->domain, state, PROGRESS_NS);
        (void)rc; /* as good as what the state says then */
    }
    progress(user_data);
}

void lodge_instance_destroy(LodgeInstance *instance, LodgeInstanceProgress *progress,
                            gpointer user_data)
{
    g_atomic_int_set(&instance->destroyed, TRUE);
    if (progress) {
        lodge_instance_kill(instance);
        tell_progress(instance, progress, user_data);
    }
    hv_domain_destroy(instance->domain);
    lodge_console_ring_end(instance->console);
    /* All of it is there for who is told that the machine has ended. */
    g_clear_pointer(&instance->file, lodge_console_file_close);
}

JsonNode *lodge_instance_teardown_json(LodgeInstance *instance)
{
    struct hv_foreign_hold holds[HOLDS_MAX];
    struct hv_teardown_info info;
    gsize count;

    hv_domain_get_teardown(instance->domain, &info);
    /* Of one that is gone, and that nobody looked at before, the core knows no figures. */
    instance->pages_total = MAX(instance->pages_total, info.pages_total);
    info.pages_total = instance->pages_total;
    count = info.pages_held > 0 ? hv_domain_get_holds(instance->domain, holds, HOLDS_MAX) : 0;
    return lodge_teardown_to_node(&info, holds, MIN(count, HOLDS_MAX));
}

JsonNode *lodge_instance_crash_json(LodgeInstance *instance, const char *reason)
{
    struct hv_crash_report report;
    int rc = hv_domain_get_crash(instance->domain, &report);

    return lodge_crash_to_node(reason, rc == 0 ? &report : NULL);
}

void lodge_instance_get_status(LodgeInstance *instance, struct hv_domain_status *status_out)
{
    hv_domain_get_status(instance->domain, status_out);
}

void lodge_instance_watch(LodgeInstance *instance, LodgeCoreNews *news, gpointer user_data)
{
    lodge_core_watch(instance->core, hv_domain_handle(instance->domain), news, user_data);
}

void lodge_instance_unwatch(LodgeInstance *instance)
{
    lodge_core_unwatch(instance->core, hv_domain_handle(instance->domain));
}

gboolean lodge_instance_is_lost(LodgeInstance *instance)
{
    return lodge_core_is_lost(instance->core);
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
    return lodge_core_ask_stats(instance->core, instance->domain, &instance->seen, count_out);
}

struct hv_stat *lodge_instance_read_stats(LodgeInstance *instance, gsize *count_out)
{
    return lodge_core_read_stats(instance->core, instance->domain, &instance->seen, count_out);
}

LodgeCore *lodge_instance_core(LodgeInstance *instance)
{
    return instance->core;
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
    JsonObject *object = json_object_new();
    JsonNode *node = json_node_new(JSON_NODE_OBJECT);
    g_autofree struct hv_stat *own = NULL, *core = NULL;
    gsize count;

    json_node_take_object(node, object);
    own = lodge_instance_read_stats(instance, &count);
    lodge_stats_add_to(object, own, count);
    core = lodge_core_read_stats(instance->core, NULL, &instance->seen_of_core, &count);
    lodge_stats_add_to(object, core, count);
    return node;
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

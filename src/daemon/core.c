/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A connection to lodge-core, and who hears of what. */
#include "daemon/core.h"

#include "common/stats-json.h"
#include "wire/core-launch.h"

#include <errno.h>
#include <stdatomic.h>
#include <unistd.h>

/* Older ones are of a core that is late for more than its other work. It writes once a second. */
#define STATS_AGE_MAX_NS (3 * (guint64)HV_NS_PER_S)

typedef struct {
    LodgeCoreNews *news;
    gpointer user_data;
} Watch;

struct _LodgeCore {
    gatomicrefcount references;
    /* Set at creation. */
    struct hv_core *core;
    LodgeStatReader *pages; /* NULL: it shares none */
    /* Atomic. */
    gint lost;
    _Atomic guint64 unwritten_ns; /* pages from before then were asked for anew, in vain */
    GMutex mutex;
    /* Guarded by mutex. */
    GHashTable *watches; /* handle -> Watch */
    GPtrArray *rings;    /* that outlive their instances */
};

char *lodge_core_folder(void)
{
    g_autofree char *path = lodge_core_launch_path(&(LodgeCoreLaunch){0});

    return g_path_get_dirname(path);
}

/* ---- what the core tells, on the client's thread ---- */

static void on_state(gpointer user_data, hv_handle handle, const struct hv_domain_status *status)
{
    LodgeCore *core = user_data;
    gint64 key = (gint64)handle.v;
    const Watch *watch;

    if (status->state < HV_DOMAIN_STATE_SHUTDOWN && status->end == HV_DOMAIN_END_NONE) {
        return;
    }
    g_mutex_lock(&core->mutex);
    watch = g_hash_table_lookup(core->watches, &key);
    if (watch) {
        watch->news(watch->user_data);
    }
    g_mutex_unlock(&core->mutex);
}

static void on_lost(gpointer user_data)
{
    LodgeCore *core = user_data;
    GHashTableIter iter;
    gpointer watch;

    g_atomic_int_set(&core->lost, TRUE);
    g_mutex_lock(&core->mutex);
    g_hash_table_iter_init(&iter, core->watches);
    while (g_hash_table_iter_next(&iter, NULL, &watch)) {
        ((const Watch *)watch)->news(((const Watch *)watch)->user_data);
    }
    g_mutex_unlock(&core->mutex);
}

static const LodgeCoreEvents core_events = {.state = on_state, .lost = on_lost};

void lodge_core_watch(LodgeCore *core, hv_handle handle, LodgeCoreNews *news, gpointer user_data)
{
    gint64 *key = g_new(gint64, 1);
    Watch *watch = g_new(Watch, 1);

    *key = (gint64)handle.v;
    *watch = (Watch){news, user_data};
    g_mutex_lock(&core->mutex);
    g_hash_table_insert(core->watches, key, watch);
    g_mutex_unlock(&core->mutex);
}

void lodge_core_unwatch(LodgeCore *core, hv_handle handle)
{
    gint64 key = (gint64)handle.v;

    g_mutex_lock(&core->mutex);
    g_hash_table_remove(core->watches, &key);
    g_mutex_unlock(&core->mutex);
}

void lodge_core_keep_ring(LodgeCore *core, LodgeConsoleRing *ring)
{
    g_mutex_lock(&core->mutex);
    g_ptr_array_add(core->rings, lodge_console_ring_ref(ring));
    g_mutex_unlock(&core->mutex);
}

/* ---- coming and going ---- */

static void free_core(LodgeCore *core)
{
    lodge_stat_reader_close(core->pages);
    lodge_core_client_close(core->core);
    g_ptr_array_unref(core->rings);
    g_hash_table_unref(core->watches);
    g_mutex_clear(&core->mutex);
    g_free(core);
}

static LodgeCore *make(void)
{
    LodgeCore *core = g_new0(LodgeCore, 1);

    g_atomic_ref_count_init(&core->references);
    g_mutex_init(&core->mutex);
    core->watches = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, g_free);
    core->rings = g_ptr_array_new_with_free_func((GDestroyNotify)lodge_console_ring_unref);
    return core;
}

/* 0, as much as there is, for more: the core then says of a machine what it needs, and what there is. */
static guint64 memory_of_core(guint64 bytes)
{
    guint64 host = (guint64)sysconf(_SC_PHYS_PAGES) * (guint64)sysconf(_SC_PAGESIZE);

    return bytes <= host ? (bytes + HV_EXTENT_SIZE - 1) & ~(HV_EXTENT_SIZE - 1) : 0;
}

/* Without its pages it can still be asked. */
static LodgeCore *complete(LodgeCore *core)
{
    g_autoptr(GError) error = NULL;

    if (core->core && hv_core_stat_fd(core->core) >= 0) {
        core->pages = lodge_stat_reader_open(hv_core_stat_fd(core->core), &error);
        if (!core->pages) {
            g_warning("%s", error->message);
        }
        lodge_core_client_close_stats(core->core);
    }
    return core->core ? lodge_core_ref(core) : NULL;
}

LodgeCore *lodge_core_open(const char *pool, guint64 memory_bytes, guint linger_s, GError **error)
{
    const LodgeCoreLaunch launch = {
        .pool = pool,
        .memory_bytes = memory_of_core(memory_bytes),
        .linger_s = linger_s,
    };
    g_autoptr(LodgeCore) core = make();

    core->core = lodge_core_launch_open(&launch, &core_events, core, error);
    return complete(core);
}

LodgeCore *lodge_core_join(const char *pool, GError **error)
{
    g_autofree char *path = lodge_core_launch_path(&(LodgeCoreLaunch){.pool = pool});
    g_autoptr(LodgeCore) core = make();

    core->core = lodge_core_client_connect(path, &core_events, core, error);
    return complete(core);
}

/* ---- statistics ---- */

static guint64 now_ns(void)
{
    return (guint64)g_get_monotonic_time() * 1000;
}

static struct hv_stat *read_pages(const LodgeCore *core, struct hv_domain *domain,
                                  LodgeStatMemory *memory, gsize *count_out)
{
    enum hv_stat_pages_kind kind = domain ? HV_STAT_PAGES_DOMAIN : HV_STAT_PAGES_CORE;
    hv_handle handle = domain ? hv_domain_handle(domain) : HV_HANDLE_NONE;
    g_autofree struct hv_stat *stats =
        g_new(struct hv_stat, lodge_stat_reader_records(core->pages));
    LodgeStatPlace place = atomic_load_explicit(&memory->place, memory_order_relaxed);
    guint64 asked = MAX(atomic_load_explicit(&memory->asked_ns, memory_order_relaxed),
                        atomic_load_explicit(&core->unwritten_ns, memory_order_relaxed));
    LodgeStatTitle title;
    guint count;

    if (lodge_stat_reader_find(core->pages, kind, handle, &place, &title, stats, &count) !=
            LODGE_STAT_READ ||
        title.moment_ns < MAX(asked, now_ns() - STATS_AGE_MAX_NS) || title.wanted > count) {
        return NULL;
    }
    atomic_store_explicit(&memory->place, place, memory_order_relaxed);
    *count_out = count;
    return g_renew(struct hv_stat, g_steal_pointer(&stats), MAX(count, 1));
}

struct hv_stat *lodge_core_read_stats(LodgeCore *core, struct hv_domain *domain,
                                      LodgeStatMemory *memory, gsize *count_out)
{
    struct hv_stat *stats = core->pages ? read_pages(core, domain, memory, count_out) : NULL;

    return stats ? stats : lodge_core_ask_stats(core, domain, memory, count_out);
}

struct hv_stat *lodge_core_ask_stats(LodgeCore *core, struct hv_domain *domain,
                                     LodgeStatMemory *memory, gsize *count_out)
{
    struct hv_stat *stats = lodge_stats_take(core->core, domain, count_out);

    /* Pages from before are not for who has seen these. */
    atomic_store_explicit(&memory->asked_ns, now_ns(), memory_order_relaxed);
    return stats;
}

void lodge_core_write_stats(LodgeCore *core)
{
    int rc = core->pages ? hv_core_write_stats(core->core) : 0;

    /* An older core cannot: it is asked for each machine's. */
    if (rc == -ENOTSUP) {
        atomic_store_explicit(&core->unwritten_ns, now_ns(), memory_order_relaxed);
    }
}

LodgeCore *lodge_core_ref(LodgeCore *core)
{
    g_atomic_ref_count_inc(&core->references);
    return core;
}

void lodge_core_unref(LodgeCore *core)
{
    if (core && g_atomic_ref_count_dec(&core->references)) {
        free_core(core);
    }
}

struct hv_core *lodge_core_get(LodgeCore *core)
{
    return core->core;
}

gboolean lodge_core_is_lost(LodgeCore *core)
{
    return g_atomic_int_get(&core->lost);
}

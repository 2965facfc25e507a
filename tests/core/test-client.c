/* SPDX-License-Identifier: GPL-3.0-or-later */
/* hv/domain.h by a socket: the functions of the core, from a core that is another process. */
#include "../unit/control/guest-code.h"
#include "../unit/wire/capture.h"
#include "lib/tap.h"
#include "lib/threads.h"
#include "process.h"

#include "build/builder.h"
#include "wire/core-client.h"

#include <errno.h>
#include <hv/lock-stats.h>
#include <hv/stat-pages.h>
#include <hv/teardown.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CODE    HV_MIB
#define WAIT_NS (10 * HV_NS_PER_S)

static struct process process;
static struct hv_core *core;

/* Of all machines of a case. */
static struct {
    gint states, lost;
} seen;

static void on_state(gpointer user_data, hv_handle handle, const struct hv_domain_status *status)
{
    (void)user_data;
    (void)handle;
    (void)status;
    g_atomic_int_inc(&seen.states);
}

static void on_lost(gpointer user_data)
{
    (void)user_data;
    g_atomic_int_inc(&seen.lost);
}

static const LodgeCoreEvents events = {.state = on_state, .lost = on_lost};

static struct hv_core *join_core(void)
{
    g_autofree char *path = g_strdup_printf("%s/lodge/core-default.sock", process.directory);
    g_autoptr(GError) error = NULL;
    struct hv_core *joined = lodge_core_client_connect(path, &events, NULL, &error);

    if (!joined) {
        tap_fail(__FILE__, __LINE__, "%s", error->message);
    }
    return joined;
}

static bool begin(void)
{
    static const char *const options[] = {NULL};

    seen.states = seen.lost = 0;
    capture_begin(G_MAXSIZE);
    core = NULL;
    if (process_prepare(&process) && process_start(&process, options)) {
        core = join_core();
    }
    return core != NULL;
}

static void end(void)
{
    lodge_core_client_close(core);
    process_clean(&process);
}

static struct hv_domain *make(const char *name, bool console)
{
    const struct hv_domain_config config = {
        .name = name,
        .engine = "auto",
        .memory_bytes = 8 * HV_MIB,
        .vcpus = 1,
        .flags = HV_DOMAIN_TESTDEV,
        .console = console ? &capture_ops : NULL,
    };
    struct hv_domain *domain;
    char why[128];
    int rc = hv_domain_create(core, &config, &domain, why, sizeof(why));

    if (rc < 0) {
        tap_fail(__FILE__, __LINE__, "hv_domain_create: %d, %s", rc, why);
    }
    return domain;
}

static bool load(struct hv_domain *domain, const void *code, size_t bytes)
{
    const struct hv_boot_state boot = {.rip = CODE, .rsp = CODE};

    return hv_guest_copy(domain, (hv_gpa){CODE}, (void *)(uintptr_t)code, bytes,
                         HV_COPY_TO_GUEST) == 0 &&
           hv_domain_set_boot(domain, &boot) == 0;
}

static void test_life(void)
{
    struct hv_domain_status status;
    struct hv_crash_report report;
    struct hv_teardown_info teardown;
    struct hv_domain *domain, *same;
    hv_handle handle, listed[4];

    if (!begin()) {
        return;
    }
    domain = make("greeter", true);
    TAP_OK(domain && load(domain, greet, sizeof(greet)));
    TAP_STR(hv_domain_name(domain), "greeter");
    handle = hv_domain_handle(domain);
    TAP_EQ(hv_core_list(core, listed, 4), 1u);
    TAP_EQ(listed[0].v, handle.v);
    TAP_EQ(hv_domain_get(core, handle, &same), 0);
    TAP_OK(same == domain);
    hv_domain_put(same);
    TAP_EQ(hv_domain_wait_change(domain, HV_DOMAIN_STATE_PAUSED, HV_NS_PER_MS), -ETIMEDOUT);
    TAP_EQ(hv_domain_unpause(domain), 0);
    TAP_EQ(hv_domain_wait_change(domain, HV_DOMAIN_STATE_RUNNING, WAIT_NS), 0);
    hv_domain_get_status(domain, &status);
    TAP_EQ(status.state, HV_DOMAIN_STATE_SHUTDOWN);
    TAP_EQ(status.end, HV_DOMAIN_END_DEBUG_EXIT);
    TAP_EQ(status.code, 2u);
    TAP_AWAIT(capture_is("Hi"));
    TAP_EQ(hv_domain_get_crash(domain, &report), 0);
    TAP_OK(report.rip >= CODE && report.rip < CODE + sizeof(greet));
    TAP_EQ(report.gpr[2], 0xf4u); /* RDX */
    TAP_EQ(hv_domain_life(domain), 0u);
    TAP_EQ(hv_domain_reset(domain), 0);
    TAP_EQ(hv_domain_life(domain), 1u);
    TAP_EQ(hv_domain_pause(domain), 0);
    TAP_EQ(hv_domain_press_power(domain), -EBUSY);
    TAP_EQ(hv_domain_press_nmi(domain), -EBUSY);
    hv_domain_get_teardown(domain, &teardown);
    TAP_EQ(teardown.phase, HV_TEARDOWN_NONE);
    TAP_OK(teardown.pages_total > 0);
    TAP_EQ(hv_domain_get_holds(domain, NULL, 0), 0u);
    TAP_EQ(hv_domain_get(core, handle, &same), 0);
    TAP_EQ(hv_domain_kill(domain), 0);
    TAP_EQ(hv_domain_kill(domain), -ECANCELED);
    hv_domain_destroy(domain);
    /* Held, it is known still, as gone. */
    hv_domain_get_status(same, &status);
    TAP_EQ(status.state, HV_DOMAIN_STATE_GONE);
    TAP_EQ(hv_domain_unpause(same), -ENOENT);
    hv_domain_put(same);
    TAP_AWAIT(hv_domain_get(core, handle, &same) == -ENOENT);
    TAP_EQ(hv_core_list(core, listed, 4), 0u);
    TAP_OK(g_atomic_int_get(&seen.states) >= 3);
    TAP_EQ(seen.lost, 0);
    end();
    TAP_EQ(seen.lost, 0);
}

/* In more than one part, from an odd place, there and back. */
static void test_copy(void)
{
    gsize bytes = 3 * LODGE_CORE_COPY_BYTES + 12345;
    g_autofree guint8 *there = g_malloc(bytes), *back = g_malloc0(bytes);
    struct hv_domain *domain;

    if (!begin()) {
        return;
    }
    domain = make("copy", false);
    for (gsize i = 0; i < bytes; i++) {
        there[i] = (guint8)tap_rng();
    }
    TAP_EQ(hv_guest_copy(domain, (hv_gpa){CODE + 5}, there, bytes, HV_COPY_TO_GUEST), 0);
    TAP_EQ(hv_guest_copy(domain, (hv_gpa){CODE + 5}, back, bytes, HV_COPY_FROM_GUEST), 0);
    TAP_OK(memcmp(there, back, bytes) == 0);
    TAP_EQ(hv_guest_copy(domain, (hv_gpa){8 * HV_MIB - 10}, back, 20, HV_COPY_FROM_GUEST), -EINVAL);
    TAP_EQ(hv_guest_copy(domain, (hv_gpa){UINT64_MAX - 5}, back, bytes, HV_COPY_FROM_GUEST),
           -EINVAL);
    hv_domain_destroy(domain);
    end();
}

static const struct hv_stat *find_stat(const struct hv_stat *stats, gsize count, const char *name)
{
    for (gsize i = 0; i < count; i++) {
        if (strcmp(stats[i].name, name) == 0) {
            return &stats[i];
        }
    }
    return NULL;
}

static void test_stats(void)
{
    gsize room = 100000;
    g_autofree struct hv_stat *stats = g_new0(struct hv_stat, room);
    g_autofree struct hv_lock_histogram *histograms = NULL;
    struct hv_lock_lists lists = {0};
    const struct hv_stat *stat;
    struct hv_domain *domain;
    char row[32];
    gsize count;

    if (!begin()) {
        return;
    }
    domain = make("stats", false);
    count = hv_domain_get_stats(domain, NULL, 0);
    TAP_OK(count > 50);
    TAP_EQ(hv_domain_get_stats(domain, stats, room), count);
    stat = find_stat(stats, count, "engine.name");
    TAP_OK(stat && stat->is_text);
    TAP_STR(stat->text, "soft");
    stat = find_stat(stats, count, "balloon.maximum");
    TAP_OK(stat && !stat->is_text && stat->value == 8 * 1024);
    /* Less room than there are. */
    TAP_EQ(hv_domain_get_stats(domain, stats, 3), count);
    count = hv_core_get_stats(core, stats, room);
    stat = find_stat(stats, count, "heap.total");
    TAP_OK(stat);
    TAP_EQ(stat->value, 128 * HV_MIB >> HV_PAGE_SHIFT);
    count = hv_core_get_lock_stats(core, stats, room);
    TAP_OK(find_stat(stats, count, "lock.0.class"));
    TAP_OK(hv_core_stat_fd(core) >= 0);
    lodge_core_client_close_stats(core);
    TAP_EQ(hv_core_stat_fd(core), -1);
    hv_core_get_lock_lists(core, &lists);
    TAP_OK(lists.stat_count > 10 && lists.histogram_count > 0);
    lists.stats = stats;
    lists.stat_max = room;
    lists.histogram_max = lists.histogram_count + 100;
    lists.histograms = histograms = g_new0(struct hv_lock_histogram, lists.histogram_max);
    hv_core_get_lock_lists(core, &lists);
    TAP_OK(find_stat(stats, lists.stat_count, "lock.0.class"));
    TAP_OK(lists.histogram_count > 0 && lists.histogram_count <= lists.histogram_max);
    for (gsize i = 0; i < lists.histogram_count; i++) {
        const struct hv_lock_histogram *one = &histograms[i];

        g_snprintf(row, sizeof(row), "lock.%zu.class", one->row);
        TAP_OK(find_stat(stats, lists.stat_count, row));
        /* Its last bucket is not 0, and so it is no longer than that. */
        TAP_OK(one->buckets > 0 && one->buckets <= HV_LOCK_HISTOGRAM_BUCKETS);
        TAP_OK(one->counts[one->buckets - 1] > 0 && one->max_ns <= one->total_ns);
    }
    TAP_EQ(hv_core_set_lock_sampling(core, "control.roster", 1), 0);
    TAP_EQ(hv_core_set_lock_sampling(core, "no such class", 1), -ENOENT);
    hv_domain_destroy(domain);
    TAP_EQ(hv_domain_get_stats(domain = make("again", false), NULL, 0) > 50, true);
    hv_domain_destroy(domain);
    end();
}

static void test_tuning(void)
{
    struct hv_sched_parameters sched = {.weight = 777, .cap_percent = 50};
    struct hv_vpt_policy policy = {.kind = HV_TICK_DELAY};
    struct hv_domain_config config = {.name = "x", .engine = "none", .memory_bytes = HV_MIB};
    const struct hv_domain_config all = {
        .name = "all",
        .engine = "soft",
        .memory_bytes = 6 * HV_MIB,
        .vcpus = 3,
        .timers_absent = HV_TIMER_HPET,
        .sched = {.weight = 99, .affinity = {{1}}},
    };
    struct hv_platform_layout layout;
    struct hv_domain *domain, *none;
    char why[128] = "";

    if (!begin()) {
        return;
    }
    domain = make("tuned", false);
    TAP_EQ(hv_domain_set_sched(domain, &sched, why, sizeof(why)), 0);
    sched.weight = 0;
    hv_domain_get_sched(domain, &sched);
    TAP_EQ(sched.weight, 777u);
    TAP_EQ(sched.cap_percent, 50u);
    sched.weight = UINT32_MAX;
    TAP_EQ(hv_domain_set_sched(domain, &sched, why, sizeof(why)), -EINVAL);
    TAP_OK(strlen(why) > 5);
    TAP_EQ(hv_domain_set_tick_policy(domain, HV_VPT_PIT, &policy, why, sizeof(why)), 0);
    policy.kind = HV_TICK_CATCHUP;
    TAP_EQ(hv_domain_set_tick_policy(domain, HV_VPT_PIT, &policy, why, sizeof(why)), -EINVAL);
    TAP_OK(strlen(why) > 5);
    hv_domain_get_layout(domain, &layout);
    TAP_EQ(layout.low_ram_bytes, 8 * HV_MIB);
    TAP_EQ(layout.vcpus, 1u);
    hv_domain_destroy(domain);
    TAP_EQ(hv_domain_create(core, &all, &domain, why, sizeof(why)), 0);
    hv_domain_get_layout(domain, &layout);
    TAP_EQ(layout.low_ram_bytes, 6 * HV_MIB);
    TAP_EQ(layout.vcpus, 3u);
    TAP_EQ(layout.timers_absent, HV_TIMER_HPET);
    TAP_OK(layout.hpet_base == 0 && layout.lapic_base > 0 && layout.reset_port > 0);
    hv_domain_get_sched(domain, &sched);
    TAP_EQ(sched.weight, 99u);
    TAP_EQ(sched.affinity.word[0], 1u);
    /* Refused by the core, and by what a message holds. */
    TAP_EQ(hv_domain_create(core, &config, &none, why, sizeof(why)), -EINVAL);
    TAP_OK(!none && strlen(why) > 5);
    config.name = "0123456789012345678901234567890123456789012345678901234567890123";
    TAP_EQ(hv_domain_create(core, &config, &none, why, sizeof(why)), -EINVAL);
    TAP_OK(strstr(why, "name"));
    config.name = "x";
    config.engine = "no engine is called so";
    TAP_EQ(hv_domain_create(core, &config, &none, why, sizeof(why)), -ENOTSUP);
    hv_domain_destroy(domain);
    end();
}

/* One that is not taken waits, and comes when it is said that it may. */
static void test_refused_output(void)
{
    struct hv_domain *domain;

    if (!begin()) {
        return;
    }
    capture_set_room(1);
    domain = make("greeter", true);
    TAP_OK(domain && load(domain, greet, sizeof(greet)));
    TAP_EQ(hv_domain_unpause(domain), 0);
    TAP_EQ(hv_domain_wait_change(domain, HV_DOMAIN_STATE_RUNNING, WAIT_NS), 0);
    TAP_AWAIT(capture_is("H"));
    capture_set_room(100);
    hv_domain_console_writable(domain);
    TAP_AWAIT(capture_is("Hi"));
    TAP_OK(hv_domain_console_input(domain, (const uint8_t *)"abc", 3) == 3);
    hv_domain_destroy(domain);
    end();
}

/* Another controller: what the first had made and kept is found, by name, and its output goes on. */
static void test_revoked(void)
{
    struct hv_domain *domain, *half, *found;
    struct hv_core *first;
    guint64 position;
    hv_handle handle[4];

    if (!begin()) {
        return;
    }
    capture_set_room(1);
    domain = make("kept", true);
    half = make("half", false);
    TAP_OK(domain && half && load(domain, greet, sizeof(greet)));
    TAP_EQ(hv_domain_unpause(domain), 0);
    TAP_EQ(hv_domain_wait_change(domain, HV_DOMAIN_STATE_RUNNING, WAIT_NS), 0);
    TAP_AWAIT(capture_is("H"));
    TAP_EQ(hv_core_list(core, handle, 4), 2u);
    capture_begin(100);
    first = core;
    core = join_core();
    TAP_OK(core);
    TAP_AWAIT(g_atomic_int_get(&seen.lost) == 1);
    TAP_EQ(hv_domain_unpause(half), -ENOTCONN);
    TAP_EQ(hv_domain_wait_change(half, HV_DOMAIN_STATE_PAUSED, HV_NS_NEVER.v), 0);
    hv_domain_destroy(half);
    hv_domain_put(domain);
    lodge_core_client_close(first);
    TAP_AWAIT(hv_core_list(core, handle, 4) == 1);
    TAP_EQ(hv_domain_get(core, handle[0], &found), 0);
    TAP_STR(hv_domain_name(found), "kept");
    TAP_EQ(lodge_core_client_keep(found), 0);
    TAP_EQ(lodge_core_client_attach(found, &capture_ops, NULL, &position), 0);
    /* That the first byte was taken may not have been known in time. */
    TAP_OK(position <= 1);
    TAP_AWAIT(capture_is(&"Hi"[position]));
    TAP_EQ(lodge_core_client_attach(found, &capture_ops, NULL, &position), -EEXIST);
    hv_domain_destroy(found);
    TAP_EQ(seen.lost, 1);
    end();
}

static gpointer wait_for_end(gpointer domain)
{
    return GINT_TO_POINTER(hv_domain_wait_change(domain, HV_DOMAIN_STATE_RUNNING, HV_NS_NEVER.v));
}

/* Who waits for a machine when the core dies is told. */
static void test_core_killed(void)
{
    struct hv_domain_status status;
    struct hv_domain *domain;
    GThread *waiter;
    char byte;

    if (!begin()) {
        return;
    }
    domain = make("loop", true);
    TAP_OK(domain && load(domain, loop, sizeof(loop)));
    TAP_EQ(hv_domain_unpause(domain), 0);
    waiter = g_thread_new("waiter", wait_for_end, domain);
    TAP_EQ(process_kill(&process, SIGKILL), -SIGKILL);
    TAP_EQ(GPOINTER_TO_INT(g_thread_join(waiter)), 0);
    hv_domain_get_status(domain, &status);
    TAP_EQ(status.state, HV_DOMAIN_STATE_GONE);
    TAP_OK(strlen(status.reason) > 5);
    TAP_AWAIT(g_atomic_int_get(&seen.lost) == 1);
    TAP_EQ(hv_domain_pause(domain), -ENOTCONN);
    TAP_EQ(hv_guest_copy(domain, (hv_gpa){0}, &byte, 1, HV_COPY_FROM_GUEST), -ENOTCONN);
    TAP_EQ(hv_core_get_stats(core, NULL, 0), 0u);
    TAP_EQ(hv_core_list(core, NULL, 0), 0u);
    hv_domain_destroy(domain);
    end();
}

static gint wrong;

/* Machines of many threads at a time, each with bytes of its own. */
static void use_machines(unsigned index, void *context)
{
    (void)context;
    for (unsigned round = 0; round < 8; round++) {
        g_autofree char *name = g_strdup_printf("m-%u-%u", index, round);
        struct hv_domain *domain = make(name, true);
        guint64 there = tap_failed() ? 0 : index * 1000 + round, back = 0;

        if (!domain) {
            g_atomic_int_inc(&wrong);
            return;
        }
        if (hv_guest_copy(domain, (hv_gpa){64 * index}, &there, 8, HV_COPY_TO_GUEST) < 0 ||
            !load(domain, loop, sizeof(loop)) || hv_domain_unpause(domain) < 0 ||
            hv_domain_pause(domain) < 0 ||
            hv_guest_copy(domain, (hv_gpa){64 * index}, &back, 8, HV_COPY_FROM_GUEST) < 0 ||
            back != there || strcmp(hv_domain_name(domain), name) != 0) {
            g_atomic_int_inc(&wrong);
        }
        hv_domain_destroy(domain);
    }
}

static void test_threads(void)
{
    if (!begin()) {
        return;
    }
    wrong = 0;
    threads_run(8, use_machines, NULL);
    TAP_EQ(wrong, 0);
    TAP_AWAIT(hv_core_list(core, NULL, 0) == 0);
    end();
}

/* Nobody there; and somebody who is no core. */
static void test_no_core(void)
{
    g_autoptr(GError) error = NULL;
    char junk[100] = "junk";
    int pair[2];

    TAP_OK(!lodge_core_client_connect("/nonexistent/core.sock", NULL, NULL, &error));
    TAP_OK(strstr(error->message, "/nonexistent/core.sock"));
    g_clear_error(&error);
    TAP_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    TAP_EQ(send(pair[1], junk, sizeof(junk), 0), sizeof(junk));
    TAP_OK(!lodge_core_client_adopt(pair[0], NULL, NULL, &error));
    TAP_OK(error);
    g_clear_error(&error);
    close(pair[1]);
    TAP_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    close(pair[1]);
    TAP_OK(!lodge_core_client_adopt(pair[0], NULL, NULL, &error));
    TAP_OK(error);
}

/* A distribution's kernel, by the builder, under the filter. */
static void test_linux(void)
{
    const struct hv_domain_config config = {
        .name = "linux",
        .engine = "auto",
        .memory_bytes = 96 * HV_MIB,
        .vcpus = 2,
        .console = &capture_ops,
    };
    g_autoptr(LodgeBuilder) builder = NULL;
    g_autoptr(GError) error = NULL;
    struct hv_domain_status status;
    struct hv_domain *domain;

    if (access(LODGE_GUEST_ASSETS "/vmlinuz", R_OK) < 0) {
        tap_skip("There is no guest kernel; tests/guest/get-assets fetches one.");
        return;
    }
    if (!begin()) {
        return;
    }
    builder = lodge_builder_new(LODGE_GUEST_ASSETS "/vmlinuz", LODGE_GUEST_ASSETS "/initramfs.cpio",
                                "console=ttyS0 panic=-1 mitigations=off quiet lodge.run=poweroff",
                                &error);
    TAP_OK(builder);
    TAP_EQ(hv_domain_create(core, &config, &domain, NULL, 0), 0);
    if (!lodge_builder_load(builder, domain, &error)) {
        tap_fail(__FILE__, __LINE__, "%s", error->message);
        return;
    }
    TAP_EQ(hv_domain_unpause(domain), 0);
    TAP_EQ(hv_domain_wait_change(domain, HV_DOMAIN_STATE_RUNNING, 300 * HV_NS_PER_S), 0);
    hv_domain_get_status(domain, &status);
    TAP_EQ(status.state, HV_DOMAIN_STATE_SHUTDOWN);
    TAP_EQ(status.end, HV_DOMAIN_END_POWEROFF);
    TAP_AWAIT(capture_holds("lodge: init"));
    hv_domain_destroy(domain);
    end();
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"core.client.life", test_life},
        {"core.client.copy", test_copy},
        {"core.client.stats", test_stats},
        {"core.client.tuning", test_tuning},
        {"core.client.refused-output", test_refused_output},
        {"core.client.revoked", test_revoked},
        {"core.client.core-killed", test_core_killed},
        {"core.client.threads", test_threads},
        {"core.client.no-core", test_no_core},
        {"core.client.linux", test_linux},
    };
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

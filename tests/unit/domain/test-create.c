/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Create refuses each bad value by name, and leaves nothing behind whichever allocation fails. */
#include "base/alloc.h"
#include "domain/core.h"
#include "lib/threads.h"
#include "mem/heap.h"

#include <hv/domain.h>

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

static struct hv_core *make_core_of(enum hv_sched_policy policy)
{
    const struct hv_core_config config = {
        .workers = 1, .memory_bytes = 32 * HV_MIB, .policy = policy};
    struct hv_core *core = NULL;

    return hv_core_create(&config, &core) == 0 ? core : NULL;
}

static struct hv_core *make_core(void)
{
    return make_core_of(HV_SCHED_POLICY_CREDIT);
}

static const struct hv_domain_config standard = {
    .name = "test",
    .engine = "soft",
    .memory_bytes = 16 * HV_MIB,
    .vcpus = 2,
    .flags = HV_DOMAIN_TESTDEV,
};

static int create(struct hv_core *core, const struct hv_domain_config *config, char *why)
{
    struct hv_domain *domain = NULL;
    int rc = hv_domain_create(core, config, &domain, why, 128);

    hv_domain_destroy(domain);
    return rc;
}

static void test_refuse(void)
{
    static const char long_name[] =
        "0123456789012345678901234567890123456789012345678901234567890123";
    struct hv_core *core = make_core();
    char why[128];

    TAP_OK(core != NULL);
    for (unsigned row = 0; row < 17; row++) {
        struct hv_domain_config config = standard;
        int want = -EINVAL;

        switch (row) {
        case 0:
            config.name = "";
            break;
        case 1:
            config.name = long_name;
            break;
        case 2:
            config.vcpus = 0;
            break;
        case 3:
            config.vcpus = HV_MAX_VCPUS + 1;
            break;
        case 4:
            config.memory_bytes = 0;
            break;
        case 5:
            config.memory_bytes = 16 * HV_MIB + 4096;
            break;
        case 6:
            config.memory_bytes = UINT64_MAX & ~(HV_MIB - 1);
            break;
        case 7:
            config.memory_bytes = 64 * HV_MIB;
            break;
        case 8:
            config.engine = NULL;
            break;
        case 9:
            config.sched.weight = 65536;
            break;
        case 10:
            config.sched.cap_percent = 6401;
            break;
        case 11:
            config.sched.affinity.word[0] = 2; /* there is one worker, number 0 */
            break;
        case 12:
            config.timers_absent = HV_TIMER_LAPIC;
            break;
        case 13:
            config.timers_absent = HV_TIMER_ALL + 1;
            break;
        case 14:
            config.clock_policy = (enum hv_clock_policy)(HV_CLOCK_FREEZE + 1);
            break;
        case 15:
            config.rtc_track = (enum hv_rtc_track)(HV_RTC_TRACK_GUEST + 1);
            break;
        default:
            config.engine = "warp";
            want = -ENOTSUP;
            break;
        }
        TAP_EQ(create(core, &config, why), (uint64_t)want);
        TAP_OK(why[0] != '\0');
    }
    hv_core_destroy(core);
}

static void test_claims(void)
{
    struct hv_domain_config config = standard;
    struct hv_core *core = make_core();
    struct hv_domain *first = NULL;
    struct hv_domain *second = NULL;
    char why[128];

    TAP_OK(core != NULL);
    config.memory_bytes = 64 * HV_MIB;
    TAP_EQ(create(core, &config, why), (uint64_t)-EINVAL);
    TAP_STR(why, "it needs 64 MiB of memory, the core has 32 MiB, of which 32 MiB are free");
    config.memory_bytes = 20 * HV_MIB;
    TAP_EQ(hv_domain_create(core, &config, &first, why, sizeof(why)), 0);
    TAP_EQ(hv_domain_create(core, &config, &second, why, sizeof(why)), (uint64_t)-ENOMEM);
    TAP_OK(second == NULL);
    TAP_STR(why, "it needs 20 MiB of memory, the core has 32 MiB, of which 12 MiB are free");
    hv_domain_destroy(first);
    TAP_EQ(create(core, &config, why), 0);
    hv_core_destroy(core);
}

/* Odd sizes: what is beyond the guest's RAM in the last extent is claimed and returned with it. */
static void test_odd_size(void)
{
    struct hv_domain_config config = standard;
    struct hv_core *core = make_core();
    struct hv_heap_info info;
    char why[128];

    TAP_OK(core != NULL);
    config.memory_bytes = 15 * HV_MIB;
    TAP_EQ(create(core, &config, why), 0);
    hv_heap_get_info(hv_arena_heap(core->arena), &info);
    TAP_EQ(info.free_frames, info.total_frames);
    TAP_EQ(info.claimed_frames, 0);
    hv_core_destroy(core);
}

/* Every allocation of create fails once; then nothing of it may be left. */
static void fail_at_each(struct hv_core *core)
{
    struct hv_heap_info info;
    uint64_t failed = 0;
    int64_t live;
    char why[128];
    int rc = -ENOMEM;

    TAP_OK(core != NULL);
    /* What is made once and kept is made now. */
    TAP_EQ(create(core, &standard, why), 0);
    TAP_AWAIT(hv_load_seq(&core->directory.count) == 0);
    live = hv_alloc_live();
    for (uint64_t nth = 1; rc != 0; nth++) {
        TAP_OK(nth < 1000);
        hv_alloc_fail_at(nth);
        rc = create(core, &standard, why);
        hv_alloc_fail_at(0);
        TAP_OK(rc == 0 || rc == -ENOMEM);
        failed += rc != 0;
        /* A whole one is freed by a reaper. */
        TAP_AWAIT(hv_load_seq(&core->directory.count) == 0);
        TAP_EQ(hv_alloc_live(), live);
        hv_heap_get_info(hv_arena_heap(core->arena), &info);
        TAP_EQ(info.free_frames, info.total_frames);
        TAP_EQ(info.claimed_frames, 0);
    }
    tap_note("%" PRIu64 " allocations failed one by one", failed);
    TAP_OK(failed > 5);
    hv_core_destroy(core);
}

static void test_fail_at_each(void)
{
    fail_at_each(make_core());
}

/* With a thread for each vCPU there is more that can fail. */
static void test_fail_at_each_host(void)
{
    fail_at_each(make_core_of(HV_SCHED_POLICY_HOST));
}

static void test_share(void)
{
    struct hv_sched_parameters parameters = {.weight = 512, .cap_percent = 50};
    struct hv_domain_config config = standard;
    struct hv_core *core = make_core();
    struct hv_domain *domain = NULL;
    char why[128];

    TAP_OK(core != NULL);
    config.sched = parameters;
    TAP_EQ(hv_domain_create(core, &config, &domain, why, sizeof(why)), 0);
    hv_domain_get_sched(domain, &parameters);
    TAP_EQ(parameters.weight, 512);
    TAP_EQ(parameters.cap_percent, 50);
    /* What is wrong changes nothing. */
    parameters = (struct hv_sched_parameters){.weight = 1, .affinity = {{2}}};
    TAP_EQ(hv_domain_set_sched(domain, &parameters, why, sizeof(why)), (uint64_t)-EINVAL);
    TAP_OK(strstr(why, "affinity"));
    hv_domain_get_sched(domain, &parameters);
    TAP_EQ(parameters.weight, 512);
    parameters = (struct hv_sched_parameters){.weight = 1, .affinity = {{1}}};
    TAP_EQ(hv_domain_set_sched(domain, &parameters, why, sizeof(why)), 0);
    hv_domain_get_sched(domain, &parameters);
    TAP_EQ(parameters.weight, 1);
    TAP_EQ(parameters.cap_percent, 0);
    TAP_EQ(parameters.affinity.word[0], 1);
    TAP_EQ(hv_domain_kill(domain), 0);
    TAP_EQ(hv_domain_set_sched(domain, &parameters, why, sizeof(why)), (uint64_t)-ECANCELED);
    hv_domain_destroy(domain);
    hv_core_destroy(core);
}

/* The host decides: what would not be kept is refused. */
static void test_share_host(void)
{
    struct hv_core *core = make_core_of(HV_SCHED_POLICY_HOST);
    struct hv_domain_config config = standard;
    char why[128];

    TAP_OK(core != NULL);
    config.sched.cap_percent = 50;
    TAP_EQ(create(core, &config, why), (uint64_t)-ENOTSUP);
    TAP_OK(strstr(why, "host"));
    config.sched.cap_percent = 0;
    TAP_EQ(create(core, &config, why), 0);
    hv_core_destroy(core);
}

/* As many workers as CPUs; an arena of whole extents. */
static void test_core_refuse(void)
{
    const unsigned cpus = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
    const struct hv_core_config bad[] = {
        {.workers = cpus + 1, .memory_bytes = 2 * HV_MIB},
        {.workers = UINT_MAX, .memory_bytes = 2 * HV_MIB},
        {.workers = 1, .memory_bytes = 2 * HV_MIB, .reapers = 17},
        {.workers = 1, .memory_bytes = 2 * HV_MIB, .reapers = UINT_MAX},
        {.workers = 1, .memory_bytes = 0},
        {.workers = 1, .memory_bytes = 3 * HV_MIB},
        {.workers = 1, .memory_bytes = UINT64_MAX & ~(HV_EXTENT_SIZE - 1)},
    };
    struct hv_core_config good = {.workers = 0, .memory_bytes = 2 * HV_MIB};
    struct hv_core *core;

    for (size_t i = 0; i < HV_ARRAY_LEN(bad); i++) {
        TAP_EQ(hv_core_create(&bad[i], &core), (uint64_t)-EINVAL);
        TAP_OK(core == NULL);
    }
    TAP_EQ(hv_core_create(&good, &core), 0);
    TAP_EQ(hv_sched_workers(core->sched), cpus < 256 ? cpus : 256);
    hv_core_destroy(core);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"domain.create.core-refuse", test_core_refuse},
        {"domain.create.refuse", test_refuse},
        {"domain.create.claims", test_claims},
        {"domain.create.odd-size", test_odd_size},
        {"domain.create.fail-at-each", test_fail_at_each},
        {"domain.create.fail-at-each-host", test_fail_at_each_host},
        {"domain.create.share", test_share},
        {"domain.create.share-host", test_share_host},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

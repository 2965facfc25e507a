/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * docs/stats.md against what a machine and its core emit: neither has a name that the other lacks.
 * And what stands in some of them.
 */
#include "domain/core.h"
#include "domain/domain.h"
#include "lib/threads.h"
#include "machine.h"
#include "mem/foreign.h"

#include <errno.h>
#include <hv/lock-stats.h>
#include <stdio.h>
#include <string.h>

#define STATS_MAX 4096
#define NAMES_MAX 256

struct names {
    char name[NAMES_MAX][sizeof(((struct hv_stat *)0)->name)];
    size_t count;
};

static bool has(const struct names *names, const char *name)
{
    for (size_t i = 0; i < names->count; i++) {
        if (strcmp(names->name[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static void add(struct names *names, const char *name)
{
    if (!has(names, name) && names->count < NAMES_MAX) {
        snprintf(names->name[names->count++], sizeof(names->name[0]), "%s", name);
    }
}

/* Elements that are numbers become "<i>", then "<j>", as the page writes them. */
static void generalise(const char *name, char *out, size_t size)
{
    const char *const places[] = {"<i>", "<j>"};
    size_t place = 0, at = 0;

    for (const char *from = name; *from != '\0' && at + 4 < size;) {
        size_t length = strcspn(from, ".");
        bool number = strspn(from, "0123456789") == length && place < HV_ARRAY_LEN(places);

        at += (size_t)snprintf(out + at, size - at, "%.*s", number ? 3 : (int)length,
                               number ? places[place++] : from);
        from += length;
        if (*from == '.') {
            out[at++] = *from++;
            out[at] = '\0';
        }
    }
}

/* What stands between backquotes in the first column of the page's table. */
static bool read_page(struct names *names)
{
    FILE *page = fopen(STATS_PAGE, "r");
    char line[1024];

    while (page && fgets(line, sizeof(line), page)) {
        char *end = line[0] == '|' ? strchr(line + 1, '|') : NULL;

        if (end) {
            *end = '\0';
            for (char *at = strchr(line, '`'); at; at = strchr(at, '`')) {
                char *close = strchr(at + 1, '`');

                if (!close) {
                    break;
                }
                *close = '\0';
                add(names, at + 1);
                at = close + 1;
            }
        }
    }
    return page && fclose(page) == 0 && names->count > 0;
}

static struct hv_stat stats[STATS_MAX];

static bool add_all(struct names *names, size_t count)
{
    for (size_t i = 0; i < count && i < STATS_MAX; i++) {
        char name[sizeof(stats[0].name)] = "";

        generalise(stats[i].name, name, sizeof(name));
        add(names, name);
    }
    return count > 0 && count <= STATS_MAX;
}

/* As a guest does that tells the time. */
static void stamp(struct hv_domain *domain, uint64_t guest_ns)
{
    for (unsigned half = 0; half < 2; half++) {
        TAP_EQ(hv_bus_write(&domain->bus, HV_BUS_PORT, 0, HV_TESTDEV_STAMP_PORT + 4 * half, 4,
                            guest_ns >> 32 * half & UINT32_MAX),
               0);
    }
}

static const struct hv_mapper_config mapper_config = {.name = "migration worker 3"};

/* Map @count pages, as a worker of the core does. */
static bool map(struct machine *machine, size_t count, struct hv_mapper **mapper_out,
                struct hv_foreign **foreign_out)
{
    struct hv_memory *memory = &machine->domain->memory;

    return hv_mapper_create(machine->core->arena, &mapper_config, mapper_out) == 0 &&
           hv_foreign_grant(*mapper_out, memory, HV_FOREIGN_READ) == 0 &&
           hv_foreign_map(*mapper_out, memory, (hv_gfn){512}, count, HV_FOREIGN_READ,
                          foreign_out) == 0;
}

static bool read_machine(struct names *names)
{
    struct hv_foreign *foreign = NULL;
    struct hv_mapper *mapper = NULL;
    struct machine machine;
    bool good;

    if (!machine_make(&machine, 2)) {
        return false;
    }
    stamp(machine.domain, 1);
    good = map(&machine, 1, &mapper, &foreign) &&
           add_all(names, hv_domain_get_stats(machine.domain, stats, STATS_MAX)) &&
           add_all(names, hv_core_get_stats(machine.core, stats, STATS_MAX)) &&
           add_all(names, hv_core_get_lock_stats(machine.core, stats, STATS_MAX));
    hv_foreign_unmap(foreign);
    hv_mapper_destroy(mapper);
    machine_unmake(&machine);
    return good;
}

static void test_page(void)
{
    static struct names page, machine;

    TAP_OK(read_page(&page));
    TAP_OK(read_machine(&machine));
    for (size_t i = 0; i < machine.count; i++) {
        if (!has(&page, machine.name[i])) {
            tap_fail(__FILE__, __LINE__, "%s lacks %s", STATS_PAGE, machine.name[i]);
        }
    }
    for (size_t i = 0; i < page.count; i++) {
        if (!has(&machine, page.name[i])) {
            tap_fail(__FILE__, __LINE__, "%s has %s, which is not emitted", STATS_PAGE,
                     page.name[i]);
        }
    }
}

/* The value of a name, which is there. */
static uint64_t value(size_t count, const char *name)
{
    for (size_t i = 0; i < count && i < STATS_MAX; i++) {
        if (strcmp(stats[i].name, name) == 0) {
            return stats[i].is_text ? UINT64_MAX : stats[i].value;
        }
    }
    tap_fail(__FILE__, __LINE__, "%s is missing", name);
    return UINT64_MAX;
}

static const char *text(size_t count, const char *name)
{
    for (size_t i = 0; i < count && i < STATS_MAX; i++) {
        if (strcmp(stats[i].name, name) == 0 && stats[i].is_text) {
            return stats[i].text;
        }
    }
    return "";
}

/* All that was executed is there once a machine that ended by itself is asked to pause. */
static void test_instructions(void)
{
    /* 1000000 × (dec, jnz); then the debug-exit port. */
    static const uint8_t code[] = {
        0xb9, 0x40, 0x42, 0x0f, 0x00, /* mov ecx, 1000000 */
        0x49, 0x75, 0xfd,             /* dec ecx; jnz -3 */
        0xb0, 0x01, 0xe6, 0xf4, 0xf4, /* mov al, 1; out 0xf4, al; hlt */
    };
    struct hv_domain_status status;
    struct machine machine;
    size_t count;

    TAP_OK(machine_make(&machine, 1));
    TAP_OK(machine_run(&machine, code, sizeof(code), &status));
    TAP_EQ(status.end, HV_DOMAIN_END_DEBUG_EXIT);
    TAP_EQ(hv_domain_pause(machine.domain), (uint64_t)-EBUSY);
    count = hv_domain_get_stats(machine.domain, stats, STATS_MAX);
    TAP_OK(value(count, "engine.instructions") >= 2000002);
    TAP_OK(value(count, "engine.instructions") <= 2000004);
    TAP_EQ(value(count, "balloon.maximum"), MACHINE_BYTES / HV_KIB);
    TAP_OK(value(count, "balloon.rss") > 0);
    TAP_EQ(value(count, "balloon.rss"),
           4 * (value(count, "page.writable") + value(count, "page.code")));
    TAP_EQ(value(count, "balloon.rss") + 4 * value(count, "page.none"),
           MACHINE_BYTES / HV_KIB - 128 /* the VGA hole */);
    TAP_EQ(value(count, "page.code"), 1);
    TAP_EQ(value(count, "lock.count"), 10);
    machine_unmake(&machine);
}

/* Pages by use, and who holds some: of the living, of a zombie, and when all is let go. */
static void test_pages(void)
{
    struct hv_frame_access access = {0};
    struct hv_foreign *foreign = NULL;
    struct hv_mapper *mapper = NULL;
    struct machine machine;
    struct hv_leaf leaf;
    size_t count;

    TAP_OK(machine_make(&machine, 1));
    access.memory = &machine.domain->memory;
    TAP_OK(map(&machine, 12, &mapper, &foreign));
    leaf = hv_p2m_lookup(&machine.domain->memory.p2m, (hv_gfn){600});
    TAP_EQ(leaf.kind, HV_LEAF_RAM);
    TAP_EQ(hv_frame_pin(machine.core->arena, leaf.mfn, &access), 0);
    count = hv_domain_get_stats(machine.domain, stats, STATS_MAX);
    TAP_EQ(value(count, "page.pinned"), 1);
    TAP_EQ(value(count, "page.cow"), 0);
    TAP_EQ(value(count, "page.pgtable"), 0);
    TAP_EQ(value(count, "page.zombie_refs"), 0);
    TAP_EQ(value(count, "page.holder.count"), 1);
    TAP_STR(text(count, "page.holder.0.name"), "migration worker 3");
    TAP_EQ(value(count, "page.holder.0.pages"), 12);
    hv_frame_unpin(machine.core->arena, leaf.mfn);
    count = hv_domain_get_stats(machine.domain, stats, STATS_MAX);
    TAP_EQ(value(count, "page.pinned"), 0);
    TAP_EQ(hv_domain_kill(machine.domain), 0);
    TAP_EQ(hv_domain_wait_change(machine.domain, HV_DOMAIN_STATE_DYING, 10 * HV_NS_PER_S), 0);
    count = hv_domain_get_stats(machine.domain, stats, STATS_MAX);
    TAP_EQ(value(count, "page.zombie_refs"), 12);
    TAP_STR(text(count, "page.holder.0.name"), "migration worker 3");
    TAP_EQ(value(count, "page.holder.0.pages"), 12);
    count = hv_core_get_stats(machine.core, stats, STATS_MAX);
    TAP_EQ(value(count, "reaper.domains"), 1);
    TAP_EQ(value(count, "reaper.pages_left"), 0);
    TAP_OK(value(count, "reaper.rate") > 0);
    hv_foreign_unmap(foreign);
    hv_mapper_destroy(mapper);
    TAP_EQ(hv_domain_wait_change(machine.domain, HV_DOMAIN_STATE_DEAD, 10 * HV_NS_PER_S), 0);
    count = hv_domain_get_stats(machine.domain, stats, STATS_MAX);
    TAP_EQ(count, 3);
    TAP_EQ(value(count, "page.zombie_refs"), 0);
    TAP_EQ(value(count, "page.holder.count"), 0);
    count = hv_core_get_stats(machine.core, stats, STATS_MAX);
    TAP_EQ(value(count, "reaper.domains"), 0);
    machine_unmake(&machine);
}

static void take_lifecycle(unsigned index, void *context)
{
    struct machine *machine = context;

    (void)index;
    hv_lock_take(&machine->domain->lifecycle);
    hv_lock_drop(&machine->domain->lifecycle);
}

/* Another thread waited for a lock of the machine: that one comes first. */
static void test_worst_lock(void)
{
    struct threads threads;
    struct machine machine;
    size_t count;

    TAP_OK(machine_make(&machine, 1));
    hv_lock_take(&machine.domain->lifecycle);
    threads_start(&threads, 1, take_lifecycle, &machine);
    TAP_AWAIT(hv_load_seq(&machine.domain->lifecycle.waiters) == 1);
    hv_lock_drop(&machine.domain->lifecycle);
    threads_join(&threads);
    count = hv_domain_get_stats(machine.domain, stats, STATS_MAX);
    TAP_STR(text(count, "lock.0.class"), "domain.lifecycle");
    TAP_STR(text(count, "lock.0.kind"), "mutex");
    TAP_EQ(value(count, "lock.0.rank"), HV_RANK_LIFECYCLE);
    TAP_EQ(value(count, "lock.0.contended"), 1);
    TAP_EQ(value(count, "lock.0.waiters_max"), 1);
    TAP_OK(value(count, "lock.0.wait.total") > 0);
    TAP_EQ(value(count, "lock.0.wait.max"), value(count, "lock.0.wait.total"));
    /* A control thread: on no vCPU's account. */
    TAP_EQ(value(count, "lock.0.vcpu.0.wait"), 0);
    machine_unmake(&machine);
}

/* The full table has the core's locks and both machines', by name. */
static void test_all_locks(void)
{
    const struct hv_domain_config second = {
        .name = "second", .engine = "soft", .memory_bytes = 4 * HV_MIB, .vcpus = 1};
    struct hv_domain *domain = NULL;
    struct machine machine;
    unsigned seen = 0;
    size_t count, rows;
    char why[128];

    TAP_OK(machine_make(&machine, 1));
    TAP_EQ(hv_domain_create(machine.core, &second, &domain, why, sizeof(why)), 0);
    count = hv_core_get_lock_stats(machine.core, stats, STATS_MAX);
    rows = value(count, "lock.count");
    TAP_OK(count <= STATS_MAX && rows > 40);
    TAP_EQ(count % rows, 1);
    for (size_t i = 0; i < rows; i++) {
        char class_name[40], owner[40];

        snprintf(class_name, sizeof(class_name), "lock.%zu.class", i);
        snprintf(owner, sizeof(owner), "lock.%zu.domain", i);
        if (strcmp(text(count, class_name), "mem.p2m") == 0) {
            seen |= strcmp(text(count, owner), "test") == 0 ? 1 : 0;
            seen |= strcmp(text(count, owner), "second") == 0 ? 2 : 0;
        }
        seen |= strcmp(text(count, class_name), "core.reaper") == 0 && text(count, owner)[0] == '\0'
                    ? 4
                    : 0;
    }
    TAP_EQ(seen, 7);
    hv_domain_destroy(domain);
    TAP_OK(hv_core_get_lock_stats(machine.core, stats, STATS_MAX) < count);
    machine_unmake(&machine);
}

/* What a histogram's counts say, as its bytes travel. */
static uint64_t spans_in(const struct hv_lock_histogram *histogram)
{
    uint64_t spans = 0;

    for (uint32_t i = 0; i < histogram->buckets; i++) {
        spans += histogram->counts[i];
    }
    return spans;
}

/* Distributions with the list: of the lock that was waited for its own, with each wait in it. */
static void test_histograms(void)
{
    static struct hv_lock_histogram histograms[512];
    struct hv_lock_lists lists = {.stats = stats,
                                  .stat_max = STATS_MAX,
                                  .histograms = histograms,
                                  .histogram_max = HV_ARRAY_LEN(histograms)};
    struct threads threads;
    struct machine machine;
    unsigned waits = 0;

    TAP_OK(machine_make(&machine, 1));
    TAP_EQ(hv_core_set_lock_sampling(machine.core, "no.such", 1), (uint64_t)-ENOENT);
    TAP_EQ(hv_core_set_lock_sampling(machine.core, "domain.lifecycle", 1), 0);
    hv_lock_take(&machine.domain->lifecycle);
    threads_start(&threads, 1, take_lifecycle, &machine);
    TAP_AWAIT(hv_load_seq(&machine.domain->lifecycle.waiters) == 1);
    hv_lock_drop(&machine.domain->lifecycle);
    threads_join(&threads);
    hv_core_get_lock_lists(machine.core, &lists);
    TAP_EQ(lists.stat_count % value(lists.stat_count, "lock.count"), 1);
    TAP_OK(lists.histogram_count > 0 && lists.histogram_count <= HV_ARRAY_LEN(histograms));
    for (size_t i = 0; i < lists.histogram_count; i++) {
        const struct hv_lock_histogram *one = &histograms[i];
        char name[40];

        TAP_OK(one->row < value(lists.stat_count, "lock.count"));
        TAP_OK(one->buckets > 0 && one->buckets <= HV_LOCK_HISTOGRAM_BUCKETS);
        TAP_OK(one->counts[one->buckets - 1] > 0);
        snprintf(name, sizeof(name), "lock.%zu.class", one->row);
        if (one->span != HV_LOCK_HISTOGRAM_WAIT ||
            strcmp(text(lists.stat_count, name), "domain.lifecycle") != 0) {
            continue;
        }
        waits++;
        TAP_EQ(spans_in(one), 1);
        snprintf(name, sizeof(name), "lock.%zu.wait.total", one->row);
        TAP_EQ(one->total_ns, value(lists.stat_count, name));
        TAP_EQ(one->max_ns, one->total_ns);
    }
    TAP_EQ(waits, 1);
    /* Room for one: the number is that of all. */
    lists.histogram_max = 1;
    memset(&histograms[1], 0x5a, sizeof(histograms[1]));
    hv_core_get_lock_lists(machine.core, &lists);
    TAP_OK(lists.histogram_count > 1);
    TAP_EQ(((const char *)&histograms[1])[0], 0x5a);
    TAP_EQ(hv_core_set_lock_sampling(machine.core, "domain.lifecycle", 64), 0);
    machine_unmake(&machine);
}

/* Too little room is no harm: what fits is there, and the number is that of all. */
static void test_little_room(void)
{
    struct machine machine;
    size_t all;

    TAP_OK(machine_make(&machine, 1));
    all = hv_domain_get_stats(machine.domain, NULL, 0);
    memset(stats, 0x5a, sizeof(stats));
    TAP_EQ(hv_domain_get_stats(machine.domain, stats, 7), all);
    TAP_EQ(((const char *)&stats[7])[0], 0x5a);
    TAP_STR(stats[0].name, "state.state");
    all = hv_core_get_lock_stats(machine.core, NULL, 0);
    memset(stats, 0x5a, sizeof(stats));
    TAP_EQ(hv_core_get_lock_stats(machine.core, stats, 1), all);
    TAP_STR(stats[0].name, "lock.count");
    TAP_EQ(((const char *)&stats[1])[0], 0x5a);
    machine_unmake(&machine);
}

/* Changed while it runs; a timer that cannot have the policy says so. */
static void test_tick_policy(void)
{
    static const uint8_t spin[] = {0xeb, 0xfe}; /* jmp $ */
    const struct hv_vpt_policy discard = {.kind = HV_TICK_DISCARD};
    const struct hv_vpt_policy hasty = {.kind = HV_TICK_CATCHUP, .slew_per_cent = 100};
    struct machine machine;
    char why[128] = "";
    size_t count;

    TAP_OK(machine_make(&machine, 2));
    TAP_OK(machine_load(&machine, spin, sizeof(spin)));
    TAP_EQ(hv_domain_unpause(machine.domain), 0);
    TAP_EQ(hv_domain_set_tick_policy(machine.domain, HV_VPT_PIT, &discard, why, sizeof(why)), 0);
    TAP_EQ(hv_domain_set_tick_policy(machine.domain, HV_VPT_LAPIC, &discard, why, sizeof(why)), 0);
    TAP_EQ(hv_domain_set_tick_policy(machine.domain, HV_VPT_RTC, &hasty, why, sizeof(why)),
           (uint64_t)-EINVAL);
    TAP_OK(strstr(why, "slew"));
    TAP_EQ(hv_domain_set_tick_policy(machine.domain, HV_VPT_PM, &discard, why, sizeof(why)),
           (uint64_t)-EINVAL);
    count = hv_domain_get_stats(machine.domain, stats, STATS_MAX);
    TAP_STR(text(count, "timer.0.policy"), "discard"); /* pit0 */
    TAP_STR(text(count, "timer.1.policy"), "catchup"); /* rtc */
    TAP_STR(text(count, "timer.6.policy"), "discard"); /* both local APICs */
    TAP_STR(text(count, "timer.7.policy"), "discard");
    TAP_EQ(hv_domain_kill(machine.domain), 0);
    TAP_EQ(hv_domain_set_tick_policy(machine.domain, HV_VPT_PIT, &discard, why, sizeof(why)),
           (uint64_t)-ECANCELED);
    machine_unmake(&machine);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"domain.stats.page", test_page},
        {"domain.stats.instructions", test_instructions},
        {"domain.stats.pages", test_pages},
        {"domain.stats.worst-lock", test_worst_lock},
        {"domain.stats.all-locks", test_all_locks},
        {"domain.stats.histograms", test_histograms},
        {"domain.stats.little-room", test_little_room},
        {"domain.stats.tick-policy", test_tick_policy},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

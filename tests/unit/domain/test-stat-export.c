/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What a core exports: itself, its locks, each machine while it lives, and what that costs it. */
#include "domain/stat-export.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "common/stat-reader.h"
#include "domain/core.h"
#include "domain/domain.h"
#include "lib/threads.h"

#define BLOCKS (HV_STAT_EXPORT_FIRST + HV_STAT_EXPORT_DOMAINS)

static struct hv_core *core;
static struct hv_stat_export *by_hand;
static LodgeStatReader *reader;
static struct hv_stat stats[HV_STAT_PAGES_RECORDS];
static LodgeStatTitle title;
static guint count;

static bool open_core(uint64_t domains, uint64_t period_ns)
{
    const struct hv_core_config config = {
        .workers = 1, .memory_bytes = domains * HV_EXTENT_SIZE, .stat_period_ns = period_ns};

    return hv_core_create(&config, &core) == 0;
}

/* A core whose rounds the test does. */
static bool open_all(uint64_t domains)
{
    if (!open_core(domains, 0) ||
        hv_stat_export_create(core, HV_STAT_EXPORT_BY_HAND, &by_hand) != 0) {
        return false;
    }
    reader = lodge_stat_reader_open(hv_stat_export_fd(by_hand), NULL);
    return reader && lodge_stat_reader_blocks(reader) == BLOCKS;
}

static void close_all(void)
{
    lodge_stat_reader_close(reader);
    reader = NULL;
    hv_stat_export_destroy(by_hand);
    by_hand = NULL;
    hv_core_destroy(core);
}

static struct hv_domain *make(const char *name)
{
    const struct hv_domain_config config = {
        .name = name, .engine = "soft", .memory_bytes = HV_EXTENT_SIZE, .vcpus = 1};
    struct hv_domain *domain = NULL;
    char why[128];

    return hv_domain_create(core, &config, &domain, why, sizeof(why)) == 0 ? domain : NULL;
}

/* The value of a name of the block that was read last, which is there. */
static uint64_t value(const char *name)
{
    for (guint i = 0; i < count; i++) {
        if (strcmp(stats[i].name, name) == 0) {
            return stats[i].value;
        }
    }
    tap_fail(__FILE__, __LINE__, "%s is missing", name);
    return UINT64_MAX;
}

static LodgeStatResult read_block(unsigned block)
{
    return lodge_stat_reader_read(reader, block, &title, stats, &count);
}

/* The block of @handle; BLOCKS when it has none. */
static unsigned block_of(hv_handle handle)
{
    unsigned block = HV_STAT_EXPORT_FIRST;

    while (block < BLOCKS && (read_block(block) != LODGE_STAT_READ || title.handle.v != handle.v)) {
        block++;
    }
    return block;
}

static uint64_t left_out(void)
{
    guint64 rounds, moment, out;

    lodge_stat_reader_round(reader, &rounds, &moment, &out);
    return out;
}

static void test_blocks(void)
{
    struct hv_domain *first, *second;
    hv_handle handle;

    TAP_OK(open_all(4));
    first = make("first");
    second = make("second");
    TAP_OK(first && second);
    hv_stat_export_round(by_hand);
    TAP_EQ(read_block(HV_STAT_EXPORT_CORE), LODGE_STAT_READ);
    TAP_EQ(title.kind, HV_STAT_PAGES_CORE);
    TAP_EQ(title.wanted, count);
    TAP_EQ(value("heap.total"), 4 * HV_EXTENT_FRAMES);
    TAP_EQ(read_block(HV_STAT_EXPORT_LOCKS), LODGE_STAT_READ);
    TAP_EQ(title.kind, HV_STAT_PAGES_LOCKS);
    TAP_OK(value("lock.count") > 40);
    TAP_OK(block_of(hv_domain_handle(first)) < BLOCKS);
    TAP_EQ(title.kind, HV_STAT_PAGES_DOMAIN);
    TAP_STR(title.name, "first");
    TAP_EQ(value("state.state"), 3);
    TAP_EQ(title.wanted, hv_domain_get_stats(first, NULL, 0));
    TAP_OK(block_of(hv_domain_handle(second)) < BLOCKS);
    TAP_STR(title.name, "second");
    TAP_EQ(left_out(), 0);
    /* Gone, it has no block any more, and the other keeps its own. */
    handle = hv_domain_handle(first);
    hv_domain_destroy(first);
    hv_stat_export_round(by_hand);
    TAP_EQ(block_of(handle), BLOCKS);
    TAP_EQ(block_of(hv_domain_handle(second)), HV_STAT_EXPORT_FIRST + 1);
    /* A new one has the first that is free. */
    first = make("third");
    TAP_OK(first);
    hv_stat_export_round(by_hand);
    TAP_EQ(block_of(hv_domain_handle(first)), HV_STAT_EXPORT_FIRST);
    TAP_STR(title.name, "third");
    hv_domain_destroy(first);
    hv_domain_destroy(second);
    close_all();
}

/* The full table of locks is not written in each round. */
static void test_lock_rounds(void)
{
    uint64_t moment;

    TAP_OK(open_all(4));
    hv_stat_export_round(by_hand);
    TAP_EQ(read_block(HV_STAT_EXPORT_LOCKS), LODGE_STAT_READ);
    moment = title.moment_ns;
    for (unsigned i = 1; i < HV_STAT_EXPORT_LOCK_ROUNDS; i++) {
        hv_stat_export_round(by_hand);
    }
    TAP_EQ(read_block(HV_STAT_EXPORT_LOCKS), LODGE_STAT_READ);
    TAP_EQ(title.moment_ns, moment);
    hv_stat_export_round(by_hand);
    TAP_EQ(read_block(HV_STAT_EXPORT_LOCKS), LODGE_STAT_READ);
    TAP_OK(title.moment_ns > moment);
    close_all();
}

/* More machines than blocks: the header says how many are not shown, and they come when others go. */
static void test_left_out(void)
{
    struct hv_domain *domains[HV_STAT_EXPORT_DOMAINS + 2];
    unsigned shown = 0;

    TAP_OK(open_all(HV_ARRAY_LEN(domains)));
    for (unsigned i = 0; i < HV_ARRAY_LEN(domains); i++) {
        domains[i] = make("many");
        TAP_OK(domains[i]);
    }
    hv_stat_export_round(by_hand);
    TAP_EQ(left_out(), 2);
    for (unsigned i = 0; i < HV_STAT_EXPORT_DOMAINS; i++) {
        shown += read_block(HV_STAT_EXPORT_FIRST + i) == LODGE_STAT_READ;
    }
    TAP_EQ(shown, HV_STAT_EXPORT_DOMAINS);
    hv_domain_destroy(domains[0]);
    TAP_AWAIT(hv_load_seq(&core->directory.count) == HV_STAT_EXPORT_DOMAINS + 1);
    hv_stat_export_round(by_hand);
    TAP_EQ(left_out(), 1);
    TAP_EQ(block_of(hv_domain_handle(domains[HV_STAT_EXPORT_DOMAINS])), HV_STAT_EXPORT_FIRST);
    /* A newcomer with a lower id pushes nobody out. */
    hv_store_relaxed(&core->directory.next, 0);
    domains[0] = make("late");
    TAP_OK(domains[0]);
    TAP_EQ(hv_handle_id(hv_domain_handle(domains[0])), 1);
    hv_stat_export_round(by_hand);
    TAP_EQ(left_out(), 2);
    TAP_EQ(block_of(hv_domain_handle(domains[0])), BLOCKS);
    TAP_EQ(block_of(hv_domain_handle(domains[HV_STAT_EXPORT_DOMAINS])), HV_STAT_EXPORT_FIRST);
    for (unsigned i = 0; i < HV_ARRAY_LEN(domains); i++) {
        hv_domain_destroy(domains[i]);
    }
    close_all();
}

static uint64_t rounds_written(void)
{
    guint64 rounds, moment, out;

    lodge_stat_reader_round(reader, &rounds, &moment, &out);
    return rounds;
}

static _Atomic uint32_t over, strange;

static void come_or_look(unsigned index, void *context)
{
    (void)context;
    if (index > 0) {
        static _Thread_local struct hv_stat own[HV_STAT_PAGES_RECORDS];
        LodgeStatTitle of;
        guint there;

        while (!hv_load_seq(&over)) {
            for (unsigned block = 0; block < HV_STAT_EXPORT_FIRST + 2; block++) {
                if (lodge_stat_reader_read(reader, block, &of, own, &there) == LODGE_STAT_READ &&
                    of.kind == HV_STAT_PAGES_DOMAIN) {
                    hv_add_relaxed(&strange, strcmp(of.name, "brief") != 0 || there < 3);
                    hv_add_relaxed(&strange, strcmp(own[0].name, "state.state") != 0);
                }
            }
        }
        return;
    }
    for (unsigned i = 0; i < threads_rounds(40); i++) {
        struct hv_domain *domain = make("brief");
        uint64_t seen = rounds_written();

        hv_add_relaxed(&strange, !domain);
        /* Now and then it lives through a round. */
        while (i % 8 == 0 && rounds_written() < seen + 2) {
            g_thread_yield();
        }
        hv_domain_destroy(domain);
    }
    hv_store_seq(&over, 1);
}

/* By its own thread, while machines come and go under it and somebody reads. */
static void test_thread(void)
{
    TAP_OK(open_core(8, HV_STAT_EXPORT_PERIOD_MIN));
    reader = lodge_stat_reader_open(hv_core_stat_fd(core), NULL);
    TAP_OK(reader);
    hv_store_seq(&over, 0);
    threads_run(2, come_or_look, NULL);
    TAP_EQ(hv_load_seq(&strange), 0);
    tap_note("%" PRIu64 " rounds", rounds_written());
    hv_core_destroy(core);
    TAP_EQ(read_block(HV_STAT_EXPORT_CORE), LODGE_STAT_READ);
    lodge_stat_reader_close(reader);
    reader = NULL;
}

static void ask_and_look(unsigned index, void *context)
{
    static _Thread_local struct hv_stat own[HV_STAT_PAGES_RECORDS];

    (void)index;
    for (unsigned i = 0; i < threads_rounds(20); i++) {
        LodgeStatPlace place = 0;
        LodgeStatTitle of;
        hv_ns before = hv_clock_host_now();
        guint there;

        hv_add_relaxed(&strange, hv_core_write_stats(core) != 0);
        hv_add_relaxed(&strange, lodge_stat_reader_find(reader, HV_STAT_PAGES_DOMAIN,
                                                        hv_domain_handle(context), &place, &of, own,
                                                        &there) != LODGE_STAT_READ);
        hv_add_relaxed(&strange, of.moment_ns < before.v);
    }
}

/* Whoever asks for a round finds figures that are newer than his question, however long the period, and
 * whoever else asks. */
static void test_now(void)
{
    struct hv_domain *domain;

    TAP_OK(open_core(4, 3600 * HV_NS_PER_S));
    reader = lodge_stat_reader_open(hv_core_stat_fd(core), NULL);
    domain = make("brief");
    TAP_OK(reader && domain);
    hv_store_seq(&strange, 0);
    threads_run(3, ask_and_look, domain);
    TAP_EQ(hv_load_seq(&strange), 0);
    hv_domain_destroy(domain);
    lodge_stat_reader_close(reader);
    reader = NULL;
    hv_core_destroy(core);
    /* Without pages, or without a thread that writes them. */
    TAP_OK(open_all(1));
    TAP_EQ(hv_core_write_stats(core), (uint64_t)-ENOTSUP);
    TAP_EQ(hv_stat_export_now(by_hand), (uint64_t)-ENOTSUP);
    close_all();
}

/* Without a period there is no file; one that is too short is refused; and nothing is left behind
 * whichever allocation fails. */
static void test_create(void)
{
    struct hv_stat_export *export = NULL;
    int64_t live;
    int rc = -ENOMEM;
    int fd;

    TAP_OK(open_core(1, 0));
    TAP_EQ(hv_core_stat_fd(core), -1);
    live = hv_alloc_live();
    TAP_EQ(hv_stat_export_create(core, HV_STAT_EXPORT_PERIOD_MIN - 1, &export), (uint64_t)-EINVAL);
    TAP_OK(!export);
    for (uint64_t nth = 1; rc != 0; nth++) {
        hv_alloc_fail_at(nth);
        rc = hv_stat_export_create(core, HV_STAT_EXPORT_BY_HAND, &export);
        hv_alloc_fail_at(0);
        TAP_OK(rc == 0 || (rc == -ENOMEM && !export && hv_alloc_live() == live));
    }
    fd = hv_stat_export_fd(export);
    hv_stat_export_destroy(export);
    hv_stat_export_destroy(NULL);
    TAP_EQ(hv_alloc_live(), live);
    TAP_OK(fcntl(fd, F_GETFD) < 0 && errno == EBADF);
    hv_core_destroy(core);
    TAP_OK(!open_core(1, HV_STAT_EXPORT_PERIOD_MIN - 1));
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"domain.stat-export.blocks", test_blocks},
        {"domain.stat-export.lock-rounds", test_lock_rounds},
        {"domain.stat-export.left-out", test_left_out},
        {"domain.stat-export.thread", test_thread},
        {"domain.stat-export.now", test_now},
        {"domain.stat-export.create", test_create},
    };
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

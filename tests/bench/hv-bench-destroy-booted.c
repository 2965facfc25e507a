/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * `hv-bench destroy --booted N`: machines that run Linux on the software engine, in one core, killed
 * at one moment and taken apart by its reapers.
 *
 *     boot all, until each one's /init has said so -> kill all -> until all are GONE   observed
 *     -> until no free extent is dirty -> until the host has what the core does not keep
 *
 * What is observed meanwhile is what a management tool does to the core: ask for its figures, find a
 * machine that lives, create a small one.
 */
#include "bench/hv-bench-destroy.h"

#include <errno.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "bench/hv-bench.h"
#include "build/builder.h"
#include "domain/core.h"
#include "mem/heap-private.h"
#include "mem/upkeep.h"

#include <hv/teardown.h>

#define GUEST_BYTES   (128 * HV_MIB)
/* For the machine that lives, and small ones that are created and die. */
#define SPARE_BYTES   (256 * HV_MIB)
#define SMALL_BYTES   (2 * HV_MIB)
/* With as many machines on a CPU the kernel would find that its timer does not tick in time. */
#define COMMAND_LINE  "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check lodge.run=shell"
#define INIT_MARK     "lodge: init"
/* Seconds without another machine that has booted, or that free memory is not made zero. */
#define PATIENCE_S    180u
/* Pauses of the observer, which is to see and not to load, and between two looks at the heap. */
#define PAUSE_NS      100000
#define CREATE_EVERY  8u /* its rounds */
#define LOOK_PAUSE_NS 1000000

enum figure {
    BOOT_S,
    PAGES,
    WALL_S,
    NS_PER_PAGE,
    EXTENT_FREE_PCT,
    KILL_S, /* all calls that kill, and not what they begin */
    GETINFO_P99_US,
    LOOKUP_P99_US,
    CREATE_P99_US,
    OTHER_P99_US,
    CALLS,
    ZEROED_S,
    SPLIT_DIRTY_PAGES, /* beside pages in use: made zero when they are allocated */
    RETURNED_S,
    RETURNED_MIB,
    RSS_BOOTED_MIB,
    RSS_AFTER_MIB,
    FIGURES,
};

static const char *const figure_names[FIGURES] = {
    [BOOT_S] = "boot_s",
    [PAGES] = "pages",
    [WALL_S] = "wall_s",
    [NS_PER_PAGE] = "ns_per_page",
    [EXTENT_FREE_PCT] = "extent_free_pct",
    [KILL_S] = "kill_s",
    [GETINFO_P99_US] = "getinfo_p99_us",
    [LOOKUP_P99_US] = "lookup_p99_us",
    [CREATE_P99_US] = "create_p99_us",
    [OTHER_P99_US] = "other_p99_us",
    [CALLS] = "calls",
    [ZEROED_S] = "zeroed_s",
    [SPLIT_DIRTY_PAGES] = "split_dirty_pages",
    [RETURNED_S] = "returned_s",
    [RETURNED_MIB] = "returned_mib",
    [RSS_BOOTED_MIB] = "rss_booted_mib",
    [RSS_AFTER_MIB] = "rss_after_mib",
};

struct machine {
    struct hv_domain *domain;
    sem_t *booted;
    size_t matched; /* of INIT_MARK: the vCPU's own */
};

enum call {
    GETINFO,
    LOOKUP,
    CREATE,
    CALL_KINDS,
};

struct rig {
    struct bench *bench;
    LodgeBuilder *builder;
    unsigned count, run;
    struct hv_core *core;
    sem_t booted;
    struct machine machine[DESTROY_DOMAINS_MAX];
    struct hv_domain *bystander; /* that lives */
    /* The observer's. */
    pthread_t observer;
    _Atomic uint32_t stop;
    int failed; /* an errno */
    struct destroy_observed seen[CALL_KINDS], all;
};

static void pause_ns(long ns)
{
    const struct timespec pause = {.tv_nsec = ns};

    nanosleep(&pause, NULL);
}

/* ---- booting ---- */

/* No beginning of the mark comes again inside it. */
static size_t read_console(void *context, const uint8_t *data, size_t bytes)
{
    static const char mark[] = INIT_MARK;
    struct machine *machine = context;

    for (size_t i = 0; i < bytes && machine->matched < sizeof(mark) - 1; i++) {
        if (data[i] != (uint8_t)mark[machine->matched]) {
            machine->matched = 0;
        }
        machine->matched += data[i] == (uint8_t)mark[machine->matched];
        if (machine->matched == sizeof(mark) - 1) {
            sem_post(machine->booted);
        }
    }
    return bytes;
}

static const struct hv_console_ops console = {read_console};

static int create(struct hv_core *core, uint64_t bytes, struct machine *machine,
                  struct hv_domain **domain_out)
{
    const struct hv_domain_config config = {
        .name = machine ? "guest" : "small",
        .engine = "soft",
        .memory_bytes = bytes,
        .vcpus = 1,
        .console = machine ? &console : NULL,
        .console_context = machine,
    };

    return hv_domain_create(core, &config, domain_out, NULL, 0);
}

static int boot(struct rig *rig, struct machine *machine)
{
    g_autoptr(GError) error = NULL;
    int err;

    *machine = (struct machine){.booted = &rig->booted};
    err = create(rig->core, GUEST_BYTES, machine, &machine->domain);
    if (err) {
        return bench_fail(rig->bench, "cannot create a machine: %s", strerror(-err));
    }
    if (!lodge_builder_load(rig->builder, machine->domain, &error)) {
        return bench_fail(rig->bench, "%s", error->message);
    }
    err = hv_domain_unpause(machine->domain);
    return err ? bench_fail(rig->bench, "cannot start a machine: %s", strerror(-err)) : 0;
}

/* One that has ended will not boot any more. */
static int look_at_machines(const struct rig *rig)
{
    for (unsigned i = 0; i < rig->count; i++) {
        struct hv_domain_status status;

        hv_domain_get_status(rig->machine[i].domain, &status);
        if (status.state != HV_DOMAIN_STATE_RUNNING) {
            return bench_fail(rig->bench,
                              "a machine ended before it had booted (%s); see how by lodgectl run",
                              status.reason);
        }
    }
    return 0;
}

static int await_boot(struct rig *rig)
{
    unsigned done = 0;

    for (unsigned patience = 0; done < rig->count;) {
        struct timespec end;
        int status;

        bench_progress(rig->bench, "run %u of %u: %u of %u machines have booted", rig->run + 1,
                       rig->bench->runs, done, rig->count);
        clock_gettime(CLOCK_REALTIME, &end);
        end.tv_sec++;
        if (sem_timedwait(&rig->booted, &end) == 0) {
            done++;
            patience = 0;
            continue;
        }
        status = look_at_machines(rig);
        if (status) {
            return status;
        }
        if (++patience == PATIENCE_S) {
            return bench_fail(rig->bench,
                              "%u machines did not come to /init; give another kernel or initramfs "
                              "by --assets",
                              rig->count - done);
        }
    }
    return 0;
}

static int boot_all(struct rig *rig)
{
    int status = 0;

    for (unsigned i = 0; i < rig->count && status == 0; i++) {
        status = boot(rig, &rig->machine[i]);
    }
    return status ? status : await_boot(rig);
}

/* ---- observer ---- */

static void note(struct rig *rig, enum call call, double start)
{
    destroy_note(&rig->seen[call], start);
    destroy_note(&rig->all, start);
}

static int look_up(struct rig *rig)
{
    hv_handle handle = hv_domain_handle(rig->bystander);
    struct hv_domain *domain;
    double start = bench_wall_ns();
    int err = hv_domain_get(rig->core, handle, &domain);

    note(rig, LOOKUP, start);
    if (!err) {
        hv_domain_put(domain);
    }
    return err;
}

/* It goes the way of the others, behind them; nobody waits for it. */
static int create_small(struct rig *rig)
{
    struct hv_domain *domain;
    double start = bench_wall_ns();
    int err = create(rig->core, SMALL_BYTES, NULL, &domain);

    if (err == -ENOMEM) {
        return 0; /* too many before it are not gone yet */
    }
    note(rig, CREATE, start);
    if (!err) {
        err = hv_domain_kill(domain);
        hv_domain_put(domain);
    }
    return err;
}

static void *observer_main(void *data)
{
    struct rig *rig = data;

    for (unsigned round = 0; !hv_load_seq(&rig->stop) && !rig->failed; round++) {
        struct hv_stat stats[64];
        double start = bench_wall_ns();

        hv_core_get_stats(rig->core, stats, HV_ARRAY_LEN(stats));
        note(rig, GETINFO, start);
        rig->failed = look_up(rig);
        if (!rig->failed && round % CREATE_EVERY == 0) {
            rig->failed = create_small(rig);
        }
        pause_ns(PAUSE_NS);
    }
    return NULL;
}

/* ---- the end ---- */

static double mib(uint64_t bytes)
{
    return (double)bytes / (double)HV_MIB;
}

/* What of the process is in memory. */
static uint64_t resident_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    unsigned long long pages = 0;

    if (file) {
        if (fscanf(file, "%*u %llu", &pages) != 1) {
            pages = 0;
        }
        fclose(file);
    }
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void await_gone(struct hv_domain *domain)
{
    struct hv_domain_status status;

    hv_domain_get_status(domain, &status);
    while (status.state != HV_DOMAIN_STATE_GONE) {
        if (hv_domain_wait_change(domain, status.state, UINT64_MAX) == 0) {
            hv_domain_get_status(domain, &status);
        }
    }
}

/* Pages that a machine had when it was killed. */
static uint64_t pages_of(struct hv_domain *domain)
{
    struct hv_teardown_info info;

    hv_domain_get_teardown(domain, &info);
    return info.pages_total;
}

static void note_calls(struct rig *rig, double *figures)
{
    figures[GETINFO_P99_US] = destroy_p99_us(&rig->seen[GETINFO]);
    figures[LOOKUP_P99_US] = destroy_p99_us(&rig->seen[LOOKUP]);
    figures[CREATE_P99_US] = destroy_p99_us(&rig->seen[CREATE]);
    figures[CALLS] = rig->all.count;
    figures[OTHER_P99_US] = destroy_p99_us(&rig->all);
}

static void start_observer(struct rig *rig)
{
    for (unsigned i = 0; i < CALL_KINDS; i++) {
        rig->seen[i].count = 0;
    }
    rig->all.count = 0;
    hv_store_seq(&rig->stop, 0);
    bench_thread_start(&rig->observer, observer_main, rig);
}

/* Returns when the destroy began, by bench_wall_ns(). */
static double destroy_all(struct rig *rig, double *figures)
{
    const struct hv_arena *arena = rig->core->arena;
    uint64_t before = destroy_extent_pages(arena);
    uint64_t pages = 0;
    int failed = 0;
    double start;

    start_observer(rig);
    start = bench_wall_ns();
    for (unsigned i = 0; i < rig->count; i++) {
        int err = hv_domain_kill(rig->machine[i].domain);

        failed = err ? err : failed;
    }
    figures[KILL_S] = (bench_wall_ns() - start) / 1e9;
    for (unsigned i = 0; i < rig->count; i++) {
        await_gone(rig->machine[i].domain);
    }
    figures[WALL_S] = (bench_wall_ns() - start) / 1e9;
    hv_store_seq(&rig->stop, 1);
    pthread_join(rig->observer, NULL);
    rig->failed = failed ? failed : rig->failed;
    note_calls(rig, figures);
    for (unsigned i = 0; i < rig->count; i++) {
        pages += pages_of(rig->machine[i].domain);
        hv_domain_put(rig->machine[i].domain);
        rig->machine[i].domain = NULL;
    }
    figures[PAGES] = (double)pages;
    figures[NS_PER_PAGE] = figures[WALL_S] * 1e9 / (double)pages;
    figures[EXTENT_FREE_PCT] = 100 * (double)(destroy_extent_pages(arena) - before) / (double)pages;
    return start;
}

/* No free extent is dirty, nor on its way. */
static bool is_zero(struct hv_heap *heap)
{
    struct hv_heap_info info;
    bool dirty = false;

    for (unsigned i = 0; i < heap->shard_count; i++) {
        struct hv_shard *shard = &heap->shards[i];

        hv_lock_take(&shard->lock);
        dirty |= shard->head[HV_EXTENT_STATE_DIRTY] != HV_EXTENT_NIL;
        hv_lock_drop(&shard->lock);
    }
    hv_heap_get_info(heap, &info);
    return !dirty && info.moving_frames == 0;
}

/* The host has all that is not kept for the next machine. */
static bool is_returned(struct hv_heap *heap)
{
    uint64_t keep = hv_upkeep_default(heap).keep_bytes / HV_PAGE_SIZE;
    struct hv_heap_info info;

    hv_heap_get_info(heap, &info);
    return info.clean_frames + info.dirty_frames <= keep;
}

/* Seconds since @start until it is so; what the core does in the background is waited for. */
static int await_heap(struct rig *rig, double start, bool (*is_so)(struct hv_heap *heap),
                      double *seconds_out)
{
    struct hv_heap *heap = hv_arena_heap(rig->core->arena);

    for (double began = bench_wall_ns(); bench_wall_ns() - began < PATIENCE_S * 1e9;) {
        if (is_so(heap)) {
            *seconds_out = (bench_wall_ns() - start) / 1e9;
            return 0;
        }
        pause_ns(LOOK_PAUSE_NS);
    }
    return bench_fail(rig->bench, "free memory was not made zero, or not returned, in %u s",
                      PATIENCE_S);
}

static int await_memory(struct rig *rig, double start, double *figures)
{
    struct hv_heap *heap = hv_arena_heap(rig->core->arena);
    struct hv_heap_info before, after;
    int status;

    bench_progress(rig->bench, "run %u of %u: waiting until free memory is zero and returned",
                   rig->run + 1, rig->bench->runs);
    hv_heap_get_info(heap, &before);
    status = await_heap(rig, start, is_zero, &figures[ZEROED_S]);
    if (status == 0) {
        status = await_heap(rig, start, is_returned, &figures[RETURNED_S]);
    }
    hv_heap_get_info(heap, &after);
    figures[RETURNED_MIB] =
        mib(after.returned_frames * HV_PAGE_SIZE) - mib(before.returned_frames * HV_PAGE_SIZE);
    figures[RSS_AFTER_MIB] = mib(resident_bytes());
    return status;
}

static int open_core(struct rig *rig)
{
    const struct hv_core_config config = {.memory_bytes = rig->count * GUEST_BYTES + SPARE_BYTES};
    int err = hv_core_create(&config, &rig->core);

    if (!err) {
        err = create(rig->core, SMALL_BYTES, NULL, &rig->bystander);
    }
    return err ? bench_fail(rig->bench, "cannot make a core for %u machines: %s", rig->count,
                            strerror(-err))
               : 0;
}

static void close_core(struct rig *rig)
{
    for (unsigned i = 0; i < rig->count; i++) {
        hv_domain_destroy(rig->machine[i].domain);
        rig->machine[i].domain = NULL;
    }
    hv_domain_destroy(rig->bystander);
    hv_core_destroy(rig->core);
    rig->bystander = NULL;
    rig->core = NULL;
}

static int run_once(struct rig *rig, double *figures)
{
    double start = bench_wall_ns();
    int status = open_core(rig);

    if (status == 0) {
        status = boot_all(rig);
    }
    if (status == 0) {
        figures[BOOT_S] = (bench_wall_ns() - start) / 1e9;
        figures[RSS_BOOTED_MIB] = mib(resident_bytes());
        start = destroy_all(rig, figures);
        status = rig->failed
                     ? bench_fail(rig->bench, "a call failed meanwhile: %s", strerror(-rig->failed))
                     : await_memory(rig, start, figures);
    }
    close_core(rig);
    return status;
}

static LodgeBuilder *read_assets(const struct bench *bench)
{
    const char *folder = bench_option_text(bench, "--assets");
    g_autofree char *kernel = g_build_filename(folder, "vmlinuz", NULL);
    g_autofree char *initrd = g_build_filename(folder, "initramfs.cpio", NULL);
    g_autoptr(GError) error = NULL;
    LodgeBuilder *builder = lodge_builder_new(kernel, initrd, COMMAND_LINE, &error);

    if (!builder) {
        bench_fail(bench,
                   "%s; make them by tests/guest/get-assets %s, or name another folder by --assets",
                   error->message, folder);
    }
    return builder;
}

static void print_row(struct bench *bench, unsigned machines, const struct bench_series *series)
{
    bench_row_begin(bench, "destroy");
    bench_row_text(bench, "strategy", "extent");
    bench_row_count(bench, "booted", machines);
    for (unsigned i = 0; i < FIGURES; i++) {
        bench_row_figure(bench, figure_names[i], &series->each[i]);
    }
    bench_row_end(bench);
}

int destroy_booted_row(struct bench *bench, unsigned machines)
{
    struct bench_series *series = bench_series_create(bench, FIGURES);
    struct rig *rig = calloc(1, sizeof(*rig));
    int status = 0;

    if (!rig) {
        bench_die("no memory for %u machines", machines);
    }
    rig->bench = bench;
    rig->count = machines;
    sem_init(&rig->booted, 0, 0);
    rig->builder = read_assets(bench);
    if (!rig->builder) {
        status = BENCH_EXIT_FAILED;
        goto out;
    }
    for (; rig->run < bench->runs && status == 0; rig->run++) {
        double figures[FIGURES] = {0};

        status = run_once(rig, figures);
        for (unsigned i = 0; i < FIGURES; i++) {
            series->each[i].runs[rig->run] = figures[i];
        }
    }
    bench_progress(bench, NULL);
    if (status == 0) {
        print_row(bench, machines, series);
    }
out:
    lodge_builder_free(rig->builder);
    sem_destroy(&rig->booted);
    free(rig);
    bench_series_destroy(series);
    return status;
}

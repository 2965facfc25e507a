/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * `hv-bench vpt`: what the exit of a vCPU pays for virtual timers of which none is due, under each
 * strategy (platform/vpt-strategy.h); and what becomes of ticks while their timer moves all the time.
 *
 *     real      exits of so many vCPUs, dealt out to 1 and 2 threads, one after the other
 *     counted   lines that go from one cache to another, and atomic operations, an exit
 *     model     so many vCPUs that exit each --think ns; a line's transfers are served one by one,
 *               in --transfer ns each (mean value analysis of a closed network of one queue). The
 *               loss is against exits that share nothing; it sets in where think time is what the
 *               transfers of all take (`cliff_vcpus`). For 1 to 256 vCPUs, and for --vcpus over think
 *               times from 1 to 100 us
 *
 * Whether the model is worth anything is seen here: it says what an exit takes on this machine on 1 and
 * 2 threads, from the counted figures and what a mere look, a lock and a line's transfer take here,
 * measured just before; `here_N_miss_pct` is by how much that differs from the real exits.
 *
 * With --retarget N a periodic timer moves N times a second for a second while it fires: points of its
 * grid that are accounted for nowhere or delivered twice, and lists it is not in, or in twice, are
 * counted.
 */
#include "bench/hv-bench.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "lib/vpt-counted.h"

#define EXITS_ROUND 64u
#define SWEEP       9u
#define THREADS_MAX 3u
#define HERE_MOST   2u /* threads */

/* Beside --think, of the model, in ns. */
static const unsigned thinks[] = {1000, 3000, 10000, 30000, 100000};

static const char *const strategy_names[] = {"pend",     "retry",  "mid", "xsa336",
                                             "pertimer", "brlock", NULL};

#define QUEUES        2u
#define PERIODS_ROUND 16u
#define PERIOD_NS     (1000 * HV_NS_PER_US)

struct rig {
    struct hv_clock clock;
    struct hv_doorbell bell;
    struct hv_timer_queue queue[QUEUES];
    struct hv_timer_queue *queues[256];
    struct hv_vpt_set *set;
    struct hv_vpt vpt; /* the one that moves */
    uint64_t exits;
    unsigned threads;
    double thread_ns[THREADS_MAX];
    /* Of --retarget. */
    struct hv_lock device; /* HV_RANK_DEVICE: what a timer's device guards */
    uint64_t moves, periods;
    _Atomic uint32_t ended;
    hv_ns last_due; /* guarded by &device, as the next */
    uint64_t doubled;
    HV_ALIGNED(HV_CACHE_LINE) _Atomic uint64_t word; /* what a transfer takes is measured with */
};

/* What is known of the chosen strategies. */
struct findings {
    struct vpt_counted counted[HV_VPT_STRATEGIES];
    struct bench_series *exits[HERE_MOST], *wrong[HERE_MOST]; /* by threads, less 1 */
};

static void kick(void *context, unsigned vcpu)
{
    (void)context;
    (void)vcpu;
}

/* As a device does it: the tick is raised, and taken at once by the vCPU that the timer belongs to. */
static void expired(void *context)
{
    struct rig *rig = context;

    hv_lock_take(&rig->device);
    if (hv_vpt_expire(&rig->vpt, hv_clock_now(&rig->clock))) {
        rig->doubled += !hv_ns_before(rig->last_due, rig->vpt.tick_due);
        rig->last_due = rig->vpt.tick_due;
        hv_vpt_issue(&rig->vpt);
        hv_vpt_accept(&rig->vpt, hv_load_relaxed(&rig->vpt.vcpu)->index, NULL);
    }
    hv_lock_drop(&rig->device);
}

static bool open_rig(struct rig *rig, unsigned vcpus, const struct hv_vpt_strategy *strategy)
{
    struct hv_vpt_set_config config = {
        .vcpus = vcpus, .queues = rig->queues, .kick = kick, .strategy = strategy};

    memset(rig, 0, sizeof(*rig));
    hv_clock_init_simulated(&rig->clock, (hv_ns){1000});
    hv_doorbell_init(&rig->bell);
    hv_lock_init(&rig->device, HV_RANK_DEVICE, "bench.vpt", 0);
    for (unsigned i = 0; i < vcpus; i++) {
        rig->queues[i] = &rig->queue[i % QUEUES];
    }
    for (unsigned i = 0; i < QUEUES; i++) {
        hv_timer_queue_init(&rig->queue[i], &rig->clock, &rig->bell, i);
    }
    if (hv_vpt_set_create(&config, &rig->set) < 0) {
        return false;
    }
    hv_vpt_init(&rig->vpt, rig->set, HV_VPT_PIT, 0, expired, rig);
    return true;
}

static void close_rig(struct rig *rig)
{
    hv_vpt_finish(&rig->vpt);
    hv_vpt_set_destroy(rig->set);
    for (unsigned i = 0; i < QUEUES; i++) {
        hv_timer_queue_finish(&rig->queue[i]);
    }
    hv_lock_finish(&rig->device);
}

struct player {
    struct rig *rig;
    unsigned index;
    void (*body)(struct rig *rig, unsigned index);
    pthread_t id;
};

static void *play(void *context)
{
    struct player *player = context;

    player->body(player->rig, player->index);
    return NULL;
}

static void run_threads(struct rig *rig, unsigned count,
                        void (*body)(struct rig *rig, unsigned index))
{
    struct player players[THREADS_MAX];

    for (unsigned i = 0; i < count; i++) {
        players[i] = (struct player){.rig = rig, .index = i, .body = body};
        bench_thread_start(&players[i].id, play, &players[i]);
    }
    for (unsigned i = 0; i < count; i++) {
        pthread_join(players[i].id, NULL);
    }
}

static void exit_body(struct rig *rig, unsigned index)
{
    double start = bench_thread_ns();
    unsigned vcpu = index;

    for (uint64_t i = 0; i < rig->exits; i++) {
        hv_vpt_update(rig->set, vcpu);
        vcpu += rig->threads;
        vcpu = vcpu < rig->set->count ? vcpu : index;
    }
    rig->thread_ns[index] = bench_thread_ns() - start;
}

/* ---- what this machine's parts take ---- */

static void lock_body(struct rig *rig, unsigned index)
{
    double start = bench_thread_ns();

    for (uint64_t i = 0; i < rig->exits; i++) {
        hv_lock_take(&rig->device);
        hv_lock_drop(&rig->device);
    }
    rig->thread_ns[index] = bench_thread_ns() - start;
}

static void add_body(struct rig *rig, unsigned index)
{
    double start = bench_thread_ns();

    for (uint64_t i = 0; i < rig->exits; i++) {
        hv_add_seq(&rig->word, 1);
    }
    rig->thread_ns[index] = bench_thread_ns() - start;
}

/* ns a round of each of @threads, of the slowest. */
static double measure(struct rig *rig, unsigned threads,
                      void (*body)(struct rig *rig, unsigned index))
{
    double most = 0;

    rig->threads = threads;
    run_threads(rig, threads, body);
    for (unsigned i = 0; i < threads; i++) {
        most = rig->thread_ns[i] > most ? rig->thread_ns[i] : most;
    }
    return most / (double)rig->exits;
}

/*
 * What the model says that an exit takes on 1 and on 2 threads, in ns: what one takes that nothing but
 * looks, and a lock's taking and dropping for each two atomic operations; then what lines take from
 * one to the other. That is measured as it is here, without think time: two add to one word all the
 * time, each has it for half of that, and for several additions at once when it has it.
 */
static void predict(struct rig *rig, double look, const struct vpt_counted *counted,
                    double said_out[HERE_MOST])
{
    double own = look + counted->rmw / 2 * measure(rig, 1, lock_body);
    double service = counted->transfers * measure(rig, 2, add_body) / 2;

    said_out[0] = own;
    said_out[1] = HERE_MOST / bench_closed_rate(HERE_MOST, service, own);
}

/* ---- real ---- */

/* ns an exit that nothing but looks: one of `pend`'s, chosen or not. Returns whether there was memory. */
static bool measure_look(struct rig *rig, unsigned vcpus, uint64_t exits, double *look_out)
{
    if (!open_rig(rig, vcpus, &hv_vpt_pend)) {
        return false;
    }
    rig->exits = exits;
    *look_out = measure(rig, 1, exit_body);
    close_rig(rig);
    return true;
}

static int run_real(struct bench *bench, struct rig *rig, uint64_t chosen, unsigned vcpus,
                    struct findings *findings)
{
    uint64_t exits = bench_size(bench, 4000000, 20000);

    for (unsigned run = 0; run < bench->runs; run++) {
        double look;

        if (!measure_look(rig, vcpus, exits, &look)) {
            return bench_fail(bench, "no memory for %u vCPUs", vcpus);
        }
        for (unsigned i = 0; i < HV_VPT_STRATEGIES; i++) {
            double said[HERE_MOST];

            if (!(chosen >> i & 1)) {
                continue;
            }
            if (!open_rig(rig, vcpus, hv_vpt_strategies[i])) {
                return bench_fail(bench, "no memory for %u vCPUs", vcpus);
            }
            rig->exits = exits;
            predict(rig, look, &findings->counted[i], said);
            for (unsigned k = 0; k < HERE_MOST; k++) {
                double here = measure(rig, k + 1, exit_body);

                findings->exits[k]->each[i].runs[run] = here;
                findings->wrong[k]->each[i].runs[run] = 100 * (said[k] - here) / here;
            }
            close_rig(rig);
        }
    }
    for (unsigned k = 0; k < HERE_MOST; k++) {
        for (unsigned i = 0; i < HV_VPT_STRATEGIES; i++) {
            if (chosen >> i & 1) {
                bench_row_begin_as(bench, "vpt", "real");
                bench_row_text(bench, "strategy", strategy_names[i]);
                bench_row_number(bench, "vcpus", vcpus);
                bench_row_number(bench, "threads", k + 1);
                bench_row_figure(bench, "exit_ns", &findings->exits[k]->each[i]);
                bench_row_end(bench);
            }
        }
    }
    return 0;
}

/* ---- counted, and the model ---- */

static void print_real_figure(struct bench *bench, const char *key, double value)
{
    double runs[1] = {value};
    struct bench_figure figure = {.runs = runs, .count = 1};

    bench_row_figure(bench, key, &figure);
}

static void print_model(struct bench *bench, const struct findings *findings, unsigned strategy,
                        unsigned vcpus, double think)
{
    static const char *const miss_names[HERE_MOST] = {"here_1_miss_pct", "here_2_miss_pct"};
    double service =
        findings->counted[strategy].transfers * (double)bench_option(bench, "--transfer");
    double ideal = vcpus / think;

    bench_row_begin_as(bench, "vpt", "model");
    bench_row_text(bench, "strategy", strategy_names[strategy]);
    bench_row_number(bench, "vcpus", vcpus);
    bench_row_number(bench, "think_ns", (uint64_t)think);
    print_real_figure(bench, "model_loss_pct",
                      service > 0 ? 100 * (1 - bench_closed_rate(vcpus, service, think) / ideal)
                                  : 0);
    if (service > 0) {
        print_real_figure(bench, "cliff_vcpus", think / service);
    }
    for (unsigned k = 0; k < HERE_MOST; k++) {
        bench_row_figure(bench, miss_names[k], &findings->wrong[k]->each[strategy]);
    }
    bench_row_end(bench);
}

/* Over the number of vCPUs, and over think times. */
static void sweep(struct bench *bench, const struct findings *findings, unsigned strategy,
                  unsigned vcpus)
{
    double think = (double)bench_option(bench, "--think");

    for (unsigned k = 0; k < SWEEP; k++) {
        print_model(bench, findings, strategy, 1u << k, think);
        if (vcpus > 1u << k && (k + 1 == SWEEP || vcpus < 2u << k)) {
            print_model(bench, findings, strategy, vcpus, think);
        }
    }
    for (size_t k = 0; k < HV_ARRAY_LEN(thinks); k++) {
        if (thinks[k] != bench_option(bench, "--think")) {
            print_model(bench, findings, strategy, vcpus, thinks[k]);
        }
    }
}

static int count(struct bench *bench, struct rig *rig, uint64_t chosen, unsigned vcpus,
                 struct findings *findings)
{
    for (unsigned i = 0; i < HV_VPT_STRATEGIES; i++) {
        if (!(chosen >> i & 1)) {
            continue;
        }
        if (!open_rig(rig, vcpus, vpt_counted_strategy(strategy_names[i]))) {
            return bench_fail(bench, "no memory for %u vCPUs", vcpus);
        }
        findings->counted[i] = vpt_count_exits(rig->set, EXITS_ROUND);
        close_rig(rig);
    }
    return 0;
}

static void print_counted(struct bench *bench, uint64_t chosen, unsigned vcpus,
                          const struct findings *findings)
{
    for (unsigned i = 0; i < HV_VPT_STRATEGIES; i++) {
        if (!(chosen >> i & 1)) {
            continue;
        }
        bench_row_begin_as(bench, "vpt", "counted");
        bench_row_text(bench, "strategy", strategy_names[i]);
        bench_row_number(bench, "vcpus", vcpus);
        print_real_figure(bench, "shared_transfers_per_exit", findings->counted[i].transfers);
        print_real_figure(bench, "rmw_per_exit", findings->counted[i].rmw);
        bench_row_end(bench);
        sweep(bench, findings, i, vcpus);
    }
}

static int run_exits(struct bench *bench, struct rig *rig, uint64_t chosen, unsigned vcpus)
{
    struct findings findings;
    int status;

    for (unsigned k = 0; k < HERE_MOST; k++) {
        findings.exits[k] = bench_series_create(bench, HV_VPT_STRATEGIES);
        findings.wrong[k] = bench_series_create(bench, HV_VPT_STRATEGIES);
    }
    status = count(bench, rig, chosen, vcpus, &findings);
    status = status ? status : run_real(bench, rig, chosen, vcpus, &findings);
    if (status == 0) {
        print_counted(bench, chosen, vcpus, &findings);
    }
    for (unsigned k = 0; k < HERE_MOST; k++) {
        bench_series_destroy(findings.exits[k]);
        bench_series_destroy(findings.wrong[k]);
    }
    return status;
}

/* ---- moves ---- */

static void run_queues(struct rig *rig)
{
    for (unsigned i = 0; i < QUEUES; i++) {
        (void)hv_timer_queue_run(&rig->queue[i], hv_clock_now(&rig->clock));
    }
}

static void storm_body(struct rig *rig, unsigned index)
{
    double start = bench_wall_ns();

    if (index == 0) {
        while (hv_load_seq(&rig->ended) == 0) {
            hv_clock_advance(&rig->clock, PERIOD_NS);
            rig->periods++;
            run_queues(rig);
            if (rig->periods % PERIODS_ROUND == 0) {
                sched_yield(); /* on few CPUs nobody else would come to take a tick */
            }
        }
    } else if (index == 1) {
        for (uint64_t i = 0; i < rig->moves; i++) {
            hv_lock_take(&rig->device);
            hv_vpt_retarget(&rig->vpt, (unsigned)(i % rig->set->count));
            hv_lock_drop(&rig->device);
            while (bench_wall_ns() - start < (double)i * 1e9 / (double)rig->moves) {
                sched_yield();
            }
        }
        hv_add_seq(&rig->ended, 1);
    } else {
        while (hv_load_seq(&rig->ended) == 0) {
            for (unsigned i = 0; i < rig->set->count; i++) {
                hv_vpt_update(rig->set, i);
            }
        }
    }
}

/* Points of the grid that have passed and are in no counter, once all have been looked at. */
static uint64_t lost_ticks(struct rig *rig)
{
    uint64_t fired;

    run_queues(rig);
    for (unsigned i = 0; i < rig->set->count; i++) {
        hv_vpt_update(rig->set, i);
    }
    hv_lock_take(&rig->device);
    hv_vpt_check(&rig->vpt);
    fired = hv_load_relaxed(&rig->vpt.counters.fired);
    hv_lock_drop(&rig->device);
    return rig->periods > fired ? rig->periods - fired : fired - rig->periods;
}

static uint64_t list_errors(const struct rig *rig)
{
    unsigned lists = 0;
    uint64_t bits = 0;

    for (unsigned i = 0; i < rig->set->count; i++) {
        bits |= hv_load_seq(&rig->set->vcpu[i]->pending);
        hv_list_for_each(node, &rig->set->vcpu[i]->timers) {
            lists += node == &rig->vpt.link;
        }
    }
    return (lists != 1) + (bits != 0);
}

static int run_moves(struct bench *bench, struct rig *rig, uint64_t chosen, unsigned vcpus)
{
    int status = 0;

    for (unsigned i = 0; i < HV_VPT_STRATEGIES; i++) {
        uint64_t lost, errors;

        if (!(chosen >> i & 1)) {
            continue;
        }
        if (!open_rig(rig, vcpus, hv_vpt_strategies[i])) {
            return bench_fail(bench, "no memory for %u vCPUs", vcpus);
        }
        rig->moves = bench_option(bench, "--retarget");
        hv_lock_take(&rig->device);
        hv_vpt_start_grid(&rig->vpt, hv_clock_now(&rig->clock).v, PERIOD_NS, 1000000000);
        hv_lock_drop(&rig->device);
        run_threads(rig, 3, storm_body);
        lost = lost_ticks(rig);
        errors = list_errors(rig);
        bench_row_begin_as(bench, "vpt", "real");
        bench_row_text(bench, "strategy", strategy_names[i]);
        bench_row_number(bench, "vcpus", vcpus);
        bench_row_number(bench, "threads", 3);
        bench_row_count(bench, "retargets", hv_load_relaxed(&rig->vpt.counters.retargets));
        bench_row_count(bench, "periods", rig->periods);
        bench_row_count(bench, "issued", hv_load_relaxed(&rig->vpt.counters.issued));
        bench_row_count(bench, "lost_ticks", lost);
        bench_row_count(bench, "doubled_ticks", rig->doubled);
        bench_row_count(bench, "list_errors", errors);
        bench_row_end(bench);
        status = lost || rig->doubled || errors ? BENCH_EXIT_FAILED : status;
        hv_vpt_stop(&rig->vpt);
        close_rig(rig);
    }
    return status;
}

static int run(struct bench *bench)
{
    uint64_t chosen = bench_option(bench, "--strategy");
    unsigned vcpus = (unsigned)bench_option(bench, "--vcpus");
    struct rig *rig = aligned_alloc(_Alignof(struct rig), sizeof(*rig));
    int status;

    if (!rig) {
        return bench_fail(bench, "no memory");
    }
    if (bench_option(bench, "--retarget")) {
        status = run_moves(bench, rig, chosen, vcpus);
    } else {
        status = run_exits(bench, rig, chosen, vcpus);
    }
    free(rig);
    return status;
}

static const struct bench_option options[] = {
    {.name = "--strategy",
     .help = "whose exits",
     .choices = strategy_names,
     .several = true,
     .value = (UINT64_C(1) << HV_VPT_STRATEGIES) - 1},
    {.name = "--vcpus", .help = "of the machine", .min = 2, .max = 256, .value = 92},
    {.name = "--think",
     .help = "ns between a vCPU's exits, of the model",
     .min = 1,
     .max = 1000000000,
     .value = 10000},
    {.name = "--transfer",
     .help = "ns that a line takes from cache to cache, of the model",
     .min = 1,
     .max = 1000000,
     .value = 100},
    {.name = "--retarget",
     .help = "moves a second, while it fires; 0: measure exits",
     .suffix = "/s",
     .min = 0,
     .max = 1000000,
     .value = 0},
    {.name = NULL},
};

const struct hv_bench hv_bench_vpt = {
    .name = "vpt",
    .summary = "what an exit pays for timers of which none is due",
    .engine = "real",
    .options = options,
    .run = run,
};

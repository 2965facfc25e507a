/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Litmus tests by the processors of a guest: two, four or sixteen of them on two workers, a machine a
 * test (guest/). The guest says whether an outcome that is forbidden was seen, or a count lost; how often an
 * allowed one was seen, and how often the processors met, is told and not judged.
 */
#include "litmus/guest/request.h"
#include "unit/domain/machine.h"

#include "lib/tap.h"

#include <hv/guest-copy.h>

#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX      "guest."
#define WORKER      "hv-worker-" /* what the scheduler calls its threads */
#define IMAGE_BYTES (1u << 20)
/* Of the domain's statistics. */
#define STATS_MOST  1024u
/* Instructions of all tests together: ThreadSanitizer's tree runs them too. */
#define BUDGET      UINT64_C(50000000)

static const struct {
    const char *name;
    unsigned cpus; /* at least */
    bool many;     /* by 16 as well, which is far more than workers */
} tests[] = {
    {"sb", 2, false},
    {"sb-mfence", 2, false},
    {"sb-half", 2, false},
    {"sb-xchg", 2, false},
    {"sb-locked", 2, false},
    {"sb-cpuid", 2, false},
    {"mp", 2, false},
    {"mp-string", 2, false},
    {"mp-movnti", 2, false},
    {"lb", 2, false},
    {"2+2w", 2, false},
    {"s", 2, false},
    {"r-mfence", 2, false},
    {"corr", 2, false},
    {"coww", 2, false},
    {"tear", 2, false},
    {"wrc", 3, false},
    {"iriw", 4, false},
    {"counts", 2, false},
    {"split", 2, false},
    {"split-whole", 2, false},
    {"lock-xchg", 2, false},
    {"lock-bts", 2, false},
    {"lock-ticket", 2, false},
    {"wakes", 2, false},
    {"lock-peterson", 2, false},
    {"shootdown", 2, false},
    {"patch-stopped", 2, false},
    {"starts", 2, false},
    {"patch-poked", 2, false},
    {"patch-handshake", 2, false},
    {"pv-calls", 2, false},
    {"pv-kick", 2, true},
    {"pv-qspin", 2, false},
    {"pv-ipi", 2, true},
    {"pv-eoi", 2, false},
    {"pv-clock", 2, false},
    {"pv-steal", 2, true},
    {"pv-steal-given-up", 2, true},
};

static struct {
    uint8_t bytes[IMAGE_BYTES];
    size_t size;
} image;
static uint64_t instructions;

static void read_image(void)
{
    FILE *file = fopen(LITMUS_GUEST, "rb");

    if (file) {
        image.size = fread(image.bytes, 1, sizeof(image.bytes), file);
        fclose(file);
    }
}

static void count_instructions(struct hv_domain *domain)
{
    struct hv_stat *stats = calloc(STATS_MOST, sizeof(*stats));
    size_t count = stats ? hv_domain_get_stats(domain, stats, STATS_MOST) : 0;

    for (size_t i = 0; i < count && i < STATS_MOST; i++) {
        if (strcmp(stats[i].name, "engine.instructions") == 0) {
            instructions += stats[i].value;
        }
    }
    free(stats);
}

static bool is_worker(const char *thread)
{
    char path[64], name[32] = "";
    FILE *file;

    snprintf(path, sizeof(path), "/proc/self/task/%.16s/comm", thread);
    file = fopen(path, "r");
    if (file) {
        if (!fgets(name, sizeof(name), file)) {
            name[0] = '\0';
        }
        fclose(file);
    }
    return strncmp(name, WORKER, strlen(WORKER)) == 0;
}

/* Give each worker a CPU of the host: left alone, two that wake each other often share one. Where it
 * cannot be done the tests see less, and that is all. */
static void spread_workers(void)
{
    DIR *threads = opendir("/proc/self/task");
    struct dirent *thread;
    cpu_set_t allowed, one;
    int host_cpu = 0;

    if (!threads || sched_getaffinity(0, sizeof(allowed), &allowed) != 0) {
        return;
    }
    while ((thread = readdir(threads))) {
        if (!is_worker(thread->d_name)) {
            continue;
        }
        while (!CPU_ISSET(host_cpu, &allowed)) {
            host_cpu = (host_cpu + 1) % CPU_SETSIZE;
        }
        CPU_ZERO(&one);
        CPU_SET(host_cpu, &one);
        (void)sched_setaffinity(atoi(thread->d_name), sizeof(one), &one);
        host_cpu = (host_cpu + 1) % CPU_SETSIZE;
    }
    closedir(threads);
}

static void run_guest(struct request *request)
{
    struct hv_domain_status status = {0};
    struct machine machine;

    TAP_OK(image.size > 0 && image.size < sizeof(image.bytes));
    TAP_OK(machine_make(&machine, request->cpus));
    spread_workers();
    TAP_EQ(hv_guest_copy(machine.domain, (hv_gpa){REQUEST}, request, sizeof(*request),
                         HV_COPY_TO_GUEST),
           0);
    if (machine_run(&machine, image.bytes, image.size, &status)) {
        count_instructions(machine.domain);
        tap_note("%.*s", (int)machine.console_bytes, (const char *)machine.console);
    }
    machine_unmake(&machine);
    TAP_EQ(status.end, HV_DOMAIN_END_DEBUG_EXIT);
    TAP_EQ(status.code, REPORT_GOOD);
}

/* "guest.CPUS.NAME" */
static void test_named(void)
{
    char *name;
    struct request request = {
        .cpus = (uint32_t)strtoul(tap_name() + strlen(PREFIX), &name, 10),
    };

    snprintf(request.name, sizeof(request.name), "%s", name + 1);
    run_guest(&request);
}

/* The queued spin lock by sixteen on two workers: they exclude one another, and none starves. */
static void test_qspin(void)
{
    struct request request = {.cpus = CPUS_MOST, .name = "pv-qspin"};

    run_guest(&request);
}

/* Whoever answers no test of that name answers nothing by chance. */
static void test_unknown(void)
{
    struct request request = {.cpus = 2, .name = "no-such-test"};
    struct hv_domain_status status = {0};
    struct machine machine;

    TAP_OK(machine_make(&machine, request.cpus));
    TAP_EQ(hv_guest_copy(machine.domain, (hv_gpa){REQUEST}, &request, sizeof(request),
                         HV_COPY_TO_GUEST),
           0);
    TAP_OK(machine_run(&machine, image.bytes, image.size, &status));
    machine_unmake(&machine);
    TAP_EQ(status.code, REPORT_BAD);
}

static void test_budget(void)
{
    tap_note("%" PRIu64 " instructions", instructions);
    TAP_OK(instructions <= BUDGET);
}

int main(int argc, char **argv)
{
    static const unsigned sizes[] = {2, 4, 16};
    static char names[HV_ARRAY_LEN(sizes) * HV_ARRAY_LEN(tests)][32];
    struct tap_case cases[HV_ARRAY_LEN(names) + 3];
    size_t count = 0;

    for (size_t size = 0; size < HV_ARRAY_LEN(sizes); size++) {
        for (size_t i = 0; i < HV_ARRAY_LEN(tests); i++) {
            if (tests[i].cpus <= sizes[size] && (sizes[size] <= 4 || tests[i].many)) {
                snprintf(names[count], sizeof(names[0]), PREFIX "%u.%s", sizes[size],
                         tests[i].name);
                cases[count] = (struct tap_case){names[count], test_named};
                count++;
            }
        }
    }
    cases[count++] = (struct tap_case){"pv.qspin-guest", test_qspin};
    cases[count++] = (struct tap_case){PREFIX "unknown", test_unknown};
    cases[count++] = (struct tap_case){PREFIX "budget", test_budget};
    read_image();
    return tap_run(argc, argv, cases, count);
}

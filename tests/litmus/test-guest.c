/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Litmus tests by the processors of a guest: two or four of them on two workers, a machine a test
 * (guest/). The guest says whether an outcome that is forbidden was seen, or a count lost; how often an
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
} tests[] = {
    {"sb", 2},
    {"sb-mfence", 2},
    {"sb-half", 2},
    {"sb-xchg", 2},
    {"sb-locked", 2},
    {"sb-cpuid", 2},
    {"mp", 2},
    {"mp-string", 2},
    {"mp-movnti", 2},
    {"lb", 2},
    {"2+2w", 2},
    {"s", 2},
    {"r-mfence", 2},
    {"corr", 2},
    {"coww", 2},
    {"tear", 2},
    {"wrc", 3},
    {"iriw", 4},
    {"counts", 2},
    {"split", 2},
    {"split-whole", 2},
    {"lock-xchg", 2},
    {"lock-bts", 2},
    {"lock-ticket", 2},
    {"wakes", 2},
    {"lock-peterson", 2},
    {"shootdown", 2},
    {"patch-stopped", 2},
    {"starts", 2},
    {"patch-poked", 2},
    {"patch-handshake", 2},
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
    const char *text = tap_name() + strlen(PREFIX);
    struct request request = {.cpus = (uint32_t)(text[0] - '0')};

    snprintf(request.name, sizeof(request.name), "%s", text + 2);
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
    static char names[2 * HV_ARRAY_LEN(tests)][32];
    struct tap_case cases[2 * HV_ARRAY_LEN(tests) + 2];
    size_t count = 0;

    for (unsigned cpus = 2; cpus <= 4; cpus += 2) {
        for (size_t i = 0; i < HV_ARRAY_LEN(tests); i++) {
            if (tests[i].cpus <= cpus) {
                snprintf(names[count], sizeof(names[0]), PREFIX "%u.%s", cpus, tests[i].name);
                cases[count] = (struct tap_case){names[count], test_named};
                count++;
            }
        }
    }
    cases[count++] = (struct tap_case){PREFIX "unknown", test_unknown};
    cases[count++] = (struct tap_case){PREFIX "budget", test_budget};
    read_image();
    return tap_run(argc, argv, cases, count);
}

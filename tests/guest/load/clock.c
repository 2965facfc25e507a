/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The guest's clock, from the guest:
 *
 *     clock stamp TIMES MS    TIMES times: sleep MS milliseconds, then write CLOCK_MONOTONIC to the
 *                             test device's stamp ports, which keep the host's time with it
 *     clock tick SECONDS      sleep on every processor in steps of 10 ms; says how many clock
 *                             interrupts came meanwhile, and that the clock never went back
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/io.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STAMP_PORT 0x2020
#define NS_PER_S   UINT64_C(1000000000)
#define NS_PER_MS  UINT64_C(1000000)

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static void sleep_ns(uint64_t ns)
{
    struct timespec left = {(time_t)(ns / NS_PER_S), (long)(ns % NS_PER_S)};

    while (nanosleep(&left, &left) < 0 && errno == EINTR) {
    }
}

static int stamp(uint64_t times, uint64_t ms)
{
    if (iopl(3) < 0) {
        perror("clock: iopl");
        return 1;
    }
    for (uint64_t i = 0; i < times; i++) {
        uint64_t now;

        sleep_ns(ms * NS_PER_MS);
        /* So that the page of the clock, and the way to the port, are warm. */
        outl((uint32_t)now_ns(), STAMP_PORT);
        now = now_ns();
        outl((uint32_t)now, STAMP_PORT);
        outl((uint32_t)(now >> 32), STAMP_PORT + 4);
    }
    return 0;
}

/* Interrupts of the whole machine so far whose line in /proc/interrupts tells of a clock. */
static uint64_t clock_interrupts(void)
{
    FILE *file = fopen("/proc/interrupts", "r");
    char line[4096];
    uint64_t sum = 0;

    while (file && fgets(line, sizeof(line), file)) {
        char *at = strchr(line, ':');

        if (!at || !(strstr(line, "timer") || strstr(line, "hpet"))) {
            continue;
        }
        for (char *end = at + 1; end != at;) {
            at = end;
            sum += strtoull(at, &end, 10);
        }
    }
    if (file) {
        fclose(file);
    }
    return sum;
}

/* On one processor. Not zero when the clock went back. */
static int sleep_on(int processor, uint64_t seconds)
{
    uint64_t end = now_ns() + seconds * NS_PER_S, before = now_ns();
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    if (sched_setaffinity(0, sizeof(set), &set) < 0) {
        return 1;
    }
    while (before < end) {
        uint64_t now;

        sleep_ns(10 * NS_PER_MS);
        now = now_ns();
        if (now < before + 10 * NS_PER_MS) {
            printf("clock: slept 10 ms in %" PRId64 " ns\n", (int64_t)(now - before));
            return 1;
        }
        before = now;
    }
    return 0;
}

static int tick(uint64_t seconds)
{
    int processors = (int)sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t before = clock_interrupts();
    int bad = 0;

    for (int i = 0; i < processors; i++) {
        if (fork() == 0) {
            _exit(sleep_on(i, seconds));
        }
    }
    for (int i = 0; i < processors; i++) {
        int status = 0;

        bad |= wait(&status) < 0 || status != 0;
    }
    printf("clock %s: %" PRIu64 " interrupts\n", bad ? "bad" : "good", clock_interrupts() - before);
    return bad;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "stamp") == 0) {
        return stamp(strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10));
    }
    if (argc == 3 && strcmp(argv[1], "tick") == 0) {
        return tick(strtoull(argv[2], NULL, 10));
    }
    fputs("usage: clock stamp TIMES MS | clock tick SECONDS\n", stderr);
    return 1;
}

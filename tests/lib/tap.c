/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The runner behind tap.h: state of the one running case, the plan, must-die children. */
#include "lib/tap.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static struct {
    const char *name;
    bool failed;
    const char *skip_reason;
    uint64_t rng;
} tap;

static void print_note(const char *format, va_list args) HV_PRINTF(1, 0);

static void print_note(const char *format, va_list args)
{
    fputs("# ", stdout);
    vprintf(format, args);
    fputc('\n', stdout);
    fflush(stdout);
}

void tap_note(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    print_note(format, args);
    va_end(args);
}

void tap_fail(const char *file, int line, const char *format, ...)
{
    va_list args;

    tap.failed = true;
    tap_note("%s:%d:", file, line);
    va_start(args, format);
    print_note(format, args);
    va_end(args);
}

void tap_skip(const char *reason)
{
    tap.skip_reason = reason;
}

bool tap_failed(void)
{
    return tap.failed;
}

const char *tap_name(void)
{
    return tap.name;
}

uint64_t tap_rng(void)
{
    uint64_t x = tap.rng;

    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    tap.rng = x;
    return x * UINT64_C(2685821657736338717);
}

void tap_dies(const char *file, int line, void (*child)(void), int signal, const char *expect)
{
    char text[4096];
    size_t used = 0;
    ssize_t got;
    int fds[2];
    int status = 0;
    pid_t pid;

    if (pipe(fds) < 0) {
        tap_fail(file, line, "pipe failed");
        return;
    }
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        const struct rlimit no_core = {0, 0};

        setrlimit(RLIMIT_CORE, &no_core);
        dup2(fds[1], STDERR_FILENO);
        close(fds[0]);
        child();
        _exit(0);
    }
    close(fds[1]);
    while (used < sizeof(text) - 1 &&
           (got = read(fds[0], text + used, sizeof(text) - 1 - used)) > 0) {
        used += (size_t)got;
    }
    text[used] = '\0';
    close(fds[0]);
    if (pid < 0 || waitpid(pid, &status, 0) != pid) {
        tap_fail(file, line, "no child to wait for");
    } else if (!WIFSIGNALED(status) || WTERMSIG(status) != signal) {
        tap_fail(file, line, "child did not die by signal %d (status %#x): %s", signal,
                 (unsigned)status, text);
    } else if (expect && !strstr(text, expect)) {
        tap_fail(file, line, "child did not say \"%s\" but: %s", expect, text);
    }
}

static bool wanted(int argc, char **argv, const char *name)
{
    if (argc < 2) {
        return true;
    }
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static void start_rng(void)
{
    const char *text = getenv("LODGE_TEST_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 0) : UINT64_C(0x10d6e);

    tap.rng = seed ? seed : 1;
    tap_note("LODGE_TEST_SEED=%#" PRIx64, tap.rng);
}

static bool run_case(size_t number, const struct tap_case *one)
{
    tap.name = one->name;
    tap.failed = false;
    tap.skip_reason = NULL;
    one->run();
    if (tap.skip_reason && !tap.failed) {
        printf("ok %zu - %s # SKIP %s\n", number, one->name, tap.skip_reason);
    } else {
        printf("%sok %zu - %s\n", tap.failed ? "not " : "", number, one->name);
    }
    fflush(stdout);
    return !tap.failed;
}

int tap_run(int argc, char **argv, const struct tap_case *cases, size_t count)
{
    size_t planned = 0;
    size_t number = 0;
    bool good = true;

    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        for (size_t i = 0; i < count; i++) {
            puts(cases[i].name);
        }
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        planned += wanted(argc, argv, cases[i].name);
    }
    if (planned == 0) {
        fprintf(stderr, "no such case: %s (see --list)\n", argc > 1 ? argv[1] : "");
        return 2;
    }
    printf("1..%zu\n", planned);
    start_rng();
    for (size_t i = 0; i < count; i++) {
        if (wanted(argc, argv, cases[i].name)) {
            good &= run_case(++number, &cases[i]);
        }
    }
    return good ? 0 : 1;
}

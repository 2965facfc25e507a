/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What a bench prints: the setup, and rows, as text or JSON. See hv-bench.h. */
#include "bench/hv-bench.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "hv-config.h"

/* ---- messages ---- */

/* The bench that runs: a process runs one, and who runs out of memory far below knows of none. */
static const char *running;

void bench_begin(const struct hv_bench *what)
{
    running = what->name;
}

/* What the user gave may hold anything, and one line is to stay one. */
static void print_escaped(FILE *out, const char *text)
{
    for (const char *at = text; *at != '\0'; at++) {
        if (*at == '\n') {
            fputs("\\n", out);
        } else if ((unsigned char)*at < ' ' || *at == 0x7f) {
            fprintf(out, "\\x%02x", (unsigned char)*at);
        } else {
            putc(*at, out);
        }
    }
}

static void say(const char *format, va_list args) HV_PRINTF(1, 0);

static void say(const char *format, va_list args)
{
    char *line;

    if (vasprintf(&line, format, args) < 0) {
        line = NULL;
    }
    fprintf(stderr, "hv-bench%s%s: ", running ? " " : "", running ? running : "");
    print_escaped(stderr, line ? line : "no memory");
    fputs("\n", stderr);
    free(line);
}

int bench_complain(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say(format, args);
    va_end(args);
    return BENCH_EXIT_USAGE;
}

void bench_warn(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say(format, args);
    va_end(args);
}

int bench_fail(const struct bench *bench, const char *format, ...)
{
    va_list args;

    fflush(stdout);
    bench_progress(bench, NULL);
    va_start(args, format);
    say(format, args);
    va_end(args);
    return BENCH_EXIT_FAILED;
}

void bench_die(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say(format, args);
    va_end(args);
    exit(BENCH_EXIT_FAILED);
}

void bench_flush(void)
{
    if (fflush(stdout) != 0) {
        bench_die("cannot write the output: %s", strerror(errno));
    }
    if (ferror(stdout)) {
        bench_die("cannot write the output: some of it is lost"); /* by a printf() before */
    }
}

/* ---- JSON ---- */

static void print_string(const char *text)
{
    putchar('"');
    for (const char *at = text; *at != '\0'; at++) {
        if (*at == '"' || *at == '\\') {
            printf("\\%c", *at);
        } else if ((unsigned char)*at < ' ') {
            printf("\\u%04x", (unsigned char)*at);
        } else {
            putchar(*at);
        }
    }
    putchar('"');
}

static void print_key(struct bench *bench, const char *key)
{
    if (!bench->first) {
        fputs(bench->json ? ", " : "  ", stdout);
    }
    bench->first = false;
    if (bench->json) {
        print_string(key);
        fputs(": ", stdout);
    } else {
        printf("%s ", key);
    }
}

static void put_text(struct bench *bench, const char *key, const char *value)
{
    print_key(bench, key);
    if (bench->json) {
        print_string(value);
    } else {
        print_escaped(stdout, value);
    }
}

static void put_flag(struct bench *bench, const char *key, bool value)
{
    print_key(bench, key);
    fputs(value ? "true" : "false", stdout);
}

static void put_number(struct bench *bench, const char *key, uint64_t value)
{
    print_key(bench, key);
    printf("%" PRIu64, value);
}

/* ---- setup ---- */

/* What stands behind @key in a file of lines "key : value", or its first line for a NULL key. */
static void read_line(const char *path, const char *key, char *out, size_t size)
{
    FILE *file = fopen(path, "re");
    char line[256];

    snprintf(out, size, "unknown");
    while (file && fgets(line, sizeof(line), file)) {
        const char *value = key ? strchr(line, ':') : line;

        if (value && (!key || strncmp(line, key, strlen(key)) == 0)) {
            value += key ? 1 + strspn(value + 1, " \t") : 0;
            snprintf(out, size, "%.*s", (int)strcspn(value, "\n"), value);
            break;
        }
    }
    if (file) {
        fclose(file);
    }
}

void bench_print_setup(struct bench *bench)
{
    char cpu[128], governor[64];
    struct utsname host;
    double load = 0;

    read_line("/proc/cpuinfo", "model name", cpu, sizeof(cpu));
    read_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", NULL, governor,
              sizeof(governor));
    uname(&host);
    if (getloadavg(&load, 1) != 1) {
        load = 0;
    }
    fputs(bench->json ? "{\"setup\": {" : "# ", stdout);
    bench->first = true;
    put_text(bench, "bench", bench->what->name);
    put_text(bench, "engine", bench->what->engine);
    put_text(bench, "cpu", cpu);
    put_number(bench, "cores", (uint64_t)sysconf(_SC_NPROCESSORS_ONLN));
    put_text(bench, "governor", governor);
    put_text(bench, "kernel", host.release);
    print_key(bench, "load");
    printf("%.2f", load);
    put_text(bench, "build", BENCH_BUILD_TYPE);
    put_text(bench, "compiler", BENCH_COMPILER);
    put_flag(bench, "checks", HV_CONFIG_RANKS);
    /* Only a release tree gives figures that may be quoted. */
    put_flag(bench, "comparable",
             !HV_CONFIG_RANKS && !bench->quick && strcmp(BENCH_BUILD_TYPE, "release") == 0);
    put_number(bench, "runs", bench->runs);
    put_flag(bench, "quick", bench->quick);
    put_number(bench, "seed", bench->seed);
    for (const struct bench_option *option = bench->options; option->name; option++) {
        if (option->text) {
            put_text(bench, option->name + 2, option->text);
        } else if (option->choices) {
            char words[256];

            bench_option_words(option, words, sizeof(words));
            put_text(bench, option->name + 2, words);
        } else {
            put_number(bench, option->name + 2, option->value);
        }
    }
    puts(bench->json ? "}}" : "");
    bench_flush();
}

/* ---- rows ---- */

void bench_row_begin_as(struct bench *bench, const char *name, const char *engine)
{
    if (bench->json) {
        putchar('{');
    }
    bench->first = true;
    put_text(bench, "bench", name);
    put_text(bench, "engine", engine);
}

void bench_row_begin(struct bench *bench, const char *name)
{
    bench_row_begin_as(bench, name, bench->what->engine);
}

void bench_row_text(struct bench *bench, const char *key, const char *value)
{
    put_text(bench, key, value);
}

void bench_row_number(struct bench *bench, const char *key, uint64_t value)
{
    put_number(bench, key, value);
}

void bench_row_real(struct bench *bench, const char *key, double value)
{
    print_key(bench, key);
    printf("%g", value);
}

static void put_figure(struct bench *bench, const char *key, double min, double median, double max)
{
    print_key(bench, key);
    printf(bench->json ? "{\"min\": %.6g, \"median\": %.6g, \"max\": %.6g}" : "[%.4g %.4g %.4g]",
           min, median, max);
}

void bench_row_figure(struct bench *bench, const char *key, const struct bench_figure *figure)
{
    double min = figure->runs[0], max = figure->runs[0];

    for (unsigned i = 1; i < figure->count; i++) {
        min = figure->runs[i] < min ? figure->runs[i] : min;
        max = figure->runs[i] > max ? figure->runs[i] : max;
    }
    put_figure(bench, key, min, bench_figure_median(figure), max);
}

void bench_row_count(struct bench *bench, const char *key, uint64_t value)
{
    put_figure(bench, key, (double)value, (double)value, (double)value);
}

void bench_row_interval(struct bench *bench, const char *key, const struct bench_figure *figure)
{
    double low, high;

    bench_figure_interval(figure, &low, &high);
    put_figure(bench, key, low, bench_figure_median(figure), high);
}

void bench_row_end(struct bench *bench)
{
    puts(bench->json ? "}" : "");
    bench_flush();
}

/* ---- progress ---- */

void bench_progress(const struct bench *bench, const char *format, ...)
{
    bool terminal = isatty(STDERR_FILENO) == 1;
    va_list args;

    if (!terminal && !bench->progress) {
        return;
    }
    if (terminal) {
        fputs("\r\033[K", stderr); /* to the line's beginning, and erase it */
    }
    if (format) {
        fprintf(stderr, "hv-bench %s: ", bench->what->name);
        va_start(args, format);
        vfprintf(stderr, format, args);
        va_end(args);
        fputs(terminal ? "" : "\n", stderr);
    }
    fflush(stderr);
}

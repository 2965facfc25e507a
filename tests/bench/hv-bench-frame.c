/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Options and repeated runs: see hv-bench.h. */
#include "bench/hv-bench.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RUNS_NORMAL 15u
#define RUNS_QUICK  3u
#define RUNS_MAX    1000u
#define SEED        UINT64_C(0x10d6e)

/* ---- options ---- */

static void list_choices(const struct bench_option *option, char *text, size_t size)
{
    size_t at = 0;

    text[0] = '\0';
    for (size_t i = 0; option->choices[i] && at < size; i++) {
        at += (size_t)snprintf(text + at, size - at, "%s%s", i ? ", " : "", option->choices[i]);
    }
}

void bench_option_words(const struct bench_option *option, char *text, size_t size)
{
    size_t at = 0;

    text[0] = '\0';
    for (size_t i = 0; option->choices[i] && at < size; i++) {
        if (option->several ? option->value >> i & 1 : option->value == i) {
            at += (size_t)snprintf(text + at, size - at, "%s%s", at ? "," : "", option->choices[i]);
        }
    }
}

/* The index of the word of @length, or that of the NULL at the end. */
static size_t find_choice(const struct bench_option *option, const char *word, size_t length)
{
    size_t i = 0;

    while (option->choices[i] && (strlen(option->choices[i]) != length ||
                                  strncmp(option->choices[i], word, length) != 0)) {
        i++;
    }
    return i;
}

/* "a,b" or "all" as a mask; 0 when a word is none of the choices. */
static uint64_t parse_several(const struct bench_option *option, const char *text)
{
    uint64_t mask = 0;

    for (const char *word = text;; word++) {
        size_t length = strcspn(word, ",");
        size_t i = find_choice(option, word, length);

        if (length == 3 && strncmp(word, "all", length) == 0) {
            mask |= (UINT64_C(1) << find_choice(option, "", 0)) - 1;
        } else if (option->choices[i]) {
            mask |= UINT64_C(1) << i;
        } else {
            return 0;
        }
        word += length;
        if (*word == '\0') {
            return mask;
        }
    }
}

static int parse_choice(struct bench_option *option, const char *text)
{
    size_t found = find_choice(option, text, strlen(text));
    uint64_t mask = option->several ? parse_several(option, text) : 0;
    char allowed[256];

    if (option->several ? mask == 0 : !option->choices[found]) {
        list_choices(option, allowed, sizeof(allowed));
        return bench_complain("%s “%s”: expected %s%s", option->name, text, allowed,
                              option->several ? ", with commas between, or all" : "");
    }
    option->value = option->several ? mask : found;
    return 0;
}

bool bench_read_number(const char *text, uint64_t min, uint64_t max, uint64_t *value_out)
{
    size_t digits = strspn(text, "0123456789");
    unsigned long long value;

    /* strtoull() would also take blanks and a sign; and 010 is eight to some. */
    if (digits == 0 || text[digits] != '\0' || (text[0] == '0' && digits > 1)) {
        return false;
    }
    errno = 0;
    value = strtoull(text, NULL, 10);
    if (errno != 0 || value < min || value > max) {
        return false;
    }
    *value_out = value;
    return true;
}

/* @prefix may stand before it and @suffix behind it, unless NULL. */
static int parse_number(const char *name, const char *prefix, const char *suffix, const char *text,
                        uint64_t min, uint64_t max, uint64_t *value_out)
{
    size_t skipped = prefix && strncmp(text, prefix, strlen(prefix)) == 0 ? strlen(prefix) : 0;
    size_t length = strlen(text + skipped);
    size_t tail = suffix ? strlen(suffix) : 0;
    char number[32]; /* cut, it is too large a number still */

    if (tail > 0 && length > tail && strcmp(text + skipped + length - tail, suffix) == 0) {
        length -= tail;
    }
    length = length < sizeof(number) ? length : sizeof(number) - 1;
    memcpy(number, text + skipped, length);
    number[length] = '\0';
    if (!bench_read_number(number, min, max, value_out)) {
        return bench_complain("%s “%s”: expected %s%sa decimal number from %" PRIu64 " to %" PRIu64,
                              name, text, prefix ? prefix : "", prefix ? " and " : "", min, max);
    }
    return 0;
}

static int unknown(const struct bench *bench, const char *name)
{
    char allowed[512] = "--json, --quick, --progress, --runs, --seed, --help";
    size_t at = strlen(allowed);

    for (size_t i = 0; bench->options[i].name && at < sizeof(allowed); i++) {
        at += (size_t)snprintf(allowed + at, sizeof(allowed) - at, ", %s", bench->options[i].name);
    }
    return bench_complain("unknown option “%s”; expected %s", name, allowed);
}

static int parse_option(struct bench_option *option, const char *value)
{
    if (option->text && value[0] == '\0') {
        return bench_complain("%s “”: expected a %s", option->name, option->help);
    }
    if (option->text) {
        option->text = value;
        return 0;
    }
    if (option->choices) {
        return parse_choice(option, value);
    }
    return parse_number(option->name, option->prefix, option->suffix, value, option->min,
                        option->max, &option->value);
}

/* One that takes a value. */
static int parse_valued(struct bench *bench, const char *name, const char *value)
{
    uint64_t number = 0;
    int status;

    if (strcmp(name, "--runs") == 0) {
        status = parse_number(name, NULL, NULL, value, 1, RUNS_MAX, &number);
        bench->runs = (unsigned)number;
        return status;
    }
    if (strcmp(name, "--seed") == 0) {
        return parse_number(name, NULL, NULL, value, 0, UINT64_MAX, &bench->seed);
    }
    for (struct bench_option *option = bench->options; option->name; option++) {
        if (strcmp(option->name, name) == 0) {
            option->quick = 0;
            return parse_option(option, value);
        }
    }
    return unknown(bench, name);
}

static bool takes_value(const struct bench *bench, const char *name)
{
    if (strcmp(name, "--runs") == 0 || strcmp(name, "--seed") == 0) {
        return true;
    }
    for (const struct bench_option *option = bench->options; option->name; option++) {
        if (strcmp(option->name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* --name=value or --name value. */
static int parse_one(struct bench *bench, int argc, char **argv, int *at)
{
    char name[64];
    const char *given = argv[*at];
    const char *value = strchr(given, '=');
    size_t length = value ? (size_t)(value - given) : strlen(given);

    snprintf(name, sizeof(name), "%.*s", (int)length, given);
    if (!takes_value(bench, name)) {
        return unknown(bench, given);
    }
    if (!value) {
        /* What is missing is as wrong as what is empty. */
        return parse_valued(bench, name, *at + 1 < argc ? argv[++*at] : "");
    }
    return parse_valued(bench, name, value + 1);
}

static unsigned usual_runs(const struct bench *bench)
{
    if (bench->quick) {
        return RUNS_QUICK;
    }
    return bench->what->usual_runs ? bench->what->usual_runs(bench) : RUNS_NORMAL;
}

int bench_parse(struct bench *bench, int argc, char **argv, bool *help_out)
{
    int status = 0;

    bench->seed = SEED;
    for (size_t i = 0; bench->what->options && bench->what->options[i].name; i++) {
        bench->options[i] = bench->what->options[i];
    }
    for (int i = 0; status == 0 && i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            bench->json = true;
        } else if (strcmp(argv[i], "--quick") == 0) {
            bench->quick = true;
        } else if (strcmp(argv[i], "--progress") == 0) {
            bench->progress = true;
        } else if (strcmp(argv[i], "--help") == 0) {
            *help_out = true;
        } else {
            status = parse_one(bench, argc, argv, &i);
        }
    }
    for (struct bench_option *option = bench->options; bench->quick && option->name; option++) {
        option->value = option->quick ? option->quick : option->value;
        if (option->quick_max != 0 && option->value > option->quick_max) {
            option->value = option->quick_max;
        }
    }
    if (bench->runs == 0) {
        bench->runs = usual_runs(bench);
    }
    return status;
}

static void print_option_help(const struct bench_option *option)
{
    char line[520];

    if (option->text) {
        snprintf(line, sizeof(line), "%s", option->text);
    } else if (option->choices) {
        char allowed[256];
        char words[256];

        list_choices(option, allowed, sizeof(allowed));
        bench_option_words(option, words, sizeof(words));
        snprintf(line, sizeof(line), "%s (%s)", allowed, words);
    } else {
        snprintf(line, sizeof(line), "%" PRIu64 " to %" PRIu64 " (%" PRIu64 ")", option->min,
                 option->max, option->value);
    }
    printf("  %-22s %s: %s\n", option->name, option->help, line);
}

void bench_print_help(const struct hv_bench *what)
{
    printf("Usage: hv-bench %s [OPTION...]\n\n%s\n\n", what->name, what->summary);
    printf("  %-22s %s\n", "--json", "one JSON object a line instead of text");
    printf("  %-22s few and short runs: that it works, not how fast\n", "--quick");
    printf("  %-22s say on stderr how far it is, also when that is no terminal\n", "--progress");
    printf("  %-22s runs, interleaved; %u, or %u with --quick%s\n", "--runs N", RUNS_NORMAL,
           RUNS_QUICK, what->usual_runs ? ", unless said otherwise" : "");
    printf("  %-22s of whatever is random\n", "--seed N");
    for (const struct bench_option *option = what->options; option && option->name; option++) {
        print_option_help(option);
    }
}

static const struct bench_option *option_named(const struct bench *bench, const char *name)
{
    for (const struct bench_option *option = bench->options; option->name; option++) {
        if (strcmp(option->name, name) == 0) {
            return option;
        }
    }
    abort();
}

uint64_t bench_option(const struct bench *bench, const char *name)
{
    return option_named(bench, name)->value;
}

void bench_set_option(struct bench *bench, const char *name, uint64_t value)
{
    bench->options[option_named(bench, name) - bench->options].value = value;
}

const char *bench_option_text(const struct bench *bench, const char *name)
{
    return option_named(bench, name)->text;
}

uint64_t bench_size(const struct bench *bench, uint64_t normal, uint64_t quick)
{
    return bench->quick ? quick : normal;
}

/* ---- repeated runs ---- */

static double *room_for(unsigned runs)
{
    double *room = calloc(runs, sizeof(*room));

    if (!room) {
        bench_die("no memory for the figures of %u runs", runs);
    }
    return room;
}

struct bench_series *bench_series_of(unsigned variants, unsigned runs)
{
    struct bench_series *series =
        calloc(1, sizeof(*series) + variants * sizeof(struct bench_figure));

    if (!series) {
        bench_die("no memory for %u figures", variants);
    }
    series->variants = variants;
    for (unsigned i = 0; i < variants; i++) {
        series->each[i] = (struct bench_figure){room_for(runs), runs};
    }
    return series;
}

struct bench_series *bench_series_create(const struct bench *bench, unsigned variants)
{
    return bench_series_of(variants, bench->runs);
}

void bench_series_destroy(struct bench_series *series)
{
    for (unsigned i = 0; series && i < series->variants; i++) {
        bench_figure_finish(&series->each[i]);
    }
    free(series);
}

void bench_figure_finish(struct bench_figure *figure)
{
    free(figure->runs);
    *figure = (struct bench_figure){0};
}

static int ascending(const void *a, const void *b)
{
    double difference = *(const double *)a - *(const double *)b;

    return (difference > 0) - (difference < 0);
}

/* Of an even number the mean of the two in the middle. */
double bench_figure_median(const struct bench_figure *figure)
{
    double *sorted = room_for(figure->count);
    double median;

    memcpy(sorted, figure->runs, figure->count * sizeof(*sorted));
    qsort(sorted, figure->count, sizeof(*sorted), ascending);
    median = (sorted[figure->count / 2] + sorted[(figure->count - 1) / 2]) / 2;
    free(sorted);
    return median;
}

/* The chance that of @count coins at most @heads fall on heads. */
static double at_most_heads(unsigned count, unsigned heads)
{
    double term = 1, sum = 0;

    for (unsigned i = 0; i < count; i++) {
        term /= 2;
    }
    for (unsigned i = 0; i <= heads; i++) {
        sum += term;
        term = term * (count - i) / (i + 1);
    }
    return sum;
}

/* How many of @count runs lie outside the interval at either end. */
static unsigned left_out(unsigned count)
{
    unsigned root = 0, outside = 0;

    if (count < 1000) {
        while (outside + 1 < count / 2 && at_most_heads(count, outside + 1) <= 0.025) {
            outside++;
        }
        return outside;
    }
    /* The chances become too small to be added up, and the normal distribution's are as good. */
    while (root * root < 1.96 * 1.96 / 4 * count) {
        root++;
    }
    return count / 2 - root;
}

void bench_figure_interval(const struct bench_figure *figure, double *low_out, double *high_out)
{
    double *sorted = room_for(figure->count);
    unsigned outside = left_out(figure->count);

    memcpy(sorted, figure->runs, figure->count * sizeof(*sorted));
    qsort(sorted, figure->count, sizeof(*sorted), ascending);
    *low_out = sorted[outside];
    *high_out = sorted[figure->count - 1 - outside];
    free(sorted);
}

void bench_thread_start(pthread_t *id_out, void *(*body)(void *context), void *context)
{
    int err = pthread_create(id_out, NULL, body, context);

    if (err) {
        bench_die("cannot start a thread: %s", strerror(err));
    }
}

static double clock_ns(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

double bench_thread_ns(void)
{
    return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

double bench_process_ns(void)
{
    return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

double bench_wall_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

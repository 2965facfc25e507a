/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The frame of `hv-bench NAME`: options, the setup that every report begins with, rows, and the
 * statistics of repeated, interleaved runs. A bench is one file hv-bench-NAME.c with one struct
 * hv_bench, listed in hv-bench.c.
 *
 *     static int run(struct bench *bench)
 *     {
 *         struct bench_series *series = bench_series_create(bench, FIGURES);
 *
 *         for (unsigned run = 0; run < bench->runs; run++) {
 *             …                                    one result of each, by turns
 *         }
 *         bench_row_begin(bench, "loop");
 *         bench_row_text(bench, "strategy", "both");
 *         bench_row_figure(bench, "old_ns", &series->each[0]);
 *         …
 *         bench_row_end(bench);
 *     }
 *
 * Output is text for people, or with --json one object a line: {"setup": {…}} first, then the rows.
 * What tells rows from each other (`bench`, `strategy`, `engine`, `size_gib`, `cores`, `threads`,
 * `vcpus`, `think_ns`, …) is plain; all else is a figure, {"min": …, "median": …, "max": …} over the runs, counts too.
 *
 * Exit status: 0; 1 when a bench cannot run or found something wrong; 2 for a bad command line.
 */
#pragma once

#include <hv/compiler.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BENCH_EXIT_FAILED 1
#define BENCH_EXIT_USAGE  2

struct bench;

/* An option of one bench, beyond those that all have: see bench_print_help(). */
struct bench_option {
    const char *name;           /* "--threads" */
    const char *help;           /* what it means */
    const char *text;           /* the default of one that takes any text; or NULL */
    const char *const *choices; /* the words allowed, NULL at the end; or NULL: a number */
    bool several;               /* any of the words with commas between, or "all" */
    const char *prefix;         /* what may stand before a number, e.g. "cores="; or NULL */
    const char *suffix;         /* and behind it, e.g. "/s"; or NULL */
    uint64_t min, max;          /* of a number */
    uint64_t value;             /* the default: a number, an index of choices, or a mask of these */
    uint64_t quick;             /* with --quick instead, unless 0 */
    uint64_t quick_max;         /* with --quick at most, unless 0, whatever was given */
};

struct hv_bench {
    const char *name;
    const char *summary;                /* one line */
    const char *engine;                 /* "real", "counted" or "model": what the figures are of */
    const struct bench_option *options; /* with name NULL at the end; or NULL */
    /** How often it runs unless --runs says; or NULL: 15 times. */
    unsigned (*usual_runs)(const struct bench *bench);
    /** Before the setup is printed: has the host room for it? 0, or an exit status; or NULL. */
    int (*check)(struct bench *bench);
    /** Returns the exit status. */
    int (*run)(struct bench *bench);
};

extern const struct hv_bench hv_bench_destroy;
extern const struct hv_bench hv_bench_foreign;
extern const struct hv_bench hv_bench_locks;
extern const struct hv_bench hv_bench_vpt;
extern const struct hv_bench hv_bench_yield;

#define BENCH_OPTIONS_MAX 16

struct bench {
    const struct hv_bench *what;
    bool json, quick, progress;
    unsigned runs;
    uint64_t seed;
    struct bench_option options[BENCH_OPTIONS_MAX]; /* with what was given */
    bool first;                                     /* nothing stands in the row yet */
};

/** Read a plain decimal number, without sign or blanks or zeros before it. False when it is none. */
bool bench_read_number(const char *text, uint64_t min, uint64_t max, uint64_t *value_out);

/** What was given, or the default, for the option of that name, which the bench has. */
uint64_t bench_option(const struct bench *bench, const char *name);

/** Use @value instead of what was given. */
void bench_set_option(struct bench *bench, const char *name, uint64_t value);

/** The same of one that takes any text. */
const char *bench_option_text(const struct bench *bench, const char *name);

/** Write the words of an option, as they would be given, to @text. */
void bench_option_words(const struct bench_option *option, char *text, size_t size);

/** @normal, or @quick when --quick was given. */
uint64_t bench_size(const struct bench *bench, uint64_t normal, uint64_t quick);

/* ---- repeated runs ---- */

struct bench_figure {
    double *runs; /* one result a run */
    unsigned count;
};

struct bench_series {
    unsigned variants;
    struct bench_figure each[];
};

/** Room for the runs of @variants figures. Ends the process without memory. */
struct bench_series *bench_series_create(const struct bench *bench, unsigned variants);
/** The same for so many runs as the bench does not say. */
struct bench_series *bench_series_of(unsigned variants, unsigned runs);
void bench_series_destroy(struct bench_series *series);

void bench_figure_finish(struct bench_figure *figure);

double bench_figure_median(const struct bench_figure *figure);

/**
 * Where the median of what was drawn from lies, by the order of the runs alone: in 95 of 100 cases,
 * from 6 runs on, between two of them; the smallest and the largest for fewer.
 */
void bench_figure_interval(const struct bench_figure *figure, double *low_out, double *high_out);

/** Start a thread. Ends the process if it cannot: those started before it wait for it. */
void bench_thread_start(pthread_t *id_out, void *(*body)(void *context), void *context);

/** CPU time of this thread, of all threads, and time by the monotonic clock, in ns. */
double bench_thread_ns(void);
double bench_process_ns(void);
double bench_wall_ns(void);

/* ---- what models are made of ---- */

/**
 * Customers served a ns, of so many that come back @think ns after they were served, one at a time, in
 * @service ns each: a closed network of one queue, by exact mean value analysis.
 */
double bench_closed_rate(unsigned customers, double service, double think);

/** ns to have a cache line from the core that last wrote it: half a ping-pong, the best of @rallies. */
double bench_transfer_ns(uint64_t rallies);

/* ---- output ---- */

void bench_row_begin(struct bench *bench, const char *name);
/** The same for a row whose figures are of another engine than the bench's. */
void bench_row_begin_as(struct bench *bench, const char *name, const char *engine);
/* What tells it from other rows. */
void bench_row_text(struct bench *bench, const char *key, const char *value);
void bench_row_number(struct bench *bench, const char *key, uint64_t value);
void bench_row_real(struct bench *bench, const char *key, double value);
/* What was measured. */
void bench_row_figure(struct bench *bench, const char *key, const struct bench_figure *figure);
/** One that is the same in all runs. */
void bench_row_count(struct bench *bench, const char *key, uint64_t value);
/** Where the median lies: bench_figure_interval(), with the median itself between. */
void bench_row_interval(struct bench *bench, const char *key, const struct bench_figure *figure);
void bench_row_end(struct bench *bench);

/**
 * Say on stderr how far it is, when that is a terminal or --progress was given; NULL: no more. On a
 * terminal each takes the place of the one before.
 */
void bench_progress(const struct bench *bench, const char *format, ...) HV_PRINTF(2, 3);

/*
 * What is said on stderr: one line each, "hv-bench NAME: …", whatever characters are in what the user
 * gave.
 */
/** Why it cannot go on. Returns BENCH_EXIT_FAILED. */
int bench_fail(const struct bench *bench, const char *format, ...) HV_PRINTF(2, 3);
/** The same where nobody could tell the caller: of threads, or memory, that are not to be had. */
HV_NORETURN void bench_die(const char *format, ...) HV_PRINTF(1, 2);
/** What is wrong with the command line. Returns BENCH_EXIT_USAGE. */
int bench_complain(const char *format, ...) HV_PRINTF(1, 2);
/** What makes the figures to come doubtful. */
void bench_warn(const char *format, ...) HV_PRINTF(1, 2);

/** See that what was printed has been written; ends the process when it was not. */
void bench_flush(void);

/* ---- for hv-bench.c ---- */

/** From now on messages are of this bench. */
void bench_begin(const struct hv_bench *what);

/** Read the command line behind the bench's name. Returns 0, or an exit status and ends at once. */
int bench_parse(struct bench *bench, int argc, char **argv, bool *help_out);
void bench_print_help(const struct hv_bench *what);
void bench_print_setup(struct bench *bench);

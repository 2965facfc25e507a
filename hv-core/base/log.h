/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The core's log: lines handed to one sink set at start-up. No stdio, no allocation.
 *
 * What a guest can cause goes through hv_log_guest(), which lets 10 lines a second of a domain pass
 * and counts the rest, so that no guest can fill a disk.
 */
#pragma once

#include <hv/types.h>

enum hv_log_level {
    HV_LOG_LEVEL_ERROR,
    HV_LOG_LEVEL_WARNING,
    HV_LOG_LEVEL_INFO,
    HV_LOG_LEVEL_DEBUG,
};

/* Longest line, terminator included; longer ones are cut. */
#define HV_LOG_LINE_MAX 512

/** @line is borrowed for the call. Called from any thread, with any lock held: must not block. */
typedef void hv_log_sink(void *context, enum hv_log_level level, const char *line);

/** Replace the sink (default: write(2) to stderr at level WARNING and above). At start-up only. */
void hv_log_set_sink(hv_log_sink *sink, void *context, enum hv_log_level most);

/**
 * Log one line, given without its newline; a level beyond the sink's is dropped. What a guest can
 * cause goes through hv_log_guest() instead.
 *
 * Context: any thread, any lock held; blocks no longer than the sink.
 */
void hv_log(enum hv_log_level level, const char *format, ...) HV_PRINTF(2, 3);

/* One a domain; zero-initialised. */
struct hv_log_limit {
    /* Atomic: the second the last line fell into, times 256, plus how many did. */
    _Atomic uint64_t window;
    /* Atomic: lines left out so far. */
    _Atomic uint64_t suppressed;
};

#define HV_LOG_GUEST_LINES 10u

/**
 * Log a line caused by a guest, at most HV_LOG_GUEST_LINES a second for each @limit.
 *
 * @now  the present, by any monotonic clock that is always the same for one @limit.
 *
 * The first line of a second that follows suppressed ones is preceded by their total, which counts
 * as one of its lines.
 */
void hv_log_guest(struct hv_log_limit *limit, hv_ns now, enum hv_log_level level,
                  const char *format, ...) HV_PRINTF(4, 5);

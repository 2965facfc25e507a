/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Formatting of log lines, the default sink, and the guests' rate limit. */
#include "base/log.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/format.h"

static const char *const level_names[] = {
    [HV_LOG_LEVEL_ERROR] = "error: ",
    [HV_LOG_LEVEL_WARNING] = "warning: ",
    [HV_LOG_LEVEL_INFO] = "info: ",
    [HV_LOG_LEVEL_DEBUG] = "debug: ",
};

/* The default sink: one writev() a line, so that lines of several threads do not mix. */
static void write_stderr(void *context, enum hv_log_level level, const char *line)
{
    char newline[] = "\n";
    const char *name = level_names[level];
    struct iovec parts[] = {
        {.iov_base = (void *)(uintptr_t)name, .iov_len = strlen(name)},
        {.iov_base = (void *)(uintptr_t)line, .iov_len = strlen(line)},
        {.iov_base = newline, .iov_len = 1},
    };
    ssize_t written;

    (void)context;
    written = writev(STDERR_FILENO, parts, HV_ARRAY_LEN(parts));
    /* A log that cannot be written is lost; nobody waits for it. */
    (void)written;
}

/* Set at start-up, before the second thread. */
static struct {
    hv_log_sink *sink;
    void *context;
    enum hv_log_level most;
} log_target = {.sink = write_stderr, .most = HV_LOG_LEVEL_WARNING};

void hv_log_set_sink(hv_log_sink *sink, void *context, enum hv_log_level most)
{
    log_target.sink = sink ? sink : write_stderr;
    log_target.context = context;
    log_target.most = most;
}

static void log_args(enum hv_log_level level, const char *format, va_list args) HV_PRINTF(2, 0);

static void log_args(enum hv_log_level level, const char *format, va_list args)
{
    char line[HV_LOG_LINE_MAX];

    if (level <= log_target.most) {
        hv_format_args(line, sizeof(line), format, args);
        log_target.sink(log_target.context, level, line);
    }
}

void hv_log(enum hv_log_level level, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    log_args(level, format, args);
    va_end(args);
}

#define WINDOW_COUNT_BITS 8
#define WINDOW_COUNT_MASK ((UINT64_C(1) << WINDOW_COUNT_BITS) - 1)

HV_STATIC_ASSERT(HV_LOG_GUEST_LINES < WINDOW_COUNT_MASK, "a full window must be countable");

/*
 * Take one of the present second's lines; false when all are gone. Second and count change in one
 * exchange, so that no two threads can both open a window. @opened_out: this line is its first.
 */
static bool take_line(struct hv_log_limit *limit, hv_ns now, bool *opened_out)
{
    uint64_t present = now.v / HV_NS_PER_S;
    uint64_t old = atomic_load_explicit(&limit->window, memory_order_relaxed);
    uint64_t new;

    do {
        *opened_out = present > old >> WINDOW_COUNT_BITS;
        if (*opened_out) {
            new = present << WINDOW_COUNT_BITS | 1;
        } else if ((old & WINDOW_COUNT_MASK) < HV_LOG_GUEST_LINES) {
            new = old + 1;
        } else {
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(&limit->window, &old, new, memory_order_relaxed,
                                                    memory_order_relaxed));
    return true;
}

void hv_log_guest(struct hv_log_limit *limit, hv_ns now, enum hv_log_level level,
                  const char *format, ...)
{
    uint64_t suppressed;
    va_list args;
    bool opened;

    if (!take_line(limit, now, &opened)) {
        goto suppress;
    }
    suppressed = atomic_load_explicit(&limit->suppressed, memory_order_relaxed);
    if (opened && suppressed > 0) {
        hv_log(level, "%" PRIu64 " lines of this machine were left out so far", suppressed);
        if (!take_line(limit, now, &opened)) {
            goto suppress;
        }
    }
    va_start(args, format);
    log_args(level, format, args);
    va_end(args);
    return;

suppress:
    atomic_fetch_add_explicit(&limit->suppressed, 1, memory_order_relaxed);
}

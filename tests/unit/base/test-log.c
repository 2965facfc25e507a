/* SPDX-License-Identifier: GPL-3.0-or-later */
/* base/log: levels, the cut, and the bound on what a guest can make it write. */
#include "base/log.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "lib/tap.h"

static struct {
    _Atomic unsigned lines;
    enum hv_log_level level;
    char last[HV_LOG_LINE_MAX];
} seen;

static void remember(void *context, enum hv_log_level level, const char *line)
{
    (void)context;
    seen.lines++;
    seen.level = level;
    strcpy(seen.last, line);
}

static void count_only(void *context, enum hv_log_level level, const char *line)
{
    (void)context;
    (void)level;
    (void)line;
    seen.lines++;
}

static void start(hv_log_sink *sink)
{
    seen.lines = 0;
    hv_log_set_sink(sink, NULL, HV_LOG_LEVEL_INFO);
}

static void test_levels(void)
{
    start(remember);
    hv_log(HV_LOG_LEVEL_INFO, "vCPU %d starts", 3);
    TAP_EQ(seen.lines, 1);
    TAP_EQ(seen.level, HV_LOG_LEVEL_INFO);
    TAP_STR(seen.last, "vCPU 3 starts");
    hv_log(HV_LOG_LEVEL_DEBUG, "not wanted");
    TAP_EQ(seen.lines, 1);
}

static void test_long_line(void)
{
    char text[2 * HV_LOG_LINE_MAX];

    memset(text, 'y', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    start(remember);
    hv_log(HV_LOG_LEVEL_ERROR, "%s", text);
    TAP_EQ(strlen(seen.last), HV_LOG_LINE_MAX - 1);
}

static void log_and_die(void)
{
    hv_log_set_sink(NULL, NULL, HV_LOG_LEVEL_WARNING);
    hv_log(HV_LOG_LEVEL_INFO, "unseen");
    hv_log(HV_LOG_LEVEL_WARNING, "seen %d", 1);
    abort();
}

static void test_default_sink(void)
{
    TAP_DIES(log_and_die, SIGABRT, "warning: seen 1\n");
}

static void log_many(struct hv_log_limit *limit, uint64_t now, unsigned lines)
{
    for (unsigned i = 0; i < lines; i++) {
        hv_log_guest(limit, (hv_ns){now}, HV_LOG_LEVEL_INFO, "line %u", i);
    }
}

static void test_guest_limit(void)
{
    struct hv_log_limit limit = {0};

    start(remember);
    log_many(&limit, 0, 25);
    TAP_EQ(seen.lines, 10);
    TAP_STR(seen.last, "line 9");
    TAP_EQ(limit.suppressed, 15);

    /* A moment from before the window, as another thread's late reading may be, opens none. */
    log_many(&limit, 2 * HV_NS_PER_S, 5);
    log_many(&limit, HV_NS_PER_S, 25);
    /* The note of what was left out is one of the ten. */
    TAP_EQ(seen.lines, 20);
    TAP_EQ(limit.suppressed, 15 + 30 - 9);

    log_many(&limit, 3 * HV_NS_PER_S, 1);
    TAP_EQ(seen.lines, 22);
    TAP_STR(seen.last, "line 0");
}

static void test_limits_apart(void)
{
    struct hv_log_limit a = {0};
    struct hv_log_limit b = {0};

    start(remember);
    log_many(&a, 0, 100);
    log_many(&b, 0, 3);
    TAP_EQ(seen.lines, 13);
    TAP_EQ(b.suppressed, 0);
}

static void *log_three_seconds(void *limit)
{
    for (uint64_t now = 0; now < 3; now++) {
        log_many(limit, now * HV_NS_PER_S, 500);
    }
    return NULL;
}

static void test_threads(void)
{
    struct hv_log_limit limit = {0};
    pthread_t threads[4];

    start(count_only);
    for (size_t i = 0; i < HV_ARRAY_LEN(threads); i++) {
        TAP_EQ(pthread_create(&threads[i], NULL, log_three_seconds, &limit), 0);
    }
    for (size_t i = 0; i < HV_ARRAY_LEN(threads); i++) {
        TAP_EQ(pthread_join(threads[i], NULL), 0);
    }
    /* Three full seconds, and never more: a window opens once however many threads meet it. */
    TAP_EQ(seen.lines, 30);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"base.log.levels", test_levels},
        {"base.log.long-line", test_long_line},
        {"base.log.default-sink", test_default_sink},
        {"base.log.guest-limit", test_guest_limit},
        {"base.log.limits-apart", test_limits_apart},
        {"base.log.threads", test_threads},
    };
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

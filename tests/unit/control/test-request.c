/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What a request must be before anything of it is believed. */
#include "control/request.h"

#include "lib/tap.h"

#include <string.h>

#include <hv/stat-pages.h>

static struct hv_op_request request;
static const char *why;

/* A good one of each operation. Returns the length of its body; 0: it is none. */
static size_t make(enum hv_op op)
{
    static const size_t bytes[HV_OPS] = {
        [HV_OP_HELLO] = sizeof(struct hv_op_hello),
        [HV_OP_LIST] = sizeof(struct hv_op_after),
        [HV_OP_STATS] = sizeof(struct hv_op_stats),
        [HV_OP_EXPORT] = sizeof(struct hv_op_export),
        [HV_OP_SAMPLING] = sizeof(struct hv_op_sampling),
        [HV_OP_CREATE] = sizeof(struct hv_op_create),
        [HV_OP_SET_BOOT] = sizeof(struct hv_op_set_boot),
        [HV_OP_COPY] = sizeof(struct hv_op_copy),
        [HV_OP_SET_SCHED] = sizeof(struct hv_op_set_sched),
        [HV_OP_SET_TICK] = sizeof(struct hv_op_set_tick),
        [HV_OP_CONSOLE_IN] = offsetof(struct hv_op_console, data) + 5,
        [HV_OP_ACCEPT] = sizeof(struct hv_op_accept),
        [HV_OP_NMI] = sizeof(struct hv_op_domain),
    };
    size_t length = bytes[op];

    if (length == 0 && op >= HV_OP_GET && op <= HV_OP_ATTACH) {
        length = sizeof(struct hv_op_domain);
    }
    memset(&request, 0, sizeof(request));
    request.header.op = op;
    request.header.serial = 7;
    request.header.bytes = (uint32_t)(sizeof(request.header) + length);
    if (op == HV_OP_HELLO) {
        request.body.hello = (struct hv_op_hello){HV_OP_MAGIC, HV_OP_VERSION, 1};
    } else if (op == HV_OP_STATS) {
        request.body.stats.kind = HV_STAT_PAGES_CORE;
    } else if (op == HV_OP_CONSOLE_IN) {
        request.body.console.bytes = 5;
    }
    return length;
}

static enum hv_request_verdict check(void)
{
    return hv_request_check(&request, request.header.bytes, &why);
}

/* Cores that run are asked by later programs: no number is ever another's. */
static void test_numbers(void)
{
    static const enum hv_op of_version_1[] = {
        HV_OP_HELLO,     HV_OP_LIST,       HV_OP_STATS,    HV_OP_SAMPLING, HV_OP_CREATE,
        HV_OP_GET,       HV_OP_KEEP,       HV_OP_UNPAUSE,  HV_OP_PAUSE,    HV_OP_RESET,
        HV_OP_POWER,     HV_OP_KILL,       HV_OP_STATUS,   HV_OP_SET_BOOT, HV_OP_COPY,
        HV_OP_SET_SCHED, HV_OP_GET_SCHED,  HV_OP_SET_TICK, HV_OP_CRASH,    HV_OP_TEARDOWN,
        HV_OP_HOLDS,     HV_OP_CONSOLE_IN, HV_OP_ATTACH,   HV_OP_ACCEPT,   HV_OP_STATE,
        HV_OP_CONSOLE,   HV_OP_NMI,        HV_OP_EXPORT,
    };

    TAP_EQ(HV_OP_VERSION, 1u);
    for (unsigned i = 0; i < HV_ARRAY_LEN(of_version_1); i++) {
        TAP_EQ(of_version_1[i], i + 1);
    }
}

/* Whatever its length is said to be, and is: only its own is taken. */
static void test_lengths(void)
{
    for (unsigned op = 0; op < HV_OPS; op++) {
        size_t whole = sizeof(request.header) + make((enum hv_op)op);

        for (size_t bytes = 0; bytes <= sizeof(request) + 8; bytes++) {
            bool good = bytes == whole && whole > sizeof(request.header);
            enum hv_request_verdict want = HV_REQUEST_WRONG;

            request.header.bytes = (uint32_t)bytes;
            if (bytes < sizeof(request.header) || bytes > sizeof(request)) {
                want = HV_REQUEST_BROKEN;
            } else if (good) {
                want = HV_REQUEST_GOOD;
            }
            if (hv_request_check(&request, bytes, &why) != want) {
                tap_fail(__FILE__, __LINE__, "operation %u of %zu bytes: not %d", op, bytes, want);
                return;
            }
            TAP_EQ(hv_request_check(&request, bytes + 1, &why), HV_REQUEST_BROKEN);
        }
    }
    make(HV_OP_LIST);
    request.header.op = HV_OPS;
    TAP_EQ(check(), HV_REQUEST_WRONG);
    request.header.op = UINT32_MAX;
    TAP_EQ(check(), HV_REQUEST_WRONG);
}

static void test_console_length(void)
{
    make(HV_OP_CONSOLE_IN);
    /* As much as there may be, and one byte that would lie behind the message. */
    request.body.console.bytes = HV_OP_CONSOLE_BYTES;
    request.header.bytes = sizeof(request.header) + sizeof(struct hv_op_console);
    TAP_EQ(check(), HV_REQUEST_GOOD);
    request.body.console.bytes = HV_OP_CONSOLE_BYTES + 1;
    TAP_EQ(check(), HV_REQUEST_WRONG);
    make(HV_OP_CONSOLE_IN);
    request.body.console.bytes = 0;
    request.header.bytes -= 5;
    TAP_EQ(check(), HV_REQUEST_WRONG);
}

#define WRONG(op, change)                              \
    do {                                               \
        make(op);                                      \
        TAP_EQ(check(), HV_REQUEST_GOOD);              \
        change;                                        \
        TAP_EQ(check(), HV_REQUEST_WRONG);             \
        TAP_OK(strlen(why) > 10 && strlen(why) < 128); \
    } while (0)

static void test_fields(void)
{
    WRONG(HV_OP_LIST, request.header.serial = 0);
    WRONG(HV_OP_LIST, request.header.result = -1);
    WRONG(HV_OP_LIST, request.header.reserved = 1);
    WRONG(HV_OP_HELLO, request.body.hello.magic++);
    WRONG(HV_OP_HELLO, request.body.hello.version++);
    WRONG(HV_OP_HELLO, request.body.hello.lease = 2);
    WRONG(HV_OP_STATS, request.body.stats.kind = HV_STAT_PAGES_FREE);
    WRONG(HV_OP_STATS, request.body.stats.kind = HV_STAT_PAGES_DOMAIN + 1);
    WRONG(HV_OP_STATS, request.body.stats.handle = 1);
    WRONG(HV_OP_STATS, request.body.stats.histograms = 1);
    make(HV_OP_STATS);
    request.body.stats = (struct hv_op_stats){HV_STAT_PAGES_LOCKS, 1, 0};
    TAP_EQ(check(), HV_REQUEST_GOOD);
    request.body.stats.histograms = 2;
    TAP_EQ(check(), HV_REQUEST_WRONG);
    WRONG(HV_OP_CREATE, request.body.create.console = 2);
    WRONG(HV_OP_CREATE, request.body.create.flags = 1u << 31);
    WRONG(HV_OP_CREATE, request.body.create.reserved = 1);
    WRONG(HV_OP_SET_BOOT, request.body.set_boot.long_mode = 2);
    WRONG(HV_OP_SET_TICK, request.body.set_tick.source = HV_VPT_SOURCES);
    WRONG(HV_OP_SET_TICK, request.body.set_tick.kind = HV_TICK_POLICIES);
    WRONG(HV_OP_SET_TICK, request.body.set_tick.reserved = 1);
    WRONG(HV_OP_CONSOLE_IN, request.body.console.position = 1);
    WRONG(HV_OP_CONSOLE_IN, request.body.console.reserved = 1);
    WRONG(HV_OP_COPY, request.body.copy.direction = HV_COPY_TO_GUEST + 1);
    WRONG(HV_OP_COPY, request.body.copy.reserved = 1);
}

/* A name without an end, and one with something behind it. */
static void test_texts(void)
{
    WRONG(HV_OP_CREATE, memset(request.body.create.name, 'n', 64));
    WRONG(HV_OP_CREATE, request.body.create.name[63] = 'n');
    WRONG(HV_OP_CREATE, memset(request.body.create.engine, 'e', 16));
    WRONG(HV_OP_CREATE, request.body.create.engine[2] = 'e');
    WRONG(HV_OP_EXPORT, request.body.export.reserved = 1);
    WRONG(HV_OP_SAMPLING, memset(request.body.sampling.class_name, 'c', 60));
    make(HV_OP_CREATE);
    memset(request.body.create.name, 'n', 63);
    TAP_EQ(check(), HV_REQUEST_GOOD);
}

static void test_staging(void)
{
    static const struct {
        uint64_t at, bytes;
        bool good;
    } copies[] = {
        {0, 0, true},
        {0, HV_OP_STAGING_BYTES, true},
        {HV_OP_STAGING_BYTES, 0, true},
        {HV_OP_STAGING_BYTES - 1, 1, true},
        {0, HV_OP_STAGING_BYTES + 1, false},
        {HV_OP_STAGING_BYTES, 1, false},
        {1, HV_OP_STAGING_BYTES, false},
        {UINT32_MAX, 1, false},
        {1, UINT32_MAX, false},
        {UINT32_MAX, UINT32_MAX, false},
    };

    for (size_t i = 0; i < HV_ARRAY_LEN(copies); i++) {
        make(HV_OP_COPY);
        request.body.copy.staging = (uint32_t)copies[i].at;
        request.body.copy.bytes = (uint32_t)copies[i].bytes;
        TAP_EQ(check(), copies[i].good ? HV_REQUEST_GOOD : HV_REQUEST_WRONG);
    }
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"control.request.numbers", test_numbers},
        {"control.request.lengths", test_lengths},
        {"control.request.console-length", test_console_length},
        {"control.request.fields", test_fields},
        {"control.request.texts", test_texts},
        {"control.request.staging", test_staging},
    };
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

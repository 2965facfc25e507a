/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A controller's packet under libFuzzer: what is found good is what hv/op.h promises of it. */
#include "control/request.h"

#include <stdio.h>
#include <string.h>

#include <hv/stat-pages.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void want(bool condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "found good, and yet not so: %s\n", what);
        __builtin_trap();
    }
}

static bool ends(const char *text, size_t room)
{
    size_t length = strnlen(text, room);

    for (size_t i = length; i < room; i++) {
        if (text[i] != '\0') {
            return false;
        }
    }
    return length < room;
}

static void look_at_domain(const struct hv_op_request *request)
{
    const struct hv_op_create *create = &request->body.create;
    const struct hv_op_copy *copy = &request->body.copy;
    const struct hv_op_console *console = &request->body.console;
    const struct hv_op_set_tick *tick = &request->body.set_tick;

    switch ((enum hv_op)request->header.op) {
    case HV_OP_CREATE:
        want(ends(create->name, sizeof(create->name)), "the name ends");
        want(ends(create->engine, sizeof(create->engine)), "the engine's name ends");
        want(create->console <= 1 && create->flags < 8 && create->reserved == 0, "flags are flags");
        break;
    case HV_OP_COPY:
        want((uint64_t)copy->staging + copy->bytes <= HV_OP_STAGING_BYTES, "it is staged");
        want(copy->direction <= HV_COPY_TO_GUEST && copy->reserved == 0, "it has a direction");
        break;
    case HV_OP_CONSOLE_IN:
        want(console->bytes > 0 && console->bytes <= HV_OP_CONSOLE_BYTES, "there are bytes");
        want(request->header.bytes ==
                 sizeof(request->header) + offsetof(struct hv_op_console, data) + console->bytes,
             "all of them are there");
        break;
    case HV_OP_SET_TICK:
        want(tick->source < HV_VPT_SOURCES && tick->kind < HV_TICK_POLICIES, "a timer's policy");
        break;
    case HV_OP_SET_BOOT:
        want(request->body.set_boot.long_mode <= 1, "a mode is one of two");
        break;
    default:
        break;
    }
}

static void look_at_core(const struct hv_op_request *request)
{
    const struct hv_op_sampling *sampling = &request->body.sampling;
    const struct hv_op_hello *hello = &request->body.hello;
    const struct hv_op_stats *stats = &request->body.stats;

    switch ((enum hv_op)request->header.op) {
    case HV_OP_HELLO:
        want(hello->magic == HV_OP_MAGIC && hello->version == HV_OP_VERSION && hello->lease <= 1,
             "it speaks this version");
        break;
    case HV_OP_STATS:
        want(stats->kind > HV_STAT_PAGES_FREE && stats->kind <= HV_STAT_PAGES_DOMAIN,
             "there are such statistics");
        break;
    case HV_OP_SAMPLING:
        want(ends(sampling->class_name, sizeof(sampling->class_name)), "the class's name ends");
        break;
    default:
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hv_op_request request;
    const char *why;
    enum hv_request_verdict verdict;

    /* What recvmsg() leaves behind a short packet is not the packet's. */
    memset(&request, 0xa5, sizeof(request));
    memcpy(&request, data, size < sizeof(request) ? size : sizeof(request));
    verdict = hv_request_check(&request, size, &why);
    if ((verdict == HV_REQUEST_GOOD) != (*why == '\0')) {
        __builtin_trap();
    }
    if (verdict != HV_REQUEST_GOOD) {
        return 0;
    }
    want(size == request.header.bytes && size <= sizeof(request), "it has its length");
    want(request.header.serial != 0 && request.header.result == 0 && request.header.reserved == 0,
         "it is a request");
    want(request.header.op >= HV_OP_HELLO && request.header.op <= HV_OP_ACCEPT,
         "there is such one");
    look_at_core(&request);
    look_at_domain(&request);
    return 0;
}

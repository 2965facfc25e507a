/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A table of operations: the length of each, and what else is to be looked at. */
#include "control/request.h"

#include <hv/stat-pages.h>

struct shape {
    uint32_t bytes; /* of the body; of a console's, without its data. 0: no request */
    const char *(*check)(const struct hv_op_request *request); /* NULL, or what is wrong */
};

static const char reserved[] = "what is reserved is not 0";

/* Zero from its end on, which it has. */
static bool is_text(const char *text, size_t room)
{
    size_t length = 0;

    while (length < room && text[length] != '\0') {
        length++;
    }
    for (size_t i = length; i < room; i++) {
        if (text[i] != '\0') {
            return false;
        }
    }
    return length < room;
}

static const char *check_hello(const struct hv_op_request *request)
{
    const struct hv_op_hello *hello = &request->body.hello;

    if (hello->magic != HV_OP_MAGIC) {
        return "HELLO has another magic number";
    }
    if (hello->version != HV_OP_VERSION) {
        HV_STATIC_ASSERT(HV_OP_VERSION == 1, "the sentence names it");
        return "HELLO asks for another version than this core's, which is 1";
    }
    return hello->lease <= 1 ? NULL : "a lease is wanted or not, 1 or 0";
}

static const char *check_stats(const struct hv_op_request *request)
{
    const struct hv_op_stats *stats = &request->body.stats;

    if (stats->kind == HV_STAT_PAGES_FREE || stats->kind > HV_STAT_PAGES_DOMAIN) {
        return "there is no such kind of statistics";
    }
    if (stats->histograms > (stats->kind == HV_STAT_PAGES_LOCKS)) {
        return "distributions are of locks: 1, or 0";
    }
    return stats->kind == HV_STAT_PAGES_DOMAIN || stats->handle == 0 ? NULL : reserved;
}

static const char *check_export(const struct hv_op_request *request)
{
    return request->body.export.reserved == 0 ? NULL : reserved;
}

static const char *check_sampling(const struct hv_op_request *request)
{
    const struct hv_op_sampling *sampling = &request->body.sampling;

    return is_text(sampling->class_name, sizeof(sampling->class_name))
               ? NULL
               : "the name of the locks' class is no text";
}

static const char *check_create(const struct hv_op_request *request)
{
    const struct hv_op_create *create = &request->body.create;

    if (!is_text(create->name, sizeof(create->name))) {
        return "the machine's name is no text of at most 63 bytes";
    }
    if (!is_text(create->engine, sizeof(create->engine))) {
        return "the engine's name is no text of at most 15 bytes";
    }
    if (create->flags &
        ~(uint32_t)(HV_DOMAIN_TESTDEV | HV_DOMAIN_FORCE_IO_EXIT | HV_DOMAIN_TRACE_BLOCKS)) {
        return "a flag of the machine is none of those that there are";
    }
    if (create->console > 1) {
        return "a console is wanted or not, 1 or 0";
    }
    return create->reserved == 0 ? NULL : reserved;
}

static const char *check_set_boot(const struct hv_op_request *request)
{
    return request->body.set_boot.long_mode <= 1 ? NULL : "long mode is on or off, 1 or 0";
}

static const char *check_copy(const struct hv_op_request *request)
{
    const struct hv_op_copy *copy = &request->body.copy;

    if (copy->direction != HV_COPY_FROM_GUEST && copy->direction != HV_COPY_TO_GUEST) {
        return "a copy goes from the guest, or to it";
    }
    if (copy->bytes > HV_OP_STAGING_BYTES || copy->staging > HV_OP_STAGING_BYTES - copy->bytes) {
        return "the copy does not lie in the staging area";
    }
    return copy->reserved == 0 ? NULL : reserved;
}

static const char *check_set_tick(const struct hv_op_request *request)
{
    const struct hv_op_set_tick *tick = &request->body.set_tick;

    if (tick->source >= HV_VPT_SOURCES) {
        return "there is no such timer";
    }
    if (tick->kind >= HV_TICK_POLICIES) {
        return "there is no such tick policy";
    }
    return tick->reserved == 0 ? NULL : reserved;
}

static const char *check_console(const struct hv_op_request *request)
{
    const struct hv_op_console *console = &request->body.console;

    if (console->bytes == 0) {
        return "no bytes are put in";
    }
    return console->position == 0 && console->reserved == 0 ? NULL : reserved;
}

#define DOMAIN_SHAPE                   \
    {                                  \
        sizeof(struct hv_op_domain), 0 \
    }

static const struct shape shapes[HV_OPS] = {
    [HV_OP_HELLO] = {sizeof(struct hv_op_hello), check_hello},
    [HV_OP_LIST] = {sizeof(struct hv_op_after), NULL},
    [HV_OP_STATS] = {sizeof(struct hv_op_stats), check_stats},
    [HV_OP_EXPORT] = {sizeof(struct hv_op_export), check_export},
    [HV_OP_SAMPLING] = {sizeof(struct hv_op_sampling), check_sampling},
    [HV_OP_CREATE] = {sizeof(struct hv_op_create), check_create},
    [HV_OP_GET] = DOMAIN_SHAPE,
    [HV_OP_KEEP] = DOMAIN_SHAPE,
    [HV_OP_UNPAUSE] = DOMAIN_SHAPE,
    [HV_OP_PAUSE] = DOMAIN_SHAPE,
    [HV_OP_RESET] = DOMAIN_SHAPE,
    [HV_OP_POWER] = DOMAIN_SHAPE,
    [HV_OP_KILL] = DOMAIN_SHAPE,
    [HV_OP_STATUS] = DOMAIN_SHAPE,
    [HV_OP_SET_BOOT] = {sizeof(struct hv_op_set_boot), check_set_boot},
    [HV_OP_COPY] = {sizeof(struct hv_op_copy), check_copy},
    [HV_OP_SET_SCHED] = {sizeof(struct hv_op_set_sched), NULL},
    [HV_OP_GET_SCHED] = DOMAIN_SHAPE,
    [HV_OP_SET_TICK] = {sizeof(struct hv_op_set_tick), check_set_tick},
    [HV_OP_CRASH] = DOMAIN_SHAPE,
    [HV_OP_TEARDOWN] = DOMAIN_SHAPE,
    [HV_OP_HOLDS] = DOMAIN_SHAPE,
    [HV_OP_CONSOLE_IN] = {offsetof(struct hv_op_console, data), check_console},
    [HV_OP_ATTACH] = DOMAIN_SHAPE,
    [HV_OP_ACCEPT] = {sizeof(struct hv_op_accept), NULL},
    [HV_OP_NMI] = DOMAIN_SHAPE,
};

/* Of the whole message, whose header and fixed part are there. */
static uint64_t whole_bytes(const struct hv_op_request *request, uint64_t fixed)
{
    return request->header.op == HV_OP_CONSOLE_IN ? fixed + request->body.console.bytes : fixed;
}

static const char *find_fault(const struct hv_op_request *request, size_t bytes)
{
    const struct hv_op_header *header = &request->header;
    uint64_t fixed;

    if (header->op >= HV_OPS || shapes[header->op].bytes == 0) {
        return "there is no such operation";
    }
    fixed = sizeof(*header) + shapes[header->op].bytes;
    if (bytes < fixed || bytes != whole_bytes(request, fixed)) {
        return "the message is not as long as its operation's";
    }
    if (header->serial == 0 || header->result != 0 || header->reserved != 0) {
        return "a request has a serial number, no result, and nothing in what is reserved";
    }
    return shapes[header->op].check ? shapes[header->op].check(request) : NULL;
}

enum hv_request_verdict hv_request_check(const struct hv_op_request *request, size_t bytes,
                                         const char **why_out)
{
    const char *fault;

    *why_out = "";
    if (bytes < sizeof(request->header) || bytes > sizeof(*request) ||
        bytes != request->header.bytes) {
        *why_out = "the message has no whole header, or another length than that says";
        return HV_REQUEST_BROKEN;
    }
    fault = find_fault(request, bytes);
    *why_out = fault ? fault : "";
    return fault ? HV_REQUEST_WRONG : HV_REQUEST_GOOD;
}

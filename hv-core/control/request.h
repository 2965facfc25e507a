/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Reading requests (hv/op.h) that nobody has looked at yet: everything that can be said of a message by
 * itself is said here, before anything of it is believed. What depends on the machine is its
 * operation's business.
 *
 * Pure functions of their arguments: the fuzz target's.
 */
#pragma once

#include <hv/op.h>

enum hv_request_verdict {
    HV_REQUEST_GOOD,
    HV_REQUEST_WRONG,  /* answered by -EPROTO and the reason */
    HV_REQUEST_BROKEN, /* no header to answer to: the connection ends */
};

/**
 * Look at a packet.
 *
 * @bytes    as received; of it at most sizeof(struct hv_op_request) stand in @request.
 * @why_out  a literal; "" when good.
 *
 * Good means: the operation is one of a controller's, the length is its own, texts end within their
 * room with nothing behind them, enumerations and flags have no other values than they may,
 * `reserved` is 0, and what is copied lies in the staging area.
 */
enum hv_request_verdict hv_request_check(const struct hv_op_request *request, size_t bytes,
                                         const char **why_out);

/** Whether the operation is answered at all. */
static inline bool hv_request_is_answered(const struct hv_op_request *request)
{
    return request->header.op != HV_OP_ACCEPT;
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Doing what a request asks for. HELLO is the server's. */
#pragma once

#include "control/roster.h"

#include <hv/op.h>

/* What requests of one lease work on. */
struct hv_operation_site {
    struct hv_core *core;     /* borrowed */
    struct hv_roster *roster; /* borrowed */
    uint8_t *staging;         /* HV_OP_STAGING_BYTES, which the controller has mapped as well */
};

/**
 * Do it.
 *
 * @request     found good (control/request.h), and nobody else's to change.
 * @answer_out  the whole message.
 * @fd_out      goes with it, and is the caller's to close; -1: none.
 *
 * Context: a thread of its own: may wait for vCPUs to leave the guest. No lock held.
 */
void hv_operation_run(const struct hv_operation_site *site, const struct hv_op_request *request,
                      struct hv_op_answer *answer_out, int *fd_out);

/** Answer @request by a negative errno, and a sentence (may be NULL). */
void hv_operation_refuse(const struct hv_op_request *request, int result, const char *why,
                         struct hv_op_answer *answer_out);

/** Begin an answer with a body of @bytes, which the caller fills. */
void hv_operation_accept(const struct hv_op_request *request, size_t bytes,
                         struct hv_op_answer *answer_out);

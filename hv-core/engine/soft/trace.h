/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Where a vCPU was when it crashed. */
#pragma once

#include "engine/soft/uop.h"

/** The newest blocks that the run loop started, and the bytes at RIP as far as they can be read. The
 * vCPU does not run; nothing of its state changes, accessed bits included. */
void soft_trace_get(struct hv_engine_vcpu *vcpu, struct hv_engine_trace *trace_out);

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The run loop of one vCPU. */
#pragma once

#include "engine/soft/uop.h"

/** See hv_engine_run(). */
void soft_run(struct hv_engine_vcpu *vcpu, hv_ns deadline, uint64_t insn_budget,
              struct hv_exit *exit_out);

/** Serve FLUSH, EPOCH and CODE. OUTSIDE, or at a block's edge. */
void soft_run_serve(struct hv_engine_vcpu *vcpu, uint32_t requests);

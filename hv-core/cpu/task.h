/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Task switches, as transfer.h's hv_transfer_task() with what only event delivery knows. Private to
 * cpu/. */
#pragma once

#include "cpu/transfer.h"

struct hv_task_switch {
    uint16_t selector; /* of the TSS */
    enum hv_task_cause cause;
    uint64_t old_rip;
    uint64_t old_flags; /* as saved in the old TSS */
    bool has_error;
    uint32_t error;
    uint32_t ext;
};

/** As hv_transfer_task(): early faults leave all as it was, later ones are the new task's. */
HV_MUST_CHECK int hv_task_switch(struct hv_cpu *cpu, const struct hv_access *access,
                                 const struct hv_task_switch *task, struct hv_fault *fault_out);

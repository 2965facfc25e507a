/* SPDX-License-Identifier: GPL-3.0-or-later */
/* How the bodies of cpu/ raise a guest's exception: `return hv_fault_code(fault_out, …)`. */
#pragma once

#include "cpu/state.h"

/** An exception with an error code. */
static inline int hv_fault_code(struct hv_fault *fault_out, enum hv_vector vector, uint32_t error)
{
    *fault_out = (struct hv_fault){.vector = (uint8_t)vector, .has_error = true, .error = error};
    return HV_FAULTED;
}

/** An exception without one. */
static inline int hv_fault_plain(struct hv_fault *fault_out, enum hv_vector vector)
{
    *fault_out = (struct hv_fault){.vector = (uint8_t)vector};
    return HV_FAULTED;
}

static inline int hv_fault_gp0(struct hv_fault *fault_out)
{
    return hv_fault_code(fault_out, HV_VECTOR_GP, 0);
}

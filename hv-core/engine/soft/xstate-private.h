/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the files of the extended-state instructions share. See soft_xstate_insn() in thunk.h. */
#pragma once

#include "engine/soft/access-private.h"
#include "engine/soft/thunk-private.h"

/* x87 part of FXSAVE's image, before the vector registers. */
#define SOFT_X_X87_BYTES SOFT_X_XMM

/** XMM and YMM registers that exist in the present mode. */
static inline unsigned soft_x_registers(const struct hv_cpu *cpu)
{
    return hv_cpu_code64(cpu) ? 16 : 8;
}

/**
 * Write the x87 part of FXSAVE's image (SOFT_X_X87_BYTES) but MXCSR, which is left as it stands.
 *
 * @wide  instruction and data pointers of 64 bits (REX.W).
 */
void soft_x87_image_store(const struct hv_cpu *cpu, uint8_t *image, bool wide);

/** Take it over from @image into cpu->x; NULL is the initial state. MXCSR stays. */
void soft_x87_image_load(struct hv_cpu *cpu, const uint8_t *image, bool wide);

/** FNSTENV, FLDENV, FNSAVE, FRSTOR, FNINIT, EMMS, FWAIT: x87-env.c. -ENOTSUP for others. */
HV_MUST_CHECK int soft_x87_env_insn(struct hv_engine_vcpu *vcpu, const struct soft_insn *insn,
                                    uint64_t gva);

enum soft_xsave_form {
    SOFT_XSAVE,
    SOFT_XSAVEOPT,
    SOFT_XSAVEC, /* also XSAVES: there is no supervisor state */
};

/** @wide  REX.W: pointers of 64 bits. Results of both as soft_xstate_insn(). */
HV_MUST_CHECK int soft_xsave(struct hv_engine_vcpu *vcpu, enum soft_xsave_form form, bool wide,
                             uint64_t gva);

/** @supervisor  XRSTORS: the compacted format only. */
HV_MUST_CHECK int soft_xrstor(struct hv_engine_vcpu *vcpu, bool supervisor, bool wide,
                              uint64_t gva);

/** Components that are not in their initial state (XINUSE); call with x87 spilled, MXCSR synced. */
uint64_t soft_xinuse(const struct hv_cpu *cpu);

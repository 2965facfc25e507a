/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What a handler calls when the TLB has no answer: the same access through access.h, and what the
 * access's end means to the instruction. Results come back in registers, so that the fast path of
 * a handler keeps nothing in memory.
 */
#pragma once

#include "engine/soft/uop.h"

struct soft_cold {
    uint64_t value; /* what was loaded, or the host address to work on */
    int64_t rc;     /* 0, HV_FAULTED, negative errno */
};

/** Load; a non-canonical address through SS is #SS(0) (SDM 3A 6.15). */
HV_COLD struct soft_cold soft_cold_load(struct hv_engine_vcpu *vcpu, const struct soft_uop *uop,
                                        uint64_t gva, unsigned bytes);

/** Store. vcpu->leave_block says whether it hit code. */
HV_COLD int soft_cold_store(struct hv_engine_vcpu *vcpu, const struct soft_uop *uop, uint64_t gva,
                            unsigned bytes, uint64_t value);

/** Begin a read-modify-write, to be ended by soft_cold_commit() before flags or registers change. */
HV_COLD struct soft_cold soft_cold_modify(struct hv_engine_vcpu *vcpu, const struct soft_uop *uop,
                                          uint64_t gva, unsigned bytes);
HV_COLD int soft_cold_commit(struct hv_engine_vcpu *vcpu);

/** PUSH of a memory operand, and CALL through one (value: the target), whole: the operand may be a
 * device's, which is read once however often the push has to be tried. */
HV_COLD int soft_cold_push_memory(struct hv_engine_vcpu *vcpu, const struct soft_uop *uop,
                                  uint64_t gva, unsigned bytes);
HV_COLD struct soft_cold soft_cold_call_memory(struct hv_engine_vcpu *vcpu,
                                               const struct soft_uop *uop, uint64_t gva,
                                               unsigned bytes);

/** Linear address of @uop's operand where segments have limits, into SOFT_SLOT_EA. */
int soft_cold_address(struct hv_engine_vcpu *vcpu, const struct soft_uop *uop, uint64_t offset);

/** A thunk ended with @rc: the same for its operand. */
HV_COLD void soft_cold_thunk_fault(struct hv_engine_vcpu *vcpu, const struct soft_uop *uop, int rc);

/** Set vcpu->fault. Returns HV_FAULTED. */
int soft_insn_raise(struct hv_engine_vcpu *vcpu, enum hv_vector vector);
int soft_insn_raise_code(struct hv_engine_vcpu *vcpu, enum hv_vector vector, uint32_t error);

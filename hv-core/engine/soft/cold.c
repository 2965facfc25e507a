/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Slow paths of the interpreter's memory accesses, and faults. */
#include "engine/soft/cold.h"

#include "engine/soft/access.h"
#include "engine/soft/operand.h"

#include "cpu/segment.h"

int soft_insn_raise_code(struct hv_engine_vcpu *vcpu, enum hv_vector vector, uint32_t error)
{
    vcpu->fault = (struct hv_fault){.vector = (uint8_t)vector, .has_error = true, .error = error};
    return HV_FAULTED;
}

int soft_insn_raise(struct hv_engine_vcpu *vcpu, enum hv_vector vector)
{
    vcpu->fault = (struct hv_fault){.vector = (uint8_t)vector};
    return HV_FAULTED;
}

/* A single access is all that these instructions do with memory: once made, it is not to be
 * replayed. */
static int finish(struct hv_engine_vcpu *vcpu, const struct soft_uop *uop, int rc)
{
    if (!rc) {
        soft_insn_done(vcpu);
    }
    return uop->segment == SOFT_PLACE_SS ? soft_stack_result(vcpu, rc) : rc;
}

struct soft_cold soft_cold_load(struct hv_engine_vcpu *vcpu, const struct soft_uop *uop,
                                uint64_t gva, unsigned bytes)
{
    struct soft_cold cold = {0};

    cold.rc = finish(vcpu, uop, soft_read_slow(vcpu, gva, bytes, &cold.value));
    return cold;
}

int soft_cold_store(struct hv_engine_vcpu *vcpu, const struct soft_uop *uop, uint64_t gva,
                    unsigned bytes, uint64_t value)
{
    return finish(vcpu, uop, soft_write_slow(vcpu, gva, bytes, value));
}

struct soft_cold soft_cold_modify(struct hv_engine_vcpu *vcpu, const struct soft_uop *uop,
                                  uint64_t gva, unsigned bytes)
{
    struct soft_cold cold = {0};
    void *place = NULL;

    cold.rc = soft_rmw_begin(vcpu, gva, bytes, false, &place);
    if (uop->segment == SOFT_PLACE_SS) {
        cold.rc = soft_stack_result(vcpu, (int)cold.rc);
    }
    cold.value = (uint64_t)(uintptr_t)place;
    return cold;
}

int soft_cold_commit(struct hv_engine_vcpu *vcpu)
{
    return soft_rmw_commit(vcpu);
}

int soft_cold_push_memory(struct hv_engine_vcpu *vcpu, const struct soft_uop *uop, uint64_t gva,
                          unsigned bytes)
{
    struct hv_cpu *cpu = vcpu->cpu;
    uint64_t top = (cpu->slot[HV_REG_RSP] - bytes) & hv_bytes_mask(bytes);
    uint64_t value;
    int rc = soft_read_slow(vcpu, gva, bytes, &value);

    if (uop->segment == SOFT_PLACE_SS) {
        rc = soft_stack_result(vcpu, rc);
    }
    if (!rc) {
        rc = soft_stack_result(vcpu, soft_write_slow(vcpu, top, bytes, value));
    }
    if (!rc) {
        cpu->slot[HV_REG_RSP] = top;
    }
    return rc;
}

struct soft_cold soft_cold_call_memory(struct hv_engine_vcpu *vcpu, const struct soft_uop *uop,
                                       uint64_t gva, unsigned bytes)
{
    struct hv_cpu *cpu = vcpu->cpu;
    uint64_t top = (cpu->slot[HV_REG_RSP] - bytes) & hv_bytes_mask(bytes);
    struct soft_cold cold = {0};
    int rc = soft_read_slow(vcpu, gva, bytes, &cold.value);

    if (uop->segment == SOFT_PLACE_SS) {
        rc = soft_stack_result(vcpu, rc);
    }
    if (!rc && !hv_canonical(cold.value)) {
        rc = soft_insn_raise_code(vcpu, HV_VECTOR_GP, 0);
    }
    if (!rc) {
        rc =
            soft_stack_result(vcpu, soft_write_slow(vcpu, top, bytes, soft_uop_next_rip(cpu, uop)));
    }
    if (!rc) {
        cpu->slot[HV_REG_RSP] = top;
        soft_insn_done(vcpu);
    }
    cold.rc = rc;
    return cold;
}

/* Its #GP may be of alignment too, which stays #GP. */
void soft_cold_thunk_fault(struct hv_engine_vcpu *vcpu, const struct soft_uop *uop, int rc)
{
    if (rc == HV_FAULTED && vcpu->fault.vector == HV_VECTOR_GP && uop->segment == SOFT_PLACE_SS &&
        !hv_canonical(soft_ea_f(vcpu->cpu, uop))) {
        vcpu->fault.vector = HV_VECTOR_SS;
    }
}

/* dst, and src without SOFT_ADDRESS_WRITE as bits 14:8: bytes of the access; segment: of its base. */
int soft_cold_address(struct hv_engine_vcpu *vcpu, const struct soft_uop *uop, uint64_t offset)
{
    enum hv_seg seg = (enum hv_seg)(uop->segment / 8 - HV_SLOT_SEG_BASE);
    unsigned bytes = uop->dst | (unsigned)(uop->src & ~SOFT_ADDRESS_WRITE) << 8;
    bool write = uop->src & SOFT_ADDRESS_WRITE;
    hv_gva gva;
    int rc = hv_segment_linear(vcpu->cpu, seg, offset, bytes, write, &gva, &vcpu->fault);

    if (!rc) {
        vcpu->cpu->slot[SOFT_SLOT_EA] = gva.v;
    }
    return rc;
}

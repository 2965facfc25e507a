/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Entry to guest mode, and what others ask of a vCPU's TLB. */
#include "engine/soft/access-private.h"
#include "engine/soft/tlb-private.h"

uint32_t soft_enter(struct hv_engine_vcpu *vcpu)
{
    uint32_t standing = hv_doorbell_enter(vcpu->bell);

    /* Pairs with the store in soft_exclusive_begin(). */
    if (!standing && hv_load_seq(&vcpu->domain->exclusive.active)) {
        soft_exclusive_park(vcpu);
    }
    return standing;
}

void soft_serve(struct hv_engine_vcpu *vcpu, uint32_t requests)
{
    if (requests & HV_REQUEST_FLUSH) {
        soft_tlb_flush_holder(vcpu);
    }
    if (requests & HV_REQUEST_EPOCH) {
        soft_tlb_drop_writes(vcpu);
    }
    if (requests & HV_REQUEST_EXCLUSIVE) {
        soft_exclusive_park(vcpu);
    }
}

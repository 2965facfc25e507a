/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What a crash report shows of a vCPU; see trace.h. */
#include "engine/soft/trace.h"

#include "engine/soft/jump.h"

/* Paging structures through copies: the vCPU is OUTSIDE, where no host pointer is good. */
static int read_entry(void *context, hv_gpa gpa, unsigned bytes, uint64_t *value_out)
{
    struct hv_engine_vcpu *vcpu = context;

    *value_out = 0;
    if (hv_memory_copy(vcpu->memory, gpa, value_out, bytes, HV_COPY_FROM_GUEST)) {
        *value_out = hv_bytes_mask(bytes);
    }
    return 0;
}

static int leave_entry(void *context, hv_gpa gpa, unsigned bytes, uint64_t expected, uint64_t value,
                       bool *swapped_out)
{
    (void)context;
    (void)gpa;
    (void)bytes;
    (void)expected;
    (void)value;
    *swapped_out = true;
    return 0;
}

static const struct hv_walk_memory walk_copies = {.read = read_entry, .update = leave_entry};

static unsigned read_code(struct hv_engine_vcpu *vcpu, uint64_t linear, uint8_t *code,
                          unsigned most)
{
    unsigned bytes = 0;

    while (bytes < most) {
        uint64_t at = linear + bytes;
        uint64_t room = HV_PAGE_SIZE - (at & ~HV_PAGE_MASK);
        unsigned part = room < most - bytes ? (unsigned)room : most - bytes;
        struct hv_translation found;
        struct hv_fault fault;

        if (hv_walk(vcpu->cpu, &walk_copies, vcpu, (hv_gva){at}, HV_WALK_FETCH, HV_WALK_AS_CURRENT,
                    &found, &fault) ||
            hv_memory_copy(vcpu->memory, found.gpa, &code[bytes], part, HV_COPY_FROM_GUEST)) {
            break;
        }
        bytes += part;
    }
    return bytes;
}

void soft_trace_get(struct hv_engine_vcpu *vcpu, struct hv_engine_trace *trace_out)
{
    const struct soft_jump_cache *jumps = vcpu->jumps;
    const struct hv_cpu *cpu = vcpu->cpu;
    uint64_t traced = jumps->traced;
    unsigned count = traced < HV_ENGINE_TRACE_BLOCKS ? (unsigned)traced : HV_ENGINE_TRACE_BLOCKS;

    *trace_out = (struct hv_engine_trace){.count = count, .complete = vcpu->trace_blocks};
    for (unsigned i = 0; i < count; i++) {
        trace_out->block_rip[i] = jumps->trace_rip[(traced - count + i) % HV_ENGINE_TRACE_BLOCKS];
    }
    trace_out->code_bytes = read_code(vcpu, cpu->rip + cpu->slot[HV_SLOT_SEG_BASE + HV_SEG_CS],
                                      trace_out->code, sizeof(trace_out->code));
}

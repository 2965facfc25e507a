/* SPDX-License-Identifier: GPL-3.0-or-later */
/* See watch.h. */
#include "engine/soft/watch.h"

/* LEN of DR7: 1, 2, 8, 4 bytes; the address is taken as aligned to it. */
static uint64_t length_of(const struct hv_cpu *cpu, unsigned n)
{
    static const uint8_t lengths[] = {1, 2, 8, 4};

    return lengths[cpu->dr[7] >> (18 + 4 * n) & 3];
}

static bool meets(const struct hv_cpu *cpu, unsigned n, uint64_t at, unsigned bytes)
{
    uint64_t length = length_of(cpu, n);
    uint64_t start = cpu->dr[n] & ~(length - 1);

    return soft_breakpoint_enabled(cpu, n) && at < start + length && start < at + bytes;
}

void soft_watch_note(struct hv_engine_vcpu *vcpu, uint64_t gva, unsigned bytes,
                     enum soft_tlb_kind kind)
{
    const struct hv_cpu *cpu = vcpu->cpu;

    for (unsigned n = 0; n < SOFT_BREAKPOINTS; n++) {
        enum soft_breakpoint_kind on = soft_breakpoint_kind_of(cpu, n);

        if (meets(cpu, n, gva, bytes) &&
            (on == SOFT_BREAKPOINT_ACCESS ||
             (on == SOFT_BREAKPOINT_WRITE && kind == SOFT_TLB_WRITE))) {
            vcpu->watch_hits |= (uint8_t)HV_BIT(n);
        }
    }
}

void soft_watch_port_note(struct hv_engine_vcpu *vcpu, uint16_t port, unsigned bytes)
{
    const struct hv_cpu *cpu = vcpu->cpu;

    for (unsigned n = 0; n < SOFT_BREAKPOINTS; n++) {
        if (soft_breakpoint_kind_of(cpu, n) == SOFT_BREAKPOINT_PORT && meets(cpu, n, port, bytes)) {
            vcpu->watch_hits |= (uint8_t)HV_BIT(n);
        }
    }
}

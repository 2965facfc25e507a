/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the tests of segments, events and transfers compare: the CPU before and after, faults, and
 * what holds after anything cpu/ has done. */
#pragma once

#include "unit/cpu/flat-machine.h"

static inline void snapshot(void)
{
    memcpy(&before, &cpu, sizeof(cpu));
}

static inline bool unchanged(void)
{
    return memcmp(&before, &cpu, sizeof(cpu)) == 0;
}

static inline void copy_register(struct hv_table_register *out, const struct hv_table_register *in)
{
    memset(out, 0, sizeof(*out));
    out->base = in->base;
    out->limit = in->limit;
}

/* A copy without what the compiler leaves in padding when a struct is assigned. */
static inline void copy_bare(struct hv_cpu *out, const struct hv_cpu *in)
{
    memcpy(out, in, sizeof(*out));
    for (unsigned s = 0; s < HV_SEG_ALL; s++) {
        memset(&out->seg[s], 0, sizeof(out->seg[s]));
        out->seg[s].base = in->seg[s].base;
        out->seg[s].limit = in->seg[s].limit;
        out->seg[s].attr = in->seg[s].attr;
        out->seg[s].selector = in->seg[s].selector;
    }
    copy_register(&out->gdtr, &in->gdtr);
    copy_register(&out->idtr, &in->idtr);
}

static inline bool same_cpu(const struct hv_cpu *a, const struct hv_cpu *b)
{
    static struct hv_cpu bare[2];

    copy_bare(&bare[0], a);
    copy_bare(&bare[1], b);
    return memcmp(&bare[0], &bare[1], sizeof(bare[0])) == 0;
}

static inline bool same_segments(const struct hv_cpu *a, const struct hv_cpu *b)
{
    static struct hv_cpu bare[2];

    copy_bare(&bare[0], a);
    copy_bare(&bare[1], b);
    return memcmp(bare[0].seg, bare[1].seg, sizeof(bare[0].seg[0]) * HV_SEG_COUNT) == 0;
}

static inline bool faulted(int result, enum hv_vector vector, uint32_t error)
{
    bool good =
        result == HV_FAULTED && fault.vector == vector && fault.has_error && fault.error == error;

    if (!good) {
        tap_note("result %d, vector %u, error %#x", result, fault.vector, fault.error);
    }
    return good;
}

/* What holds after anything cpu/ has done. */
static inline bool machine_consistent(void)
{
    bool code64 = hv_cpu_code64(&cpu);

    for (unsigned s = 0; s < HV_SEG_COUNT; s++) {
        bool flat_base = code64 && s != HV_SEG_FS && s != HV_SEG_GS;

        if (cpu.slot[HV_SLOT_SEG_BASE + s] != (flat_base ? 0 : cpu.seg[s].base)) {
            return false;
        }
    }
    if (cpu.slot[HV_SLOT_ZERO] != 0 || !(hv_cpu_rflags(&cpu) & HV_RFLAGS_FIXED)) {
        return false;
    }
    if (!hv_cpu_protected(&cpu)) {
        return cpu.cpl == 0;
    }
    return hv_cpu_v86(&cpu) ? cpu.cpl == 3 : (cpu.seg[HV_SEG_CS].selector & 3u) == cpu.cpl;
}

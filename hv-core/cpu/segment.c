/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Segment registers as state, and the check of an access through one: the part that every memory
 * operand outside 64-bit mode goes through. Loads stand in segment-load.c. */
#include "cpu/segment.h"

/* In 64-bit mode only FS and GS have a base (SDM 3A 3.4.4). */
static bool base_counts(const struct hv_cpu *cpu, unsigned seg)
{
    return seg == HV_SEG_FS || seg == HV_SEG_GS || !hv_cpu_code64(cpu);
}

void hv_segment_sync_slots(struct hv_cpu *cpu)
{
    for (unsigned s = 0; s < HV_SEG_COUNT; s++) {
        cpu->slot[HV_SLOT_SEG_BASE + s] = base_counts(cpu, s) ? cpu->seg[s].base : 0;
    }
}

void hv_segment_set(struct hv_cpu *cpu, enum hv_seg seg, const struct hv_segment *value)
{
    cpu->seg[seg] = *value;
    if (seg == HV_SEG_CS) {
        hv_segment_sync_slots(cpu); /* CS.L decides about all of them */
    } else if (seg < HV_SEG_COUNT) {
        cpu->slot[HV_SLOT_SEG_BASE + seg] = base_counts(cpu, seg) ? value->base : 0;
    }
}

bool hv_segment_holds(const struct hv_segment *segment, uint64_t offset, unsigned bytes)
{
    uint64_t last = offset + bytes - 1;
    bool expand_down =
        (segment->attr & (HV_SEG_ATTR_S | HV_SEG_ATTR_CODE | HV_SEG_ATTR_EXPAND_DOWN)) ==
        (HV_SEG_ATTR_S | HV_SEG_ATTR_EXPAND_DOWN);

    if (segment->attr & HV_SEG_ATTR_UNUSABLE) {
        return false;
    }
    /* SDM 3A 5.3: of an expand-down segment the limit is the last offset NOT in it. */
    if (expand_down) {
        uint64_t top = (segment->attr & HV_SEG_ATTR_DB) ? UINT32_MAX : UINT16_MAX;

        return offset > segment->limit && last <= top;
    }
    return last <= segment->limit;
}

/* SDM 3A 5.5: type checks are protected mode's; real and virtual-8086 segments are all alike. */
static bool type_allows(const struct hv_cpu *cpu, const struct hv_segment *segment, bool write)
{
    if (!hv_cpu_protected(cpu) || hv_cpu_v86(cpu)) {
        return true;
    }
    if (segment->attr & HV_SEG_ATTR_CODE) {
        return !write && (segment->attr & HV_SEG_ATTR_WRITABLE);
    }
    return !write || (segment->attr & HV_SEG_ATTR_WRITABLE);
}

int hv_segment_linear(const struct hv_cpu *cpu, enum hv_seg seg, uint64_t offset, unsigned bytes,
                      bool write, hv_gva *gva_out, struct hv_fault *fault_out)
{
    const struct hv_segment *segment = &cpu->seg[seg];
    uint64_t linear = cpu->slot[HV_SLOT_SEG_BASE + seg] + offset;
    bool good;

    if (hv_cpu_code64(cpu)) {
        good = hv_canonical(linear) && hv_canonical(linear + bytes - 1);
    } else {
        linear = (uint32_t)linear;
        good = hv_segment_holds(segment, offset, bytes) && type_allows(cpu, segment, write);
    }
    if (!good) {
        *fault_out = (struct hv_fault){.vector = seg == HV_SEG_SS ? HV_VECTOR_SS : HV_VECTOR_GP,
                                       .has_error = true};
        return HV_FAULTED;
    }
    *gva_out = (hv_gva){linear};
    return 0;
}

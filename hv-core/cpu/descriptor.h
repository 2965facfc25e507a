/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Segment and gate descriptors: fetching them from the GDT or LDT, taking them apart, and the
 * checks that several instructions share. Private to cpu/.
 *
 *     63      56 55  52 51    48 47      40 39                    16 15            0
 *     base 31:24 G DB L  limit   P DPL S t  base 23:0                limit 15:0         segment
 *     offset 31:16               P DPL 0 t  …  selector (31:16)      offset 15:0        gate
 *
 * System descriptors of long mode have eight bytes more: bits 63:32 of base or offset.
 *
 * @ext, here and below, is bit 0 of the error codes: 1 when an event outside the program is being
 * delivered (SDM 3A 6.13). Source: SDM 3A 3.4.5, 3.5, 5.8, 7.2.
 */
#pragma once

#include "cpu/access.h"

enum hv_system_type {
    HV_SYSTEM_TSS16 = 0x1,
    HV_SYSTEM_LDT = 0x2,
    HV_SYSTEM_TSS16_BUSY = 0x3,
    HV_SYSTEM_CALL_GATE16 = 0x4,
    HV_SYSTEM_TASK_GATE = 0x5,
    HV_SYSTEM_INTERRUPT_GATE16 = 0x6,
    HV_SYSTEM_TRAP_GATE16 = 0x7,
    HV_SYSTEM_TSS = 0x9, /* 32-bit, or 64-bit in long mode */
    HV_SYSTEM_TSS_BUSY = 0xb,
    HV_SYSTEM_CALL_GATE = 0xc,
    HV_SYSTEM_INTERRUPT_GATE = 0xe,
    HV_SYSTEM_TRAP_GATE = 0xf,
};

struct hv_descriptor {
    uint64_t low;
    uint64_t high; /* the second half of a long-mode system descriptor, else 0 */
    hv_gva address;
};

struct hv_gate {
    uint16_t selector;
    uint64_t offset;
    uint8_t parameters; /* call gates: words or doublewords to copy */
    uint8_t ist;        /* interrupt gates of long mode */
};

static inline bool hv_selector_null(uint16_t selector)
{
    return selector < 4;
}

static inline unsigned hv_selector_rpl(uint16_t selector)
{
    return selector & 3u;
}

/** Error code that names @selector. */
static inline uint32_t hv_selector_error(uint16_t selector, uint32_t ext)
{
    return (selector & 0xfffcu) | ext;
}

/** Attributes as in enum hv_seg_attr. */
static inline uint32_t hv_descriptor_attr(const struct hv_descriptor *descriptor)
{
    return (uint32_t)(descriptor->low >> 40) & 0xf0ffu;
}

static inline unsigned hv_attr_dpl(uint32_t attr)
{
    return (attr >> HV_SEG_ATTR_DPL_SHIFT) & 3u;
}

static inline unsigned hv_attr_type(uint32_t attr)
{
    return attr & HV_SEG_ATTR_TYPE;
}

static inline bool hv_attr_is_code(uint32_t attr)
{
    return (attr & (HV_SEG_ATTR_S | HV_SEG_ATTR_CODE)) == (HV_SEG_ATTR_S | HV_SEG_ATTR_CODE);
}

static inline bool hv_attr_is_conforming(uint32_t attr)
{
    return hv_attr_is_code(attr) && (attr & HV_SEG_ATTR_EXPAND_DOWN);
}

static inline bool hv_attr_is_writable_data(uint32_t attr)
{
    return (attr & (HV_SEG_ATTR_S | HV_SEG_ATTR_CODE | HV_SEG_ATTR_WRITABLE)) ==
           (HV_SEG_ATTR_S | HV_SEG_ATTR_WRITABLE);
}

/** Data, or code that may be read: what DS can hold. */
static inline bool hv_attr_is_readable(uint32_t attr)
{
    return (attr & HV_SEG_ATTR_S) && (!(attr & HV_SEG_ATTR_CODE) || (attr & HV_SEG_ATTR_WRITABLE));
}

/** True when @attr is the system descriptor @type. */
static inline bool hv_attr_is_system(uint32_t attr, enum hv_system_type type)
{
    return (attr & (HV_SEG_ATTR_S | HV_SEG_ATTR_TYPE)) == (uint32_t)type;
}

/** Limit in bytes, granularity applied. */
uint32_t hv_descriptor_limit(const struct hv_descriptor *descriptor);

/** Where @selector's descriptor lies; false when its table does not hold @bytes of it. */
bool hv_descriptor_locate(const struct hv_cpu *cpu, uint16_t selector, unsigned bytes,
                          hv_gva *address_out);

/**
 * The eight bytes that @selector (not null) names.
 *
 * Returns HV_FAULTED: @vector with the selector when it lies outside its table.
 */
HV_MUST_CHECK int hv_descriptor_fetch(struct hv_cpu *cpu, const struct hv_access *access,
                                      uint16_t selector, enum hv_vector vector, uint32_t ext,
                                      struct hv_descriptor *out, struct hv_fault *fault_out);

/** The second eight bytes of a long-mode system descriptor: @vector when its type field, which must
 * be 0, is not (SDM 3A figure 7-4). */
HV_MUST_CHECK int hv_descriptor_fetch_high(struct hv_cpu *cpu, const struct hv_access *access,
                                           uint16_t selector, enum hv_vector vector, uint32_t ext,
                                           struct hv_descriptor *descriptor,
                                           struct hv_fault *fault_out);

/** The descriptor as a segment register holds it, `high` counted in. */
struct hv_segment hv_descriptor_segment(const struct hv_descriptor *descriptor, uint16_t selector);

/** The descriptor as a gate of @wide (16-byte), 32-bit or 16-bit form. */
struct hv_gate hv_descriptor_gate(const struct hv_descriptor *descriptor, bool wide);

/** Set the accessed bit of a code or data segment in memory and in @segment. */
HV_MUST_CHECK int hv_descriptor_mark_accessed(const struct hv_access *access,
                                              const struct hv_descriptor *descriptor,
                                              struct hv_segment *segment,
                                              struct hv_fault *fault_out);

/** What a null selector leaves in a register. */
struct hv_segment hv_segment_null(uint16_t selector);

/** A segment of virtual-8086 mode. */
struct hv_segment hv_segment_v86(uint16_t selector);

/** Code or data segment without limits, as SYSCALL and its like load. */
struct hv_segment hv_segment_flat(uint16_t selector, uint32_t type_attr, unsigned dpl);

/**
 * Descriptor of a stack segment for @cpl: writable data, RPL and DPL equal @cpl, present.
 *
 * Returns HV_FAULTED: @vector(selector), or #SS(selector) when it is not present.
 */
HV_MUST_CHECK int hv_descriptor_load_stack(struct hv_cpu *cpu, const struct hv_access *access,
                                           uint16_t selector, unsigned cpl, enum hv_vector vector,
                                           uint32_t ext, struct hv_segment *out,
                                           struct hv_fault *fault_out);

/**
 * Descriptor of a data segment for @cpl, or the null segment.
 *
 * Returns HV_FAULTED: @vector(selector), or #NP(selector) when it is not present.
 */
HV_MUST_CHECK int hv_descriptor_load_data(struct hv_cpu *cpu, const struct hv_access *access,
                                          uint16_t selector, unsigned cpl, enum hv_vector vector,
                                          uint32_t ext, struct hv_segment *out,
                                          struct hv_fault *fault_out);

/* Who may go to a code segment. */
enum hv_code_rule {
    HV_CODE_DIRECT,    /* far jump and call: conforming DPL <= CPL, else DPL = CPL >= RPL */
    HV_CODE_GATE,      /* through a call or interrupt gate: DPL <= CPL */
    HV_CODE_GATE_JUMP, /* a jump through a call gate keeps the CPL: as DIRECT, RPL not looked at */
    HV_CODE_RETURN,    /* returns: conforming DPL <= RPL, else DPL = RPL */
    HV_CODE_TASK,      /* task switches: as RETURN, but #TS */
};

struct hv_code_target {
    struct hv_descriptor descriptor;
    struct hv_segment cs; /* selector as given; hv_code_enter() puts the CPL in */
    bool is64;            /* L in long mode */
};

/**
 * Code segment @selector as the target of a transfer. The accessed bit is not yet set.
 *
 * Returns HV_FAULTED: #GP (#TS for tasks) with the selector, without it when that is null; #NP.
 */
HV_MUST_CHECK int hv_code_fetch(struct hv_cpu *cpu, const struct hv_access *access,
                                uint16_t selector, enum hv_code_rule rule, uint32_t ext,
                                struct hv_code_target *out, struct hv_fault *fault_out);

/**
 * The last look at a target: *rip_inout is within its limit, or canonical; then the accessed bit.
 * RIP is cut to 32 bits outside 64-bit mode.
 *
 * Returns HV_FAULTED: #GP(ext), or #PF at the descriptor.
 */
HV_MUST_CHECK int hv_code_check(const struct hv_access *access, struct hv_code_target *target,
                                uint32_t ext, uint64_t *rip_inout, struct hv_fault *fault_out);

/** Commit: CS, CPL and RIP. Cannot fail. */
void hv_code_enter(struct hv_cpu *cpu, const struct hv_code_target *target, unsigned cpl,
                   uint64_t rip);

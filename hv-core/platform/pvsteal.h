/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Steal time: how long a vCPU wanted to run and did not, and whether it is preempted now, in an area
 * of 64 bytes that it has registered. The other vCPUs read it to know for whom it is vain to spin,
 * and whom a TLB flush need not interrupt.
 *
 *      0  u64 steal                 in ns; rises, over the machine's life
 *      8  u32 version               odd while steal is being written
 *     16  u8  preempted             bit 0: has lost its pCPU against its will; set by us
 *                                   bit 1: flush the TLB before it goes on; set by other vCPUs,
 *                                   while bit 0 is
 *
 *     out --hv_pvsteal_enter--> in --hv_pvsteal_leave--> out
 *
 * Threads: the vCPU's thread. Source: Linux, Documentation/virt/kvm/x86/msr.rst, asm/kvm_para.h.
 */
#pragma once

#include "mem/area.h"

#define HV_PVSTEAL_BYTES 64u

struct hv_pvsteal {
    struct hv_area area;
    uint64_t steal_ns;
    uint64_t counted_ns; /* what the scheduler said when that was worked out */
    uint32_t version;    /* what stands there now, even */
    bool resumed;        /* by a load: what another scheduler has counted says nothing */
};

/** Pin @gpa, aligned to 64, in place of what was before. Errors and context as hv_area_pin(). */
HV_MUST_CHECK int hv_pvsteal_register(struct hv_pvsteal *steal, struct hv_memory *memory,
                                      hv_gpa gpa);
void hv_pvsteal_unregister(struct hv_pvsteal *steal);

/**
 * The vCPU has a pCPU again, or is about to run for the first time with this area.
 *
 * @ready_ns  how long it was ready to run, in all.
 *
 * Returns true when its TLB is to be flushed.
 */
bool hv_pvsteal_enter(struct hv_pvsteal *steal, uint64_t ready_ns);

/** It loses its pCPU although it wants to go on. */
void hv_pvsteal_leave(struct hv_pvsteal *steal);

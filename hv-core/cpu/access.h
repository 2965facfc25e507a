/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Guest memory as an instruction sees it, given to cpu/ by the engine that runs the vCPU: far
 * transfers, exception delivery, task switches and descriptor loads are written once, here in cpu/,
 * and work on any engine through this table.
 *
 * Every function returns 0, HV_FAULTED with *fault filled, or a negative errno: -EAGAIN means that
 * the instruction must be restarted (a device access is outstanding, or a wait made pointers stale).
 * @as is looked at when the access is made: cpu->cpl, RFLAGS and the control registers may have
 * changed since the instruction began.
 */
#pragma once

#include "cpu/walk.h"

struct hv_access_ops {
    /** Read @bytes (1 to 8) at linear @gva; may cross pages. */
    int (*read)(void *context, hv_gva gva, unsigned bytes, enum hv_walk_as as, uint64_t *value_out,
                struct hv_fault *fault);
    /** Write; both pages of a crossing are checked before the first byte is stored. */
    int (*write)(void *context, hv_gva gva, unsigned bytes, enum hv_walk_as as, uint64_t value,
                 struct hv_fault *fault);
    /** Check that [gva, gva + bytes) can be written, setting no dirty bit needlessly; up to 512
     * bytes. What follows in the same instruction then cannot fault. */
    int (*probe_write)(void *context, hv_gva gva, unsigned bytes, enum hv_walk_as as,
                       struct hv_fault *fault);
    /** Set @bits in the byte at @gva atomically (accessed and busy bits of descriptors). */
    int (*set_bits)(void *context, hv_gva gva, uint8_t set, uint8_t clear, enum hv_walk_as as,
                    struct hv_fault *fault);
    /** Drop cached translations: all, all but global ones (of every PCID), those of one page (of the
     * current PCID, and global), those of one PCID but global. */
    void (*flush_all)(void *context);
    void (*flush_non_global)(void *context);
    void (*flush_page)(void *context, hv_gva gva);
    void (*flush_pcid)(void *context, uint16_t pcid);
    /** CR3 was written with PCIDs on: entries tagged @pcid become current, kept or dropped. */
    void (*switch_pcid)(void *context, uint16_t pcid, bool keep);
    /** Paging structures, for the walker and the PDPTEs. */
    const struct hv_walk_memory *walk;
};

struct hv_access {
    const struct hv_access_ops *ops;
    void *context;
};

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A stack that need not be the current one: a transfer to another ring works on the new stack
 * before it commits to it. Private to cpu/.
 *
 *     hv_stack_current  or  hv_stack_inner  →  hv_stack_push_frame  →  hv_stack_commit
 *                                              hv_stack_peek …
 *
 * Nothing of the CPU changes before hv_stack_commit(); a frame is checked whole (limit, pages)
 * before its first byte is written.
 */
#pragma once

#include "cpu/access.h"

struct hv_stack {
    struct hv_segment ss;
    uint64_t pointer;
    uint64_t
        mask;  /* what of the pointer counts: 16, 32 or 64 bits (SDM 3A 3.4.5, B; SDM 1 6.2.3) */
    bool flat; /* 64-bit mode: no base, no limit, canonical addresses */
    enum hv_walk_as as;
    uint32_t error; /* of the #SS */
};

/** The stack in use. @error is that of a #SS. */
struct hv_stack hv_stack_current(const struct hv_cpu *cpu, uint32_t error);

/**
 * The stack of ring @cpl as the TSS has it (SDM 3A 7.2.1, 7.7), with its segment checked.
 *
 * @ist  1 to 7: that entry of a 64-bit TSS instead, @cpl giving only the rights.
 *
 * In long mode SS becomes null with RPL @cpl.
 * Returns HV_FAULTED: #TS, #SS, or #PF.
 */
HV_MUST_CHECK int hv_stack_inner(struct hv_cpu *cpu, const struct hv_access *access, unsigned cpl,
                                 unsigned ist, uint32_t ext, struct hv_stack *stack_out,
                                 struct hv_fault *fault_out);

/** Push @count values of @unit bytes (2, 4 or 8), values[0] first, so at the highest address. */
HV_MUST_CHECK int hv_stack_push_frame(const struct hv_access *access, struct hv_stack *stack,
                                      unsigned unit, const uint64_t *values, unsigned count,
                                      struct hv_fault *fault_out);

/** Read the value @offset bytes above the top. */
HV_MUST_CHECK int hv_stack_peek(const struct hv_access *access, const struct hv_stack *stack,
                                uint64_t offset, unsigned unit, uint64_t *value_out,
                                struct hv_fault *fault_out);

/** Move the top: @bytes are released. */
void hv_stack_release(struct hv_stack *stack, uint64_t bytes);

/** Write RSP back (only the part that counts) and, when @with_segment, SS. */
void hv_stack_commit(struct hv_cpu *cpu, const struct hv_stack *stack, bool with_segment);

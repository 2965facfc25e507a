/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Runs a payload on the software engine and compares how it ends with what its head promises. */
#pragma once

#include "engine/asm-head.h"

/* The same end is asked of each. */
enum asm_way {
    ASM_WAY_WHOLE,  /* in one run */
    ASM_WAY_AGAIN,  /* once more in the machine it has run in: blocks and translations are there */
    ASM_WAY_PIECES, /* the engine is left and forgets what it derived at every block's edge */
    ASM_WAYS,
};

extern const char *const asm_way_names[ASM_WAYS];

/* Says no to why @head does not hold: a sentence, or nothing when it holds. */
struct asm_verdict {
    char text[256];
};

/** A machine for payloads. */
struct soft_machine *asm_machine_create(void);

/** Run it in a machine of its own (but for ASM_WAY_AGAIN), and compare. */
struct asm_verdict asm_run(const struct asm_image *image, const struct asm_head *head,
                           enum asm_way way);

/** Load, run to the end in @machine, do not compare. False, with the cause, when it does not end. */
bool asm_run_to_end(const struct asm_image *image, const struct asm_head *head,
                    struct soft_machine *machine, bool pieces, struct asm_verdict *verdict_out);
/** Compare what stands in @machine. */
struct asm_verdict asm_compare(const struct asm_image *image, const struct asm_head *head,
                               struct soft_machine *machine);

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Which encodings may run on the host, and what the operand list of the decoder does not say of
 * them: which fields name general registers, which registers they use without naming them. Private
 * to engine/soft.
 *
 * This is an allow-list on purpose: an encoding that stands in no row never reaches the host's
 * silicon, whatever the decoder's table makes of it.
 */
#pragma once

#include "engine/soft/decode.h"

enum soft_thunk_form_flag {
    /* Fields that name general registers; all others are copied as they are. */
    SOFT_FORM_GPR_REG = 1u << 0,    /* ModRM.reg */
    SOFT_FORM_GPR_RM = 1u << 1,     /* ModRM.rm, when it is a register */
    SOFT_FORM_GPR_VVVV = 1u << 2,   /* VEX.vvvv */
    SOFT_FORM_GPR_OPCODE = 1u << 3, /* the opcode's low three bits */
    SOFT_FORM_BYTE_REG = 1u << 4,   /* …is an 8-bit register: AH to BH without REX */
    SOFT_FORM_BYTE_RM = 1u << 5,
    /* Registers used without being named. */
    SOFT_FORM_RAX = 1u << 6,
    SOFT_FORM_RCX = 1u << 7,
    SOFT_FORM_RDX = 1u << 8,
    SOFT_FORM_RBX = 1u << 9,
    SOFT_FORM_XMM0_READ = 1u << 10,
    SOFT_FORM_XMM0_WRITTEN = 1u << 11,
    /* Sizes by operand size (66 and REX.W), as the integer instructions have them. */
    SOFT_FORM_INTEGER = 1u << 12,
    SOFT_FORM_NO_MEM = 1u << 13, /* the memory form is not run so */
    SOFT_FORM_NO_REG = 1u << 14, /* nor this one's register form */
    SOFT_FORM_ARITH = 1u << 15,  /* can raise a floating-point exception */
    SOFT_FORM_IS4 = 1u << 16,    /* the immediate's high half names a vector register */
    /* Not one host instruction, or not in every case: thunk-special.c. */
    SOFT_FORM_MASKED = 1u << 17,       /* VMASKMOV, VPMASKMOV */
    SOFT_FORM_GATHER = 1u << 18,       /* VGATHER, VPGATHER */
    SOFT_FORM_MASKED_BYTES = 1u << 19, /* MASKMOVQ, MASKMOVDQU, VMASKMOVDQU */
    SOFT_FORM_ZERO = 1u << 20,         /* VZEROUPPER, VZEROALL */
    SOFT_FORM_MOD_RM_EXT = 1u << 21,   /* ModRM.reg extends the opcode: `extensions` says which */
};

struct soft_thunk_form {
    uint8_t map;
    bool vex;
    uint8_t prefixes; /* SOFT_PREFIX_ bits */
    uint8_t first;
    uint8_t last;
    uint8_t extensions; /* bit n: ModRM.reg n; with SOFT_FORM_MOD_RM_EXT */
    uint32_t flags;     /* enum soft_thunk_form_flag */
};

/** The row that allows @insn, or NULL when it must not run as a thunk. */
const struct soft_thunk_form *soft_thunk_form_find(const struct soft_insn *insn);

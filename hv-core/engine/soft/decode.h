/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The instruction decoder: bytes to a description of one instruction, by tables generated from
 * cpu/isa.def, which speaks the manual's own letters (SDM 2 appendix A: Ev, Gb, Wps, …).
 *
 * The decoder knows encodings only: what may be encoded in this mode, how long it is, which
 * operands of which size it names. Privilege, CPUID policy and semantics are its users'.
 */
#pragma once

#include <hv/types.h>

/* Longest instruction (SDM 3A 6.15, #GP). */
#define SOFT_INSN_MAX    15
#define SOFT_OPERAND_MAX 5

enum soft_mode {
    SOFT_MODE_16,
    SOFT_MODE_32,
    SOFT_MODE_64,
};

enum soft_operand_kind {
    SOFT_OPERAND_NONE,
    SOFT_OPERAND_GPR,      /* reg = 0..15; bytes = 1, 2, 4, 8 */
    SOFT_OPERAND_GPR_HIGH, /* AH CH DH BH: reg = 0..3, the register whose bits 15:8 are meant */
    SOFT_OPERAND_MEM,      /* soft_insn.mem; bytes = size of the access, 0 when it has none (LEA) */
    SOFT_OPERAND_IMM,      /* soft_insn.imm, sign- or zero-extended to operand size already */
    SOFT_OPERAND_REL,      /* branch target = next RIP + imm, cut to the operand size */
    SOFT_OPERAND_FAR,      /* imm = offset, imm2 = selector */
    SOFT_OPERAND_SEG,      /* reg = enum hv_seg */
    SOFT_OPERAND_CR,
    SOFT_OPERAND_DR,
    SOFT_OPERAND_ST, /* x87 stack register, reg = 0..7 */
    SOFT_OPERAND_MMX,
    SOFT_OPERAND_XMM, /* reg = 0..15 */
    SOFT_OPERAND_YMM,
    SOFT_OPERAND_CONST, /* imm is implied by the opcode (shift by 1, int3) */
};

struct soft_operand {
    uint8_t kind; /* enum soft_operand_kind */
    uint8_t reg;
    uint8_t access; /* enum soft_access */
    uint16_t bytes;
};

enum soft_access {
    SOFT_ACCESS_READ = 1,
    SOFT_ACCESS_WRITE = 2,
};

/* No base, or no index. */
#define SOFT_REG_NONE 0xff
/* Base of a RIP-relative operand; disp is then relative to the next instruction. */
#define SOFT_REG_RIP  0xfe

struct soft_mem {
    uint8_t base; /* 0..15, SOFT_REG_NONE, SOFT_REG_RIP */
    uint8_t index;
    uint8_t scale;   /* shift: 0..3 */
    uint8_t segment; /* enum hv_seg, override applied */
    int64_t disp;
};

enum soft_insn_flag {
    SOFT_INSN_LOCK = 1u << 0,
    SOFT_INSN_REP = 1u << 1,   /* F3 that is not part of the opcode */
    SOFT_INSN_REPNE = 1u << 2, /* F2 that is not part of the opcode */
    SOFT_INSN_VEX = 1u << 3,
    SOFT_INSN_REX = 1u << 4, /* any REX: SPL..DIL instead of AH..BH */
    SOFT_INSN_W = 1u << 5,   /* REX.W or VEX.W */
    SOFT_INSN_MODRM = 1u << 6,
    SOFT_INSN_SEGMENT = 1u << 7,         /* a segment override stood there */
    SOFT_INSN_OPSIZE = 1u << 8,          /* a 66 prefix stood there */
    SOFT_INSN_ADDRSIZE = 1u << 9,        /* a 67 prefix stood there */
    SOFT_INSN_STRING_IMPLIED = 1u << 10, /* implied rSI/rDI operands */
};

struct soft_insn {
    uint16_t row;   /* row of cpu/isa.def: soft_isa_row() */
    uint16_t op;    /* enum soft_op, the mnemonic, generated from isa.def */
    uint16_t flags; /* enum soft_insn_flag */
    uint8_t length;
    uint8_t operand_bytes; /* 2, 4, 8 */
    uint8_t address_bytes; /* 2, 4, 8 */
    uint8_t map;           /* 0 one-byte, 1 0F, 2 0F38, 3 0F3A */
    uint8_t opcode;
    uint8_t mandatory; /* 0, 66, F2, F3: the prefix that is part of the opcode */
    uint8_t modrm;
    uint8_t rex;           /* W R X B in bits 3..0, also from VEX */
    uint8_t vex_bytes;     /* vector length in bytes, 16 or 32; 0 when not VEX */
    uint8_t vex_vvvv;      /* register named by VEX.vvvv */
    uint8_t opcode_offset; /* of the opcode byte from the instruction's start */
    uint8_t operands;
    struct soft_operand operand[SOFT_OPERAND_MAX]; /* explicit ones in Intel's order */
    struct soft_mem mem;
    uint64_t imm;
    uint64_t imm2;
};

/* What isa.def says of a row beyond its encoding. */
struct soft_isa_row {
    const char *mnemonic;
    uint16_t op;
    uint16_t flags;         /* enum soft_isa_flag */
    uint16_t flags_read;    /* RFLAGS bits */
    uint16_t flags_written; /* RFLAGS bits, the undefined ones included */
    uint16_t flags_undefined;
    uint8_t feature; /* enum hv_feature: off in the policy means #UD */
};

enum soft_isa_flag {
    SOFT_ISA_LOCKABLE = 1u << 0,
    SOFT_ISA_PRIVILEGED = 1u << 1, /* CPL 0 only */
    SOFT_ISA_BRANCH = 1u << 2,     /* may set RIP to other than the next instruction */
    SOFT_ISA_STRING = 1u << 3,
    SOFT_ISA_SYSTEM = 1u << 4, /* mode, descriptor or control state: ends a block */
    SOFT_ISA_X87 = 1u << 5,
    SOFT_ISA_MMX = 1u << 6,
    SOFT_ISA_SSE = 1u << 7,
    SOFT_ISA_AVX = 1u << 8,
    SOFT_ISA_ALIGNED = 1u << 9,     /* #GP when the memory operand is not aligned to its size */
    SOFT_ISA_IO = 1u << 10,         /* IN, OUT, INS, OUTS */
    SOFT_ISA_FPU_NOWAIT = 1u << 11, /* x87 control that does not raise a pending #MF */
};

enum soft_decode_result {
    SOFT_DECODE_OK,
    SOFT_DECODE_UD,       /* no such instruction: #UD */
    SOFT_DECODE_TOO_LONG, /* more than 15 bytes: #GP(0) */
    SOFT_DECODE_SHORT,    /* the bytes given end before the instruction does */
};

/**
 * Decode one instruction.
 *
 * @mode       operand and address size by default.
 * @bytes      borrowed for the call; @available of them may be read (more than 15 are ignored).
 * @insn_out   filled when the result is OK; `length` is also valid for UD where it can be known.
 *
 * SHORT is returned only when the bytes present may go on to be an instruction: the caller fetches
 * across the page and tries again, or raises the fetch's fault.
 * Context: pure; any thread.
 */
HV_MUST_CHECK enum soft_decode_result soft_decode(enum soft_mode mode, const uint8_t *bytes,
                                                  size_t available, struct soft_insn *insn_out);

/** The table's row for a decoded instruction. Valid for the program's life. */
const struct soft_isa_row *soft_isa_row(uint16_t row);

/** Number of rows. */
size_t soft_isa_rows(void);

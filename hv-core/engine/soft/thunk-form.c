/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The allow-list of host-executed encodings, by opcode map, mandatory prefix and opcode.
 * Source: SDM 2 chapters 3 to 6 (each instruction's page), appendix A (the maps).
 */
#include "engine/soft/thunk-form.h"

/* Mandatory prefixes. */
#define PN      1u
#define P6      2u
#define P3      4u
#define P2      8u

#define NP      (PN | P6)
#define PS      (PN | P6 | P3 | P2)

/* Shapes that many rows share. */
#define ARITH   SOFT_FORM_ARITH
#define REG     SOFT_FORM_GPR_REG
#define RM      SOFT_FORM_GPR_RM
#define VVVV    SOFT_FORM_GPR_VVVV
#define NO_MEM  SOFT_FORM_NO_MEM
#define NO_REG  SOFT_FORM_NO_REG
#define IS4     SOFT_FORM_IS4
#define INT     SOFT_FORM_INTEGER
#define INT_RM  (INT | RM)
#define INT_GE  (INT | REG | RM)
#define INT_GEB (INT_GE | SOFT_FORM_BYTE_REG | SOFT_FORM_BYTE_RM)
#define INT_RMB (INT_RM | SOFT_FORM_BYTE_RM)
#define EXT     SOFT_FORM_MOD_RM_EXT
#define RAX     SOFT_FORM_RAX
#define RCX     SOFT_FORM_RCX
#define RDX     SOFT_FORM_RDX
#define RBX     SOFT_FORM_RBX
#define XMM0_R  SOFT_FORM_XMM0_READ
#define XMM0_W  SOFT_FORM_XMM0_WRITTEN

static const struct soft_thunk_form one_byte[] = {
    /* The arithmetic block's r/m forms; 4 and 5 name the accumulator. */
    {0, false, PN, 0x00, 0x00, 0, INT_GEB},
    {0, false, PN, 0x01, 0x01, 0, INT_GE},
    {0, false, PN, 0x02, 0x02, 0, INT_GEB},
    {0, false, PN, 0x03, 0x03, 0, INT_GE},
    {0, false, PN, 0x04, 0x05, 0, INT | RAX},
    {0, false, PN, 0x69, 0x69, 0, INT_GE},
    {0, false, PN, 0x6b, 0x6b, 0, INT_GE},
    {0, false, PN, 0x80, 0x80, 0xff, INT_RMB | EXT},
    {0, false, PN, 0x81, 0x81, 0xff, INT_RM | EXT},
    {0, false, PN, 0x83, 0x83, 0xff, INT_RM | EXT},
    {0, false, PN, 0x84, 0x84, 0, INT_GEB},
    {0, false, PN, 0x85, 0x85, 0, INT_GE},
    {0, false, PN, 0x86, 0x86, 0, INT_GEB},
    {0, false, PN, 0x87, 0x87, 0, INT_GE},
    {0, false, PN, 0x98, 0x98, 0, INT | RAX},
    {0, false, PN, 0x99, 0x99, 0, INT | RAX | RDX},
    {0, false, PN, 0xc0, 0xc0, 0xff, INT_RMB | EXT},
    {0, false, PN, 0xc1, 0xc1, 0xff, INT_RM | EXT},
    {0, false, PN, 0xd0, 0xd0, 0xff, INT_RMB | EXT},
    {0, false, PN, 0xd1, 0xd1, 0xff, INT_RM | EXT},
    {0, false, PN, 0xd2, 0xd2, 0xff, INT_RMB | RCX | EXT},
    {0, false, PN, 0xd3, 0xd3, 0xff, INT_RM | RCX | EXT},
    /* x87, but what moves its state as a whole (xstate.c). */
    {0, false, PN, 0xd8, 0xd8, 0, 0},
    {0, false, PN, 0xd9, 0xd9, 0xaf, EXT | NO_REG},
    {0, false, PN, 0xd9, 0xd9, 0xff, EXT | NO_MEM},
    {0, false, PN, 0xda, 0xda, 0, 0},
    {0, false, PN, 0xdb, 0xdb, 0, 0},
    {0, false, PN, 0xdc, 0xdc, 0, 0},
    {0, false, PN, 0xdd, 0xdd, 0xaf, EXT | NO_REG},
    {0, false, PN, 0xdd, 0xdd, 0xff, EXT | NO_MEM},
    {0, false, PN, 0xde, 0xde, 0, 0},
    {0, false, PN, 0xdf, 0xdf, 0, RAX},
    /* TEST, NOT, NEG, MUL, IMUL; a host's DIV would raise a host's #DE. */
    {0, false, PN, 0xf6, 0xf6, 0x3f, INT_RMB | RAX | EXT},
    {0, false, PN, 0xf7, 0xf7, 0x3f, INT_RM | RAX | RDX | EXT},
    {0, false, PN, 0xfe, 0xfe, 0x03, INT_RMB | EXT},
    {0, false, PN, 0xff, 0xff, 0x03, INT_RM | EXT},
};

static const struct soft_thunk_form two_byte[] = {
    {1, false, PS, 0x10, 0x12, 0, 0},
    {1, false, NP, 0x13, 0x15, 0, 0},
    {1, false, NP | P3, 0x16, 0x16, 0, 0},
    {1, false, NP, 0x17, 0x17, 0, NO_REG},
    {1, false, NP, 0x28, 0x29, 0, 0},
    {1, false, NP, 0x2a, 0x2a, 0, ARITH},
    {1, false, P3 | P2, 0x2a, 0x2a, 0, RM | ARITH},
    {1, false, NP, 0x2b, 0x2b, 0, NO_REG},
    {1, false, NP, 0x2c, 0x2d, 0, ARITH},
    {1, false, P3 | P2, 0x2c, 0x2d, 0, REG | ARITH},
    {1, false, NP, 0x2e, 0x2f, 0, ARITH},
    {1, false, PN, 0x40, 0x4f, 0, INT_GE},
    {1, false, NP, 0x50, 0x50, 0, REG | NO_MEM},
    {1, false, PS, 0x51, 0x51, 0, ARITH},
    {1, false, PN | P3, 0x52, 0x53, 0, 0},
    {1, false, NP, 0x54, 0x57, 0, 0},
    {1, false, PS, 0x58, 0x5a, 0, ARITH},
    {1, false, NP | P3, 0x5b, 0x5b, 0, ARITH},
    {1, false, PS, 0x5c, 0x5f, 0, ARITH},
    {1, false, NP, 0x60, 0x6b, 0, 0},
    {1, false, P6, 0x6c, 0x6d, 0, 0},
    {1, false, NP, 0x6e, 0x6e, 0, RM},
    {1, false, NP | P3, 0x6f, 0x6f, 0, 0},
    {1, false, PS, 0x70, 0x70, 0, 0},
    {1, false, NP, 0x71, 0x72, 0x54, NO_MEM | EXT},
    {1, false, NP, 0x73, 0x73, 0xcc, NO_MEM | EXT},
    {1, false, NP, 0x74, 0x76, 0, 0},
    {1, false, P6 | P2, 0x7c, 0x7d, 0, ARITH},
    {1, false, NP, 0x7e, 0x7e, 0, RM},
    {1, false, P3, 0x7e, 0x7e, 0, 0},
    {1, false, NP | P3, 0x7f, 0x7f, 0, 0},
    {1, false, PN, 0x90, 0x9f, 0, INT_RMB},
    /* Bit strings in memory go beyond their operand: the register forms only. */
    {1, false, PN, 0xa3, 0xa3, 0, INT_GE | NO_MEM},
    {1, false, PN, 0xab, 0xab, 0, INT_GE | NO_MEM},
    {1, false, PN, 0xb3, 0xb3, 0, INT_GE | NO_MEM},
    {1, false, PN, 0xbb, 0xbb, 0, INT_GE | NO_MEM},
    {1, false, PN, 0xa4, 0xa4, 0, INT_GE},
    {1, false, PN, 0xa5, 0xa5, 0, INT_GE | RCX},
    {1, false, PN, 0xac, 0xac, 0, INT_GE},
    {1, false, PN, 0xad, 0xad, 0, INT_GE | RCX},
    {1, false, PN, 0xaf, 0xaf, 0, INT_GE},
    {1, false, PN, 0xb0, 0xb0, 0, INT_GEB | RAX},
    {1, false, PN, 0xb1, 0xb1, 0, INT_GE | RAX},
    {1, false, PN, 0xb6, 0xb6, 0, INT_GE | SOFT_FORM_BYTE_RM},
    {1, false, PN, 0xb7, 0xb7, 0, INT_GE},
    {1, false, P3, 0xb8, 0xb8, 0, INT_GE},
    {1, false, PN, 0xba, 0xba, 0xf0, INT_RM | EXT},
    {1, false, PN | P3, 0xbc, 0xbd, 0, INT_GE},
    {1, false, PN, 0xbe, 0xbe, 0, INT_GE | SOFT_FORM_BYTE_RM},
    {1, false, PN, 0xbf, 0xbf, 0, INT_GE},
    {1, false, PN, 0xc0, 0xc0, 0, INT_GEB},
    {1, false, PN, 0xc1, 0xc1, 0, INT_GE},
    {1, false, PS, 0xc2, 0xc2, 0, ARITH},
    {1, false, PN, 0xc3, 0xc3, 0, INT_GE | NO_REG},
    {1, false, NP, 0xc4, 0xc4, 0, RM},
    {1, false, NP, 0xc5, 0xc5, 0, REG | NO_MEM},
    {1, false, NP, 0xc6, 0xc6, 0, 0},
    /* CMPXCHG8B and CMPXCHG16B. */
    {1, false, PN, 0xc7, 0xc7, 0x02, INT | NO_REG | RAX | RCX | RDX | RBX | EXT},
    {1, false, PN, 0xc8, 0xcf, 0, INT | SOFT_FORM_GPR_OPCODE},
    {1, false, P6 | P2, 0xd0, 0xd0, 0, ARITH},
    {1, false, NP, 0xd1, 0xd5, 0, 0},
    {1, false, P6, 0xd6, 0xd6, 0, 0},
    {1, false, P3 | P2, 0xd6, 0xd6, 0, NO_MEM},
    {1, false, NP, 0xd7, 0xd7, 0, REG | NO_MEM},
    {1, false, NP, 0xd8, 0xe5, 0, 0},
    {1, false, P6 | P3 | P2, 0xe6, 0xe6, 0, ARITH},
    {1, false, NP, 0xe7, 0xe7, 0, NO_REG},
    {1, false, NP, 0xe8, 0xef, 0, 0},
    {1, false, P2, 0xf0, 0xf0, 0, NO_REG},
    {1, false, NP, 0xf1, 0xf6, 0, 0},
    {1, false, NP, 0xf7, 0xf7, 0, NO_MEM | SOFT_FORM_MASKED_BYTES},
    {1, false, NP, 0xf8, 0xfe, 0, 0},
};

static const struct soft_thunk_form map_38[] = {
    {2, false, NP, 0x00, 0x0b, 0, 0},
    {2, false, P6, 0x10, 0x10, 0, XMM0_R},
    {2, false, P6, 0x14, 0x15, 0, XMM0_R},
    {2, false, P6, 0x17, 0x17, 0, 0},
    {2, false, NP, 0x1c, 0x1e, 0, 0},
    {2, false, P6, 0x20, 0x25, 0, 0},
    {2, false, P6, 0x28, 0x29, 0, 0},
    {2, false, P6, 0x2a, 0x2a, 0, NO_REG},
    {2, false, P6, 0x2b, 0x2b, 0, 0},
    {2, false, P6, 0x30, 0x35, 0, 0},
    {2, false, P6, 0x37, 0x41, 0, 0},
    {2, false, PN, 0xc8, 0xca, 0, 0},
    {2, false, PN, 0xcb, 0xcb, 0, XMM0_R},
    {2, false, PN, 0xcc, 0xcd, 0, 0},
    {2, false, P6, 0xcf, 0xcf, 0, 0},
    {2, false, P6, 0xdb, 0xdf, 0, 0},
    {2, false, PN, 0xf0, 0xf1, 0, INT_GE | NO_REG}, /* MOVBE */
    {2, false, P2, 0xf0, 0xf0, 0, INT_GE | SOFT_FORM_BYTE_RM},
    {2, false, P2, 0xf1, 0xf1, 0, INT_GE},
    {2, false, P6 | P3, 0xf6, 0xf6, 0, REG | RM},
    {2, false, PN, 0xf9, 0xf9, 0, INT_GE | NO_REG}, /* MOVDIRI */
};

static const struct soft_thunk_form map_3a[] = {
    {3, false, P6, 0x08, 0x0b, 0, ARITH},
    {3, false, P6, 0x0c, 0x0e, 0, 0},
    {3, false, NP, 0x0f, 0x0f, 0, 0},
    {3, false, P6, 0x14, 0x17, 0, RM},
    {3, false, P6, 0x20, 0x20, 0, RM},
    {3, false, P6, 0x21, 0x21, 0, 0},
    {3, false, P6, 0x22, 0x22, 0, RM},
    {3, false, P6, 0x40, 0x41, 0, ARITH},
    {3, false, P6, 0x42, 0x42, 0, 0},
    {3, false, P6, 0x44, 0x44, 0, 0},
    {3, false, P6, 0x60, 0x60, 0, RAX | RDX | XMM0_W},
    {3, false, P6, 0x61, 0x61, 0, RAX | RDX | RCX},
    {3, false, P6, 0x62, 0x62, 0, XMM0_W},
    {3, false, P6, 0x63, 0x63, 0, RCX},
    {3, false, PN, 0xcc, 0xcc, 0, 0},
    {3, false, P6, 0xce, 0xcf, 0, 0},
    {3, false, P6, 0xdf, 0xdf, 0, 0},
};

static const struct soft_thunk_form vex_two_byte[] = {
    {1, true, PS, 0x10, 0x12, 0, 0},
    {1, true, NP, 0x13, 0x15, 0, 0},
    {1, true, NP | P3, 0x16, 0x16, 0, 0},
    {1, true, NP, 0x17, 0x17, 0, NO_REG},
    {1, true, NP, 0x28, 0x29, 0, 0},
    {1, true, P3 | P2, 0x2a, 0x2a, 0, RM | ARITH},
    {1, true, NP, 0x2b, 0x2b, 0, NO_REG},
    {1, true, P3 | P2, 0x2c, 0x2d, 0, REG | ARITH},
    {1, true, NP, 0x2e, 0x2f, 0, ARITH},
    {1, true, NP, 0x50, 0x50, 0, REG | NO_MEM},
    {1, true, PS, 0x51, 0x51, 0, ARITH},
    {1, true, PN | P3, 0x52, 0x53, 0, 0},
    {1, true, NP, 0x54, 0x57, 0, 0},
    {1, true, PS, 0x58, 0x5a, 0, ARITH},
    {1, true, NP | P3, 0x5b, 0x5b, 0, ARITH},
    {1, true, PS, 0x5c, 0x5f, 0, ARITH},
    {1, true, P6, 0x60, 0x6d, 0, 0},
    {1, true, P6, 0x6e, 0x6e, 0, RM},
    {1, true, P6 | P3, 0x6f, 0x6f, 0, 0},
    {1, true, P6 | P3 | P2, 0x70, 0x70, 0, 0},
    {1, true, P6, 0x71, 0x72, 0x54, NO_MEM | EXT},
    {1, true, P6, 0x73, 0x73, 0xcc, NO_MEM | EXT},
    {1, true, P6, 0x74, 0x76, 0, 0},
    {1, true, PN, 0x77, 0x77, 0, SOFT_FORM_ZERO},
    {1, true, P6 | P2, 0x7c, 0x7d, 0, ARITH},
    {1, true, P6, 0x7e, 0x7e, 0, RM},
    {1, true, P3, 0x7e, 0x7e, 0, 0},
    {1, true, P6 | P3, 0x7f, 0x7f, 0, 0},
    {1, true, PS, 0xc2, 0xc2, 0, ARITH},
    {1, true, P6, 0xc4, 0xc4, 0, RM},
    {1, true, P6, 0xc5, 0xc5, 0, REG | NO_MEM},
    {1, true, NP, 0xc6, 0xc6, 0, 0},
    {1, true, P6 | P2, 0xd0, 0xd0, 0, ARITH},
    {1, true, P6, 0xd1, 0xd6, 0, 0},
    {1, true, P6, 0xd7, 0xd7, 0, REG | NO_MEM},
    {1, true, P6, 0xd8, 0xe5, 0, 0},
    {1, true, P6 | P3 | P2, 0xe6, 0xe6, 0, ARITH},
    {1, true, P6, 0xe7, 0xe7, 0, NO_REG},
    {1, true, P6, 0xe8, 0xef, 0, 0},
    {1, true, P2, 0xf0, 0xf0, 0, NO_REG},
    {1, true, P6, 0xf1, 0xf6, 0, 0},
    {1, true, P6, 0xf7, 0xf7, 0, NO_MEM | SOFT_FORM_MASKED_BYTES},
    {1, true, P6, 0xf8, 0xfe, 0, 0},
};

static const struct soft_thunk_form vex_map_38[] = {
    {2, true, P6, 0x00, 0x0f, 0, 0},
    {2, true, P6, 0x13, 0x13, 0, ARITH},
    {2, true, P6, 0x16, 0x1a, 0, 0},
    {2, true, P6, 0x1c, 0x1e, 0, 0},
    {2, true, P6, 0x20, 0x25, 0, 0},
    {2, true, P6, 0x28, 0x29, 0, 0},
    {2, true, P6, 0x2a, 0x2a, 0, NO_REG},
    {2, true, P6, 0x2b, 0x2b, 0, 0},
    {2, true, P6, 0x2c, 0x2f, 0, NO_REG | SOFT_FORM_MASKED},
    {2, true, P6, 0x30, 0x41, 0, 0},
    {2, true, P6, 0x45, 0x47, 0, 0},
    {2, true, P6, 0x58, 0x59, 0, 0},
    {2, true, P6, 0x5a, 0x5a, 0, NO_REG},
    {2, true, P6, 0x78, 0x79, 0, 0},
    {2, true, P6, 0x8c, 0x8c, 0, NO_REG | SOFT_FORM_MASKED},
    {2, true, P6, 0x8e, 0x8e, 0, NO_REG | SOFT_FORM_MASKED},
    {2, true, P6, 0x90, 0x93, 0, NO_REG | SOFT_FORM_GATHER},
    {2, true, P6, 0x96, 0x9f, 0, ARITH},
    {2, true, P6, 0xa6, 0xaf, 0, ARITH},
    {2, true, P6, 0xb6, 0xbf, 0, ARITH},
    {2, true, P6, 0xcf, 0xcf, 0, 0},
    {2, true, P6, 0xdb, 0xdf, 0, 0},
    {2, true, PN, 0xf2, 0xf2, 0, REG | RM | VVVV},
    {2, true, PN, 0xf3, 0xf3, 0x0e, RM | VVVV | EXT},
    {2, true, PN | P3 | P2, 0xf5, 0xf5, 0, REG | RM | VVVV},
    {2, true, P2, 0xf6, 0xf6, 0, REG | RM | VVVV | RDX},
    {2, true, PS, 0xf7, 0xf7, 0, REG | RM | VVVV},
};

static const struct soft_thunk_form vex_map_3a[] = {
    {3, true, P6, 0x00, 0x02, 0, 0},
    {3, true, P6, 0x04, 0x06, 0, 0},
    {3, true, P6, 0x08, 0x0b, 0, ARITH},
    {3, true, P6, 0x0c, 0x0f, 0, 0},
    {3, true, P6, 0x14, 0x17, 0, RM},
    {3, true, P6, 0x18, 0x19, 0, 0},
    {3, true, P6, 0x1d, 0x1d, 0, ARITH},
    {3, true, P6, 0x20, 0x20, 0, RM},
    {3, true, P6, 0x21, 0x21, 0, 0},
    {3, true, P6, 0x22, 0x22, 0, RM},
    {3, true, P6, 0x38, 0x39, 0, 0},
    {3, true, P6, 0x40, 0x40, 0, ARITH},
    {3, true, P6, 0x41, 0x41, 0, ARITH},
    {3, true, P6, 0x42, 0x42, 0, 0},
    {3, true, P6, 0x44, 0x44, 0, 0},
    {3, true, P6, 0x46, 0x46, 0, 0},
    {3, true, P6, 0x4a, 0x4c, 0, IS4},
    {3, true, P6, 0x60, 0x60, 0, RAX | RDX | XMM0_W},
    {3, true, P6, 0x61, 0x61, 0, RAX | RDX | RCX},
    {3, true, P6, 0x62, 0x62, 0, XMM0_W},
    {3, true, P6, 0x63, 0x63, 0, RCX},
    {3, true, P6, 0xce, 0xcf, 0, 0},
    {3, true, P6, 0xdf, 0xdf, 0, 0},
    {3, true, P2, 0xf0, 0xf0, 0, REG | RM},
};

static const struct form_map {
    const struct soft_thunk_form *rows;
    size_t count;
} maps[2][4] = {
    {
        {one_byte, HV_ARRAY_LEN(one_byte)},
        {two_byte, HV_ARRAY_LEN(two_byte)},
        {map_38, HV_ARRAY_LEN(map_38)},
        {map_3a, HV_ARRAY_LEN(map_3a)},
    },
    {
        {NULL, 0},
        {vex_two_byte, HV_ARRAY_LEN(vex_two_byte)},
        {vex_map_38, HV_ARRAY_LEN(vex_map_38)},
        {vex_map_3a, HV_ARRAY_LEN(vex_map_3a)},
    },
};

/* DB E0 to E4 (FNENI, FNDISI, FNINIT, FNSETPM) belong to xstate.c; FNCLEX does not. */
static bool x87_refused(const struct soft_insn *insn)
{
    return insn->map == 0 && insn->opcode == 0xdb && insn->modrm >= 0xe0 && insn->modrm <= 0xe4 &&
           insn->modrm != 0xe2;
}

static bool form_allows(const struct soft_thunk_form *form, uint8_t opcode, unsigned prefix,
                        const struct soft_insn *insn)
{
    bool memory = (insn->flags & SOFT_INSN_MODRM) && (insn->modrm >> 6) != 3;

    return opcode >= form->first && opcode <= form->last && (form->prefixes & prefix) &&
           !((form->flags & EXT) && !(form->extensions >> ((insn->modrm >> 3) & 7) & 1)) &&
           !((form->flags & NO_MEM) && memory) && !((form->flags & NO_REG) && !memory);
}

const struct soft_thunk_form *soft_thunk_form_find(const struct soft_insn *insn)
{
    unsigned prefix = insn->mandatory == 0x66   ? P6
                      : insn->mandatory == 0xf3 ? P3
                      : insn->mandatory == 0xf2 ? P2
                                                : PN;
    uint8_t opcode = insn->opcode;
    const struct form_map *map;

    if (insn->map > 3 || x87_refused(insn)) {
        return NULL;
    }
    map = &maps[(insn->flags & SOFT_INSN_VEX) ? 1 : 0][insn->map];
    /* ADD, OR, … CMP have eight opcodes each, alike in shape. */
    if (insn->map == 0 && !(insn->flags & SOFT_INSN_VEX) && opcode < 0x40 && (opcode & 7) < 6) {
        opcode &= 7;
    }
    for (size_t i = 0; i < map->count; i++) {
        if (form_allows(&map->rows[i], opcode, prefix, insn)) {
            return &map->rows[i];
        }
    }
    return NULL;
}

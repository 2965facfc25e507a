/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The bits of the architectural registers, by the manual's names, and the exception vectors.
 * Source: SDM 1 3.4.3 (RFLAGS), SDM 3A 2.5 (control registers), 2.2.1 (EFER), 3.4.5 (descriptors),
 * 6.3.1 (vectors).
 */
#pragma once

#include <hv/types.h>

/* Segment attributes, as bits 40..55 of a descriptor shifted down (SDM 3A 3.4.5), plus UNUSABLE. */
enum hv_seg_attr {
    HV_SEG_ATTR_TYPE = 0xf, /* type field */
    HV_SEG_ATTR_ACCESSED = 1u << 0,
    HV_SEG_ATTR_WRITABLE = 1u << 1,    /* data: writable; code: readable */
    HV_SEG_ATTR_EXPAND_DOWN = 1u << 2, /* data: expand-down; code: conforming */
    HV_SEG_ATTR_CODE = 1u << 3,
    HV_SEG_ATTR_S = 1u << 4, /* code or data, not system */
    HV_SEG_ATTR_DPL_SHIFT = 5,
    HV_SEG_ATTR_P = 1u << 7,
    HV_SEG_ATTR_AVL = 1u << 12,
    HV_SEG_ATTR_L = 1u << 13,
    HV_SEG_ATTR_DB = 1u << 14,
    HV_SEG_ATTR_G = 1u << 15,
    HV_SEG_ATTR_UNUSABLE = 1u << 16, /* loaded with a null selector */
};

enum hv_rflags {
    HV_RFLAGS_CF = 1u << 0,
    HV_RFLAGS_FIXED = 1u << 1,
    HV_RFLAGS_PF = 1u << 2,
    HV_RFLAGS_AF = 1u << 4,
    HV_RFLAGS_ZF = 1u << 6,
    HV_RFLAGS_SF = 1u << 7,
    HV_RFLAGS_TF = 1u << 8,
    HV_RFLAGS_IF = 1u << 9,
    HV_RFLAGS_DF = 1u << 10,
    HV_RFLAGS_OF = 1u << 11,
    HV_RFLAGS_IOPL = 3u << 12,
    HV_RFLAGS_NT = 1u << 14,
    HV_RFLAGS_RF = 1u << 16,
    HV_RFLAGS_VM = 1u << 17,
    HV_RFLAGS_AC = 1u << 18,
    HV_RFLAGS_VIF = 1u << 19,
    HV_RFLAGS_VIP = 1u << 20,
    HV_RFLAGS_ID = 1u << 21,
    HV_RFLAGS_ARITH =
        HV_RFLAGS_CF | HV_RFLAGS_PF | HV_RFLAGS_AF | HV_RFLAGS_ZF | HV_RFLAGS_SF | HV_RFLAGS_OF,
    HV_RFLAGS_ALL = 0x3f7fd7,
};

enum hv_cr0 {
    HV_CR0_PE = 1u << 0,
    HV_CR0_MP = 1u << 1,
    HV_CR0_EM = 1u << 2,
    HV_CR0_TS = 1u << 3,
    HV_CR0_ET = 1u << 4,
    HV_CR0_NE = 1u << 5,
    HV_CR0_WP = 1u << 16,
    HV_CR0_AM = 1u << 18,
    HV_CR0_NW = 1u << 29,
    HV_CR0_CD = 1u << 30,
};
#define HV_CR0_PG (UINT64_C(1) << 31)

enum hv_cr4 {
    HV_CR4_VME = 1u << 0,
    HV_CR4_PVI = 1u << 1,
    HV_CR4_TSD = 1u << 2,
    HV_CR4_DE = 1u << 3,
    HV_CR4_PSE = 1u << 4,
    HV_CR4_PAE = 1u << 5,
    HV_CR4_MCE = 1u << 6,
    HV_CR4_PGE = 1u << 7,
    HV_CR4_PCE = 1u << 8,
    HV_CR4_OSFXSR = 1u << 9,
    HV_CR4_OSXMMEXCPT = 1u << 10,
    HV_CR4_UMIP = 1u << 11,
    HV_CR4_LA57 = 1u << 12,
    HV_CR4_FSGSBASE = 1u << 16,
    HV_CR4_PCIDE = 1u << 17,
    HV_CR4_OSXSAVE = 1u << 18,
    HV_CR4_SMEP = 1u << 20,
    HV_CR4_SMAP = 1u << 21,
};

enum hv_efer {
    HV_EFER_SCE = 1u << 0,
    HV_EFER_LME = 1u << 8,
    HV_EFER_LMA = 1u << 10,
    HV_EFER_NXE = 1u << 11,
};

/* Bits of DR6 and DR7 that always read so, and those a guest can set (SDM 3B 17.2). */
#define HV_DR6_FIXED         UINT64_C(0xffff0ff0)
#define HV_DR6_WRITABLE      UINT64_C(0x0000e00f)
#define HV_DR6_BD            HV_BIT(13)
#define HV_DR6_BS            HV_BIT(14)
#define HV_DR6_BT            HV_BIT(15)
#define HV_DR7_FIXED         UINT64_C(0x00000400)
#define HV_DR7_WRITABLE      UINT64_C(0xffff23ff)
#define HV_DR7_LOCAL         UINT64_C(0x00000155) /* L0 to L3, LE */
#define HV_DR7_GD            HV_BIT(13)

/* IA32_APIC_BASE (SDM 3A 11.4.4, 11.12.1). */
#define HV_APIC_BASE_BSP     HV_BIT(8)
#define HV_APIC_BASE_X2APIC  HV_BIT(10)
#define HV_APIC_BASE_ENABLE  HV_BIT(11)
#define HV_APIC_BASE_DEFAULT UINT64_C(0xfee00000)

enum hv_vector {
    HV_VECTOR_DE = 0,
    HV_VECTOR_DB = 1,
    HV_VECTOR_NMI = 2,
    HV_VECTOR_BP = 3,
    HV_VECTOR_OF = 4,
    HV_VECTOR_BR = 5,
    HV_VECTOR_UD = 6,
    HV_VECTOR_NM = 7,
    HV_VECTOR_DF = 8,
    HV_VECTOR_TS = 10,
    HV_VECTOR_NP = 11,
    HV_VECTOR_SS = 12,
    HV_VECTOR_GP = 13,
    HV_VECTOR_PF = 14,
    HV_VECTOR_MF = 16,
    HV_VECTOR_AC = 17,
    HV_VECTOR_MC = 18,
    HV_VECTOR_XM = 19,
};

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A CPU with descriptor tables, a TSS and stacks in flat memory, in each of the modes, for the tests
 * of segments, events and transfers.
 *
 *     0x01000  GDT        0x02000  IDT or IVT     0x04000  TSS, with an open I/O bitmap
 *     0x05000  LDT        0x06000  second TSS     0x10000  page tables, the first 2 MiB one to one
 *     STACK0 … STACK3     tops of the rings' stacks, each in a page of its own; IST below
 */
#pragma once

#include "cpu/descriptor.h"
#include "cpu/policy.h"
#include "cpu/segment.h"
#include "lib/tap.h"
#include "unit/cpu/flat-memory.h"

enum machine_mode { MACHINE_REAL, MACHINE_V86, MACHINE_PROTECTED, MACHINE_LONG };

enum machine_place {
    AT_GDT = 0x1000,
    AT_IDT = 0x2000,
    AT_TSS = 0x4000,
    AT_LDT = 0x5000,
    AT_TSS2 = 0x6000,
    AT_TABLES = 0x10000,
    STACK0 = 0x21000,
    STACK1 = 0x23000,
    STACK2 = 0x25000,
    STACK3 = 0x27000,
    STACK_IST1 = 0x29000,
};

/* Selectors, RPL 0. */
enum machine_selector {
    CODE0 = 0x08,
    DATA0 = 0x10,
    CODE3 = 0x18,
    DATA3 = 0x20,
    CODE64_0 = 0x28,
    CODE64_3 = 0x30,
    CONFORMING0 = 0x38,
    CODE16_0 = 0x40,
    DATA16_0 = 0x48,
    CODE1 = 0x50,
    DATA1 = 0x58,
    ABSENT_CODE0 = 0x60,
    ABSENT_DATA0 = 0x68,
    READONLY0 = 0x70,
    SMALL0 = 0x78, /* expand-up data of 0x1000 bytes */
    DOWN0 = 0x80,  /* expand-down data above 0x1000 */
    XONLY0 = 0x88,
    CODE64_WIDE = 0x90, /* L and D: reserved */
    SEL_TSS = 0xa0,     /* 16 bytes */
    SEL_LDT = 0xb0,     /* 16 bytes */
    SEL_TSS2 = 0xc0,    /* 16 bytes */
    GATE = 0xd0,        /* 16 bytes, filled by tests */
    SPARE = 0xe0,       /* 16 bytes, filled by tests */
    GDT_LIMIT = 0xff,
};

enum { TYPE_DATA = 0x13, TYPE_CODE = 0x1b, FLAG_L = 0x2000, FLAG_DB = 0x4000, FLAG_G = 0x8000 };

static struct hv_cpu_policy machine_policy;
static struct hv_cpu cpu, before;
static struct flat flat;
static struct hv_fault fault;

/* @attr as enum hv_seg_attr, type and S in the low five bits. */
static inline uint64_t descriptor_of(uint64_t base, uint32_t limit, uint32_t attr)
{
    return (limit & 0xffff) | (base & 0xffffff) << 16 | (uint64_t)(attr & 0xf0ff) << 40 |
           (uint64_t)(limit & 0xf0000) << 32 | (base >> 24 & 0xff) << 56;
}

static inline uint32_t attr_of(uint32_t type, unsigned dpl, uint32_t flags)
{
    return type | dpl << 5 | HV_SEG_ATTR_P | flags;
}

static inline void put_gdt(uint16_t selector, uint64_t descriptor)
{
    flat_poke(&flat, AT_GDT + (selector & 0xfff8u), 8, descriptor);
}

static inline uint64_t get_gdt(uint16_t selector)
{
    return flat_peek(&flat, AT_GDT + (selector & 0xfff8u), 8);
}

static inline uint64_t gate_of(unsigned type, unsigned dpl, uint16_t selector, uint32_t offset,
                               unsigned low_byte)
{
    return (offset & 0xffff) | (uint64_t)selector << 16 | (uint64_t)low_byte << 32 |
           (uint64_t)attr_of(type, dpl, 0) << 40 | (uint64_t)(offset >> 16) << 48;
}

/* An IDT gate of the mode's form. */
static inline void put_idt(unsigned vector, unsigned type, unsigned dpl, uint16_t selector,
                           uint64_t offset, unsigned ist)
{
    unsigned bytes = hv_cpu_long_mode(&cpu) ? 16 : 8;

    flat_poke(&flat, AT_IDT + vector * bytes, 8,
              gate_of(type, dpl, selector, (uint32_t)offset, ist));
    if (bytes == 16) {
        flat_poke(&flat, AT_IDT + vector * 16 + 8, 8, offset >> 32);
    }
}

static inline void machine_gdt(void)
{
    const uint32_t most = 0xfffff;

    put_gdt(CODE0, descriptor_of(0, most, attr_of(TYPE_CODE, 0, FLAG_DB | FLAG_G)));
    put_gdt(DATA0, descriptor_of(0, most, attr_of(TYPE_DATA, 0, FLAG_DB | FLAG_G)));
    put_gdt(CODE3, descriptor_of(0, most, attr_of(TYPE_CODE, 3, FLAG_DB | FLAG_G)));
    put_gdt(DATA3, descriptor_of(0, most, attr_of(TYPE_DATA, 3, FLAG_DB | FLAG_G)));
    put_gdt(CODE64_0, descriptor_of(0, most, attr_of(TYPE_CODE, 0, FLAG_L | FLAG_G)));
    put_gdt(CODE64_3, descriptor_of(0, most, attr_of(TYPE_CODE, 3, FLAG_L | FLAG_G)));
    put_gdt(CONFORMING0, descriptor_of(0, most, attr_of(TYPE_CODE | 4, 0, FLAG_DB | FLAG_G)));
    put_gdt(CODE16_0, descriptor_of(0, 0xffff, attr_of(TYPE_CODE, 0, 0)));
    put_gdt(DATA16_0, descriptor_of(0x20000, 0xffff, attr_of(TYPE_DATA, 0, 0)));
    put_gdt(CODE1, descriptor_of(0, most, attr_of(TYPE_CODE, 1, FLAG_DB | FLAG_G)));
    put_gdt(DATA1, descriptor_of(0, most, attr_of(TYPE_DATA, 1, FLAG_DB | FLAG_G)));
    put_gdt(ABSENT_CODE0, descriptor_of(0, most, attr_of(TYPE_CODE, 0, FLAG_DB | FLAG_G) & ~0x80u));
    put_gdt(ABSENT_DATA0, descriptor_of(0, most, attr_of(TYPE_DATA, 0, FLAG_DB | FLAG_G) & ~0x80u));
    put_gdt(READONLY0, descriptor_of(0, most, attr_of(0x11, 0, FLAG_DB | FLAG_G)));
    put_gdt(SMALL0, descriptor_of(0, 0xfff, attr_of(TYPE_DATA, 0, FLAG_DB)));
    put_gdt(DOWN0, descriptor_of(0, 0xfff, attr_of(TYPE_DATA | 4, 0, FLAG_DB)));
    put_gdt(XONLY0, descriptor_of(0, most, attr_of(0x19, 0, FLAG_DB | FLAG_G)));
    put_gdt(CODE64_WIDE, descriptor_of(0, most, attr_of(TYPE_CODE, 0, FLAG_L | FLAG_DB | FLAG_G)));
    put_gdt(SEL_TSS, descriptor_of(AT_TSS, 0x1fff, attr_of(HV_SYSTEM_TSS_BUSY, 0, 0)));
    put_gdt(SEL_LDT, descriptor_of(AT_LDT, 0xff, attr_of(HV_SYSTEM_LDT, 0, 0)));
    put_gdt(SEL_TSS2, descriptor_of(AT_TSS2, 0x67, attr_of(HV_SYSTEM_TSS, 0, 0)));
    cpu.gdtr = (struct hv_table_register){.base = AT_GDT, .limit = GDT_LIMIT};
}

static inline void machine_tss(enum machine_mode mode)
{
    cpu.seg[HV_SEG_TR] = (struct hv_segment){.selector = SEL_TSS,
                                             .base = AT_TSS,
                                             .limit = 0x1fff,
                                             .attr = attr_of(HV_SYSTEM_TSS_BUSY, 0, 0)};
    if (mode == MACHINE_LONG) {
        flat_poke(&flat, AT_TSS + 4, 8, STACK0);
        flat_poke(&flat, AT_TSS + 12, 8, STACK1);
        flat_poke(&flat, AT_TSS + 20, 8, STACK2);
        flat_poke(&flat, AT_TSS + 36, 8, STACK_IST1);
        return;
    }
    flat_poke(&flat, AT_TSS + 4, 4, STACK0);
    flat_poke(&flat, AT_TSS + 8, 2, DATA0);
    flat_poke(&flat, AT_TSS + 12, 4, STACK1);
    flat_poke(&flat, AT_TSS + 16, 2, DATA1 | 1);
}

/* One page of 4 KiB each, all user and writable, so that tests can close single ones. */
static inline void machine_paging(void)
{
    const uint64_t all = 7;
    uint64_t table = AT_TABLES + 0x3000;

    flat_poke(&flat, AT_TABLES, 8, (AT_TABLES + 0x1000) | all);
    flat_poke(&flat, AT_TABLES + 0x1000, 8, (AT_TABLES + 0x2000) | all);
    flat_poke(&flat, AT_TABLES + 0x2000, 8, table | all);
    for (uint64_t page = 0; page < FLAT_BYTES >> 12; page++) {
        flat_poke(&flat, table + page * 8, 8, page << 12 | 0x60 | all);
    }
    cpu.cr3 = AT_TABLES;
    cpu.cr4 = HV_CR4_PAE;
    cpu.efer = HV_EFER_LME | HV_EFER_LMA | HV_EFER_SCE | HV_EFER_NXE;
    cpu.cr0 |= HV_CR0_PG | HV_CR0_WP;
}

/* Change the page entry of @gva. */
static inline void page_bits(uint64_t gva, uint64_t set, uint64_t clear)
{
    uint64_t at = AT_TABLES + 0x3000 + (gva >> 12) * 8;

    flat_poke(&flat, at, 8, (flat_peek(&flat, at, 8) | set) & ~clear);
}

static inline void load_raw(enum hv_seg seg, uint16_t selector)
{
    struct hv_descriptor descriptor = {.low = get_gdt(selector)};
    struct hv_segment value = hv_descriptor_segment(&descriptor, selector);

    hv_segment_set(&cpu, seg, &value);
}

/* Put the CPU into ring @cpl of its mode; @code64 only counts in long mode. */
static inline void machine_ring(unsigned cpl, bool code64)
{
    static const uint16_t code[] = {CODE0, CODE1, 0, CODE3}, data[] = {DATA0, DATA1, 0, DATA3};
    static const uint64_t stack[] = {STACK0, STACK1, STACK2, STACK3};
    uint16_t cs = code64 ? (cpl == 3 ? CODE64_3 : CODE64_0) : code[cpl];

    cpu.cpl = (uint8_t)cpl;
    load_raw(HV_SEG_CS, (uint16_t)(cs | cpl));
    for (unsigned s = 0; s < HV_SEG_COUNT; s++) {
        if (s != HV_SEG_CS) {
            load_raw((enum hv_seg)s, (uint16_t)(data[cpl] | cpl));
        }
    }
    cpu.slot[HV_REG_RSP] = stack[cpl] - 0x100;
    cpu.rip = 0x8000;
}

static inline void machine_start(enum machine_mode mode)
{
    memset(&cpu, 0, sizeof(cpu));
    memset(&fault, 0, sizeof(fault));
    hv_cpu_policy_init(&machine_policy, 1, 2000000, true);
    cpu.policy = &machine_policy;
    flat_init(&flat, &cpu);
    hv_cpu_reset(&cpu, true);
    cpu.cr0 = HV_CR0_ET;
    cpu.rip = 0x8000;
    if (mode == MACHINE_REAL) {
        struct hv_segment cs = {.limit = 0xffff, .attr = 0x9b, .selector = 0x100, .base = 0x1000};

        hv_segment_set(&cpu, HV_SEG_CS, &cs);
        cpu.idtr = (struct hv_table_register){.base = AT_IDT, .limit = 0x3ff};
        cpu.slot[HV_REG_RSP] = 0x9000;
        return;
    }
    cpu.cr0 |= HV_CR0_PE;
    machine_gdt();
    machine_tss(mode);
    cpu.seg[HV_SEG_LDTR] = (struct hv_segment){.attr = HV_SEG_ATTR_UNUSABLE};
    cpu.idtr =
        (struct hv_table_register){.base = AT_IDT, .limit = mode == MACHINE_LONG ? 0xfff : 0x7ff};
    if (mode == MACHINE_LONG) {
        machine_paging();
    }
    machine_ring(0, mode == MACHINE_LONG);
    if (mode == MACHINE_V86) {
        cpu.cpl = 3;
        cpu.rflags |= HV_RFLAGS_VM;
        for (unsigned s = 0; s < HV_SEG_COUNT; s++) {
            struct hv_segment value = hv_segment_v86((uint16_t)(0x700 + s));

            hv_segment_set(&cpu, (enum hv_seg)s, &value);
        }
        cpu.slot[HV_REG_RSP] = 0x800;
        cpu.rip = 0x100;
    }
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Delivery of events: frames, rings, stacks, error codes, the double-fault rules, and that nothing
 * changes when an attempt has to be repeated. */
#include "cpu/event.h"

#include "unit/cpu/flat-machine.h"

#define HANDLER 0x12345u

static int deliver(enum hv_event_kind kind, uint8_t vector, uint64_t return_rip)
{
    return hv_event_deliver(&cpu, &flat.access, kind, vector, false, 0, return_rip, &fault);
}

static int raise_fault(uint8_t vector, bool has_error, uint32_t error, uint64_t cr2)
{
    struct hv_fault raised = {vector, has_error, error, cr2};

    return hv_event_exception(&cpu, &flat.access, &raised);
}

static uint64_t stack_at(unsigned index, unsigned unit)
{
    uint64_t base = hv_cpu_code64(&cpu) ? 0 : cpu.seg[HV_SEG_SS].base;

    return flat_peek(&flat, base + cpu.slot[HV_REG_RSP] + (uint64_t)index * unit, unit);
}

static void test_real(void)
{
    machine_start(MACHINE_REAL);
    flat_poke(&flat, AT_IDT + 0x21 * 4, 4, 0x20000456);
    hv_cpu_set_rflags(&cpu, HV_RFLAGS_IF | HV_RFLAGS_TF | HV_RFLAGS_CF | HV_RFLAGS_AC);
    cpu.sti_shadow = true;
    TAP_EQ(deliver(HV_EVENT_SOFTWARE, 0x21, 0x8002), 0);
    TAP_EQ(cpu.rip, 0x456);
    TAP_EQ(cpu.seg[HV_SEG_CS].selector, 0x2000);
    TAP_EQ(cpu.seg[HV_SEG_CS].base, 0x20000);
    TAP_EQ(cpu.slot[HV_REG_RSP], 0x8ffa);
    TAP_EQ(stack_at(0, 2), 0x8002);
    TAP_EQ(stack_at(1, 2), 0x100);
    TAP_EQ(stack_at(2, 2), HV_RFLAGS_IF | HV_RFLAGS_TF | HV_RFLAGS_CF | HV_RFLAGS_FIXED);
    TAP_EQ(hv_cpu_rflags(&cpu), HV_RFLAGS_CF | HV_RFLAGS_FIXED);
    TAP_OK(!cpu.sti_shadow);
    TAP_OK(machine_consistent());
}

/* SP wraps inside the frame: each word is at its own place, none is refused. */
static void test_real_stack_wraps(void)
{
    machine_start(MACHINE_REAL);
    cpu.slot[HV_REG_RSP] = 0xabcd0002;
    TAP_EQ(deliver(HV_EVENT_EXTERNAL, 8, 0x1234), 0);
    TAP_EQ(cpu.slot[HV_REG_RSP], 0xabcdfffc);
    TAP_EQ(flat_peek(&flat, 0xfffc, 2), 0x1234);
    TAP_EQ(flat_peek(&flat, 0xfffe, 2), 0x100);
    TAP_EQ(flat_peek(&flat, 0, 2) & HV_RFLAGS_FIXED, HV_RFLAGS_FIXED);

    /* An odd SP of 1 splits a word over the end of the segment. */
    machine_start(MACHINE_REAL);
    cpu.slot[HV_REG_RSP] = 1;
    snapshot();
    TAP_OK(faulted(deliver(HV_EVENT_SOFTWARE, 8, 0x1234), HV_VECTOR_SS, 0));
    TAP_OK(unchanged());
    TAP_EQ(flat_peek(&flat, 0xffff, 1), 0);
}

static void test_real_table_limit(void)
{
    machine_start(MACHINE_REAL);
    cpu.idtr.limit = 0x20 * 4 + 2;
    snapshot();
    TAP_OK(faulted(deliver(HV_EVENT_SOFTWARE, 0x20, 0), HV_VECTOR_GP, 0));
    TAP_OK(unchanged());
    /* With no vector reachable at all an exception ends in shutdown. */
    cpu.idtr.limit = 0;
    TAP_EQ(raise_fault(HV_VECTOR_UD, false, 0, 0), 0);
    TAP_EQ(cpu.activity, HV_ACTIVITY_SHUTDOWN);
}

struct gate_row {
    const char *why;
    uint8_t type;
    uint8_t unit;
    bool clears_if;
};

static const struct gate_row gate_rows[] = {
    {"interrupt gate", HV_SYSTEM_INTERRUPT_GATE, 4, true},
    {"trap gate", HV_SYSTEM_TRAP_GATE, 4, false},
    {"16-bit interrupt gate", HV_SYSTEM_INTERRUPT_GATE16, 2, true},
    {"16-bit trap gate", HV_SYSTEM_TRAP_GATE16, 2, false},
};

/* Same ring, then from ring 3. */
static void protected_gate(const struct gate_row *row, bool inner)
{
    const uint64_t flags =
        HV_RFLAGS_IF | HV_RFLAGS_NT | HV_RFLAGS_TF | HV_RFLAGS_ZF | HV_RFLAGS_AC | HV_RFLAGS_FIXED;
    uint64_t mask = row->unit == 2 ? 0xffff : UINT32_MAX;
    unsigned count = 0;

    machine_start(MACHINE_PROTECTED);
    machine_ring(inner ? 3 : 0, false);
    put_idt(13, row->type, 0, CODE0, HANDLER, 0);
    hv_cpu_set_rflags(&cpu, flags);
    snapshot();
    TAP_EQ(raise_fault(13, true, 0x5678, 0), 0);
    TAP_EQ(cpu.rip, HANDLER & mask);
    TAP_EQ(cpu.cpl, 0);
    TAP_EQ(cpu.seg[HV_SEG_CS].selector, CODE0);
    TAP_EQ(stack_at(count++, row->unit), 0x5678);
    TAP_EQ(stack_at(count++, row->unit), 0x8000);
    TAP_EQ(stack_at(count++, row->unit), before.seg[HV_SEG_CS].selector);
    TAP_EQ(stack_at(count++, row->unit), (flags | HV_RFLAGS_RF) & mask);
    if (inner) {
        TAP_EQ(stack_at(count++, row->unit), before.slot[HV_REG_RSP] & mask);
        TAP_EQ(stack_at(count++, row->unit), DATA3 | 3);
        TAP_EQ(cpu.seg[HV_SEG_SS].selector, DATA0);
    }
    TAP_EQ(cpu.slot[HV_REG_RSP] + (uint64_t)count * row->unit,
           inner ? STACK0 : before.slot[HV_REG_RSP]);
    TAP_EQ(hv_cpu_rflags(&cpu), HV_RFLAGS_ZF | HV_RFLAGS_AC | HV_RFLAGS_FIXED |
                                    (row->clears_if ? 0u : (uint64_t)HV_RFLAGS_IF));
    TAP_OK(machine_consistent());
}

static void test_protected_gates(void)
{
    for (size_t i = 0; i < HV_ARRAY_LEN(gate_rows); i++) {
        protected_gate(&gate_rows[i], false);
        protected_gate(&gate_rows[i], true);
        if (tap_failed()) {
            tap_note("row: %s", gate_rows[i].why);
            return;
        }
    }
}

static void test_conforming_handler(void)
{
    machine_start(MACHINE_PROTECTED);
    machine_ring(3, false);
    put_idt(0x30, HV_SYSTEM_INTERRUPT_GATE, 3, CONFORMING0, HANDLER, 0);
    TAP_EQ(deliver(HV_EVENT_EXTERNAL, 0x30, 0x8000), 0);
    TAP_EQ(cpu.cpl, 3);
    TAP_EQ(cpu.seg[HV_SEG_CS].selector, CONFORMING0 | 3);
    TAP_EQ(cpu.seg[HV_SEG_SS].selector, DATA3 | 3);
    TAP_EQ(stack_at(1, 4), CODE3 | 3);
    TAP_OK(machine_consistent());
}

/* What a bad gate or handler costs the instruction INT n (and, with EXT, anything else). */
static void test_gate_refusals(void)
{
    static const struct {
        const char *why;
        uint8_t type, dpl;
        uint16_t selector;
        uint8_t vector;
        uint16_t error;
    } rows[] = {
        {"DPL below CPL", HV_SYSTEM_TRAP_GATE, 0, CODE0, HV_VECTOR_GP, 0x30 * 8 + 2},
        {"no gate", HV_SYSTEM_LDT, 3, CODE0, HV_VECTOR_GP, 0x30 * 8 + 2},
        {"a call gate", HV_SYSTEM_CALL_GATE, 3, CODE0, HV_VECTOR_GP, 0x30 * 8 + 2},
        {"code as gate", TYPE_CODE, 3, CODE0, HV_VECTOR_GP, 0x30 * 8 + 2},
        {"null handler", HV_SYSTEM_TRAP_GATE, 3, 3, HV_VECTOR_GP, 0},
        {"handler beyond the GDT", HV_SYSTEM_TRAP_GATE, 3, 0x103, HV_VECTOR_GP, 0x100},
        {"data as handler", HV_SYSTEM_TRAP_GATE, 3, DATA0, HV_VECTOR_GP, DATA0},
        {"absent handler", HV_SYSTEM_TRAP_GATE, 3, ABSENT_CODE0, HV_VECTOR_NP, ABSENT_CODE0},
    };

    for (size_t i = 0; i < HV_ARRAY_LEN(rows); i++) {
        machine_start(MACHINE_PROTECTED);
        machine_ring(3, false);
        put_idt(0x30, rows[i].type, rows[i].dpl, rows[i].selector, HANDLER, 0);
        snapshot();
        if (!faulted(deliver(HV_EVENT_SOFTWARE, 0x30, 0x8002), (enum hv_vector)rows[i].vector,
                     rows[i].error) ||
            !unchanged()) {
            tap_fail(__FILE__, __LINE__, "row: %s", rows[i].why);
            return;
        }
    }
    machine_start(MACHINE_PROTECTED);
    put_idt(0x30, HV_SYSTEM_TRAP_GATE, 3, CODE3, HANDLER, 0);
    TAP_OK(faulted(deliver(HV_EVENT_SOFTWARE, 0x30, 0), HV_VECTOR_GP, CODE3)); /* outer ring */
    flat_poke(&flat, AT_IDT + 0x30 * 8, 8,
              gate_of(HV_SYSTEM_TRAP_GATE, 3, CODE0, HANDLER, 0) & ~HV_BIT(47));
    TAP_OK(faulted(deliver(HV_EVENT_SOFTWARE, 0x30, 0), HV_VECTOR_NP, 0x30 * 8 + 2));
    put_idt(0x30, HV_SYSTEM_TRAP_GATE, 3, CODE16_0, 0x10000, 0);
    TAP_OK(faulted(deliver(HV_EVENT_SOFTWARE, 0x30, 0), HV_VECTOR_GP, 0)); /* beyond its limit */
    cpu.idtr.limit = 0x30 * 8 + 6;
    TAP_OK(faulted(deliver(HV_EVENT_SOFTWARE, 0x30, 0), HV_VECTOR_GP, 0x30 * 8 + 2));
}

/* The handler's ring gets its stack from the TSS: each thing that can be wrong with it. */
static void test_inner_stack_refusals(void)
{
    static const struct {
        const char *why;
        uint16_t ss;
        uint8_t vector;
        uint16_t error;
    } rows[] = {
        {"null", 0, HV_VECTOR_TS, 0},
        {"beyond the GDT", 0x100, HV_VECTOR_TS, 0x100},
        {"RPL", DATA0 | 3, HV_VECTOR_TS, DATA0},
        {"DPL", DATA3, HV_VECTOR_TS, DATA3},
        {"read-only", READONLY0, HV_VECTOR_TS, READONLY0},
        {"absent", ABSENT_DATA0, HV_VECTOR_SS, ABSENT_DATA0},
        {"too small", SMALL0, HV_VECTOR_SS, SMALL0},
    };

    for (size_t i = 0; i < HV_ARRAY_LEN(rows); i++) {
        machine_start(MACHINE_PROTECTED);
        machine_ring(3, false);
        put_idt(0x30, HV_SYSTEM_TRAP_GATE, 3, CODE0, HANDLER, 0);
        flat_poke(&flat, AT_TSS + 8, 2, rows[i].ss);
        snapshot();
        if (!faulted(deliver(HV_EVENT_SOFTWARE, 0x30, 0), (enum hv_vector)rows[i].vector,
                     rows[i].error) ||
            !unchanged()) {
            tap_fail(__FILE__, __LINE__, "row: %s", rows[i].why);
            return;
        }
    }
    cpu.seg[HV_SEG_TR].limit = 8;
    TAP_OK(faulted(deliver(HV_EVENT_SOFTWARE, 0x30, 0), HV_VECTOR_TS, SEL_TSS));
}

static void test_v86(void)
{
    machine_start(MACHINE_V86);
    put_idt(0x30, HV_SYSTEM_INTERRUPT_GATE, 3, CODE0, HANDLER, 0);
    snapshot();
    /* INT n wants IOPL 3; INT3, INTO and real events do not. */
    TAP_OK(faulted(deliver(HV_EVENT_SOFTWARE, 0x30, 0x102), HV_VECTOR_GP, 0));
    TAP_OK(unchanged());
    cpu.rflags |= HV_RFLAGS_IOPL;
    TAP_EQ(deliver(HV_EVENT_SOFTWARE, 0x30, 0x102), 0);
    TAP_EQ(cpu.cpl, 0);
    TAP_OK(!hv_cpu_v86(&cpu));
    TAP_EQ(cpu.slot[HV_REG_RSP], STACK0 - 36);
    TAP_EQ(stack_at(0, 4), 0x102);
    TAP_EQ(stack_at(1, 4), 0x701);
    TAP_EQ(stack_at(2, 4), HV_RFLAGS_VM | HV_RFLAGS_IOPL | HV_RFLAGS_FIXED);
    TAP_EQ(stack_at(3, 4), 0x800);
    TAP_EQ(stack_at(4, 4), 0x702); /* SS, then ES DS FS GS */
    TAP_EQ(stack_at(5, 4), 0x700);
    TAP_EQ(stack_at(6, 4), 0x703);
    TAP_EQ(stack_at(7, 4), 0x704);
    TAP_EQ(stack_at(8, 4), 0x705);
    TAP_EQ(cpu.seg[HV_SEG_GS].selector, 0);
    TAP_OK(cpu.seg[HV_SEG_DS].attr & HV_SEG_ATTR_UNUSABLE);
    TAP_OK(machine_consistent());

    machine_start(MACHINE_V86);
    put_idt(0x30, HV_SYSTEM_INTERRUPT_GATE, 3, CONFORMING0, HANDLER, 0);
    put_idt(0x31, HV_SYSTEM_INTERRUPT_GATE, 3, CODE1, HANDLER, 0);
    TAP_OK(faulted(deliver(HV_EVENT_SOFTWARE_EXCEPTION, 0x30, 0), HV_VECTOR_GP, CONFORMING0));
    TAP_OK(faulted(deliver(HV_EVENT_SOFTWARE_EXCEPTION, 0x31, 0), HV_VECTOR_GP, CODE1));
}

static void test_long_frames(void)
{
    static const struct {
        uint8_t cpl, ist;
        bool error;
        uint64_t top;
    } rows[] = {
        {0, 0, false, (STACK0 - 0x107) & ~15u},
        {0, 0, true, (STACK0 - 0x107) & ~15u},
        {0, 1, true, STACK_IST1},
        {3, 0, false, STACK0},
        {3, 0, true, STACK0},
        {3, 1, false, STACK_IST1},
    };

    for (size_t i = 0; i < HV_ARRAY_LEN(rows); i++) {
        unsigned count = 0;
        uint16_t old_ss;
        uint64_t old_rsp;

        machine_start(MACHINE_LONG);
        machine_ring(rows[i].cpl, true);
        put_idt(14, HV_SYSTEM_INTERRUPT_GATE, 0, CODE64_0, UINT64_C(0xffffffff81000000),
                rows[i].ist);
        old_rsp = cpu.slot[HV_REG_RSP] -= 7; /* not aligned */
        old_ss = cpu.seg[HV_SEG_SS].selector;
        TAP_EQ(raise_fault(14, rows[i].error, 0x6, 0x7777000), 0);
        TAP_EQ(cpu.rip, UINT64_C(0xffffffff81000000));
        TAP_EQ(cpu.cr2, 0x7777000);
        TAP_EQ(cpu.cpl, 0);
        if (rows[i].error) {
            TAP_EQ(stack_at(count++, 8), 6);
        }
        TAP_EQ(stack_at(count++, 8), 0x8000);
        TAP_EQ(stack_at(count++, 8), CODE64_0 + (rows[i].cpl ? CODE64_3 - CODE64_0 + 3u : 0u));
        TAP_EQ(stack_at(count++, 8), HV_RFLAGS_FIXED | HV_RFLAGS_RF);
        TAP_EQ(stack_at(count++, 8), old_rsp);
        TAP_EQ(stack_at(count++, 8), old_ss);
        TAP_EQ(cpu.slot[HV_REG_RSP] + count * 8, rows[i].top);
        TAP_EQ(cpu.seg[HV_SEG_SS].selector, rows[i].cpl ? 0 : DATA0);
        TAP_EQ(!!(cpu.seg[HV_SEG_SS].attr & HV_SEG_ATTR_UNUSABLE), rows[i].cpl != 0);
        TAP_OK(machine_consistent());
    }
}

/* Out of compatibility mode, on the same ring: the handler is 64-bit and takes RSP as it is. */
static void test_long_from_compat(void)
{
    machine_start(MACHINE_LONG);
    machine_ring(3, false);
    put_idt(0x30, HV_SYSTEM_TRAP_GATE, 3, CODE64_0, HANDLER, 0);
    TAP_EQ(deliver(HV_EVENT_SOFTWARE, 0x30, 0x8002), 0);
    TAP_OK(hv_cpu_code64(&cpu));
    TAP_EQ(stack_at(1, 8), CODE3 | 3);
    TAP_EQ(stack_at(4, 8), DATA3 | 3);
    TAP_EQ(cpu.slot[HV_SLOT_SEG_BASE + HV_SEG_DS], 0);
    TAP_OK(machine_consistent());
}

static void test_long_refusals(void)
{
    machine_start(MACHINE_LONG);
    put_idt(0x30, HV_SYSTEM_TRAP_GATE, 3, CODE0, HANDLER, 0);
    TAP_OK(faulted(deliver(HV_EVENT_SOFTWARE, 0x30, 0), HV_VECTOR_GP, CODE0)); /* not 64-bit */
    put_idt(0x30, HV_SYSTEM_TRAP_GATE, 3, CODE64_WIDE, HANDLER, 0);
    TAP_OK(faulted(deliver(HV_EVENT_SOFTWARE, 0x30, 0), HV_VECTOR_GP, CODE64_WIDE));
    put_idt(0x30, HV_SYSTEM_TRAP_GATE16, 3, CODE64_0, HANDLER, 0);
    TAP_OK(faulted(deliver(HV_EVENT_SOFTWARE, 0x30, 0), HV_VECTOR_GP, 0x182));
    put_idt(0x30, HV_SYSTEM_TASK_GATE, 3, SEL_TSS2, HANDLER, 0);
    TAP_OK(faulted(deliver(HV_EVENT_SOFTWARE, 0x30, 0), HV_VECTOR_GP, 0x182));
    put_idt(0x30, HV_SYSTEM_TRAP_GATE, 3, CODE64_0, UINT64_C(0x800000000000), 0);
    TAP_OK(faulted(deliver(HV_EVENT_SOFTWARE, 0x30, 0), HV_VECTOR_GP, 0));
    put_idt(0x30, HV_SYSTEM_TRAP_GATE, 3, CODE64_0, HANDLER, 0);
    cpu.slot[HV_REG_RSP] = UINT64_C(0x800000000020);
    snapshot();
    TAP_OK(faulted(deliver(HV_EVENT_SOFTWARE, 0x30, 0), HV_VECTOR_SS, 0));
    TAP_OK(unchanged());
    put_idt(0x30, HV_SYSTEM_TRAP_GATE, 3, CODE64_0, HANDLER, 7);
    cpu.seg[HV_SEG_TR].limit = 0x5a;
    TAP_OK(faulted(deliver(HV_EVENT_SOFTWARE, 0x30, 0), HV_VECTOR_TS, SEL_TSS));
    cpu.idtr.limit = 0x30e;
    TAP_OK(faulted(deliver(HV_EVENT_SOFTWARE, 0x30, 0), HV_VECTOR_GP, 0x182));
}

/* Which frame ends up with whom, by the second fault's kind. The first handler's stack is lost; the
 * second's is on an IST. */
static void test_double_fault_table(void)
{
    enum { PF = 14, DF = 8, NP = 11, GP = 13, UD = 6, DE = 0, AC = 17, TS = 10 };
    static const struct {
        uint8_t first;
        bool page_fault; /* the second is #PF, else #NP of the handler's segment */
        uint8_t lands;
    } rows[] = {
        {UD, false, NP}, {UD, true, PF}, {AC, false, NP}, {GP, false, DF}, {DE, false, DF},
        {TS, false, DF}, {GP, true, PF}, {PF, false, DF}, {PF, true, DF},
    };

    for (size_t i = 0; i < HV_ARRAY_LEN(rows); i++) {
        unsigned first = rows[i].first, lands = rows[i].lands;
        uint32_t error = 0;

        machine_start(MACHINE_LONG);
        machine_ring(3, true);
        put_idt(PF, HV_SYSTEM_INTERRUPT_GATE, 0, CODE64_0, 0x40000 + PF, 1);
        put_idt(DF, HV_SYSTEM_INTERRUPT_GATE, 0, CODE64_0, 0x40000 + DF, 1);
        put_idt(NP, HV_SYSTEM_INTERRUPT_GATE, 0, CODE64_0, 0x40000 + NP, 1);
        if (rows[i].page_fault) {
            put_idt(first, HV_SYSTEM_INTERRUPT_GATE, 0, CODE64_0, 0x99000, 0);
            page_bits(STACK0 - 8, 0, 1);
            error = 2; /* a write by the new ring, page not present */
        } else {
            put_idt(first, HV_SYSTEM_INTERRUPT_GATE, 0, ABSENT_CODE0, 0x99000, 0);
            put_gdt(ABSENT_CODE0, get_gdt(CODE64_0) & ~HV_BIT(47));
            error = ABSENT_CODE0 | 1;
        }
        if (lands == DF) {
            error = 0;
        }
        TAP_EQ(raise_fault((uint8_t)first, first != UD && first != DE, 0x77, 0x5000), 0);
        TAP_EQ(cpu.activity, HV_ACTIVITY_RUNNING);
        TAP_EQ(cpu.rip, 0x40000 + lands);
        TAP_EQ(stack_at(0, 8), error);
        TAP_EQ(stack_at(1, 8), 0x8000);
        TAP_EQ(stack_at(2, 8), CODE64_3 | 3);
        TAP_EQ(cpu.cr2, rows[i].page_fault ? STACK0 - 40u - (first != UD && first != DE ? 8u : 0u)
                                           : (first == PF ? 0x5000u : 0u));
    }
}

static void test_triple_fault(void)
{
    machine_start(MACHINE_LONG);
    snapshot();
    TAP_EQ(raise_fault(HV_VECTOR_GP, true, 0, 0), 0); /* an IDT of zeros */
    TAP_EQ(cpu.activity, HV_ACTIVITY_SHUTDOWN);
    TAP_EQ(cpu.rip, before.rip);
    TAP_EQ(cpu.slot[HV_REG_RSP], before.slot[HV_REG_RSP]);

    machine_start(MACHINE_PROTECTED);
    cpu.idtr.limit = 0;
    TAP_EQ(deliver(HV_EVENT_NMI, 2, cpu.rip), 0);
    TAP_EQ(cpu.activity, HV_ACTIVITY_SHUTDOWN);
}

/* The stack of the new ring is reached with the new ring's rights. */
static void test_stack_rights(void)
{
    machine_start(MACHINE_LONG);
    machine_ring(3, true);
    put_idt(0x30, HV_SYSTEM_INTERRUPT_GATE, 3, CODE64_0, HANDLER, 0);
    page_bits(STACK0 - 8, 0, 4); /* a supervisor page: ring 3 could not write there */
    TAP_EQ(deliver(HV_EVENT_SOFTWARE, 0x30, 0x8002), 0);

    machine_start(MACHINE_LONG);
    machine_ring(3, true);
    put_idt(0x30, HV_SYSTEM_INTERRUPT_GATE, 3, CODE64_0, HANDLER, 0);
    cpu.cr4 |= HV_CR4_SMAP; /* the stack is a user page, and so are the tables */
    page_bits(AT_IDT, 0, 4);
    page_bits(AT_GDT, 0, 4);
    page_bits(AT_TSS, 0, 4);
    snapshot();
    TAP_OK(faulted(deliver(HV_EVENT_SOFTWARE, 0x30, 0x8002), HV_VECTOR_PF, 3));
    TAP_OK(unchanged());
    cpu.rflags |= HV_RFLAGS_AC; /* an explicit access: AC opens it */
    TAP_EQ(deliver(HV_EVENT_SOFTWARE, 0x30, 0x8002), 0);
    TAP_OK(cpu.rflags & HV_RFLAGS_AC);
}

static void test_tables_are_implicit(void)
{
    machine_start(MACHINE_LONG);
    machine_ring(3, true);
    put_idt(0x30, HV_SYSTEM_INTERRUPT_GATE, 3, CODE64_0, HANDLER, 0);
    page_bits(AT_IDT, 0, 4); /* supervisor pages are reached from ring 3 */
    page_bits(AT_GDT, 0, 4);
    page_bits(AT_TSS, 0, 4);
    TAP_EQ(deliver(HV_EVENT_SOFTWARE, 0x30, 0x8002), 0);

    machine_start(MACHINE_LONG);
    put_idt(0x30, HV_SYSTEM_INTERRUPT_GATE, 3, CODE64_0, HANDLER, 0);
    cpu.cr4 |= HV_CR4_SMAP;
    cpu.rflags |= HV_RFLAGS_AC; /* does not open user pages to implicit accesses */
    TAP_OK(faulted(deliver(HV_EVENT_SOFTWARE, 0x30, 0x8002), HV_VECTOR_PF, 1));
    TAP_EQ(fault.cr2, AT_IDT + 0x300);
}

static void test_nmi_blocking(void)
{
    machine_start(MACHINE_LONG);
    put_idt(2, HV_SYSTEM_INTERRUPT_GATE, 0, CODE64_0, HANDLER, 1);
    cpu.nmi_pending = true;
    cpu.activity = HV_ACTIVITY_HALTED;
    cpu.mov_ss_shadow = true;
    TAP_EQ(hv_event_poll(&cpu, &flat.access), 0);
    cpu.mov_ss_shadow = false;
    cpu.sti_shadow = true;
    TAP_EQ(hv_event_poll(&cpu, &flat.access), 1);
    TAP_EQ(cpu.rip, HANDLER);
    TAP_OK(cpu.nmi_blocked && !cpu.nmi_pending && !cpu.sti_shadow);
    TAP_EQ(cpu.activity, HV_ACTIVITY_RUNNING);
    cpu.nmi_pending = true;
    TAP_EQ(hv_event_poll(&cpu, &flat.access), 0);
    TAP_OK(!hv_event_deliverable(&cpu));
}

static void test_poll_interrupt(void)
{
    machine_start(MACHINE_LONG);
    put_idt(0x41, HV_SYSTEM_INTERRUPT_GATE, 0, CODE64_0, HANDLER, 0);
    put_idt(2, HV_SYSTEM_INTERRUPT_GATE, 0, CODE64_0, 0x2222, 0);
    flat.interrupt = 0x41;
    TAP_EQ(hv_event_poll(&cpu, &flat.access), 0); /* IF is clear */
    cpu.rflags |= HV_RFLAGS_IF;
    cpu.sti_shadow = true;
    TAP_EQ(hv_event_poll(&cpu, &flat.access), 0);
    cpu.sti_shadow = false;
    cpu.mov_ss_shadow = true;
    TAP_EQ(hv_event_poll(&cpu, &flat.access), 0);
    cpu.mov_ss_shadow = false;
    cpu.activity = HV_ACTIVITY_WAIT_SIPI;
    TAP_EQ(hv_event_poll(&cpu, &flat.access), 0);
    cpu.activity = HV_ACTIVITY_SHUTDOWN;
    TAP_EQ(hv_event_poll(&cpu, &flat.access), 0);
    TAP_EQ(flat.acknowledged, 0);
    cpu.activity = HV_ACTIVITY_HALTED;
    TAP_OK(hv_event_deliverable(&cpu));
    cpu.nmi_pending = true; /* goes first */
    TAP_EQ(hv_event_poll(&cpu, &flat.access), 1);
    TAP_EQ(cpu.rip, 0x2222);
    TAP_EQ(flat.acknowledged, 0);
    cpu.rflags |= HV_RFLAGS_IF;
    TAP_EQ(hv_event_poll(&cpu, &flat.access), 1);
    TAP_EQ(cpu.rip, HANDLER);
    TAP_EQ(flat.acknowledged, 1);
    TAP_EQ(stack_at(0, 8), 0x2222);
    TAP_EQ(cpu.latched_interrupt, 0);
}

static int gone(void *context)
{
    (void)context;
    return -1;
}

static void test_poll_spurious(void)
{
    struct hv_cpu_hooks hooks = flat_hooks;

    machine_start(MACHINE_LONG);
    hooks.interrupt_acknowledge = gone;
    cpu.hooks = &hooks;
    cpu.rflags |= HV_RFLAGS_IF;
    flat.interrupt = 0x41;
    snapshot();
    TAP_EQ(hv_event_poll(&cpu, &flat.access), 0);
    TAP_OK(unchanged());
}

/* -EAGAIN at every access in turn: the acknowledged vector is kept, nothing else has changed, and
 * the attempt that goes through ends as if there had been no other. */
static void test_poll_again(void)
{
    static struct hv_cpu clean;
    unsigned most = 0;

    for (unsigned again = 0;; again++) {
        machine_start(MACHINE_LONG);
        machine_ring(3, true);
        put_idt(0x41, HV_SYSTEM_INTERRUPT_GATE, 0, CODE64_0, HANDLER, 0);
        cpu.rflags |= HV_RFLAGS_IF;
        cpu.activity = HV_ACTIVITY_HALTED;
        flat.interrupt = 0x41;
        flat.again_after = again;
        snapshot();
        if (again == 0) {
            TAP_EQ(hv_event_poll(&cpu, &flat.access), 1);
            memcpy(&clean, &cpu, sizeof(cpu));
            most = flat.accesses;
            continue;
        }
        TAP_EQ((uint64_t)hv_event_poll(&cpu, &flat.access), (uint64_t)-EAGAIN);
        TAP_EQ(cpu.latched_interrupt, HV_LATCHED_INTERRUPT | 0x41);
        TAP_OK(hv_event_deliverable(&cpu));
        cpu.latched_interrupt = 0;
        TAP_OK(unchanged());
        cpu.latched_interrupt = HV_LATCHED_INTERRUPT | 0x41;
        TAP_EQ(hv_event_poll(&cpu, &flat.access), 1);
        TAP_EQ(flat.acknowledged, 1);
        TAP_OK(same_cpu(&clean, &cpu));
        if (again == most) {
            break;
        }
    }
    TAP_OK(most >= 9); /* gate twice, code, RSP0, frame probed and written */
}

/* A page lost at every access in turn, in every mode: INT n changes nothing, an exception reaches a
 * handler or shutdown with a consistent CPU. */
static void lose_pages(enum machine_mode mode, bool software)
{
    unsigned most = 64;

    for (unsigned lost = 0; lost <= most; lost++) {
        int result;

        machine_start(mode);
        if (mode != MACHINE_REAL) {
            uint16_t code = mode == MACHINE_LONG ? CODE64_0 : CODE0;

            for (unsigned vector = 0; vector < 32; vector++) {
                put_idt(vector, HV_SYSTEM_INTERRUPT_GATE, 3, code, HANDLER + vector, 0);
            }
        }
        if (mode == MACHINE_PROTECTED || mode == MACHINE_LONG) {
            machine_ring(3, mode == MACHINE_LONG);
        }
        flat.fault_after = lost;
        snapshot();
        if (software) {
            result = deliver(HV_EVENT_SOFTWARE_EXCEPTION, 3, cpu.rip + 1);
            TAP_EQ(result, lost ? HV_FAULTED : 0);
            TAP_OK(!lost || (unchanged() && fault.cr2 == FLAT_LOST));
        } else {
            result = raise_fault(HV_VECTOR_UD, false, 0, 0);
            TAP_EQ(result, 0);
            TAP_EQ(cpu.activity, HV_ACTIVITY_RUNNING);
            TAP_EQ(cpu.cr2, lost ? FLAT_LOST : 0);
            if (mode != MACHINE_REAL) {
                TAP_EQ(cpu.rip, HANDLER + (lost ? 14u : 6u));
            }
        }
        TAP_OK(machine_consistent());
        if (lost == 0) {
            most = flat.accesses;
            TAP_OK(most >= 5);
        }
    }
}

static void test_lost_pages(void)
{
    for (unsigned mode = MACHINE_REAL; mode <= MACHINE_LONG && !tap_failed(); mode++) {
        lose_pages((enum machine_mode)mode, true);
        lose_pages((enum machine_mode)mode, false);
    }
}

static void test_debug_exception(void)
{
    machine_start(MACHINE_LONG);
    put_idt(1, HV_SYSTEM_INTERRUPT_GATE, 0, CODE64_0, HANDLER, 0);
    cpu.dr[7] |= HV_DR7_GD;
    TAP_EQ(raise_fault(HV_VECTOR_DB, false, 0, 0), 0);
    TAP_OK(!(cpu.dr[7] & HV_DR7_GD));
    TAP_EQ(stack_at(2, 8) & HV_RFLAGS_RF, 0);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"cpu.event.real", test_real},
        {"cpu.event.real-stack-wraps", test_real_stack_wraps},
        {"cpu.event.real-table-limit", test_real_table_limit},
        {"cpu.event.protected-gates", test_protected_gates},
        {"cpu.event.conforming-handler", test_conforming_handler},
        {"cpu.event.gate-refusals", test_gate_refusals},
        {"cpu.event.inner-stack-refusals", test_inner_stack_refusals},
        {"cpu.event.v86", test_v86},
        {"cpu.event.long-frames", test_long_frames},
        {"cpu.event.long-from-compat", test_long_from_compat},
        {"cpu.event.long-refusals", test_long_refusals},
        {"cpu.event.double-fault-table", test_double_fault_table},
        {"cpu.event.triple-fault", test_triple_fault},
        {"cpu.event.stack-rights", test_stack_rights},
        {"cpu.event.tables-are-implicit", test_tables_are_implicit},
        {"cpu.event.nmi-blocking", test_nmi_blocking},
        {"cpu.event.poll-interrupt", test_poll_interrupt},
        {"cpu.event.poll-spurious", test_poll_spurious},
        {"cpu.event.poll-again", test_poll_again},
        {"cpu.event.lost-pages", test_lost_pages},
        {"cpu.event.debug-exception", test_debug_exception},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Delivery of one event: frames, rings, stacks and error codes in every mode. */
#include "unit/cpu/event-case.h"

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
    put_idt(0x30, HV_SYSTEM_TRAP_GATE, 3, CODE16_0, 0xffff, 0);
    cpu.idtr.limit = 0x30 * 8 + 7; /* the last bytes of both count */
    TAP_EQ(deliver(HV_EVENT_SOFTWARE, 0x30, 0), 0);
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
    flat_poke(&flat, AT_TSS + 8, 2, DATA0);
    cpu.seg[HV_SEG_TR].limit = 9; /* SS0 is the last that counts */
    TAP_EQ(deliver(HV_EVENT_SOFTWARE, 0x30, 0), 0);
    machine_ring(3, false);
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
    flat_poke(&flat, AT_IDT + 0x30c, 4, 0x100); /* type of the upper half */
    TAP_OK(faulted(deliver(HV_EVENT_SOFTWARE, 0x30, 0), HV_VECTOR_GP, 0x182));
    flat_poke(&flat, AT_IDT + 0x30c, 4, 0);
    cpu.slot[HV_REG_RSP] = UINT64_C(0x800000000020);
    snapshot();
    TAP_OK(faulted(deliver(HV_EVENT_SOFTWARE, 0x30, 0), HV_VECTOR_SS, 0));
    TAP_OK(unchanged());
    put_idt(0x30, HV_SYSTEM_TRAP_GATE, 3, CODE64_0, HANDLER, 7);
    cpu.seg[HV_SEG_TR].limit = 0x5a;
    TAP_OK(faulted(deliver(HV_EVENT_SOFTWARE, 0x30, 0), HV_VECTOR_TS, SEL_TSS));
    cpu.seg[HV_SEG_TR].limit = 0x5b;
    TAP_OK(faulted(deliver(HV_EVENT_SOFTWARE, 0x30, 0), HV_VECTOR_PF, 2)); /* IST 7 is 0 */
    cpu.idtr.limit = 0x30e;
    TAP_OK(faulted(deliver(HV_EVENT_SOFTWARE, 0x30, 0), HV_VECTOR_GP, 0x182));
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
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

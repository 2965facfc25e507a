/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Which event is delivered when: the double-fault rules, NMI and interrupt windows, and that nothing
 * changes when an attempt faults or has to be repeated. */
#include "unit/cpu/event-case.h"

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
        TAP_EQ(cpu.cr2, rows[i].page_fault ? STACK0 - 8u : (first == PF ? 0x5000u : 0u));
    }
}

/* The same faults while an external interrupt is delivered: EXT is set, and their handlers run at
 * the interrupted address. */
static void test_external_bit(void)
{
    static const struct {
        const char *why;
        uint8_t type;
        uint16_t selector, ss;
        uint8_t lands;
        uint16_t error;
    } rows[] = {
        {"no gate", HV_SYSTEM_LDT, CODE0, DATA0, HV_VECTOR_GP, 0x41 * 8 + 3},
        {"null handler", HV_SYSTEM_TRAP_GATE, 0, DATA0, HV_VECTOR_GP, 1},
        {"beyond the GDT", HV_SYSTEM_TRAP_GATE, 0x100, DATA0, HV_VECTOR_GP, 0x101},
        {"data", HV_SYSTEM_TRAP_GATE, DATA0, DATA0, HV_VECTOR_GP, DATA0 | 1},
        {"absent", HV_SYSTEM_TRAP_GATE, ABSENT_CODE0, DATA0, HV_VECTOR_NP, ABSENT_CODE0 | 1},
        {"offset", HV_SYSTEM_TRAP_GATE, CODE16_0, DATA0, HV_VECTOR_GP, 1},
        {"null stack", HV_SYSTEM_TRAP_GATE, CODE0, 0, HV_VECTOR_TS, 1},
        {"stack beyond", HV_SYSTEM_TRAP_GATE, CODE0, 0x100, HV_VECTOR_TS, 0x101},
        {"stack DPL", HV_SYSTEM_TRAP_GATE, CODE0, DATA3, HV_VECTOR_TS, DATA3 | 1},
        {"absent stack", HV_SYSTEM_TRAP_GATE, CODE0, ABSENT_DATA0, HV_VECTOR_SS, ABSENT_DATA0 | 1},
        {"small stack", HV_SYSTEM_TRAP_GATE, CODE0, SMALL0, HV_VECTOR_SS, SMALL0 | 1},
        {"busy task", HV_SYSTEM_TASK_GATE, SEL_TSS, DATA0, HV_VECTOR_GP, SEL_TSS | 1},
    };

    for (size_t i = 0; i < HV_ARRAY_LEN(rows); i++) {
        machine_start(MACHINE_PROTECTED);
        machine_ring(3, false);
        put_idt(0x41, rows[i].type, 0, rows[i].selector, HANDLER, 0);
        /* The faults' handlers conform: they need no stack of their own. */
        for (unsigned vector = 8; vector < 15; vector++) {
            put_idt(vector, HV_SYSTEM_INTERRUPT_GATE, 0, CONFORMING0, 0x40000 + vector, 0);
        }
        flat_poke(&flat, AT_TSS + 8, 2, rows[i].ss);
        if (deliver(HV_EVENT_EXTERNAL, 0x41, cpu.rip) != 0 || cpu.rip != 0x40000u + rows[i].lands ||
            stack_at(0, 4) != rows[i].error || stack_at(1, 4) != 0x8000) {
            tap_fail(__FILE__, __LINE__, "row: %s: rip %#" PRIx64 ", error %#" PRIx64, rows[i].why,
                     cpu.rip, stack_at(0, 4));
            return;
        }
    }
}

static void test_external_bit_long(void)
{
    machine_start(MACHINE_LONG);
    put_idt(0x41, HV_SYSTEM_INTERRUPT_GATE, 0, CODE64_0, HANDLER, 7);
    put_idt(HV_VECTOR_TS, HV_SYSTEM_INTERRUPT_GATE, 0, CODE64_0, 0x40000, 0);
    put_idt(HV_VECTOR_SS, HV_SYSTEM_INTERRUPT_GATE, 0, CODE64_0, 0x50000, 1);
    cpu.seg[HV_SEG_TR].limit = 0x5a;
    TAP_EQ(deliver(HV_EVENT_EXTERNAL, 0x41, cpu.rip), 0);
    TAP_EQ(cpu.rip, 0x40000);
    TAP_EQ(stack_at(0, 8), SEL_TSS | 1);

    put_idt(0x41, HV_SYSTEM_INTERRUPT_GATE, 0, CODE64_0, HANDLER, 0);
    cpu.slot[HV_REG_RSP] = UINT64_C(0x800000000020);
    TAP_EQ(deliver(HV_EVENT_EXTERNAL, 0x41, cpu.rip), 0);
    TAP_EQ(cpu.rip, 0x50000);
    TAP_EQ(stack_at(0, 8), 1);
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

/* A conforming handler on an IST stack still runs in ring 3, and writes there as ring 3. */
static void test_stack_rights_of_ring3(void)
{
    machine_start(MACHINE_LONG);
    machine_ring(3, true);
    put_gdt(SPARE, get_gdt(CODE64_0) | (uint64_t)HV_SEG_ATTR_EXPAND_DOWN << 40);
    put_idt(0x30, HV_SYSTEM_INTERRUPT_GATE, 3, SPARE, HANDLER, 1);
    page_bits(STACK_IST1 - 8, 0, 4);
    TAP_OK(faulted(deliver(HV_EVENT_SOFTWARE, 0x30, 0x8002), HV_VECTOR_PF, 7));
    page_bits(STACK_IST1 - 8, 4, 0);
    TAP_EQ(deliver(HV_EVENT_SOFTWARE, 0x30, 0x8002), 0);
    TAP_EQ(cpu.cpl, 3);
    TAP_EQ(cpu.slot[HV_REG_RSP], STACK_IST1 - 40);
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
    TAP_EQ(hv_event_poll(&cpu, &flat.access), 0);
    cpu.sti_shadow = false;
    TAP_EQ(hv_event_poll(&cpu, &flat.access), 1);
    TAP_EQ(cpu.rip, HANDLER);
    TAP_OK(cpu.nmi_blocked && !cpu.nmi_pending);
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
        {"cpu.event-chain.double-fault-table", test_double_fault_table},
        {"cpu.event-chain.external-bit", test_external_bit},
        {"cpu.event-chain.external-bit-long", test_external_bit_long},
        {"cpu.event-chain.triple-fault", test_triple_fault},
        {"cpu.event-chain.stack-rights", test_stack_rights},
        {"cpu.event-chain.stack-rights-of-ring3", test_stack_rights_of_ring3},
        {"cpu.event-chain.tables-are-implicit", test_tables_are_implicit},
        {"cpu.event-chain.nmi-blocking", test_nmi_blocking},
        {"cpu.event-chain.poll-interrupt", test_poll_interrupt},
        {"cpu.event-chain.poll-spurious", test_poll_spurious},
        {"cpu.event-chain.poll-again", test_poll_again},
        {"cpu.event-chain.lost-pages", test_lost_pages},
        {"cpu.event-chain.debug-exception", test_debug_exception},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Task switches: both TSS formats, all causes, what is saved and what is loaded, and faults before
 * and after the point of no return. */
#include "cpu/transfer.h"

#include "cpu/event.h"
#include "unit/cpu/flat-check.h"

#define ENTRY 0x9100u

/* A 32-bit TSS whose task runs in ring @cpl. */
static void put_tss32(uint64_t at, unsigned cpl)
{
    uint16_t code = cpl == 3 ? CODE3 | 3 : CODE0;
    uint16_t data = cpl == 3 ? DATA3 | 3 : DATA0;

    flat_poke(&flat, at + 4, 4, STACK0);
    flat_poke(&flat, at + 8, 2, DATA0);
    flat_poke(&flat, at + 0x1c, 4, 0x7000);
    flat_poke(&flat, at + 0x20, 4, ENTRY);
    flat_poke(&flat, at + 0x24, 4, HV_RFLAGS_FIXED | HV_RFLAGS_IF | HV_RFLAGS_CF);
    for (unsigned i = 0; i < 8; i++) {
        flat_poke(&flat, at + 0x28 + 4 * i, 4, 0xa0a00000 + i);
    }
    flat_poke(&flat, at + 0x28 + 4 * HV_REG_RSP, 4, cpl == 3 ? STACK3 : STACK1);
    for (unsigned s = 0; s < HV_SEG_COUNT; s++) {
        flat_poke(&flat, at + 0x48 + 4 * s, 2, s == HV_SEG_CS ? code : data);
    }
    flat_poke(&flat, at + 0x60, 2, SEL_LDT);
}

static void put_tss16(uint64_t at)
{
    memset(flat.ram + at, 0, 0x2c);
    flat_poke(&flat, at + 0x0e, 2, 0x9100);
    flat_poke(&flat, at + 0x10, 2, HV_RFLAGS_FIXED | HV_RFLAGS_ZF);
    for (unsigned i = 0; i < 8; i++) {
        flat_poke(&flat, at + 0x12 + 2 * i, 2, 0xb000 + i);
    }
    flat_poke(&flat, at + 0x22, 2, DATA0);
    flat_poke(&flat, at + 0x24, 2, CODE16_0);
    flat_poke(&flat, at + 0x26, 2, DATA16_0);
    flat_poke(&flat, at + 0x28, 2, DATA0);
    put_gdt(SEL_TSS2, descriptor_of(AT_TSS2, 0x2b, attr_of(HV_SYSTEM_TSS16, 0, 0)));
}

static void start_task(void)
{
    machine_start(MACHINE_PROTECTED);
    put_tss32(AT_TSS2, 0);
    for (unsigned i = 0; i < 8; i++) {
        cpu.slot[i] = 0xc0de0000u + i;
    }
    cpu.slot[HV_REG_RSP] = STACK0 - 0x100;
    cpu.dr[7] |= 0x3ff;
    hv_cpu_set_rflags(&cpu, HV_RFLAGS_PF);
    snapshot();
}

static int switch_to(enum hv_task_cause cause)
{
    return hv_transfer_task(&cpu, &flat.access, SEL_TSS2, cause, 0x8005, false, 0, &fault);
}

static unsigned type_of(uint16_t selector)
{
    return (unsigned)(get_gdt(selector) >> 40) & 0xf;
}

static void check_saved(void)
{
    TAP_EQ(flat_peek(&flat, AT_TSS + 0x20, 4), 0x8005);
    TAP_EQ(flat_peek(&flat, AT_TSS + 0x24, 4), HV_RFLAGS_PF | HV_RFLAGS_FIXED);
    for (unsigned i = 0; i < 8; i++) {
        TAP_EQ(flat_peek(&flat, AT_TSS + 0x28 + 4 * i, 4), (uint32_t)before.slot[i]);
    }
    for (unsigned s = 0; s < HV_SEG_COUNT; s++) {
        TAP_EQ(flat_peek(&flat, AT_TSS + 0x48 + 4 * s, 2), before.seg[s].selector);
    }
}

static void check_loaded(bool nested)
{
    TAP_EQ(cpu.rip, ENTRY);
    TAP_EQ(hv_cpu_rflags(&cpu),
           HV_RFLAGS_FIXED | HV_RFLAGS_IF | HV_RFLAGS_CF | (nested ? (uint64_t)HV_RFLAGS_NT : 0));
    TAP_EQ(cpu.slot[HV_REG_RDI], 0xa0a00007);
    TAP_EQ(cpu.slot[HV_REG_RSP], STACK1); /* no error code */
    TAP_EQ(cpu.seg[HV_SEG_TR].selector, SEL_TSS2);
    TAP_EQ(cpu.seg[HV_SEG_TR].base, AT_TSS2);
    TAP_EQ(cpu.seg[HV_SEG_TR].attr & 0xf, HV_SYSTEM_TSS_BUSY);
    TAP_EQ(cpu.seg[HV_SEG_LDTR].base, AT_LDT);
    TAP_OK(cpu.cr0 & HV_CR0_TS);
    TAP_EQ(cpu.dr[7] & HV_DR7_LOCAL, 0);
    TAP_EQ(cpu.cr3, before.cr3); /* paging is off */
    TAP_OK(machine_consistent());
}

static void test_jump(void)
{
    start_task();
    TAP_EQ(switch_to(HV_TASK_CAUSE_JUMP), 0);
    check_saved();
    check_loaded(false);
    TAP_EQ(type_of(SEL_TSS), HV_SYSTEM_TSS);
    TAP_EQ(type_of(SEL_TSS2), HV_SYSTEM_TSS_BUSY);
    TAP_EQ(flat_peek(&flat, AT_TSS2, 2), 0);
}

static void test_call_and_return(void)
{
    start_task();
    put_gdt(GATE, gate_of(HV_SYSTEM_TASK_GATE, 0, SEL_TSS2, 0, 0));
    TAP_EQ(hv_transfer_far_call(&cpu, &flat.access, GATE, 0xdead, 4, 0x8005, &fault), 0);
    check_saved();
    check_loaded(true);
    TAP_EQ(type_of(SEL_TSS), HV_SYSTEM_TSS_BUSY);
    TAP_EQ(type_of(SEL_TSS2), HV_SYSTEM_TSS_BUSY);
    TAP_EQ(flat_peek(&flat, AT_TSS2, 2), SEL_TSS);

    cpu.rip = 0x9200;
    TAP_EQ(hv_transfer_iret(&cpu, &flat.access, 4, 0x9201, &fault), 0);
    TAP_EQ(cpu.rip, 0x8005);
    TAP_EQ(flat_peek(&flat, AT_TSS2 + 0x20, 4), 0x9201);
    TAP_EQ(flat_peek(&flat, AT_TSS2 + 0x24, 4) & HV_RFLAGS_NT, 0);
    TAP_EQ(type_of(SEL_TSS), HV_SYSTEM_TSS_BUSY);
    TAP_EQ(type_of(SEL_TSS2), HV_SYSTEM_TSS);
    TAP_EQ(hv_cpu_rflags(&cpu), HV_RFLAGS_PF | HV_RFLAGS_FIXED);
    TAP_OK(memcmp(before.slot, cpu.slot, sizeof(uint64_t) * 8) == 0);
    TAP_OK(same_segments(&before, &cpu));
}

static void test_far_jump_to_tss(void)
{
    start_task();
    TAP_EQ(hv_transfer_far_jump(&cpu, &flat.access, SEL_TSS2, 0, 4, 0x8005, &fault), 0);
    check_loaded(false);
}

/* A task gate in the IDT: the error code goes on the new task's stack. */
static void test_event(void)
{
    struct hv_fault raised = {.vector = HV_VECTOR_DF, .has_error = true, .error = 0x77};

    start_task();
    put_tss32(AT_TSS2, 3);
    put_idt(HV_VECTOR_DF, HV_SYSTEM_TASK_GATE, 0, SEL_TSS2, 0, 0);
    TAP_EQ(hv_event_exception(&cpu, &flat.access, &raised), 0);
    TAP_EQ(cpu.rip, ENTRY);
    TAP_EQ(cpu.cpl, 3);
    TAP_EQ(cpu.slot[HV_REG_RSP], STACK3 - 4);
    TAP_EQ(flat_peek(&flat, STACK3 - 4, 4), 0x77);
    TAP_EQ(flat_peek(&flat, AT_TSS + 0x20, 4), 0x8000);
    TAP_EQ(flat_peek(&flat, AT_TSS2, 2), SEL_TSS);
    TAP_OK(cpu.rflags & HV_RFLAGS_NT);
    TAP_OK(machine_consistent());
}

static void test_16bit(void)
{
    start_task();
    put_tss16(AT_TSS2);
    TAP_EQ(switch_to(HV_TASK_CAUSE_CALL), 0);
    TAP_EQ(cpu.rip, 0x9100);
    TAP_EQ(cpu.slot[HV_REG_RAX], 0xc0deb000);
    TAP_EQ(cpu.seg[HV_SEG_SS].selector, DATA16_0);
    TAP_OK(cpu.seg[HV_SEG_FS].attr & HV_SEG_ATTR_UNUSABLE);
    TAP_OK(cpu.seg[HV_SEG_LDTR].attr & HV_SEG_ATTR_UNUSABLE);
    TAP_OK(machine_consistent());
    cpu.slot[HV_REG_RAX] = 0x11112222;
    TAP_EQ(hv_transfer_iret(&cpu, &flat.access, 2, 0x9000, &fault), 0);
    TAP_EQ(cpu.rip, 0x8005);
    TAP_EQ(flat_peek(&flat, AT_TSS2 + 0x0e, 2), 0x9000);
    TAP_EQ(flat_peek(&flat, AT_TSS2 + 0x12, 2), 0x2222);
    TAP_EQ(type_of(SEL_TSS2), HV_SYSTEM_TSS16);
}

static void test_v86_task(void)
{
    start_task();
    flat_poke(&flat, AT_TSS2 + 0x24, 4, HV_RFLAGS_VM | HV_RFLAGS_FIXED);
    TAP_EQ(switch_to(HV_TASK_CAUSE_JUMP), 0);
    TAP_OK(hv_cpu_v86(&cpu));
    TAP_EQ(cpu.cpl, 3);
    TAP_EQ(cpu.seg[HV_SEG_CS].base, CODE0 << 4);
    TAP_EQ(cpu.seg[HV_SEG_DS].attr, 0xf3);
    TAP_OK(machine_consistent());
}

static void test_refused_before(void)
{
    static const struct {
        const char *why;
        uint8_t cause;
        uint32_t type, limit;
        bool present;
        uint8_t vector;
    } rows[] = {
        {"busy", HV_TASK_CAUSE_JUMP, HV_SYSTEM_TSS_BUSY, 0x67, true, HV_VECTOR_GP},
        {"busy", HV_TASK_CAUSE_EVENT, HV_SYSTEM_TSS_BUSY, 0x67, true, HV_VECTOR_GP},
        {"return to a free one", HV_TASK_CAUSE_IRET, HV_SYSTEM_TSS, 0x67, true, HV_VECTOR_TS},
        {"absent", HV_TASK_CAUSE_CALL, HV_SYSTEM_TSS, 0x67, false, HV_VECTOR_NP},
        {"short", HV_TASK_CAUSE_CALL, HV_SYSTEM_TSS, 0x66, true, HV_VECTOR_TS},
        {"short, 16-bit", HV_TASK_CAUSE_CALL, HV_SYSTEM_TSS16, 0x2a, true, HV_VECTOR_TS},
        {"an LDT", HV_TASK_CAUSE_CALL, HV_SYSTEM_LDT, 0x67, true, HV_VECTOR_GP},
    };

    for (size_t i = 0; i < HV_ARRAY_LEN(rows); i++) {
        uint32_t attr = attr_of(rows[i].type, 0, 0) & (rows[i].present ? ~0u : ~0x80u);
        uint32_t ext = rows[i].cause == HV_TASK_CAUSE_EVENT ? 1 : 0;

        start_task();
        put_gdt(SEL_TSS2, descriptor_of(AT_TSS2, rows[i].limit, attr));
        if (!faulted(switch_to((enum hv_task_cause)rows[i].cause), (enum hv_vector)rows[i].vector,
                     SEL_TSS2 | ext) ||
            !unchanged()) {
            tap_fail(__FILE__, __LINE__, "row: %s", rows[i].why);
            return;
        }
    }
    start_task();
    TAP_OK(
        faulted(hv_transfer_task(&cpu, &flat.access, 0xc4, HV_TASK_CAUSE_CALL, 0, false, 0, &fault),
                HV_VECTOR_GP, 0xc4)); /* in the LDT */
    cpu.seg[HV_SEG_TR].limit = 0x66;
    snapshot();
    TAP_OK(faulted(switch_to(HV_TASK_CAUSE_JUMP), HV_VECTOR_TS, SEL_TSS));
    TAP_OK(unchanged());
}

/* Beyond the point of no return the fault is the new task's own. */
static void test_refused_after(void)
{
    static const struct {
        const char *why;
        unsigned offset;
        uint16_t selector;
        uint8_t vector;
        uint16_t error;
    } rows[] = {
        {"LDT", 0x60, DATA0, HV_VECTOR_TS, DATA0},
        {"LDT in the LDT", 0x60, 0xc, HV_VECTOR_TS, 0xc},
        {"LDT beyond the GDT", 0x60, 0x100, HV_VECTOR_TS, 0x100},
        {"null CS", 0x48 + 4 * HV_SEG_CS, 0, HV_VECTOR_TS, 0},
        {"CS data", 0x48 + 4 * HV_SEG_CS, DATA0, HV_VECTOR_TS, DATA0},
        {"CS absent", 0x48 + 4 * HV_SEG_CS, ABSENT_CODE0, HV_VECTOR_NP, ABSENT_CODE0},
        {"CS RPL", 0x48 + 4 * HV_SEG_CS, CODE3, HV_VECTOR_TS, CODE3},
        {"null SS", 0x48 + 4 * HV_SEG_SS, 0, HV_VECTOR_TS, 0},
        {"SS DPL", 0x48 + 4 * HV_SEG_SS, DATA3, HV_VECTOR_TS, DATA3},
        {"SS absent", 0x48 + 4 * HV_SEG_SS, ABSENT_DATA0, HV_VECTOR_SS, ABSENT_DATA0},
        {"DS", 0x48 + 4 * HV_SEG_DS, SEL_TSS, HV_VECTOR_TS, SEL_TSS},
        {"GS absent", 0x48 + 4 * HV_SEG_GS, ABSENT_DATA0, HV_VECTOR_NP, ABSENT_DATA0},
    };

    for (size_t i = 0; i < HV_ARRAY_LEN(rows); i++) {
        start_task();
        flat_poke(&flat, AT_TSS2 + rows[i].offset, 2, rows[i].selector);
        if (!faulted(switch_to(HV_TASK_CAUSE_JUMP), (enum hv_vector)rows[i].vector,
                     rows[i].error) ||
            cpu.rip != ENTRY || cpu.seg[HV_SEG_TR].selector != SEL_TSS2) {
            tap_fail(__FILE__, __LINE__, "row: %s", rows[i].why);
            return;
        }
    }
    start_task();
    flat_poke(&flat, AT_TSS2 + 0x48 + 4 * HV_SEG_CS, 2, CODE16_0);
    flat_poke(&flat, AT_TSS2 + 0x20, 4, 0x10000);
    TAP_OK(faulted(switch_to(HV_TASK_CAUSE_JUMP), HV_VECTOR_GP, 0));
    start_task();
    flat_poke(&flat, AT_TSS2 + 0x48 + 4 * HV_SEG_CS, 2, CODE16_0);
    flat_poke(&flat, AT_TSS2 + 0x20, 4, 0xffff);
    TAP_EQ(switch_to(HV_TASK_CAUSE_JUMP), 0);
    start_task();
    flat_poke(&flat, AT_TSS2 + 0x64, 2, 1);
    TAP_EQ(switch_to(HV_TASK_CAUSE_JUMP), HV_FAULTED);
    TAP_EQ(fault.vector, HV_VECTOR_DB);
    TAP_OK(cpu.dr[6] & HV_DR6_BT);
}

/* The fault of a half-entered task is delivered in that task. */
static void test_event_into_bad_task(void)
{
    start_task();
    flat_poke(&flat, AT_TSS2 + 0x48 + 4 * HV_SEG_DS, 2, SEL_TSS);
    put_idt(0x30, HV_SYSTEM_TASK_GATE, 0, SEL_TSS2, 0, 0);
    put_idt(HV_VECTOR_TS, HV_SYSTEM_INTERRUPT_GATE, 0, CODE0, 0x7777, 0);
    TAP_EQ(hv_event_deliver(&cpu, &flat.access, HV_EVENT_EXTERNAL, 0x30, false, 0, cpu.rip, &fault),
           0);
    TAP_EQ(cpu.rip, 0x7777);
    TAP_EQ(flat_peek(&flat, cpu.slot[HV_REG_RSP], 4), SEL_TSS | 1);
    TAP_EQ(flat_peek(&flat, cpu.slot[HV_REG_RSP] + 4, 4), ENTRY);
}

static void test_paging(void)
{
    start_task();
    flat_poke(&flat, AT_TABLES, 4, 0x83); /* one 4 MiB page, one to one */
    flat_poke(&flat, 0x7000, 4, 0x83);
    cpu.cr0 |= HV_CR0_PG;
    cpu.cr4 = HV_CR4_PSE;
    cpu.cr3 = AT_TABLES;
    TAP_EQ(switch_to(HV_TASK_CAUSE_JUMP), 0);
    TAP_EQ(cpu.cr3, 0x7000);
    TAP_EQ(flat.flushes_non_global, 1);

    /* PAE: bad PDPTEs refuse the switch while nothing has happened yet. */
    start_task();
    flat_poke(&flat, 0x7000, 8, 3);
    flat_poke(&flat, AT_TABLES, 8, (AT_TABLES + 0x1000) | 1);
    flat_poke(&flat, AT_TABLES + 0x1000, 8, 0x83);
    cpu.cr0 |= HV_CR0_PG;
    cpu.cr4 = HV_CR4_PAE;
    cpu.cr3 = AT_TABLES;
    cpu.pdpte[0] = (AT_TABLES + 0x1000) | 1;
    snapshot();
    TAP_OK(faulted(switch_to(HV_TASK_CAUSE_JUMP), HV_VECTOR_GP, 0));
    TAP_OK(unchanged());
    flat_poke(&flat, 0x7000, 8, (AT_TABLES + 0x1000) | 1);
    TAP_EQ(switch_to(HV_TASK_CAUSE_JUMP), 0);
    TAP_EQ(cpu.pdpte[0], (AT_TABLES + 0x1000) | 1);
}

/* Up to the switch itself a lost page changes no register and a repeated attempt succeeds. */
static void test_lost_accesses(void)
{
    static struct hv_cpu clean;
    unsigned most, switched = 0;

    start_task();
    TAP_EQ(switch_to(HV_TASK_CAUSE_CALL), 0);
    memcpy(&clean, &cpu, sizeof(cpu));
    most = flat.accesses;
    for (unsigned lost = 1; lost <= most; lost++) {
        start_task();
        flat.fault_after = lost;
        TAP_EQ(switch_to(HV_TASK_CAUSE_CALL), HV_FAULTED);
        TAP_EQ(fault.cr2, FLAT_LOST);
        if (cpu.seg[HV_SEG_TR].selector == SEL_TSS2) {
            switched++;
            TAP_EQ(cpu.rip, ENTRY);
            continue;
        }
        TAP_EQ(switched, 0);
        TAP_OK(unchanged());
        TAP_EQ(switch_to(HV_TASK_CAUSE_CALL), 0);
        TAP_OK(same_cpu(&clean, &cpu));
    }
    TAP_EQ(switched, 7); /* descriptors of LDT, CS, SS and four data segments */
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"cpu.task.jump", test_jump},
        {"cpu.task.call-and-return", test_call_and_return},
        {"cpu.task.far-jump-to-tss", test_far_jump_to_tss},
        {"cpu.task.event", test_event},
        {"cpu.task.16bit", test_16bit},
        {"cpu.task.v86", test_v86_task},
        {"cpu.task.refused-before", test_refused_before},
        {"cpu.task.refused-after", test_refused_after},
        {"cpu.task.event-into-bad-task", test_event_into_bad_task},
        {"cpu.task.paging", test_paging},
        {"cpu.task.lost-accesses", test_lost_accesses},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

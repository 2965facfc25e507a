/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Far jumps, calls and returns through segments and gates, one row a refusal, and a page lost at
 * every access in turn. */
#include "cpu/transfer.h"

#include "cpu/event.h"
#include "unit/cpu/flat-check.h"

#define TARGET 0x12340u

static int jump(uint16_t selector, uint64_t offset)
{
    return hv_transfer_far_jump(&cpu, &flat.access, selector, offset, 4, cpu.rip + 7, &fault);
}

static int call(uint16_t selector, uint64_t offset, unsigned bytes)
{
    return hv_transfer_far_call(&cpu, &flat.access, selector, offset, bytes, cpu.rip + 7, &fault);
}

static int iret(unsigned bytes)
{
    return hv_transfer_iret(&cpu, &flat.access, bytes, cpu.rip + 1, &fault);
}

static uint64_t stack_at(unsigned index, unsigned unit)
{
    uint64_t base = hv_cpu_code64(&cpu) ? 0 : cpu.seg[HV_SEG_SS].base;

    return flat_peek(&flat, base + cpu.slot[HV_REG_RSP] + (uint64_t)index * unit, unit);
}

/* Lay values out from the top of the stack on. */
static void put_stack(unsigned unit, const uint64_t *values, unsigned count)
{
    uint64_t base = hv_cpu_code64(&cpu) ? 0 : cpu.seg[HV_SEG_SS].base;

    for (unsigned i = 0; i < count; i++) {
        flat_poke(&flat, base + cpu.slot[HV_REG_RSP] + (uint64_t)i * unit, unit, values[i]);
    }
}

static void test_real(void)
{
    machine_start(MACHINE_REAL);
    TAP_EQ(hv_transfer_far_call(&cpu, &flat.access, 0x3000, 0x10, 2, 0x8005, &fault), 0);
    TAP_EQ(cpu.rip, 0x10);
    TAP_EQ(cpu.slot[HV_SLOT_SEG_BASE + HV_SEG_CS], 0x30000);
    TAP_EQ(cpu.slot[HV_REG_RSP], 0x8ffc);
    TAP_EQ(hv_transfer_far_return(&cpu, &flat.access, 2, 6, &fault), 0);
    TAP_EQ(cpu.rip, 0x8005);
    TAP_EQ(cpu.seg[HV_SEG_CS].selector, 0x100);
    TAP_EQ(cpu.slot[HV_REG_RSP], 0x9006);
    snapshot();
    TAP_OK(faulted(jump(0x1000, 0x10000), HV_VECTOR_GP, 0));
    TAP_OK(unchanged());
    TAP_EQ(jump(0x1000, 0xffff), 0);

    put_stack(2, (uint64_t[]){0x1234, 0x2000, 0x7fff}, 3);
    TAP_EQ(iret(2), 0);
    TAP_EQ(cpu.rip, 0x1234);
    TAP_EQ(cpu.seg[HV_SEG_CS].base, 0x20000);
    TAP_EQ(hv_cpu_rflags(&cpu), 0x7fd7);
    TAP_EQ(cpu.slot[HV_REG_RSP], 0x900c);
    put_stack(4, (uint64_t[]){0xffff, 0x2000, UINT32_MAX}, 3);
    TAP_EQ(iret(4), 0);
    TAP_EQ(cpu.slot[HV_REG_RSP], 0x9018);
    TAP_EQ(hv_cpu_rflags(&cpu), 0x257fd7);
}

struct direct_row {
    const char *why;
    uint8_t mode;
    uint8_t cpl;
    uint16_t selector;
    uint64_t offset;
    uint8_t vector; /* 0: it goes */
    uint32_t error;
};

static const struct direct_row direct_rows[] = {
    {"same ring", MACHINE_PROTECTED, 0, CODE0, TARGET, 0, 0},
    {"RPL below CPL", MACHINE_PROTECTED, 3, CODE3, TARGET, 0, 0},
    {"conforming", MACHINE_PROTECTED, 3, CONFORMING0 | 3, TARGET, 0, 0},
    {"null", MACHINE_PROTECTED, 0, 0, TARGET, HV_VECTOR_GP, 0},
    {"beyond", MACHINE_PROTECTED, 0, 0x100, TARGET, HV_VECTOR_GP, 0x100},
    {"data", MACHINE_PROTECTED, 0, DATA0, TARGET, HV_VECTOR_GP, DATA0},
    {"inner ring", MACHINE_PROTECTED, 3, CODE0 | 3, TARGET, HV_VECTOR_GP, CODE0},
    {"outer ring", MACHINE_PROTECTED, 0, CODE3, TARGET, HV_VECTOR_GP, CODE3},
    {"RPL above CPL", MACHINE_PROTECTED, 0, CODE0 | 3, TARGET, HV_VECTOR_GP, CODE0},
    {"absent", MACHINE_PROTECTED, 0, ABSENT_CODE0, TARGET, HV_VECTOR_NP, ABSENT_CODE0},
    {"beyond the limit", MACHINE_PROTECTED, 0, CODE16_0, 0x10000, HV_VECTOR_GP, 0},
    {"an LDT", MACHINE_PROTECTED, 0, SEL_LDT, TARGET, HV_VECTOR_GP, SEL_LDT},
    {"a busy TSS", MACHINE_PROTECTED, 0, SEL_TSS, TARGET, HV_VECTOR_GP, SEL_TSS},
    {"64-bit to compatibility", MACHINE_LONG, 0, CODE0, TARGET, 0, 0},
    {"64-bit", MACHINE_LONG, 0, CODE64_0, TARGET, 0, 0},
    {"L and D", MACHINE_LONG, 0, CODE64_WIDE, TARGET, HV_VECTOR_GP, CODE64_WIDE},
    {"a TSS in long mode", MACHINE_LONG, 0, SEL_TSS2, TARGET, HV_VECTOR_GP, SEL_TSS2},
};

static void direct_row(const struct direct_row *row, bool is_call)
{
    int result;

    machine_start((enum machine_mode)row->mode);
    machine_ring(row->cpl, row->mode == MACHINE_LONG);
    snapshot();
    result = is_call ? call(row->selector, row->offset, 4) : jump(row->selector, row->offset);
    if (row->vector) {
        TAP_OK(faulted(result, (enum hv_vector)row->vector, row->error));
        TAP_OK(unchanged());
        return;
    }
    TAP_EQ(result, 0);
    TAP_EQ(cpu.rip, row->offset);
    TAP_EQ(cpu.cpl, row->cpl);
    TAP_EQ(cpu.seg[HV_SEG_CS].selector, (row->selector & ~3u) | row->cpl);
    TAP_OK(machine_consistent());
    TAP_EQ(cpu.slot[HV_REG_RSP], before.slot[HV_REG_RSP] - (is_call ? 8u : 0u));
    if (is_call) {
        TAP_EQ(stack_at(0, 4), 0x8007);
        TAP_EQ(stack_at(1, 4), before.seg[HV_SEG_CS].selector);
    }
}

static void test_direct_rows(void)
{
    for (size_t i = 0; i < HV_ARRAY_LEN(direct_rows); i++) {
        direct_row(&direct_rows[i], false);
        direct_row(&direct_rows[i], true);
        if (tap_failed()) {
            tap_note("row: %s", direct_rows[i].why);
            return;
        }
    }
}

static void test_long_offsets(void)
{
    machine_start(MACHINE_LONG);
    snapshot();
    TAP_OK(faulted(
        hv_transfer_far_jump(&cpu, &flat.access, CODE64_0, UINT64_C(0x800000000000), 8, 0, &fault),
        HV_VECTOR_GP, 0));
    TAP_OK(unchanged());
    TAP_EQ(call(CODE64_0, UINT64_C(0xffffffff80001000), 8), 0);
    TAP_EQ(cpu.rip, UINT64_C(0xffffffff80001000));
    TAP_EQ(stack_at(0, 8), 0x8007);
    TAP_EQ(hv_transfer_far_return(&cpu, &flat.access, 8, 0, &fault), 0);
    TAP_EQ(cpu.rip, 0x8007);
    TAP_EQ(cpu.slot[HV_REG_RSP], before.slot[HV_REG_RSP]);
    /* Without REX.W the offset has 32 bits. */
    TAP_EQ(jump(CODE64_0, UINT64_C(0xffffffff80001000)), 0);
    TAP_EQ(cpu.rip, 0x80001000);
}

/* CS.L decides whether ES, CS, SS and DS have a base at all. */
static void test_bases_follow_mode(void)
{
    machine_start(MACHINE_LONG);
    put_gdt(SPARE, descriptor_of(0x5000, 0xfffff, attr_of(TYPE_DATA, 0, FLAG_DB | FLAG_G)));
    load_raw(HV_SEG_DS, SPARE);
    load_raw(HV_SEG_FS, SPARE);
    TAP_EQ(cpu.slot[HV_SLOT_SEG_BASE + HV_SEG_DS], 0);
    TAP_EQ(jump(CODE0, TARGET), 0);
    TAP_EQ(cpu.slot[HV_SLOT_SEG_BASE + HV_SEG_DS], 0x5000);
    TAP_OK(machine_consistent());
    TAP_EQ(jump(CODE64_0, TARGET), 0);
    TAP_EQ(cpu.slot[HV_SLOT_SEG_BASE + HV_SEG_DS], 0);
    TAP_EQ(cpu.slot[HV_SLOT_SEG_BASE + HV_SEG_FS], 0x5000);
    TAP_OK(machine_consistent());
}

/* Ring 3 calls ring 0 through a gate with three parameters and comes back. */
static void gate_round_trip(unsigned unit)
{
    uint64_t mask = hv_bytes_mask(unit);
    unsigned type = unit == 2 ? HV_SYSTEM_CALL_GATE16 : HV_SYSTEM_CALL_GATE;

    machine_start(MACHINE_PROTECTED);
    machine_ring(3, false);
    put_gdt(GATE, gate_of(type, 3, CODE0, TARGET, 3));
    put_stack(unit, (uint64_t[]){0x1111, 0x2222, 0x3333, 0x4444}, 4);
    snapshot();
    TAP_EQ(call(GATE | 3, 0xdead, 4), 0);
    TAP_EQ(cpu.rip, TARGET & mask);
    TAP_EQ(cpu.cpl, 0);
    TAP_EQ(cpu.slot[HV_REG_RSP], STACK0 - 7 * unit);
    TAP_EQ(stack_at(0, unit), 0x8007);
    TAP_EQ(stack_at(1, unit), CODE3 | 3);
    TAP_EQ(stack_at(2, unit), 0x1111);
    TAP_EQ(stack_at(3, unit), 0x2222);
    TAP_EQ(stack_at(4, unit), 0x3333);
    TAP_EQ(stack_at(5, unit), before.slot[HV_REG_RSP] & mask);
    TAP_EQ(stack_at(6, unit), DATA3 | 3);
    TAP_OK(machine_consistent());
    TAP_EQ(hv_transfer_far_return(&cpu, &flat.access, unit, (uint16_t)(3 * unit), &fault), 0);
    TAP_EQ(cpu.cpl, 3);
    TAP_EQ(cpu.rip, 0x8007);
    TAP_EQ(cpu.seg[HV_SEG_SS].selector, DATA3 | 3);
    TAP_EQ(cpu.slot[HV_REG_RSP], (before.slot[HV_REG_RSP] & mask) + 3 * unit);
    TAP_OK(machine_consistent());
}

static void test_call_gates(void)
{
    gate_round_trip(2);
    gate_round_trip(4);
}

static void test_call_gate_long(void)
{
    machine_start(MACHINE_LONG);
    machine_ring(3, true);
    put_gdt(GATE, gate_of(HV_SYSTEM_CALL_GATE, 3, CODE64_0, 0x81000000, 5));
    put_gdt(GATE + 8, 0xffffffff);
    snapshot();
    TAP_EQ(call(GATE | 3, 0, 4), 0);
    TAP_EQ(cpu.rip, UINT64_C(0xffffffff81000000));
    TAP_EQ(cpu.seg[HV_SEG_SS].selector, 0);
    TAP_EQ(cpu.slot[HV_REG_RSP], STACK0 - 32);
    TAP_EQ(stack_at(1, 8), CODE64_3 | 3);
    TAP_EQ(stack_at(2, 8), before.slot[HV_REG_RSP]);
    TAP_EQ(stack_at(3, 8), DATA3 | 3);
    TAP_EQ(hv_transfer_far_return(&cpu, &flat.access, 8, 0, &fault), 0);
    TAP_EQ(cpu.slot[HV_REG_RSP], before.slot[HV_REG_RSP]);
    TAP_EQ(cpu.cpl, 3);
    TAP_OK(machine_consistent());
}

static void test_gate_refusals(void)
{
    static const struct {
        const char *why;
        uint8_t cpl, type, dpl;
        uint16_t selector;
        bool is_call;
        uint8_t vector;
        uint32_t error;
    } rows[] = {
        {"gate DPL", 3, HV_SYSTEM_CALL_GATE, 0, CODE0, true, HV_VECTOR_GP, GATE},
        {"null code", 3, HV_SYSTEM_CALL_GATE, 3, 0, true, HV_VECTOR_GP, 0},
        {"data", 3, HV_SYSTEM_CALL_GATE, 3, DATA3, true, HV_VECTOR_GP, DATA3},
        {"outer code", 0, HV_SYSTEM_CALL_GATE, 3, CODE3, true, HV_VECTOR_GP, CODE3},
        {"jump inward", 3, HV_SYSTEM_CALL_GATE, 3, CODE0, false, HV_VECTOR_GP, CODE0},
        {"absent code", 3, HV_SYSTEM_CALL_GATE, 3, ABSENT_CODE0, true, HV_VECTOR_NP, ABSENT_CODE0},
        {"interrupt gate", 3, HV_SYSTEM_INTERRUPT_GATE, 3, CODE0, true, HV_VECTOR_GP, GATE},
        {"offset", 3, HV_SYSTEM_CALL_GATE, 3, CODE16_0, true, HV_VECTOR_GP, 0},
        {"task gate to data", 3, HV_SYSTEM_TASK_GATE, 3, DATA0, true, HV_VECTOR_GP, DATA0},
    };

    for (size_t i = 0; i < HV_ARRAY_LEN(rows); i++) {
        int result;

        machine_start(MACHINE_PROTECTED);
        machine_ring(rows[i].cpl, false);
        put_gdt(GATE, gate_of(rows[i].type, rows[i].dpl, rows[i].selector, TARGET, 0));
        snapshot();
        result = rows[i].is_call ? call(GATE, 0, 4) : jump(GATE, 0);
        if (!faulted(result, (enum hv_vector)rows[i].vector, rows[i].error) || !unchanged()) {
            tap_fail(__FILE__, __LINE__, "row: %s", rows[i].why);
            return;
        }
    }
    machine_start(MACHINE_PROTECTED);
    put_gdt(GATE, gate_of(HV_SYSTEM_CALL_GATE, 3, CODE0, TARGET, 0) & ~HV_BIT(47));
    TAP_OK(faulted(call(GATE, 0, 4), HV_VECTOR_NP, GATE));
    machine_start(MACHINE_LONG);
    put_gdt(GATE, gate_of(HV_SYSTEM_CALL_GATE, 3, CODE0, TARGET, 0));
    put_gdt(GATE + 8, 0);
    TAP_OK(faulted(call(GATE, 0, 4), HV_VECTOR_GP, CODE0)); /* not 64-bit */
    put_gdt(GATE + 8, UINT64_C(0x010000000000));
    TAP_OK(faulted(call(GATE, 0, 4), HV_VECTOR_GP, GATE)); /* type of the upper half */
    put_gdt(GATE, gate_of(HV_SYSTEM_CALL_GATE16, 3, CODE64_0, TARGET, 0));
    TAP_OK(faulted(call(GATE, 0, 4), HV_VECTOR_GP, GATE));
}

/* The multi-access transfers, to be broken at each access. */
static void start_kind(unsigned kind)
{
    bool wide = kind & 1;

    machine_start(wide ? MACHINE_LONG : MACHINE_PROTECTED);
    switch (kind >> 1) {
    case 0:
        machine_ring(3, wide);
        put_gdt(GATE,
                gate_of(HV_SYSTEM_CALL_GATE, 3, wide ? CODE64_0 : CODE0, TARGET, wide ? 0 : 4));
        put_gdt(GATE + 8, 0);
        break;
    case 1:
        put_stack(wide ? 8 : 4,
                  (uint64_t[]){TARGET, wide ? CODE64_3 | 3 : CODE3 | 3, 0, STACK3 - 64, DATA3 | 3},
                  5);
        break;
    default:
        put_stack(wide ? 8 : 4,
                  (uint64_t[]){TARGET, wide ? CODE64_3 | 3 : CODE3 | 3, STACK3 - 64, DATA3 | 3}, 4);
        break;
    }
    snapshot();
}

static int finish_kind(unsigned kind)
{
    unsigned unit = (kind & 1) ? 8 : 4;

    switch (kind >> 1) {
    case 0:
        return call(GATE | 3, 0, 4);
    case 1:
        return iret(unit);
    default:
        return hv_transfer_far_return(&cpu, &flat.access, unit, 0, &fault);
    }
}

static void test_lost_accesses(void)
{
    static struct hv_cpu clean;

    for (unsigned kind = 0; kind < 6; kind++) {
        unsigned most;

        start_kind(kind);
        TAP_EQ(finish_kind(kind), 0);
        memcpy(&clean, &cpu, sizeof(cpu));
        most = flat.accesses;
        TAP_OK(most >= 5);
        for (unsigned lost = 1; lost <= most; lost++) {
            start_kind(kind);
            flat.fault_after = lost;
            TAP_EQ(finish_kind(kind), HV_FAULTED);
            TAP_EQ(fault.cr2, FLAT_LOST);
            TAP_OK(unchanged());
            flat.again_after = lost;
            TAP_EQ((uint64_t)finish_kind(kind), (uint64_t)-EAGAIN);
            TAP_OK(unchanged());
            TAP_EQ(finish_kind(kind), 0);
            TAP_OK(same_cpu(&clean, &cpu));
        }
    }
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"cpu.transfer-far.real", test_real},
        {"cpu.transfer-far.direct-rows", test_direct_rows},
        {"cpu.transfer-far.long-offsets", test_long_offsets},
        {"cpu.transfer-far.bases-follow-mode", test_bases_follow_mode},
        {"cpu.transfer-far.call-gates", test_call_gates},
        {"cpu.transfer-far.call-gate-long", test_call_gate_long},
        {"cpu.transfer-far.gate-refusals", test_gate_refusals},
        {"cpu.transfer-far.lost-accesses", test_lost_accesses},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

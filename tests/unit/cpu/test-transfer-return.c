/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Far returns and IRET: where they may go, what they load, flags, virtual-8086 mode. */
#include "cpu/transfer.h"

#include "cpu/event.h"
#include "unit/cpu/flat-check.h"

#define TARGET 0x12340u

static int iret(unsigned bytes)
{
    return hv_transfer_iret(&cpu, &flat.access, bytes, cpu.rip + 1, &fault);
}

/* Lay values out from the top of the stack on. */
static void put_stack(unsigned unit, const uint64_t *values, unsigned count)
{
    uint64_t base = hv_cpu_code64(&cpu) ? 0 : cpu.seg[HV_SEG_SS].base;

    for (unsigned i = 0; i < count; i++) {
        flat_poke(&flat, base + cpu.slot[HV_REG_RSP] + (uint64_t)i * unit, unit, values[i]);
    }
}

struct return_row {
    const char *why;
    uint8_t mode, cpl;
    uint16_t cs, ss;
    uint64_t rip;
    uint8_t vector;
    uint32_t error;
};

/* From ring 0 or 3; SS counts when the ring changes and, for IRET, in 64-bit mode. */
static const struct return_row return_rows[] = {
    {"same ring", MACHINE_PROTECTED, 0, CODE0, 0, TARGET, 0, 0},
    {"to ring 3", MACHINE_PROTECTED, 0, CODE3 | 3, DATA3 | 3, TARGET, 0, 0},
    {"to ring 1", MACHINE_PROTECTED, 0, CODE1 | 1, DATA1 | 1, TARGET, 0, 0},
    {"conforming at ring 3", MACHINE_PROTECTED, 0, CONFORMING0 | 3, DATA3 | 3, TARGET, 0, 0},
    {"inward", MACHINE_PROTECTED, 3, CODE0, DATA0, TARGET, HV_VECTOR_GP, CODE0},
    {"null CS", MACHINE_PROTECTED, 0, 3, DATA3 | 3, TARGET, HV_VECTOR_GP, 0},
    {"beyond", MACHINE_PROTECTED, 0, 0x103, 0, TARGET, HV_VECTOR_GP, 0x100},
    {"data", MACHINE_PROTECTED, 0, DATA3 | 3, 0, TARGET, HV_VECTOR_GP, DATA3},
    {"RPL is not DPL", MACHINE_PROTECTED, 0, CODE0 | 3, DATA3 | 3, TARGET, HV_VECTOR_GP, CODE0},
    {"absent", MACHINE_PROTECTED, 0, ABSENT_CODE0, 0, TARGET, HV_VECTOR_NP, ABSENT_CODE0},
    {"limit", MACHINE_PROTECTED, 0, CODE16_0, 0, 0x10000, HV_VECTOR_GP, 0},
    {"null SS", MACHINE_PROTECTED, 0, CODE3 | 3, 3, TARGET, HV_VECTOR_GP, 0},
    {"SS RPL", MACHINE_PROTECTED, 0, CODE3 | 3, DATA3, TARGET, HV_VECTOR_GP, DATA3},
    {"SS DPL", MACHINE_PROTECTED, 0, CODE3 | 3, DATA0 | 3, TARGET, HV_VECTOR_GP, DATA0},
    {"SS code", MACHINE_PROTECTED, 0, CODE3 | 3, CODE3 | 3, TARGET, HV_VECTOR_GP, CODE3},
    {"to 64-bit ring 3", MACHINE_LONG, 0, CODE64_3 | 3, DATA3 | 3, UINT64_C(0x7fffffff0000), 0, 0},
    {"to compatibility", MACHINE_LONG, 0, CODE3 | 3, DATA3 | 3, TARGET, 0, 0},
    {"not canonical", MACHINE_LONG, 0, CODE64_3 | 3, DATA3 | 3, UINT64_C(0x800000000000),
     HV_VECTOR_GP, 0},
    {"null SS in ring 3", MACHINE_LONG, 0, CODE64_3 | 3, 3, TARGET, HV_VECTOR_GP, 0},
    {"null SS, compatibility", MACHINE_LONG, 0, CODE3 | 3, 3, TARGET, HV_VECTOR_GP, 0},
    {"L and D", MACHINE_LONG, 0, CODE64_WIDE, DATA0, TARGET, HV_VECTOR_GP, CODE64_WIDE},
};

static void return_row(const struct return_row *row, bool is_iret)
{
    bool wide = row->mode == MACHINE_LONG;
    unsigned unit = wide ? 8 : 4;
    unsigned new_cpl = row->cs & 3;
    uint64_t frame[6] = {row->rip, row->cs};
    unsigned count = 2;
    int result;

    machine_start((enum machine_mode)row->mode);
    machine_ring(row->cpl, wide);
    cpu.nmi_blocked = true;
    if (is_iret) {
        frame[count++] = HV_RFLAGS_IF | HV_RFLAGS_CF;
    }
    frame[count++] = STACK3 - 0x80;
    frame[count++] = row->ss;
    put_stack(unit, frame, count);
    snapshot();
    result = is_iret ? iret(unit) : hv_transfer_far_return(&cpu, &flat.access, unit, 0, &fault);
    if (row->vector) {
        TAP_OK(faulted(result, (enum hv_vector)row->vector, row->error));
        TAP_OK(unchanged());
        return;
    }
    TAP_EQ(result, 0);
    TAP_EQ(cpu.rip, row->rip);
    TAP_EQ(cpu.cpl, new_cpl);
    TAP_EQ(cpu.nmi_blocked, !is_iret);
    if (new_cpl != row->cpl) {
        TAP_EQ(cpu.seg[HV_SEG_SS].selector, row->ss);
        TAP_EQ(cpu.slot[HV_REG_RSP], STACK3 - 0x80);
        TAP_OK(cpu.seg[HV_SEG_DS].attr & HV_SEG_ATTR_UNUSABLE); /* ring 0 data is out of reach */
        TAP_EQ(cpu.seg[HV_SEG_DS].selector, 0);
    } else {
        TAP_EQ(cpu.slot[HV_REG_RSP], before.slot[HV_REG_RSP] + (is_iret ? 3 : 2) * unit);
        TAP_EQ(cpu.seg[HV_SEG_DS].selector, before.seg[HV_SEG_DS].selector);
    }
    if (is_iret) {
        TAP_EQ(hv_cpu_rflags(&cpu), HV_RFLAGS_IF | HV_RFLAGS_CF | HV_RFLAGS_FIXED);
    }
    TAP_OK(machine_consistent());
}

static void test_return_rows(void)
{
    for (size_t i = 0; i < HV_ARRAY_LEN(return_rows); i++) {
        return_row(&return_rows[i], false);
        return_row(&return_rows[i], true);
        if (tap_failed()) {
            tap_note("row: %s", return_rows[i].why);
            return;
        }
    }
}

/* In 64-bit mode IRET always loads SS:RSP; rings 0 to 2 do without a segment. */
static void test_iret_null_stack(void)
{
    machine_start(MACHINE_LONG);
    put_stack(8, (uint64_t[]){TARGET, CODE64_0, HV_RFLAGS_FIXED, 0x21ff0, 0}, 5);
    TAP_EQ(iret(8), 0);
    TAP_EQ(cpu.slot[HV_REG_RSP], 0x21ff0);
    TAP_EQ(cpu.seg[HV_SEG_SS].selector, 0);
    cpu.slot[HV_REG_RSP] = STACK0 - 0x100;
    put_stack(8, (uint64_t[]){TARGET, CODE64_0, HV_RFLAGS_FIXED, 0x21ff0, 1}, 5);
    snapshot();
    TAP_OK(faulted(iret(8), HV_VECTOR_GP, 0)); /* RPL is not the ring */
    put_stack(8, (uint64_t[]){TARGET, CODE0, HV_RFLAGS_FIXED, 0x21ff0, 0}, 5);
    TAP_OK(faulted(iret(8), HV_VECTOR_GP, 0)); /* compatibility mode needs one */
    TAP_OK(unchanged());
    cpu.rflags |= HV_RFLAGS_NT;
    TAP_OK(faulted(iret(8), HV_VECTOR_GP, 0));
}

/* FS and GS without a selector keep the bases that MSRs gave them; SP into a 16-bit stack keeps the
 * upper half of ESP. */
static void test_iret_leftovers(void)
{
    struct hv_segment null = hv_segment_null(0);

    machine_start(MACHINE_LONG);
    null.base = UINT64_C(0x7f1234567000);
    hv_segment_set(&cpu, HV_SEG_FS, &null);
    put_stack(8, (uint64_t[]){TARGET, CODE64_3 | 3, HV_RFLAGS_FIXED, STACK3, DATA3 | 3}, 5);
    TAP_EQ(iret(8), 0);
    TAP_EQ(cpu.slot[HV_SLOT_SEG_BASE + HV_SEG_FS], UINT64_C(0x7f1234567000));

    machine_start(MACHINE_LONG);
    put_gdt(SPARE, descriptor_of(0, 0xffff, attr_of(TYPE_DATA, 3, 0)));
    put_stack(8, (uint64_t[]){TARGET, CODE3 | 3, HV_RFLAGS_FIXED, 0x9998, SPARE | 3}, 5);
    TAP_EQ(iret(8), 0);
    TAP_EQ(cpu.slot[HV_REG_RSP], 0x29998);
}

static void test_iret_flags(void)
{
    /* Which flags an IRET with all ones changes, by CPL, IOPL and operand size. */
    static const struct {
        uint8_t cpl, iopl, unit;
        uint32_t flags;
    } rows[] = {
        {0, 0, 4, 0x3d7fd7}, {3, 0, 4, 0x254dd7}, {3, 3, 4, 0x257fd7},
        {0, 0, 2, 0x7fd7},   {3, 0, 2, 0x4dd7},   {1, 1, 4, 0x255fd7},
    };

    for (size_t i = 0; i < HV_ARRAY_LEN(rows); i++) {
        static const uint16_t code[] = {CODE0, CODE1 | 1, 0, CODE3 | 3};

        machine_start(MACHINE_PROTECTED);
        machine_ring(rows[i].cpl, false);
        hv_cpu_set_rflags(&cpu, (uint64_t)rows[i].iopl << 12);
        put_stack(
            rows[i].unit,
            (uint64_t[]){TARGET & 0xffff, code[rows[i].cpl], UINT32_MAX & ~(uint64_t)HV_RFLAGS_VM},
            3);
        TAP_EQ(iret(rows[i].unit), 0);
        TAP_EQ(hv_cpu_rflags(&cpu), rows[i].flags);
    }
}

static void test_v86_round_trip(void)
{
    machine_start(MACHINE_PROTECTED);
    put_stack(4,
              (uint64_t[]){0xffff, 0x2000, HV_RFLAGS_VM | HV_RFLAGS_IF, 0xfff0, 0x3000, 0x3100,
                           0x3200, 0x3300, 0x3400},
              9);
    TAP_EQ(iret(4), 0);
    TAP_OK(hv_cpu_v86(&cpu));
    TAP_EQ(cpu.cpl, 3);
    TAP_EQ(cpu.rip, 0xffff);
    TAP_EQ(cpu.seg[HV_SEG_CS].base, 0x20000);
    TAP_EQ(cpu.seg[HV_SEG_SS].base, 0x30000);
    TAP_EQ(cpu.seg[HV_SEG_ES].base, 0x31000);
    TAP_EQ(cpu.seg[HV_SEG_DS].base, 0x32000);
    TAP_EQ(cpu.seg[HV_SEG_FS].base, 0x33000);
    TAP_EQ(cpu.seg[HV_SEG_GS].base, 0x34000);
    TAP_EQ(cpu.slot[HV_REG_RSP], 0xfff0);
    TAP_OK(machine_consistent());

    TAP_OK(faulted(iret(2), HV_VECTOR_GP, 0)); /* IOPL 0 */
    put_idt(0x30, HV_SYSTEM_INTERRUPT_GATE, 3, CODE0, TARGET, 0);
    snapshot();
    TAP_EQ(hv_event_deliver(&cpu, &flat.access, HV_EVENT_EXTERNAL, 0x30, false, 0, cpu.rip, &fault),
           0);
    TAP_EQ(cpu.cpl, 0);
    TAP_EQ(iret(4), 0);
    TAP_OK(same_segments(&before, &cpu));
    TAP_EQ(cpu.rflags, before.rflags);
    TAP_EQ(cpu.slot[HV_REG_RSP], before.slot[HV_REG_RSP]);

    cpu.rflags |= HV_RFLAGS_IOPL;
    put_stack(2, (uint64_t[]){0x200, 0x2100, 0}, 3);
    TAP_EQ(iret(2), 0);
    TAP_EQ(cpu.seg[HV_SEG_CS].base, 0x21000);
    TAP_OK(hv_cpu_v86(&cpu)); /* VM and IOPL stay */
    TAP_EQ(cpu.rflags & HV_RFLAGS_IOPL, HV_RFLAGS_IOPL);

    machine_start(MACHINE_PROTECTED);
    put_stack(4, (uint64_t[]){0x10000, 0x2000, HV_RFLAGS_VM, 0, 0, 0, 0, 0, 0}, 9);
    snapshot();
    TAP_OK(faulted(iret(4), HV_VECTOR_GP, 0));
    TAP_OK(unchanged());
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"cpu.transfer-return.return-rows", test_return_rows},
        {"cpu.transfer-return.iret-null-stack", test_iret_null_stack},
        {"cpu.transfer-return.iret-leftovers", test_iret_leftovers},
        {"cpu.transfer-return.iret-flags", test_iret_flags},
        {"cpu.transfer-return.v86-round-trip", test_v86_round_trip},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

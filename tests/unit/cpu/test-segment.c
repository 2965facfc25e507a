/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Segment loads, the check of an access, LAR and its like: one row a condition. */
#include "cpu/segment.h"

#include "unit/cpu/flat-check.h"

enum { NONE = 0xff };

struct load_row {
    const char *why;
    uint8_t cpl;
    uint8_t seg;
    uint16_t selector;
    uint8_t vector; /* NONE: it loads */
    uint32_t error;
};

static const struct load_row load_rows[] = {
    {"data", 0, HV_SEG_DS, DATA0, NONE, 0},
    {"data of an outer ring", 0, HV_SEG_DS, DATA3 | 3, NONE, 0},
    {"data of an inner ring", 3, HV_SEG_DS, DATA0, HV_VECTOR_GP, DATA0},
    {"RPL above DPL", 0, HV_SEG_DS, DATA0 | 3, HV_VECTOR_GP, DATA0},
    {"readable code", 0, HV_SEG_ES, CODE0, NONE, 0},
    {"conforming code from ring 3", 3, HV_SEG_ES, CONFORMING0 | 3, NONE, 0},
    {"execute-only code", 0, HV_SEG_ES, XONLY0, HV_VECTOR_GP, XONLY0},
    {"null data", 3, HV_SEG_FS, 3, NONE, 0},
    {"a TSS", 0, HV_SEG_GS, SEL_TSS, HV_VECTOR_GP, SEL_TSS},
    {"not present", 0, HV_SEG_GS, ABSENT_DATA0, HV_VECTOR_NP, ABSENT_DATA0},
    {"beyond the GDT", 0, HV_SEG_DS, 0x100, HV_VECTOR_GP, 0x100},
    {"in a missing LDT", 0, HV_SEG_DS, 0xc, HV_VECTOR_GP, 0xc},
    {"stack", 0, HV_SEG_SS, DATA0, NONE, 0},
    {"stack with foreign RPL", 0, HV_SEG_SS, DATA0 | 1, HV_VECTOR_GP, DATA0},
    {"stack with foreign DPL", 3, HV_SEG_SS, DATA0 | 3, HV_VECTOR_GP, DATA0},
    {"stack, read-only", 0, HV_SEG_SS, READONLY0, HV_VECTOR_GP, READONLY0},
    {"stack, code", 0, HV_SEG_SS, CODE0, HV_VECTOR_GP, CODE0},
    {"stack, not present", 0, HV_SEG_SS, ABSENT_DATA0, HV_VECTOR_SS, ABSENT_DATA0},
    {"null stack", 0, HV_SEG_SS, 0, HV_VECTOR_GP, 0},
};

static void load_row(const struct load_row *row)
{
    int result;

    machine_start(MACHINE_PROTECTED);
    machine_ring(row->cpl, false);
    snapshot();
    result = hv_segment_load(&cpu, &flat.access, (enum hv_seg)row->seg, row->selector, &fault);
    if (row->vector == NONE) {
        TAP_EQ(result, 0);
        TAP_EQ(cpu.seg[row->seg].selector, row->selector);
    } else {
        TAP_OK(faulted(result, (enum hv_vector)row->vector, row->error));
        TAP_OK(unchanged());
    }
    TAP_OK(machine_consistent());
}

static void test_load_rows(void)
{
    for (size_t i = 0; i < HV_ARRAY_LEN(load_rows); i++) {
        load_row(&load_rows[i]);
        if (tap_failed()) {
            tap_note("row: %s", load_rows[i].why);
            return;
        }
    }
}

static void test_null_stack_long(void)
{
    machine_start(MACHINE_LONG);
    TAP_EQ(hv_segment_load(&cpu, &flat.access, HV_SEG_SS, 0, &fault), 0);
    TAP_OK(cpu.seg[HV_SEG_SS].attr & HV_SEG_ATTR_UNUSABLE);
    TAP_OK(faulted(hv_segment_load(&cpu, &flat.access, HV_SEG_SS, 3, &fault), HV_VECTOR_GP, 0));
    machine_ring(3, true);
    TAP_OK(faulted(hv_segment_load(&cpu, &flat.access, HV_SEG_SS, 3, &fault), HV_VECTOR_GP, 0));
    machine_ring(0, false); /* compatibility mode */
    TAP_OK(faulted(hv_segment_load(&cpu, &flat.access, HV_SEG_SS, 0, &fault), HV_VECTOR_GP, 0));
}

static void test_accessed_bit(void)
{
    machine_start(MACHINE_LONG);
    put_gdt(SPARE, descriptor_of(0x12345678, 0xfffff, attr_of(0x12, 0, FLAG_DB | FLAG_G)));
    page_bits(AT_GDT, 0, 2); /* read-only: the bit cannot be set */
    snapshot();
    TAP_OK(faulted(hv_segment_load(&cpu, &flat.access, HV_SEG_DS, SPARE, &fault), HV_VECTOR_PF, 3));
    TAP_EQ(fault.cr2, AT_GDT + SPARE + 5);
    TAP_OK(unchanged());
    TAP_EQ(hv_segment_load(&cpu, &flat.access, HV_SEG_DS, DATA0, &fault), 0);
    page_bits(AT_GDT, 2, 0);
    TAP_EQ(hv_segment_load(&cpu, &flat.access, HV_SEG_FS, SPARE, &fault), 0);
    TAP_EQ(get_gdt(SPARE) >> 40 & 1, 1);
    TAP_EQ(cpu.seg[HV_SEG_FS].base, 0x12345678);
    TAP_EQ(cpu.seg[HV_SEG_FS].limit, UINT32_MAX);
    TAP_EQ(cpu.slot[HV_SLOT_SEG_BASE + HV_SEG_FS], 0x12345678);
    TAP_EQ(cpu.slot[HV_SLOT_SEG_BASE + HV_SEG_DS], 0);
}

static void test_real_and_v86(void)
{
    machine_start(MACHINE_REAL);
    cpu.seg[HV_SEG_DS].limit = UINT32_MAX; /* big real mode */
    TAP_EQ(hv_segment_load(&cpu, &flat.access, HV_SEG_DS, 0xb800, &fault), 0);
    TAP_EQ(cpu.slot[HV_SLOT_SEG_BASE + HV_SEG_DS], 0xb8000);
    TAP_EQ(cpu.seg[HV_SEG_DS].limit, UINT32_MAX);
    machine_start(MACHINE_V86);
    cpu.seg[HV_SEG_DS].limit = UINT32_MAX;
    TAP_EQ(hv_segment_load(&cpu, &flat.access, HV_SEG_DS, 3, &fault), 0);
    TAP_EQ(cpu.seg[HV_SEG_DS].limit, 0xffff);
    TAP_EQ(cpu.seg[HV_SEG_DS].attr, 0xf3);
    TAP_OK(machine_consistent());
}

struct linear_row {
    const char *why;
    uint16_t selector;
    uint64_t offset;
    uint8_t bytes;
    bool write, good;
};

static const struct linear_row linear_rows[] = {
    {"inside", SMALL0, 0xffc, 4, true, true},
    {"last byte", SMALL0, 0xfff, 1, false, true},
    {"across the limit", SMALL0, 0xffd, 4, false, false},
    {"beyond", SMALL0, 0x1000, 1, false, false},
    {"expand-down above", DOWN0, 0x1000, 4, true, true},
    {"expand-down, first byte below", DOWN0, 0xfff, 4, true, false},
    {"expand-down, top", DOWN0, 0xffffffff, 1, true, true},
    {"expand-down, over the top", DOWN0, 0xfffffffe, 4, true, false},
    {"read-only, read", READONLY0, 0, 8, false, true},
    {"read-only, write", READONLY0, 0, 8, true, false},
    {"code, read", CODE0, 0, 1, false, true},
    {"code, write", CODE0, 0, 1, true, false},
    {"4 GiB, last", DATA0, 0xfffffffc, 4, true, true},
    {"4 GiB, wraps", DATA0, 0xfffffffd, 4, true, false},
};

static void test_linear_rows(void)
{
    for (size_t i = 0; i < HV_ARRAY_LEN(linear_rows); i++) {
        const struct linear_row *row = &linear_rows[i];
        hv_gva gva;

        machine_start(MACHINE_PROTECTED);
        for (unsigned s = HV_SEG_SS; s <= HV_SEG_DS; s++) {
            int result;

            load_raw((enum hv_seg)s, row->selector);
            result = hv_segment_linear(&cpu, (enum hv_seg)s, row->offset, row->bytes, row->write,
                                       &gva, &fault);
            if (row->good ? result != 0
                          : !faulted(result, s == HV_SEG_SS ? HV_VECTOR_SS : HV_VECTOR_GP, 0)) {
                tap_fail(__FILE__, __LINE__, "row: %s", row->why);
                return;
            }
        }
    }
}

static void test_linear_modes(void)
{
    const struct hv_segment null = hv_segment_null(0);
    hv_gva gva;

    machine_start(MACHINE_PROTECTED);
    hv_segment_set(&cpu, HV_SEG_DS, &null);
    TAP_OK(faulted(hv_segment_linear(&cpu, HV_SEG_DS, 0, 1, false, &gva, &fault), HV_VECTOR_GP, 0));
    put_gdt(SPARE, descriptor_of(0xfffff000, 0xfffff, attr_of(TYPE_DATA, 0, FLAG_DB | FLAG_G)));
    load_raw(HV_SEG_DS, SPARE);
    TAP_EQ(hv_segment_linear(&cpu, HV_SEG_DS, 0x2000, 1, true, &gva, &fault), 0);
    TAP_EQ(gva.v, 0x1000); /* linear addresses wrap at 4 GiB */
    put_gdt(SPARE, descriptor_of(0, 0xfff, attr_of(TYPE_DATA | 4, 0, 0)));
    load_raw(HV_SEG_DS, SPARE); /* expand-down, 16-bit: ends at ffffh */
    TAP_EQ(hv_segment_linear(&cpu, HV_SEG_DS, 0xffff, 1, true, &gva, &fault), 0);
    TAP_OK(faulted(hv_segment_linear(&cpu, HV_SEG_DS, 0x10000, 1, true, &gva, &fault), HV_VECTOR_GP,
                   0));

    machine_start(MACHINE_REAL);
    TAP_EQ(hv_segment_linear(&cpu, HV_SEG_CS, 0xffff, 1, true, &gva, &fault), 0);
    TAP_EQ(gva.v, 0x10fff);
    TAP_OK(faulted(hv_segment_linear(&cpu, HV_SEG_CS, 0xffff, 2, true, &gva, &fault), HV_VECTOR_GP,
                   0));

    machine_start(MACHINE_LONG);
    hv_segment_set(&cpu, HV_SEG_DS, &null);
    cpu.seg[HV_SEG_GS].base = UINT64_C(0xffff888000000000);
    hv_segment_sync_slots(&cpu);
    TAP_EQ(hv_segment_linear(&cpu, HV_SEG_DS, UINT64_C(0x00007ffffffffff8), 8, true, &gva, &fault),
           0);
    TAP_OK(faulted(
        hv_segment_linear(&cpu, HV_SEG_DS, UINT64_C(0x00007ffffffffff9), 8, true, &gva, &fault),
        HV_VECTOR_GP, 0));
    TAP_OK(faulted(
        hv_segment_linear(&cpu, HV_SEG_SS, UINT64_C(0x0000800000000000), 8, true, &gva, &fault),
        HV_VECTOR_SS, 0));
    TAP_EQ(hv_segment_linear(&cpu, HV_SEG_GS, 0x10, 8, true, &gva, &fault), 0);
    TAP_EQ(gva.v, UINT64_C(0xffff888000000010));
    TAP_EQ(hv_segment_linear(&cpu, HV_SEG_CS, UINT64_MAX - 7, 8, true, &gva, &fault), 0);
}

static void test_system_loads(void)
{
    machine_start(MACHINE_LONG);
    cpu.seg[HV_SEG_TR].selector = 0;
    TAP_OK(faulted(hv_segment_load_tr(&cpu, &flat.access, SEL_TSS, &fault), HV_VECTOR_GP, SEL_TSS));
    put_gdt(SEL_TSS, descriptor_of(AT_TSS, 0x67, attr_of(HV_SYSTEM_TSS, 0, 0)));
    put_gdt(SEL_TSS + 8, 0xffff8000);
    TAP_EQ(hv_segment_load_tr(&cpu, &flat.access, SEL_TSS, &fault), 0);
    TAP_EQ(cpu.seg[HV_SEG_TR].base, UINT64_C(0xffff800000004000));
    TAP_EQ(cpu.seg[HV_SEG_TR].attr & 0xf, HV_SYSTEM_TSS_BUSY);
    TAP_EQ(get_gdt(SEL_TSS) >> 40 & 0xf, HV_SYSTEM_TSS_BUSY);

    snapshot();
    TAP_OK(faulted(hv_segment_load_tr(&cpu, &flat.access, SEL_TSS, &fault), HV_VECTOR_GP, SEL_TSS));
    TAP_OK(faulted(hv_segment_load_tr(&cpu, &flat.access, 0, &fault), HV_VECTOR_GP, 0));
    TAP_OK(faulted(hv_segment_load_tr(&cpu, &flat.access, SEL_LDT, &fault), HV_VECTOR_GP, SEL_LDT));
    TAP_OK(faulted(hv_segment_load_tr(&cpu, &flat.access, 0xfc, &fault), HV_VECTOR_GP, 0xfc));
    TAP_OK(faulted(hv_segment_load_tr(&cpu, &flat.access, 0xf8, &fault), HV_VECTOR_GP, 0xf8));
    put_gdt(SPARE, descriptor_of(AT_TSS, 0x67, attr_of(HV_SYSTEM_TSS, 0, 0) & ~0x80u));
    TAP_OK(faulted(hv_segment_load_tr(&cpu, &flat.access, SPARE, &fault), HV_VECTOR_NP, SPARE));
    put_gdt(SPARE, descriptor_of(AT_TSS, 0x67, attr_of(HV_SYSTEM_TSS, 0, 0)));
    put_gdt(SPARE + 8, UINT64_C(0x100000000000)); /* type of the upper half */
    TAP_OK(faulted(hv_segment_load_tr(&cpu, &flat.access, SPARE, &fault), HV_VECTOR_GP, SPARE));
    put_gdt(SPARE + 8, 0x00800000); /* not canonical */
    TAP_OK(faulted(hv_segment_load_tr(&cpu, &flat.access, SPARE, &fault), HV_VECTOR_GP, SPARE));
    put_gdt(SPARE, descriptor_of(AT_TSS, 0x67, attr_of(HV_SYSTEM_TSS16, 0, 0)));
    TAP_OK(faulted(hv_segment_load_tr(&cpu, &flat.access, SPARE, &fault), HV_VECTOR_GP, SPARE));
    TAP_OK(unchanged());

    TAP_EQ(hv_segment_load_ldtr(&cpu, &flat.access, SEL_LDT, &fault), 0);
    TAP_EQ(cpu.seg[HV_SEG_LDTR].base, AT_LDT);
    flat_poke(&flat, AT_LDT + 8, 8, get_gdt(DATA0));
    TAP_EQ(hv_segment_load(&cpu, &flat.access, HV_SEG_DS, 0xc, &fault), 0);
    TAP_OK(faulted(hv_segment_load_ldtr(&cpu, &flat.access, DATA0, &fault), HV_VECTOR_GP, DATA0));
    TAP_EQ(hv_segment_load_ldtr(&cpu, &flat.access, 3, &fault), 0);
    TAP_OK(cpu.seg[HV_SEG_LDTR].attr & HV_SEG_ATTR_UNUSABLE);
    cpu.cpl = 3;
    TAP_OK(faulted(hv_segment_load_ldtr(&cpu, &flat.access, SEL_LDT, &fault), HV_VECTOR_GP, 0));
    TAP_OK(faulted(hv_segment_load_tr(&cpu, &flat.access, SEL_TSS, &fault), HV_VECTOR_GP, 0));

    machine_start(MACHINE_PROTECTED);
    put_gdt(SPARE, descriptor_of(AT_TSS, 0x2b, attr_of(HV_SYSTEM_TSS16, 0, 0)));
    TAP_EQ(hv_segment_load_tr(&cpu, &flat.access, SPARE, &fault), 0);
    TAP_EQ(cpu.seg[HV_SEG_TR].attr & 0xf, HV_SYSTEM_TSS16_BUSY);
}

struct query_row {
    uint16_t selector;
    uint8_t cpl;
    /* Expected ZF of LAR, LSL, VERR, VERW. */
    bool lar, lsl, verr, verw;
};

static const struct query_row query_rows[] = {
    {0, 0, false, false, false, false},
    {0x100, 0, false, false, false, false},
    {DATA0, 0, true, true, true, true},
    {DATA0, 3, false, false, false, false},
    {DATA3 | 3, 3, true, true, true, true},
    {DATA3, 3, true, true, true, true},
    {DATA0 | 3, 0, false, false, false, false},
    {READONLY0, 0, true, true, true, false},
    {CODE0, 0, true, true, true, false},
    {XONLY0, 0, true, true, false, false},
    {CONFORMING0 | 3, 3, true, true, true, false},
    {ABSENT_DATA0, 0, true, true, true, true},
    {SEL_TSS, 0, true, true, false, false},
    {SEL_LDT, 0, true, true, false, false},
    {GATE, 0, true, false, false, false},
    {SPARE, 0, true, false, false, false},
};

static void test_queries(void)
{
    for (size_t i = 0; i < HV_ARRAY_LEN(query_rows); i++) {
        const struct query_row *row = &query_rows[i];
        const bool expected[] = {row->lar, row->lsl, row->verr, row->verw};
        uint64_t value = 0;
        bool valid;

        machine_start(MACHINE_PROTECTED);
        put_gdt(GATE, gate_of(HV_SYSTEM_CALL_GATE16, 0, CODE0, 0, 0));
        put_gdt(SPARE, gate_of(HV_SYSTEM_TASK_GATE, 0, SEL_TSS2, 0, 0));
        machine_ring(row->cpl, false);
        snapshot();
        for (unsigned query = 0; query < 4; query++) {
            TAP_EQ(hv_segment_query(&cpu, &flat.access, (enum hv_segment_query)query, row->selector,
                                    &valid, &value, &fault),
                   0);
            TAP_EQ(valid, expected[query]);
        }
        TAP_OK(unchanged());
    }
}

static void test_query_values(void)
{
    uint64_t value;
    bool valid;

    machine_start(MACHINE_LONG);
    TAP_EQ(
        hv_segment_query(&cpu, &flat.access, HV_SEGMENT_QUERY_LSL, DATA0, &valid, &value, &fault),
        0);
    TAP_EQ(value, UINT32_MAX);
    TAP_EQ(
        hv_segment_query(&cpu, &flat.access, HV_SEGMENT_QUERY_LSL, SMALL0, &valid, &value, &fault),
        0);
    TAP_EQ(value, 0xfff);
    TAP_EQ(hv_segment_query(&cpu, &flat.access, HV_SEGMENT_QUERY_LAR, DATA3 | 3, &valid, &value,
                            &fault),
           0);
    TAP_EQ(value, 0xcff300);
    /* Long mode knows neither 16-bit gates nor task gates. */
    put_gdt(GATE, gate_of(HV_SYSTEM_CALL_GATE16, 0, CODE0, 0, 0));
    TAP_EQ(hv_segment_query(&cpu, &flat.access, HV_SEGMENT_QUERY_LAR, GATE, &valid, &value, &fault),
           0);
    TAP_OK(!valid);
    page_bits(AT_GDT, 0, 1);
    TAP_OK(faulted(
        hv_segment_query(&cpu, &flat.access, HV_SEGMENT_QUERY_LAR, DATA0, &valid, &value, &fault),
        HV_VECTOR_PF, 0));
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"cpu.segment.load-rows", test_load_rows},
        {"cpu.segment.null-stack-long", test_null_stack_long},
        {"cpu.segment.accessed-bit", test_accessed_bit},
        {"cpu.segment.real-and-v86", test_real_and_v86},
        {"cpu.segment.linear-rows", test_linear_rows},
        {"cpu.segment.linear-modes", test_linear_modes},
        {"cpu.segment.system-loads", test_system_loads},
        {"cpu.segment.queries", test_queries},
        {"cpu.segment.query-values", test_query_values},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Control and debug registers: one row for each condition of the manual, the state compared byte
 * for byte when it is refused. */
#include "cpu/control.h"

#include "cpu/policy.h"
#include "cpu/segment.h"
#include "lib/tap.h"
#include "unit/cpu/flat-memory.h"

static struct hv_cpu_policy policy;
static struct hv_cpu cpu, before;
static struct flat flat;
static struct hv_fault fault;

/* Modes that a row starts in. */
enum mode { REAL, PROTECTED, PAGING32, PAE, LONG64, COMPAT };

static const uint64_t long_cr4 = HV_CR4_PAE;

static void start(enum mode mode)
{
    memset(&cpu, 0, sizeof(cpu));
    memset(&fault, 0, sizeof(fault));
    hv_cpu_policy_init(&policy, 1, 2000000, false);
    cpu.policy = &policy;
    flat_init(&flat, &cpu);
    hv_cpu_reset(&cpu, true);
    cpu.cr0 = HV_CR0_ET;
    cpu.cr3 = 0x1000;
    for (unsigned i = 0; i < 4; i++) {
        flat_poke(&flat, 0x1000 + i * 8, 8, 0x2001 + i * 0x1000);
        flat_poke(&flat, 0x8000 + i * 8, 8, 0x3); /* a PDPTE with a reserved bit */
    }
    if (mode >= PROTECTED) {
        cpu.cr0 |= HV_CR0_PE;
    }
    if (mode >= PAGING32) {
        cpu.cr0 |= HV_CR0_PG;
    }
    if (mode >= PAE) {
        cpu.cr4 = long_cr4;
    }
    if (mode >= LONG64) {
        cpu.efer = HV_EFER_LME | HV_EFER_LMA;
        cpu.seg[HV_SEG_CS].attr |= mode == LONG64 ? HV_SEG_ATTR_L : HV_SEG_ATTR_DB;
    }
}

static void snapshot(void)
{
    memcpy(&before, &cpu, sizeof(cpu));
}

static bool unchanged(void)
{
    return memcmp(&before, &cpu, sizeof(cpu)) == 0;
}

static bool is_gp0(int result)
{
    return result == HV_FAULTED && fault.vector == HV_VECTOR_GP && fault.has_error &&
           fault.error == 0;
}

struct row {
    const char *why;
    enum mode mode;
    uint8_t number;
    bool refused;
    uint64_t value;
    /* Set before: in CR0, CR4, EFER, CR3. */
    uint64_t cr0, cr4, efer, cr3;
    /* What the write must call for. */
    uint8_t flush_all, flush_non_global, switches;
};

static const struct row cr_rows[] = {
    {"upper half of CR0", PROTECTED, 0, true, .value = HV_BIT(32) | HV_CR0_PE},
    {"PG without PE", REAL, 0, true, .value = HV_CR0_PG},
    {"NW without CD", PROTECTED, 0, true, .value = HV_CR0_PE | HV_CR0_NW},
    {"NW with CD", PROTECTED, 0, false, .value = (uint64_t)HV_CR0_PE | HV_CR0_NW | HV_CR0_CD},
    {"reserved low bits of CR0 are dropped", PROTECTED, 0, false, .value = HV_CR0_PE | HV_BIT(6)},
    {"PE on", REAL, 0, false, .value = HV_CR0_PE},
    {"paging on", PROTECTED, 0, false, .value = HV_CR0_PE | HV_CR0_PG, .flush_all = 1},
    {"paging off", PAGING32, 0, false, .value = HV_CR0_PE, .flush_all = 1},
    {"WP on", PAGING32, 0, false, .value = HV_CR0_PE | HV_CR0_PG | HV_CR0_WP, .flush_all = 1},
    {"TS flushes nothing", PAGING32, 0, false, .value = HV_CR0_PE | HV_CR0_PG | HV_CR0_TS},
    {"IA-32e without PAE", PROTECTED, 0, true, .value = HV_CR0_PE | HV_CR0_PG, .efer = HV_EFER_LME},
    {"IA-32e", PROTECTED, 0, false, .value = HV_CR0_PE | HV_CR0_PG, .efer = HV_EFER_LME,
     .cr4 = HV_CR4_PAE, .flush_all = 1},
    {"paging off in 64-bit mode", LONG64, 0, true, .value = HV_CR0_PE},
    {"paging off in compatibility mode", COMPAT, 0, false, .value = HV_CR0_PE, .flush_all = 1},
    {"paging off with PCIDs", COMPAT, 0, true, .value = HV_CR0_PE, .cr4 = HV_CR4_PCIDE},
    {"PAE paging on, good PDPTEs", PROTECTED, 0, false, .value = HV_CR0_PE | HV_CR0_PG,
     .cr4 = HV_CR4_PAE, .flush_all = 1},
    {"PAE paging on, bad PDPTEs", PROTECTED, 0, true, .value = HV_CR0_PE | HV_CR0_PG,
     .cr4 = HV_CR4_PAE, .cr3 = 0x8000},
    {"CD in PAE mode loads PDPTEs", PAE, 0, true,
     .value = (uint64_t)HV_CR0_PE | HV_CR0_PG | HV_CR0_CD, .cr3 = 0x8000},
    {"TS in PAE mode does not", PAE, 0, false, .value = HV_CR0_PE | HV_CR0_PG | HV_CR0_TS,
     .cr3 = 0x8000},

    {"CR2 takes anything", LONG64, 2, false, .value = UINT64_C(0x8000000000000000)},

    {"CR3 beyond 46 bits", LONG64, 3, true, .value = HV_BIT(46)},
    {"CR3 bit 63 without PCIDs", LONG64, 3, true, .value = HV_BIT(63) | 0x2000},
    {"CR3", LONG64, 3, false, .value = 0x2000, .flush_non_global = 1},
    {"CR3 with PCID", LONG64, 3, false, .value = 0x2005, .cr4 = HV_CR4_PCIDE, .switches = 1},
    {"CR3 with PCID, kept", LONG64, 3, false, .value = HV_BIT(63) | 0x2005, .cr4 = HV_CR4_PCIDE,
     .switches = 1},
    {"CR3 bit 62", LONG64, 3, true, .value = HV_BIT(62), .cr4 = HV_CR4_PCIDE},
    {"CR3 in PAE mode, bad PDPTEs", PAE, 3, true, .value = 0x8000},
    {"CR3 in PAE mode", PAE, 3, false, .value = 0x1000, .flush_non_global = 1},

    {"VME is not shown", PROTECTED, 4, true, .value = HV_CR4_VME},
    {"PVI is not shown", PROTECTED, 4, true, .value = HV_CR4_PVI},
    {"LA57 is not shown", PROTECTED, 4, true, .value = HV_CR4_LA57},
    {"VMXE", PROTECTED, 4, true, .value = HV_BIT(13)},
    {"SMXE", PROTECTED, 4, true, .value = HV_BIT(14)},
    {"PKE", PROTECTED, 4, true, .value = HV_BIT(22)},
    {"CET", PROTECTED, 4, true, .value = HV_BIT(23)},
    {"upper half of CR4", LONG64, 4, true, .value = HV_CR4_PAE | HV_BIT(32)},
    {"PAE off in long mode", LONG64, 4, true, .value = HV_CR4_PGE},
    {"PCIDE outside long mode", PAE, 4, true, .value = HV_CR4_PAE | HV_CR4_PCIDE},
    {"PCIDE while CR3 has one", LONG64, 4, true, .value = HV_CR4_PAE | HV_CR4_PCIDE, .cr3 = 0x1001},
    {"PCIDE", LONG64, 4, false, .value = HV_CR4_PAE | HV_CR4_PCIDE, .flush_all = 1},
    {"PCIDE stays with a PCID", LONG64, 4, false, .value = HV_CR4_PAE | HV_CR4_PCIDE | HV_CR4_TSD,
     .cr4 = HV_CR4_PCIDE, .cr3 = 0x1001},
    {"PGE", LONG64, 4, false, .value = HV_CR4_PAE | HV_CR4_PGE, .flush_all = 1},
    {"SMEP", LONG64, 4, false, .value = HV_CR4_PAE | HV_CR4_SMEP, .flush_all = 1},
    {"SMAP", LONG64, 4, false, .value = HV_CR4_PAE | HV_CR4_SMAP, .flush_all = 1},
    {"PSE", PAGING32, 4, false, .value = HV_CR4_PSE, .flush_all = 1},
    {"OSFXSR flushes nothing", LONG64, 4, false, .value = HV_CR4_PAE | HV_CR4_OSFXSR},
    {"PGE in PAE mode loads PDPTEs", PAE, 4, true, .value = HV_CR4_PAE | HV_CR4_PGE, .cr3 = 0x8000},
    {"SMEP in PAE mode loads PDPTEs", PAE, 4, true, .value = HV_CR4_PAE | HV_CR4_SMEP,
     .cr3 = 0x8000},
    {"NW in PAE mode loads PDPTEs", PAE, 0, true,
     .value = (uint64_t)HV_CR0_PE | HV_CR0_PG | HV_CR0_CD | HV_CR0_NW, .cr0 = HV_CR0_CD,
     .cr3 = 0x8000},
    {"PAE on loads PDPTEs", PAGING32, 4, true, .value = HV_CR4_PAE, .cr3 = 0x8000},
    {"TSD in PAE mode does not", PAE, 4, false, .value = HV_CR4_PAE | HV_CR4_TSD, .cr3 = 0x8000},

    {"CR8", LONG64, 8, false, .value = 15},
    {"CR8 of 16", LONG64, 8, true, .value = 16},
};

static void write_row(const struct row *row)
{
    int result;

    start(row->mode);
    cpu.cr0 |= row->cr0;
    cpu.cr4 |= row->cr4;
    cpu.efer |= row->efer;
    cpu.cr3 = row->cr3 ? row->cr3 : cpu.cr3;
    if (row->efer & HV_EFER_LME) {
        cpu.seg[HV_SEG_TR].attr = HV_SEG_ATTR_P | 0xb;
    }
    snapshot();
    result = hv_control_write_cr(&cpu, &flat.access, row->number, row->value, &fault);
    TAP_EQ(is_gp0(result), row->refused);
    TAP_OK(result == 0 || unchanged());
    TAP_EQ(flat.flushes_all, row->flush_all);
    TAP_EQ(flat.flushes_non_global, row->flush_non_global);
    TAP_EQ(flat.switches, row->switches);
    if (row->switches) {
        TAP_EQ(flat.switched_pcid, row->value & 0xfff);
        TAP_EQ(flat.switched_keep, row->value >> 63);
        TAP_EQ(cpu.cr3, row->value & ~HV_BIT(63));
    }
}

static void test_cr_rows(void)
{
    for (size_t i = 0; i < HV_ARRAY_LEN(cr_rows); i++) {
        write_row(&cr_rows[i]);
        if (tap_failed()) {
            tap_note("row: %s", cr_rows[i].why);
            return;
        }
    }
}

/* Each bit of CR4 is taken exactly when CPUID shows what it turns on. */
static void test_cr4_bits(void)
{
    const uint64_t shown = UINT64_C(0x370ffc); /* SMAP SMEP OSXSAVE PCIDE FSGSBASE, UMIP to TSD */

    for (unsigned bit = 0; bit < 64; bit++) {
        bool good = shown & HV_BIT(bit);

        start(LONG64);
        TAP_EQ(hv_control_write_cr(&cpu, &flat.access, 4, cpu.cr4 | HV_BIT(bit), &fault),
               good ? 0 : HV_FAULTED);
        policy.features = HV_BIT(HV_FEATURE_BASE);
        good = good && bit <= 10;
        start(LONG64);
        policy.features = HV_BIT(HV_FEATURE_BASE);
        TAP_EQ(hv_control_write_cr(&cpu, &flat.access, 4, cpu.cr4 | HV_BIT(bit), &fault),
               good ? 0 : HV_FAULTED);
    }
}

static void test_cr_privilege(void)
{
    uint64_t value;

    for (unsigned number = 0; number < 16; number++) {
        bool exists = number == 0 || (number >= 2 && number <= 4) || number == 8;
        int result;

        start(LONG64);
        result = hv_control_read_cr(&cpu, number, &value, &fault);
        TAP_EQ(result, exists ? 0 : HV_FAULTED);
        TAP_OK(exists || (fault.vector == HV_VECTOR_UD && !fault.has_error));
        cpu.cpl = 3;
        snapshot();
        TAP_OK(is_gp0(hv_control_read_cr(&cpu, number, &value, &fault)));
        TAP_OK(is_gp0(hv_control_write_cr(&cpu, &flat.access, number, 0, &fault)));
        TAP_OK(is_gp0(hv_control_lmsw(&cpu, &flat.access, 0, &fault)));
        TAP_OK(unchanged());
    }
}

static void test_long_mode_transition(void)
{
    start(PROTECTED);
    cpu.cr4 = HV_CR4_PAE;
    cpu.efer = HV_EFER_LME;
    cpu.seg[HV_SEG_DS].base = 0x1234000;
    hv_segment_sync_slots(&cpu);
    cpu.seg[HV_SEG_TR].attr = HV_SEG_ATTR_P | 3; /* busy 16-bit TSS */
    TAP_OK(is_gp0(hv_control_write_cr(&cpu, &flat.access, 0, HV_CR0_PE | HV_CR0_PG, &fault)));
    cpu.seg[HV_SEG_TR].attr = HV_SEG_ATTR_P | 0xb;
    cpu.seg[HV_SEG_CS].attr |= HV_SEG_ATTR_L;
    TAP_OK(is_gp0(hv_control_write_cr(&cpu, &flat.access, 0, HV_CR0_PE | HV_CR0_PG, &fault)));
    cpu.seg[HV_SEG_CS].attr &= ~(uint32_t)HV_SEG_ATTR_L;
    TAP_EQ(hv_control_write_cr(&cpu, &flat.access, 0, HV_CR0_PE | HV_CR0_PG, &fault), 0);
    TAP_EQ(cpu.efer, HV_EFER_LME | HV_EFER_LMA);
    TAP_EQ(cpu.slot[HV_SLOT_SEG_BASE + HV_SEG_DS], 0x1234000);
    TAP_EQ(hv_control_write_cr(&cpu, &flat.access, 0, HV_CR0_PE, &fault), 0);
    TAP_EQ(cpu.efer, HV_EFER_LME);
}

static void test_lmsw(void)
{
    start(PROTECTED);
    TAP_EQ(hv_control_lmsw(&cpu, &flat.access, 0xfff0 | HV_CR0_TS, &fault), 0);
    TAP_EQ(cpu.cr0, HV_CR0_ET | HV_CR0_PE | HV_CR0_TS);
    TAP_EQ(hv_control_lmsw(&cpu, &flat.access, HV_CR0_EM, &fault), 0); /* PE stays */
    TAP_EQ(cpu.cr0, HV_CR0_ET | HV_CR0_PE | HV_CR0_EM);
    cpu.cr0 |= HV_CR0_NE | HV_CR0_WP;
    TAP_EQ(hv_control_lmsw(&cpu, &flat.access, 0, &fault), 0); /* and what is above bit 3 */
    TAP_EQ(cpu.cr0, HV_CR0_ET | HV_CR0_PE | HV_CR0_NE | HV_CR0_WP);
    start(REAL);
    TAP_EQ(hv_control_lmsw(&cpu, &flat.access, HV_CR0_PE | HV_CR0_MP, &fault), 0);
    TAP_EQ(cpu.cr0, HV_CR0_ET | HV_CR0_PE | HV_CR0_MP);
}

static void test_cr8_hook(void)
{
    uint64_t value;

    start(LONG64);
    TAP_EQ(hv_control_write_cr(&cpu, &flat.access, 8, 9, &fault), 0);
    TAP_EQ(flat.cr8, 9);
    TAP_EQ(hv_control_read_cr(&cpu, 8, &value, &fault), 0);
    TAP_EQ(value, 9);
}

static void test_dr(void)
{
    uint64_t value;

    start(LONG64);
    TAP_EQ(hv_control_write_dr(&cpu, 0, UINT64_MAX, &fault), 0);
    TAP_EQ(cpu.dr[0], UINT64_MAX);
    TAP_OK(is_gp0(hv_control_write_dr(&cpu, 6, HV_BIT(32), &fault)));
    TAP_OK(is_gp0(hv_control_write_dr(&cpu, 7, HV_BIT(63), &fault)));
    TAP_EQ(hv_control_write_dr(&cpu, 6, 0, &fault), 0);
    TAP_EQ(cpu.dr[6], 0xffff0ff0);
    TAP_EQ(hv_control_write_dr(&cpu, 6, UINT32_MAX, &fault), 0);
    TAP_EQ(cpu.dr[6], 0xffffefff);
    /* 4 and 5 are 6 and 7 unless CR4.DE. */
    TAP_EQ(hv_control_write_dr(&cpu, 5, 0xffff03ff, &fault), 0);
    TAP_EQ(cpu.dr[7], 0xffff07ff);
    TAP_EQ(hv_control_read_dr(&cpu, 4, &value, &fault), 0);
    TAP_EQ(value, cpu.dr[6]);
    cpu.cr4 |= HV_CR4_DE;
    TAP_EQ(hv_control_read_dr(&cpu, 4, &value, &fault), HV_FAULTED);
    TAP_EQ(fault.vector, HV_VECTOR_UD);
    TAP_EQ(hv_control_write_dr(&cpu, 8, 0, &fault), HV_FAULTED);
    TAP_EQ(fault.vector, HV_VECTOR_UD);
    cpu.cpl = 1;
    TAP_OK(is_gp0(hv_control_read_dr(&cpu, 0, &value, &fault)));
}

static void test_dr_general_detect(void)
{
    uint64_t value;

    start(LONG64);
    TAP_EQ(hv_control_write_dr(&cpu, 7, UINT32_MAX, &fault), 0);
    TAP_EQ(cpu.dr[7], 0xffff27ff);
    TAP_EQ(hv_control_read_dr(&cpu, 3, &value, &fault), HV_FAULTED);
    TAP_EQ(fault.vector, HV_VECTOR_DB);
    TAP_OK(!fault.has_error);
    TAP_OK(cpu.dr[6] & HV_DR6_BD);
    TAP_OK(cpu.dr[7] & HV_DR7_GD);
}

static void test_xsetbv(void)
{
    start(LONG64);
    TAP_EQ(hv_control_xsetbv(&cpu, 0, 3, &fault), HV_FAULTED);
    TAP_EQ(fault.vector, HV_VECTOR_UD);
    cpu.cr4 |= HV_CR4_OSXSAVE;
    policy.xcr0_mask = 7;
    TAP_OK(is_gp0(hv_control_xsetbv(&cpu, 1, 3, &fault)));
    for (uint64_t value = 0; value < 32; value++) {
        bool good = (value & 1) && value <= 7 && (value & 6) != 4;

        cpu.xcr0 = 1;
        TAP_EQ(hv_control_xsetbv(&cpu, 0, value, &fault), good ? 0 : HV_FAULTED);
        TAP_EQ(cpu.xcr0, good ? value : 1);
    }
    policy.xcr0_mask = 3;
    TAP_OK(is_gp0(hv_control_xsetbv(&cpu, 0, 7, &fault)));
    cpu.cpl = 3;
    TAP_OK(is_gp0(hv_control_xsetbv(&cpu, 0, 1, &fault)));
}

static void test_invpcid(void)
{
    static const struct {
        uint64_t type, descriptor[2];
        bool pcids, refused;
        uint8_t all, non_global, page, pcid;
    } table[] = {
        {4, {0, 0}, true, true, 0, 0, 0, 0},           {0, {0x1000, 0}, true, true, 0, 0, 0, 0},
        {3, {0x1000, 0}, true, true, 0, 0, 0, 0},      {0, {1, 0}, false, true, 0, 0, 0, 0},
        {1, {1, 0}, false, true, 0, 0, 0, 0},          {0, {0, HV_BIT(63)}, true, true, 0, 0, 0, 0},
        {1, {0, HV_BIT(63)}, true, false, 0, 0, 0, 1}, {0, {0, 0x1000}, false, false, 0, 0, 1, 0},
        {0, {7, 0x1000}, true, false, 0, 0, 1, 0},     {0, {8, 0x1000}, true, false, 0, 0, 0, 1},
        {1, {8, 0}, true, false, 0, 0, 0, 1},          {2, {0, 0}, true, false, 1, 0, 0, 0},
        {3, {0, 0}, true, false, 0, 1, 0, 0},          {2, {5, 0}, false, false, 1, 0, 0, 0},
    };

    for (size_t i = 0; i < HV_ARRAY_LEN(table); i++) {
        int result;

        start(LONG64);
        cpu.cr3 = table[i].pcids ? 0x1007 : 0x1000;
        cpu.cr4 |= table[i].pcids ? (uint64_t)HV_CR4_PCIDE : 0;
        result = hv_control_invpcid(&cpu, &flat.access, table[i].type, table[i].descriptor, &fault);
        TAP_EQ(is_gp0(result), table[i].refused);
        TAP_EQ(flat.flushes_all, table[i].all);
        TAP_EQ(flat.flushes_non_global, table[i].non_global);
        TAP_EQ(flat.flushes_page, table[i].page);
        TAP_EQ(flat.flushes_pcid, table[i].pcid);
    }
}

static int io(uint16_t port, unsigned bytes)
{
    return hv_control_io_allowed(&cpu, &flat.access, port, bytes, &fault);
}

static void test_io_bitmap(void)
{
    start(REAL);
    cpu.cpl = 3;
    TAP_EQ(io(0x3f8, 1), 0);

    start(PROTECTED);
    cpu.cpl = 3;
    cpu.seg[HV_SEG_TR] =
        (struct hv_segment){.base = 0x4000, .limit = 0x68 + 0x80, .attr = HV_SEG_ATTR_P | 0xb};
    flat_poke(&flat, 0x4066, 2, 0x68);
    flat_poke(&flat, 0x4068 + 0x7f, 1, 0x81); /* ports 3f8h and 3ffh closed */
    flat_poke(&flat, 0x4068 + 0x80, 1, 0xff);
    TAP_OK(is_gp0(io(0x3f8, 1)));
    TAP_EQ(io(0x3f9, 1), 0);
    TAP_EQ(io(0x3f9, 4), 0);
    TAP_OK(is_gp0(io(0x3fc, 4)));
    TAP_EQ(io(0x3fd, 2), 0);
    TAP_OK(is_gp0(io(0x3f6, 4)));
    TAP_EQ(io(0x3f4, 4), 0);
    TAP_OK(is_gp0(io(0x400, 1))); /* its byte is there, the one behind is not */
    TAP_OK(is_gp0(io(0xffff, 1)));
    cpu.rflags |= HV_RFLAGS_IOPL;
    TAP_EQ(io(0x3f8, 1), 0);
    cpu.rflags |= HV_RFLAGS_VM; /* in virtual-8086 mode IOPL does not help */
    TAP_OK(is_gp0(io(0x3f8, 1)));
    cpu.rflags &= ~(uint32_t)(HV_RFLAGS_VM | HV_RFLAGS_IOPL);
    cpu.seg[HV_SEG_TR].attr = HV_SEG_ATTR_P | 0x3;
    TAP_OK(is_gp0(io(0x3f9, 1)));
    cpu.seg[HV_SEG_TR].attr = HV_SEG_ATTR_P | 0xb;
    cpu.seg[HV_SEG_TR].limit = 0x66;
    TAP_OK(is_gp0(io(0x3f9, 1)));
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"cpu.control.cr-rows", test_cr_rows},
        {"cpu.control.cr4-bits", test_cr4_bits},
        {"cpu.control.cr-privilege", test_cr_privilege},
        {"cpu.control.long-mode-transition", test_long_mode_transition},
        {"cpu.control.lmsw", test_lmsw},
        {"cpu.control.cr8-hook", test_cr8_hook},
        {"cpu.control.dr", test_dr},
        {"cpu.control.dr-general-detect", test_dr_general_detect},
        {"cpu.control.xsetbv", test_xsetbv},
        {"cpu.control.invpcid", test_invpcid},
        {"cpu.control.io-bitmap", test_io_bitmap},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Save records: a CPU at random states of every mode comes back the same, and each impossible field
 * is refused by its name while nothing changes. */
#include "cpu/save.h"

#include "cpu/control.h"
#include "unit/cpu/flat-check.h"

static struct hv_cpu_record record, again;
static struct hv_cpu other;

static uint64_t canonical(void)
{
    return (uint64_t)((int64_t)(tap_rng() << 16) >> 16);
}

/* By the product's own writes where there are such, so that only reachable values come out. */
static void random_msrs(void)
{
    static const uint32_t addresses[] = {0x175,      0x176,      0xc0000082, 0xc0000083,
                                         0xc0000102, 0xc0000100, 0xc0000101};
    static const uint32_t free[] = {0x174, 0xc0000081};
    static const struct {
        uint32_t index;
        uint64_t mask;
    } masked[] = {{0x48, 3},
                  {0x1d9, 3},
                  {0xc0000084, UINT32_MAX},
                  {0xc0000103, UINT32_MAX},
                  {0x277, UINT64_C(0x0105040404010004)},
                  {0x2ff, 0xc04},
                  {0x3a, 1},
                  {0x1a0, 1},
                  {0x250, UINT64_C(0x0104040100040401)},
                  {0x26f, UINT64_C(0x0404040404040404)},
                  {0x204, UINT64_C(0x3ffffffff004)},
                  {0x20f, UINT64_C(0x3ffffffff800)}};
    uint8_t cpl = cpu.cpl;
    int failures = 0;

    cpu.cpl = 0;
    for (size_t i = 0; i < HV_ARRAY_LEN(addresses); i++) {
        bool base = addresses[i] == 0xc0000100 || addresses[i] == 0xc0000101;

        if (!base || !hv_cpu_v86(&cpu)) { /* whose bases are their selectors */
            failures += hv_control_write_msr(&cpu, &flat.access, addresses[i], canonical(), &fault);
        }
    }
    for (size_t i = 0; i < HV_ARRAY_LEN(free); i++) {
        failures += hv_control_write_msr(&cpu, &flat.access, free[i], tap_rng(), &fault);
    }
    for (size_t i = 0; i < HV_ARRAY_LEN(masked); i++) {
        failures += hv_control_write_msr(&cpu, &flat.access, masked[i].index,
                                         tap_rng() & masked[i].mask, &fault);
    }
    failures += hv_control_write_msr(&cpu, &flat.access, 0x10, tap_rng(), &fault);
    TAP_EQ((uint64_t)failures, 0);
    cpu.cpl = cpl;
}

static void random_state(enum machine_mode mode)
{
    machine_start(mode);
    if (mode == MACHINE_PROTECTED || mode == MACHINE_LONG) {
        static const uint8_t rings[] = {0, 1, 3};
        unsigned ring = rings[tap_rng() % 3];

        machine_ring(ring, mode == MACHINE_LONG && ring != 1 && (tap_rng() & 1));
    }
    for (unsigned i = 0; i < HV_REG_COUNT; i++) {
        cpu.slot[i] = tap_rng();
    }
    cpu.rip = hv_cpu_code64(&cpu) ? canonical() : (uint32_t)tap_rng();
    hv_cpu_set_rflags(&cpu, (tap_rng() & ~(uint64_t)HV_RFLAGS_VM) |
                                (mode == MACHINE_V86 ? (uint64_t)HV_RFLAGS_VM : 0));
    cpu.cr2 = tap_rng();
    cpu.cr3 = (tap_rng() & UINT64_C(0x3fffffffffff)) >> (mode == MACHINE_LONG ? 0 : 16);
    cpu.cr4 |= tap_rng() & (HV_CR4_PGE | HV_CR4_OSFXSR | HV_CR4_SMEP | HV_CR4_TSD);
    cpu.xcr0 = 1 | (tap_rng() & 2);
    for (unsigned i = 0; i < 4; i++) {
        cpu.dr[i] = tap_rng();
        cpu.pdpte[i] = tap_rng();
    }
    cpu.dr[6] |= tap_rng() & HV_DR6_WRITABLE;
    cpu.dr[7] |= tap_rng() & HV_DR7_WRITABLE;
    cpu.gdtr.base = canonical();
    cpu.idtr.limit = (uint16_t)tap_rng();
    cpu.activity = tap_rng() & 3;
    cpu.sti_shadow = tap_rng() & 1;
    cpu.mov_ss_shadow = tap_rng() & 1;
    cpu.nmi_blocked = tap_rng() & 1;
    cpu.nmi_pending = tap_rng() & 1;
    if (tap_rng() & 1) {
        cpu.latched_interrupt = (uint16_t)(HV_LATCHED_INTERRUPT | (tap_rng() & 0xff));
    }
    random_msrs();
    for (unsigned i = 0; i < HV_XSTATE_BYTES; i++) {
        if (i / 8 != 3 && (i < 512 || i >= 576)) {
            cpu.x.bytes[i] = (uint8_t)tap_rng();
        }
    }
    hv_store_le(cpu.x.bytes + 24, tap_rng() & 0xffff, 4);
    hv_store_le(cpu.x.bytes + 512, tap_rng() & 3, 8);
}

/* Another CPU of the same machine, full of something else. */
static void make_other(void)
{
    memset(&other, 0xa5, sizeof(other));
    other.policy = cpu.policy;
    other.hooks = cpu.hooks;
    other.hook_context = cpu.hook_context;
    other.apic_id = cpu.apic_id;
}

/* Padding between members is nobody's: give both the same. */
static bool come_back(void)
{
    static struct hv_cpu want, got;
    static const char *field;

    make_other();
    if (hv_cpu_load(&other, &record, &field) != 0) {
        tap_note("refused: %s", field);
        return false;
    }
    if (field) {
        return false;
    }
    hv_cpu_save(&other, &again);
    if (memcmp(&record, &again, sizeof(record)) != 0) {
        return false;
    }
    copy_bare(&want, &cpu);
    copy_bare(&got, &other);
    return memcmp(want.slot, got.slot, sizeof(want.slot)) == 0 && want.rip == got.rip &&
           want.arith == got.arith && want.rflags == got.rflags && want.cpl == got.cpl &&
           memcmp(want.seg, got.seg, sizeof(want.seg)) == 0 &&
           memcmp(&want.msr, &got.msr, sizeof(want.msr)) == 0 &&
           memcmp(want.dr, got.dr, sizeof(want.dr)) == 0 &&
           memcmp(&want.x, &got.x, sizeof(want.x)) == 0 && want.cr3 == got.cr3 &&
           want.efer == got.efer && want.latched_interrupt == got.latched_interrupt;
}

static void test_round_trip(void)
{
    for (unsigned i = 0; i < 4000; i++) {
        random_state((enum machine_mode)(i % 4));
        if (tap_failed()) {
            return;
        }
        hv_cpu_save(&cpu, &record);
        TAP_OK(come_back());
    }
}

static void test_reset_state(void)
{
    machine_start(MACHINE_REAL);
    for (unsigned bootstrap = 0; bootstrap < 2; bootstrap++) {
        hv_cpu_reset(&cpu, bootstrap);
        hv_cpu_save(&cpu, &record);
        TAP_OK(come_back());
    }
}

struct impossible {
    const char *field;
    enum machine_mode mode;
    size_t offset;
    unsigned bytes;
    uint64_t flip; /* bits to turn over */
};

#define FIELD(member) offsetof(struct hv_cpu_record, member)
#define SEGMENT(seg, member)                                                                   \
    (offsetof(struct hv_cpu_record, segments) + (seg) * sizeof(struct hv_cpu_record_segment) + \
     offsetof(struct hv_cpu_record_segment, member))

static const struct impossible impossibles[] = {
    {"version", MACHINE_LONG, FIELD(version), 4, 2},
    {"bytes", MACHINE_LONG, FIELD(bytes), 4, 8},
    {"apic_id", MACHINE_LONG, FIELD(apic_id), 4, 1},
    {"reserved", MACHINE_LONG, FIELD(reserved0), 4, 1},
    {"reserved", MACHINE_LONG, FIELD(reserved1), 1, 1},
    {"reserved", MACHINE_LONG, FIELD(reserved2), 2, 1},
    {"reserved", MACHINE_LONG, FIELD(gdtr) + 10, 2, 1},
    {"cr0", MACHINE_LONG, FIELD(cr0), 8, HV_CR0_PE},
    {"cr0", MACHINE_LONG, FIELD(cr0), 8, HV_CR0_ET},
    {"cr0", MACHINE_LONG, FIELD(cr0), 8, HV_BIT(32)},
    {"cr0", MACHINE_LONG, FIELD(cr0), 8, HV_BIT(6)},
    {"cr0", MACHINE_LONG, FIELD(cr0), 8, HV_CR0_NW},
    {"efer", MACHINE_LONG, FIELD(efer), 8, HV_EFER_LMA},
    {"efer", MACHINE_LONG, FIELD(efer), 8, HV_EFER_LME},
    {"efer", MACHINE_PROTECTED, FIELD(efer), 8, HV_EFER_LMA},
    {"efer", MACHINE_LONG, FIELD(efer), 8, HV_BIT(12)},
    {"cr4", MACHINE_LONG, FIELD(cr4), 8, HV_CR4_PAE},
    {"cr4", MACHINE_LONG, FIELD(cr4), 8, HV_CR4_LA57},
    {"cr4", MACHINE_PROTECTED, FIELD(cr4), 8, HV_CR4_PCIDE},
    {"cr3", MACHINE_LONG, FIELD(cr3), 8, HV_BIT(46)},
    {"xcr0", MACHINE_LONG, FIELD(xcr0), 8, 1},
    {"xcr0", MACHINE_LONG, FIELD(xcr0), 8, HV_BIT(2)}, /* a portable policy has no AVX */
    {"dr6", MACHINE_LONG, FIELD(dr6), 8, HV_BIT(4)},
    {"dr6", MACHINE_LONG, FIELD(dr6), 8, HV_BIT(32)},
    {"dr7", MACHINE_LONG, FIELD(dr7), 8, HV_BIT(10)},
    {"rflags", MACHINE_LONG, FIELD(rflags), 8, HV_RFLAGS_VM},
    {"rflags", MACHINE_REAL, FIELD(rflags), 8, HV_RFLAGS_VM},
    {"rflags", MACHINE_LONG, FIELD(rflags), 8, HV_RFLAGS_FIXED},
    {"rflags", MACHINE_LONG, FIELD(rflags), 8, HV_BIT(22)},
    {"cpl", MACHINE_LONG, FIELD(cpl), 1, 1},
    {"cpl", MACHINE_V86, FIELD(cpl), 1, 1},
    {"cpl", MACHINE_REAL, FIELD(cpl), 1, 3},
    {"cpl", MACHINE_LONG, FIELD(cpl), 1, 4},
    {"rip", MACHINE_LONG, FIELD(rip), 8, HV_BIT(47)},
    {"rip", MACHINE_REAL, FIELD(rip), 8, HV_BIT(32)},
    {"activity", MACHINE_LONG, FIELD(activity), 1, 4},
    {"interruptibility", MACHINE_LONG, FIELD(sti_shadow), 1, 2},
    {"interruptibility", MACHINE_LONG, FIELD(mov_ss_shadow), 1, 2},
    {"interruptibility", MACHINE_LONG, FIELD(nmi_blocked), 1, 2},
    {"interruptibility", MACHINE_LONG, FIELD(nmi_pending), 1, 0x80},
    {"delivering_vector", MACHINE_LONG, FIELD(delivering_vector), 1, 0x80},
    {"latched_interrupt", MACHINE_LONG, FIELD(latched_interrupt), 2, 0x41},
    {"latched_interrupt", MACHINE_LONG, FIELD(latched_interrupt), 2, 0x341},
    {"segment es", MACHINE_LONG, SEGMENT(HV_SEG_ES, attr), 4, HV_BIT(8)},
    {"segment es", MACHINE_LONG, SEGMENT(HV_SEG_ES, reserved), 2, 1},
    {"segment ss", MACHINE_LONG, SEGMENT(HV_SEG_SS, base), 8, HV_BIT(32)},
    {"segment ds", MACHINE_LONG, SEGMENT(HV_SEG_DS, limit), 4, 1},
    {"segment fs", MACHINE_LONG, SEGMENT(HV_SEG_FS, base), 8, HV_BIT(47)},
    {"segment gs", MACHINE_V86, SEGMENT(HV_SEG_GS, base), 8, 0x10},
    {"segment gs", MACHINE_V86, SEGMENT(HV_SEG_GS, limit), 4, 1},
    {"segment cs", MACHINE_LONG, SEGMENT(HV_SEG_CS, attr), 4, HV_SEG_ATTR_DB},
    {"segment ds", MACHINE_REAL, SEGMENT(HV_SEG_DS, limit), 4, HV_BIT(20)},
    {"segment ldtr", MACHINE_LONG, SEGMENT(HV_SEG_LDTR, attr), 4, HV_SEG_ATTR_UNUSABLE},
    {"segment tr", MACHINE_LONG, SEGMENT(HV_SEG_TR, attr), 4, 2},
    {"segment tr", MACHINE_LONG, SEGMENT(HV_SEG_TR, attr), 4, 8},
    {"segment tr", MACHINE_LONG, SEGMENT(HV_SEG_TR, attr), 4, HV_SEG_ATTR_P},
    {"gdtr", MACHINE_LONG, FIELD(gdtr), 8, HV_BIT(63)},
    {"idtr", MACHINE_LONG, FIELD(idtr), 8, HV_BIT(47)},
    {"lstar", MACHINE_LONG, FIELD(lstar), 8, HV_BIT(47)},
    {"cstar", MACHINE_LONG, FIELD(cstar), 8, HV_BIT(47)},
    {"fmask", MACHINE_LONG, FIELD(fmask), 8, HV_BIT(32)},
    {"kernel_gs_base", MACHINE_LONG, FIELD(kernel_gs_base), 8, HV_BIT(48)},
    {"tsc_aux", MACHINE_LONG, FIELD(tsc_aux), 8, HV_BIT(32)},
    {"sysenter_esp", MACHINE_LONG, FIELD(sysenter_esp), 8, HV_BIT(63)},
    {"sysenter_eip", MACHINE_LONG, FIELD(sysenter_eip), 8, HV_BIT(63)},
    {"pat", MACHINE_LONG, FIELD(pat), 8, 8},
    {"misc_enable", MACHINE_LONG, FIELD(misc_enable), 8, HV_BIT(1)},
    {"misc_enable", MACHINE_LONG, FIELD(misc_enable), 8, HV_BIT(11)},
    {"spec_ctrl", MACHINE_LONG, FIELD(spec_ctrl), 8, 4},
    {"feature_control", MACHINE_LONG, FIELD(feature_control), 8, 4},
    {"debugctl", MACHINE_LONG, FIELD(debugctl), 8, 4},
    {"mtrr_def_type", MACHINE_LONG, FIELD(mtrr_def_type), 8, 2},
    {"mtrr_base", MACHINE_LONG, FIELD(mtrr_base[7]), 8, HV_BIT(46)},
    {"mtrr_mask", MACHINE_LONG, FIELD(mtrr_mask[3]), 8, 1},
    {"mtrr_fixed", MACHINE_LONG, FIELD(mtrr_fixed[0]), 8, 2},
    {"mtrr_fixed", MACHINE_LONG, FIELD(mtrr_fixed[10]), 8, HV_BIT(57)},
    {"apic_base", MACHINE_LONG, FIELD(apic_base), 8, HV_APIC_BASE_ENABLE | HV_APIC_BASE_X2APIC},
    {"xss", MACHINE_LONG, FIELD(xss), 8, 1},
    {"mxcsr", MACHINE_LONG, FIELD(xstate) + 24, 4, HV_BIT(16)},
    {"xstate header", MACHINE_LONG, FIELD(xstate) + 512, 8, HV_BIT(9)},
    {"xstate header", MACHINE_LONG, FIELD(xstate) + 520, 8, HV_BIT(63)},
    {"xstate header", MACHINE_LONG, FIELD(xstate) + 575, 1, 1},
};

static void test_impossible(void)
{
    for (size_t i = 0; i < HV_ARRAY_LEN(impossibles); i++) {
        const struct impossible *row = &impossibles[i];
        uint8_t *place = (uint8_t *)&record + row->offset;
        const char *field = NULL;

        machine_start(row->mode);
        hv_cpu_save(&cpu, &record);
        TAP_EQ(hv_cpu_load(&cpu, &record, &field), 0);
        hv_store_le(place, hv_load_le(place, row->bytes) ^ row->flip, row->bytes);
        snapshot();
        TAP_EQ((uint64_t)hv_cpu_load(&cpu, &record, &field), (uint64_t)-EPROTO);
        TAP_STR(field, row->field);
        TAP_OK(unchanged());
    }
}

/* The largest values that are still possible. */
static void test_limits(void)
{
    const char *field = NULL;

    machine_start(MACHINE_REAL);
    cpu.rip = UINT32_MAX;
    cpu.seg[HV_SEG_DS].limit = 0xfffff;
    cpu.seg[HV_SEG_ES].base = UINT32_MAX;
    cpu.cr3 = HV_BIT(46) - 1;
    hv_cpu_save(&cpu, &record);
    TAP_EQ(hv_cpu_load(&cpu, &record, &field), 0);
}

static void test_pdptes(void)
{
    const char *field = NULL;

    machine_start(MACHINE_PROTECTED);
    cpu.cr0 |= HV_CR0_PG;
    cpu.cr4 = HV_CR4_PAE;
    cpu.pdpte[2] = 3;
    hv_cpu_save(&cpu, &record);
    TAP_EQ((uint64_t)hv_cpu_load(&cpu, &record, &field), (uint64_t)-EPROTO);
    TAP_STR(field, "pdpte");
    record.pdpte[2] = 2; /* not present */
    TAP_EQ(hv_cpu_load(&cpu, &record, &field), 0);
}

/* Any single bit turned over, anywhere, is either refused or comes back as it is. */
static void test_any_bit(void)
{
    for (unsigned i = 0; i < 20000; i++) {
        unsigned bit = (unsigned)(tap_rng() % (sizeof(record) * 8));
        const char *field = NULL;

        if (i % 100 == 0) {
            random_state((enum machine_mode)(i / 100 % 4));
        }
        if (tap_failed()) {
            return;
        }
        hv_cpu_save(&cpu, &record);
        ((uint8_t *)&record)[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        make_other();
        if (hv_cpu_load(&other, &record, &field) == 0) {
            hv_cpu_save(&other, &again);
            TAP_OK(memcmp(&record, &again, sizeof(record)) == 0);
        } else {
            TAP_OK(field && *field);
        }
    }
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"cpu.save.round-trip", test_round_trip}, {"cpu.save.reset-state", test_reset_state},
        {"cpu.save.impossible", test_impossible}, {"cpu.save.limits", test_limits},
        {"cpu.save.pdptes", test_pdptes},         {"cpu.save.any-bit", test_any_bit},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* MSRs: what can be stored in each, what has an effect, what Linux must be able to read. */
#include "cpu/control.h"

#include "cpu/policy.h"
#include "lib/tap.h"
#include "unit/cpu/flat-memory.h"

static struct hv_cpu_policy policy;
static struct hv_cpu cpu, before;
static struct flat flat;
static struct hv_fault fault;

static void start(void)
{
    memset(&cpu, 0, sizeof(cpu));
    hv_cpu_policy_init(&policy, 1, 2000000, true);
    cpu.policy = &policy;
    flat_init(&flat, &cpu);
    hv_cpu_reset(&cpu, true);
    memcpy(&before, &cpu, sizeof(cpu));
}

static bool refuses_write(uint32_t index, uint64_t value)
{
    int result;

    memcpy(&before, &cpu, sizeof(cpu));
    result = hv_control_write_msr(&cpu, &flat.access, index, value, &fault);
    return result == HV_FAULTED && fault.vector == HV_VECTOR_GP && fault.has_error &&
           fault.error == 0 && memcmp(&before, &cpu, sizeof(cpu)) == 0;
}

static bool takes(uint32_t index, uint64_t value)
{
    return hv_control_write_msr(&cpu, &flat.access, index, value, &fault) == 0;
}

static uint64_t reads(uint32_t index)
{
    uint64_t value = 0xbadbadbad;

    return hv_control_read_msr(&cpu, index, &value, &fault) == 0 ? value : UINT64_MAX - 1;
}

static bool refuses_read(uint32_t index)
{
    uint64_t value;

    return hv_control_read_msr(&cpu, index, &value, &fault) == HV_FAULTED &&
           fault.vector == HV_VECTOR_GP && fault.has_error && fault.error == 0;
}

static void test_plain(void)
{
    static const struct {
        uint32_t index;
        uint64_t good, bad; /* bad 0: nothing is refused */
    } table[] = {
        {0x48, 3, 4},
        {0x174, UINT64_MAX, 0},
        {0x175, UINT64_C(0xffff800000000000), UINT64_C(0x0000800000000000)},
        {0x176, UINT64_C(0x00007fffffffffff), UINT64_C(0xfffe000000000000)},
        {0x1d9, 3, 4},
        {0x200, UINT64_C(0x3ffffffff006), UINT64_C(0x400000000000)},
        {0x20e, 0x5, 0x2},
        {0x201, UINT64_C(0x3ffffffff800), UINT64_C(0x400)},
        {0x20f, 0x800, UINT64_C(0x400000000000)},
        {0x250, UINT64_C(0x0606060606060606), UINT64_C(0x0706060606060606)},
        {0x258, 0, 2},
        {0x259, UINT64_C(0x0504010006050401), 3},
        {0x268, 0, 0xff},
        {0x26f, UINT64_C(0x0600000000000000), UINT64_C(0x0200000000000000)},
        {0x277, UINT64_C(0x0007040600070406), UINT64_C(0x0002000000000000)},
        {0x277, UINT64_C(0x0706050401000000), UINT64_C(0x0800000000000000)},
        {0x2ff, 0xc06, 0xc07},
        {0x2ff, 0x800, 0x1000},
        {0xc0000081, UINT64_MAX, 0},
        {0xc0000082, UINT64_C(0xffffffff81000000), UINT64_C(0x8000000000000000)},
        {0xc0000083, 0, UINT64_C(0x8000000000000000)},
        {0xc0000084, UINT32_MAX, HV_BIT(32)},
        {0xc0000102, UINT64_C(0xffff888000000000), UINT64_C(0x0001000000000000)},
        {0xc0000103, UINT32_MAX, HV_BIT(32)},
    };

    start();
    for (size_t i = 0; i < HV_ARRAY_LEN(table); i++) {
        TAP_OK(takes(table[i].index, table[i].good));
        TAP_EQ(reads(table[i].index), table[i].good);
        TAP_OK(table[i].bad == 0 || refuses_write(table[i].index, table[i].bad));
        TAP_EQ(reads(table[i].index), table[i].good);
    }
    /* Neighbours do not share storage. */
    for (uint32_t i = 0; i < 16; i++) {
        TAP_OK(takes(0x200 + i, (uint64_t)(i + 1) << 12));
    }
    for (uint32_t i = 0; i < 16; i++) {
        TAP_EQ(reads(0x200 + i), (uint64_t)(i + 1) << 12);
    }
}

/* Reads of Linux 6.1's boot that do not catch a fault, and those our CPUID promises. */
static void test_present(void)
{
    static const uint32_t present[] = {
        0x10,       0x17,       0x1b,       0x34,       0x3a,       0x3b,
        0x48,       0x8b,       0xce,       0xfe,       0x10a,      0x174,
        0x175,      0x176,      0x179,      0x17a,      0x1a0,      0x1d9,
        0x200,      0x20f,      0x250,      0x258,      0x259,      0x268,
        0x26f,      0x277,      0x2ff,      0xc0000080, 0xc0000081, 0xc0000082,
        0xc0000083, 0xc0000084, 0xc0000100, 0xc0000101, 0xc0000102, 0xc0000103,
    };
    static const uint32_t absent[] = {
        0x2,   0x49,  0x79,       0xc1,       0xe7,       0xe8,       0x11,      0x12,
        0x122, 0x140, 0x186,      0x19b,      0x1b0,      0x210,      0x24f,     0x251,
        0x25a, 0x270, 0x345,      0x38d,      0x38f,      0x400,      0x480,     0x7ff,
        0xda0, 0xe1,  0xc0000104, 0xc0010015, 0xc0011029, 0x4b564d00, 0xffffffff};

    start();
    for (size_t i = 0; i < HV_ARRAY_LEN(present); i++) {
        uint64_t value;

        TAP_EQ(hv_control_read_msr(&cpu, present[i], &value, &fault), 0);
    }
    for (size_t i = 0; i < HV_ARRAY_LEN(absent); i++) {
        TAP_OK(refuses_read(absent[i]));
        TAP_OK(absent[i] == 0x49 || refuses_write(absent[i], 0));
    }
    TAP_EQ(reads(0x10a), policy.arch_capabilities);
    TAP_EQ(reads(0xce) >> 8 & 0xff, 20);
    TAP_EQ(reads(0xfe) & 0xff, 8);
    TAP_EQ(reads(0x8b), HV_BIT(32));
    cpu.cpl = 3;
    TAP_OK(refuses_read(0x10));
    TAP_OK(refuses_write(0x10, 0));
}

static void test_read_only(void)
{
    static const uint32_t read_only[] = {0x17, 0x34, 0xce, 0xfe, 0x10a, 0x179};

    start();
    for (size_t i = 0; i < HV_ARRAY_LEN(read_only); i++) {
        TAP_OK(refuses_write(read_only[i], 0));
    }
    TAP_OK(takes(0x8b, 0));
    TAP_OK(takes(0x49, 1));
    TAP_OK(refuses_write(0x49, 2));
    TAP_OK(takes(0x17a, 0));
    TAP_OK(refuses_write(0x17a, 4));
    TAP_OK(takes(0x1a0, UINT64_C(0x400c50089)));
    TAP_EQ(reads(0x1a0), UINT64_C(0x400c51889)); /* BTS and PEBS stay unavailable */
    TAP_OK(refuses_write(0x1a0, HV_BIT(1)));
    TAP_OK(refuses_write(0x3a, 4));
    TAP_OK(takes(0x3a, 1));
    TAP_OK(refuses_write(0x3a, 1));
}

static void test_efer(void)
{
    start();
    TAP_OK(takes(0xc0000080, HV_EFER_SCE | HV_EFER_LME | HV_EFER_LMA));
    TAP_EQ(cpu.efer, HV_EFER_SCE | HV_EFER_LME);
    TAP_EQ(flat.flushes_all, 0);
    TAP_OK(takes(0xc0000080, HV_EFER_LME | HV_EFER_NXE));
    TAP_EQ(flat.flushes_all, 1);
    for (unsigned bit = 0; bit < 64; bit++) {
        bool known = bit == 0 || bit == 8 || bit == 10 || bit == 11;

        TAP_OK(known || refuses_write(0xc0000080, HV_BIT(bit)));
    }
    cpu.cr0 |= HV_CR0_PG | HV_CR0_PE;
    cpu.efer |= HV_EFER_LMA;
    TAP_OK(refuses_write(0xc0000080, HV_EFER_NXE));
    TAP_OK(takes(0xc0000080, HV_EFER_LME | HV_EFER_SCE | HV_EFER_NXE));
    TAP_EQ(cpu.efer, HV_EFER_LME | HV_EFER_LMA | HV_EFER_SCE | HV_EFER_NXE);
}

static void test_bases(void)
{
    start();
    TAP_OK(takes(0xc0000100, UINT64_C(0x7f0012345678)));
    TAP_EQ(cpu.slot[HV_SLOT_SEG_BASE + HV_SEG_FS], UINT64_C(0x7f0012345678));
    TAP_EQ(reads(0xc0000100), UINT64_C(0x7f0012345678));
    TAP_OK(takes(0xc0000101, UINT64_C(0xffff888000000000)));
    TAP_EQ(cpu.seg[HV_SEG_GS].base, UINT64_C(0xffff888000000000));
    TAP_OK(refuses_write(0xc0000101, UINT64_C(0x0000800000000000)));
}

static void test_tsc(void)
{
    start();
    flat.tsc = 1000;
    TAP_EQ(reads(0x10), 1000);
    TAP_OK(takes(0x10, 5000));
    TAP_EQ(reads(0x10), 5000);
    TAP_EQ(reads(0x3b), 4000);
    TAP_OK(takes(0x3b, (uint64_t)-500));
    TAP_EQ(reads(0x10), 500);
    flat.tsc = 1100;
    TAP_EQ(reads(0x10), 600);
    TAP_OK(takes(0x3b, 0));
    TAP_EQ(reads(0x10), 1100);
    TAP_EQ((uint64_t)cpu.msr.tsc_offset, 0);
}

static void test_apic_base(void)
{
    const uint64_t base = 0xfee00000, off = base, xapic = base | 0x800, x2apic = base | 0xc00;

    start();
    TAP_EQ(reads(0x1b), xapic | 0x100);
    TAP_OK(refuses_read(0x802));
    TAP_OK(refuses_write(0x80b, 0));
    TAP_OK(refuses_write(0x1b, base | 0x400));
    TAP_OK(refuses_write(0x1b, xapic | 1));
    TAP_OK(refuses_write(0x1b, xapic | HV_BIT(46)));
    TAP_OK(takes(0x1b, xapic | 0x100));
    TAP_OK(takes(0x1b, x2apic));
    TAP_OK(refuses_write(0x1b, xapic));
    TAP_OK(takes(0x1b, x2apic));
    flat.platform_msr = 77;
    TAP_EQ(reads(0x802), 77);
    TAP_OK(takes(0x80b, 5));
    TAP_EQ(flat.platform_msr, 5);
    TAP_OK(takes(0x1b, off));
    TAP_OK(refuses_write(0x1b, x2apic));
    TAP_OK(takes(0x1b, xapic));
    TAP_EQ(reads(0x1b), xapic);
}

static void test_platform(void)
{
    uint64_t value;

    start();
    TAP_OK(takes(FLAT_MSR, 123));
    TAP_EQ(reads(FLAT_MSR), 123);
    flat.platform_result = HV_FAULTED;
    TAP_OK(refuses_read(FLAT_MSR));
    TAP_OK(refuses_write(FLAT_MSR, 1));
    flat.platform_result = -EAGAIN;
    TAP_EQ((uint64_t)hv_control_read_msr(&cpu, FLAT_MSR, &value, &fault), (uint64_t)-EAGAIN);
    TAP_EQ((uint64_t)hv_control_write_msr(&cpu, &flat.access, FLAT_MSR, 1, &fault),
           (uint64_t)-EAGAIN);
}

/* XSS is there with XSAVES, and no supervisor component is. */
static void test_xss(void)
{
    start();
    policy.features |= HV_BIT(HV_FEATURE_XSAVES);
    TAP_OK(takes(0xda0, 0));
    TAP_EQ(reads(0xda0), 0);
    TAP_OK(refuses_write(0xda0, HV_BIT(8)));
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"cpu.msr.plain", test_plain},
        {"cpu.msr.present", test_present},
        {"cpu.msr.read-only", test_read_only},
        {"cpu.msr.efer", test_efer},
        {"cpu.msr.bases", test_bases},
        {"cpu.msr.tsc", test_tsc},
        {"cpu.msr.apic-base", test_apic_base},
        {"cpu.msr.platform", test_platform},
        {"cpu.msr.xss", test_xss},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

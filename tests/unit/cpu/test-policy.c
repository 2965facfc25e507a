/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What CPUID says: every leaf answered, what has to be hidden hidden, sizes and ids consistent. */
#include "cpu/policy.h"

#include "cpu/walk.h"
#include "lib/tap.h"

#include <hv/domain.h>

static struct hv_cpu_policy policy;
static struct hv_cpu cpu;

static void make(uint32_t vcpus, uint64_t tsc_khz, bool portable)
{
    memset(&cpu, 0, sizeof(cpu));
    hv_cpu_policy_init(&policy, vcpus, tsc_khz, portable);
    cpu.policy = &policy;
    hv_cpu_reset(&cpu, true);
}

static bool bit(uint32_t value, unsigned n)
{
    return value >> n & 1;
}

static void test_vendor(void)
{
    struct hv_cpuid_leaf leaf;
    char text[13] = {0};

    make(1, 2000000, true);
    leaf = hv_cpuid(&cpu, 0, 0);
    memcpy(text, &leaf.ebx, 4);
    memcpy(text + 4, &leaf.edx, 4);
    memcpy(text + 8, &leaf.ecx, 4);
    TAP_STR(text, "GenuineIntel");
    TAP_EQ(leaf.eax, 0x16);
    TAP_EQ(cpu.slot[HV_REG_RDX], hv_cpuid(&cpu, 1, 0).eax);

    leaf = hv_cpuid(&cpu, 0x40000000, 0);
    memcpy(text, &leaf.ebx, 12);
    TAP_STR(text, "LodgeLodgeLo");
    TAP_OK(bit(hv_cpuid(&cpu, 1, 0).ecx, 31));
}

static void test_brand(void)
{
    char text[49] = {0};

    make(1, 2000000, true);
    for (uint32_t i = 0; i < 3; i++) {
        struct hv_cpuid_leaf leaf = hv_cpuid(&cpu, 0x80000002 + i, 0);

        memcpy(text + i * 16, &leaf, 16);
    }
    TAP_STR(text, "Lodge Virtual CPU");
}

/* Beyond the last leaf of each range, and in leaves that mean nothing here, all is zero. */
static void test_unknown_leaves(void)
{
    static const uint32_t empty[] = {0x3,        0x5,        0x8,        0x9,        0xa,
                                     0xc,        0xe,        0xf,        0x10,       0x12,
                                     0x14,       0x17,       0x1f,       0x40000001, 0x4000000f,
                                     0x40000011, 0x40000100, 0x80000005, 0x80000009, 0x8000001f,
                                     0xc0000000, 0xffffffff};

    make(4, 2000000, false);
    for (size_t i = 0; i < HV_ARRAY_LEN(empty); i++) {
        struct hv_cpuid_leaf leaf = hv_cpuid(&cpu, empty[i], 0);

        TAP_EQ(leaf.eax | leaf.ebx | leaf.ecx | leaf.edx, 0);
    }
    for (uint32_t subleaf = 3; subleaf < 64; subleaf++) {
        TAP_EQ(hv_cpuid(&cpu, 7, subleaf).ebx, 0);
        TAP_EQ(hv_cpuid(&cpu, 0xd, subleaf).eax, 0);
    }
}

static void test_hidden(void)
{
    struct hv_cpuid_leaf one, seven, extended;

    make(4, 2000000, false);
    one = hv_cpuid(&cpu, 1, 0);
    seven = hv_cpuid(&cpu, 7, 0);
    extended = hv_cpuid(&cpu, 0x80000001, 0);
    TAP_OK(!bit(one.ecx, 3) && !bit(one.ecx, 5) && !bit(one.ecx, 6)); /* MONITOR, VMX, SMX */
    TAP_OK(!bit(one.ecx, 15));                                        /* PDCM */
    TAP_OK(!bit(one.edx, 1));                                         /* VME */
    TAP_OK(!bit(seven.ebx, 4) && !bit(seven.ebx, 11));                /* HLE, RTM */
    TAP_OK(!bit(seven.ebx, 14) && !bit(seven.ebx, 16));               /* MPX, AVX-512F */
    TAP_EQ(seven.ebx & (1u << 17 | 1u << 21 | 1u << 26 | 1u << 27 | 1u << 28 | 3u << 30), 0);
    TAP_OK(!bit(seven.ecx, 3) && !bit(seven.ecx, 4) &&
           !bit(seven.ecx, 5)); /* PKU, OSPKE, WAITPKG */
    TAP_OK(!bit(seven.ecx, 7) && !bit(seven.ecx, 16) && !bit(seven.ecx, 31));  /* CET, LA57, PKS */
    TAP_OK(!bit(seven.edx, 20) && !bit(seven.edx, 22) && !bit(seven.edx, 24)); /* IBT, AMX */
    TAP_EQ(hv_cpuid(&cpu, 7, 1).eax, 0);
    TAP_EQ(extended.ecx & ~UINT32_C(0x121), 0);
    TAP_EQ(policy.xcr0_mask & ~UINT64_C(7), 0);
    TAP_EQ(policy.features &
               (HV_BIT(HV_FEATURE_MONITOR) | HV_BIT(HV_FEATURE_VMX) | HV_BIT(HV_FEATURE_SMX) |
                HV_BIT(HV_FEATURE_3DNOW) | HV_BIT(HV_FEATURE_NEVER)),
           0);
}

static void test_portable(void)
{
    uint64_t portable;

    make(2, 2000000, true);
    portable = policy.features;
    TAP_EQ(policy.xcr0_mask, 3);
    TAP_EQ(hv_cpuid(&cpu, 0xd, 0).ecx, 576);
    TAP_EQ(hv_cpuid(&cpu, 0xd, 2).eax, 0);
    TAP_OK(hv_cpu_has(&cpu, HV_FEATURE_BASE) && hv_cpu_has(&cpu, HV_FEATURE_SSE42) &&
           hv_cpu_has(&cpu, HV_FEATURE_CX16) && hv_cpu_has(&cpu, HV_FEATURE_SMAP));
    TAP_OK(!hv_cpu_has(&cpu, HV_FEATURE_AVX) && !hv_cpu_has(&cpu, HV_FEATURE_AES));
    make(2, 2000000, false);
    TAP_EQ(policy.features & portable, portable);
}

static void test_avx_with_host(void)
{
    make(1, 2000000, false);
    if (!hv_cpu_has(&cpu, HV_FEATURE_AVX)) {
        tap_skip("This host has no AVX.");
        return;
    }
    TAP_OK(__builtin_cpu_supports("avx"));
    TAP_EQ(policy.xcr0_mask, 7);
    TAP_EQ(hv_cpuid(&cpu, 0xd, 0).ecx, HV_XSTATE_BYTES);
    TAP_EQ(hv_cpuid(&cpu, 0xd, 0).ebx, 576);
    cpu.xcr0 = 7;
    TAP_EQ(hv_cpuid(&cpu, 0xd, 0).ebx, HV_XSTATE_BYTES);
    TAP_EQ(hv_cpuid(&cpu, 0xd, 1).ebx, HV_XSTATE_BYTES);
    TAP_EQ(hv_cpuid(&cpu, 0xd, 2).eax, 256);
    TAP_EQ(hv_cpuid(&cpu, 0xd, 2).ebx, 576);
}

/* Against the compiler's own idea of this host. */
static void test_host_features(void)
{
    make(1, 2000000, false);
    TAP_EQ(hv_cpu_has(&cpu, HV_FEATURE_AVX), !!__builtin_cpu_supports("avx"));
    TAP_EQ(hv_cpu_has(&cpu, HV_FEATURE_AVX2), !!__builtin_cpu_supports("avx2"));
    TAP_EQ(hv_cpu_has(&cpu, HV_FEATURE_FMA), !!__builtin_cpu_supports("fma"));
    TAP_EQ(hv_cpu_has(&cpu, HV_FEATURE_BMI1), !!__builtin_cpu_supports("bmi"));
    TAP_EQ(hv_cpu_has(&cpu, HV_FEATURE_BMI2), !!__builtin_cpu_supports("bmi2"));
    TAP_EQ(hv_cpu_has(&cpu, HV_FEATURE_AES), !!__builtin_cpu_supports("aes"));
    TAP_EQ(hv_cpu_has(&cpu, HV_FEATURE_PCLMULQDQ), !!__builtin_cpu_supports("pclmul"));
    TAP_EQ(hv_cpu_has(&cpu, HV_FEATURE_GFNI), !!__builtin_cpu_supports("gfni"));
    TAP_EQ(hv_cpu_has(&cpu, HV_FEATURE_VPCLMULQDQ), !!__builtin_cpu_supports("vpclmulqdq"));
}

static void test_dynamic_bits(void)
{
    make(1, 2000000, true);
    TAP_OK(!bit(hv_cpuid(&cpu, 1, 0).ecx, 27));
    cpu.cr4 = HV_CR4_OSXSAVE;
    TAP_OK(bit(hv_cpuid(&cpu, 1, 0).ecx, 27));
    TAP_OK(!bit(hv_cpuid(&cpu, 0x80000001, 0).edx, 11));
    cpu.efer = HV_EFER_LMA | HV_EFER_LME;
    cpu.seg[HV_SEG_CS].attr |= HV_SEG_ATTR_L;
    TAP_OK(bit(hv_cpuid(&cpu, 0x80000001, 0).edx, 11));
    TAP_EQ(hv_cpuid(&cpu, 0x80000008, 0).eax & 0xff, HV_GUEST_PHYS_BITS);
    TAP_OK(bit(hv_cpuid(&cpu, 6, 0).eax, 2));
    TAP_OK(bit(hv_cpuid(&cpu, 0x80000007, 0).edx, 8));
    TAP_OK(bit(hv_cpuid(&cpu, 1, 0).edx, 9));
    cpu.msr.apic_base &= ~HV_APIC_BASE_ENABLE;
    TAP_OK(!bit(hv_cpuid(&cpu, 1, 0).edx, 9));
}

static void test_topology(void)
{
    static const uint32_t counts[] = {1, 2, 3, 4, 5, 8, 63, 64};

    for (size_t i = 0; i < HV_ARRAY_LEN(counts); i++) {
        struct hv_cpuid_leaf core;

        make(counts[i], 2000000, true);
        cpu.apic_id = counts[i] - 1;
        core = hv_cpuid(&cpu, 0xb, 1);
        TAP_EQ(core.ebx, counts[i]);
        TAP_EQ(core.ecx, 0x201);
        TAP_EQ(core.edx, counts[i] - 1);
        TAP_OK((1u << core.eax) >= counts[i] &&
               (core.eax == 0 || (1u << core.eax) < 2 * counts[i]));
        TAP_EQ(hv_cpuid(&cpu, 0xb, 0).ebx, 1);
        TAP_EQ(hv_cpuid(&cpu, 0xb, 0).eax, 0);
        TAP_EQ(hv_cpuid(&cpu, 0xb, 2).ebx, 0);
        TAP_EQ(hv_cpuid(&cpu, 0xb, 2).ecx, 2);
        TAP_EQ(hv_cpuid(&cpu, 1, 0).ebx >> 24, counts[i] - 1);
        TAP_EQ(bit(hv_cpuid(&cpu, 1, 0).edx, 28), counts[i] > 1);
        /* All cores share L3 and only that. */
        TAP_EQ((hv_cpuid(&cpu, 4, 3).eax >> 14 & 0xfff) + 1, 1u << core.eax);
        for (uint32_t own = 0; own < 3; own++) {
            TAP_EQ(hv_cpuid(&cpu, 4, own).eax >> 14 & 0xfff, 0);
        }
        TAP_EQ(hv_cpuid(&cpu, 4, 4).eax & 0x1f, 0);
    }
}

/* As Linux computes it (arch/x86/kernel/tsc.c, native_calibrate_tsc): in 32 bits. */
static void test_tsc_ratio(void)
{
    for (unsigned i = 0; i < 20000; i++) {
        uint64_t khz = i % 10 ? 500000 + tap_rng() % 5500000 : 25000 * (20 + tap_rng() % 220);
        struct hv_cpuid_leaf leaf;
        uint64_t product, linux_khz, off;

        make(1, khz, true);
        leaf = hv_cpuid(&cpu, 0x15, 0);
        TAP_EQ(leaf.ecx, HV_APIC_TIMER_HZ);
        TAP_OK(leaf.eax > 0);
        product = (uint64_t)(leaf.ecx / 1000) * leaf.ebx;
        TAP_OK(product <= UINT32_MAX);
        linux_khz = product / leaf.eax;
        off = linux_khz > khz ? linux_khz - khz : khz - linux_khz;
        /* What its division throws away comes on top. */
        TAP_OK(off <= 1 + khz * 6 / 1000000);
        TAP_OK(khz % (HV_APIC_TIMER_HZ / 1000) != 0 || off == 0);
    }
    make(1, 0, true);
    TAP_EQ(hv_cpuid(&cpu, 0x15, 0).ebx, 0);
}

/* Each bit that Linux 6.1 wants before it leaves a mitigation out. */
static void test_arch_capabilities(void)
{
    make(1, 2000000, true);
    TAP_OK(bit(hv_cpuid(&cpu, 7, 0).edx, 29));
    TAP_EQ(policy.arch_capabilities, HV_BIT(0) | HV_BIT(1) | HV_BIT(3) | HV_BIT(4) | HV_BIT(5) |
                                         HV_BIT(6) | HV_BIT(8) | HV_BIT(13) | HV_BIT(14) |
                                         HV_BIT(15) | HV_BIT(20) | HV_BIT(24) | HV_BIT(26) |
                                         HV_BIT(27) | HV_BIT(62));
}

/* The hint says that vCPUs are never preempted: with it Linux leaves its paravirtual locks alone. */
static void test_realtime_hint(void)
{
    make(2, 1000000, true);
    for (unsigned hidden = 0; hidden <= HV_PV_PART_ALL; hidden++) {
        hv_cpu_policy_show_pv(&policy, hidden);
        TAP_EQ(hv_cpuid(&cpu, 0x40000001, 0).edx, 0);
    }
}

/* KVM's interface before our own, which moves on by a block; hidden parts are not shown. */
static void test_paravirtual(void)
{
    static const struct {
        unsigned hidden;
        uint32_t features;
    } rows[] = {
        {0, 0x01003ae9},
        {HV_PV_PART_CLOCK, 0x00003ae0},
        {HV_PV_PART_STEAL, 0x010038c9}, /* and TLB flushes by it */
        {HV_PV_PART_EOI, 0x01003aa9},
        {HV_PV_PART_UNHALT, 0x01003a69},
        {HV_PV_PART_FLUSH, 0x010038e9},
        {HV_PV_PART_IPI, 0x010032e9},
        {HV_PV_PART_YIELD, 0x01001ae9},
        {HV_PV_PART_POLL, 0x01002ae9},
        {HV_PV_PART_ALL & ~HV_PV_PART_EOI, 0x40},
    };
    struct hv_cpuid_leaf leaf;

    make(2, 1000000, true);
    for (size_t i = 0; i < HV_ARRAY_LEN(rows); i++) {
        hv_cpu_policy_show_pv(&policy, rows[i].hidden);
        leaf = hv_cpuid(&cpu, 0x40000001, 0);
        TAP_EQ(leaf.eax, rows[i].features);
        TAP_EQ(leaf.ebx | leaf.ecx, 0);
        leaf = hv_cpuid(&cpu, 0x40000000, 0);
        TAP_EQ(leaf.eax, 0x40000001);
        TAP_OK(memcmp(&leaf.ebx, "KVMKVMKVM\0\0", 12) == 0);
        TAP_EQ(hv_cpuid(&cpu, 0x40000002, 0).eax | hv_cpuid(&cpu, 0x40000010, 0).eax, 0);
        leaf = hv_cpuid(&cpu, 0x40000100, 0);
        TAP_EQ(leaf.eax, 0x40000110);
        TAP_OK(memcmp(&leaf.ebx, "LodgeLodgeLo", 12) == 0);
        TAP_EQ(hv_cpuid(&cpu, 0x40000110, 0).eax, 1000000);
    }
    hv_cpu_policy_show_pv(&policy, HV_PV_PART_ALL);
    leaf = hv_cpuid(&cpu, 0x40000000, 0);
    TAP_EQ(leaf.eax, 0x40000010);
    TAP_OK(memcmp(&leaf.ebx, "LodgeLodgeLo", 12) == 0);
    TAP_EQ(hv_cpuid(&cpu, 0x40000001, 0).eax, 0);
    TAP_EQ(hv_cpuid(&cpu, 0x40000100, 0).eax, 0);
}

/* A machine without a TSC: nothing tells of one, or needs it. */
static void test_no_tsc(void)
{
    static const struct {
        uint32_t leaf;
        unsigned reg; /* of struct hv_cpuid_leaf */
        uint32_t bits;
    } gone[] = {
        {1, 3, 1u << 4},            /* TSC */
        {1, 2, 1u << 24},           /* TSC_DEADLINE */
        {7, 1, 1u << 1},            /* TSC_ADJUST */
        {0x15, 0, UINT32_MAX},      /* the ratio */
        {0x80000001, 3, 1u << 27},  /* RDTSCP */
        {0x80000007, 3, 1u << 8},   /* invariant */
        {0x40000110, 0, UINT32_MAX} /* its rate, in our own leaves */
    };

    make(2, 1000000, true);
    hv_cpu_policy_show_pv(&policy, 0);
    for (unsigned hidden = 0; hidden < 2; hidden++) {
        policy.tsc_hidden = hidden;
        for (size_t i = 0; i < HV_ARRAY_LEN(gone); i++) {
            struct hv_cpuid_leaf leaf = hv_cpuid(&cpu, gone[i].leaf, 0);
            const uint32_t regs[] = {leaf.eax, leaf.ebx, leaf.ecx, leaf.edx};

            TAP_EQ((regs[gone[i].reg] & gone[i].bits) == 0, hidden);
        }
        TAP_EQ(hv_cpuid(&cpu, 1, 0).edx & 1u << 9, 1u << 9); /* the rest stays: the APIC */
    }
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"cpu.policy.vendor", test_vendor},
        {"cpu.policy.brand", test_brand},
        {"cpu.policy.unknown-leaves", test_unknown_leaves},
        {"cpu.policy.hidden", test_hidden},
        {"cpu.policy.portable", test_portable},
        {"cpu.policy.avx-with-host", test_avx_with_host},
        {"cpu.policy.host-features", test_host_features},
        {"cpu.policy.dynamic-bits", test_dynamic_bits},
        {"cpu.policy.topology", test_topology},
        {"cpu.policy.tsc-ratio", test_tsc_ratio},
        {"cpu.policy.arch-capabilities", test_arch_capabilities},
        {"cpu.policy.paravirtual", test_paravirtual},
        {"cpu.policy.no-tsc", test_no_tsc},
        {"pv.realtime-hint", test_realtime_hint},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

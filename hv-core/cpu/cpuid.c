/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * CPUID's leaves, from the policy. One function a leaf that is not constant.
 *
 * Hypervisor leaves: KVM's interface at 40000000h, when it is shown, and our own in the next block
 * of 100h, else at 40000000h, as guests search them.
 *
 * Source: SDM 2, CPUID; Linux, Documentation/virt/kvm/x86/cpuid.rst; our leaves 0 and 10h as VMware
 * documents them ("Timing information leaf"). Linux asks the timing leaf only of hypervisors whose
 * signature it knows; it takes ours from leaf 15h, or from the guest clock.
 */
#include "cpu/policy.h"

#include "cpu/walk.h"

#define MAX_BASIC    UINT32_C(0x16)
#define HYPERVISOR   UINT32_C(0x40000000)
#define BLOCK        UINT32_C(0x100) /* between the signatures of two interfaces */
#define MAX_EXTENDED UINT32_C(0x80000008)

struct feature_bit {
    uint8_t feature; /* enum hv_feature */
    uint8_t bit;
};

static uint32_t bits_of(const struct hv_cpu_policy *policy, const struct feature_bit *rows,
                        size_t count)
{
    uint32_t value = 0;

    for (size_t i = 0; i < count; i++) {
        if (policy->features & HV_BIT(rows[i].feature)) {
            value |= (uint32_t)HV_BIT(rows[i].bit);
        }
    }
    return value;
}

/* The APIC id bits that number the cores of the package. */
static uint32_t core_bits(const struct hv_cpu_policy *policy)
{
    uint32_t bits = 0;

    while ((UINT32_C(1) << bits) < policy->vcpus) {
        bits++;
    }
    return bits;
}

/* Four characters a register, as CPUID spells names. */
static uint32_t text_word(const char *text, unsigned word)
{
    return (uint32_t)hv_load_le(text + (size_t)word * 4, 4);
}

static struct hv_cpuid_leaf leaf_vendor(void)
{
    static const char vendor[] = "GenuineIntel";

    return (struct hv_cpuid_leaf){MAX_BASIC, text_word(vendor, 0), text_word(vendor, 2),
                                  text_word(vendor, 1)};
}

/*
 * Leaf 1. Not shown: VME (virtual-8086 extensions are not executed), MONITOR, performance
 * monitoring, thermal control, VMX, SMX.
 */
static struct hv_cpuid_leaf leaf_features(const struct hv_cpu *cpu)
{
    static const struct feature_bit ecx_bits[] = {
        {HV_FEATURE_SSE3, 0},    {HV_FEATURE_PCLMULQDQ, 1}, {HV_FEATURE_SSSE3, 9},
        {HV_FEATURE_FMA, 12},    {HV_FEATURE_CX16, 13},     {HV_FEATURE_PCID, 17},
        {HV_FEATURE_SSE41, 19},  {HV_FEATURE_SSE42, 20},    {HV_FEATURE_MOVBE, 22},
        {HV_FEATURE_POPCNT, 23}, {HV_FEATURE_AES, 25},      {HV_FEATURE_XSAVE, 26},
        {HV_FEATURE_AVX, 28},    {HV_FEATURE_F16C, 29},     {HV_FEATURE_RDRAND, 30},
    };
    static const uint8_t edx_bits[] = {
        0 /* FPU */,   2 /* DE */,    3 /* PSE */,     5 /* MSR */,    6 /* PAE */,  7 /* MCE */,
        8 /* CX8 */,   9 /* APIC */,  11 /* SEP */,    12 /* MTRR */,  13 /* PGE */, 14 /* MCA */,
        15 /* CMOV */, 16 /* PAT */,  17 /* PSE-36 */, 19 /* CLFSH */, 23 /* MMX */, 24 /* FXSR */,
        25 /* SSE */,  26 /* SSE2 */, 27 /* SS */,
    };
    const uint32_t tsc = 1u << 4, x2apic = 1u << 21, tsc_deadline = 1u << 24, osxsave = 1u << 27,
                   hypervisor = 1u << 31, htt = 1u << 28;
    const struct hv_cpu_policy *policy = cpu->policy;
    struct hv_cpuid_leaf leaf = {.eax = policy->signature};

    /* APIC id, ids in the package, CLFLUSH line of 8 quadwords. */
    leaf.ebx = (cpu->apic_id & 0xff) << 24 | (UINT32_C(1) << core_bits(policy)) << 16 | 8 << 8;
    leaf.ecx = bits_of(policy, ecx_bits, HV_ARRAY_LEN(ecx_bits)) | x2apic | hypervisor;
    if (!policy->tsc_hidden) {
        leaf.ecx |= tsc_deadline;
        leaf.edx |= tsc;
    }
    if (cpu->cr4 & HV_CR4_OSXSAVE) {
        leaf.ecx |= osxsave;
    }
    for (size_t i = 0; i < HV_ARRAY_LEN(edx_bits); i++) {
        leaf.edx |= (uint32_t)HV_BIT(edx_bits[i]);
    }
    if (policy->vcpus > 1) {
        leaf.edx |= htt;
    }
    /* SDM 3A 11.4.3: a processor whose APIC is switched off is one without. */
    if (!(cpu->msr.apic_base & HV_APIC_BASE_ENABLE)) {
        leaf.edx &= ~(uint32_t)HV_BIT(9);
    }
    return leaf;
}

/* Leaf 4: the caches Linux builds its scheduling domains from; L3 belongs to the package. */
static struct hv_cpuid_leaf leaf_cache(const struct hv_cpu_policy *policy, uint32_t subleaf)
{
    static const struct {
        uint8_t type, level, ways; /* type 1: data, 2: instructions, 3: both */
        uint16_t sets;
        bool shared;
    } caches[] = {
        {1, 1, 12, 64, false},
        {2, 1, 8, 64, false},
        {3, 2, 16, 2048, false},
        {3, 3, 16, 16384, true},
    };
    const uint32_t line = 64, self_initialising = 1u << 8;
    uint32_t cores = UINT32_C(1) << core_bits(policy);
    struct hv_cpuid_leaf leaf = {0};

    if (subleaf >= HV_ARRAY_LEN(caches)) {
        return leaf;
    }
    leaf.eax = caches[subleaf].type | (uint32_t)caches[subleaf].level << 5 | self_initialising |
               (caches[subleaf].shared ? (cores - 1) << 14 : 0) | (cores - 1) << 26;
    leaf.ebx = (line - 1) | (uint32_t)(caches[subleaf].ways - 1) << 22;
    leaf.ecx = caches[subleaf].sets - UINT32_C(1);
    return leaf;
}

/*
 * Leaf 7. Not shown: HLE and RTM, MPX, AVX-512, AMX, PKU, CET, LA57, WAITPKG. EDX says that
 * SPEC_CTRL and ARCH_CAPABILITIES exist; MCDT_NO in subleaf 2.
 */
static struct hv_cpuid_leaf leaf_structured(const struct hv_cpu_policy *policy, uint32_t subleaf)
{
    static const struct feature_bit ebx_bits[] = {
        {HV_FEATURE_FSGSBASE, 0}, {HV_FEATURE_BMI1, 3},        {HV_FEATURE_AVX2, 5},
        {HV_FEATURE_SMEP, 7},     {HV_FEATURE_BMI2, 8},        {HV_FEATURE_ERMS, 9},
        {HV_FEATURE_INVPCID, 10}, {HV_FEATURE_RDSEED, 18},     {HV_FEATURE_ADX, 19},
        {HV_FEATURE_SMAP, 20},    {HV_FEATURE_CLFLUSHOPT, 23}, {HV_FEATURE_CLWB, 24},
        {HV_FEATURE_SHA, 29},
    };
    static const struct feature_bit ecx_bits[] = {
        {HV_FEATURE_UMIP, 2},        {HV_FEATURE_GFNI, 8},   {HV_FEATURE_VAES, 9},
        {HV_FEATURE_VPCLMULQDQ, 10}, {HV_FEATURE_RDPID, 22}, {HV_FEATURE_MOVDIRI, 27},
    };
    const uint32_t tsc_adjust = 1u << 1, fdp_of_exceptions = 1u << 6, no_fpu_selectors = 1u << 13,
                   fsrm = 1u << 4, spec_ctrl = 1u << 26, stibp = 1u << 27, arch_caps = 1u << 29,
                   mcdt_no = 1u << 5;

    if (subleaf == 2) {
        return (struct hv_cpuid_leaf){.edx = mcdt_no};
    }
    if (subleaf != 0) {
        return (struct hv_cpuid_leaf){0};
    }
    return (struct hv_cpuid_leaf){
        .eax = 2,
        .ebx = bits_of(policy, ebx_bits, HV_ARRAY_LEN(ebx_bits)) | fdp_of_exceptions |
               no_fpu_selectors | (policy->tsc_hidden ? 0 : tsc_adjust),
        .ecx = bits_of(policy, ecx_bits, HV_ARRAY_LEN(ecx_bits)),
        .edx = spec_ctrl | stibp | arch_caps |
               ((policy->features & HV_BIT(HV_FEATURE_FSRM)) ? fsrm : 0),
    };
}

/* Leaf Bh: one thread a core, all cores in one package. */
static struct hv_cpuid_leaf leaf_topology(const struct hv_cpu *cpu, uint32_t subleaf)
{
    struct hv_cpuid_leaf leaf = {.ecx = subleaf & 0xff, .edx = cpu->apic_id};

    if (subleaf == 0) {
        leaf.ebx = 1;
        leaf.ecx |= 1 << 8; /* level type: SMT */
    } else if (subleaf == 1) {
        leaf.eax = core_bits(cpu->policy);
        leaf.ebx = cpu->policy->vcpus;
        leaf.ecx |= 2 << 8; /* core */
    }
    return leaf;
}

static uint32_t xstate_size(uint64_t xcr0)
{
    return (xcr0 & HV_XCR0_AVX) ? HV_XSTATE_BYTES : HV_XSTATE_AVX_OFFSET;
}

static struct hv_cpuid_leaf leaf_xstate(const struct hv_cpu *cpu, uint32_t subleaf)
{
    static const struct feature_bit eax_bits[] = {
        {HV_FEATURE_XSAVEOPT, 0},
        {HV_FEATURE_XSAVEC, 1},
        {HV_FEATURE_XGETBV1, 2},
        {HV_FEATURE_XSAVES, 3},
    };
    const struct hv_cpu_policy *policy = cpu->policy;

    if (!(policy->features & HV_BIT(HV_FEATURE_XSAVE))) {
        return (struct hv_cpuid_leaf){0};
    }
    if (subleaf == 0) {
        return (struct hv_cpuid_leaf){
            .eax = (uint32_t)policy->xcr0_mask,
            .ebx = xstate_size(cpu->xcr0),
            .ecx = xstate_size(policy->xcr0_mask),
            .edx = (uint32_t)(policy->xcr0_mask >> 32),
        };
    }
    if (subleaf == 1) {
        /* Compacted form: with one extended component it is as large as the standard one. */
        return (struct hv_cpuid_leaf){
            .eax = bits_of(policy, eax_bits, HV_ARRAY_LEN(eax_bits)),
            .ebx = xstate_size(cpu->xcr0),
        };
    }
    if (subleaf == 2 && (policy->xcr0_mask & HV_XCR0_AVX)) {
        return (struct hv_cpuid_leaf){
            .eax = HV_XSTATE_BYTES - HV_XSTATE_AVX_OFFSET,
            .ebx = HV_XSTATE_AVX_OFFSET,
        };
    }
    return (struct hv_cpuid_leaf){0};
}

/*
 * Leaf 15h: TSC = crystal × EBX / EAX. Linux multiplies the crystal's kHz by EBX in 32 bits, so EBX
 * has a largest value (171,798); of the convergents of tsc / crystal this takes the last that keeps
 * it. A TSC that is a multiple of the crystal is exact, any other off by less than 6 parts in a
 * million, as a real crystal is. With a crystal of 1 GHz it could be 230 parts: a ratio just beside
 * a whole number has no good neighbours.
 */
static struct hv_cpuid_leaf leaf_tsc(const struct hv_cpu_policy *policy)
{
    const uint64_t crystal_khz = HV_APIC_TIMER_HZ / 1000;
    const uint64_t most = UINT32_MAX / crystal_khz;
    uint64_t above = policy->tsc_khz, below = crystal_khz;
    uint64_t numerator = 1, denominator = 0;
    uint64_t last_numerator = 0, last_denominator = 1;

    if (policy->tsc_hidden) {
        return (struct hv_cpuid_leaf){0};
    }
    while (below != 0) {
        uint64_t quotient = above / below;
        uint64_t rest = above % below;
        uint64_t next_numerator = quotient * numerator + last_numerator;
        uint64_t next_denominator = quotient * denominator + last_denominator;

        if (next_numerator > most) {
            break;
        }
        last_numerator = numerator;
        last_denominator = denominator;
        numerator = next_numerator;
        denominator = next_denominator;
        above = below;
        below = rest;
    }
    return (struct hv_cpuid_leaf){
        .eax = (uint32_t)denominator, .ebx = (uint32_t)numerator, .ecx = HV_APIC_TIMER_HZ};
}

static struct hv_cpuid_leaf leaf_frequency(const struct hv_cpu_policy *policy)
{
    uint32_t mhz = (uint32_t)((policy->tsc_khz + 500) / 1000);

    return (struct hv_cpuid_leaf){.eax = mhz, .ebx = mhz, .ecx = 100};
}

static struct hv_cpuid_leaf leaf_extended_features(const struct hv_cpu *cpu)
{
    static const struct feature_bit ecx_bits[] = {
        {HV_FEATURE_LAHF64, 0},
        {HV_FEATURE_ABM, 5},
        {HV_FEATURE_PREFETCHW, 8},
    };
    const uint32_t syscall_bit = 1u << 11, nx = 1u << 20, gib_pages = 1u << 26, rdtscp = 1u << 27,
                   long_mode = 1u << 29;
    struct hv_cpuid_leaf leaf = {
        .ecx = bits_of(cpu->policy, ecx_bits, HV_ARRAY_LEN(ecx_bits)),
        .edx = nx | gib_pages | long_mode,
    };

    if (hv_cpu_has(cpu, HV_FEATURE_RDTSCP) && !cpu->policy->tsc_hidden) {
        leaf.edx |= rdtscp;
    }
    /* Intel shows SYSCALL where it works: in 64-bit mode only. */
    if (hv_cpu_has(cpu, HV_FEATURE_SYSCALL) && hv_cpu_code64(cpu)) {
        leaf.edx |= syscall_bit;
    }
    return leaf;
}

static struct hv_cpuid_leaf leaf_brand(uint32_t part)
{
    static const char brand[48] = "Lodge Virtual CPU";
    const char *text = brand + (size_t)part * 16;

    return (struct hv_cpuid_leaf){text_word(text, 0), text_word(text, 1), text_word(text, 2),
                                  text_word(text, 3)};
}

/* KVM's. EDX's hint REALTIME says that vCPUs are never preempted: guests would spin for ever. */
static struct hv_cpuid_leaf leaf_kvm(const struct hv_cpu_policy *policy, uint32_t number)
{
    static const char signature[12] = "KVMKVMKVM";

    if (number == 0) {
        return (struct hv_cpuid_leaf){HYPERVISOR + 1, text_word(signature, 0),
                                      text_word(signature, 1), text_word(signature, 2)};
    }
    return (struct hv_cpuid_leaf){.eax = number == 1 ? policy->pv_features : 0};
}

/* Our own, at @first. */
static struct hv_cpuid_leaf leaf_lodge(const struct hv_cpu_policy *policy, uint32_t first,
                                       uint32_t number)
{
    static const char signature[] = "LodgeLodgeLo";
    const uint32_t timing = 0x10;

    if (number == 0) {
        return (struct hv_cpuid_leaf){first + timing, text_word(signature, 0),
                                      text_word(signature, 1), text_word(signature, 2)};
    }
    if (number == timing) {
        return (struct hv_cpuid_leaf){.eax = policy->tsc_hidden ? 0 : (uint32_t)policy->tsc_khz,
                                      .ebx = HV_APIC_TIMER_HZ / 1000};
    }
    return (struct hv_cpuid_leaf){0};
}

static struct hv_cpuid_leaf leaf_hypervisor(const struct hv_cpu_policy *policy, uint32_t leaf)
{
    uint32_t own = policy->pv_features ? HYPERVISOR + BLOCK : HYPERVISOR;

    if (leaf - HYPERVISOR < BLOCK && policy->pv_features) {
        return leaf_kvm(policy, leaf - HYPERVISOR);
    }
    return leaf_lodge(policy, own, leaf - own);
}

struct hv_cpuid_leaf hv_cpuid(const struct hv_cpu *cpu, uint32_t leaf, uint32_t subleaf)
{
    const uint32_t arat = 1u << 2, invariant_tsc = 1u << 8;
    /* Leaf 2: "ask leaf 4". 80000006h: 2 MiB of L2, 16 ways (code 8), lines of 64 bytes. */
    const uint32_t descriptors = 0x0000ff01, l2 = 2048u << 16 | 8u << 12 | 64;
    const struct hv_cpu_policy *policy = cpu->policy;

    switch (leaf) {
    case 0x0:
        return leaf_vendor();
    case 0x1:
        return leaf_features(cpu);
    case 0x2:
        return (struct hv_cpuid_leaf){.eax = descriptors};
    case 0x4:
        return leaf_cache(policy, subleaf);
    case 0x6:
        return (struct hv_cpuid_leaf){.eax = arat};
    case 0x7:
        return leaf_structured(policy, subleaf);
    case 0xb:
        return leaf_topology(cpu, subleaf);
    case 0xd:
        return leaf_xstate(cpu, subleaf);
    case 0x15:
        return leaf_tsc(policy);
    case 0x16:
        return leaf_frequency(policy);
    case 0x80000000:
        return (struct hv_cpuid_leaf){.eax = MAX_EXTENDED};
    case 0x80000001:
        return leaf_extended_features(cpu);
    case 0x80000002:
    case 0x80000003:
    case 0x80000004:
        return leaf_brand(leaf - 0x80000002);
    case 0x80000006:
        return (struct hv_cpuid_leaf){.ecx = l2};
    case 0x80000007:
        return (struct hv_cpuid_leaf){.edx = policy->tsc_hidden ? 0 : invariant_tsc};
    case 0x80000008:
        return (struct hv_cpuid_leaf){.eax = HV_GUEST_PHYS_BITS | 48 << 8};
    default:
        return leaf_hypervisor(policy, leaf);
    }
}

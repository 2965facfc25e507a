/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The choice of features: a base that the software engine executes by itself on any x86-64-v2 host,
 * and what this host adds because the engine runs those instructions on its silicon. */
#include "cpu/policy.h"

#include <cpuid.h>

#include <hv/domain.h>

/*
 * Family 6, model 8Fh, stepping 8: a part that is in none of Linux 6.1's tables of processors with
 * MMIO, SRBDS, RETBLEED, GDS, RFDS or ITS weaknesses (arch/x86/kernel/cpu/common.c,
 * cpu_vuln_blacklist).
 */
#define SIGNATURE UINT32_C(0x000806f8)

/*
 * IA32_ARCH_CAPABILITIES. Source: Intel, "CPUID Enumeration and Architectural MSRs"; SDM 4 table
 * 2-2, 10Ah. Each bit here makes Linux leave out one mitigation; SPEC_CTRL is a plain register and
 * IBRS_ALL makes it enough to write it once, in place of retpolines.
 */
enum arch_capability {
    ARCH_RDCL_NO = 0,  /* no Meltdown, no L1TF: no page-table isolation */
    ARCH_IBRS_ALL = 1, /* enhanced IBRS: no retpolines */
    ARCH_SKIP_L1DFL_VMENTRY = 3,
    ARCH_SSB_NO = 4,
    ARCH_MDS_NO = 5, /* no VERW on return to user mode */
    ARCH_IF_PSCHANGE_MC_NO = 6,
    ARCH_TAA_NO = 8,
    ARCH_SBDR_SSDP_NO = 13, /* the MMIO stale data three */
    ARCH_FBSDP_NO = 14,
    ARCH_PSDP_NO = 15,
    ARCH_BHI_NO = 20, /* no clearing of the branch history on entry */
    ARCH_PBRSB_NO = 24,
    ARCH_GDS_NO = 26, /* gathers are not slowed */
    ARCH_RFDS_NO = 27,
    ARCH_ITS_NO = 62,
};

static const uint64_t arch_capabilities =
    HV_BIT(ARCH_RDCL_NO) | HV_BIT(ARCH_IBRS_ALL) | HV_BIT(ARCH_SKIP_L1DFL_VMENTRY) |
    HV_BIT(ARCH_SSB_NO) | HV_BIT(ARCH_MDS_NO) | HV_BIT(ARCH_IF_PSCHANGE_MC_NO) |
    HV_BIT(ARCH_TAA_NO) | HV_BIT(ARCH_SBDR_SSDP_NO) | HV_BIT(ARCH_FBSDP_NO) | HV_BIT(ARCH_PSDP_NO) |
    HV_BIT(ARCH_BHI_NO) | HV_BIT(ARCH_PBRSB_NO) | HV_BIT(ARCH_GDS_NO) | HV_BIT(ARCH_RFDS_NO) |
    HV_BIT(ARCH_ITS_NO);

static const uint8_t base_features[] = {
    HV_FEATURE_BASE,     HV_FEATURE_SSE3,      HV_FEATURE_SSSE3,      HV_FEATURE_CX16,
    HV_FEATURE_SSE41,    HV_FEATURE_SSE42,     HV_FEATURE_POPCNT,     HV_FEATURE_XSAVE,
    HV_FEATURE_LAHF64,   HV_FEATURE_PREFETCHW, HV_FEATURE_SYSCALL,    HV_FEATURE_RDTSCP,
    HV_FEATURE_FSGSBASE, HV_FEATURE_SMEP,      HV_FEATURE_ERMS,       HV_FEATURE_INVPCID,
    HV_FEATURE_PCID,     HV_FEATURE_SMAP,      HV_FEATURE_CLFLUSHOPT, HV_FEATURE_CLWB,
    HV_FEATURE_UMIP,     HV_FEATURE_RDPID,     HV_FEATURE_FSRM,       HV_FEATURE_XSAVEOPT,
    HV_FEATURE_RDRAND,   HV_FEATURE_RDSEED,
};

enum host_register { HOST_EAX, HOST_EBX, HOST_ECX, HOST_EDX };

/* What the host's CPUID must say for a feature to be shown. */
struct host_feature {
    uint8_t feature; /* enum hv_feature */
    uint32_t leaf;
    uint8_t reg; /* enum host_register */
    uint8_t bit;
    bool needs_avx; /* works on vectors by VEX: XCR0 must hold the upper halves too */
};

static const struct host_feature host_features[] = {
    {HV_FEATURE_PCLMULQDQ, 1, HOST_ECX, 1, false},
    {HV_FEATURE_FMA, 1, HOST_ECX, 12, true},
    {HV_FEATURE_MOVBE, 1, HOST_ECX, 22, false},
    {HV_FEATURE_AES, 1, HOST_ECX, 25, false},
    {HV_FEATURE_AVX, 1, HOST_ECX, 28, true},
    {HV_FEATURE_F16C, 1, HOST_ECX, 29, true},
    {HV_FEATURE_BMI1, 7, HOST_EBX, 3, false},
    {HV_FEATURE_AVX2, 7, HOST_EBX, 5, true},
    {HV_FEATURE_BMI2, 7, HOST_EBX, 8, false},
    {HV_FEATURE_ADX, 7, HOST_EBX, 19, false},
    {HV_FEATURE_SHA, 7, HOST_EBX, 29, false},
    {HV_FEATURE_GFNI, 7, HOST_ECX, 8, false},
    {HV_FEATURE_VAES, 7, HOST_ECX, 9, true},
    {HV_FEATURE_VPCLMULQDQ, 7, HOST_ECX, 10, true},
    {HV_FEATURE_ABM, 0x80000001, HOST_ECX, 5, false},
};

static bool host_says(uint32_t leaf, enum host_register reg, unsigned bit)
{
    uint32_t value[4] = {0};

    if (!__get_cpuid_count(leaf, 0, &value[0], &value[1], &value[2], &value[3])) {
        return false;
    }
    return value[reg] & HV_BIT(bit);
}

/* The host's kernel must save the upper halves, else AVX is there in name only (SDM 1 14.3). */
static bool host_saves_avx(void)
{
    const unsigned osxsave_bit = 27;
    const uint32_t sse_and_avx = 6;
    uint32_t low, high;

    if (!host_says(1, HOST_ECX, osxsave_bit)) {
        return false;
    }
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & sse_and_avx) == sse_and_avx;
}

static uint64_t features_of_host(void)
{
    bool avx = host_saves_avx();
    uint64_t features = 0;

    for (size_t i = 0; i < HV_ARRAY_LEN(host_features); i++) {
        const struct host_feature *row = &host_features[i];

        if ((avx || !row->needs_avx) && host_says(row->leaf, row->reg, row->bit)) {
            features |= HV_BIT(row->feature);
        }
    }
    return features;
}

void hv_cpu_policy_init(struct hv_cpu_policy *policy, uint32_t vcpus, uint64_t tsc_khz,
                        bool portable)
{
    *policy = (struct hv_cpu_policy){
        .vcpus = vcpus,
        .tsc_khz = tsc_khz,
        .arch_capabilities = arch_capabilities,
        .signature = SIGNATURE,
        .xcr0_mask = HV_XCR0_X87 | HV_XCR0_SSE,
    };
    for (size_t i = 0; i < HV_ARRAY_LEN(base_features); i++) {
        policy->features |= HV_BIT(base_features[i]);
    }
    if (!portable) {
        policy->features |= features_of_host();
    }
    if (policy->features & HV_BIT(HV_FEATURE_AVX)) {
        policy->xcr0_mask |= HV_XCR0_AVX;
    }
}

/* What each part shows. A vCPU is known to be preempted, and so flushed later, by its steal time. */
static const struct {
    unsigned part, needs; /* enum hv_pv_part */
    uint32_t features;
} pv_parts[] = {
    {HV_PV_PART_CLOCK, 0,
     HV_BIT(HV_PV_CLOCKSOURCE) | HV_BIT(HV_PV_CLOCKSOURCE2) | HV_BIT(HV_PV_CLOCK_STABLE)},
    {HV_PV_PART_STEAL, 0, HV_BIT(HV_PV_STEAL_TIME)},
    {HV_PV_PART_EOI, 0, HV_BIT(HV_PV_EOI)},
    {HV_PV_PART_UNHALT, 0, HV_BIT(HV_PV_UNHALT)},
    {HV_PV_PART_FLUSH, HV_PV_PART_STEAL, HV_BIT(HV_PV_TLB_FLUSH)},
    {HV_PV_PART_IPI, 0, HV_BIT(HV_PV_SEND_IPI)},
    {HV_PV_PART_POLL, 0, HV_BIT(HV_PV_POLL_CONTROL)},
    {HV_PV_PART_YIELD, 0, HV_BIT(HV_PV_SCHED_YIELD)},
};

void hv_cpu_policy_show_pv(struct hv_cpu_policy *policy, unsigned hidden)
{
    policy->pv_features = 0;
    for (size_t i = 0; i < HV_ARRAY_LEN(pv_parts); i++) {
        if (!(hidden & (pv_parts[i].part | pv_parts[i].needs))) {
            policy->pv_features |= pv_parts[i].features;
        }
    }
}

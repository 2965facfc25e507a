/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What a machine's CPUs claim to be: CPUID leaves and the values of read-only MSRs.
 *
 * The vendor is GenuineIntel and the model a recent one whose ARCH_CAPABILITIES say that it needs
 * no page-table isolation, no retpolines and no buffer clearing: for a software engine those cost a
 * factor 30 on a system call and protect nothing. Extensions that run as host-executed thunks
 * (AVX, AVX2, FMA, AES, BMI, SHA, …) are shown only when the host has them.
 * Source: SDM 2 CPUID; SDM 4 table 2-2 (IA32_ARCH_CAPABILITIES).
 */
#pragma once

#include "cpu/state.h"

/* Numbers of isa.def's feature column; a row whose feature is off raises #UD. */
enum hv_feature {
    HV_FEATURE_BASE, /* always there */
    HV_FEATURE_SSE3,
    HV_FEATURE_PCLMULQDQ,
    HV_FEATURE_SSSE3,
    HV_FEATURE_FMA,
    HV_FEATURE_CX16,
    HV_FEATURE_SSE41,
    HV_FEATURE_SSE42,
    HV_FEATURE_MOVBE,
    HV_FEATURE_POPCNT,
    HV_FEATURE_AES,
    HV_FEATURE_XSAVE,
    HV_FEATURE_AVX,
    HV_FEATURE_F16C,
    HV_FEATURE_RDRAND,
    HV_FEATURE_LAHF64,
    HV_FEATURE_ABM,
    HV_FEATURE_PREFETCHW,
    HV_FEATURE_SYSCALL,
    HV_FEATURE_RDTSCP,
    HV_FEATURE_FSGSBASE,
    HV_FEATURE_BMI1,
    HV_FEATURE_AVX2,
    HV_FEATURE_SMEP,
    HV_FEATURE_BMI2,
    HV_FEATURE_ERMS,
    HV_FEATURE_INVPCID,
    HV_FEATURE_PCID,
    HV_FEATURE_RDSEED,
    HV_FEATURE_ADX,
    HV_FEATURE_SMAP,
    HV_FEATURE_CLFLUSHOPT,
    HV_FEATURE_CLWB,
    HV_FEATURE_SHA,
    HV_FEATURE_UMIP,
    HV_FEATURE_RDPID,
    HV_FEATURE_FSRM,
    HV_FEATURE_XSAVEOPT,
    HV_FEATURE_XSAVEC,
    HV_FEATURE_XGETBV1,
    HV_FEATURE_XSAVES,
    HV_FEATURE_GFNI,
    HV_FEATURE_VAES,
    HV_FEATURE_VPCLMULQDQ,
    HV_FEATURE_MOVDIRI,
    HV_FEATURE_MONITOR,
    HV_FEATURE_VMX,
    HV_FEATURE_SMX,
    HV_FEATURE_3DNOW,
    HV_FEATURE_NEVER, /* known encoding, hidden for good: AVX-512, MPX, CET, AMX, PKU, TSX, … */
    HV_FEATURE_COUNT,
};
HV_STATIC_ASSERT(HV_FEATURE_COUNT <= 64, "struct hv_cpu_policy keeps them in one word");

/* The crystal of leaf 15h. Linux takes it for the local APIC timer's input clock too, so that timer
 * counts at this rate: one tick is 40 ns. */
#define HV_APIC_TIMER_HZ UINT32_C(25000000)

/*
 * KVM's paravirtual interface: bits of EAX in leaf 40000001h. What is not shown is refused: its MSRs
 * by #GP, its hypercalls by -KVM_ENOSYS. Source: Linux's asm/kvm_para.h.
 */
enum hv_pv_feature {
    HV_PV_CLOCKSOURCE = 0,   /* guest clock, at its old MSRs */
    HV_PV_CLOCKSOURCE2 = 3,  /* and at the new ones */
    HV_PV_STEAL_TIME = 5,    /* time that the vCPU wanted to run and did not */
    HV_PV_EOI = 6,           /* end of interrupt without an exit */
    HV_PV_UNHALT = 7,        /* hypercall KICK_CPU ends a HLT */
    HV_PV_TLB_FLUSH = 9,     /* a preempted vCPU is flushed when it resumes */
    HV_PV_SEND_IPI = 11,     /* hypercall SEND_IPI: 128 destinations */
    HV_PV_POLL_CONTROL = 12, /* the guest may switch off that its halts are polled for */
    HV_PV_SCHED_YIELD = 13,  /* hypercall SCHED_YIELD */
    HV_PV_CLOCK_STABLE = 24, /* the guest clock's flag TSC_STABLE means something */
};

struct hv_cpuid_leaf {
    uint32_t eax, ebx, ecx, edx;
};

struct hv_cpu_policy {
    uint64_t features; /* bit per enum hv_feature */
    uint32_t vcpus;
    uint64_t tsc_khz;
    bool tsc_hidden;    /* no CPUID leaf tells of a TSC; RDTSC works, since programs do not ask */
    uint64_t xcr0_mask; /* bits XSETBV accepts */
    uint64_t arch_capabilities;
    uint32_t signature;   /* CPUID 1 EAX */
    uint32_t pv_features; /* bit per enum hv_pv_feature; 0: there is no such interface */
};

/**
 * The policy of a machine of @vcpus CPUs on this host.
 *
 * @tsc_khz   frequency shown in leaves 15h, 16h.
 * @portable  leave out everything the host adds: the same on any host.
 */
void hv_cpu_policy_init(struct hv_cpu_policy *policy, uint32_t vcpus, uint64_t tsc_khz,
                        bool portable);

/** Show KVM's paravirtual interface, as far as @hidden (enum hv_pv_part) leaves something of it. */
void hv_cpu_policy_show_pv(struct hv_cpu_policy *policy, unsigned hidden);

static inline bool hv_cpu_has(const struct hv_cpu *cpu, enum hv_feature feature)
{
    return cpu->policy->features & HV_BIT(feature);
}

/** CPUID of @cpu (APIC id and OSXSAVE filled in). Every leaf has an answer, unknown ones zeros. */
struct hv_cpuid_leaf hv_cpuid(const struct hv_cpu *cpu, uint32_t leaf, uint32_t subleaf);

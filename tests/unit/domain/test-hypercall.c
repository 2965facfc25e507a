/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Hypercalls and MSRs of the paravirtual interface by a guest: what is shown works, what is hidden is
 * refused. And the kick that ends a HLT, at every moment at which it may come: the vCPU's worker is
 * parked when it puts the halted vCPU away, as it has decided that there is nothing to do.
 */
#include "domain/core.h"
#include "domain/domain.h"
#include "lib/tap.h"
#include "lib/threads.h"
#include "machine.h"
#include "sync/race.h"

#include <errno.h>
#include <string.h>

#define RESULT   0x102000u
#define ENOSYS_K UINT32_C(0xfffffc18) /* -KVM_ENOSYS */
#define EINVAL_K UINT32_C(0xffffffea)
#define WAIT_NS  (10 * HV_NS_PER_S)

/* ---- what is there ---- */

/* Loads all registers, calls, stores EAX at RESULT, writes 7. */
static const uint8_t code_call[] = {
    0xb8, 0x11, 0x11, 0x11, 0x11, /* mov $0x11111111,%eax */
    0xbb, 0x22, 0x22, 0x22, 0x22, /* mov $0x22222222,%ebx */
    0xb9, 0x33, 0x33, 0x33, 0x33, /* mov $0x33333333,%ecx */
    0xba, 0x44, 0x44, 0x44, 0x44, /* mov $0x44444444,%edx */
    0xbe, 0x55, 0x55, 0x55, 0x55, /* mov $0x55555555,%esi */
    0x0f, 0x01, 0xc1,             /* vmcall */
    0xa3, 0x00, 0x20, 0x10, 0x00, /* mov %eax,0x102000 */
    0xb0, 0x07, 0xe6, 0xf4,       /* mov $7,%al; out %al,$0xf4 */
};
#define VMCALL_AT 0x1bu /* its last byte: c1, or d9 for VMMCALL */

static uint32_t result_of(unsigned hidden, bool amd, const uint32_t given[5])
{
    uint32_t result = 0xdead;
    uint8_t code[sizeof(code_call)];
    struct hv_domain_status status;
    struct machine machine;

    memcpy(code, code_call, sizeof(code));
    for (unsigned i = 0; i < 5; i++) {
        memcpy(code + 5 * i + 1, &given[i], 4);
    }
    code[VMCALL_AT] = amd ? 0xd9 : 0xc1;
    if (!machine_make_hiding(&machine, 1, hidden) ||
        !machine_run(&machine, code, sizeof(code), &status) || status.code != 7 ||
        hv_guest_copy(machine.domain, (hv_gpa){RESULT}, &result, 4, HV_COPY_FROM_GUEST) != 0) {
        tap_fail(__FILE__, __LINE__, "hypercall %u did not come back", given[0]);
    }
    machine_unmake(&machine);
    return result;
}

static void test_shown(void)
{
    static const struct {
        uint32_t given[5];
        unsigned part; /* that shows it; 0: any does */
        uint32_t result;
    } rows[] = {
        {{1, 0, 0, 0, 0}, 0, 0},                  /* VAPIC_POLL_IRQ */
        {{5, 0, 0, 0, 0}, HV_PV_PART_UNHALT, 0},  /* KICK_CPU: itself */
        {{5, 0, 77, 0, 0}, HV_PV_PART_UNHALT, 0}, /* nobody */
        {{10, 1, 0, 0, 0x51}, HV_PV_PART_IPI, 1}, /* SEND_IPI: to itself */
        {{10, 2, 0, 0, 0x40}, HV_PV_PART_IPI, 0}, /* to nobody */
        {{10, UINT32_MAX, UINT32_MAX, UINT32_MAX, 0x40}, HV_PV_PART_IPI, 0},
        {{10, 1, 0, 0, 0x840}, HV_PV_PART_IPI, EINVAL_K},   /* logical */
        {{10, 1, 0, 0, 0xc0040}, HV_PV_PART_IPI, EINVAL_K}, /* shorthand */
        {{11, 0, 0, 0, 0}, HV_PV_PART_YIELD, 0},            /* SCHED_YIELD: to itself */
        {{11, UINT32_MAX, 0, 0, 0}, HV_PV_PART_YIELD, 0},
    };

    for (size_t i = 0; i < HV_ARRAY_LEN(rows); i++) {
        unsigned part = rows[i].part ? rows[i].part : (unsigned)HV_PV_PART_ALL;

        TAP_EQ(result_of(0, false, rows[i].given), rows[i].result);
        TAP_EQ(result_of(HV_PV_PART_ALL & ~part, true, rows[i].given), rows[i].result);
        TAP_EQ(result_of(part, false, rows[i].given), ENOSYS_K);
        if (tap_failed()) {
            tap_note("row %zu", i);
        }
    }
}

/* pv.enosys: numbers that are KVM's, and not shown, and those that are nobody's. */
static void test_enosys(void)
{
    static const uint32_t numbers[] = {0, 2, 3, 4, 6, 7, 8, 9, 12, 13, 0x7fffffff, UINT32_MAX};

    for (size_t i = 0; i < HV_ARRAY_LEN(numbers); i++) {
        const uint32_t given[5] = {numbers[i], 1, 2, 3, 4};

        TAP_EQ(result_of(0, i % 2, given), ENOSYS_K);
    }
}

/* Reads an MSR and writes 0 to it; then 7, or 9 when that was #GP. */
static const uint8_t code_msr[] = {
    0x0f, 0x01, 0x15, 0x00, 0x10, 0x10, 0x00,       /* lgdtl 0x101000 */
    0x0f, 0x01, 0x1d, 0x08, 0x10, 0x10, 0x00,       /* lidtl 0x101008 */
    0xb9, 0x11, 0x11, 0x11, 0x11,                   /* mov $0x11111111,%ecx */
    0x31, 0xc0, 0x31, 0xd2,                         /* xor %eax,%eax; xor %edx,%edx */
    0x0f, 0x32, 0x0f, 0x30,                         /* rdmsr; wrmsr */
    0xb0, 0x07, 0xe6, 0xf4, 0xb0, 0x09, 0xe6, 0xf4, /* mov $7,%al; out %al,$0xf4; and 9 */
};
#define MSR_AT   0xfu
#define FAULT_AT 0x1fu

static uint32_t end_of_msr(unsigned hidden, uint32_t msr)
{
    const struct machine_gate gate = {13, FAULT_AT};
    uint8_t code[sizeof(code_msr)];
    struct hv_domain_status status = {0};
    struct machine machine;

    memcpy(code, code_msr, sizeof(code));
    memcpy(code + MSR_AT, &msr, 4);
    if (machine_make_hiding(&machine, 1, hidden) && machine_put_tables(&machine, &gate, 1)) {
        (void)machine_run(&machine, code, sizeof(code), &status);
    }
    machine_unmake(&machine);
    return status.code;
}

static void test_msrs(void)
{
    static const struct {
        uint32_t msr;
        unsigned part;
    } rows[] = {
        {0x11, HV_PV_PART_CLOCK},       {0x12, HV_PV_PART_CLOCK},
        {0x4b564d00, HV_PV_PART_CLOCK}, {0x4b564d01, HV_PV_PART_CLOCK},
        {0x4b564d03, HV_PV_PART_STEAL}, {0x4b564d04, HV_PV_PART_EOI},
        {0x4b564d05, HV_PV_PART_POLL},
    };

    for (size_t i = 0; i < HV_ARRAY_LEN(rows); i++) {
        TAP_EQ(end_of_msr(0, rows[i].msr), 7);
        TAP_EQ(end_of_msr(rows[i].part, rows[i].msr), 9);
    }
    TAP_EQ(end_of_msr(0, 0x4b564d02), 9);
    TAP_EQ(end_of_msr(0, 0x4b564d06), 9);
}

static void test_config(void)
{
    struct machine machine;
    struct hv_domain *domain;
    const struct hv_domain_config config = {
        .name = "x",
        .engine = "soft",
        .memory_bytes = MACHINE_BYTES / 2,
        .vcpus = 1,
        .pv_hidden = 1u << 8,
    };
    char why[128];

    TAP_OK(machine_make(&machine, 1));
    TAP_EQ(hv_domain_create(machine.core, &config, &domain, why, sizeof(why)), (uint64_t)-EINVAL);
    TAP_OK(strstr(why, "paravirtual"));
    machine_unmake(&machine);
}

/* ---- kicks ---- */

#define FLAG      0x102000u /* 1: go on; and 2: send interrupt 40h first */
#define HALT_CODE 0x9000u
#define GO        0xa000u /* for the other vCPU; counts its interrupts, too */
#define PARKED    "sched.put-back"

/* Starts vCPU 1 at HALT_CODE, waits for FLAG, kicks vCPU 1, and halts for good. */
static const uint8_t code_kick[] = {
    0xc7, 0x05, 0xf0, 0x00, 0xe0, 0xfe, 0xff, 0x01, 0x00, 0x00, /* movl $0x1ff,0xfee000f0 */
    0xc7, 0x05, 0x10, 0x03, 0xe0, 0xfe, 0x00, 0x00, 0x00, 0x01, /* movl $0x1000000,0xfee00310 */
    0xc7, 0x05, 0x00, 0x03, 0xe0, 0xfe, 0x00, 0x45, 0x00, 0x00, /* movl $0x4500,0xfee00300 */
    0xc7, 0x05, 0x00, 0x03, 0xe0, 0xfe, 0x09, 0x46, 0x00, 0x00, /* movl $0x4609,0xfee00300 */
    0xf3, 0x90,                                                 /* pause */
    0x83, 0x3d, 0x00, 0x20, 0x10, 0x00, 0x00,                   /* cmpl $0x0,0x102000 */
    0x74, 0xf5,                                                 /* je 28 */
    0xf7, 0x05, 0x00, 0x20, 0x10, 0x00, 0x02, 0x00, 0x00, 0x00, /* testl $0x2,0x102000 */
    0x74, 0x0a,                                                 /* je 49 */
    0xc7, 0x05, 0x00, 0x03, 0xe0, 0xfe, 0x40, 0x40, 0x00, 0x00, /* movl $0x4040,0xfee00300 */
    0xb8, 0x05, 0x00, 0x00, 0x00,                               /* mov $0x5,%eax */
    0x31, 0xdb,                                                 /* xor %ebx,%ebx */
    0xb9, 0x01, 0x00, 0x00, 0x00,                               /* mov $0x1,%ecx */
    0x0f, 0x01, 0xc1,                                           /* vmcall */
    0xfa, 0xf4,                                                 /* cli; hlt */
    0xb0, 0x11, 0xe6, 0xf4,                                     /* mov $0x11,%al; out %al,$0xf4 */
};

/* Of 16 bits. Says that it is there, halts, writes 9. */
static const uint8_t code_halt[] = {
    0xfa, 0xb0, 0x42,       /* cli; mov $0x42,%al */
    0xba, 0xf8, 0x03, 0xee, /* mov $0x3f8,%dx; out %al,(%dx) */
    0xf4,                   /* hlt */
    0xb0, 0x09, 0xe6, 0xf4, /* mov $0x9,%al; out %al,$0xf4 */
};

/* The same, but it halts when GO is set. */
static const uint8_t code_sticky[] = {
    0xfa, 0xb0, 0x42,             /* cli; mov $0x42,%al */
    0xba, 0xf8, 0x03, 0xee,       /* mov $0x3f8,%dx; out %al,(%dx) */
    0x31, 0xc0, 0x8e, 0xd8,       /* xor %ax,%ax; mov %ax,%ds */
    0x80, 0x3e, 0x00, 0xa0, 0x00, /* cmpb $0x0,0xa000 */
    0x74, 0xf9,                   /* je b */
    0xf4,                         /* hlt */
    0xb0, 0x09, 0xe6, 0xf4,       /* mov $0x9,%al; out %al,$0xf4 */
};

/* With its local APIC in x2APIC mode and interrupts on it halts; then off, and once more. Interrupt 40h
 * counts at GO. When the second HLT ends it writes 13h. */
static const uint8_t code_irq[] = {
    0xfa, 0x31, 0xc0,                   /* cli; xor %ax,%ax */
    0x8e, 0xd8, 0x8e, 0xd0,             /* mov %ax,%ds; mov %ax,%ss */
    0xbc, 0x00, 0x80,                   /* mov $0x8000,%sp */
    0x66, 0xb9, 0x1b, 0x00, 0x00, 0x00, /* mov $0x1b,%ecx */
    0x66, 0xb8, 0x00, 0x0c, 0xe0, 0xfe, /* mov $0xfee00c00,%eax */
    0x66, 0x31, 0xd2, 0x0f, 0x30,       /* xor %edx,%edx; wrmsr */
    0x66, 0xb9, 0x0f, 0x08, 0x00, 0x00, /* mov $0x80f,%ecx */
    0x66, 0xb8, 0xff, 0x01, 0x00, 0x00, /* mov $0x1ff,%eax */
    0x0f, 0x30, 0xb0, 0x42,             /* wrmsr; mov $0x42,%al */
    0xba, 0xf8, 0x03, 0xee,             /* mov $0x3f8,%dx; out %al,(%dx) */
    0xfb, 0xf4, 0xfa, 0xf4,             /* sti; hlt; cli; hlt */
    0xb0, 0x13, 0xe6, 0xf4,             /* mov $0x13,%al; out %al,$0xf4 */
    0xfe, 0x06, 0x00, 0xa0, 0xcf,       /* incb 0xa000; iret */
};
#define IRQ_AT 0x37u

static struct machine machine;

static _Atomic uint32_t arrived; /* the second vCPU has */

static void name_worker(void)
{
    hv_race_name_thread(1);
    hv_store_seq(&arrived, 1);
}

static bool put(uint64_t gpa, const void *bytes, size_t size)
{
    return hv_guest_copy(machine.domain, (hv_gpa){gpa}, (void *)(uintptr_t)bytes, size,
                         HV_COPY_TO_GUEST) == 0;
}

static bool set_word(uint64_t gpa, uint32_t value)
{
    return put(gpa, &value, sizeof(value));
}

static uint64_t kicks_done(void)
{
    return hv_load_relaxed(&machine.domain->vcpu[0].hypercalls[HV_HYPERCALL_KICK_CPU]);
}

/* A machine whose second vCPU runs @code, with its worker's stop where it puts a vCPU away; or skip. */
static bool start(const uint8_t *code, size_t bytes)
{
    if (!HV_CONFIG_RACE_POINTS) {
        tap_skip("this build has no race points");
        return false;
    }
    if (!machine_make(&machine, 2)) {
        return false;
    }
    if (hv_sched_workers(machine.core->sched) < 2) {
        machine_unmake(&machine);
        tap_skip("one worker cannot wait for the other");
        return false;
    }
    machine.heard = name_worker;
    hv_store_seq(&arrived, 0);
    hv_race_begin();
    return put(HALT_CODE, code, bytes) && set_word(FLAG, 0) && set_word(GO, 0) &&
           set_word(0x40 * 4, HALT_CODE + IRQ_AT) &&
           machine_load(&machine, code_kick, sizeof(code_kick));
}

static void end(enum hv_domain_end how, uint32_t code)
{
    struct hv_domain_status status;

    TAP_EQ(hv_domain_wait_change(machine.domain, HV_DOMAIN_STATE_RUNNING, WAIT_NS), 0);
    hv_race_end();
    hv_domain_get_status(machine.domain, &status);
    TAP_EQ(status.end, how);
    TAP_EQ(status.code, code);
    machine_unmake(&machine);
}

/* Between the decision to halt and the halt, after which all vCPUs wait with interrupts off. */
static void test_kick_lost(void)
{
    if (!start(code_halt, sizeof(code_halt))) {
        return;
    }
    hv_race_stop(1, PARKED, 0);
    TAP_EQ(hv_domain_unpause(machine.domain), 0);
    TAP_OK(hv_race_await(1, PARKED));
    TAP_OK(set_word(FLAG, 1));
    TAP_AWAIT(kicks_done() == 1);
    /* The kicker halts, and does not take it that nobody can go on. */
    TAP_AWAIT(hv_load_seq(&machine.domain->halted) == 3);
    TAP_EQ(machine.domain->state, HV_DOMAIN_STATE_RUNNING);
    hv_race_release(1, PARKED);
    end(HV_DOMAIN_END_DEBUG_EXIT, 9);
}

/* Before the HLT. */
static void test_kick_sticky(void)
{
    if (!start(code_sticky, sizeof(code_sticky))) {
        return;
    }
    TAP_EQ(hv_domain_unpause(machine.domain), 0);
    TAP_AWAIT(hv_load_seq(&arrived));
    TAP_OK(set_word(FLAG, 1));
    TAP_AWAIT(kicks_done() == 1 && hv_load_seq(&machine.domain->halted) == 1);
    TAP_OK(set_word(GO, 1));
    end(HV_DOMAIN_END_DEBUG_EXIT, 9);
}

/* When it sleeps long since. */
static void test_kick_asleep(void)
{
    if (!start(code_halt, sizeof(code_halt))) {
        return;
    }
    TAP_EQ(hv_domain_unpause(machine.domain), 0);
    TAP_AWAIT(hv_load_seq(&arrived) && hv_load_seq(&machine.domain->halted) == 2);
    TAP_OK(set_word(FLAG, 1));
    end(HV_DOMAIN_END_DEBUG_EXIT, 9);
}

/* Together with an interrupt: both end one HLT, and nothing is left for the next. */
static void test_halt_irq_race(void)
{
    uint8_t count = 0;

    if (!start(code_irq, sizeof(code_irq))) {
        return;
    }
    hv_race_stop(1, PARKED, 0);
    TAP_EQ(hv_domain_unpause(machine.domain), 0);
    TAP_OK(hv_race_await(1, PARKED));
    TAP_OK(set_word(FLAG, 3));
    TAP_AWAIT(kicks_done() == 1);
    hv_race_release(1, PARKED);
    TAP_EQ(hv_domain_wait_change(machine.domain, HV_DOMAIN_STATE_RUNNING, WAIT_NS), 0);
    TAP_EQ(hv_guest_copy(machine.domain, (hv_gpa){GO}, &count, 1, HV_COPY_FROM_GUEST), 0);
    TAP_EQ(count, 1);
    end(HV_DOMAIN_END_HALTED, 0);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"domain.hypercall.shown", test_shown}, {"pv.enosys", test_enosys},
        {"domain.hypercall.msrs", test_msrs},   {"domain.hypercall.config", test_config},
        {"pv.kick-lost", test_kick_lost},       {"pv.kick-sticky", test_kick_sticky},
        {"pv.kick-asleep", test_kick_asleep},   {"pv.halt-irq-race", test_halt_irq_race},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

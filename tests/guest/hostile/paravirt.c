/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Payloads that mean harm by KVM's paravirtual interface: areas wherever none can be, and where the
 * others have theirs; hypercalls by the thousand. */
#include "machine.h"

#define MSR_WALL   0x4b564d00u
#define MSR_CLOCK  0x4b564d01u
#define MSR_STEAL  0x4b564d03u
#define MSR_EOI    0x4b564d04u
#define MSR_TSC    0x10u
#define ON         1u

#define CALL_KICK  5u
#define CALL_IPI   10u
#define CALL_YIELD 11u

static uint32_t hypercall(uint32_t number, uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3)
{
    uint32_t result;

    __asm__ volatile("vmcall"
                     : "=a"(result)
                     : "a"(number), "b"(a0), "c"(a1), "d"(a2), "S"(a3)
                     : "memory");
    return result;
}

/* ---- Areas ------------------------------------------------------------------------------------- */

static const uint32_t area_msrs[] = {MSR_WALL, MSR_CLOCK, MSR_STEAL, MSR_EOI, 0x11, 0x12};

#define AREA_MSRS (sizeof(area_msrs) / sizeof(area_msrs[0]))

/* Where it may be, at the edges of that, at devices, and anywhere. */
static uint64_t area_address(void)
{
    static const uint32_t devices[] = {LAPIC, IOAPIC, HPET, 0xa0000, 0xe0000};
    uint32_t page = ARENA + (random_below(ARENA_BYTES) & ~0xfffu);

    switch (random_below(8)) {
    case 0:
        return page + 0x1000 - random_below(80);
    case 1:
        return devices[random_below(5)] + random_below(0x1000);
    case 2:
        return memory_bytes - 64 + random_below(128);
    case 3:
        return (uint64_t)random_next() << 32 | random_next();
    default:
        return page + random_below(64) * 64;
    }
}

/* Blocks of code in the pages that become areas: a call finds bytes that the hypervisor has written. */
static void run_in_area(uint32_t page)
{
    volatile uint8_t *code = (volatile uint8_t *)page + 0x800;

    code[0] = 0x40; /* inc %eax */
    code[1] = 0xc3; /* ret */
    __asm__ volatile("call *%0" : : "r"(code) : "eax", "memory");
}

static void area_round(void)
{
    for (;;) {
        uint32_t msr = area_msrs[random_below(AREA_MSRS)];
        uint64_t address = area_address();
        uint32_t low, high;

        write_msr(msr, random_below(4) ? (address & ~UINT64_C(0x3e)) | ON : address);
        __asm__ volatile("rdmsr" : "=a"(low), "=d"(high) : "c"(msr));
        run_in_area(ARENA + (random_below(ARENA_BYTES) & ~0xfffu));
        if (random_below(16) == 0) {
            write_msr(MSR_TSC, (uint64_t)random_next() << random_below(32));
        }
    }
}

/* A refused value is #GP, which begins a new round. */
static void area_ap(uint32_t cpu)
{
    resume_with(cpu, area_round);
}

static void run_pv_areas(void)
{
    area_ap(0);
}

static void run_pv_areas_all(void)
{
    start_cpus(area_ap);
    area_ap(0);
}

/* All CPUs share one area of each kind, and scribble over it while interrupts come. */
static void share_areas(uint32_t cpu)
{
    traps_to(cpu, eoi_stub);
    for (;;) {
        uint32_t page = ARENA + random_below(4) * 0x1000;

        write_msr(MSR_CLOCK, page | ON);
        write_msr(MSR_STEAL, (page + 64) | ON);
        write_msr(MSR_EOI, (page + 128) | ON);
        for (uint32_t i = 0; i < 64; i++) {
            *(volatile uint32_t *)(page + random_below(48) * 4) = random_next();
            interrupts_on();
            send_ipi(0x4040 + random_below(0x80), random_below(CPUS));
        }
        if (random_below(4) == 0) {
            write_msr(area_msrs[random_below(AREA_MSRS)], 0);
        }
    }
}

static void run_pv_share(void)
{
    start_cpus(share_areas);
    share_areas(0);
}

/* ---- Hypercalls -------------------------------------------------------------------------------- */

/* Interrupts of all vectors and modes but INIT and SIPI. */
static void throw_calls(uint32_t cpu)
{
    static const uint32_t modes[] = {0x000, 0x000, 0x100, 0x200,  0x300,
                                     0x400, 0x700, 0x840, 0xc0040};

    traps_to(cpu, eoi_stub);
    for (;;) {
        uint32_t icr = modes[random_below(9)] | (0x20 + random_below(0xe0));

        interrupts_on();
        switch (random_below(5)) {
        case 0:
            hypercall(CALL_KICK, random_value(), random_below(8), 0, 0);
            break;
        case 1:
            hypercall(CALL_YIELD, random_below(8) ? random_below(CPUS) : random_next(), 0, 0, 0);
            break;
        case 2:
            hypercall(CALL_IPI, random_next(), random_next(), random_below(4) ? 0 : random_value(),
                      icr);
            break;
        case 3:
            hypercall(random_below(16) == CALL_IPI ? 0 : random_value() | 0x100, random_value(),
                      random_value(), random_value(), random_value());
            break;
        default:
            /* CPU 0 stays awake, so that somebody always is. */
            if (cpu != 0) {
                __asm__ volatile("sti; hlt");
            }
            break;
        }
    }
}

static void run_pv_calls(void)
{
    traps_to(0, eoi_stub); /* before the first NMI */
    start_cpus(throw_calls);
    throw_calls(0);
}

/* Halted with interrupts off, and kicked by one who never halts. */
static void halt_deaf(uint32_t cpu)
{
    (void)cpu;
    for (;;) {
        __asm__ volatile("cli; hlt");
    }
}

static void run_pv_kicks(void)
{
    start_cpus(halt_deaf);
    for (;;) {
        hypercall(CALL_KICK, 0, 1 + random_below(CPUS - 1), 0, 0);
    }
}

const struct payload paravirt_payloads[] = {
    {"pv-areas", run_pv_areas}, {"pv-areas-all", run_pv_areas_all}, {"pv-share", run_pv_share},
    {"pv-calls", run_pv_calls}, {"pv-kicks", run_pv_kicks},         {NULL, NULL},
};

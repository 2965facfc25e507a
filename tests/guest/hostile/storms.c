/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Payloads that keep the machine busy: loops, floods, interrupts, devices, other processors. */
#include "machine.h"

static void run_power_off(void)
{
    out16(0x604, 1u << 13 | 5u << 10);
    out16(0x604, 1u << 13);
}

static void run_triple_fault(void)
{
    static const struct table_register none;

    load_idt(&none);
    __asm__ volatile("ud2");
}

static void run_deaf(void)
{
    __asm__ volatile("cli; hlt");
}

static void run_debug_exit(void)
{
    out32(0xf4, 42);
}

static void run_reset(void)
{
    out8(0xcf9, 2);
    out8(0xcf9, 6);
}

static void run_spin(void)
{
    __asm__ volatile("cli\n1: jmp 1b");
}

static void run_spin_wide(void)
{
    /* Several blocks, calls and returns, no memory but the stack. */
    __asm__ volatile("cli\n"
                     "1: call 2f\n jmp 1b\n"
                     "2: xor $1, %%eax\n jz 3f\n nop\n"
                     "3: ret"
                     :
                     :
                     : "eax", "memory");
}

static void run_spin_pause(void)
{
    __asm__ volatile("cli\n1: pause\n jmp 1b");
}

static void spin_ap(uint32_t cpu)
{
    (void)cpu;
    run_spin();
}

static void run_spin_all(void)
{
    start_cpus(spin_ap);
    run_spin();
}

/* ---- Serial port ------------------------------------------------------------------------------- */

static void run_uart_flood(void)
{
    for (uint32_t i = 0;; i++) {
        out8(0x3f8, (uint8_t)i);
    }
}

/* The same, by who asks each time whether there is room: then none is lost. */
static void run_uart_count(void)
{
    for (uint32_t i = 0;; i++) {
        while (!(in8(0x3fd) & 0x20)) {
        }
        out8(0x3f8, (uint8_t)i);
    }
}

static void run_uart_string(void)
{
    for (;;) {
        __asm__ volatile("rep outsb" : : "d"(0x3f8), "S"(ARENA), "c"(-1) : "memory");
    }
}

static void uart_ap(uint32_t cpu)
{
    (void)cpu;
    run_uart_flood();
}

static void run_uart_all(void)
{
    start_cpus(uart_ap);
    run_uart_flood();
}

static void run_uart_random(void)
{
    for (;;) {
        out8((uint16_t)(0x3f8 + random_below(8)), (uint8_t)random_next());
        in8((uint16_t)(0x3f8 + random_below(8)));
    }
}

/* Tame: says what it hears. For tests of the console. */
static void run_echo(void)
{
    for (;;) {
        if (in8(0x3fd) & 1) {
            out8(0x3f8, in8(0x3f8));
        }
    }
}

/* For those who want many machines that do nothing: whatever comes, it halts again. */
static void run_idle(void)
{
    traps_to(0, return_stub);
    for (;;) {
        __asm__ volatile("sti; hlt");
    }
}

/* Tame: each CPU says "r" when it can take NMIs at its LINT1, then its number at each. */
static void tell_nmis(uint32_t cpu)
{
    traps_to(cpu, tell_stub);
    mmio_write(LAPIC + 0xf0, 0x1ff);
    mmio_write(LAPIC + 0x360, 0x400);
    out8(0x3f8, 'r');
    for (;;) {
        __asm__ volatile("cli; hlt");
    }
}

static void run_nmi_wait(void)
{
    start_cpus(tell_nmis);
    tell_nmis(0);
}

/* ---- Interrupts -------------------------------------------------------------------------------- */

static void run_int_storm(void)
{
    traps_to(0, return_stub);
    for (;;) {
        __asm__ volatile("int $0x20\n int3\n int $0x80\n int $2\n int $0xff");
    }
}

/* The handler interrupts itself: the stack runs down through all memory, code included. */
static void run_int_nest(void)
{
    traps_to(0, nest_stub);
    __asm__ volatile("int $0x40");
}

/* Faults, returns to the faulting instruction, faults. */
static void run_fault_storm(void)
{
    traps_to(0, return_stub);
    __asm__ volatile("ud2");
}

static void run_debug_storm(void)
{
    traps_to(0, return_stub);
    __asm__ volatile("pushf\n orl $0x100, (%%esp)\n popf\n 1: jmp 1b" : : : "memory");
}

static void program_timers(void)
{
    out8(0x43, 0x34);
    out8(0x40, 1);
    out8(0x40, 0);
    out8(0x70, 0x0a);
    out8(0x71, 0x23);
    out8(0x70, 0x0b);
    out8(0x71, 0x72);
    mmio_write(LAPIC + 0xf0, 0x1ff);
    mmio_write(LAPIC + 0x3e0, 0xb);
    mmio_write(LAPIC + 0x320, 0x20031);
    mmio_write(LAPIC + 0x380, 1);
    mmio_write(HPET + 0x10, 0);
    for (uint32_t timer = 0; timer < 3; timer++) {
        mmio_write(HPET + 0x100 + 0x20 * timer, 0x4c | 2u << 9);
        mmio_write(HPET + 0x108 + 0x20 * timer, 1);
        mmio_write(HPET + 0x108 + 0x20 * timer, 1);
    }
    mmio_write(HPET + 0x10, 3);
    for (uint32_t pin = 0; pin < 24; pin++) {
        mmio_write(IOAPIC, 0x10 + 2 * pin + 1);
        mmio_write(IOAPIC + 0x10, 0);
        mmio_write(IOAPIC, 0x10 + 2 * pin);
        mmio_write(IOAPIC + 0x10, 0x40 + pin);
    }
}

static void run_timer_storm(void)
{
    traps_to(0, eoi_stub);
    program_timers();
    interrupts_on();
    for (;;) {
        __asm__ volatile("hlt");
    }
}

/* Every timer at its fastest, made anew all the time. */
static void run_timer_churn(void)
{
    traps_to(0, eoi_stub);
    for (;;) {
        interrupts_on();
        program_timers();
        mmio_write(LAPIC + 0x380, random_below(64));
        out8(0x40, (uint8_t)random_next());
        interrupts_off();
    }
}

/* One write to one timer, its route, or the counters that deadlines are told by. */
static void poke_timer(void)
{
    static const uint16_t ports[] = {0x40, 0x42, 0x43, 0x61, 0x70, 0x71};
    static const uint32_t apic[] = {0x320, 0x380, 0x3e0, 0x350};
    static const uint32_t msrs[] = {0x10, 0x3b, 0x6e0};
    uint32_t vector = 0x40 + random_below(0x80);

    switch (random_below(8)) {
    case 0:
        out8(ports[random_below(6)], (uint8_t)random_next());
        break;
    case 1:
        mmio_write(LAPIC + apic[random_below(4)],
                   random_below(2) ? random_value() : random_below(4) << 17 | vector);
        break;
    case 2:
        write_msr(msrs[random_below(3)], (uint64_t)random_next() << random_below(32));
        break;
    case 3:
        mmio_write(HPET + 0x10, random_below(4));
        break;
    case 4:
        mmio_write(HPET + random_below(0x40) * 8 + random_below(2) * 4, random_value());
        break;
    case 5:
        mmio_write(HPET + 0x100 + random_below(3) * 0x20, 20u << 9 | random_below(0x200));
        break;
    default:
        mmio_write(IOAPIC, 0x10 + random_below(24) * 2 + random_below(2));
        mmio_write(IOAPIC + 0x10,
                   random_below(2) ? random_below(CPUS) << 24 : random_below(2) << 15 | vector);
        break;
    }
}

/* All timers by all CPUs, which wait for them as often as not; CPU 0 never does. */
static void churn_timers(uint32_t cpu)
{
    traps_to(cpu, eoi_stub);
    for (;;) {
        for (uint32_t i = 0; i < 32; i++) {
            poke_timer();
        }
        interrupts_on();
        if (cpu != 0 && random_below(2)) {
            __asm__ volatile("hlt");
        }
        interrupts_off();
    }
}

static void run_timer_all(void)
{
    start_cpus(churn_timers);
    churn_timers(0);
}

/* ---- Devices ----------------------------------------------------------------------------------- */

/* Ports that end the machine are left out, and those whose wider accesses reach them. */
static bool ends_machine(uint16_t port)
{
    return (port >= 0x61 && port <= 0x64) || (port >= 0x8f && port <= 0x92) ||
           (port >= 0xf1 && port <= 0xf7) || (port >= 0x5fd && port <= 0x607) ||
           (port >= 0xcf5 && port <= 0xcff);
}

static void poke_port(uint16_t port)
{
    if (ends_machine(port)) {
        return;
    }
    switch (random_below(6)) {
    case 0:
        out8(port, (uint8_t)random_next());
        break;
    case 1:
        out16(port, (uint16_t)random_next());
        break;
    case 2:
        out32(port, random_next());
        break;
    default:
        in8(port);
        break;
    }
}

static void poke_devices(void)
{
    static const uint16_t ports[] = {0x20, 0x21, 0xa0, 0xa1, 0x40,  0x41,  0x42, 0x43,
                                     0x70, 0x71, 0x60, 0x80, 0x4d0, 0x4d1, 0x608};
    static const uint32_t bases[] = {LAPIC, IOAPIC, HPET};
    uint32_t address = bases[random_below(3)] + random_below(0x400);

    poke_port(ports[random_below(sizeof(ports) / sizeof(ports[0]))]);
    if (random_below(16) == 0) {
        poke_port((uint16_t)random_next());
    }
    if (address >> 12 == IOAPIC >> 12) {
        mmio_write(IOAPIC, random_below(0x48));
        mmio_write(IOAPIC + 0x10, random_next());
    }
    /* Not the command that starts CPUs: init-storm does that. */
    if ((address & ~15u) != LAPIC + 0x300) {
        mmio_write(random_below(4) ? address & ~15u : address, random_value());
        mmio_read(address);
    }
}

static void run_device_storm(void)
{
    traps_to(0, eoi_stub);
    for (;;) {
        interrupts_on();
        poke_devices();
    }
}

static void device_ap(uint32_t cpu)
{
    traps_to(cpu, eoi_stub);
    for (;;) {
        interrupts_on();
        poke_devices();
    }
}

static void run_device_all(void)
{
    start_cpus(device_ap);
    device_ap(0);
}

/* ---- Other processors -------------------------------------------------------------------------- */

#define INIT_MODE  0x500u
#define ALL_OTHERS 0xc0000u

static void throw_ipis(uint32_t cpu)
{
    static const uint32_t commands[] = {
        0x4500,  0x4600 | TRAMPOLINE >> 12,  0x4400, 0x4040, 0x8500, 0xc4500, 0x84040, 0xc4400,
        0x44050, 0xc4600 | TRAMPOLINE >> 12, 0x4940, 0x4145, 0x4200, 0x8c500,
    };

    traps_to(cpu, eoi_stub);
    for (;;) {
        uint32_t command = commands[random_below(sizeof(commands) / sizeof(commands[0]))];
        uint32_t target = random_below(8) ? random_below(CPUS) : random_below(256);

        /* CPU 0 would begin at a reset vector where there is no firmware, and end the storm. */
        if ((command & INIT_MODE) == INIT_MODE &&
            (cpu != 0 || (command & ALL_OTHERS) != ALL_OTHERS)) {
            command &= ~ALL_OTHERS;
        }
        if ((command & INIT_MODE) == INIT_MODE && target % CPUS == 0) {
            target++;
        }
        interrupts_on();
        send_ipi(command, target);
    }
}

static void run_init_storm(void)
{
    traps_to(0, eoi_stub); /* before the first NMI */
    start_cpus(throw_ipis);
    throw_ipis(0);
}

static void throw_fixed(uint32_t cpu)
{
    traps_to(cpu, eoi_stub);
    for (;;) {
        interrupts_on();
        send_ipi(0x4040 + random_below(0x80), random_below(CPUS));
    }
}

static void run_ipi_storm(void)
{
    start_cpus(throw_fixed);
    throw_fixed(0);
}

const struct payload storm_payloads[] = {
    {"power-off", run_power_off},
    {"triple-fault", run_triple_fault},
    {"deaf", run_deaf},
    {"debug-exit", run_debug_exit},
    {"reset", run_reset},
    {"spin", run_spin},
    {"spin-wide", run_spin_wide},
    {"spin-pause", run_spin_pause},
    {"spin-all", run_spin_all},
    {"uart-flood", run_uart_flood},
    {"uart-count", run_uart_count},
    {"uart-string", run_uart_string},
    {"uart-all", run_uart_all},
    {"uart-random", run_uart_random},
    {"echo", run_echo},
    {"idle", run_idle},
    {"nmi-wait", run_nmi_wait},
    {"int-storm", run_int_storm},
    {"int-nest", run_int_nest},
    {"fault-storm", run_fault_storm},
    {"debug-storm", run_debug_storm},
    {"timer-storm", run_timer_storm},
    {"timer-churn", run_timer_churn},
    {"timer-all", run_timer_all},
    {"device-storm", run_device_storm},
    {"device-all", run_device_all},
    {"init-storm", run_init_storm},
    {"ipi-storm", run_ipi_storm},
    {NULL, NULL},
};

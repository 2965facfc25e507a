/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The bare machine under the payloads: ports, registers, traps, processors, random numbers. */
#pragma once

#include "machine-layout.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NORETURN    __attribute__((noreturn))

/* The payload's own image and, above it, what it may scribble over; below lie its page tables. */
#define ARENA       0x400000u
#define ARENA_BYTES 0x400000u
#define TABLES      0x300000u

enum payload_cpus { PAYLOAD_ONE, PAYLOAD_ALL };

struct payload {
    const char *name;
    void (*run)(void);
};

extern const struct payload storm_payloads[], memory_payloads[], garbage_payloads[],
    paravirt_payloads[];

extern uint32_t memory_bytes; /* RAM from 0, as Multiboot tells */

/* Each CPU has its own sequence. */
uint32_t random_next(void);
uint32_t random_below(uint32_t limit);
/** Mostly plain addresses, sizes and edges; sometimes anything. */
uint32_t random_value(void);
void random_seed(uint32_t seed);

static inline void out8(uint16_t port, uint8_t value)
{
    __asm__ volatile("outb %0, %1" : : "a"(value), "Nd"(port) : "memory");
}

static inline void out16(uint16_t port, uint16_t value)
{
    __asm__ volatile("outw %0, %1" : : "a"(value), "Nd"(port) : "memory");
}

static inline void out32(uint16_t port, uint32_t value)
{
    __asm__ volatile("outl %0, %1" : : "a"(value), "Nd"(port) : "memory");
}

static inline uint8_t in8(uint16_t port)
{
    uint8_t value;

    __asm__ volatile("inb %1, %0" : "=a"(value) : "Nd"(port) : "memory");
    return value;
}

static inline uint32_t mmio_read(uint32_t address)
{
    return *(volatile uint32_t *)address;
}

static inline void mmio_write(uint32_t address, uint32_t value)
{
    *(volatile uint32_t *)address = value;
}

static inline void write_msr(uint32_t msr, uint64_t value)
{
    __asm__ volatile("wrmsr" : : "c"(msr), "A"(value) : "memory");
}

static inline void interrupts_on(void)
{
    __asm__ volatile("sti");
}

static inline void interrupts_off(void)
{
    __asm__ volatile("cli");
}

struct __attribute__((packed)) table_register {
    uint16_t limit;
    uint32_t base;
};

static inline void load_idt(const struct table_register *table)
{
    __asm__ volatile("lidt %0" : : "m"(*table) : "memory");
}

extern uint64_t gdt[GDT_ENTRIES];

/* Handlers that come back. */
void return_stub(void);
void eoi_stub(void);
void nest_stub(void);
/** Writes '0' plus the number of its CPU to the serial port, and comes back. */
void tell_stub(void);

/** All 256 vectors of this CPU to one handler. */
void traps_to(uint32_t cpu, void (*handler)(void));
/** Traps start @round anew on a fresh stack; does the first. Never returns. */
void resume_with(uint32_t cpu, void (*round)(void)) NORETURN;
/** The same in long mode: the IDT has 64-bit gates. One CPU only. */
void resume_long_with(void (*round)(void)) NORETURN;
/** What the stubs call. */
void machine_resume(uint32_t cpu) NORETURN;
void machine_ap_main(uint32_t cpu) NORETURN;
void payload_main(uint32_t multiboot_info);

/** Identity-map 4 GiB by 2 MiB pages below @tables (6 pages of PAE, or of long mode). */
uint32_t map_identity(uint32_t tables, bool long_mode);
/** Start the other CPUs in @ap; returns when as many have come as were seen. */
void start_cpus(void (*ap)(uint32_t cpu));
/** Every 5 ms an NMI to all CPUs: ends what garbage loops in. */
void watchdog_start(void);
void send_ipi(uint32_t low, uint32_t target);

void machine_jump(const uint32_t registers[8], uint32_t flags, uint32_t target);
void machine_jump_real(const uint32_t registers[8], uint32_t flags, uint32_t segment);
void machine_enter_long(uint32_t cr3);
void machine_jump_long(const uint64_t registers[18]);

/* The compiler calls these. */
void *memset(void *to, int value, size_t bytes);
void *memcpy(void *to, const void *from, size_t bytes);

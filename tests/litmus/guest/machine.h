/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The bare machine under the litmus tests: processors, interrupts, waiting, the result. */
#pragma once

#include "layout.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARRAY_LEN(a)  (sizeof(a) / sizeof((a)[0]))
#define CACHE_LINE    64
#define LINE_ALIGNED  _Alignas(CACHE_LINE)

/* Interrupts from one CPU to others. */
#define VECTOR_FLUSH  0x40 /* tests install what they need: machine_handle() */
#define VECTOR_SYNC   0x41
#define VECTOR_WAKE   0x42
#define VECTOR_NAP    0x53 /* of a higher class: handlers that have not ended yet may nap */
#define VECTOR_BREAK  3

#define PAGE_PRESENT  1u
#define PAGE_WRITABLE 2u
#define PAGE_GLOBAL   0x100u

extern uint32_t cpus; /* how many there are, 2 to CPUS_MOST */
extern volatile uint64_t window_table[512];
/* Times that each CPU has come out of a start-up IPI. */
extern volatile uint32_t starts[CPUS_MOST];

/* What a CPU does from now on when it is started; NULL: jobs. */
extern void (*volatile start_role)(uint32_t cpu);

struct interrupt_frame {
    uint64_t rip, cs, rflags, rsp, ss;
};

/** Every CPU does @job; returns when all have, CPU 0's caller included. */
void run_on_all(void (*job)(uint32_t cpu));
/** @number CPUs of a job wait for one another, and go on at the same moment, if the host lets them. */
void meet(uint32_t number);

/** For all CPUs. Handlers of exceptions with an error code are not for this. */
void machine_handle(uint8_t vector, void (*handler)(struct interrupt_frame *frame));
/** Interrupt all CPUs but this one. */
void interrupt_others(uint8_t vector);
void interrupt_cpu(uint8_t vector, uint32_t cpu);
void interrupt_done(void);
/** INIT and start-up IPI. */
void restart_cpu(uint32_t cpu);

/** Tell the runner the result, with a line of text (%u is a uint32_t), and end the machine. */
__attribute__((noreturn)) void report(bool good, const char *format, ...);
/** Is it the same text? */
bool same(const char *a, const char *b);

/** Pseudo-random, a sequence for each CPU. */
uint32_t random_below(uint32_t cpu, uint32_t limit);

static inline void interrupts_on(void)
{
    __asm__ volatile("sti" : : : "memory");
}

static inline void interrupts_off(void)
{
    __asm__ volatile("cli" : : : "memory");
}

static inline void serialise(void)
{
    uint32_t a = 0, b, c = 0, d;

    __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d) : : "memory");
}

static inline void locked_inc(volatile uint32_t *place)
{
    __asm__ volatile("lock incl %0" : "+m"(*place) : : "memory");
}

static inline void forget_page(uint64_t address)
{
    __asm__ volatile("invlpg (%0)" : : "r"(address) : "memory");
}

static inline void forget_all(void)
{
    uint64_t root;

    __asm__ volatile("mov %%cr3, %0\n mov %0, %%cr3" : "=r"(root) : : "memory");
}

/** One instruction that takes about a microsecond, in which another CPU can do something. */
static inline void dawdle(void)
{
    static const uint8_t nothing[128];
    const uint8_t *at = nothing;
    uint64_t count = sizeof(nothing);

    __asm__ volatile("repe scasb" : "+D"(at), "+c"(count) : "a"(0) : "memory", "cc");
}

/** Halt until the local APIC's timer, or anything else, interrupts. */
void nap(void);

/** Turn @turn of a wait for another CPU: a moment at first, later a nap. So a CPU whose partner gets no
 * time from the host does not spend millions of instructions on it. Interrupts may come. */
void wait_turn(uint32_t turn);
/** Wait until *@place is @value or more. */
void wait_for(const volatile uint32_t *place, uint32_t value);

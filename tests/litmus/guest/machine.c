/* SPDX-License-Identifier: GPL-3.0-or-later */
/* See machine.h. */
#include "machine.h"

#include "litmus.h"
#include "request.h"

#include <stdarg.h>

/* Of 40 ns: 200 µs. */
#define NAP_TICKS     5000
#define AWAKE_TURNS   20
#define MEETING_TURNS 400

struct gate {
    uint16_t offset_low, selector, type, offset_middle;
    uint32_t offset_high, reserved;
};

uint32_t cpus = 1;
volatile uint64_t window_table[512] __attribute__((aligned(4096)));
volatile uint32_t starts[CPUS_MOST];
void (*volatile start_role)(uint32_t cpu);

extern const uint8_t trampoline[], trampoline_end[];

static struct gate gates[256] __attribute__((aligned(16)));
static uint32_t random_state[CPUS_MOST];

/* The job that CPUs other than 0 wait for: its number, then how many have done it. */
static void (*volatile job)(uint32_t cpu);
static volatile uint32_t job_number, job_done;
static volatile uint32_t meeting, arrived;

void machine_main(void);
void machine_started(uint32_t cpu);
/* The compiler calls these. */
void *memset(void *to, int value, size_t bytes);
void *memcpy(void *to, const void *from, size_t bytes);

void *memset(void *to, int value, size_t bytes)
{
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(bytes) : "a"(value) : "memory");
    return to;
}

void *memcpy(void *to, const void *from, size_t bytes)
{
    void *start = to;

    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
    return start;
}

/* ---- Words ------------------------------------------------------------------------------------- */

static void out32(uint16_t port, uint32_t value)
{
    __asm__ volatile("outl %0, %1" : : "a"(value), "Nd"(port));
}

static void put(char c)
{
    __asm__ volatile("outb %b0, %1" : : "a"(c), "Nd"((uint16_t)0x3f8));
}

static void put_number(uint32_t number)
{
    if (number >= 10) {
        put_number(number / 10);
    }
    put((char)('0' + number % 10));
}

void report(bool good, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    for (; *format; format++) {
        if (*format == '%') {
            format++;
            put_number(va_arg(args, uint32_t));
        } else {
            put(*format);
        }
    }
    va_end(args);
    for (;;) {
        out32(0xf4, good ? REPORT_GOOD : REPORT_BAD);
    }
}

bool same(const char *a, const char *b)
{
    while (*a && *a == *b) {
        a++;
        b++;
    }
    return *a == *b;
}

uint32_t random_below(uint32_t cpu, uint32_t limit)
{
    uint32_t state = random_state[cpu];

    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    random_state[cpu] = state;
    return (uint32_t)((uint64_t)state * limit >> 32);
}

/* ---- Interrupts -------------------------------------------------------------------------------- */

static volatile uint32_t *lapic(uint32_t offset)
{
    return (volatile uint32_t *)(uintptr_t)(LAPIC + offset);
}

void machine_handle(uint8_t vector, void (*handler)(struct interrupt_frame *frame))
{
    uint64_t offset = (uintptr_t)handler;

    gates[vector] = (struct gate){
        .offset_low = (uint16_t)offset,
        .selector = CODE64,
        .type = 0x8e00,
        .offset_middle = (uint16_t)(offset >> 16),
        .offset_high = (uint32_t)(offset >> 32),
    };
}

void interrupt_done(void)
{
    *lapic(0xb0) = 0;
}

static void send(uint32_t command, uint32_t cpu)
{
    *lapic(0x310) = cpu << 24;
    *lapic(0x300) = command;
    while (*lapic(0x300) & 0x1000) {
    }
}

void interrupt_others(uint8_t vector)
{
    send(0xc4000u | vector, 0);
}

void interrupt_cpu(uint8_t vector, uint32_t cpu)
{
    send(0x4000u | vector, cpu);
}

void restart_cpu(uint32_t cpu)
{
    send(0x4500, cpu);
    send(0x4600 | TRAMPOLINE >> 12, cpu);
}

__attribute__((interrupt)) static void handle_nap(struct interrupt_frame *frame)
{
    (void)frame;
    interrupt_done();
}

void nap(void)
{
    uint64_t flags;

    /* Closed until HLT: the timer's interrupt must not have come before it. */
    __asm__ volatile("pushfq\n popq %0\n cli" : "=r"(flags) : : "memory");
    *lapic(0x3e0) = 0xb; /* divided by 1 */
    *lapic(0x320) = VECTOR_NAP;
    *lapic(0x380) = NAP_TICKS;
    __asm__ volatile("sti\n hlt\n pushq %0\n popfq" : : "r"(flags) : "memory");
}

void wait_turn(uint32_t turn)
{
    if (turn < AWAKE_TURNS) {
        dawdle();
    } else {
        nap();
    }
}

void wait_for(const volatile uint32_t *place, uint32_t value)
{
    for (uint32_t turn = 0; *place < value; turn++) {
        wait_turn(turn);
    }
}

/* No exception is expected but those that tests handle. */
__attribute__((interrupt)) static void unexpected(struct interrupt_frame *frame)
{
    report(false, "an exception, or what stands behind its error code, at %u",
           (uint32_t)frame->rip);
}

static void prepare_cpu(void)
{
    const struct __attribute__((packed)) {
        uint16_t limit;
        uint64_t base;
    } table = {sizeof(gates) - 1, (uintptr_t)gates};

    __asm__ volatile("lidt %0" : : "m"(table));
    *lapic(0xf0) = 0x1ff;
}

/* ---- Processors -------------------------------------------------------------------------------- */

/* The last one to come does not wait. */
static bool meet_once(uint32_t number)
{
    uint32_t before = meeting, came = 1;

    __asm__ volatile("lock xaddl %0, %1" : "+r"(came), "+m"(arrived) : : "memory");
    if (came == number - 1) {
        arrived = 0;
        meeting = before + 1;
        return true;
    }
    for (uint32_t turn = 0; meeting == before; turn++) {
        wait_turn(turn < MEETING_TURNS ? 0 : AWAKE_TURNS);
    }
    return false;
}

void meet(uint32_t number)
{
    if (meet_once(number)) {
        interrupt_others(VECTOR_NAP);
    }
    /* And once more, now that all are awake. */
    (void)meet_once(number);
}

void run_on_all(void (*what)(uint32_t cpu))
{
    job = what;
    job_done = 0;
    job_number++;
    interrupt_others(VECTOR_NAP); /* who naps comes at once */
    what(0);
    wait_for(&job_done, cpus - 1);
}

static void do_jobs(uint32_t cpu)
{
    /* From the first one on: CPU 0 may have made it already. */
    for (uint32_t next = 1;; next++) {
        wait_for(&job_number, next);
        job(cpu);
        locked_inc(&job_done);
    }
}

void machine_started(uint32_t cpu)
{
    void (*role)(uint32_t cpu) = start_role;

    prepare_cpu();
    locked_inc(&starts[cpu]);
    if (role) {
        role(cpu);
    }
    do_jobs(cpu);
}

static void run_named(const struct litmus *tests, const char *name)
{
    for (; tests->name; tests++) {
        if (same(tests->name, name)) {
            tests->run();
        }
    }
}

void machine_main(void)
{
    const struct request *request = (const struct request *)REQUEST;

    for (uint32_t vector = 0; vector < 256; vector++) {
        machine_handle((uint8_t)vector, unexpected);
    }
    for (uint32_t cpu = 0; cpu < CPUS_MOST; cpu++) {
        random_state[cpu] = 0x12345 + cpu * 0x9e3779b9;
    }
    machine_handle(VECTOR_NAP, handle_nap);
    prepare_cpu();
    memcpy((void *)TRAMPOLINE, trampoline, (size_t)(trampoline_end - trampoline));
    cpus = request->cpus;
    for (uint32_t cpu = 1; cpu < cpus; cpu++) {
        restart_cpu(cpu);
        wait_for(&starts[cpu], 1);
    }
    run_shape(request->name);
    run_named(atomics_tests, request->name);
    run_named(systems_tests, request->name);
    run_named(paravirt_tests, request->name);
    report(false, "no such test");
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What KVM's paravirtual interface promises to operating systems, by the way they use it: processors
 * that halt with interrupts off and are kicked, a queued spin lock made of that, interrupts to many at
 * once, and areas that the hypervisor writes.
 *
 * A kick that is lost leaves all processors halted with interrupts off, and the machine ends so.
 */
#include "litmus.h"
#include "machine.h"

#define KICKS      240
#define LOCKS      400
#define IPIS       160
#define EOIS       300
#define CLOCKS     400
#define STEALS     40
#define GIVEN_UP   10   /* times */
#define PAUSES     2000 /* two bursts or more */
/* Turns that a lock's waiter spins before it halts. */
#define SPINS      6
#define VECTOR_IPI 0x43

#define MSR_CLOCK  0x4b564d01
#define MSR_STEAL  0x4b564d03
#define MSR_EOI    0x4b564d04
#define ON         1

#define CALL_KICK  5
#define CALL_IPI   10
#define CALL_YIELD 11
#define ENOSYS_KVM 1000

static uint64_t hypercall(uint64_t number, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3)
{
    uint64_t result;

    __asm__ volatile("vmcall"
                     : "=a"(result)
                     : "a"(number), "b"(a0), "c"(a1), "d"(a2), "S"(a3)
                     : "memory");
    return result;
}

static void write_msr(uint32_t index, uint64_t value)
{
    __asm__ volatile("wrmsr" : : "c"(index), "a"((uint32_t)value), "d"((uint32_t)(value >> 32)));
}

static uint64_t read_tsc(void)
{
    uint32_t low, high;

    __asm__ volatile("lfence\n rdtsc\n lfence" : "=a"(low), "=d"(high) : : "memory");
    return (uint64_t)high << 32 | low;
}

static void kick(uint32_t cpu)
{
    (void)hypercall(CALL_KICK, 0, cpu, 0, 0);
}

/* Interrupts are off. */
static void halt(void)
{
    __asm__ volatile("hlt" : : : "memory");
}

static inline uint32_t exchange(volatile uint32_t *place, uint32_t value)
{
    __asm__ volatile("xchgl %0, %1" : "+r"(value), "+m"(*place) : : "memory");
    return value;
}

static inline bool replace(volatile uint32_t *place, uint32_t expected, uint32_t value)
{
    bool good;

    __asm__ volatile("lock cmpxchgl %2, %1"
                     : "=@ccz"(good), "+m"(*place)
                     : "r"(value), "a"(expected)
                     : "memory");
    return good;
}

static uint32_t this_cpu(void)
{
    return *(volatile uint32_t *)(uintptr_t)(LAPIC + 0x20) >> 24;
}

/* ---- Hypercalls ---------------------------------------------------------------------------------- */

static void test_calls(void)
{
    static const uint32_t unknown[] = {0, 2, 3, 4, 9, 12, 1000};
    uint64_t refused = 0;

    for (uint32_t i = 0; i < ARRAY_LEN(unknown); i++) {
        refused += hypercall(unknown[i], 0, 0, 0, 0) == (uint64_t)-ENOSYS_KVM;
    }
    report(refused == ARRAY_LEN(unknown) &&
               /* Numbers are of 64 bits here. */
               hypercall(UINT64_C(0x100000005), 0, 0, 0, 0) == (uint64_t)-ENOSYS_KVM &&
               hypercall(CALL_KICK, 0, 99, 0, 0) == 0 && hypercall(CALL_YIELD, 1, 0, 0, 0) == 0,
           "%u refused", (uint32_t)refused);
}

/* ---- Kicks: a token that goes round, and nobody has interrupts on ------------------------------- */

static volatile uint32_t token, sleeps[CPUS_MOST];

static void pass_token(uint32_t cpu)
{
    for (uint32_t n = cpu; n < KICKS; n += cpus) {
        while (token != n) {
            sleeps[cpu]++;
            halt();
        }
        token = n + 1;
        kick((cpu + 1) % cpus);
    }
}

static void test_kick(void)
{
    uint32_t sum = 0;

    run_on_all(pass_token);
    for (uint32_t cpu = 0; cpu < cpus; cpu++) {
        sum += sleeps[cpu];
    }
    report(token == KICKS, "%u kicks, %u sleeps", KICKS, sum);
}

/* ---- A queued spin lock that halts -------------------------------------------------------------- */

/*
 * As Linux's, in short: a word that the owner has; a queue of those who wait for it, of whom the first
 * one looks at the word and the others at their own nodes. Who has looked for a while says that he
 * halts, and halts; who would end his wait finds that, and kicks. One who comes when there is no queue
 * tries the word once: that is all that goes before one who stands in the queue.
 */
enum { FREE, TAKEN, TAKEN_AND_AWAITED };
enum { RUNS, HALTS };

static struct {
    LINE_ALIGNED volatile uint32_t word;
    volatile uint32_t tail; /* CPU + 1 of the last in the queue; 0: none */
    volatile uint32_t head; /* CPU that halts before the word */
} lock;

static struct {
    LINE_ALIGNED volatile uint32_t next; /* CPU + 1 */
    volatile uint32_t first, state;
    uint32_t halts, most_passed;
} nodes[CPUS_MOST];

/* Under the lock, and not atomic. */
static LINE_ALIGNED volatile uint32_t served, owner, owners, broken;

static void wait_first(uint32_t cpu)
{
    while (!nodes[cpu].first) {
        for (uint32_t turn = 0; turn < SPINS && !nodes[cpu].first; turn++) {
            dawdle();
        }
        exchange(&nodes[cpu].state, HALTS);
        if (!nodes[cpu].first) {
            nodes[cpu].halts++;
            halt();
        }
        exchange(&nodes[cpu].state, RUNS);
    }
}

static void wait_word(uint32_t cpu)
{
    for (;;) {
        for (uint32_t turn = 0; turn < SPINS; turn++) {
            if (lock.word == FREE && replace(&lock.word, FREE, TAKEN)) {
                return;
            }
            dawdle();
        }
        lock.head = cpu;
        if (exchange(&lock.word, TAKEN_AND_AWAITED) == FREE) {
            lock.word = TAKEN;
            return;
        }
        nodes[cpu].halts++;
        halt();
    }
}

static void make_next_first(uint32_t cpu)
{
    uint32_t next;

    if (!nodes[cpu].next && replace(&lock.tail, cpu + 1, 0)) {
        return;
    }
    while (!nodes[cpu].next) {
        dawdle();
    }
    next = nodes[cpu].next - 1;
    exchange(&nodes[next].first, 1);
    if (nodes[next].state == HALTS) {
        kick(next);
    }
}

static void lock_take(uint32_t cpu)
{
    uint32_t before, last;

    if (lock.tail == 0 && replace(&lock.word, FREE, TAKEN)) {
        return;
    }
    nodes[cpu].next = 0;
    nodes[cpu].first = 0;
    last = exchange(&lock.tail, cpu + 1);
    before = served;
    if (last) {
        nodes[last - 1].next = cpu + 1;
        wait_first(cpu);
    }
    wait_word(cpu);
    make_next_first(cpu);
    if (served - before > nodes[cpu].most_passed) {
        nodes[cpu].most_passed = served - before;
    }
}

static void lock_drop(void)
{
    if (exchange(&lock.word, FREE) == TAKEN_AND_AWAITED) {
        kick(lock.head);
    }
}

/* Every fourth owner sleeps a while, and the others wait. */
static void use_lock(uint32_t cpu)
{
    meet(cpus);
    interrupts_off();
    for (uint32_t n = 0; n < LOCKS / cpus; n++) {
        lock_take(cpu);
        broken += owners != 0;
        owners++;
        owner = cpu;
        served++;
        if (served % 4 == 0) {
            nap();
        } else {
            dawdle();
        }
        broken += owner != cpu || owners != 1;
        owners--;
        lock_drop();
    }
}

/* Nobody is passed by more than the queue before him, the owner, and one try of each CPU. */
static void test_qspin(void)
{
    uint32_t halts = 0, passed = 0, all = LOCKS / cpus * cpus;

    run_on_all(use_lock);
    for (uint32_t cpu = 0; cpu < cpus; cpu++) {
        halts += nodes[cpu].halts;
        passed = nodes[cpu].most_passed > passed ? nodes[cpu].most_passed : passed;
    }
    report(broken == 0 && served == all && passed <= 2 * cpus && halts > 0,
           "%u taken, %u halts, %u passed at most, %u broken", served, halts, passed, broken);
}

/* ---- Interrupts to many -------------------------------------------------------------------------- */

static volatile uint32_t interrupts[CPUS_MOST], acknowledged;

__attribute__((interrupt)) static void handle_ipi(struct interrupt_frame *frame)
{
    (void)frame;
    interrupts[this_cpu()]++;
    locked_inc(&acknowledged);
    interrupt_done();
}

/* The more CPUs, the fewer rounds, in each of which all sleep and wake. */
static uint32_t ipi_rounds(void)
{
    return IPIS / cpus;
}

/* In turn to all others, who sleep. */
static void send_ipis(uint32_t cpu)
{
    interrupts_on();
    for (uint32_t n = 0; n < ipi_rounds(); n++) {
        uint64_t others = ((UINT64_C(1) << cpus) - 1) & ~(UINT64_C(1) << cpu);

        if (n % cpus == cpu) {
            wait_for(&acknowledged, n * (cpus - 1));
            /* In the first word, or in the second; counted from 0. */
            broken += n & 1 ? hypercall(CALL_IPI, others, 0, 0, VECTOR_IPI) != cpus - 1
                            : hypercall(CALL_IPI, others >> 1, 0, 1, VECTOR_IPI) !=
                                  cpus - 1 - (others & 1);
            if (!(n & 1) && (others & 1)) {
                broken += hypercall(CALL_IPI, 0, 0, 0, VECTOR_IPI) != 0;
                broken += hypercall(CALL_IPI, 1, 0, 0, VECTOR_IPI) != 1;
            }
        }
    }
    wait_for(&acknowledged, ipi_rounds() * (cpus - 1));
    interrupts_off();
}

static void test_ipi(void)
{
    machine_handle(VECTOR_IPI, handle_ipi);
    run_on_all(send_ipis);
    report(broken == 0 && acknowledged == ipi_rounds() * (cpus - 1), "%u taken", acknowledged);
}

/* ---- Ends of interrupt in memory ----------------------------------------------------------------- */

static struct {
    LINE_ALIGNED volatile uint32_t word;
    volatile uint32_t taken;
    uint32_t in_memory;
} ends[CPUS_MOST];

extern uint8_t stacks[];

/* Without a look at the local APIC, which would settle how the interrupt stands. */
static uint32_t cpu_of_stack(void)
{
    return (uint32_t)(((uintptr_t)__builtin_frame_address(0) - (uintptr_t)stacks) / STACK_BYTES);
}

__attribute__((interrupt)) static void handle_ended(struct interrupt_frame *frame)
{
    uint32_t cpu = cpu_of_stack();
    bool offered;

    (void)frame;
    ends[cpu].taken++;
    __asm__ volatile("btrl $0, %1" : "=@ccc"(offered), "+m"(ends[cpu].word) : : "memory");
    if (offered) {
        ends[cpu].in_memory++;
    } else {
        interrupt_done();
    }
}

static void await_taken(uint32_t cpu, uint32_t count)
{
    interrupts_off();
    while (ends[cpu].taken < count) {
        __asm__ volatile("sti\n hlt\n cli" : : : "memory");
    }
}

/* A token that goes round by interrupts. Before one is sent, or after, the APIC may be looked at. */
static void pass_interrupts(uint32_t cpu)
{
    write_msr(MSR_EOI, (uintptr_t)&ends[cpu].word | ON);
    meet(cpus);
    for (uint32_t n = 1; n <= EOIS / cpus; n++) {
        if (cpu != 0 || n != 1) {
            await_taken(cpu, cpu == 0 ? n - 1 : n);
        }
        interrupt_cpu(VECTOR_IPI, (cpu + 1) % cpus);
    }
    if (cpu == 0) {
        await_taken(0, EOIS / cpus);
    }
    write_msr(MSR_EOI, 0);
    interrupts_off();
}

static void test_eoi(void)
{
    uint32_t in_memory = 0;
    bool good = true;

    machine_handle(VECTOR_IPI, handle_ended);
    run_on_all(pass_interrupts);
    for (uint32_t cpu = 0; cpu < cpus; cpu++) {
        good &= ends[cpu].taken == EOIS / cpus;
        in_memory += ends[cpu].in_memory;
    }
    report(good && in_memory > 0, "%u each, %u of all ended in memory", EOIS / cpus, in_memory);
}

/* ---- The clock ----------------------------------------------------------------------------------- */

__extension__ typedef unsigned __int128 wide;

static struct clock_area {
    _Alignas(32) volatile uint32_t version;
    volatile uint32_t reserved;
    volatile uint64_t tsc, time;
    volatile uint32_t mul;
    volatile int8_t shift;
    volatile uint8_t flags;
    volatile uint8_t reserved2[2];
} clocks[CPUS_MOST];

static volatile uint64_t latest;

static uint64_t clock_now(const struct clock_area *area)
{
    uint32_t version;
    uint64_t ticks, time;

    do {
        version = area->version;
        ticks = read_tsc() - area->tsc;
        ticks = area->shift < 0 ? ticks >> -area->shift : ticks << area->shift;
        time = area->time + (uint64_t)((wide)ticks * area->mul >> 32);
    } while ((version & 1) || version != area->version);
    return time;
}

/* Whoever reads it later, on whatever CPU, reads a later time. */
static void read_clocks(uint32_t cpu)
{
    write_msr(MSR_CLOCK, (uintptr_t)&clocks[cpu] | ON);
    broken += clocks[cpu].version == 0 || !(clocks[cpu].flags & 1);
    for (uint32_t n = 0; n < CLOCKS / cpus; n++) {
        uint64_t now;

        lock_take(cpu);
        now = clock_now(&clocks[cpu]);
        broken += now < latest;
        latest = now;
        lock_drop();
    }
    write_msr(MSR_CLOCK, 0);
}

static void test_clock(void)
{
    run_on_all(read_clocks);
    report(broken == 0 && latest > 0, "%u ms", (uint32_t)(latest / 1000000));
}

/* ---- Steal time ---------------------------------------------------------------------------------- */

static struct steal_area {
    _Alignas(64) volatile uint64_t steal;
    volatile uint32_t version, flags;
    volatile uint8_t preempted;
} steals[CPUS_MOST];

static volatile uint32_t seen_preempted;

static uint64_t steal_now(const struct steal_area *area)
{
    uint32_t version;
    uint64_t steal;

    do {
        version = area->version;
        steal = area->steal;
    } while ((version & 1) || version != area->version);
    return steal;
}

/* Bursts of PAUSE, for which an engine leaves and another CPU runs. */
static void lose_cpu(void)
{
    for (uint32_t turn = 0; turn < PAUSES; turn++) {
        __asm__ volatile("pause");
    }
}

/* One never finds oneself preempted, and the others as they say; stolen time only grows. */
static void watch_steals(uint32_t cpu)
{
    uint64_t last[CPUS_MOST] = {0};

    write_msr(MSR_STEAL, (uintptr_t)&steals[cpu] | ON);
    broken += steals[cpu].version == 0;
    for (uint32_t n = 0; n < STEALS; n++) {
        for (uint32_t other = 0; other < cpus; other++) {
            uint64_t steal = steal_now(&steals[other]);
            uint8_t preempted = steals[other].preempted;

            broken += steal < last[other] || preempted > 1;
            last[other] = steal;
            if (preempted) {
                locked_inc(&seen_preempted);
            }
        }
        broken += steals[cpu].preempted;
        /* A wait for somebody who has not got a CPU: it gives up its own. */
        lose_cpu();
    }
    write_msr(MSR_STEAL, 0);
    broken += steals[cpu].preempted;
}

static void test_steal(void)
{
    run_on_all(watch_steals);
    report(broken == 0 && (cpus <= 4 || seen_preempted > 0), "%u times seen preempted",
           seen_preempted);
}

/* What is given up is the guest's alone from that instruction on, while others take its CPU away. */
static void give_steals_up(uint32_t cpu)
{
    volatile uint8_t *bytes = (volatile uint8_t *)&steals[cpu];

    for (uint32_t n = 0; n < GIVEN_UP; n++) {
        write_msr(MSR_STEAL, (uintptr_t)&steals[cpu] | ON);
        lose_cpu();
        write_msr(MSR_STEAL, 0);
        for (uint32_t i = 0; i < sizeof(steals[cpu]); i++) {
            bytes[i] = (uint8_t)(n + i);
        }
        for (uint32_t turn = 0; turn < 2; turn++) {
            lose_cpu();
            for (uint32_t i = 0; i < sizeof(steals[cpu]); i++) {
                broken += bytes[i] != (uint8_t)(n + i);
            }
        }
    }
}

static void test_steal_given_up(void)
{
    run_on_all(give_steals_up);
    report(broken == 0, "%u bytes written", broken);
}

const struct litmus paravirt_tests[] = {
    {"pv-calls", test_calls},
    {"pv-kick", test_kick},
    {"pv-qspin", test_qspin},
    {"pv-ipi", test_ipi},
    {"pv-eoi", test_eoi},
    {"pv-clock", test_clock},
    {"pv-steal", test_steal},
    {"pv-steal-given-up", test_steal_given_up},
    {NULL, NULL},
};

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Locked instructions from all CPUs at once: nothing is lost, wherever the operand lies, also when
 * others work on a part of it. And what is built of them excludes: locks around plain counters.
 */
#include "litmus.h"
#include "machine.h"

#define COUNT       2000
#define COUNT_SPLIT 150
#define HALVES      50
#define COUNT_LOCK  400

/* Two pages; the middle is where a page ends. */
static uint8_t pages[8192] __attribute__((aligned(4096)));
#define PAGE_END (&pages[4096])

static inline void add_32(volatile void *place)
{
    __asm__ volatile("lock incl (%0)" : : "r"(place) : "memory");
}

static inline void add_64(volatile void *place)
{
    __asm__ volatile("lock addq $1, (%0)" : : "r"(place) : "memory");
}

static inline uint32_t xadd_32(volatile void *place, uint32_t value)
{
    __asm__ volatile("lock xaddl %0, (%1)" : "+r"(value) : "r"(place) : "memory");
    return value;
}

static inline bool cmpxchg_32(volatile void *place, uint32_t expected, uint32_t value)
{
    bool good;

    __asm__ volatile("lock cmpxchgl %2, (%1)"
                     : "=@ccz"(good), "+r"(place)
                     : "r"(value), "a"(expected)
                     : "memory");
    return good;
}

static inline uint64_t load_64(const volatile void *place)
{
    return *(const volatile uint64_t *)place;
}

/* Add @low and @high to two quadwords in one. */
static void add_128(volatile uint64_t *place, uint64_t low, uint64_t high)
{
    uint64_t a = place[0], d = place[1];
    bool good;

    do {
        __asm__ volatile("lock cmpxchg16b (%3)"
                         : "=@ccz"(good), "+a"(a), "+d"(d)
                         : "r"(place), "b"(a + low), "c"(d + high)
                         : "memory");
    } while (!good);
}

/* The same on two doublewords, anywhere. */
static void add_2x32(volatile void *place, uint32_t low, uint32_t high)
{
    uint32_t a = 0, d = 0;
    bool good;

    do {
        __asm__ volatile("lock cmpxchg8b (%3)"
                         : "=@ccz"(good), "+a"(a), "+d"(d)
                         : "r"(place), "b"(a + low), "c"(d + high)
                         : "memory");
    } while (!good);
}

/* ---- Counts ------------------------------------------------------------------------------------- */

static LINE_ALIGNED volatile uint32_t word[16];
static LINE_ALIGNED volatile uint64_t pair[2];

static void count_plain(uint32_t cpu)
{
    (void)cpu;
    for (uint32_t n = 0; n < COUNT; n++) {
        uint32_t old;

        add_32(&word[0]);
        xadd_32(&word[1], 3);
        do {
            old = word[2];
        } while (!cmpxchg_32(&word[2], old, old + 1));
        add_128(pair, 1, 2);
        add_2x32(&word[4], 1, 2);
        __asm__ volatile("lock btcl %1, %0" : "+m"(word[8]) : "r"(cpu) : "memory");
        __asm__ volatile("lock negl %0" : "+m"(word[9 + cpu]) : : "memory");
    }
}

static void test_plain(void)
{
    uint32_t all = cpus * COUNT;

    run_on_all(count_plain);
    report(word[0] == all && word[1] == 3 * all && word[2] == all && pair[0] == all &&
               pair[1] == 2 * all && word[4] == all && word[5] == 2 * all && word[8] == 0,
           "%u of %u", word[0], all);
}

/* HALVES times in one straight line: nowhere in it does an engine look at its doorbell. */
static void add_halves(void)
{
    __asm__ volatile(".rept 50\n lock incl (%0)\n .endr" : : "r"(PAGE_END) : "memory");
}

/* Across lines and pages: the whole by some, many times the half that lies in one line by others. */
static void count_split(uint32_t cpu)
{
    for (uint32_t n = 0; n < COUNT_SPLIT; n++) {
        add_64(&pages[60]);
        add_2x32(PAGE_END - 64 - 4, 1, 2);
        if (cpu & 1) {
            add_halves();
        } else {
            add_64(PAGE_END - 4);
        }
    }
}

static void test_split(void)
{
    uint32_t even = (cpus + 1) / 2, odd = cpus / 2;
    uint64_t across, eights;

    run_on_all(count_split);
    across = load_64(PAGE_END - 4);
    eights = load_64(PAGE_END - 64 - 4);
    report(load_64(&pages[60]) == (uint64_t)cpus * COUNT_SPLIT &&
               across ==
                   ((uint64_t)odd * HALVES * COUNT_SPLIT << 32) + (uint64_t)even * COUNT_SPLIT &&
               eights == (uint64_t)cpus * COUNT_SPLIT * 0x200000001,
           "%u of %u, and %u of %u", (uint32_t)across, even * COUNT_SPLIT, (uint32_t)(across >> 32),
           odd * HALVES * COUNT_SPLIT);
}

/* A split locked operation against plain stores and loads: the two halves are never seen apart. */
static volatile uint32_t seen_apart;

static void watch_split(uint32_t cpu)
{
    for (uint32_t n = 0; n < COUNT_SPLIT; n++) {
        if (cpu == 0) {
            add_2x32(PAGE_END - 256 - 4, 1, 1);
        } else {
            uint64_t value = 0;

            /* A locked read of the whole. */
            __asm__ volatile("lock xaddq %0, (%1)"
                             : "+r"(value)
                             : "r"(PAGE_END - 256 - 4)
                             : "memory");
            seen_apart += (uint32_t)value != (uint32_t)(value >> 32);
        }
    }
}

static void test_split_whole(void)
{
    run_on_all(watch_split);
    report(seen_apart == 0 && load_64(PAGE_END - 256 - 4) == COUNT_SPLIT * 0x100000001,
           "%u seen apart", seen_apart);
}

/* ---- Locks -------------------------------------------------------------------------------------- */

static LINE_ALIGNED volatile uint32_t counter;
static LINE_ALIGNED volatile uint32_t lock_word;
static LINE_ALIGNED volatile uint32_t ticket_next, ticket_now;
static LINE_ALIGNED volatile uint32_t wants[2];
static LINE_ALIGNED volatile uint32_t turn;

static void critical(void)
{
    uint32_t value = counter;

    value++;
    counter = value;
}

static void spin_lock(uint32_t cpu)
{
    (void)cpu;
    for (uint32_t n = 0; n < COUNT_LOCK; n++) {
        for (uint32_t tries = 0;; tries++) {
            uint32_t busy = 1;

            __asm__ volatile("xchgl %0, %1" : "+r"(busy), "+m"(lock_word) : : "memory");
            if (!busy) {
                break;
            }
            wait_turn(tries);
        }
        critical();
        lock_word = 0;
    }
}

static void bit_lock(uint32_t cpu)
{
    (void)cpu;
    for (uint32_t n = 0; n < COUNT_LOCK; n++) {
        for (uint32_t tries = 0;; tries++) {
            bool busy;

            __asm__ volatile("lock btsl $5, %1" : "=@ccc"(busy), "+m"(lock_word) : : "memory");
            if (!busy) {
                break;
            }
            wait_turn(tries);
        }
        critical();
        __asm__ volatile("lock andl $~32, %0" : "+m"(lock_word) : : "memory");
    }
}

static void ticket_lock(uint32_t cpu)
{
    (void)cpu;
    for (uint32_t n = 0; n < COUNT_LOCK / 4; n++) {
        uint32_t mine = xadd_32(&ticket_next, 1);

        wait_for(&ticket_now, mine);
        critical();
        ticket_now = mine + 1;
    }
}

/* Peterson's, of plain accesses and one fence. */
static void peterson_lock(uint32_t cpu)
{
    for (uint32_t n = 0; cpu < 2 && n < COUNT_LOCK; n++) {
        wants[cpu] = 1;
        turn = 1 - cpu;
        __asm__ volatile("mfence" : : : "memory");
        for (uint32_t tries = 0; wants[1 - cpu] && turn == 1 - cpu; tries++) {
            wait_turn(tries);
        }
        critical();
        wants[cpu] = 0;
    }
}

static void test_lock(void (*job)(uint32_t cpu), uint32_t expected)
{
    run_on_all(job);
    report(counter == expected, "%u of %u", counter, expected);
}

static void test_spin_lock(void)
{
    test_lock(spin_lock, cpus * COUNT_LOCK);
}

static void test_bit_lock(void)
{
    test_lock(bit_lock, cpus * COUNT_LOCK);
}

static void test_ticket_lock(void)
{
    test_lock(ticket_lock, cpus * (COUNT_LOCK / 4));
}

static void test_peterson_lock(void)
{
    test_lock(peterson_lock, 2 * COUNT_LOCK);
}

const struct litmus atomics_tests[] = {
    {"counts", test_plain},
    {"split", test_split},
    {"split-whole", test_split_whole},
    {"lock-xchg", test_spin_lock},
    {"lock-bts", test_bit_lock},
    {"lock-ticket", test_ticket_lock},
    {"lock-peterson", test_peterson_lock},
    {NULL, NULL},
};

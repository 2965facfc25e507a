/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Litmus shapes. Each is a few accesses by two to four threads to two places, many times, each time in
 * an instance of its own. An outcome is forbidden, or it is allowed and, where sequential consistency
 * would not have it, counted.
 *
 *     instance   x | y | what the threads read | how many have come
 *
 * Volatile accesses are what the guest's instructions do, in this order. All threads walk the instances;
 * at each they wait for one another a little, and then go on at slightly different moments. Source of the names: Alglave, Maranget and Tautschnig, "Herding Cats"; of what is forbidden:
 * SDM 3A 8.2.2, 8.2.3.
 */
#include "litmus.h"
#include "machine.h"

#define INSTANCES 1500
/* All are brought together again at every so many. */
#define MEETINGS  150
/* Turns to wait for the others at an instance, and the most to be late by. */
#define MEET_MOST 4
#define LATE_MOST 12

struct instance {
    LINE_ALIGNED volatile uint32_t x;
    LINE_ALIGNED volatile uint32_t y;
    LINE_ALIGNED volatile uint32_t r[CPUS_MOST];
    LINE_ALIGNED volatile uint32_t here;
    volatile uint32_t alone; /* threads that went on before all had come */
};

struct shape {
    const char *name;
    uint32_t threads;
    void (*thread[CPUS_MOST])(struct instance *i);
    bool (*forbidden)(const struct instance *i);
    bool (*relaxed)(const struct instance *i); /* or NULL */
};

static struct instance instances[INSTANCES];
static const struct shape *shape;

static inline void fence(void)
{
    __asm__ volatile("mfence" : : : "memory");
}

static bool never(const struct instance *i)
{
    (void)i;
    return false;
}

/* ---- Store buffering: both read what was before both stores ------------------------------------- */

static void sb_0(struct instance *i)
{
    i->x = 1;
    i->r[0] = i->y;
}

static void sb_1(struct instance *i)
{
    i->y = 1;
    i->r[1] = i->x;
}

static void sb_mfence_0(struct instance *i)
{
    i->x = 1;
    fence();
    i->r[0] = i->y;
}

static void sb_mfence_1(struct instance *i)
{
    i->y = 1;
    fence();
    i->r[1] = i->x;
}

static inline void exchange(volatile uint32_t *place, uint32_t value)
{
    __asm__ volatile("xchgl %0, %1" : "+r"(value), "+m"(*place) : : "memory");
}

static void sb_xchg_0(struct instance *i)
{
    exchange(&i->x, 1);
    i->r[0] = i->y;
}

static void sb_xchg_1(struct instance *i)
{
    exchange(&i->y, 1);
    i->r[1] = i->x;
}

/* A locked instruction on something else is a barrier too (SDM 3A 8.2.2). */
static inline void locked_elsewhere(void)
{
    uint32_t own = 0;

    __asm__ volatile("lock addl $1, %0" : "+m"(own) : : "memory");
}

static void sb_locked_0(struct instance *i)
{
    i->x = 1;
    locked_elsewhere();
    i->r[0] = i->y;
}

static void sb_locked_1(struct instance *i)
{
    i->y = 1;
    locked_elsewhere();
    i->r[1] = i->x;
}

/* And so is a serialising one (SDM 3A 8.3). */
static void sb_cpuid_0(struct instance *i)
{
    i->x = 1;
    serialise();
    i->r[0] = i->y;
}

static void sb_cpuid_1(struct instance *i)
{
    i->y = 1;
    serialise();
    i->r[1] = i->x;
}

static bool sb(const struct instance *i)
{
    return i->r[0] == 0 && i->r[1] == 0;
}

/* ---- Message passing: the flag is seen, the message is not -------------------------------------- */

static void mp_0(struct instance *i)
{
    i->x = 1;
    i->y = 1;
}

static void mp_1(struct instance *i)
{
    i->r[0] = i->y;
    i->r[1] = i->x;
}

/* Stores of a string instruction come before those behind it (SDM 3A 8.2.4.3). */
static void mp_string_0(struct instance *i)
{
    volatile uint32_t *to = &i->x;
    uint64_t count = 8;

    __asm__ volatile("rep stosl" : "+D"(to), "+c"(count) : "a"(1) : "memory");
    i->y = 1;
}

/* Stores past the caches need a fence. */
static void mp_movnti_0(struct instance *i)
{
    __asm__ volatile("movnti %1, %0\n sfence" : "=m"(i->x) : "r"(1) : "memory");
    i->y = 1;
}

static bool mp(const struct instance *i)
{
    return i->r[0] == 1 && i->r[1] == 0;
}

/* ---- Load buffering, and the shapes with a final value ------------------------------------------ */

static void lb_0(struct instance *i)
{
    i->r[0] = i->x;
    i->y = 1;
}

static void lb_1(struct instance *i)
{
    i->r[1] = i->y;
    i->x = 1;
}

static bool lb(const struct instance *i)
{
    return i->r[0] == 1 && i->r[1] == 1;
}

static void w22_0(struct instance *i)
{
    i->x = 1;
    i->y = 2;
}

static void w22_1(struct instance *i)
{
    i->y = 1;
    i->x = 2;
}

static bool w22(const struct instance *i)
{
    return i->x == 1 && i->y == 1;
}

static void s_0(struct instance *i)
{
    i->x = 2;
    i->y = 1;
}

static void s_1(struct instance *i)
{
    i->r[0] = i->y;
    i->x = 1;
}

static bool s(const struct instance *i)
{
    return i->r[0] == 1 && i->x == 2;
}

static void r_mfence_1(struct instance *i)
{
    i->y = 2;
    fence();
    i->r[0] = i->x;
}

static bool r_mfence(const struct instance *i)
{
    return i->y == 2 && i->r[0] == 0;
}

/* ---- Coherence ---------------------------------------------------------------------------------- */

static void counts_0(struct instance *i)
{
    i->x = 1;
    i->x = 2;
    i->x = 3;
}

static void corr_1(struct instance *i)
{
    i->r[0] = i->x;
    i->r[1] = i->x;
    i->r[2] = i->x;
}

static bool corr(const struct instance *i)
{
    return i->r[0] > i->r[1] || i->r[1] > i->r[2] || i->x != 3;
}

/* Each sees the other's store behind its own. */
static void coww_0(struct instance *i)
{
    i->x = 1;
    i->r[0] = i->x;
}

static void coww_1(struct instance *i)
{
    i->x = 2;
    i->r[1] = i->x;
}

static bool coww(const struct instance *i)
{
    return (i->r[0] == 2 && i->r[1] == 1) || i->r[0] == 0 || i->r[1] == 0;
}

/* ---- Eight bytes in one, across no cache line (SDM 3A 8.1.1) ------------------------------------ */

static inline volatile uint64_t *odd_place(struct instance *i)
{
    return (volatile uint64_t *)((uintptr_t)&i->y + 3);
}

static void tear_0(struct instance *i)
{
    uint64_t ones = UINT64_MAX;

    __asm__ volatile("movq %1, %0" : "=m"(*odd_place(i)) : "r"(ones));
}

static void tear_1(struct instance *i)
{
    uint64_t value;

    __asm__ volatile("movq %1, %0" : "=r"(value) : "m"(*odd_place(i)));
    i->r[0] = (uint32_t)value;
    i->r[1] = (uint32_t)(value >> 32);
}

static bool tear(const struct instance *i)
{
    return i->r[0] != i->r[1] || (i->r[0] != 0 && i->r[0] != UINT32_MAX);
}

/* ---- Three and four threads --------------------------------------------------------------------- */

static void wrc_1(struct instance *i)
{
    i->r[0] = i->x;
    i->y = i->r[0];
}

static void wrc_2(struct instance *i)
{
    i->r[1] = i->y;
    i->r[2] = i->x;
}

static void store_x(struct instance *i)
{
    i->x = 1;
}

static bool wrc(const struct instance *i)
{
    return i->r[1] == 1 && i->r[2] == 0;
}

static void store_y(struct instance *i)
{
    i->y = 1;
}

static void iriw_2(struct instance *i)
{
    i->r[0] = i->x;
    i->r[1] = i->y;
}

static void iriw_3(struct instance *i)
{
    i->r[2] = i->y;
    i->r[3] = i->x;
}

static bool iriw(const struct instance *i)
{
    return i->r[0] == 1 && i->r[1] == 0 && i->r[2] == 1 && i->r[3] == 0;
}

static const struct shape shapes[] = {
    {"sb", 2, {sb_0, sb_1}, never, sb},
    {"sb-mfence", 2, {sb_mfence_0, sb_mfence_1}, sb, NULL},
    {"sb-half", 2, {sb_mfence_0, sb_1}, never, sb},
    {"sb-xchg", 2, {sb_xchg_0, sb_xchg_1}, sb, NULL},
    {"sb-locked", 2, {sb_locked_0, sb_locked_1}, sb, NULL},
    {"sb-cpuid", 2, {sb_cpuid_0, sb_cpuid_1}, sb, NULL},
    {"mp", 2, {mp_0, mp_1}, mp, NULL},
    {"mp-string", 2, {mp_string_0, mp_1}, mp, NULL},
    {"mp-movnti", 2, {mp_movnti_0, mp_1}, mp, NULL},
    {"lb", 2, {lb_0, lb_1}, lb, NULL},
    {"2+2w", 2, {w22_0, w22_1}, w22, NULL},
    {"s", 2, {s_0, s_1}, s, NULL},
    {"r-mfence", 2, {mp_0, r_mfence_1}, r_mfence, NULL},
    {"corr", 2, {counts_0, corr_1}, corr, NULL},
    {"coww", 2, {coww_0, coww_1}, coww, NULL},
    {"tear", 2, {tear_0, tear_1}, tear, NULL},
    {"wrc", 3, {store_x, wrc_1, wrc_2}, wrc, NULL},
    {"iriw", 4, {store_x, store_y, iriw_2, iriw_3}, iriw, NULL},
};

/* ---- Running ------------------------------------------------------------------------------------ */

static void walk(uint32_t cpu)
{
    uint32_t thread = cpus - 1 - cpu;

    if (thread >= shape->threads) {
        return;
    }
    for (uint32_t n = 0; n < INSTANCES; n++) {
        struct instance *i = &instances[n];

        if (n % MEETINGS == 0) {
            meet(shape->threads);
        }
        /* With both places in all caches, loads are quick and stores take their time. */
        (void)i->x;
        (void)i->y;
        locked_inc(&i->here);
        for (uint32_t turn = 0; i->here < shape->threads; turn++) {
            if (turn == MEET_MOST) {
                locked_inc(&i->alone);
                break;
            }
            dawdle();
        }
        for (volatile uint32_t late = random_below(cpu, LATE_MOST); late > 0; late--) {
        }
        shape->thread[thread](i);
    }
}

static void run(const struct shape *which)
{
    uint32_t forbidden = 0, relaxed = 0, met = 0;

    shape = which;
    run_on_all(walk);
    for (uint32_t n = 0; n < INSTANCES; n++) {
        met += instances[n].alone == 0;
        forbidden += which->forbidden(&instances[n]);
        relaxed += which->relaxed && which->relaxed(&instances[n]);
    }
    if (which->relaxed) {
        report(forbidden == 0, "%u of %u, allowed; %u met", relaxed, INSTANCES, met);
    }
    report(forbidden == 0, "%u of %u, forbidden; %u met", forbidden, INSTANCES, met);
}

void run_shape(const char *name)
{
    for (size_t n = 0; n < ARRAY_LEN(shapes); n++) {
        if (same(shapes[n].name, name) && shapes[n].threads <= cpus) {
            run(&shapes[n]);
        }
    }
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Payloads against memory: writing all of it, code that rewrites itself, page tables, strings. */
#include "machine.h"

/* All of memory becomes "jmp $": what is below the image, then the rest from its end down, so that
 * the writer's own code is last. */
static void run_write_all(void)
{
    __asm__ volatile("cli\n"
                     "xor %%edi, %%edi\n"
                     "1: movl $0xfeebfeeb, (%%edi)\n"
                     "add $4, %%edi\n"
                     "cmp $0xa0000, %%edi\n"
                     "jb 1b\n"
                     /* So that the jump's place is one of the words. */
                     ".balign 4\n"
                     "2: sub $4, %%ecx\n"
                     "nop\n nop\n nop\n"
                     "movl $0xfeebfeeb, (%%ecx)\n"
                     "jmp 2b"
                     :
                     : "c"(memory_bytes)
                     : "edi", "memory");
}

/* With paging, by one string instruction from the image's end on: the tables that translate it, at
 * the end of memory, go as well, and with them the machine. */
static void run_write_tables(void)
{
    uint32_t top = map_identity(memory_bytes - 0x10000, false);

    interrupts_off();
    __asm__ volatile("mov %0, %%cr3\n"
                     "mov %%cr4, %%eax\n or $0x20, %%eax\n mov %%eax, %%cr4\n"
                     "mov %%cr0, %%eax\n or $0x80000000, %%eax\n mov %%eax, %%cr0\n"
                     "mov $0xfeebfeeb, %%eax\n cld\n rep stosl\n"
                     "1: jmp 1b"
                     :
                     : "r"(top), "c"((memory_bytes - ARENA) / 4), "D"(ARENA)
                     : "eax", "memory");
}

/* For ever over all memory but this image, random words. */
static void scribble(uint32_t cpu)
{
    (void)cpu;
    for (;;) {
        uint32_t address = random_below(memory_bytes);

        if (address < 0x100000 ? address >= 0xa0000 : address >= ARENA) {
            *(volatile uint32_t *)address = random_next();
        }
    }
}

static void run_scribble_all(void)
{
    start_cpus(scribble);
    scribble(0);
}

/* ---- Code that changes ------------------------------------------------------------------------- */

/* As many blocks in a page as it has bytes, and then a store to it. */
static void run_code_full(void)
{
    uint8_t *page = (uint8_t *)ARENA;

    interrupts_off();
    for (;;) {
        memset(page, 0xc3, 4096);
        for (uint32_t i = 0; i < 4096; i++) {
            ((void (*)(void))(page + i))();
        }
        page[random_below(4096)] = 0xc3;
    }
}

/* Each round changes the immediate of the instruction that runs next. */
static void run_self_modify(void)
{
    __asm__ volatile("cli\n"
                     "1: incl 2f + 1\n"
                     "2: mov $0, %%eax\n"
                     "cmp %%eax, 2b + 1\n"
                     "je 1b\n"
                     "mov $0x2d, %%al\n out %%eax, $0xf4" /* 45: stale code was run */
                     :
                     :
                     : "eax", "memory");
}

/* Code writes itself forward, 16 bytes a step, through the arena and around. */
static void run_creep(void)
{
    static const uint8_t step[] = {
        0x89, 0xd6,                   /* mov esi, edx   its start */
        0x8d, 0x7a, 0x20,             /* lea edi, [edx + 32] */
        0x89, 0xfa,                   /* mov edx, edi */
        0xb9, 0x08, 0x00, 0x00, 0x00, /* mov ecx, 8 */
        0xf3, 0xa5,                   /* rep movsd */
        0xff, 0xe2,                   /* jmp edx */
    };

    traps_to(0, return_stub);
    for (;;) {
        memcpy((void *)ARENA, step, sizeof(step));
        memset((void *)(ARENA + ARENA_BYTES), 0xc3, 64);
        /* The copier overwrites the RET behind the arena and goes on to the end of memory. */
        __asm__ volatile("cld\n call *%%edx" : : "d"(ARENA) : "ecx", "esi", "edi", "memory");
    }
}

#define SHARED_CODE (ARENA + 0x1000u)

/* Functions of one instruction and a RET, which others change meanwhile. */
static void run_shared(uint32_t cpu)
{
    volatile uint8_t *code = (volatile uint8_t *)SHARED_CODE;

    traps_to(cpu, return_stub);
    for (;;) {
        uint32_t at = random_below(64) * 64;

        if (random_below(4) == 0) {
            code[at] = 0xb8; /* mov eax, imm32 */
            code[at + 1] = (uint8_t)random_next();
            code[at + 5] = 0xc3;
        } else if (code[at + 5] == 0xc3 && code[at] == 0xb8) {
            __asm__ volatile("call *%0" : : "r"(code + at) : "eax", "memory");
        }
    }
}

static void run_modify_all(void)
{
    memset((void *)SHARED_CODE, 0xc3, 4096);
    start_cpus(run_shared);
    run_shared(0);
}

/* Atomics that cross pages which are code as well, from all CPUs. */
static void split_lock(uint32_t cpu)
{
    traps_to(cpu, return_stub);
    for (;;) {
        uint32_t address = ARENA + 0x1000 * (1 + random_below(4)) - random_below(8);

        __asm__ volatile("lock cmpxchg8b (%0)"
                         :
                         : "r"(address), "a"(random_next()), "d"(random_next()), "b"(1), "c"(2)
                         : "memory");
        __asm__ volatile("lock incl (%0)" : : "r"(address + 1) : "memory");
        *(volatile uint8_t *)(ARENA + 0x1800) = 0xc3;
        __asm__ volatile("call *%0" : : "r"(ARENA + 0x1800) : "memory");
    }
}

static void run_lock_all(void)
{
    start_cpus(split_lock);
    split_lock(0);
}

/* ---- Page tables ------------------------------------------------------------------------------- */

static void set_paging(uint32_t cr3, uint32_t cr4)
{
    __asm__ volatile("mov %0, %%cr3\n mov %1, %%cr4\n"
                     "mov %%cr0, %%eax\n or $0x80010000, %%eax\n mov %%eax, %%cr0"
                     :
                     : "r"(cr3), "r"(cr4)
                     : "eax", "memory");
}

/* A two-level table whose last entries are itself, at every depth, and random entries beside. */
static void page_round(void)
{
    uint32_t *table = (uint32_t *)TABLES;

    set_paging(TABLES, 0x10);
    table[1023] = TABLES | 7;
    for (uint32_t i = 0; i < 64; i++) {
        uint32_t entry = 8 + random_below(1015);

        table[entry] = random_below(2) ? (TABLES | (random_next() & 0xfff))
                                       : (random_value() | (random_next() & 0xfff));
        if (random_below(2)) {
            __asm__ volatile("invlpg (%0)" : : "r"(entry << 22) : "memory");
        }
        if (random_below(2)) {
            *(volatile uint32_t *)(entry << 22 | (random_next() & 0x3ffffc)) = random_next();
        } else {
            mmio_read(entry << 22 | (random_next() & 0x3fffff));
        }
    }
    set_paging(TABLES, 0x10);
}

static void run_page_loops(void)
{
    uint32_t *table = (uint32_t *)TABLES;

    memset(table, 0, 4096);
    for (uint32_t i = 0; i < 8; i++) {
        table[i] = i << 22 | 0x87;
    }
    table[LAPIC >> 22] = (LAPIC & 0xffc00000) | 0x87;
    resume_with(0, page_round);
}

/* Tables that are devices, holes and the end of memory. */
static void page_device_round(void)
{
    static const uint32_t places[] = {LAPIC,   IOAPIC,     HPET,       0xa0000,   0xfffff000,
                                      0xe0000, 0xc0000000, 0x80000000, 0xfffc0000};

    set_paging(places[random_below(sizeof(places) / sizeof(places[0]))],
               random_below(2) ? 0x10 : 0x30);
    /* The next fetch faults; so does the delivery: a triple fault, at once. */
    mmio_read(random_next());
}

static void run_page_devices(void)
{
    resume_with(0, page_device_round);
}

/* ---- Strings ----------------------------------------------------------------------------------- */

static void run_string_huge(void)
{
    traps_to(0, return_stub);
    interrupts_off();
    __asm__ volatile("mov $-1, %%ecx\n"
                     "mov %0, %%esi\n mov %0, %%edi\n cld\n"
                     "1: mov $-1, %%ecx\n rep lodsl\n"
                     "mov $-1, %%ecx\n xor %%eax, %%eax\n not %%eax\n std\n repne scasb\n"
                     "cld\n mov $-1, %%ecx\n repe cmpsw\n jmp 1b"
                     :
                     : "r"(ARENA)
                     : "eax", "ecx", "esi", "edi", "memory");
}

/* 4 GiB of stores into the hole between RAM and the devices, and into the devices. */
static void run_string_hole(void)
{
    interrupts_off();
    for (;;) {
        __asm__ volatile("cld\n rep stosb" : : "c"(0x30000000), "D"(0xc0000000), "a"(0) : "memory");
    }
}

static void run_string_input(void)
{
    for (;;) {
        __asm__ volatile("cld\n rep insb" : : "c"(0x0fffffff), "D"(ARENA), "d"(0x71) : "memory");
    }
}

/* Overlapping copies over all memory but the image. */
static void run_string_random(void)
{
    traps_to(0, return_stub);
    for (;;) {
        __asm__ volatile("cld\n rep movsb"
                         :
                         : "c"(random_below(ARENA_BYTES / 2)),
                           "S"(ARENA + random_below(ARENA_BYTES / 2)),
                           "D"(ARENA + random_below(ARENA_BYTES / 2))
                         : "memory");
    }
}

static void run_flush_storm(void)
{
    set_paging(map_identity(TABLES, false), 0x20);
    for (;;) {
        __asm__ volatile("wbinvd\n mov %%cr3, %%eax\n mov %%eax, %%cr3\n"
                         "mov %%cr4, %%eax\n xor $0x80, %%eax\n mov %%eax, %%cr4"
                         :
                         :
                         : "eax", "memory");
        mmio_read(random_below(memory_bytes));
    }
}

const struct payload memory_payloads[] = {
    {"write-all", run_write_all},       {"write-tables", run_write_tables},
    {"scribble-all", run_scribble_all}, {"code-full", run_code_full},
    {"self-modify", run_self_modify},   {"creep", run_creep},
    {"modify-all", run_modify_all},     {"lock-all", run_lock_all},
    {"page-loops", run_page_loops},     {"page-devices", run_page_devices},
    {"string-huge", run_string_huge},   {"string-hole", run_string_hole},
    {"string-input", run_string_input}, {"string-random", run_string_random},
    {"flush-storm", run_flush_storm},   {NULL, NULL},
};

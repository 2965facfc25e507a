/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tables, traps and processors of the payloads; picks the payload the command line names. */
#include "machine.h"

uint32_t memory_bytes;
uint64_t gdt[GDT_ENTRIES] __attribute__((aligned(8))) = {
    [CODE32 / 8] = 0x00cf9b000000ffff,
    [DATA32 / 8] = 0x00cf93000000ffff,
    [CODE16 / 8] = 0x00009b000000ffff,
    [CODE64 / 8] = 0x00af9b000000ffff,
};
struct table_register gdt_pointer = {sizeof(gdt) - 1, (uint32_t)gdt};
struct table_register real_idt_pointer = {0x3ff, 0};
uint8_t stacks[STACK_BYTES * (CPUS + 1)] __attribute__((aligned(16)));
uint64_t idts[CPUS * 512] __attribute__((aligned(16)));
uint32_t cpus_started;

static void (*rounds[CPUS])(void);
static void (*ap_function)(uint32_t cpu);
static uint32_t random_state[CPUS + 1];

void resume_stub_0(void);
void resume_stub_1(void);
void resume_stub_2(void);
void resume_stub_3(void);
void resume_long(void);
extern const uint8_t trampoline[], trampoline_end[], real_part[], real_part_end[];

void *memset(void *to, int value, size_t bytes)
{
    uint8_t *byte = to;

    for (size_t i = 0; i < bytes; i++) {
        byte[i] = (uint8_t)value;
    }
    return to;
}

void *memcpy(void *to, const void *from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        ((uint8_t *)to)[i] = ((const uint8_t *)from)[i];
    }
    return to;
}

/* ---- Random numbers: xorshift32, one state a stack --------------------------------------------- */

static uint32_t *own_state(void)
{
    uint32_t stack = ((uint32_t)__builtin_frame_address(0) - (uint32_t)stacks) / STACK_BYTES;

    return &random_state[stack < CPUS ? stack : CPUS];
}

void random_seed(uint32_t seed)
{
    for (uint32_t i = 0; i <= CPUS; i++) {
        random_state[i] = (seed + i) * 2654435761u | 1;
    }
}

uint32_t random_next(void)
{
    uint32_t *state = own_state();

    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

uint32_t random_below(uint32_t limit)
{
    return random_next() % limit;
}

uint32_t random_value(void)
{
    static const uint32_t edges[] = {0,          1,          0x7f,       0x80,       0xff,
                                     0xfff,      0x1000,     0xffff,     0x10000,    0x9fff8,
                                     0xa0000,    0xfffff,    0x7fffffff, 0x80000000, 0xfffffff8,
                                     0xffffffff, 0xfee00000, 0xfec00000, 0xfed00000, 0x100000};

    switch (random_below(8)) {
    case 0:
        return random_next();
    case 1:
        return edges[random_below(sizeof(edges) / sizeof(edges[0]))];
    case 2:
        return 1u << random_below(32);
    case 3:
        return random_below(256);
    case 4:
        return ARENA + random_below(ARENA_BYTES / 4096) * 4096 - random_below(16);
    default:
        return ARENA + random_below(ARENA_BYTES);
    }
}

/* ---- Traps ------------------------------------------------------------------------------------- */

void traps_to(uint32_t cpu, void (*handler)(void))
{
    const struct table_register table = {256 * 8 - 1, (uint32_t)&idts[cpu * 512]};
    uint32_t address = (uint32_t)handler;

    for (uint32_t i = 0; i < 256; i++) {
        idts[cpu * 512 + i] = (uint64_t)(address & 0xffff0000) << 32 | 0x8e0000000000 |
                              CODE32 << 16 | (address & 0xffff);
    }
    load_idt(&table);
}

void resume_with(uint32_t cpu, void (*round)(void))
{
    static void (*const stubs[CPUS])(void) = {resume_stub_0, resume_stub_1, resume_stub_2,
                                              resume_stub_3};

    rounds[cpu] = round;
    traps_to(cpu, stubs[cpu]);
    machine_resume(cpu);
}

void resume_long_with(void (*round)(void))
{
    const struct table_register table = {256 * 16 - 1, (uint32_t)idts};
    uint32_t address = (uint32_t)resume_long;

    rounds[0] = round;
    machine_enter_long(map_identity(TABLES, true));
    for (uint32_t i = 0; i < 256; i++) {
        idts[2 * i] = (uint64_t)(address & 0xffff0000) << 32 | 0x8e0000000000 | CODE64 << 16 |
                      (address & 0xffff);
        idts[2 * i + 1] = 0;
    }
    load_idt(&table);
    machine_resume(0);
}

void machine_resume(uint32_t cpu)
{
    mmio_write(LAPIC + 0xb0, 0);
    rounds[cpu]();
    for (;;) {
        __asm__ volatile("ud2");
    }
}

/* ---- Paging ------------------------------------------------------------------------------------ */

uint32_t map_identity(uint32_t tables, bool long_mode)
{
    uint64_t *level4 = (uint64_t *)tables, *level3 = level4 + 512, *level2 = level3 + 512;

    memset(level4, 0, 2 * 4096);
    level4[0] = (uint32_t)level3 | 7;
    for (uint32_t gib = 0; gib < 4; gib++) {
        /* PAE's four pointers have reserved bits where long mode has R/W and U/S. */
        level3[gib] = ((uint32_t)level2 + gib * 4096) | (long_mode ? 7 : 1);
    }
    for (uint32_t i = 0; i < 2048; i++) {
        level2[i] = (uint64_t)i << 21 | 0x87;
    }
    return long_mode ? tables : (uint32_t)level3;
}

/* ---- Processors -------------------------------------------------------------------------------- */

void send_ipi(uint32_t low, uint32_t target)
{
    mmio_write(LAPIC + 0x310, target << 24);
    mmio_write(LAPIC + 0x300, low);
}

void machine_ap_main(uint32_t cpu)
{
    mmio_write(LAPIC + 0xf0, 0x1ff);
    if (ap_function) {
        ap_function(cpu < CPUS ? cpu : CPUS - 1);
    }
    for (;;) {
        __asm__ volatile("cli; hlt");
    }
}

void start_cpus(void (*ap)(uint32_t cpu))
{
    ap_function = ap;
    mmio_write(LAPIC + 0xf0, 0x1ff);
    send_ipi(0xc4500, 0); /* INIT, all but self */
    send_ipi(0xc4600 | TRAMPOLINE >> 12, 0);
    for (uint32_t i = 0; i < 1000000 && *(volatile uint32_t *)&cpus_started < CPUS; i++) {
        __asm__ volatile("pause");
    }
}

void watchdog_start(void)
{
    const uint32_t divisor = 1193182 / 200;

    mmio_write(LAPIC + 0xf0, 0x1ff);
    mmio_write(IOAPIC, 0x10 + 2 * 2 + 1);
    mmio_write(IOAPIC + 0x10, 0xff000000);
    mmio_write(IOAPIC, 0x10 + 2 * 2);
    mmio_write(IOAPIC + 0x10, 4 << 8 | 2); /* edge, NMI, physical, everybody */
    out8(0x43, 0x34);
    out8(0x40, divisor & 0xff);
    out8(0x40, divisor >> 8);
}

/* ---- Start ------------------------------------------------------------------------------------- */

static void install_low_memory(void)
{
    memcpy((void *)TRAMPOLINE, trampoline, (size_t)(trampoline_end - trampoline));
    memcpy((void *)(TRAMPOLINE + 0x800), real_part, (size_t)(real_part_end - real_part));
    for (uint32_t *vector = 0, i = 0; i < 256; i++) {
        __asm__ volatile("movl %1, (%0)"
                         :
                         : "r"(vector + i), "r"(TRAMPOLINE << 12 | REAL_TRAP)
                         : "memory");
    }
}

/* The text after "@key=", up to a space. */
static const char *find_value(const char *line, const char *key)
{
    for (; *line; line++) {
        size_t i = 0;

        while (key[i] && line[i] == key[i]) {
            i++;
        }
        if (!key[i]) {
            return line + i;
        }
    }
    return "";
}

static bool same_word(const char *text, const char *word)
{
    while (*word && *text == *word) {
        text++;
        word++;
    }
    return !*word && (*text == ' ' || *text == '\0');
}

static void run_named(const struct payload *payloads, const char *name)
{
    for (; payloads->name; payloads++) {
        if (same_word(name, payloads->name)) {
            payloads->run();
        }
    }
}

void payload_main(uint32_t multiboot_info)
{
    const uint32_t *info = (const uint32_t *)multiboot_info;
    const char *line = (const char *)info[4];
    const char *name = find_value(line, "payload=");
    uint32_t seed = 0;

    for (const char *digit = find_value(line, "seed="); *digit >= '0' && *digit <= '9'; digit++) {
        seed = seed * 10 + (uint32_t)(*digit - '0');
    }
    memory_bytes = (info[2] + 1024) * 1024;
    cpus_started = 1;
    random_seed(seed);
    install_low_memory();
    out8(0x3f8, '!'); /* who waits for us to run knows now */
    run_named(storm_payloads, name);
    run_named(memory_payloads, name);
    run_named(garbage_payloads, name);
    run_named(paravirt_payloads, name);
    /* Unknown, or over: a status no payload ends with. */
    out32(0xf4, 15);
}

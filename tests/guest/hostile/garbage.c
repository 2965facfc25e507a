/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Payloads that run what no compiler would write: random instructions in each mode, random control
 * registers, MSRs, descriptors. Every trap, and every 5 ms an NMI, starts the next round.
 */
#include "machine.h"

static uint32_t put_prefixes(uint8_t *code)
{
    static const uint8_t prefixes[] = {0x66, 0x67, 0xf0, 0xf2, 0xf3, 0x2e, 0x36,
                                       0x3e, 0x26, 0x64, 0x65, 0x48, 0x4c, 0x41};
    uint32_t count = 0;

    while (count < 4 && random_below(4) == 0) {
        code[count++] = prefixes[random_below(sizeof(prefixes))];
    }
    return count;
}

/* One instruction that has a chance: prefixes, a map, an opcode, ModRM, the rest random. */
static uint32_t put_instruction(uint8_t *code)
{
    uint32_t at = put_prefixes(code);

    switch (random_below(8)) {
    case 0:
    case 1:
    case 2:
        code[at++] = 0x0f;
        break;
    case 3:
        code[at++] = 0x0f;
        code[at++] = random_below(2) ? 0x38 : 0x3a;
        break;
    case 4:
        code[at++] = 0xc4;
        code[at++] = (uint8_t)(0xe0 | (1 + random_below(3)));
        code[at++] = (uint8_t)random_next();
        break;
    default:
        break;
    }
    code[at++] = (uint8_t)random_next();
    code[at++] = (uint8_t)random_next();
    for (uint32_t i = random_below(6); i > 0; i--) {
        code[at++] = random_below(3) ? (uint8_t)random_below(16) : (uint8_t)random_next();
    }
    return at;
}

static uint32_t fill_code(uint32_t target)
{
    uint8_t *code = (uint8_t *)target;
    bool any = random_below(3) == 0;

    for (uint32_t at = 0; at < 128;) {
        if (any) {
            code[at++] = (uint8_t)random_next();
        } else {
            at += put_instruction(code + at);
        }
    }
    /* HLT with interrupts off would be the end. */
    for (uint32_t at = 0; at < 160; at++) {
        code[at] = code[at] == 0xf4 ? 0x90 : code[at];
    }
    return target;
}

/* What a round needs that the last one may have spoilt. */
static void begin_round(void)
{
    static uint32_t rounds;

    if (rounds++ % 64 == 0) {
        watchdog_start();
    }
}

static uint32_t random_flags(void)
{
    /* Not the trap flag each time: one instruction a round would be all. */
    return (random_next() & 0x247ed5) | 2 | (random_below(16) ? 0 : 0x100);
}

/* ---- 32-bit protected mode --------------------------------------------------------------------- */

static void restore_control(void)
{
    __asm__ volatile("mov %0, %%cr0\n mov %1, %%dr7" : : "r"(0x33), "r"(0x400));
}

static void protected_round(void)
{
    uint32_t registers[8];

    begin_round();
    restore_control();
    for (uint32_t i = 0; i < 8; i++) {
        registers[i] = random_value();
    }
    machine_jump(registers, random_flags(),
                 fill_code(ARENA + random_below(ARENA_BYTES / 64 - 4) * 64));
}

static void enable_vectors(void)
{
    __asm__ volatile("mov %0, %%cr4\n"
                     "xor %%ecx, %%ecx\n xor %%edx, %%edx\n mov $7, %%eax\n xsetbv"
                     :
                     : "r"(3 << 9 | 1 << 18)
                     : "eax", "ecx", "edx");
}

static void run_garbage(void)
{
    enable_vectors();
    resume_with(0, protected_round);
}

static void garbage_ap(uint32_t cpu)
{
    enable_vectors();
    resume_with(cpu, protected_round);
}

static void run_garbage_all(void)
{
    start_cpus(garbage_ap);
    garbage_ap(0);
}

static void paged_round(void)
{
    uint32_t top = map_identity(TABLES, false);

    restore_control();
    __asm__ volatile("mov %0, %%cr3\n mov %%cr4, %%eax\n or $0xb0, %%eax\n mov %%eax, %%cr4\n"
                     "mov %1, %%cr0"
                     :
                     : "r"(top), "r"(0x80000033 | (random_below(2) ? 0x10000 : 0))
                     : "eax", "memory");
    protected_round();
}

static void run_garbage_paged(void)
{
    enable_vectors();
    resume_with(0, paged_round);
}

/* ---- Long mode --------------------------------------------------------------------------------- */

static void long_round(void)
{
    uint64_t registers[18];

    begin_round();
    for (uint32_t i = 0; i < 16; i++) {
        registers[i] = random_value();
        if (random_below(8) == 0) {
            registers[i] |= (uint64_t)random_next() << 32;
        }
    }
    registers[16] = random_flags();
    registers[17] = fill_code(ARENA + random_below(ARENA_BYTES / 64 - 4) * 64);
    machine_jump_long(registers);
}

static void run_garbage_long(void)
{
    enable_vectors();
    resume_long_with(long_round);
}

/* ---- Real mode --------------------------------------------------------------------------------- */

#define REAL_CODE 0x20000u

static void real_round(void)
{
    uint32_t registers[8];

    begin_round();
    for (uint32_t i = 0; i < 8; i++) {
        registers[i] = random_value();
        ((volatile uint32_t *)REAL_REGISTERS)[i] = registers[i];
    }
    fill_code(REAL_CODE);
    machine_jump_real(registers, random_flags(), REAL_CODE >> 4);
}

static void run_garbage_real(void)
{
    resume_with(0, real_round);
}

/* ---- Registers and descriptors ----------------------------------------------------------------- */

static void msr_round(void)
{
    static const uint32_t ranges[] = {
        0x0,   0x10,  0x1b,  0x79,  0x174, 0x1a0,      0x1d9,      0x200, 0x250,      0x26f,
        0x277, 0x2ff, 0x400, 0x6e0, 0x800, 0xc0000080, 0xc0000100, 0xda0, 0x4b564d00, 0x40000000};
    uint32_t low, high;

    for (;;) {
        uint32_t msr =
            random_below(8) ? ranges[random_below(20)] + random_below(16) : random_next();
        uint64_t value = (uint64_t)random_value() << 32 | random_value();

        __asm__ volatile("rdmsr" : "=a"(low), "=d"(high) : "c"(msr));
        /* Not INIT or SIPI by the x2APIC's command: those end the round for good. */
        if (msr != 0x830) {
            write_msr(msr, random_below(2) ? value
                                           : ((uint64_t)high << 32 | low) ^ 1u << random_below(32));
        }
    }
}

static void run_msrs(void)
{
    resume_with(0, msr_round);
}

static void control_round(void)
{
    uint32_t value = random_below(2) ? random_value() : 1u << random_below(32);

    restore_control();
    __asm__ volatile("mov %0, %%cr3" : : "r"(map_identity(TABLES, false)) : "memory");
    switch (random_below(6)) {
    case 0:
        __asm__ volatile("mov %0, %%cr4" : : "r"(value) : "memory");
        break;
    case 1:
        __asm__ volatile("mov %0, %%cr0" : : "r"(value | 1) : "memory");
        break;
    case 2:
        __asm__ volatile("mov %0, %%dr7\n mov %1, %%dr0\n mov %1, %%dr6"
                         :
                         : "r"(value), "r"(random_value()));
        break;
    case 3:
        __asm__ volatile("xsetbv" : : "c"(random_below(3)), "a"(value), "d"(0));
        break;
    case 4:
        __asm__ volatile("mov %0, %%cr4\n mov %1, %%cr0"
                         :
                         : "r"(0x20 | value), "r"(0x80000033)
                         : "memory");
        break;
    default:
        __asm__ volatile("lmsw %w0\n clts\n smsw %w0" : "+r"(value) : : "memory");
        break;
    }
    mmio_read(random_value());
}

static void run_controls(void)
{
    resume_with(0, control_round);
}

/* Descriptors at random in the upper part of the table, and everything that loads one. */
static void descriptor_round(void)
{
    struct __attribute__((packed)) {
        uint32_t offset;
        uint16_t selector;
    } far;
    uint16_t selector;

    begin_round();
    for (uint32_t i = 8; i < GDT_ENTRIES; i++) {
        gdt[i] = (uint64_t)random_next() << 32 | random_value();
        if (random_below(2)) {
            gdt[i] |= 0x800000000000; /* present */
        }
    }
    selector =
        (uint16_t)(random_below(8) ? 64 + random_below(GDT_ENTRIES * 8 - 64) : random_next());
    far.offset = random_value();
    far.selector = selector;
    switch (random_below(10)) {
    case 0:
        __asm__ volatile("ljmp *%0" : : "m"(far) : "memory");
        break;
    case 1:
        __asm__ volatile("lcall *%0" : : "m"(far) : "memory");
        break;
    case 2:
        __asm__ volatile("mov %0, %%es\n mov %0, %%fs" : : "r"(selector));
        break;
    case 3:
        __asm__ volatile("lldt %0\n lar %0, %%eax\n lsl %0, %%eax" : : "r"(selector) : "eax");
        break;
    case 4:
        __asm__ volatile("ltr %0" : : "r"(selector) : "memory");
        break;
    case 5: /* a task switch back, or what it takes for one */
        __asm__ volatile("pushf\n orl $0x4000, (%%esp)\n popf\n iret" : : : "memory");
        break;
    case 6:
        __asm__ volatile("pushl %0\n pushl %1\n lret" : : "r"((uint32_t)selector), "r"(far.offset));
        break;
    case 7:
        __asm__ volatile("pushl %0\n pushl %2\n pushl %3\n pushl %0\n pushl %1\n iret"
                         :
                         : "r"((uint32_t)selector | 3), "r"(far.offset), "r"(random_value()),
                           "r"(random_flags()));
        break;
    case 8: /* virtual-8086 mode */
        __asm__ volatile("pushl $0\n pushl $0\n pushl $0\n pushl $0\n pushl $0\n pushl $0x1000\n"
                         "pushl %0\n pushl $0x2000\n pushl $0\n iret"
                         :
                         : "r"(random_flags() | 0x20000)
                         : "memory");
        break;
    default:
        __asm__ volatile("lss %0, %%esp\n push %%eax" : : "m"(far) : "memory");
        break;
    }
}

static void run_descriptors(void)
{
    fill_code(0x20000);
    resume_with(0, descriptor_round);
}

/* States of the floating-point and vector unit that nothing ever saved. */
static void state_round(void)
{
    uint32_t *area = (uint32_t *)(ARENA + random_below(64) * 64);

    restore_control();
    for (uint32_t i = 0; i < 256; i++) {
        area[i] = random_next();
    }
    area[6] &= random_below(4) ? 0xffff : 0xffffffff; /* MXCSR */
    if (random_below(2)) {
        memset(area + 128, 0, 64);
        area[128] = random_below(8);
    }
    switch (random_below(6)) {
    case 0:
        __asm__ volatile("fxrstor (%0)\n fxsave 1024(%0)" : : "r"(area) : "memory");
        break;
    case 1:
        __asm__ volatile("fldenv (%0)\n fwait\n fnstenv 1024(%0)" : : "r"(area) : "memory");
        break;
    case 2:
        __asm__ volatile("frstor (%0)\n fadd %%st(1)\n fnsave 1024(%0)" : : "r"(area) : "memory");
        break;
    case 3:
        __asm__ volatile("xrstor (%0)\n xsave 4096(%0)"
                         :
                         : "r"(area), "a"(random_below(8)), "d"(0)
                         : "memory");
        break;
    case 4:
        __asm__ volatile("ldmxcsr (%0)\n divps %%xmm0, %%xmm1" : : "r"(area) : "memory");
        break;
    default:
        __asm__ volatile("fldt (%0)\n fsqrt\n fbstp 1024(%0)\n fsin\n fistpll 1024(%0)"
                         :
                         : "r"(area)
                         : "memory");
        break;
    }
}

static void run_states(void)
{
    enable_vectors();
    resume_with(0, state_round);
}

const struct payload garbage_payloads[] = {
    {"garbage", run_garbage},
    {"garbage-all", run_garbage_all},
    {"garbage-paged", run_garbage_paged},
    {"garbage-long", run_garbage_long},
    {"garbage-real", run_garbage_real},
    {"msrs", run_msrs},
    {"controls", run_controls},
    {"descriptors", run_descriptors},
    {"states", run_states},
    {NULL, NULL},
};

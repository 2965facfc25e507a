/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What an operating system does between CPUs: it wakes them, takes translations from them, changes
 * their code, and starts them again.
 */
#include "litmus.h"
#include "machine.h"

#define WAKES      300
#define SHOOTDOWNS 200
#define PATCHES    120
#define STARTS     60
/* Turns of those who are interrupted, before they nap: until the next interrupt, mostly. */
#define TURNS      200
/* How long a CPU works after its start, if it lives. */
#define BUSY_TURNS 2000
#define FRAMES     8

static volatile uint32_t acknowledged, finished, bad;

static void wait_for_acknowledgements(void)
{
    wait_for(&acknowledged, cpus - 1);
}

/* ---- Wake-ups: an interrupt and HLT, none lost -------------------------------------------------- */

static volatile uint32_t woken[CPUS_MOST];

__attribute__((interrupt)) static void handle_wake(struct interrupt_frame *frame)
{
    (void)frame;
    woken[*(volatile uint32_t *)(uintptr_t)(LAPIC + 0x20) >> 24]++;
    interrupt_done();
}

/* Sleep until this CPU has been woken @count times. */
static void sleep_until(uint32_t cpu, uint32_t count)
{
    for (;;) {
        interrupts_off();
        if (woken[cpu] >= count) {
            interrupts_on();
            return;
        }
        __asm__ volatile("sti\n hlt" : : : "memory");
    }
}

/* A token that goes round. */
static void pass_wakes(uint32_t cpu)
{
    for (uint32_t n = 1; n <= WAKES / cpus; n++) {
        if (cpu != 0 || n != 1) {
            sleep_until(cpu, cpu == 0 ? n - 1 : n);
        }
        interrupt_cpu(VECTOR_WAKE, (cpu + 1) % cpus);
    }
    if (cpu == 0) {
        sleep_until(0, WAKES / cpus);
    }
    interrupts_off();
}

static void test_wakes(void)
{
    bool good = true;

    machine_handle(VECTOR_WAKE, handle_wake);
    run_on_all(pass_wakes);
    for (uint32_t cpu = 0; cpu < cpus; cpu++) {
        good &= woken[cpu] == WAKES / cpus;
    }
    report(good, "%u each", WAKES / cpus);
}

/* ---- Translations: after the acknowledgement nobody uses the old one ---------------------------- */

struct frame {
    volatile uint32_t number;          /* of the round it was mapped in */
    volatile uint32_t uses[CPUS_MOST]; /* counted through the mapping */
};

static uint8_t frames[FRAMES][4096] __attribute__((aligned(4096)));
static volatile uint32_t published;
static volatile bool by_page;

static struct frame *frame_of(uint32_t round)
{
    return (struct frame *)frames[round % FRAMES];
}

static void map_round(uint32_t round)
{
    uint64_t global = round & 2 ? PAGE_GLOBAL : 0;

    by_page = round % 4 != 1; /* else the one before is not global */
    window_table[0] = (uintptr_t)frame_of(round) | PAGE_PRESENT | PAGE_WRITABLE | global;
}

/* A global page does not go with CR3. */
static void forget_window(void)
{
    if (by_page) {
        forget_page(WINDOW);
    } else {
        forget_all();
    }
}

__attribute__((interrupt)) static void handle_flush(struct interrupt_frame *frame)
{
    (void)frame;
    forget_window();
    locked_inc(&acknowledged);
    interrupt_done();
}

static uint32_t uses_of(const struct frame *frame)
{
    uint32_t sum = 0;

    for (uint32_t cpu = 0; cpu < CPUS_MOST; cpu++) {
        sum += frame->uses[cpu];
    }
    return sum;
}

static void shoot(void)
{
    uint32_t old_uses = 0;

    for (uint32_t round = 1; round <= SHOOTDOWNS; round++) {
        struct frame *old = frame_of(round - 1);

        /* Nobody has written to the frame before the last one since it went. */
        bad += round > 1 && uses_of(frame_of(round - 2)) != old_uses;
        frame_of(round)->number = round;
        acknowledged = 0;
        map_round(round);
        forget_window();
        interrupt_others(VECTOR_FLUSH);
        wait_for_acknowledgements();
        old_uses = uses_of(old);
        published = round;
    }
    finished = 1;
}

static void use_window(uint32_t cpu)
{
    struct frame *window = (struct frame *)WINDOW;

    interrupts_on();
    for (uint32_t turn = 1; !finished; turn++) {
        uint32_t at_least = published;

        bad += window->number < at_least;
        window->uses[cpu]++;
        if (turn % TURNS == 0) {
            nap();
        }
    }
    interrupts_off();
}

static void shootdown(uint32_t cpu)
{
    if (cpu == 0) {
        shoot();
    } else {
        use_window(cpu);
    }
}

static void test_shootdown(void)
{
    bad = finished = 0;
    machine_handle(VECTOR_FLUSH, handle_flush);
    map_round(0);
    forget_page(WINDOW);
    run_on_all(shootdown);
    report(bad == 0, "%u stale in %u", bad, SHOOTDOWNS);
}

/* ---- Code changed by another CPU (SDM 3A 8.1.3) ------------------------------------------------- */

static uint8_t code_pages[8192] __attribute__((aligned(4096)));
/* mov eax, imm32; ret: the immediate lies across the pages. */
static volatile uint8_t *const code = &code_pages[4096 - 3];

#define BREAK        0xcc
#define OPCODE       0xb8
#define BREAKS_AWAKE 32

static uint32_t call_code(void)
{
    uint32_t value;

    __asm__ volatile("call *%1" : "=a"(value) : "r"(code) : "memory");
    return value;
}

/* Values of four equal bytes: a mixture shows. */
static void write_value(uint32_t round)
{
    for (uint32_t byte = 1; byte <= 4; byte++) {
        code[byte] = (uint8_t)round;
    }
}

static bool is_value(uint32_t value, uint32_t at_least)
{
    return value == (value & 0xff) * 0x01010101 && (value & 0xff) >= at_least;
}

static void first_code(void)
{
    bad = finished = published = 0;
    write_value(0);
    code[0] = OPCODE;
    code[5] = 0xc3;
}

static void call_until_finished(uint32_t cpu)
{
    (void)cpu;
    interrupts_on();
    for (uint32_t turn = 1; !finished; turn++) {
        uint32_t at_least = published;

        bad += !is_value(call_code(), at_least);
        if (turn % TURNS == 0) {
            nap();
        }
    }
    interrupts_off();
}

/* The writer keeps the others in an interrupt while it writes; IRET serialises them. */
static volatile uint32_t may_go;

__attribute__((interrupt)) static void handle_stop(struct interrupt_frame *frame)
{
    uint32_t round = published + 1;

    (void)frame;
    locked_inc(&acknowledged);
    wait_for(&may_go, round);
    interrupt_done(); /* until here the next one waits */
}

static void patch_stopped(uint32_t cpu)
{
    if (cpu != 0) {
        call_until_finished(cpu);
        return;
    }
    for (uint32_t round = 1; round <= PATCHES; round++) {
        acknowledged = 0;
        interrupt_others(VECTOR_SYNC);
        wait_for_acknowledgements();
        write_value(round);
        published = round;
        may_go = round;
    }
    finished = 1;
}

static void test_patch_stopped(void)
{
    may_go = 0;
    first_code();
    machine_handle(VECTOR_SYNC, handle_stop);
    run_on_all(patch_stopped);
    report(bad == 0, "%u wrong in %u", bad, PATCHES);
}

/* The writer says when it has written; the reader serialises and calls. No interrupt. */
static void patch_handshake(uint32_t cpu)
{
    for (uint32_t round = 1; round <= PATCHES; round++) {
        if (cpu == 0) {
            acknowledged = 0;
            write_value(round);
            published = round;
            wait_for_acknowledgements();
        } else {
            wait_for(&published, round);
            serialise();
            bad += call_code() != round * 0x01010101;
            locked_inc(&acknowledged);
        }
    }
}

static void test_patch_handshake(void)
{
    first_code();
    run_on_all(patch_handshake);
    report(bad == 0, "%u wrong in %u", bad, PATCHES);
}

static volatile uint32_t breaks;

/* Kernels' text_poke: a breakpoint first, then the rest, then the first byte, all CPUs serialised in
 * between. Nobody is stopped; who meets the breakpoint tries again. */
__attribute__((interrupt)) static void handle_break(struct interrupt_frame *frame)
{
    frame->rip--;
    breaks++;
    if (breaks % BREAKS_AWAKE == 0) {
        nap();
    }
}

__attribute__((interrupt)) static void handle_sync(struct interrupt_frame *frame)
{
    (void)frame;
    locked_inc(&acknowledged);
    interrupt_done();
}

static void serialise_others(void)
{
    acknowledged = 0;
    interrupt_others(VECTOR_SYNC);
    wait_for_acknowledgements();
}

static void patch_poked(uint32_t cpu)
{
    if (cpu != 0) {
        call_until_finished(cpu);
        return;
    }
    for (uint32_t round = 1; round <= PATCHES; round++) {
        code[0] = BREAK;
        serialise_others();
        write_value(round);
        serialise_others();
        code[0] = OPCODE;
        serialise_others();
        published = round;
    }
    finished = 1;
}

static void test_patch_poked(void)
{
    first_code();
    machine_handle(VECTOR_SYNC, handle_sync);
    machine_handle(VECTOR_BREAK, handle_break);
    run_on_all(patch_poked);
    report(bad == 0, "%u wrong in %u, %u breakpoints met", bad, PATCHES, breaks);
}

/* ---- INIT and start-up IPI, again and again ----------------------------------------------------- */

static LINE_ALIGNED volatile uint32_t work;
static volatile uint32_t halts;

/* What CPUs do when they are hit: compute, locked instructions across pages, sleep. */
static void be_restarted(uint32_t cpu)
{
    uint32_t busy = (starts[cpu] + cpu) % 3 * BUSY_TURNS;

    for (uint32_t turn = 0; turn < busy; turn++) {
        locked_inc(&work);
        if (starts[cpu] & 1) {
            locked_inc((volatile uint32_t *)&code_pages[4094]);
        }
    }
    locked_inc(&halts);
    for (;;) {
        __asm__ volatile("cli\n hlt");
    }
}

static void test_starts(void)
{
    uint32_t before[CPUS_MOST];
    uint32_t lost = 0;

    for (uint32_t cpu = 1; cpu < cpus; cpu++) {
        before[cpu] = starts[cpu];
    }
    start_role = be_restarted;
    for (uint32_t n = 0; n < STARTS; n++) {
        uint32_t cpu = 1 + n / 4 % (cpus - 1);
        uint32_t expected = starts[cpu] + 1;

        restart_cpu(cpu);
        wait_for(&starts[cpu], expected);
        lost += starts[cpu] != expected;
    }
    for (uint32_t cpu = 1; cpu < cpus; cpu++) {
        before[cpu] = starts[cpu] - before[cpu];
        lost += before[cpu] < STARTS / (cpus - 1) / 4 * 4;
    }
    report(lost == 0, "%u starts, %u of them long enough to sleep", STARTS, halts);
}

const struct litmus systems_tests[] = {
    {"wakes", test_wakes},
    {"shootdown", test_shootdown},
    {"patch-stopped", test_patch_stopped},
    {"patch-handshake", test_patch_handshake},
    {"patch-poked", test_patch_poked},
    {"starts", test_starts},
    {NULL, NULL},
};

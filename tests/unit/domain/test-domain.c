/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A domain's life: each way it ends, pause and resume, reset, what the control side may ask. */
#include "domain/domain.h"
#include "lib/tap.h"
#include "machine.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <string.h>

/* Code of 32-bit protected mode, flat, paging off. */
#define OUT_PORT_AL(port, value) 0x66, 0xba, (port)&0xff, (port) >> 8, 0xb0, (value), 0xee
#define SPIN                     0xeb, 0xfe
#define BYTES_4(value) \
    (value) & 0xff, (value) >> 8 & 0xff, (value) >> 16 & 0xff, (value) >> 24 & 0xff
#define STORE_4(address, value) 0xc7, 0x05, BYTES_4(address), BYTES_4(value)
#define CMP_4(address, value)   0x83, 0x3d, BYTES_4(address), (value)
#define MOV_ECX(value)          0xb9, BYTES_4(value)
#define DEC_ECX                 0x49
#define PAUSE                   0xf3, 0x90
#define JE_BACK(bytes)          0x74, 0xfe - (bytes)
#define JNE_BACK(bytes)         0x75, 0xfe - (bytes)
#define HALT_FOR_GOOD           0xfa, 0xf4, 0xeb, 0xfc /* cli; hlt; again */

static const uint8_t code_debug_exit[] = {OUT_PORT_AL(0xf4, 5), SPIN};
static const uint8_t code_reset[] = {OUT_PORT_AL(0xcf9, 6), SPIN};
static const uint8_t code_halt[] = {HALT_FOR_GOOD};
static const uint8_t code_triple[] = {0x0f, 0x0b};
static const uint8_t code_spin[] = {SPIN};
static const uint8_t code_console[] = {OUT_PORT_AL(0x3f8, 'o'), OUT_PORT_AL(0x3f8, 'k'),
                                       OUT_PORT_AL(0xf4, 0), SPIN};
/* mov dx, 0x604; mov ax, S5 with SLP_EN; out dx, ax */
static const uint8_t code_poweroff[] = {0x66, 0xba, 0x04, 0x06, 0x66, 0xb8,
                                        0x00, 0x34, 0x66, 0xef, SPIN};
/* inc dword [0x200000]; jmp back */
static const uint8_t code_count[] = {0xff, 0x05, 0x00, 0x00, 0x20, 0x00, 0xeb, 0xf8};

static void ends(const uint8_t *code, size_t bytes, enum hv_domain_end end, uint32_t value)
{
    struct hv_domain_status status;
    struct machine machine;

    TAP_OK(machine_make(&machine, 1));
    TAP_OK(machine_run(&machine, code, bytes, &status));
    TAP_EQ(status.state, HV_DOMAIN_STATE_SHUTDOWN);
    TAP_EQ(status.end, end);
    TAP_EQ(status.code, value);
    TAP_OK(status.reason[0] != '\0');
    machine_unmake(&machine);
}

static void test_ends(void)
{
    ends(code_debug_exit, sizeof(code_debug_exit), HV_DOMAIN_END_DEBUG_EXIT, 5);
    ends(code_reset, sizeof(code_reset), HV_DOMAIN_END_REBOOT, 0);
    ends(code_poweroff, sizeof(code_poweroff), HV_DOMAIN_END_POWEROFF, 0);
    ends(code_halt, sizeof(code_halt), HV_DOMAIN_END_HALTED, 0);
    ends(code_triple, sizeof(code_triple), HV_DOMAIN_END_TRIPLE_FAULT, 0);
}

/* With another vCPU that waits for its SIPI, a halt with interrupts off is still the end. */
static void test_halted_smp(void)
{
    struct hv_domain_status status;
    struct machine machine;

    TAP_OK(machine_make(&machine, 3));
    TAP_OK(machine_run(&machine, code_halt, sizeof(code_halt), &status));
    TAP_EQ(status.end, HV_DOMAIN_END_HALTED);
    machine_unmake(&machine);
}

static uint64_t stat(struct machine *machine, const char *name)
{
    static struct hv_stat stats[512];
    size_t count = hv_domain_get_stats(machine->domain, stats, HV_ARRAY_LEN(stats));

    for (size_t i = 0; i < count && i < HV_ARRAY_LEN(stats); i++) {
        if (strcmp(stats[i].name, name) == 0) {
            return stats[i].value;
        }
    }
    tap_fail(__FILE__, __LINE__, "there is no %s", name);
    return 0;
}

#define RELEASE 0x200000u /* the word that lets the first vCPU go on */
#define AP_CODE 0x10000u  /* the page its SIPI names */

/* To APIC 1: INIT, then SIPI for page 10h (SDM 3A 11.6.1). */
#define START_OTHER                                                       \
    STORE_4(0xfee00310u, 0x01000000u), STORE_4(0xfee00300u, 0x00004500u), \
        STORE_4(0xfee00300u, 0x00004610u)

static const uint8_t code_start_other[] = {CMP_4(RELEASE, 0), JE_BACK(7), START_OTHER,
                                           HALT_FOR_GOOD};
static const uint8_t code_other[] = {0xb0, 9, 0xe6, 0xf4, 0xeb, 0xfe}; /* out 0xf4, 9 */

/* Who halts for good right behind a SIPI leaves one that will hear it, though it has not yet: on
 * one worker it comes to it after us. */
static void test_halted_behind_sipi(void)
{
    struct hv_domain_status status;
    struct machine machine;
    uint32_t release = 1;

    TAP_OK(machine_make_on_one(&machine, 2));
    TAP_EQ(hv_guest_copy(machine.domain, (hv_gpa){AP_CODE}, (void *)(uintptr_t)code_other,
                         sizeof(code_other), HV_COPY_TO_GUEST),
           0);
    TAP_OK(machine_load(&machine, code_start_other, sizeof(code_start_other)));
    TAP_EQ(hv_domain_unpause(machine.domain), 0);
    while (hv_load_seq(&machine.domain->halted) != 2) {
        sched_yield();
    }
    TAP_EQ(hv_guest_copy(machine.domain, (hv_gpa){RELEASE}, &release, 4, HV_COPY_TO_GUEST), 0);
    TAP_EQ(hv_domain_wait_change(machine.domain, HV_DOMAIN_STATE_RUNNING, 10 * HV_NS_PER_S), 0);
    hv_domain_get_status(machine.domain, &status);
    TAP_EQ(status.end, HV_DOMAIN_END_DEBUG_EXIT);
    TAP_EQ(status.code, 9);
    machine_unmake(&machine);
}

/* 200 times sets a byte that the other clears, each spinning with PAUSE until it is its turn. */
static const uint8_t code_ping[] = {
    START_OTHER,        MOV_ECX(200), PAUSE,        CMP_4(0x8000, 0),     JNE_BACK(9),
    STORE_4(0x8000, 1), DEC_ECX,      JNE_BACK(22), OUT_PORT_AL(0xf4, 9), SPIN};
static const uint8_t code_pong[] = {
    0xf3, 0x90,                   /* pause */
    0x80, 0x3e, 0x00, 0x80, 0x01, /* cmpb $1,0x8000 */
    0x75, 0xf7,                   /* jne pause */
    0xc6, 0x06, 0x00, 0x80, 0x00, /* movb $0,0x8000 */
    0xeb, 0xf0,                   /* jmp pause */
};

/* On one worker, who spins gives way long before its slice is over. */
static void test_pause_loop(void)
{
    struct hv_domain_status status;
    struct machine machine;

    TAP_OK(machine_make_on_one(&machine, 2));
    TAP_EQ(hv_guest_copy(machine.domain, (hv_gpa){AP_CODE}, (void *)(uintptr_t)code_pong,
                         sizeof(code_pong), HV_COPY_TO_GUEST),
           0);
    TAP_OK(machine_run(&machine, code_ping, sizeof(code_ping), &status));
    TAP_EQ(status.code, 9);
    TAP_EQ(hv_domain_reset(machine.domain), 0);
    /* How many depends on how many PAUSEs a slice has time for: 200 in a release, half of that under
     * TSan on a busy host. What they are for shows in the instructions spent. */
    TAP_OK(stat(&machine, "engine.exits.pause_loop") >= 1);
    tap_note("%" PRIu64 " instructions", stat(&machine, "engine.instructions"));
    TAP_OK(stat(&machine, "engine.instructions") < 8000000);
    machine_unmake(&machine);
}

static void test_crash_report(void)
{
    struct hv_crash_report report;
    struct hv_domain_status status;
    struct machine machine;

    for (unsigned all = 0; all < 2; all++) {
        TAP_OK(machine_make_with(&machine, 1, all ? HV_DOMAIN_TRACE_BLOCKS : 0));
        TAP_OK(machine_run(&machine, code_triple, sizeof(code_triple), &status));
        TAP_EQ(hv_domain_get_crash(machine.domain, &report), 0);
        TAP_EQ(report.rip, MACHINE_CODE);
        TAP_EQ(report.code_bits, 32);
        TAP_OK(report.code_bytes >= 2 && report.code[0] == 0x0f && report.code[1] == 0x0b);
        TAP_OK(report.blocks >= 1);
        TAP_EQ(report.all_blocks, all);
        machine_unmake(&machine);
    }
}

static void test_console(void)
{
    struct hv_domain_status status;
    struct machine machine;

    TAP_OK(machine_make(&machine, 1));
    TAP_OK(machine_run(&machine, code_console, sizeof(code_console), &status));
    TAP_EQ(machine.console_bytes, 2);
    TAP_OK(memcmp(machine.console, "ok", 2) == 0);
    machine_unmake(&machine);
}

/* With the debug switch each access leaves the engine, and the port still sees each once. */
static void test_force_io_exit(void)
{
    struct hv_domain_status status;
    struct machine machine;

    TAP_OK(machine_make_with(&machine, 1, HV_DOMAIN_FORCE_IO_EXIT));
    TAP_OK(machine_run(&machine, code_console, sizeof(code_console), &status));
    TAP_EQ(status.end, HV_DOMAIN_END_DEBUG_EXIT);
    TAP_EQ(machine.console_bytes, 2);
    TAP_OK(memcmp(machine.console, "ok", 2) == 0);
    TAP_EQ(hv_domain_reset(machine.domain), 0); /* the vCPU is out, and has booked its exits */
    TAP_EQ(stat(&machine, "engine.exits.io"), 3);
    machine_unmake(&machine);
}

static uint32_t counted(struct machine *machine)
{
    uint32_t value = 0;

    return hv_guest_copy(machine->domain, (hv_gpa){0x200000}, &value, 4, HV_COPY_FROM_GUEST) == 0
               ? value
               : 0;
}

/* Paused means that nothing moves; running again, that it goes on where it was. */
static void test_pause(void)
{
    struct machine machine;
    uint32_t before;

    TAP_OK(machine_make(&machine, 1));
    TAP_OK(machine_load(&machine, code_count, sizeof(code_count)));
    TAP_EQ(hv_domain_unpause(machine.domain), 0);
    TAP_EQ(hv_domain_unpause(machine.domain), (uint64_t)-EBUSY);
    while (counted(&machine) == 0) {
    }
    TAP_EQ(hv_domain_pause(machine.domain), 0);
    TAP_EQ(hv_domain_pause(machine.domain), 0);
    before = counted(&machine);
    TAP_EQ(hv_domain_wait_change(machine.domain, HV_DOMAIN_STATE_PAUSED, HV_NS_PER_MS),
           (uint64_t)-ETIMEDOUT);
    TAP_EQ(counted(&machine), before);
    TAP_EQ(hv_domain_unpause(machine.domain), 0);
    while (counted(&machine) == before) {
    }
    machine_unmake(&machine);
}

/* A reset starts anew with the same memory, as often as one likes, from both states. */
static void test_reset(void)
{
    struct hv_domain_status status;
    struct machine machine;

    TAP_OK(machine_make(&machine, 2));
    for (unsigned i = 0; i < 3; i++) {
        TAP_OK(machine_run(&machine, code_reset, sizeof(code_reset), &status));
        TAP_EQ(status.end, HV_DOMAIN_END_REBOOT);
        TAP_EQ(hv_domain_unpause(machine.domain), (uint64_t)-EBUSY);
        TAP_EQ(hv_domain_reset(machine.domain), 0);
    }
    TAP_EQ(hv_domain_reset(machine.domain), 0);
    TAP_OK(machine_run(&machine, code_debug_exit, sizeof(code_debug_exit), &status));
    TAP_EQ(status.end, HV_DOMAIN_END_DEBUG_EXIT);
    machine_unmake(&machine);
}

static void test_destroy_running(void)
{
    for (unsigned i = 0; i < 20; i++) {
        struct machine machine;

        TAP_OK(machine_make(&machine, 2));
        TAP_OK(machine_load(&machine, code_spin, sizeof(code_spin)));
        TAP_EQ(hv_domain_unpause(machine.domain), 0);
        machine_unmake(&machine);
    }
}

static void test_crash_from_outside(void)
{
    struct hv_domain_status status;
    struct machine machine;

    TAP_OK(machine_make(&machine, 1));
    TAP_OK(machine_load(&machine, code_spin, sizeof(code_spin)));
    TAP_EQ(hv_domain_unpause(machine.domain), 0);
    hv_domain_crash(machine.domain, hv_domain_life(machine.domain), "because");
    hv_domain_crash(machine.domain, hv_domain_life(machine.domain), "too late");
    hv_domain_get_status(machine.domain, &status);
    TAP_EQ(status.end, HV_DOMAIN_END_CRASH);
    TAP_STR(status.reason, "because");
    machine_unmake(&machine);
}

/* What ends a paused domain is not lost: it does not run again before a reset. */
static void test_crash_while_paused(void)
{
    struct hv_crash_report report;
    struct hv_domain_status status;
    struct machine machine;

    TAP_OK(machine_make(&machine, 1));
    TAP_OK(machine_load(&machine, code_spin, sizeof(code_spin)));
    hv_domain_crash(machine.domain, hv_domain_life(machine.domain), "early");
    hv_domain_get_status(machine.domain, &status);
    TAP_EQ(status.state, HV_DOMAIN_STATE_PAUSED);
    TAP_EQ(hv_domain_unpause(machine.domain), 0);
    hv_domain_get_status(machine.domain, &status);
    TAP_EQ(status.state, HV_DOMAIN_STATE_SHUTDOWN);
    TAP_STR(status.reason, "early");
    TAP_EQ(hv_domain_get_crash(machine.domain, &report), 0);
    TAP_EQ(hv_domain_reset(machine.domain), 0);
    TAP_OK(machine_run(&machine, code_debug_exit, sizeof(code_debug_exit), &status));
    TAP_EQ(status.end, HV_DOMAIN_END_DEBUG_EXIT);
    machine_unmake(&machine);
}

static void test_stats(void)
{
    static struct hv_stat stats[512];
    struct hv_domain_status status;
    struct machine machine;
    size_t count;

    TAP_OK(machine_make(&machine, 2));
    TAP_OK(machine_run(&machine, code_debug_exit, sizeof(code_debug_exit), &status));
    /* The end is announced before the vCPU has left; a reset waits for it. */
    TAP_EQ(hv_domain_reset(machine.domain), 0);
    count = hv_domain_get_stats(machine.domain, stats, 512);
    TAP_OK(count > 20 && count <= 512);
    TAP_EQ(hv_domain_get_stats(machine.domain, NULL, 0), count);
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < i; k++) {
            TAP_OK(strcmp(stats[i].name, stats[k].name) != 0);
        }
        if (strcmp(stats[i].name, "engine.instructions") == 0) {
            TAP_OK(stats[i].value > 0);
        }
    }
    machine_unmake(&machine);
}

static void test_boot_refused(void)
{
    const struct hv_boot_state wide = {.rip = UINT64_C(1) << 33};
    const struct hv_boot_state crooked = {.long_mode = true, .rip = UINT64_C(1) << 50};
    uint64_t word = 0;
    struct machine machine;

    TAP_OK(machine_make(&machine, 1));
    TAP_EQ(hv_domain_set_boot(machine.domain, &wide), (uint64_t)-EINVAL);
    TAP_EQ(hv_domain_set_boot(machine.domain, &crooked), (uint64_t)-EINVAL);
    TAP_EQ(hv_guest_copy(machine.domain, (hv_gpa){MACHINE_BYTES - 4}, &word, 8, HV_COPY_TO_GUEST),
           (uint64_t)-EINVAL);
    TAP_EQ(hv_guest_copy(machine.domain, (hv_gpa){UINT64_MAX - 3}, &word, 8, HV_COPY_TO_GUEST),
           (uint64_t)-EINVAL);
    TAP_EQ(hv_guest_copy(machine.domain, (hv_gpa){0xa0000}, &word, 8, HV_COPY_FROM_GUEST),
           (uint64_t)-EINVAL);
    machine_unmake(&machine);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"domain.ends", test_ends},
        {"domain.halted-smp", test_halted_smp},
        {"domain.halted-behind-sipi", test_halted_behind_sipi},
        {"domain.pause-loop", test_pause_loop},
        {"domain.crash-report", test_crash_report},
        {"domain.console", test_console},
        {"domain.force-io-exit", test_force_io_exit},
        {"domain.pause", test_pause},
        {"domain.reset", test_reset},
        {"domain.destroy-running", test_destroy_running},
        {"domain.crash", test_crash_from_outside},
        {"domain.crash-while-paused", test_crash_while_paused},
        {"domain.stats", test_stats},
        {"domain.refused", test_boot_refused},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

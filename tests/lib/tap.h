/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Test Anything Protocol for the core's tests: no GLib, one process a test program.
 *
 *     static void test_empty(void) { TAP_EQ(hv_list_len(&list), 0u); }
 *
 *     int main(int argc, char **argv)
 *     {
 *         static const struct tap_case cases[] = {{"list.empty", test_empty}};
 *         return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
 *     }
 *
 * Each case is one line of the plan. A failed check names file, line and both values, fails its
 * case and returns from the function it stands in. `--list` prints the cases; names given on the
 * command line run only those. The seed of tap_rng() is printed, and taken from LODGE_TEST_SEED.
 */
#pragma once

#include <hv/compiler.h>

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tap_case {
    const char *name;
    void (*run)(void);
};

/**
 * Run the cases, or those named on the command line, and print their results.
 *
 * Returns the exit status for main(): 0 when none failed.
 */
int tap_run(int argc, char **argv, const struct tap_case *cases, size_t count);

/** Mark the running case as failed; used through the TAP_ macros. */
void tap_fail(const char *file, int line, const char *format, ...) HV_PRINTF(3, 4);

/** Mark the running case as skipped. @reason is a whole sentence; the caller returns. */
void tap_skip(const char *reason);

/** Print a line of diagnosis (`# …`). */
void tap_note(const char *format, ...) HV_PRINTF(1, 2);

/** True when the running case has failed already. */
bool tap_failed(void);

/** The running case's name: for tables of cases that one function serves. */
const char *tap_name(void);

/** Next value of the test's random sequence (xorshift64*), the same for the same seed. */
uint64_t tap_rng(void);

/**
 * Run @child in a process of its own and expect it to die by @signal.
 *
 * For must-fail tests: rank inversion, double put. Its stderr is taken; the check fails when
 * @expect (may be NULL) does not stand in it.
 */
void tap_dies(const char *file, int line, void (*child)(void), int signal, const char *expect);

#define TAP_OK(condition)                                             \
    do {                                                              \
        if (!(condition)) {                                           \
            tap_fail(__FILE__, __LINE__, "expected: %s", #condition); \
            return;                                                   \
        }                                                             \
    } while (0)

#define TAP_EQ(got, want)                                                                         \
    do {                                                                                          \
        uint64_t tap_got = (uint64_t)(got);                                                       \
        uint64_t tap_want = (uint64_t)(want);                                                     \
        if (tap_got != tap_want) {                                                                \
            tap_fail(__FILE__, __LINE__,                                                          \
                     "%s: got %" PRIu64 " (%#" PRIx64 "), want %" PRIu64 " (%#" PRIx64 ")", #got, \
                     tap_got, tap_got, tap_want, tap_want);                                       \
            return;                                                                               \
        }                                                                                         \
    } while (0)

#define TAP_STR(got, want)                                                    \
    do {                                                                      \
        const char *tap_got = (got);                                          \
        const char *tap_want = (want);                                        \
        if (!tap_got || __builtin_strcmp(tap_got, tap_want) != 0) {           \
            tap_fail(__FILE__, __LINE__, "%s: got \"%s\", want \"%s\"", #got, \
                     tap_got ? tap_got : "(null)", tap_want);                 \
            return;                                                           \
        }                                                                     \
    } while (0)

#define TAP_DIES(child, signal, expect) tap_dies(__FILE__, __LINE__, child, signal, expect)

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* How a domain ended: the first wins, a resume does not lose it, and no reader sees half of it. */
#include "domain/ending.h"
#include "lib/threads.h"

#include <string.h>

static struct hv_ending ending;

static bool set(enum hv_domain_end end, uint32_t code, const char *reason)
{
    return hv_ending_set(&ending, end, code, code + 1, reason);
}

static void test_first_wins(void)
{
    struct hv_domain_status status = {0};

    hv_ending_init(&ending);
    hv_ending_get(&ending, &status);
    TAP_EQ(status.end, HV_DOMAIN_END_NONE);
    TAP_STR(status.reason, "");
    TAP_OK(set(HV_DOMAIN_END_CRASH, 7, "because"));
    TAP_OK(!set(HV_DOMAIN_END_POWEROFF, 8, "too late"));
    hv_ending_get(&ending, &status);
    TAP_EQ(status.end, HV_DOMAIN_END_CRASH);
    TAP_EQ(status.code, 7);
    TAP_EQ(status.vcpu, 8);
    TAP_STR(status.reason, "because");
    TAP_OK(hv_ending_forget(&ending, false));
    TAP_OK(set(HV_DOMAIN_END_POWEROFF, 0, "in time"));
    TAP_OK(hv_ending_forget(&ending, false));
    hv_ending_finish(&ending);
}

static void test_forget(void)
{
    hv_ending_init(&ending);
    TAP_OK(hv_ending_forget(&ending, true));
    TAP_OK(set(HV_DOMAIN_END_NO_MEMORY, 0, ""));
    TAP_OK(hv_ending_forget(&ending, true));
    TAP_EQ(hv_ending_end(&ending), HV_DOMAIN_END_NONE);
    TAP_OK(set(HV_DOMAIN_END_REBOOT, 0, ""));
    TAP_OK(!hv_ending_forget(&ending, true));
    TAP_EQ(hv_ending_end(&ending), HV_DOMAIN_END_REBOOT);
    TAP_OK(hv_ending_forget(&ending, false));
    TAP_EQ(hv_ending_end(&ending), HV_DOMAIN_END_NONE);
    hv_ending_finish(&ending);
}

static void test_long_reason(void)
{
    struct hv_domain_status status = {0};
    char reason[2 * sizeof(status.reason)];

    hv_ending_init(&ending);
    memset(reason, 'x', sizeof(reason));
    reason[sizeof(reason) - 1] = '\0';
    TAP_OK(set(HV_DOMAIN_END_CRASH, 0, reason));
    hv_ending_get(&ending, &status);
    TAP_EQ(strnlen(status.reason, sizeof(status.reason)), sizeof(status.reason) - 1);
    TAP_OK(hv_ending_forget(&ending, false));
    hv_ending_finish(&ending);
}

static _Atomic uint32_t left, torn; /* endings that are yet to be seen whole */

/* A status is one of two, all of it: the text's every letter, the code and the vCPU say which. */
static void read_status(void)
{
    struct hv_domain_status status = {0};
    char letter;

    hv_ending_get(&ending, &status);
    if (status.end == HV_DOMAIN_END_NONE) {
        return;
    }
    hv_sub_seq(&left, 1);
    letter = status.end == HV_DOMAIN_END_CRASH ? 'a' : 'b';
    for (size_t i = 0; i < sizeof(status.reason) - 1; i++) {
        if (status.reason[i] != letter) {
            hv_add_relaxed(&torn, 1);
        }
    }
    if (status.code != (uint32_t)letter || status.vcpu != (uint32_t)letter + 1) {
        hv_add_relaxed(&torn, 1);
    }
}

static bool any_left(void)
{
    return (int32_t)hv_load_relaxed(&left) > 0;
}

static void write_or_read(unsigned index, void *context)
{
    char text[2][sizeof(((struct hv_domain_status *)0)->reason)] = {""};

    (void)context;
    memset(text[0], 'a', sizeof(text[0]) - 1);
    memset(text[1], 'b', sizeof(text[1]) - 1);
    for (unsigned i = 0; any_left(); i ^= 1) {
        if (index > 0) {
            read_status();
        } else if (set(i ? HV_DOMAIN_END_POWEROFF : HV_DOMAIN_END_CRASH, i ? 'b' : 'a', text[i])) {
            hv_ending_forget(&ending, false);
        }
    }
}

static void test_not_torn(void)
{
    hv_ending_init(&ending);
    hv_store_relaxed(&left, threads_rounds(20000));
    threads_run(3, write_or_read, NULL);
    TAP_EQ(hv_load_relaxed(&torn), 0);
    hv_ending_finish(&ending);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"domain.ending.first-wins", test_first_wins},
        {"domain.ending.forget", test_forget},
        {"domain.ending.long-reason", test_long_reason},
        {"domain.ending.not-torn", test_not_torn},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

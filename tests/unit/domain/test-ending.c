/* SPDX-License-Identifier: GPL-3.0-or-later */
/* How a domain ended: the first wins, a resume does not lose it, and no reader sees half of it. */
#include "domain/ending.h"
#include "lib/threads.h"
#include "sync/race.h"

#include <string.h>

static struct hv_ending ending;

static bool set(enum hv_domain_end end, uint32_t code, const char *reason)
{
    bool first = hv_ending_set(&ending, hv_ending_life(&ending), end, code, code + 1, reason);

    if (first) {
        hv_ending_settle(&ending);
    }
    return first;
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
    hv_ending_renew(&ending);
    TAP_OK(set(HV_DOMAIN_END_POWEROFF, 0, "in time"));
    hv_ending_renew(&ending);
    hv_ending_finish(&ending);
}

static void test_forget(void)
{
    hv_ending_init(&ending);
    TAP_OK(hv_ending_forget(&ending));
    TAP_OK(set(HV_DOMAIN_END_NO_MEMORY, 0, ""));
    TAP_OK(hv_ending_forget(&ending));
    TAP_EQ(hv_ending_end(&ending), HV_DOMAIN_END_NONE);
    TAP_OK(set(HV_DOMAIN_END_REBOOT, 0, ""));
    TAP_OK(!hv_ending_forget(&ending));
    TAP_EQ(hv_ending_end(&ending), HV_DOMAIN_END_REBOOT);
    hv_ending_renew(&ending);
    TAP_EQ(hv_ending_end(&ending), HV_DOMAIN_END_NONE);
    hv_ending_finish(&ending);
}

/* Who means an earlier life, or a later one, ends nothing; a resume goes on with the same life. */
static void test_lives(void)
{
    uint64_t first;

    hv_ending_init(&ending);
    first = hv_ending_life(&ending);
    TAP_OK(set(HV_DOMAIN_END_NO_MEMORY, 0, ""));
    TAP_OK(hv_ending_forget(&ending));
    TAP_EQ(hv_ending_life(&ending), first);
    hv_ending_renew(&ending);
    TAP_EQ(hv_ending_life(&ending), first + 1);
    TAP_OK(!hv_ending_set(&ending, first, HV_DOMAIN_END_CRASH, 0, 0, "stale"));
    TAP_OK(!hv_ending_set(&ending, first + 2, HV_DOMAIN_END_CRASH, 0, 0, "early"));
    TAP_EQ(hv_ending_end(&ending), HV_DOMAIN_END_NONE);
    TAP_OK(set(HV_DOMAIN_END_CRASH, 0, "now"));
    hv_ending_renew(&ending);
    hv_ending_finish(&ending);
}

/* Of two ends of one life, the first forgotten, both are to be settled. */
static void test_two_unsettled(void)
{
    hv_ending_init(&ending);
    /* A, a vCPU, has set it, and is held up before it settles. */
    TAP_OK(hv_ending_set(&ending, hv_ending_life(&ending), HV_DOMAIN_END_NO_MEMORY, 0, 0, ""));
    TAP_OK(hv_ending_forget(&ending)); /* unpause */
    TAP_OK(hv_ending_set(&ending, hv_ending_life(&ending), HV_DOMAIN_END_CRASH, 0, 0, "B"));
    hv_ending_settle(&ending);              /* A */
    TAP_OK(hv_load_seq(&ending.unsettled)); /* B has not: a renewal must wait */
    hv_ending_settle(&ending);              /* B */
    TAP_OK(!hv_load_seq(&ending.unsettled));
    hv_ending_renew(&ending);
    hv_ending_finish(&ending);
}

static _Atomic uint32_t renewed;

static void renew_as_1(unsigned index, void *context)
{
    (void)index;
    (void)context;
    hv_race_name_thread(1);
    hv_ending_renew(&ending);
    hv_store_seq(&renewed, 1);
}

/* A renewal in a thread of its own, that is held up at @point. */
static bool start_renewal(struct threads *thread, const char *point)
{
    hv_ending_init(&ending);
    hv_store_seq(&renewed, 0);
    hv_race_begin();
    hv_race_stop(1, point, 0);
    hv_race_stop(1, "ending.renew.waits", 0);
    threads_start(thread, 1, renew_as_1, NULL);
    return hv_race_await(1, point);
}

/* Whoever is at what follows from an end of this life, is waited for: nothing has changed yet. */
static void finish_renewal(struct threads *thread, uint64_t life)
{
    TAP_OK(hv_race_await(1, "ending.renew.waits"));
    hv_race_end();
    TAP_EQ(hv_load_seq(&renewed), 0);
    TAP_EQ(hv_ending_life(&ending), life);
    TAP_EQ(hv_ending_end(&ending), HV_DOMAIN_END_CRASH);
    hv_ending_settle(&ending);
    threads_join(thread);
    TAP_EQ(hv_ending_life(&ending), life + 1);
    TAP_EQ(hv_ending_end(&ending), HV_DOMAIN_END_NONE);
    hv_ending_finish(&ending);
}

/* The next life does not begin while somebody is at what follows from the last one's end. */
static void test_renew_waits(void)
{
    uint64_t life = hv_ending_life(&ending);
    struct threads thread;

    if (!HV_CONFIG_RACE_POINTS) {
        tap_skip("This build has no race points.");
        return;
    }
    hv_ending_init(&ending);
    TAP_OK(hv_ending_set(&ending, life, HV_DOMAIN_END_CRASH, 0, 0, "because"));
    TAP_OK(start_renewal(&thread, "ending.renew.waits"));
    finish_renewal(&thread, life);
}

/* Nor when the end comes after the look whether there is one. */
static void test_renew_meets_end(void)
{
    uint64_t life = hv_ending_life(&ending);
    struct threads thread;

    if (!HV_CONFIG_RACE_POINTS) {
        tap_skip("This build has no race points.");
        return;
    }
    TAP_OK(start_renewal(&thread, "ending.renew.settled"));
    TAP_OK(hv_ending_set(&ending, life, HV_DOMAIN_END_CRASH, 0, 0, "because"));
    hv_race_release(1, "ending.renew.settled");
    finish_renewal(&thread, life);
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
    hv_ending_renew(&ending);
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
            hv_ending_renew(&ending);
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
        {"domain.ending.two-unsettled", test_two_unsettled},
        {"domain.ending.lives", test_lives},
        {"domain.ending.renew-waits", test_renew_waits},
        {"domain.ending.renew-meets-end", test_renew_meets_end},
        {"domain.ending.long-reason", test_long_reason},
        {"domain.ending.not-torn", test_not_torn},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

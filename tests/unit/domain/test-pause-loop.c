/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A guest that spins, and whom its host finds for it: the worker is parked before it looks for whom to
 * yield to and after, and what it has written of the others is compared.
 */
#include "domain/core.h"
#include "domain/domain.h"
#include "lib/tap.h"
#include "lib/threads.h"
#include "machine.h"
#include "sched/sched-private.h"
#include "sync/race.h"

#include <string.h>

#define VCPUS   4
#define FLAG    0x102000u
#define AP_CODE 0x9000u
#define LOOKS   "sched.spin.looks"
#define LOOKED  "sched.spin.looked"
#define ROUNDS  5
/* Long enough for a pause loop to be one on a slow host, too. */
#define SLICE   (40 * HV_NS_PER_MS)

/* Starts all others at AP_CODE and waits for FLAG. */
static const uint8_t code_wait[] = {
    0xb0, 0x42,                                                 /* mov $0x42,%al */
    0x66, 0xba, 0xf8, 0x03, 0xee,                               /* mov $0x3f8,%dx; out %al,(%dx) */
    0xc7, 0x05, 0xf0, 0x00, 0xe0, 0xfe, 0xff, 0x01, 0x00, 0x00, /* movl $0x1ff,0xfee000f0 */
    0xc7, 0x05, 0x00, 0x03, 0xe0, 0xfe, 0x00, 0x45, 0x0c, 0x00, /* movl $0xc4500,0xfee00300 */
    0xc7, 0x05, 0x00, 0x03, 0xe0, 0xfe, 0x09, 0x46, 0x0c, 0x00, /* movl $0xc4609,0xfee00300 */
    0xf3, 0x90,                                                 /* pause */
    0x83, 0x3d, 0x00, 0x20, 0x10, 0x00, 0x00,                   /* cmpl $0,0x102000 */
    0x74, 0xf5,                                                 /* je pause */
    0xb0, 0x09, 0xe6, 0xf4,                                     /* mov $9,%al; out %al,$0xf4 */
};

/* Of 16 bits, in the kernel, and no end of it. */
static const uint8_t code_busy[] = {0xeb, 0xfe};

static struct machine machine;

/* What a look may find, and is not to change. */
struct picture {
    struct hv_sched_entity entity[VCPUS];
    struct hv_doorbell bell[VCPUS];
};

static struct hv_vcpu *vcpu(unsigned index)
{
    return &machine.domain->vcpu[index];
}

static void name_worker(void)
{
    hv_race_name_thread(1);
}

static bool put(uint64_t gpa, const void *bytes, size_t size)
{
    return hv_guest_copy(machine.domain, (hv_gpa){gpa}, (void *)(uintptr_t)bytes, size,
                         HV_COPY_TO_GUEST) == 0;
}

static bool set_flag(uint32_t value)
{
    return put(FLAG, &value, sizeof(value));
}

/* The first vCPU stands before its look, and all others have been interrupted in the kernel. */
static bool await_scene(void)
{
    unsigned ready = 0;

    while (ready < VCPUS - 1) {
        if (!hv_race_await(1, LOOKS)) {
            return false;
        }
        ready = 0;
        for (unsigned i = 1; i < VCPUS; i++) {
            ready += vcpu(i)->entity.ready && vcpu(i)->entity.kernel_mode;
        }
        if (ready < VCPUS - 1) {
            hv_race_stop(1, LOOKS, 0);
            hv_race_release(1, LOOKS);
        }
    }
    return vcpu(0)->entity.state == HV_SCHED_STATE_RUNNING;
}

static bool start(bool boost)
{
    if (!HV_CONFIG_RACE_POINTS) {
        tap_skip("this build has no race points");
        return false;
    }
    if (!(boost ? machine_make_on_one(&machine, VCPUS) : machine_make_unboosted(&machine, VCPUS))) {
        return false;
    }
    machine.core->sched->queues.tuning.slice_ns = SLICE;
    machine.heard = name_worker;
    hv_race_begin();
    hv_race_stop(1, LOOKS, 0);
    return put(AP_CODE, code_busy, sizeof(code_busy)) && set_flag(0) &&
           machine_load(&machine, code_wait, sizeof(code_wait)) &&
           hv_domain_unpause(machine.domain) == 0;
}

static void end(void)
{
    struct hv_domain_status status;

    TAP_OK(set_flag(1));
    hv_race_end();
    TAP_EQ(hv_domain_wait_change(machine.domain, HV_DOMAIN_STATE_RUNNING, 10 * HV_NS_PER_S), 0);
    hv_domain_get_status(machine.domain, &status);
    TAP_EQ(status.code, 9);
    machine_unmake(&machine);
}

static void take_picture(struct picture *picture)
{
    for (unsigned i = 1; i < VCPUS; i++) {
        picture->entity[i] = vcpu(i)->entity;
        picture->bell[i] = vcpu(i)->bell;
    }
}

/* One look; how many others are not as they were, but for the links to their neighbours. */
static bool look(unsigned *changed_out)
{
    static struct picture before, after;

    take_picture(&before);
    hv_race_stop(1, LOOKED, 0);
    hv_race_release(1, LOOKS);
    if (!hv_race_await(1, LOOKED)) {
        return false;
    }
    take_picture(&after);
    *changed_out = 0;
    for (unsigned i = 1; i < VCPUS; i++) {
        before.entity[i].link = after.entity[i].link;
        *changed_out += memcmp(&before.entity[i], &after.entity[i], sizeof(before.entity[i])) != 0;
        *changed_out += memcmp(&before.bell[i], &after.bell[i], sizeof(before.bell[i])) != 0;
    }
    hv_race_stop(1, LOOKS, 0);
    hv_race_release(1, LOOKED);
    return true;
}

/* Who may be looked at and not be yielded to is as it was. */
static void test_no_foreign_mutate(void)
{
    const struct hv_sched_counters *counters;
    unsigned changed = 0;

    if (!start(false)) {
        return;
    }
    counters = &vcpu(0)->entity.counters;
    for (unsigned round = 0; round < ROUNDS; round++) {
        uint64_t attempted;

        TAP_OK(await_scene());
        attempted = hv_load_relaxed(&counters->yields_attempted);
        TAP_OK(look(&changed));
        TAP_EQ(changed, 0);
        TAP_OK(hv_load_relaxed(&counters->yields_attempted) > attempted);
    }
    TAP_EQ(hv_load_relaxed(&counters->yields_successful), 0);
    end();
}

/* Each pause loop yields to one of them, which is put before the others; these are as they were. */
static void test_yields(void)
{
    const struct hv_sched_counters *counters;

    if (!start(true)) {
        return;
    }
    counters = &vcpu(0)->entity.counters;
    for (unsigned round = 0; round < ROUNDS; round++) {
        uint64_t successful, boosts = 0;
        unsigned changed = 0;

        TAP_OK(await_scene());
        successful = hv_load_relaxed(&counters->yields_successful);
        TAP_OK(look(&changed));
        TAP_EQ(changed, 1);
        TAP_EQ(hv_load_relaxed(&counters->yields_successful), successful + 1);
        for (unsigned i = 1; i < VCPUS; i++) {
            boosts += hv_load_relaxed(&vcpu(i)->entity.counters.boosts);
        }
        TAP_EQ(boosts, successful + 1);
    }
    end();
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"pv.no-foreign-mutate.guest", test_no_foreign_mutate},
        {"pv.ple.guest", test_yields},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

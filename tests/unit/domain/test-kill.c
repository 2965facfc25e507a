/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Killing at any moment: what the killer, others, and the dead domain's users are told. */
#include "domain/core.h"
#include "domain/domain.h"
#include "lib/threads.h"
#include "machine.h"
#include "sync/race.h"

#include <errno.h>
#include <string.h>

static struct machine machine;

static const uint8_t code_spin[] = {0xeb, 0xfe};
static const uint8_t code_halt[] = {0xfb, 0xf4, 0xeb, 0xfd}; /* sti; hlt; again */
/* mov dx, 0x3f8; mov al, 'k'; out dx, al; jmp . */
static const uint8_t code_say[] = {0x66, 0xba, 0xf8, 0x03, 0xb0, 'k', 0xee, 0xeb, 0xfe};

static enum hv_domain_state state_of(struct hv_domain *domain)
{
    struct hv_domain_status status;

    hv_domain_get_status(domain, &status);
    return status.state;
}

static bool run(const void *code, size_t bytes, unsigned vcpus)
{
    return machine_make(&machine, vcpus) && machine_load(&machine, code, bytes) &&
           hv_domain_unpause(machine.domain) == 0;
}

/* Everything that would change it or look inside says -ECANCELED; what tells how it is, tells. */
static void test_refused(void)
{
    const struct hv_boot_state boot = {.rip = MACHINE_CODE};
    struct hv_crash_report report;
    struct hv_domain_status status;
    struct hv_domain *same = NULL;
    struct hv_stat stats[4];
    hv_handle handle;
    uint64_t word = 0;

    TAP_OK(run(code_spin, sizeof(code_spin), 2));
    handle = hv_domain_handle(machine.domain);
    TAP_EQ(hv_domain_enter(machine.domain), 0);
    TAP_EQ(hv_domain_kill(machine.domain), 0);
    /* We are inside still: it dies, but is not taken apart. */
    TAP_EQ(hv_domain_kill(machine.domain), (uint64_t)-ECANCELED);
    TAP_EQ(hv_domain_enter(machine.domain), (uint64_t)-ECANCELED);
    TAP_EQ(hv_domain_pause(machine.domain), (uint64_t)-ECANCELED);
    TAP_EQ(hv_domain_unpause(machine.domain), (uint64_t)-ECANCELED);
    TAP_EQ(hv_domain_reset(machine.domain), (uint64_t)-ECANCELED);
    TAP_EQ(hv_domain_press_power(machine.domain), (uint64_t)-ECANCELED);
    TAP_EQ(hv_domain_set_boot(machine.domain, &boot), (uint64_t)-ECANCELED);
    TAP_EQ(hv_domain_get_crash(machine.domain, &report), (uint64_t)-ECANCELED);
    TAP_EQ(hv_guest_copy(machine.domain, (hv_gpa){0}, &word, 8, HV_COPY_FROM_GUEST),
           (uint64_t)-ECANCELED);
    TAP_EQ(hv_domain_console_input(machine.domain, (const uint8_t *)"x", 1), 0);
    hv_domain_console_writable(machine.domain);
    hv_domain_crash(machine.domain, hv_domain_life(machine.domain), "too late");
    hv_domain_get_status(machine.domain, &status);
    TAP_EQ(status.state, HV_DOMAIN_STATE_DYING);
    TAP_EQ(status.end, HV_DOMAIN_END_NONE);
    TAP_EQ(hv_domain_get_stats(machine.domain, stats, HV_ARRAY_LEN(stats)), 3);
    TAP_STR(stats[0].name, "state.state");
    TAP_EQ(hv_domain_get(machine.core, handle, &same), 0);
    TAP_OK(same == machine.domain);
    hv_domain_leave(machine.domain);
    hv_domain_destroy(machine.domain);
    /* What we hold still knows what became of it. By name it is no more. */
    TAP_EQ(state_of(same), HV_DOMAIN_STATE_GONE);
    TAP_EQ(hv_domain_wait_change(same, HV_DOMAIN_STATE_DYING, 0), 0);
    TAP_EQ(hv_domain_kill(same), (uint64_t)-ECANCELED);
    machine.domain = NULL;
    TAP_EQ(hv_domain_get(machine.core, handle, &machine.domain), (uint64_t)-ENOENT);
    TAP_OK(!machine.domain);
    hv_domain_put(same);
    hv_domain_put(NULL);
    machine_unmake(&machine);
}

/* A machine that waits for an interrupt, one that shut down, and one that never ran. */
static void test_any_state(void)
{
    struct hv_domain_status status;

    TAP_OK(run(code_halt, sizeof(code_halt), 1));
    TAP_EQ(hv_domain_kill(machine.domain), 0);
    machine_unmake(&machine);
    TAP_OK(run(code_spin, sizeof(code_spin), 1));
    hv_domain_crash(machine.domain, hv_domain_life(machine.domain), "because");
    TAP_EQ(state_of(machine.domain), HV_DOMAIN_STATE_SHUTDOWN);
    TAP_EQ(hv_domain_kill(machine.domain), 0);
    hv_domain_get_status(machine.domain, &status);
    TAP_OK(status.state >= HV_DOMAIN_STATE_DYING);
    TAP_EQ(status.end, HV_DOMAIN_END_CRASH);
    TAP_STR(status.reason, "because");
    machine_unmake(&machine);
    TAP_OK(machine_make(&machine, 1));
    TAP_EQ(hv_domain_kill(machine.domain), 0);
    machine_unmake(&machine);
}

static _Atomic unsigned killed, refused;

static void kill_body(unsigned index, void *context)
{
    int rc = hv_domain_kill(context);

    (void)index;
    if (rc == 0) {
        hv_add_relaxed(&killed, 1);
    } else if (rc == -ECANCELED) {
        hv_add_relaxed(&refused, 1);
    }
}

/* Of many killers one has killed it. */
static void test_double_kill(void)
{
    unsigned rounds = threads_rounds(20);

    hv_store_relaxed(&killed, 0);
    hv_store_relaxed(&refused, 0);
    for (unsigned i = 0; i < rounds; i++) {
        TAP_OK(run(code_spin, sizeof(code_spin), 2));
        threads_run(4, kill_body, machine.domain);
        machine_unmake(&machine);
    }
    TAP_EQ(killed, rounds);
    TAP_EQ(refused, 3 * rounds);
}

static struct hv_domain *suicide;
static _Atomic int suicide_rc;

static size_t kill_writer(void *context, const uint8_t *data, size_t bytes)
{
    struct hv_domain *found;

    (void)context;
    (void)data;
    /* By the name it was found: what a vCPU's thread may do, as any other. */
    if (hv_domain_get(suicide->core, hv_domain_handle(suicide), &found) == 0) {
        hv_store_seq(&suicide_rc, hv_domain_kill(found));
        hv_domain_put(found);
    }
    return bytes;
}

static const struct hv_console_ops kill_console = {.write = kill_writer};

/* A vCPU's thread kills its own domain, from inside a device, and goes on until it looks. */
static void test_self_kill(void)
{
    const struct hv_domain_config config = {
        .name = "suicide",
        .engine = "soft",
        .memory_bytes = MACHINE_BYTES,
        .vcpus = 2,
        .console = &kill_console,
    };
    char why[128];

    TAP_OK(machine_make(&machine, 1));
    hv_domain_destroy(machine.domain);
    TAP_EQ(hv_domain_create(machine.core, &config, &machine.domain, why, sizeof(why)), 0);
    suicide = machine.domain;
    hv_store_seq(&suicide_rc, -EIO);
    TAP_OK(machine_load(&machine, code_say, sizeof(code_say)));
    TAP_EQ(hv_domain_unpause(machine.domain), 0);
    for (enum hv_domain_state state = HV_DOMAIN_STATE_RUNNING; state != HV_DOMAIN_STATE_GONE;
         state = state_of(machine.domain)) {
        TAP_EQ(hv_domain_wait_change(machine.domain, state, 10 * HV_NS_PER_S), 0);
    }
    TAP_EQ(suicide_rc, 0);
    hv_domain_put(machine.domain);
    machine.domain = NULL;
    machine_unmake(&machine);
}

static struct hv_domain *made;
static _Atomic int made_rc;

static void create_as_1(unsigned index, void *context)
{
    const struct hv_domain_config config = {
        .name = "late", .engine = "soft", .memory_bytes = MACHINE_BYTES, .vcpus = 1};
    char why[128];

    (void)index;
    hv_race_name_thread(1);
    hv_store_seq(&made_rc, hv_domain_create(context, &config, &made, why, sizeof(why)));
}

/* One who knows, or guesses, the name of a domain that is being made does not find it. */
static void test_kill_during_create(void)
{
    struct hv_domain *found;
    struct threads creator;
    hv_handle handle;

    if (!HV_CONFIG_RACE_POINTS) {
        tap_skip("This build has no race points.");
        return;
    }
    TAP_OK(machine_make(&machine, 1));
    handle.v = hv_domain_handle(machine.domain).v + (1 << 16) + 1;
    hv_race_begin();
    hv_race_stop(1, "directory.publish", 0);
    threads_start(&creator, 1, create_as_1, machine.core);
    TAP_OK(hv_race_await(1, "directory.publish"));
    TAP_EQ(hv_domain_get(machine.core, handle, &found), (uint64_t)-ENOENT);
    hv_race_end();
    threads_join(&creator);
    TAP_EQ(made_rc, 0);
    TAP_EQ(hv_domain_handle(made).v, handle.v);
    TAP_EQ(hv_domain_get(machine.core, handle, &found), 0);
    TAP_EQ(hv_domain_kill(found), 0);
    hv_domain_put(found);
    hv_domain_put(made);
    machine_unmake(&machine);
}

static _Atomic int acted_rc;

static void pause_as_1(unsigned index, void *context)
{
    (void)index;
    hv_race_name_thread(1);
    hv_store_seq(&acted_rc, hv_domain_pause(context));
}

static void unpause_as_1(unsigned index, void *context)
{
    (void)index;
    hv_race_name_thread(1);
    hv_store_seq(&acted_rc, hv_domain_unpause(context));
}

/* Kill while another is at @point of @body: the kill does not wait for it. */
static bool kill_amid(threads_body *body, const char *point, enum hv_domain_state *between_out)
{
    struct threads actor;
    bool there;

    hv_race_begin();
    hv_race_stop(1, point, 0);
    threads_start(&actor, 1, body, machine.domain);
    there = hv_race_await(1, point) && hv_domain_kill(machine.domain) == 0;
    *between_out = state_of(machine.domain);
    hv_race_end();
    threads_join(&actor);
    return there;
}

static void test_pause_kill(void)
{
    enum hv_domain_state between;
    struct hv_domain_status status;

    if (!HV_CONFIG_RACE_POINTS) {
        tap_skip("This build has no race points.");
        return;
    }
    TAP_OK(run(code_spin, sizeof(code_spin), 2));
    TAP_OK(kill_amid(pause_as_1, "domain.pause.changed", &between));
    TAP_EQ(between, HV_DOMAIN_STATE_DYING);
    TAP_EQ(acted_rc, 0); /* it was paused, for a moment */
    machine_unmake(&machine);
    /* Killed on the way to RUNNING: it never gets there. */
    TAP_OK(machine_make(&machine, 2));
    TAP_OK(machine_load(&machine, code_say, sizeof(code_say)));
    TAP_OK(kill_amid(unpause_as_1, "domain.unpause.resumed", &between));
    TAP_EQ(between, HV_DOMAIN_STATE_DYING);
    TAP_EQ(acted_rc, (uint64_t)-ECANCELED);
    hv_domain_get_status(machine.domain, &status);
    TAP_EQ(status.end, HV_DOMAIN_END_NONE);
    TAP_EQ(machine.console_bytes, 0);
    machine_unmake(&machine);
}

static void enter_as_1(unsigned index, void *context)
{
    int rc;

    (void)index;
    hv_race_name_thread(1);
    rc = hv_domain_enter(context);
    hv_store_seq(&acted_rc, rc);
    if (rc == 0) {
        hv_domain_leave(context);
    }
}

/* One who has counted himself in, but not looked yet, is waited for, and turned away. */
static void test_enter_kill(void)
{
    struct hv_teardown_info info;
    enum hv_domain_state between;

    if (!HV_CONFIG_RACE_POINTS) {
        tap_skip("This build has no race points.");
        return;
    }
    TAP_OK(machine_make(&machine, 1));
    TAP_OK(kill_amid(enter_as_1, "domain.enter.counted", &between));
    TAP_EQ(between, HV_DOMAIN_STATE_DYING);
    TAP_EQ(acted_rc, (uint64_t)-ECANCELED);
    TAP_EQ(hv_domain_wait_change(machine.domain, HV_DOMAIN_STATE_DYING, 10 * HV_NS_PER_S), 0);
    hv_domain_get_teardown(machine.domain, &info);
    TAP_EQ(info.phase, HV_TEARDOWN_DONE);
    machine_unmake(&machine);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"domain.kill.refused", test_refused},  {"domain.kill.any-state", test_any_state},
        {"domain.kill.enter", test_enter_kill}, {"dom.double-kill", test_double_kill},
        {"dom.self-kill", test_self_kill},      {"dom.kill-during-create", test_kill_during_create},
        {"dom.pause-kill", test_pause_kill},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

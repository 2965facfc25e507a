/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The host sleeps for an hour under a Linux guest that works on two CPUs: as far as the machine can tell,
 * since no test may put its host to sleep. Its watchdogs must not bark, whichever policy its clock has,
 * and it must know what time it is, or how much it is late by.
 */
#include "build/builder.h"
#include "common/lodge-error.h"
#include "domain/core.h"
#include "domain/domain.h"
#include "domain/host-watch.h"
#include "lib/tap.h"

#include <stdlib.h>
#include <string.h>

#define HOUR     (3600 * HV_NS_PER_S)
#define PATIENCE (300 * HV_NS_PER_S)
/* Of what the guest says in whole seconds, and of how long it takes to say it. */
#define SLACK_S  60

static const char command_line[] =
    "console=ttyS0 panic=-1 mitigations=off quiet "
    "lodge.run=date,+before=%s;loads,soak,4&sleep,1;echo,nap;wait;date,+after=%s;loads,soak,2";

static GMutex lock;
static GCond heard;
static GString *said; /* guarded by &lock */

static size_t listen_to(void *context, const uint8_t *data, size_t bytes)
{
    (void)context;
    g_mutex_lock(&lock);
    g_string_append_len(said, (const char *)data, (gssize)bytes);
    g_cond_broadcast(&heard);
    g_mutex_unlock(&lock);
    return bytes;
}

static const struct hv_console_ops console = {.write = listen_to};

/* Wait until the guest has said @text. */
static bool await(const char *text)
{
    gint64 end = g_get_monotonic_time() + (gint64)(PATIENCE / HV_NS_PER_US);
    bool good = true;

    g_mutex_lock(&lock);
    while (good && !strstr(said->str, text)) {
        good = g_cond_wait_until(&heard, &lock, end);
    }
    g_mutex_unlock(&lock);
    return good;
}

/* The number behind @name; only when the machine has stopped. */
static gint64 number(const char *name)
{
    const char *at = strstr(said->str, name);

    return at ? g_ascii_strtoll(at + strlen(name), NULL, 10) : 0;
}

static void sleep_unnoticed(struct hv_guest_clock *clock)
{
    hv_lock_take(&clock->lock);
    clock->asleep_ns -= HOUR;
    hv_lock_drop(&clock->lock);
}

static void run(struct hv_core *core, struct hv_domain *domain, LodgeBuilder *builder)
{
    struct hv_guest_clock *clock = &domain->platform.clock;
    bool advances = clock->policy == HV_CLOCK_ADVANCE;
    gint64 slept, began = g_get_real_time() / G_USEC_PER_SEC;
    struct hv_domain_status status;

    TAP_OK(lodge_builder_load(builder, domain, NULL));
    TAP_EQ(hv_domain_unpause(domain), 0);
    TAP_OK(await("nap"));
    sleep_unnoticed(clock);
    hv_host_watch_look(core->host_watch);
    TAP_EQ(hv_domain_wait_change(domain, HV_DOMAIN_STATE_RUNNING, PATIENCE), 0);
    hv_domain_get_status(domain, &status);
    if (status.end != HV_DOMAIN_END_POWEROFF || !strstr(said->str, "lodge: exit 0")) {
        tap_note("%s", said->str);
    }
    TAP_EQ(status.end, HV_DOMAIN_END_POWEROFF);
    TAP_EQ(hv_load_relaxed(&clock->counters.suspends), 1);
    slept = number("after=") - number("before=");
    tap_note("between its words the guest saw %d s", (int)slept);
    TAP_OK(strstr(said->str, "lodge: exit 0") && strstr(said->str, "soak good"));
    if (strstr(said->str, "lodge: log")) {
        tap_note("%s", strstr(said->str, "lodge: log"));
    }
    /* RCU may complain all the same: it is calmed by jiffies that may not be up to date yet. */
    TAP_OK(!strstr(said->str, "soft lockup") && !strstr(said->str, "hung_task"));
    TAP_OK(number("before=") >= began && number("before=") < began + SLACK_S);
    TAP_OK(advances ? slept >= 3600 && slept < 3600 + SLACK_S : slept < SLACK_S);
}

static void sleep_under(enum hv_clock_policy policy)
{
    const struct hv_core_config core_config = {.workers = 1, .memory_bytes = 256 * HV_MIB};
    const struct hv_domain_config config = {
        .name = "sleeper",
        .engine = "auto",
        .memory_bytes = 256 * HV_MIB,
        .vcpus = 2,
        .clock_policy = policy,
        .console = &console,
    };
    g_autoptr(LodgeBuilder) builder = NULL;
    struct hv_core *core = NULL;
    struct hv_domain *domain = NULL;
    char why[128];

    if (!g_file_test(ASSETS "/vmlinuz", G_FILE_TEST_EXISTS)) {
        tap_skip("There is no guest kernel: run tests/guest/get-assets.");
        return;
    }
    builder = lodge_builder_new(ASSETS "/vmlinuz", ASSETS "/initramfs.cpio", command_line, NULL);
    TAP_OK(builder != NULL);
    said = g_string_new("");
    TAP_EQ(hv_core_create(&core_config, &core), 0);
    TAP_EQ(hv_domain_create(core, &config, &domain, why, sizeof(why)), 0);
    run(core, domain, builder);
    hv_domain_destroy(domain);
    hv_core_destroy(core);
    g_string_free(said, TRUE);
}

static void test_advance(void)
{
    sleep_under(HV_CLOCK_ADVANCE);
}

static void test_freeze(void)
{
    sleep_under(HV_CLOCK_FREEZE);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"guest.host-sleep.advance", test_advance},
        {"guest.host-sleep.freeze", test_freeze},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

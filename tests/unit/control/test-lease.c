/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One controller at a time: what becomes of the lease, and of what its holder has begun. */
#include "control/roster.h"
#include "guest-code.h"
#include "lib/tap.h"
#include "lib/threads.h"
#include "serving.h"
#include "sync/atomic.h"
#include "sync/race.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static struct serving serving;
static struct peer first, second;

static void test_revoked(void)
{
    uint64_t epoch;

    if (!serving_start(&serving, HV_NS_NEVER.v) || !serving_join(&serving, &first)) {
        return;
    }
    epoch = first.answer.body.welcome.epoch;
    TAP_OK(first.answer.body.welcome.held && first.answer.body.welcome.domains == 0);
    TAP_OK(serving_join(&serving, &second));
    TAP_EQ(second.answer.body.welcome.epoch, epoch + 1);
    TAP_OK(peer_await_end(&first));
    TAP_EQ(peer_call(&second, HV_OP_LIST, sizeof(struct hv_op_after)), 0);
    peer_finish(&first);
    peer_finish(&second);
    serving_stop(&serving);
}

/* Who only asks takes nothing from anybody. */
static void test_asked(void)
{
    struct peer third;

    if (!serving_start(&serving, HV_NS_NEVER.v)) {
        return;
    }
    peer_init(&second, serving_connect(&serving));
    TAP_EQ(peer_hello(&second, false), 0);
    TAP_OK(!second.answer.body.welcome.held && !second.staging && second.statistics < 0);
    TAP_OK(peer_await_end(&second));
    TAP_OK(serving_join(&serving, &first));
    peer_init(&third, serving_connect(&serving));
    TAP_EQ(peer_hello(&third, false), 0);
    TAP_OK(third.answer.body.welcome.held && !third.staging);
    TAP_EQ(peer_call(&first, HV_OP_LIST, sizeof(struct hv_op_after)), 0);
    peer_finish(&first);
    peer_finish(&second);
    peer_finish(&third);
    serving_stop(&serving);
}

/* The controller dies after that many steps of making a machine; whether it is there afterwards. */
static void die_after(unsigned steps, bool kept)
{
    uint64_t handle = 0;

    if (!serving_join(&serving, &first)) {
        return;
    }
    if (steps >= 1) {
        handle = peer_create(&first, "half", true);
        TAP_OK(handle != 0);
    }
    if (steps >= 2) {
        TAP_OK(peer_load(&first, handle, loop, sizeof(loop)));
    }
    if (steps == 3) {
        TAP_EQ(peer_call_domain(&first, HV_OP_KEEP, handle), 0);
    }
    if (steps == 4) {
        TAP_EQ(peer_call_domain(&first, HV_OP_UNPAUSE, handle), 0);
    }
    peer_finish(&first);
    if (!serving_join(&serving, &second)) {
        return;
    }
    if (kept) {
        TAP_EQ(peer_call_domain(&second, HV_OP_GET, handle), 0);
        TAP_STR(second.answer.body.made.name, "half");
        TAP_EQ(peer_call_domain(&second, HV_OP_STATUS, handle), 0);
        TAP_EQ(second.answer.body.status.state,
               steps == 4 ? HV_DOMAIN_STATE_RUNNING : HV_DOMAIN_STATE_PAUSED);
        TAP_EQ(peer_call_domain(&second, HV_OP_KILL, handle), 0);
    }
    TAP_AWAIT(serving_domains(&serving) == 0);
    peer_finish(&second);
}

static void test_half_made(void)
{
    if (!serving_start(&serving, HV_NS_NEVER.v)) {
        return;
    }
    for (unsigned steps = 0; steps <= 4; steps++) {
        die_after(steps, steps >= 3);
    }
    serving_stop(&serving);
}

/* What it asked for and had no answer to: begun or not, no machine is left of it. */
static void test_unanswered(void)
{
    struct hv_op_create *create = &first.request.body.create;

    if (!serving_start(&serving, HV_NS_NEVER.v) || !serving_join(&serving, &first)) {
        return;
    }
    for (unsigned i = 0; i < 20; i++) {
        *create = (struct hv_op_create){
            .name = "many", .engine = "soft", .memory_bytes = 2 * HV_MIB, .vcpus = 1};
        TAP_OK(peer_send(&first, HV_OP_CREATE, sizeof(*create)));
    }
    peer_finish(&first);
    TAP_OK(serving_join(&serving, &second));
    TAP_AWAIT(serving_domains(&serving) == 0);
    peer_finish(&second);
    serving_stop(&serving);
}

/* The thread that makes machines is number 1 of a race's script. */
int __real_hv_roster_create(struct hv_roster *roster, const struct hv_op_create *create,
                            struct hv_op_made *made_out, char *why, size_t why_size);
int __wrap_hv_roster_create(struct hv_roster *roster, const struct hv_op_create *create,
                            struct hv_op_made *made_out, char *why, size_t why_size);

int __wrap_hv_roster_create(struct hv_roster *roster, const struct hv_op_create *create,
                            struct hv_op_made *made_out, char *why, size_t why_size)
{
    int rc;

    hv_race_name_thread(1);
    rc = __real_hv_roster_create(roster, create, made_out, why, why_size);
    hv_race_name_thread(0);
    return rc;
}

static void *join_second(void *context)
{
    _Atomic bool *joined = context;

    hv_store_seq(joined, serving_join(&serving, &second));
    return NULL;
}

/* Make a machine, and stop its maker before it is listed. False: the case has failed, or is left out. */
static bool stop_at_made(void)
{
    if (!HV_CONFIG_RACE_POINTS) {
        tap_skip("Race points are off in this build.");
        return false;
    }
    if (!serving_start(&serving, HV_NS_NEVER.v) || !serving_join(&serving, &first)) {
        return false;
    }
    hv_race_begin();
    hv_race_stop(1, "roster.create.made", 0);
    first.request.body.create = (struct hv_op_create){
        .name = "late", .engine = "soft", .memory_bytes = 2 * HV_MIB, .vcpus = 1};
    return peer_send(&first, HV_OP_CREATE, sizeof(struct hv_op_create)) &&
           hv_race_await(1, "roster.create.made");
}

/*
 * A machine has been made and not been listed yet, when its maker loses the lease. Who gets it waits
 * until nothing is at work: undone before that, the machine would be missed.
 */
static void test_made_while_lost(void)
{
    _Atomic bool joined = false;
    pthread_t thread;

    if (!stop_at_made()) {
        return;
    }
    TAP_EQ(serving_domains(&serving), 1u);
    TAP_OK(pthread_create(&thread, NULL, join_second, &joined) == 0);
    TAP_OK(peer_await_end(&first));
    TAP_OK(!hv_load_seq(&joined));
    hv_race_end();
    pthread_join(thread, NULL);
    TAP_OK(hv_load_seq(&joined));
    TAP_AWAIT(serving_domains(&serving) == 0);
    peer_finish(&first);
    peer_finish(&second);
    serving_stop(&serving);
}

/* Killed by who guessed its handle, it is gone before it is listed. That is told, and it is forgotten. */
static void test_gone_while_made(void)
{
    hv_handle handle;

    if (!stop_at_made()) {
        return;
    }
    TAP_EQ(hv_core_list(serving.core, &handle, 1), 1u);
    TAP_EQ(peer_call_domain(&first, HV_OP_KILL, handle.v), 0);
    TAP_AWAIT(peer_call_domain(&first, HV_OP_STATUS, handle.v) == -ENOENT);
    hv_race_end();
    TAP_OK(peer_await_state(&first, handle.v, HV_DOMAIN_STATE_GONE));
    first.request.body.after.handle = 0;
    TAP_EQ(peer_call(&first, HV_OP_LIST, sizeof(struct hv_op_after)), 0);
    TAP_EQ(first.answer.body.listing.count, 0u);
    peer_finish(&first);
    serving_stop(&serving);
}

/* A controller that asks and does not read: all who would answer it wait. Not those after it. */
static void test_deaf(void)
{
    if (!serving_start(&serving, HV_NS_NEVER.v) || !serving_join(&serving, &first)) {
        return;
    }
    /* Until nothing more goes: its answers fill one way, and then its requests the other. */
    first.request.body.after.handle = 0;
    first.request.header = (struct hv_op_header){
        .bytes = sizeof(struct hv_op_header) + sizeof(struct hv_op_after),
        .op = HV_OP_LIST,
        .serial = 1,
    };
    while (send(first.fd, &first.request, first.request.header.bytes, MSG_DONTWAIT) > 0) {
    }
    TAP_OK(serving_join(&serving, &second));
    TAP_EQ(peer_call(&second, HV_OP_LIST, sizeof(struct hv_op_after)), 0);
    peer_finish(&first);
    peer_finish(&second);
    serving_stop(&serving);
}

static void test_linger(void)
{
    uint64_t handle;

    if (!serving_start(&serving, HV_NS_PER_MS) || !serving_join(&serving, &first)) {
        return;
    }
    handle = peer_create(&first, "stays", false);
    TAP_EQ(peer_call_domain(&first, HV_OP_KEEP, handle), 0);
    peer_finish(&first);
    /* Its machine is there. */
    TAP_OK(serving_join(&serving, &second));
    TAP_OK(!hv_load_seq(&serving.ended));
    TAP_EQ(peer_call_domain(&second, HV_OP_KILL, handle), 0);
    TAP_OK(peer_await_state(&second, handle, HV_DOMAIN_STATE_GONE));
    TAP_OK(!hv_load_seq(&serving.ended));
    peer_finish(&second);
    TAP_AWAIT(hv_load_seq(&serving.ended));
    serving_stop(&serving);
}

/* Another user, who is not root. */
static void test_other_user(void)
{
    int status;
    pid_t child;

    if (geteuid() != 0) {
        tap_skip("Only root can be somebody else.");
        return;
    }
    if (!serving_start(&serving, HV_NS_NEVER.v)) {
        return;
    }
    child = fork();
    if (child == 0) {
        int fd = setuid(65534) == 0 ? serving_connect(&serving) : -1;

        peer_init(&first, fd);
        _exit(fd >= 0 && peer_hello(&first, true) == INT32_MAX && peer_await_end(&first) ? 0 : 1);
    }
    TAP_OK(child > 0 && waitpid(child, &status, 0) == child);
    TAP_OK(WIFEXITED(status));
    TAP_EQ(WEXITSTATUS(status), 0);
    TAP_OK(serving_join(&serving, &second));
    TAP_EQ(second.answer.body.welcome.epoch, 1u);
    peer_finish(&second);
    serving_stop(&serving);
}

/* More callers that say nothing than there is room for: those who came first are turned away. */
static void test_silent(void)
{
    int fds[20];

    if (!serving_start(&serving, HV_NS_NEVER.v)) {
        return;
    }
    for (unsigned i = 0; i < HV_ARRAY_LEN(fds); i++) {
        fds[i] = serving_connect(&serving);
        TAP_OK(fds[i] >= 0);
    }
    TAP_OK(serving_join(&serving, &first));
    for (unsigned i = 0; i < 10; i++) {
        peer_init(&second, fds[i]);
        TAP_OK(peer_await_end(&second));
    }
    for (unsigned i = 0; i < HV_ARRAY_LEN(fds); i++) {
        close(fds[i]);
    }
    peer_finish(&first);
    serving_stop(&serving);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"control.lease.revoked", test_revoked},
        {"control.lease.asked", test_asked},
        {"control.lease.half-made", test_half_made},
        {"control.lease.unanswered", test_unanswered},
        {"control.lease.made-while-lost", test_made_while_lost},
        {"control.lease.gone-while-made", test_gone_while_made},
        {"control.lease.deaf", test_deaf},
        {"control.lease.linger", test_linger},
        {"control.lease.other-user", test_other_user},
        {"control.lease.silent", test_silent},
    };
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

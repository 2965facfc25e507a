/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Requests, events and bad messages on one connection. */
#include "base/clock.h"
#include "control/door.h"
#include "control/roster.h"
#include "guest-code.h"
#include "lib/tap.h"
#include "lib/threads.h"
#include "serving.h"
#include "sync/race.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <hv/stat-pages.h>

static struct serving serving;
static struct peer peer;

static bool begin(void)
{
    return serving_start(&serving, HV_NS_NEVER.v) && serving_join(&serving, &peer);
}

static void end(void)
{
    peer_finish(&peer);
    serving_stop(&serving);
}

static unsigned open_fds(void)
{
    DIR *directory = opendir("/proc/self/fd");
    unsigned count = 0;

    while (readdir(directory)) {
        count++;
    }
    closedir(directory);
    return count;
}

/* Writes 'x' to its serial port for ever. */
static const uint8_t chatter[] = {
    0x66, 0xba, 0xf8, 0x03, /* mov dx, 0x3f8 */
    0xb0, 'x',              /* mov al, 'x' */
    0xee,                   /* out dx, al */
    0xeb, 0xfd,             /* jmp to the out */
};

static void test_life(void)
{
    struct hv_op_answer event;
    uint64_t handle;
    bool running;

    if (!begin()) {
        return;
    }
    handle = peer_create(&peer, "greeter", true);
    TAP_OK(handle != 0 && peer_load(&peer, handle, greet, sizeof(greet)));
    TAP_EQ(peer_call_domain(&peer, HV_OP_UNPAUSE, handle), 0);
    TAP_OK(peer_event(&peer, &event));
    /* That it runs is told, unless it has ended by then. */
    running = event.header.op == HV_OP_STATE;
    TAP_OK(!running || event.body.state.status.state == HV_DOMAIN_STATE_RUNNING);
    /* Its last words come before its end. */
    for (uint64_t position = 0; position < 2; position += event.body.console.bytes) {
        if (running) {
            TAP_OK(peer_event(&peer, &event));
        }
        running = true;
        TAP_EQ(event.header.op, HV_OP_CONSOLE);
        TAP_EQ(event.body.console.handle, handle);
        TAP_EQ(event.body.console.position, position);
        TAP_EQ(event.body.console.data[0], position == 0 ? 'H' : 'i');
    }
    TAP_OK(peer_event(&peer, &event));
    TAP_EQ(event.header.op, HV_OP_STATE);
    TAP_EQ(event.body.state.status.state, HV_DOMAIN_STATE_SHUTDOWN);
    TAP_EQ(event.body.state.status.end, HV_DOMAIN_END_DEBUG_EXIT);
    TAP_EQ(event.body.state.status.code, 2u);
    TAP_EQ(peer_call_domain(&peer, HV_OP_CRASH, handle), 0);
    TAP_EQ(peer.answer.body.crash.vcpu, 0u);
    TAP_EQ(peer_call_domain(&peer, HV_OP_RESET, handle), 0);
    TAP_OK(peer_await_state(&peer, handle, HV_DOMAIN_STATE_PAUSED));
    TAP_EQ(peer_call_domain(&peer, HV_OP_STATUS, handle), 0);
    TAP_EQ(peer.answer.body.status.life, 1u);
    TAP_EQ(peer_call_domain(&peer, HV_OP_KILL, handle), 0);
    TAP_OK(peer_await_state(&peer, handle, HV_DOMAIN_STATE_GONE));
    TAP_EQ(peer_call_domain(&peer, HV_OP_STATUS, handle), -ENOENT);
    end();
}

#define EVENTS_THREAD 1u /* to race points */

size_t __real_hv_roster_next_event(struct hv_roster *roster, struct hv_op_answer *event_out);
size_t __wrap_hv_roster_next_event(struct hv_roster *roster, struct hv_op_answer *event_out);

size_t __wrap_hv_roster_next_event(struct hv_roster *roster, struct hv_op_answer *event_out)
{
    size_t bytes;

    hv_race_name_thread(EVENTS_THREAD);
    bytes = __real_hv_roster_next_event(roster, event_out);
    hv_race_name_thread(0);
    return bytes;
}

/* It runs, and that is to be told when it ends: what is told is the end then, and first its last words. */
static void test_last_words(void)
{
    struct hv_domain_status status;
    struct hv_domain *domain = NULL;
    struct hv_op_answer event;
    uint64_t handle;
    char said[3] = "";

    if (!begin()) {
        return;
    }
    handle = peer_create(&peer, "greeter", true);
    TAP_OK(handle != 0 && peer_load(&peer, handle, greet, sizeof(greet)));
    TAP_EQ(hv_domain_get(serving.core, (hv_handle){handle}, &domain), 0);
    hv_race_begin();
    hv_race_stop(EVENTS_THREAD, "roster.state.output-told", 0);
    TAP_EQ(peer_call_domain(&peer, HV_OP_UNPAUSE, handle), 0);
    TAP_OK(hv_race_await(EVENTS_THREAD, "roster.state.output-told"));
    do {
        sched_yield();
        hv_domain_get_status(domain, &status);
    } while (status.state != HV_DOMAIN_STATE_SHUTDOWN);
    hv_race_release(EVENTS_THREAD, "roster.state.output-told");
    TAP_OK(peer_event(&peer, &event));
    while (event.header.op == HV_OP_CONSOLE &&
           event.body.console.position + event.body.console.bytes <= 2) {
        memcpy(said + event.body.console.position, event.body.console.data,
               event.body.console.bytes);
        TAP_OK(peer_event(&peer, &event));
    }
    TAP_STR(said, "Hi");
    TAP_EQ(event.header.op, HV_OP_STATE);
    TAP_EQ(event.body.state.status.state, HV_DOMAIN_STATE_SHUTDOWN);
    hv_race_end();
    hv_domain_put(domain);
    end();
}

static void test_copy(void)
{
    struct hv_op_copy *copy = &peer.request.body.copy;
    uint64_t handle;

    if (!begin()) {
        return;
    }
    handle = peer_create(&peer, "copy", false);
    for (unsigned i = 0; i < 65536; i++) {
        peer.staging[i] = (uint8_t)(i * 3 + 1);
    }
    *copy = (struct hv_op_copy){handle, 0x100123, 65536, 0, HV_COPY_TO_GUEST, 0};
    TAP_EQ(peer_call(&peer, HV_OP_COPY, sizeof(*copy)), 0);
    copy->staging = HV_OP_STAGING_BYTES - 65536;
    copy->direction = HV_COPY_FROM_GUEST;
    TAP_EQ(peer_call(&peer, HV_OP_COPY, sizeof(*copy)), 0);
    TAP_OK(memcmp(peer.staging, peer.staging + copy->staging, 65536) == 0);
    copy->gpa = 0xa0000; /* no RAM */
    TAP_EQ(peer_call(&peer, HV_OP_COPY, sizeof(*copy)), -EINVAL);
    copy->gpa = UINT64_MAX;
    TAP_EQ(peer_call(&peer, HV_OP_COPY, sizeof(*copy)), -EINVAL);
    copy->handle = handle + 1;
    TAP_EQ(peer_call(&peer, HV_OP_COPY, sizeof(*copy)), -ENOENT);
    end();
}

/* Nothing of a machine is left when it cannot be made, and the value is named. */
static void test_refused(void)
{
    struct hv_op_create *create = &peer.request.body.create;

    if (!begin()) {
        return;
    }
    *create = (struct hv_op_create){
        .name = "a", .engine = "soft", .memory_bytes = 3 * HV_MIB + 1, .vcpus = 1};
    TAP_EQ(peer_call(&peer, HV_OP_CREATE, sizeof(*create)), -EINVAL);
    TAP_OK(strstr(peer.answer.body.refusal.why, "memory"));
    create->memory_bytes = 2 * HV_MIB;
    create->name[0] = '\0';
    TAP_EQ(peer_call(&peer, HV_OP_CREATE, sizeof(*create)), -EINVAL);
    TAP_OK(strstr(peer.answer.body.refusal.why, "name"));
    create->name[0] = 'a';
    create->engine[0] = 'X';
    TAP_EQ(peer_call(&peer, HV_OP_CREATE, sizeof(*create)), -ENOTSUP);
    create->engine[0] = 's';
    create->vcpus = 65;
    TAP_EQ(peer_call(&peer, HV_OP_CREATE, sizeof(*create)), -EINVAL);
    create->vcpus = 1;
    create->timers_absent = HV_TIMER_LAPIC;
    TAP_EQ(peer_call(&peer, HV_OP_CREATE, sizeof(*create)), -EINVAL);
    TAP_OK(strstr(peer.answer.body.refusal.why, "APIC"));
    create->timers_absent = 0;
    create->clock_policy = UINT32_MAX;
    TAP_EQ(peer_call(&peer, HV_OP_CREATE, sizeof(*create)), -EINVAL);
    TAP_OK(strstr(peer.answer.body.refusal.why, "clock"));
    create->clock_policy = 0;
    create->sched.weight = UINT32_MAX;
    TAP_EQ(peer_call(&peer, HV_OP_CREATE, sizeof(*create)), -EINVAL);
    TAP_EQ(serving_domains(&serving), 0u);
    end();
}

/* One that fits no operation is answered; the connection goes on. */
static void test_wrong(void)
{
    if (!begin()) {
        return;
    }
    TAP_EQ(peer_call(&peer, (enum hv_op)77, 0), -EPROTO);
    TAP_OK(strstr(peer.answer.body.refusal.why, "operation"));
    TAP_EQ(peer_call(&peer, HV_OP_CREATE, sizeof(struct hv_op_create) - 1), -EPROTO);
    TAP_EQ(peer_call(&peer, HV_OP_STATE, sizeof(struct hv_op_state)), -EPROTO);
    TAP_EQ(peer_hello(&peer, true), -EPROTO);
    TAP_EQ(peer_call_domain(&peer, HV_OP_PAUSE, 0), -ENOENT);
    TAP_EQ(peer_call_domain(&peer, HV_OP_PAUSE, UINT64_MAX), -ENOENT);
    end();
}

static bool send_with_fds(unsigned count)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(100 * sizeof(int))];
    } control = {0};
    struct hv_op_request request = {
        .header = {sizeof(struct hv_op_header) + sizeof(struct hv_op_after), HV_OP_LIST, 9, 0, 0}};
    struct iovec part = {&request, request.header.bytes};
    struct msghdr message = {
        .msg_iov = &part,
        .msg_iovlen = 1,
        .msg_control = &control,
        .msg_controllen = CMSG_SPACE(count * sizeof(int)),
    };
    int fds[100];

    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(count * sizeof(int));
    for (unsigned i = 0; i < count; i++) {
        fds[i] = STDERR_FILENO;
    }
    memcpy(CMSG_DATA(&control.header), fds, count * sizeof(int));
    return sendmsg(peer.fd, &message, MSG_NOSIGNAL) > 0;
}

/* Too short, too long, of another length than it says, with descriptors: the end, and no leak. */
static void test_broken(void)
{
    static uint8_t junk[sizeof(struct hv_op_request) + 100];
    static const unsigned lengths[] = {1,           23, 24, 32, sizeof(struct hv_op_request) + 1,
                                       sizeof(junk)};
    unsigned before;

    if (!serving_start(&serving, HV_NS_NEVER.v)) {
        return;
    }
    before = open_fds();
    for (unsigned i = 0; i < HV_ARRAY_LEN(lengths); i++) {
        TAP_OK(serving_join(&serving, &peer));
        TAP_OK(send(peer.fd, junk, lengths[i], MSG_NOSIGNAL) == (ssize_t)lengths[i]);
        TAP_OK(peer_await_end(&peer));
        peer_finish(&peer);
        /* And before HELLO. */
        peer_init(&peer, serving_connect(&serving));
        TAP_OK(send(peer.fd, junk, lengths[i], MSG_NOSIGNAL) == (ssize_t)lengths[i]);
        TAP_OK(peer_await_end(&peer));
        peer_finish(&peer);
    }
    for (unsigned fds = 1; fds <= 100; fds = fds * 3 + 1) {
        TAP_OK(serving_join(&serving, &peer));
        TAP_OK(send_with_fds(fds));
        TAP_OK(peer_await_end(&peer));
        peer_finish(&peer);
    }
    TAP_AWAIT(open_fds() == before);
    serving_stop(&serving);
}

static void test_hello_first(void)
{
    if (!serving_start(&serving, HV_NS_NEVER.v)) {
        return;
    }
    peer_init(&peer, serving_connect(&serving));
    TAP_EQ(peer_call(&peer, HV_OP_LIST, sizeof(struct hv_op_after)), -EPROTO);
    TAP_OK(strstr(peer.answer.body.refusal.why, "HELLO"));
    TAP_OK(peer_await_end(&peer));
    peer_finish(&peer);
    peer_init(&peer, serving_connect(&serving));
    peer.request.body.hello = (struct hv_op_hello){HV_OP_MAGIC, HV_OP_VERSION + 1, 1};
    TAP_EQ(peer_call(&peer, HV_OP_HELLO, sizeof(struct hv_op_hello)), -EPROTO);
    TAP_OK(strstr(peer.answer.body.refusal.why, "version"));
    TAP_OK(peer_await_end(&peer));
    end();
}

/* Leave the process as many descriptors as it has, or as many as it wants. */
static void limit_fds(bool limited)
{
    static struct rlimit before;
    struct rlimit limit;
    int next;

    if (!limited) {
        TAP_OK(setrlimit(RLIMIT_NOFILE, &before) == 0);
        return;
    }
    next = dup(0);
    TAP_OK(next >= 0 && close(next) == 0 && getrlimit(RLIMIT_NOFILE, &before) == 0);
    limit = (struct rlimit){(rlim_t)next, before.rlim_max};
    TAP_OK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

/* Who comes while there is no descriptor for him waits outside, and the door is shut meanwhile. */
static void test_no_descriptors(void)
{
    const hv_ns now = hv_clock_host_now();
    struct hv_door door;
    struct peer late;

    if (!begin()) {
        return;
    }
    /* One that nobody serves. */
    hv_door_init(&door, dup(serving.listener));
    TAP_EQ(peer_call(&peer, HV_OP_LIST, sizeof(struct hv_op_after)), 0);
    peer_init(&late, socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    limit_fds(true);
    TAP_OK(serving_reach(&serving, late.fd));
    hv_door_accept(&door, now);
    TAP_EQ(door.callers, 0);
    TAP_EQ(door.shut_until.v, now.v + HV_DOOR_SHUT_NS);
    /* The one with the lease does not notice. */
    TAP_EQ(peer_call(&peer, HV_OP_LIST, sizeof(struct hv_op_after)), 0);
    limit_fds(false);
    /* Now he comes in, and takes the lease. */
    TAP_EQ(peer_hello(&late, true), 0);
    TAP_OK(peer_await_end(&peer));
    close(door.listener);
    peer_finish(&late);
    end();
}

/* The next output; what is told of the machine's state meanwhile is left aside. */
static bool await_console(struct hv_op_answer *event_out)
{
    bool came;

    do {
        came = peer_event(&peer, event_out);
    } while (came && event_out->header.op != HV_OP_CONSOLE);
    return came;
}

/* A controller that takes no output stops the machine's writing, and nothing else. */
static void test_back_pressure(void)
{
    struct hv_op_answer event;
    uint64_t handle, position = 0;

    if (!begin()) {
        return;
    }
    handle = peer_create(&peer, "chatter", true);
    TAP_OK(handle != 0 && peer_load(&peer, handle, chatter, sizeof(chatter)));
    TAP_EQ(peer_call_domain(&peer, HV_OP_UNPAUSE, handle), 0);
    while (position < HV_OP_CONSOLE_WINDOW) {
        TAP_OK(peer_event(&peer, &event));
        if (event.header.op == HV_OP_CONSOLE) {
            TAP_EQ(event.body.console.position, position);
            position += event.body.console.bytes;
        }
    }
    TAP_EQ(position, HV_OP_CONSOLE_WINDOW);
    /* What comes next is no output, though there is more. */
    TAP_EQ(peer_call_domain(&peer, HV_OP_PAUSE, handle), 0);
    do {
        TAP_OK(peer_event(&peer, &event));
        TAP_EQ(event.header.op, HV_OP_STATE);
    } while (event.body.state.status.state != HV_DOMAIN_STATE_PAUSED);
    /* It was taken: the rest comes, which the machine may not have written yet. */
    TAP_EQ(peer_call_domain(&peer, HV_OP_UNPAUSE, handle), 0);
    peer.request.body.accept = (struct hv_op_accept){handle, position};
    TAP_OK(peer_send(&peer, HV_OP_ACCEPT, sizeof(struct hv_op_accept)));
    TAP_OK(await_console(&event));
    TAP_EQ(event.body.console.position, position);
    /* A new controller has the output from where the last was sure to have it. */
    peer_finish(&peer);
    TAP_OK(serving_join(&serving, &peer));
    TAP_EQ(peer_call_domain(&peer, HV_OP_ATTACH, handle), 0);
    TAP_EQ(peer.answer.body.attached.position, position);
    TAP_OK(await_console(&event));
    TAP_EQ(event.body.console.position, position);
    end();
}

static void test_console_input(void)
{
    struct hv_op_console *console = &peer.request.body.console;
    uint64_t handle, taken = 0;

    if (!begin()) {
        return;
    }
    handle = peer_create(&peer, "input", false);
    TAP_EQ(peer_call_domain(&peer, HV_OP_ATTACH, handle), -ENOTSUP);
    do {
        *console = (struct hv_op_console){.handle = handle, .bytes = HV_OP_CONSOLE_BYTES};
        TAP_EQ(peer_call(&peer, HV_OP_CONSOLE_IN, sizeof(*console)), 0);
        taken += peer.answer.body.taken.bytes;
    } while (peer.answer.body.taken.bytes == HV_OP_CONSOLE_BYTES);
    TAP_OK(taken >= 16); /* its FIFO, at least, and not more than there is room for */
    end();
}

static void test_list(void)
{
    uint64_t handle[4];

    if (!begin()) {
        return;
    }
    for (unsigned i = 0; i < 3; i++) {
        char name[2] = {(char)('a' + i), '\0'};

        handle[i] = peer_create(&peer, name, false);
    }
    TAP_EQ(peer_call_domain(&peer, HV_OP_KEEP, handle[1]), 0);
    peer.request.body.after.handle = 0;
    TAP_EQ(peer_call(&peer, HV_OP_LIST, sizeof(struct hv_op_after)), 0);
    TAP_EQ(peer.answer.body.listing.count, 3u);
    for (unsigned i = 0; i < 3; i++) {
        const struct hv_op_listed *listed = &peer.answer.body.listing.listed[i];

        TAP_EQ(listed->handle, handle[i]);
        TAP_EQ(listed->name[0], 'a' + i);
        TAP_EQ(listed->kept, i == 1);
        TAP_EQ(listed->state, HV_DOMAIN_STATE_PAUSED);
    }
    peer.request.body.after.handle = handle[1];
    TAP_EQ(peer_call(&peer, HV_OP_LIST, sizeof(struct hv_op_after)), 0);
    TAP_EQ(peer.answer.body.listing.count, 1u);
    TAP_EQ(peer.answer.body.listing.listed[0].handle, handle[2]);
    end();
}

static void check_list_of(enum hv_stat_pages_kind kind, uint64_t handle, const char *name)
{
    const struct hv_stat_pages_record *records;
    size_t bytes;
    bool found = false;

    peer.request.body.stats = (struct hv_op_stats){.kind = kind, .handle = handle};
    TAP_EQ(peer_call(&peer, HV_OP_STATS, sizeof(struct hv_op_stats)), 0);
    TAP_OK(peer.answer.body.stats.count > 0 && peer.statistics >= 0);
    bytes = peer.answer.body.stats.count * sizeof(*records);
    TAP_EQ(lseek(peer.statistics, 0, SEEK_END), bytes);
    TAP_OK(ftruncate(peer.statistics, 0) < 0 && pwrite(peer.statistics, "", 1, 0) < 0);
    records = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, peer.statistics, 0);
    TAP_OK(records != MAP_FAILED);
    for (uint64_t i = 0; i < peer.answer.body.stats.count; i++) {
        found = found || strcmp(records[i].name, name) == 0;
    }
    munmap((void *)(uintptr_t)records, bytes);
    close(peer.statistics);
    peer.statistics = -1;
    TAP_OK(found);
}

static void test_stats(void)
{
    uint64_t handle;

    if (!begin()) {
        return;
    }
    close(peer.statistics);
    peer.statistics = -1;
    handle = peer_create(&peer, "stats", false);
    check_list_of(HV_STAT_PAGES_CORE, 0, "heap.total");
    check_list_of(HV_STAT_PAGES_LOCKS, 0, "lock.0.class");
    check_list_of(HV_STAT_PAGES_DOMAIN, handle, "vcpu.0.time");
    peer.request.body.stats = (struct hv_op_stats){HV_STAT_PAGES_DOMAIN, 0, handle + 1};
    TAP_EQ(peer_call(&peer, HV_OP_STATS, sizeof(struct hv_op_stats)), -ENOENT);
    end();
}

static void test_tuning(void)
{
    uint64_t handle;

    if (!begin()) {
        return;
    }
    handle = peer_create(&peer, "tuned", false);
    peer.request.body.set_sched = (struct hv_op_set_sched){.handle = handle, .sched.weight = 512};
    TAP_EQ(peer_call(&peer, HV_OP_SET_SCHED, sizeof(struct hv_op_set_sched)), 0);
    TAP_EQ(peer_call_domain(&peer, HV_OP_GET_SCHED, handle), 0);
    TAP_EQ(peer.answer.body.sched.weight, 512u);
    peer.request.body.set_sched =
        (struct hv_op_set_sched){.handle = handle, .sched.weight = 1u << 31};
    TAP_EQ(peer_call(&peer, HV_OP_SET_SCHED, sizeof(struct hv_op_set_sched)), -EINVAL);
    TAP_OK(strlen(peer.answer.body.refusal.why) > 0);
    peer.request.body.set_tick =
        (struct hv_op_set_tick){.handle = handle, .source = HV_VPT_PIT, .kind = HV_TICK_DELAY};
    TAP_EQ(peer_call(&peer, HV_OP_SET_TICK, sizeof(struct hv_op_set_tick)), 0);
    peer.request.body.set_tick = (struct hv_op_set_tick){
        .handle = handle, .source = HV_VPT_PIT, .kind = HV_TICK_CATCHUP, .slew_per_cent = 1};
    TAP_EQ(peer_call(&peer, HV_OP_SET_TICK, sizeof(struct hv_op_set_tick)), -EINVAL);
    TAP_EQ(peer_call_domain(&peer, HV_OP_TEARDOWN, handle), 0);
    TAP_OK(peer.answer.body.teardown.pages_held == 0);
    TAP_EQ(peer_call_domain(&peer, HV_OP_HOLDS, handle), 0);
    TAP_EQ(peer.answer.body.holds.count, 0u);
    TAP_EQ(peer_call_domain(&peer, HV_OP_POWER, handle), -EBUSY);
    TAP_EQ(peer_call_domain(&peer, HV_OP_NMI, handle), -EBUSY);
    end();
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"control.server.life", test_life},
        {"control.server.last-words", test_last_words},
        {"control.server.copy", test_copy},
        {"control.server.refused", test_refused},
        {"control.server.wrong", test_wrong},
        {"control.server.broken", test_broken},
        {"control.server.hello-first", test_hello_first},
        {"control.server.no-descriptors", test_no_descriptors},
        {"control.server.back-pressure", test_back_pressure},
        {"control.server.console-input", test_console_input},
        {"control.server.list", test_list},
        {"control.server.stats", test_stats},
        {"control.server.tuning", test_tuning},
    };
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

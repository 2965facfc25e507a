/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The thread that reads: leases, and requests to the workers. See server.h. */
#include "control/server.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "control/door.h"
#include "control/link.h"
#include "control/operation.h"
#include "control/packet.h"
#include "control/request.h"
#include "control/roster.h"
#include "control/workers.h"
#include "domain/core.h"
#include "sync/race.h"
#include "sync/thread.h"

#include <hv/stat-pages.h>

enum lease {
    LEASE_FREE,
    LEASE_HELD,
    LEASE_DRAINING,
};

struct hv_control {
    /* Set at creation. */
    struct hv_core *core;
    const struct hv_control_refused *refused;
    uint64_t linger_ns;
    int wake; /* eventfd; owned */
    struct hv_roster roster;
    struct hv_workers workers;
    pthread_t events;
    bool events_run;

    struct hv_lock lock; /* HV_RANK_LEAF */
    /* Guarded by &lock: changed by the thread of hv_control_run() alone. */
    struct hv_link *link; /* NULL unless LEASE_HELD; with a reference */

    /* Atomic. */
    _Atomic uint32_t stopping;

    /* Owned by the thread of hv_control_run(). */
    struct hv_door door;
    enum lease lease;
    struct hv_link *ending;          /* of the lease that is DRAINING; its connection is shut */
    int successor;                   /* who gets it then; -1: nobody */
    struct hv_op_request succession; /* his HELLO */
    uint64_t epoch;
    hv_ns lingers_until; /* HV_NS_NEVER: it is not idle, or never ends by itself */
};

static void wake(void *context)
{
    const struct hv_control *control = context;
    uint64_t one = 1;
    ssize_t written = write(control->wake, &one, sizeof(one));

    (void)written; /* it is full: he will look */
}

static void take_wake(const struct hv_control *control)
{
    uint64_t count;
    ssize_t got = read(control->wake, &count, sizeof(count));

    (void)got; /* that it was woken is all there is to know */
}

void hv_control_stop(struct hv_control *control)
{
    hv_store_seq(&control->stopping, 1);
    wake(control);
    hv_eventcount_signal(&control->core->changes);
}

/* ---- workers ---- */

static void run_request(void *context, const struct hv_work *work)
{
    struct hv_control *control = context;
    const struct hv_operation_site site = {
        .core = control->core,
        .roster = &control->roster,
        .staging = work->link->staging,
    };
    struct hv_op_answer answer;
    int fd = -1;
    int rc = 0;

    if (work->fault) {
        hv_operation_refuse(&work->request, -EPROTO, work->fault, &answer);
    } else {
        hv_operation_run(&site, &work->request, &answer, &fd);
    }
    HV_RACE("control.request.done");
    if (work->fault || hv_request_is_answered(&work->request)) {
        rc = hv_packet_send(work->link->fd, &answer, answer.header.bytes, &fd, fd >= 0 ? 1 : 0);
    }
    (void)rc; /* he is gone: his lease ends by that */
    if (fd >= 0) {
        close(fd);
    }
}

/* ---- events ---- */

static struct hv_link *get_link(struct hv_control *control)
{
    struct hv_link *link;

    hv_lock_take(&control->lock);
    link = control->link;
    if (link) {
        hv_link_get(link);
    }
    hv_lock_drop(&control->lock);
    return link;
}

/* The link first: what was taken for one lease never goes to another. */
static bool send_event(struct hv_control *control)
{
    struct hv_link *link = get_link(control);
    struct hv_op_answer event;
    size_t bytes = hv_roster_next_event(&control->roster, &event);

    if (bytes > 0 && link) {
        int rc = hv_packet_send(link->fd, &event, bytes, NULL, 0);

        (void)rc; /* as above */
    }
    hv_link_put(link);
    if (bytes > 0 && hv_roster_is_last(&event) && hv_roster_count(&control->roster) == 0) {
        /* It was the last machine: its host has all that machines needed, back. */
        hv_alloc_trim();
        wake(control);
    }
    return bytes > 0;
}

static void *run_events(void *context)
{
    struct hv_control *control = context;
    struct hv_eventcount *changes = &control->core->changes;

    while (!hv_load_seq(&control->stopping)) {
        uint32_t ticket = hv_eventcount_listen(changes);

        if (send_event(control)) {
            hv_eventcount_cancel(changes);
            continue;
        }
        if (hv_load_seq(&control->stopping)) {
            hv_eventcount_cancel(changes);
            break;
        }
        hv_eventcount_wait(changes, ticket, HV_NS_NEVER);
    }
    return NULL;
}

/* ---- leases ---- */

static void publish_link(struct hv_control *control, struct hv_link *link)
{
    hv_lock_take(&control->lock);
    control->link = link;
    hv_lock_drop(&control->lock);
}

static void fill_welcome(const struct hv_control *control, const struct hv_op_request *hello,
                         struct hv_op_answer *answer)
{
    struct hv_op_welcome *welcome = &answer->body.welcome;
    const struct hv_control_refused *refused = control->refused;

    hv_operation_accept(hello, sizeof(*welcome), answer);
    *welcome = (struct hv_op_welcome){
        .magic = HV_OP_MAGIC,
        .version = HV_OP_VERSION,
        .staging_bytes = HV_OP_STAGING_BYTES,
        .epoch = control->epoch,
        .refused_calls = refused ? hv_load_relaxed(&refused->calls) : 0,
        .refused_call = refused ? hv_load_relaxed(&refused->last) : 0,
        .held = control->lease == LEASE_HELD,
        .domains = (uint32_t)hv_core_list(control->core, NULL, 0),
    };
}

/* He only asks. */
static void tell(const struct hv_control *control, int fd, const struct hv_op_request *hello)
{
    struct hv_op_answer answer;
    int rc;

    fill_welcome(control, hello, &answer);
    rc = hv_packet_send(fd, &answer, answer.header.bytes, NULL, 0);
    (void)rc;
    close(fd);
}

/* Why hv_link_create() has made none. */
static const char *no_link(int rc)
{
    switch (rc) {
    case -EAGAIN:
        return "the host has no file descriptor for a staging area";
    case -ENOTSUP:
        return "the host cannot seal a staging area: it takes Linux 3.17";
    default:
        return "the host has no memory for a staging area";
    }
}

/* Answered first, and published then: no event comes before the answer. */
static void grant(struct hv_control *control, int fd, const struct hv_op_request *hello)
{
    struct hv_op_answer answer;
    struct hv_link *link;
    int fds[HV_OP_FDS_MAX];
    int rc = hv_link_create(fd, &link);

    HV_ASSERT(control->lease == LEASE_FREE);
    if (rc < 0) {
        hv_door_refuse(fd, hello, rc, no_link(rc));
        return;
    }
    control->epoch++;
    control->lease = LEASE_HELD;
    fill_welcome(control, hello, &answer);
    fds[0] = link->staging_fd;
    fds[1] = hv_core_stat_fd(control->core);
    answer.body.welcome.statistics = fds[1] >= 0;
    rc = hv_packet_send(fd, &answer, answer.header.bytes, fds, fds[1] >= 0 ? 2 : 1);
    (void)rc; /* the next look at his connection says so */
    publish_link(control, link);
}

static void set_successor(struct hv_control *control, int fd, const struct hv_op_request *hello)
{
    if (control->successor >= 0) {
        hv_door_refuse(control->successor, &control->succession, -ECANCELED,
                       "another controller has asked for the lease since");
    }
    control->successor = fd;
    if (fd >= 0) {
        control->succession = *hello;
    }
}

/* From here on nothing of it is begun; what is at work comes to its end. */
static void begin_drain(struct hv_control *control)
{
    HV_ASSERT(control->lease == LEASE_HELD);
    control->ending = control->link;
    publish_link(control, NULL);
    hv_link_shut(control->ending);
    hv_workers_cancel(&control->workers);
    control->lease = LEASE_DRAINING;
}

static void end_drain(struct hv_control *control)
{
    int successor = control->successor;

    hv_roster_end_lease(&control->roster);
    hv_link_put(control->ending);
    control->ending = NULL;
    control->lease = LEASE_FREE;
    if (successor >= 0) {
        control->successor = -1;
        grant(control, successor, &control->succession);
    }
}

static void on_hello(struct hv_control *control, int fd, const struct hv_op_request *hello)
{
    if (!hello->body.hello.lease) {
        tell(control, fd, hello);
        return;
    }
    if (control->lease == LEASE_FREE) {
        grant(control, fd, hello);
        return;
    }
    set_successor(control, fd, hello);
    if (control->lease == LEASE_HELD) {
        begin_drain(control);
    }
}

/* ---- requests ---- */

/* One packet: false when there is none, or no room for it. */
static bool read_request(struct hv_control *control)
{
    struct hv_work *work = hv_workers_take(&control->workers);
    enum hv_request_verdict verdict;
    struct hv_packet packet;
    const char *why = "it brings a file descriptor";
    int rc;

    if (!work) {
        return false;
    }
    rc = hv_packet_receive(control->link->fd, &work->request, sizeof(work->request), &packet);
    if (rc == -EAGAIN) {
        hv_workers_give_back(&control->workers, work);
        return false;
    }
    verdict = rc < 0 || packet.bytes == 0 || packet.fds > 0
                  ? HV_REQUEST_BROKEN
                  : hv_request_check(&work->request, packet.bytes, &why);
    if (verdict == HV_REQUEST_BROKEN) {
        if (rc == 0 && packet.bytes > 0) {
            hv_log(HV_LOG_LEVEL_WARNING,
                   "the controller's connection ends: a message of %zu bytes: %s", packet.bytes,
                   why);
        }
        hv_workers_give_back(&control->workers, work);
        begin_drain(control);
        return false;
    }
    work->link = control->link;
    work->fault = verdict == HV_REQUEST_WRONG ? why : NULL;
    hv_workers_submit(&control->workers, work);
    return true;
}

/* Those who wait at the door get their turn now and then. */
#define REQUESTS_A_TURN 16

static void read_requests(struct hv_control *control)
{
    for (unsigned i = 0; i < REQUESTS_A_TURN && read_request(control); i++) {
    }
}

/* ---- the loop ---- */

enum {
    POLL_WAKE,
    POLL_LISTENER,
    POLL_LINK,
    POLL_CALLERS,
    POLL_COUNT = POLL_CALLERS + HV_DOOR_CALLERS_MAX,
};

static bool is_idle(struct hv_control *control)
{
    return control->lease == LEASE_FREE && control->door.callers == 0 &&
           hv_roster_count(&control->roster) == 0;
}

static void linger(struct hv_control *control, hv_ns now)
{
    if (!is_idle(control)) {
        control->lingers_until = HV_NS_NEVER;
    } else if (control->lingers_until.v == HV_NS_NEVER.v) {
        control->lingers_until = hv_ns_add(now, control->linger_ns);
    }
}

/* As poll(2) wants it: in ms, rounded up; -1: for ever. */
static int sleep_until(hv_ns end, hv_ns now)
{
    uint64_t ms = (end.v - now.v) / HV_NS_PER_MS + 1;

    if (end.v == HV_NS_NEVER.v) {
        return -1;
    }
    return ms < INT32_MAX ? (int)ms : INT32_MAX;
}

static bool nobody_can_come(const struct hv_control *control)
{
    return control->door.listener < 0 && control->door.callers == 0 && control->lease == LEASE_FREE;
}

static bool is_full(struct hv_control *control)
{
    struct hv_work *work = hv_workers_take(&control->workers);

    if (work) {
        hv_workers_give_back(&control->workers, work);
    }
    return !work;
}

/* poll(2) leaves out negative descriptors. */
static void look_at(struct hv_control *control, bool shut, struct pollfd *polls)
{
    for (unsigned i = 0; i < POLL_COUNT; i++) {
        polls[i] = (struct pollfd){.fd = -1, .events = POLLIN};
    }
    polls[POLL_WAKE].fd = control->wake;
    if (!shut) {
        polls[POLL_LISTENER].fd = control->door.listener;
    }
    if (control->lease == LEASE_HELD && !is_full(control)) {
        polls[POLL_LINK].fd = control->link->fd;
    }
    for (unsigned i = 0; i < control->door.callers; i++) {
        polls[POLL_CALLERS + i].fd = control->door.caller[i];
    }
}

/* The last first: who is heard leaves the row. */
static void hear_callers(struct hv_control *control, const struct pollfd *polls)
{
    for (unsigned i = control->door.callers; i-- > 0;) {
        struct hv_op_request hello;
        int fd;

        if (polls[POLL_CALLERS + i].revents && hv_door_hear(&control->door, i, &hello, &fd) == 0) {
            on_hello(control, fd, &hello);
        }
    }
}

static void serve(struct hv_control *control, const struct pollfd *polls)
{
    if (polls[POLL_WAKE].revents) {
        take_wake(control);
    }
    hear_callers(control, polls);
    if (polls[POLL_LISTENER].revents) {
        hv_door_accept(&control->door, hv_clock_host_now());
    }
    /* Who has got the lease since it was looked at was not polled. */
    if (polls[POLL_LINK].revents && control->lease == LEASE_HELD) {
        read_requests(control);
    }
    if (control->lease == LEASE_DRAINING && hv_workers_idle(&control->workers)) {
        end_drain(control);
    }
}

void hv_control_run(struct hv_control *control)
{
    while (!hv_load_seq(&control->stopping) && !nobody_can_come(control)) {
        struct pollfd polls[POLL_COUNT];
        hv_ns now = hv_clock_host_now(), end;
        bool shut = hv_ns_before(now, control->door.shut_until);

        linger(control, now);
        end = control->lingers_until;
        if (!hv_ns_before(now, end)) {
            return;
        }
        if (shut && hv_ns_before(control->door.shut_until, end)) {
            end = control->door.shut_until;
        }
        look_at(control, shut, polls);
        if (poll(polls, POLL_COUNT, sleep_until(end, now)) > 0) {
            serve(control, polls);
        }
    }
}

/* ---- beginning and end ---- */

/* All that hv_control_destroy() looks at is set, whatever is missing. */
static int start(struct hv_control *control)
{
    int rc;

    control->workers.owner = &control->core->locks;
    control->workers.run = run_request;
    control->workers.done = wake;
    control->workers.context = control;
    rc = hv_workers_init(&control->workers);
    control->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (rc == 0 && control->wake < 0) {
        rc = -EAGAIN;
    }
    if (rc == 0) {
        rc = hv_thread_start(&control->events, "hv-events", run_events, control);
        control->events_run = rc == 0;
    }
    return rc;
}

int hv_control_create(const struct hv_control_config *config, struct hv_control **control_out)
{
    struct hv_control *control = hv_alloc(1, sizeof(*control));
    struct hv_lock_owner *before;
    int rc;

    *control_out = NULL;
    if (!control) {
        return -ENOMEM;
    }
    control->core = config->core;
    control->refused = config->refused;
    control->linger_ns = config->linger_ns;
    control->successor = -1;
    control->lingers_until = HV_NS_NEVER;
    before = hv_lock_owner_use(&config->core->locks);
    hv_lock_init(&control->lock, HV_RANK_LEAF, "control.link", 0);
    hv_roster_init(&control->roster, config->core);
    hv_door_init(&control->door, config->listener);
    rc = start(control);
    hv_lock_owner_use(before);
    if (rc < 0) {
        hv_control_destroy(control);
        return rc;
    }
    if (config->caller >= 0) {
        hv_door_add(&control->door, config->caller);
    }
    *control_out = control;
    return 0;
}

/* Nothing waits for a controller any more, and nothing is at work. */
static void end_lease(struct hv_control *control)
{
    if (control->lease == LEASE_HELD) {
        begin_drain(control);
    }
    set_successor(control, -1, NULL);
    while (!hv_workers_idle(&control->workers)) {
        struct pollfd woken = {.fd = control->wake, .events = POLLIN};

        poll(&woken, 1, -1);
        take_wake(control);
    }
    hv_link_put(control->ending);
}

void hv_control_destroy(struct hv_control *control)
{
    if (!control) {
        return;
    }
    hv_control_stop(control);
    end_lease(control);
    hv_workers_finish(&control->workers);
    if (control->events_run) {
        pthread_join(control->events, NULL);
    }
    hv_door_finish(&control->door);
    hv_roster_finish(&control->roster);
    hv_lock_finish(&control->lock);
    if (control->wake >= 0) {
        close(control->wake);
    }
    hv_free(control);
}

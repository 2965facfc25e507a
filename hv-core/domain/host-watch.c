/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Waiting for the host's clock to be another: see host-watch.h. */
#include "domain/host-watch.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "domain/core.h"
#include "domain/domain.h"
#include "sync/futex.h"
#include "sync/thread.h"

/* The year 2242: the timer is there to be cancelled. */
#define NEVER_S ((time_t)1 << 33)

struct hv_host_watch {
    struct hv_core *core; /* borrowed */
    int timer, wake;      /* -1: not open */
    bool runs;
    pthread_t thread;
    hv_handle *listed; /* the thread's own */
    /* Atomic. */
    _Atomic bool stopping;
    _Atomic uint32_t looks;
};

static void look(struct hv_host_watch *watch)
{
    size_t count = hv_directory_list(&watch->core->directory, watch->listed, HV_DIRECTORY_IDS);

    for (size_t i = 0; i < count; i++) {
        struct hv_domain *domain;

        if (hv_directory_get(&watch->core->directory, watch->listed[i], &domain) == 0) {
            hv_domain_follow_host(domain);
            hv_domain_put(domain);
        }
    }
    hv_add_seq(&watch->looks, 1);
    hv_futex_wake(&watch->looks, INT32_MAX);
}

/* What is read does not matter: that there is something says that the clock was set, or who asked. */
static void drain(int fd)
{
    uint64_t count;

    while (read(fd, &count, sizeof(count)) < 0 && errno == EINTR) {
    }
}

static void *run(void *context)
{
    struct hv_host_watch *watch = context;
    struct pollfd ready[] = {{.fd = watch->timer, .events = POLLIN},
                             {.fd = watch->wake, .events = POLLIN}};

    for (;;) {
        if (poll(ready, HV_ARRAY_LEN(ready), -1) < 0) {
            HV_BUG_ON(errno != EINTR);
            continue;
        }
        drain(watch->timer);
        drain(watch->wake);
        if (hv_load_seq(&watch->stopping)) {
            return NULL;
        }
        look(watch);
    }
}

static int open_files(struct hv_host_watch *watch)
{
    const struct itimerspec never = {.it_value = {.tv_sec = NEVER_S}};

    watch->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    watch->timer = timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (watch->wake < 0 || watch->timer < 0) {
        return errno == EMFILE || errno == ENFILE ? -EAGAIN : -ENOMEM;
    }
    if (timerfd_settime(watch->timer, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &never, NULL) <
        0) {
        return -ENOTSUP;
    }
    return 0;
}

int hv_host_watch_create(struct hv_core *core, struct hv_host_watch **watch_out)
{
    struct hv_host_watch *watch = hv_alloc(1, sizeof(*watch));
    int rc;

    *watch_out = NULL;
    if (!watch) {
        return -ENOMEM;
    }
    *watch = (struct hv_host_watch){.core = core, .timer = -1, .wake = -1};
    watch->listed = hv_alloc(HV_DIRECTORY_IDS, sizeof(*watch->listed));
    rc = watch->listed ? open_files(watch) : -ENOMEM;
    if (rc == 0) {
        rc = hv_thread_start(&watch->thread, "hv-host-clock", run, watch);
        watch->runs = rc == 0;
    }
    if (rc < 0) {
        hv_host_watch_destroy(watch);
        return rc;
    }
    *watch_out = watch;
    return 0;
}

static void close_if_open(int fd)
{
    if (fd >= 0) {
        close(fd);
    }
}

void hv_host_watch_destroy(struct hv_host_watch *watch)
{
    if (!watch) {
        return;
    }
    if (watch->runs) {
        hv_store_seq(&watch->stopping, true);
        hv_host_watch_look(watch);
        pthread_join(watch->thread, NULL);
    }
    close_if_open(watch->timer);
    close_if_open(watch->wake);
    hv_free(watch->listed);
    hv_free(watch);
}

void hv_host_watch_look(struct hv_host_watch *watch)
{
    const uint64_t one = 1;

    /* Full after 2^64 asks: then it is awake already. */
    (void)!write(watch->wake, &one, sizeof(one));
}

const _Atomic uint32_t *hv_host_watch_looks(const struct hv_host_watch *watch)
{
    return &watch->looks;
}

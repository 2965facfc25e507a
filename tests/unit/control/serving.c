/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A server on a thread: see serving.h. */
#include "serving.h"

#include "lib/tap.h"
#include "sync/atomic.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static socklen_t address_of(const struct serving *serving, struct sockaddr_un *address)
{
    size_t length = strlen(serving->name);

    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    /* Abstract: it begins with a zero, and leaves nothing behind. */
    memcpy(address->sun_path + 1, serving->name, length);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

static bool open_listener(struct serving *serving)
{
    static unsigned count;
    struct sockaddr_un address;
    socklen_t length;

    snprintf(serving->name, sizeof(serving->name), "lodge-test-%d-%u", (int)getpid(), count++);
    length = address_of(serving, &address);
    serving->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    return serving->listener >= 0 &&
           bind(serving->listener, (struct sockaddr *)&address, length) == 0 &&
           listen(serving->listener, 8) == 0;
}

static void *run(void *context)
{
    struct serving *serving = context;

    hv_control_run(serving->control);
    hv_store_seq(&serving->ended, true);
    return NULL;
}

bool serving_start(struct serving *serving, uint64_t linger_ns)
{
    const struct hv_core_config core = {
        .workers = 1,
        .memory_bytes = 64 * HV_MIB,
        .stat_period_ns = HV_NS_PER_S,
    };
    struct hv_control_config control = {.caller = -1, .linger_ns = linger_ns};

    memset(serving, 0, sizeof(*serving));
    if (!open_listener(serving) || hv_core_create(&core, &serving->core) < 0) {
        tap_fail(__FILE__, __LINE__, "no socket, or no core");
        return false;
    }
    control.core = serving->core;
    control.listener = serving->listener;
    if (hv_control_create(&control, &serving->control) < 0 ||
        pthread_create(&serving->thread, NULL, run, serving) != 0) {
        tap_fail(__FILE__, __LINE__, "no server");
        return false;
    }
    return true;
}

void serving_stop(struct serving *serving)
{
    hv_control_stop(serving->control);
    pthread_join(serving->thread, NULL);
    hv_control_destroy(serving->control);
    hv_core_destroy(serving->core);
    close(serving->listener);
}

bool serving_reach(const struct serving *serving, int fd)
{
    struct sockaddr_un address;
    socklen_t length = address_of(serving, &address);

    return connect(fd, (struct sockaddr *)&address, length) == 0;
}

int serving_connect(const struct serving *serving)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    if (fd >= 0 && !serving_reach(serving, fd)) {
        close(fd);
        return -1;
    }
    return fd;
}

bool serving_join(const struct serving *serving, struct peer *peer)
{
    int fd = serving_connect(serving);

    peer_init(peer, fd);
    if (fd < 0 || peer_hello(peer, true) != 0 || !peer->staging) {
        tap_fail(__FILE__, __LINE__, "no lease");
        return false;
    }
    return true;
}

size_t serving_domains(const struct serving *serving)
{
    return hv_core_list(serving->core, NULL, 0);
}

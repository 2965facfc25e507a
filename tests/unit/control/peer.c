/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Packets by hand: see peer.h. */
#include "peer.h"

#include "lib/tap.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define CODE HV_MIB

void peer_init(struct peer *peer, int fd)
{
    const struct timeval patience = {.tv_sec = 10};

    *peer = (struct peer){.fd = fd, .statistics = -1};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
}

void peer_finish(struct peer *peer)
{
    if (peer->staging) {
        munmap(peer->staging, HV_OP_STAGING_BYTES);
    }
    if (peer->statistics >= 0) {
        close(peer->statistics);
    }
    close(peer->fd);
    *peer = (struct peer){.fd = -1, .statistics = -1};
}

bool peer_send(struct peer *peer, enum hv_op op, size_t bytes)
{
    peer->request.header = (struct hv_op_header){
        .bytes = (uint32_t)(sizeof(peer->request.header) + bytes),
        .op = op,
        .serial = ++peer->serial,
    };
    return send(peer->fd, &peer->request, peer->request.header.bytes, MSG_NOSIGNAL) ==
           (ssize_t)peer->request.header.bytes;
}

static void take_fds(struct peer *peer, const int *fds, unsigned count)
{
    void *staging;

    for (unsigned i = 2; i < count; i++) {
        close(fds[i]);
    }
    if (peer->staging) { /* of an answer: a list */
        peer->statistics = count > 0 ? fds[0] : -1;
        return;
    }
    if (count > 0) {
        staging = mmap(NULL, HV_OP_STAGING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
        peer->staging = staging == MAP_FAILED ? NULL : staging;
        close(fds[0]);
    }
    peer->statistics = count > 1 ? fds[1] : -1;
}

/* One packet into peer->answer. */
static bool receive(struct peer *peer)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(8 * sizeof(int))];
    } control;
    struct iovec part = {&peer->answer, sizeof(peer->answer)};
    struct msghdr message = {
        .msg_iov = &part,
        .msg_iovlen = 1,
        .msg_control = &control,
        .msg_controllen = sizeof(control),
    };
    ssize_t bytes = recvmsg(peer->fd, &message, MSG_CMSG_CLOEXEC);
    struct cmsghdr *rights = bytes > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    int fds[8];

    if (rights) {
        unsigned count = (unsigned)((rights->cmsg_len - CMSG_LEN(0)) / sizeof(int));

        memcpy(fds, CMSG_DATA(rights), count * sizeof(int));
        take_fds(peer, fds, count);
    }
    return bytes == (ssize_t)peer->answer.header.bytes &&
           bytes >= (ssize_t)sizeof(peer->answer.header);
}

bool peer_await(struct peer *peer)
{
    while (receive(peer)) {
        if (peer->answer.header.serial == peer->serial) {
            return true;
        }
        if (peer->answer.header.serial == 0 && peer->events < PEER_EVENTS_MAX) {
            peer->event[peer->events++] = peer->answer;
        }
    }
    return false;
}

int32_t peer_call(struct peer *peer, enum hv_op op, size_t bytes)
{
    return peer_send(peer, op, bytes) && peer_await(peer) ? peer->answer.header.result : INT32_MAX;
}

int32_t peer_hello(struct peer *peer, bool lease)
{
    peer->request.body.hello = (struct hv_op_hello){
        .magic = HV_OP_MAGIC,
        .version = HV_OP_VERSION,
        .lease = lease,
    };
    return peer_call(peer, HV_OP_HELLO, sizeof(struct hv_op_hello));
}

int32_t peer_call_domain(struct peer *peer, enum hv_op op, uint64_t handle)
{
    peer->request.body.domain.handle = handle;
    return peer_call(peer, op, sizeof(struct hv_op_domain));
}

uint64_t peer_create(struct peer *peer, const char *name, bool console)
{
    struct hv_op_create *create = &peer->request.body.create;

    *create = (struct hv_op_create){
        .engine = "soft",
        .memory_bytes = 16 * HV_MIB,
        .vcpus = 1,
        .flags = HV_DOMAIN_TESTDEV,
        .console = console,
    };
    memcpy(create->name, name, strlen(name));
    if (peer_call(peer, HV_OP_CREATE, sizeof(*create)) != 0) {
        tap_fail(__FILE__, __LINE__, "CREATE: %d %s", peer->answer.header.result,
                 peer->answer.body.refusal.why);
        return 0;
    }
    return peer->answer.body.made.handle;
}

bool peer_load(struct peer *peer, uint64_t handle, const void *code, size_t bytes)
{
    memcpy(peer->staging + 4096, code, bytes);
    peer->request.body.copy = (struct hv_op_copy){
        .handle = handle,
        .gpa = CODE,
        .bytes = (uint32_t)bytes,
        .staging = 4096,
        .direction = HV_COPY_TO_GUEST,
    };
    if (peer_call(peer, HV_OP_COPY, sizeof(struct hv_op_copy)) != 0) {
        tap_fail(__FILE__, __LINE__, "COPY: %d", peer->answer.header.result);
        return false;
    }
    peer->request.body.set_boot =
        (struct hv_op_set_boot){.handle = handle, .rip = CODE, .rsp = CODE};
    if (peer_call(peer, HV_OP_SET_BOOT, sizeof(struct hv_op_set_boot)) != 0) {
        tap_fail(__FILE__, __LINE__, "SET_BOOT: %d", peer->answer.header.result);
        return false;
    }
    return true;
}

bool peer_event(struct peer *peer, struct hv_op_answer *event_out)
{
    if (peer->events > 0) {
        *event_out = peer->event[0];
        peer->events--;
        memmove(peer->event, peer->event + 1, peer->events * sizeof(peer->event[0]));
        return true;
    }
    while (receive(peer)) {
        if (peer->answer.header.serial == 0) {
            *event_out = peer->answer;
            return true;
        }
    }
    return false;
}

bool peer_await_state(struct peer *peer, uint64_t handle, enum hv_domain_state state)
{
    struct hv_op_answer event;

    while (peer_event(peer, &event)) {
        if (event.header.op == HV_OP_STATE && event.body.state.handle == handle &&
            event.body.state.status.state == state) {
            return true;
        }
    }
    return false;
}

bool peer_await_end(struct peer *peer)
{
    char byte;
    ssize_t got;

    do {
        got = recv(peer->fd, &byte, sizeof(byte), 0);
    } while (got > 0);
    return got == 0 || errno == ECONNRESET;
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Connections without a lease: see door.h. */
#include "control/door.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "control/operation.h"
#include "control/packet.h"
#include "control/request.h"
#include "sync/race.h"

void hv_door_init(struct hv_door *door, int listener)
{
    *door = (struct hv_door){.listener = listener};
}

/* Out of the row; his descriptor stays open. */
static int take_caller(struct hv_door *door, unsigned caller)
{
    int fd = door->caller[caller];

    door->callers--;
    for (unsigned i = caller; i < door->callers; i++) {
        door->caller[i] = door->caller[i + 1];
    }
    return fd;
}

void hv_door_finish(struct hv_door *door)
{
    while (door->callers > 0) {
        close(take_caller(door, 0));
    }
}

void hv_door_add(struct hv_door *door, int fd)
{
    if (door->callers == HV_DOOR_CALLERS_MAX) {
        close(take_caller(door, 0));
    }
    door->caller[door->callers++] = fd;
}

/* The kernel's word, of when he connected. */
static bool may_come_in(int fd)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || size != sizeof(peer)) {
        return false;
    }
    if (peer.uid != 0 && peer.uid != geteuid()) {
        hv_log(HV_LOG_LEVEL_WARNING, "user %u may not control this core", (unsigned)peer.uid);
        return false;
    }
    return true;
}

void hv_door_accept(struct hv_door *door, hv_ns now)
{
    int fd = accept4(door->listener, NULL, NULL, SOCK_CLOEXEC);

    if (fd < 0) {
        /* Unless he has just gone. */
        if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR) {
            HV_RACE("door.shut");
            door->shut_until = hv_ns_add(now, HV_DOOR_SHUT_NS);
        }
        return;
    }
    if (!may_come_in(fd)) {
        close(fd);
        return;
    }
    hv_door_add(door, fd);
}

void hv_door_refuse(int fd, const struct hv_op_request *hello, int result, const char *why)
{
    struct hv_op_answer answer;
    int rc;

    hv_operation_refuse(hello, result, why, &answer);
    rc = hv_packet_send(fd, &answer, answer.header.bytes, NULL, 0);
    (void)rc; /* he has gone himself */
    close(fd);
}

int hv_door_hear(struct hv_door *door, unsigned caller, struct hv_op_request *hello_out,
                 int *fd_out)
{
    int fd = door->caller[caller];
    enum hv_request_verdict verdict;
    struct hv_packet packet;
    const char *why;
    int rc = hv_packet_receive(fd, hello_out, sizeof(*hello_out), &packet);

    *fd_out = -1;
    if (rc == -EAGAIN) {
        return rc;
    }
    take_caller(door, caller);
    verdict = rc < 0 || packet.fds > 0 ? HV_REQUEST_BROKEN
                                       : hv_request_check(hello_out, packet.bytes, &why);
    if (verdict == HV_REQUEST_BROKEN) {
        close(fd);
        return -EPROTO;
    }
    if (verdict == HV_REQUEST_WRONG || hello_out->header.op != HV_OP_HELLO) {
        hv_door_refuse(fd, hello_out, -EPROTO, *why ? why : "HELLO comes first");
        return -EPROTO;
    }
    *fd_out = fd;
    return 0;
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* recvmsg() and sendmsg(), and no descriptor that stays behind. */
#include "control/packet.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "sync/lock.h"

union control_data {
    struct cmsghdr header; /* aligned as one */
    char room[CMSG_SPACE(HV_OP_FDS_MAX * sizeof(int))];
};

/* The kernel has closed those that there was no room for. */
static unsigned close_received(struct msghdr *message)
{
    unsigned closed = message->msg_flags & MSG_CTRUNC ? 1 : 0;

    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part)) {
        size_t bytes = part->cmsg_len - CMSG_LEN(0);

        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        for (size_t at = 0; at + sizeof(int) <= bytes; at += sizeof(int)) {
            int fd;

            memcpy(&fd, CMSG_DATA(part) + at, sizeof(fd));
            close(fd);
            closed++;
        }
    }
    return closed;
}

int hv_packet_receive(int socket, void *buffer, size_t size, struct hv_packet *packet_out)
{
    union control_data control;
    struct iovec part = {buffer, size};
    struct msghdr message = {
        .msg_iov = &part,
        .msg_iovlen = 1,
        .msg_control = &control,
        .msg_controllen = sizeof(control),
    };
    ssize_t bytes;

    *packet_out = (struct hv_packet){0};
    do {
        /* MSG_TRUNC: the length it had. */
        bytes = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC | MSG_TRUNC);
    } while (bytes < 0 && errno == EINTR);
    if (bytes < 0) {
        return errno == EAGAIN ? -EAGAIN : -EIO;
    }
    packet_out->bytes = (size_t)bytes;
    packet_out->fds = close_received(&message);
    return 0;
}

static void add_fds(struct msghdr *message, union control_data *control, const int *fds,
                    unsigned fd_count)
{
    struct cmsghdr *part;

    memset(control, 0, sizeof(*control));
    message->msg_control = control;
    message->msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
    part = CMSG_FIRSTHDR(message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
    memcpy(CMSG_DATA(part), fds, fd_count * sizeof(int));
}

int hv_packet_send(int socket, const void *data, size_t bytes, const int *fds, unsigned fd_count)
{
    union control_data control;
    struct iovec part = {(void *)(uintptr_t)data, bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    ssize_t sent;

    HV_ASSERT(fd_count <= HV_OP_FDS_MAX);
    hv_lock_check_none("sending to a peer");
    if (fd_count > 0) {
        add_fds(&message, &control, fds, fd_count);
    }
    do {
        sent = sendmsg(socket, &message, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)bytes ? 0 : -EIO;
}

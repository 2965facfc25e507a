/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The other end of a core's client: see peer.h. */
#include "peer.h"

#include "capture.h"

#include "wire/core-client.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

struct peer peer;

static void on_lost(gpointer user_data)
{
    (void)user_data;
    g_atomic_int_inc(&peer.lost);
}

static void on_state(gpointer user_data, hv_handle handle, const struct hv_domain_status *status)
{
    (void)user_data, (void)handle, (void)status;
    g_atomic_int_inc(&peer.states);
}

static const LodgeCoreEvents events = {.state = on_state, .lost = on_lost};

bool peer_hear(void)
{
    return recv(peer.fd, &peer.request, sizeof(peer.request), 0) >=
           (ssize_t)sizeof(peer.request.header);
}

/* A message with @body bytes and a descriptor, which is closed, or -1. */
bool peer_say(uint32_t op, uint64_t serial, int32_t result, size_t body, int fd)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec part = {&peer.answer, sizeof(peer.answer.header) + body};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    bool sent;

    peer.answer.header = (struct hv_op_header){
        .bytes = (uint32_t)part.iov_len, .op = op, .serial = serial, .result = result};
    if (fd >= 0) {
        message.msg_control = &control;
        message.msg_controllen = sizeof(control);
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(&control.header), &fd, sizeof(int));
    }
    sent = sendmsg(peer.fd, &message, MSG_NOSIGNAL) == (ssize_t)part.iov_len;
    if (fd >= 0) {
        close(fd);
    }
    return sent;
}

static void *adopt(void *fd)
{
    return lodge_core_client_adopt(GPOINTER_TO_INT(fd), &events, NULL, NULL);
}

void peer_fill_welcome(void)
{
    peer.answer.body.welcome = (struct hv_op_welcome){
        .magic = HV_OP_MAGIC,
        .version = HV_OP_VERSION,
        .staging_bytes = HV_OP_STAGING_BYTES,
        .epoch = 1,
    };
}

int peer_make_staging_file(off_t bytes, int seals)
{
    int fd = memfd_create("staging", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    bool good = fd >= 0 && ftruncate(fd, bytes) == 0 && fcntl(fd, F_ADD_SEALS, seals) == 0;

    return good ? fd : -1;
}

int peer_make_staging(void)
{
    return peer_make_staging_file((off_t)HV_OP_STAGING_BYTES, F_SEAL_SHRINK);
}

/* Connect; HELLO is heard, and not answered yet. */
GThread *peer_greet(void)
{
    int pair[2];
    GThread *thread;

    peer.lost = peer.states = 0;
    capture_begin(G_MAXSIZE);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        return NULL;
    }
    peer.fd = pair[1];
    thread = g_thread_new("adopt", adopt, GINT_TO_POINTER(pair[0]));
    return peer_hear() && peer.request.header.op == HV_OP_HELLO ? thread : NULL;
}

bool peer_begin(void)
{
    GThread *thread = peer_greet();

    peer_fill_welcome();
    if (!thread ||
        !peer_say(HV_OP_HELLO, 1, 0, sizeof(peer.answer.body.welcome), peer_make_staging())) {
        return false;
    }
    peer.core = g_thread_join(thread);
    return peer.core != NULL;
}

void peer_end(void)
{
    lodge_core_client_close(peer.core);
    close(peer.fd);
}

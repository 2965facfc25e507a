/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Packets of a SOCK_SEQPACKET socket, with descriptors: whole ones, or none.
 */
#pragma once

#include <hv/op.h>

struct hv_packet {
    size_t bytes; /* 0: the other end has closed it. More than there was room for: cut */
    unsigned fds; /* that came with it; they are closed already */
};

/**
 * Take the next packet, if there is one. Descriptors that a peer sends are closed at once: no request
 * has any.
 *
 * Returns 0; -EAGAIN when there is none; -EIO when the connection is broken.
 */
HV_MUST_CHECK int hv_packet_receive(int socket, void *buffer, size_t size,
                                    struct hv_packet *packet_out);

/**
 * Send one, with @fd_count descriptors, which stay the caller's; wait while the peer does not read.
 *
 * Returns 0; -EIO when the connection is broken, or shut down meanwhile.
 * Context: no lock held.
 */
HV_MUST_CHECK int hv_packet_send(int socket, const void *data, size_t bytes, const int *fds,
                                 unsigned fd_count);

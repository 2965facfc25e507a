/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The connection of the controller that has the lease, and its staging area. Counted: who sends events
 * may be at it when the lease ends.
 */
#pragma once

#include "sync/atomic.h"

#include <hv/op.h>

struct hv_link {
    _Atomic uint32_t references;
    /* Set at creation, owned. */
    int fd;
    int staging_fd;
    uint8_t *staging; /* HV_OP_STAGING_BYTES */
};

/**
 * Make it, and the staging area, whose memory the host has given by then.
 *
 * @fd  taken over when all is well.
 *
 * Returns 0 and *link_out, with one reference; -ENOMEM; -EAGAIN when the host has no file descriptor
 * left; -ENOTSUP when it cannot seal.
 */
HV_MUST_CHECK int hv_link_create(int fd, struct hv_link **link_out);

void hv_link_get(struct hv_link *link);
/** The last closes it. NULL is accepted. */
void hv_link_put(struct hv_link *link);

/** No more comes or goes, and whoever sends does not wait any longer. */
void hv_link_shut(struct hv_link *link);

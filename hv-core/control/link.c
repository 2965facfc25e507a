/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A socket, and a file in memory that both ends have mapped: see link.h. */
#include "control/link.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"

static int map_staging(struct hv_link *link)
{
    void *mapped =
        mmap(NULL, HV_OP_STAGING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, link->staging_fd, 0);

    if (mapped == MAP_FAILED) {
        return -ENOMEM;
    }
    link->staging = mapped;
    /* Now, when there is an error to give: later the host could only kill. */
    if (madvise(mapped, HV_OP_STAGING_BYTES, MADV_POPULATE_WRITE) < 0 && errno != EINVAL) {
        return -ENOMEM;
    }
    return 0;
}

/* Its size is sealed: the peer cannot take pages away under our hands. */
static int make_staging(struct hv_link *link)
{
    link->staging_fd = memfd_create("lodge-staging", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (link->staging_fd < 0) {
        return errno == EMFILE || errno == ENFILE ? -EAGAIN : -ENOMEM;
    }
    if (ftruncate(link->staging_fd, (off_t)HV_OP_STAGING_BYTES) < 0) {
        return -ENOMEM;
    }
    if (fcntl(link->staging_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
        return -ENOTSUP;
    }
    return map_staging(link);
}

int hv_link_create(int fd, struct hv_link **link_out)
{
    struct hv_link *link = hv_alloc(1, sizeof(*link));
    int rc;

    *link_out = NULL;
    if (!link) {
        return -ENOMEM;
    }
    *link = (struct hv_link){.references = 1, .fd = -1};
    rc = make_staging(link);
    if (rc < 0) {
        hv_link_put(link);
        return rc;
    }
    link->fd = fd;
    *link_out = link;
    return 0;
}

void hv_link_get(struct hv_link *link)
{
    hv_add_relaxed(&link->references, 1);
}

void hv_link_put(struct hv_link *link)
{
    /* Pairs with itself: the last sees what all before it did. */
    if (!link || hv_sub_seq(&link->references, 1) != 1) {
        return;
    }
    if (link->staging) {
        munmap(link->staging, HV_OP_STAGING_BYTES);
    }
    if (link->staging_fd >= 0) {
        close(link->staging_fd);
    }
    if (link->fd >= 0) {
        close(link->fd);
    }
    hv_free(link);
}

void hv_link_shut(struct hv_link *link)
{
    shutdown(link->fd, SHUT_RDWR);
}

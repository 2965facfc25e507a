/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Host memory by memfd or anonymous mapping: open, map over a reserved range, populate, return. */
#include "mem/backing.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/bits.h"
#include "sync/lock.h"

/* Linux 5.14; not in every C library's headers. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

int hv_backing_open(struct hv_backing *backing, enum hv_backing_kind kind, uint64_t bytes)
{
    int err = 0;

    *backing = (struct hv_backing){.kind = kind, .fd = -1, .bytes = bytes};
    if (bytes == 0 || bytes % HV_EXTENT_SIZE != 0 || bytes > INT64_MAX) {
        return -EINVAL;
    }
    if (kind != HV_BACKING_KIND_MEMFD) {
        return 0;
    }
    backing->fd = memfd_create("lodge-guest", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (backing->fd < 0) {
        return errno == EMFILE || errno == ENFILE ? -EMFILE : -ENOMEM;
    }
    if (ftruncate(backing->fd, (off_t)bytes) < 0 ||
        /* Nobody may shrink it under a mapping: that would be SIGBUS. */
        fcntl(backing->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
        err = -ENOMEM;
        hv_backing_close(backing);
    }
    return err;
}

void hv_backing_close(struct hv_backing *backing)
{
    if (backing && backing->fd >= 0) {
        close(backing->fd);
        backing->fd = -1;
    }
}

int hv_backing_map(const struct hv_backing *backing, void *at, uint64_t offset, uint64_t bytes)
{
    bool shared = backing->kind == HV_BACKING_KIND_MEMFD;
    void *mapped;

    hv_lock_check_wait(HV_RANK_FLUSH_WAIT, "mapping of host memory");
    if (hv_range_outside(offset, bytes, backing->bytes) || bytes == 0) {
        return -EINVAL;
    }
    if (backing->kind == HV_BACKING_KIND_NONE) {
        return 0;
    }
    mapped = mmap(at, bytes, PROT_READ | PROT_WRITE,
                  MAP_FIXED | MAP_NORESERVE | (shared ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS),
                  backing->fd, shared ? (off_t)offset : 0);
    if (mapped == MAP_FAILED) {
        return -ENOMEM;
    }
    /* Advice only: a host without huge pages runs the same, slower. A core dump of a guest's
     * memory would be a leak. */
    madvise(at, bytes, MADV_HUGEPAGE);
    madvise(at, bytes, MADV_DONTDUMP);
    return 0;
}

/* Hosts before MADV_POPULATE_WRITE: a store to each page. The pages are zero, so zero changes
 * nothing. */
static void touch_pages(void *at, uint64_t bytes)
{
    volatile unsigned char *byte = at;

    for (uint64_t i = 0; i < bytes; i += HV_PAGE_SIZE) {
        byte[i] = 0;
    }
}

int hv_backing_populate(const struct hv_backing *backing, void *at, uint64_t bytes)
{
    int result;

    hv_lock_check_wait(HV_RANK_FLUSH_WAIT, "populating of host memory");
    if (backing->kind == HV_BACKING_KIND_NONE) {
        return 0;
    }
    do {
        result = madvise(at, bytes, MADV_POPULATE_WRITE);
    } while (result < 0 && errno == EINTR);
    if (result < 0 && errno == EINVAL) {
        touch_pages(at, bytes);
        return 0;
    }
    return result < 0 ? -ENOMEM : 0;
}

int hv_backing_return(const struct hv_backing *backing, void *at, uint64_t offset, uint64_t bytes)
{
    int result = 0;

    hv_lock_check_wait(HV_RANK_FLUSH_WAIT, "returning of host memory");
    if (hv_range_outside(offset, bytes, backing->bytes)) {
        return -EINVAL;
    }
    if (backing->kind == HV_BACKING_KIND_MEMFD) {
        result = fallocate(backing->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
                           (off_t)bytes);
    } else if (backing->kind == HV_BACKING_KIND_ANON) {
        result = madvise(at, bytes, MADV_DONTNEED);
    }
    return result < 0 ? -ENOMEM : 0;
}

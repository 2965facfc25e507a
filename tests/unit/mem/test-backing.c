/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Host memory of each kind: sizes refused, mapped, populated, returned as zero. */
#include "mem/backing.h"

#include "lib/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void test_sizes(void)
{
    struct hv_backing backing;

    TAP_EQ(hv_backing_open(&backing, HV_BACKING_KIND_MEMFD, 0), (uint64_t)-EINVAL);
    TAP_EQ(hv_backing_open(&backing, HV_BACKING_KIND_MEMFD, HV_EXTENT_SIZE + 1), (uint64_t)-EINVAL);
    TAP_EQ(hv_backing_open(&backing, HV_BACKING_KIND_ANON, UINT64_MAX - HV_EXTENT_SIZE + 1),
           (uint64_t)-EINVAL);
    hv_backing_close(&backing);
    hv_backing_close(NULL);
}

static void round_trip(enum hv_backing_kind kind)
{
    uint64_t bytes = 2 * HV_EXTENT_SIZE;
    struct hv_backing backing;
    uint8_t *at = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    TAP_OK(at != MAP_FAILED);
    TAP_EQ(hv_backing_open(&backing, kind, bytes), 0);
    TAP_EQ(hv_backing_map(&backing, at, HV_EXTENT_SIZE, bytes), (uint64_t)-EINVAL);
    TAP_EQ(hv_backing_map(&backing, at, 0, 0), (uint64_t)-EINVAL);
    TAP_EQ(hv_backing_map(&backing, at, 0, bytes), 0);
    TAP_EQ(hv_backing_populate(&backing, at, HV_EXTENT_SIZE), 0);
    if (kind != HV_BACKING_KIND_NONE) {
        unsigned char resident[2] = {0, 0};

        TAP_EQ(mincore(at, 2 * HV_PAGE_SIZE, resident), 0);
        TAP_EQ(resident[0] & resident[1] & 1, 1);
        memset(at, 0x77, bytes);
    }
    TAP_EQ(hv_backing_return(&backing, at, HV_EXTENT_SIZE, bytes), (uint64_t)-EINVAL);
    TAP_EQ(hv_backing_return(&backing, at, 0, HV_EXTENT_SIZE), 0);
    if (kind != HV_BACKING_KIND_NONE) {
        TAP_EQ(at[0], 0);
        TAP_EQ(at[HV_EXTENT_SIZE - 1], 0);
        TAP_EQ(at[HV_EXTENT_SIZE], 0x77);
    }
    munmap(at, bytes);
    hv_backing_close(&backing);
    hv_backing_close(&backing);
}

static void test_round_trip(void)
{
    round_trip(HV_BACKING_KIND_NONE);
    round_trip(HV_BACKING_KIND_ANON);
    round_trip(HV_BACKING_KIND_MEMFD);
}

/* Nobody can cut it short under a mapping, and no program started inherits it. */
static void test_sealed(void)
{
    struct hv_backing backing;

    TAP_EQ(hv_backing_open(&backing, HV_BACKING_KIND_MEMFD, HV_EXTENT_SIZE), 0);
    TAP_EQ(ftruncate(backing.fd, 0), (uint64_t)-1);
    TAP_EQ(fcntl(backing.fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    hv_backing_close(&backing);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"mem.backing.sizes", test_sizes},
        {"mem.backing.round-trip", test_round_trip},
        {"mem.backing.sealed", test_sealed},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

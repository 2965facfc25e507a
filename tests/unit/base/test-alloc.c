/* SPDX-License-Identifier: GPL-3.0-or-later */
/* base/alloc: zeroing, overflow, failure on demand, the live count. */
#include "base/alloc.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "lib/tap.h"

#define LARGE_PAGES 64u

static void test_zeroed(void)
{
    unsigned char *block = hv_alloc(3, 100);
    bool clean = true;

    TAP_OK(block);
    for (size_t i = 0; i < 300; i++) {
        clean &= block[i] == 0;
    }
    hv_free(block);
    TAP_OK(clean);
}

static void test_overflow(void)
{
    TAP_OK(!hv_alloc(SIZE_MAX / 2, 3));
    TAP_OK(!hv_alloc(3, SIZE_MAX / 2));
}

static void test_empty(void)
{
    void *a = hv_alloc(0, 8);
    void *b = hv_alloc(8, 0);
    bool distinct = a && b && a != b;

    hv_free(a);
    hv_free(b);
    TAP_OK(distinct);
}

static void test_aligned(void)
{
    for (size_t alignment = sizeof(void *); alignment <= 4096; alignment *= 2) {
        unsigned char *block = hv_alloc_aligned(alignment, 100);
        bool good = block && (uintptr_t)block % alignment == 0 && block[0] == 0 && block[99] == 0;

        hv_free(block);
        TAP_OK(good);
    }
}

/* How many pages of a block the host has given memory for. */
static size_t resident_pages(const unsigned char *block, size_t bytes)
{
    unsigned char first[LARGE_PAGES + 1] = {0};
    uintptr_t begin = (uintptr_t)block & ~(uintptr_t)4095;
    size_t pages = ((uintptr_t)block + bytes - begin + 4095) / 4096, resident = 0;

    if (mincore((void *)begin, pages * 4096, first) < 0) {
        return SIZE_MAX;
    }
    for (size_t i = 0; i < pages; i++) {
        resident += first[i] & 1;
    }
    return resident;
}

/* What is large costs only what is used of it, and is zero, whatever stood there before. */
static void test_large(void)
{
    const size_t bytes = LARGE_PAGES * 4096 - 200;

    for (unsigned round = 0; round < 3; round++) {
        unsigned char *block = hv_alloc_aligned(64, bytes);
        bool zero = block != NULL;

        TAP_OK(block && (uintptr_t)block % 64 == 0);
        TAP_OK(resident_pages(block, bytes) <= 4);
        for (size_t i = 0; zero && i < bytes; i++) {
            zero = block[i] == 0;
        }
        TAP_OK(zero);
        memset(block, 0xa5, bytes);
        hv_free(block);
    }
}

static void test_fail_at(void)
{
    void *blocks[4];

    hv_alloc_fail_at(3);
    for (size_t i = 0; i < HV_ARRAY_LEN(blocks); i++) {
        blocks[i] = hv_alloc(1, 8);
    }
    TAP_EQ(hv_alloc_count(), 4);
    TAP_OK(blocks[0] && blocks[1] && !blocks[2] && blocks[3]);
    for (size_t i = 0; i < HV_ARRAY_LEN(blocks); i++) {
        hv_free(blocks[i]);
    }
    hv_alloc_fail_at(1);
    TAP_OK(!hv_alloc_aligned(64, 64));
    hv_alloc_fail_at(0);
    TAP_EQ(hv_alloc_count(), 0);
}

static void *allocate_twice(void *failed_out)
{
    void *a = hv_alloc(1, 8);
    void *b = hv_alloc(1, 8);

    *(bool *)failed_out = !a || !b;
    hv_free(a);
    hv_free(b);
    return NULL;
}

static void test_other_threads(void)
{
    pthread_t thread;
    bool failed = true;

    hv_alloc_fail_at(1);
    TAP_EQ(pthread_create(&thread, NULL, allocate_twice, &failed), 0);
    TAP_EQ(pthread_join(thread, NULL), 0);
    TAP_OK(!failed);
    TAP_EQ(hv_alloc_count(), 0);
    TAP_OK(!hv_alloc(1, 8));
    hv_alloc_fail_at(0);
}

static void test_live(void)
{
    int64_t before = hv_alloc_live();
    void *a = hv_alloc(1, 8);
    void *b = hv_alloc_aligned(64, 8);

    TAP_EQ(hv_alloc_live(), before + 2);
    hv_free(a);
    hv_free(NULL);
    TAP_EQ(hv_alloc_live(), before + 1);
    hv_free(b);
    TAP_EQ(hv_alloc_live(), before);
    hv_alloc_fail_at(1);
    TAP_OK(!hv_alloc(1, 8));
    TAP_EQ(hv_alloc_live(), before);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"base.alloc.zeroed", test_zeroed},   {"base.alloc.overflow", test_overflow},
        {"base.alloc.empty", test_empty},     {"base.alloc.aligned", test_aligned},
        {"base.alloc.fail-at", test_fail_at}, {"base.alloc.other-threads", test_other_threads},
        {"base.alloc.live", test_live},       {"base.alloc.large", test_large},
    };
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Zeroed blocks from the C library, with a failure on demand and a count of what lives. */
#include "base/alloc.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* What is smaller is touched at once. */
#define LARGE      ((size_t)64 * 1024)
#define PAGE_BYTES ((uintptr_t)4096)

static struct {
    /* Relaxed: only its value after all threads have joined, or of the one thread, means much. */
    _Atomic int64_t live;
} alloc_totals;

static _Thread_local struct {
    uint64_t count;
    uint64_t fail_at; /* the value of `count` that fails; 0: none */
} alloc_script;

/* Count this allocation; true when it is the one that fails. */
static bool scripted_failure(void)
{
    alloc_script.count++;
    return alloc_script.count == alloc_script.fail_at;
}

static void *counted(void *memory)
{
    if (memory) {
        atomic_fetch_add_explicit(&alloc_totals.live, 1, memory_order_relaxed);
    }
    return memory;
}

void *hv_alloc(size_t count, size_t size)
{
    size_t bytes;

    if (scripted_failure() || __builtin_mul_overflow(count, size, &bytes)) {
        return NULL;
    }
    return counted(calloc(1, bytes > 0 ? bytes : 1));
}

/* The C library has no calloc() that aligns. Whole pages that are given back to the host are zero when
 * they are touched next, if ever: a large block costs what is used of it. */
static void clear(char *memory, size_t size)
{
    size_t head = (PAGE_BYTES - (uintptr_t)memory % PAGE_BYTES) % PAGE_BYTES;
    size_t pages = size >= LARGE ? (size - head) / PAGE_BYTES * PAGE_BYTES : 0;

    if (pages == 0 || madvise(memory + head, pages, MADV_DONTNEED) < 0) {
        memset(memory, 0, size);
        return;
    }
    memset(memory, 0, head);
    memset(memory + head + pages, 0, size - head - pages);
}

void *hv_alloc_aligned(size_t alignment, size_t size)
{
    void *memory = NULL;

    if (scripted_failure() || posix_memalign(&memory, alignment, size > 0 ? size : 1) != 0) {
        return NULL;
    }
    clear(memory, size);
    return counted(memory);
}

void hv_free(void *memory)
{
    if (memory) {
        atomic_fetch_sub_explicit(&alloc_totals.live, 1, memory_order_relaxed);
        free(memory);
    }
}

void hv_alloc_trim(void)
{
    malloc_trim(0);
}

void hv_alloc_fail_at(uint64_t nth)
{
    alloc_script.count = 0;
    alloc_script.fail_at = nth;
}

uint64_t hv_alloc_count(void)
{
    return alloc_script.count;
}

int64_t hv_alloc_live(void)
{
    return atomic_load_explicit(&alloc_totals.live, memory_order_relaxed);
}

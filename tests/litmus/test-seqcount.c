/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sync/seqcount under one writer and two readers: no torn pair is ever let through. */
#include "sync/seqcount.h"

#include "lib/threads.h"

static struct {
    struct hv_seqcount count;
    _Atomic uint64_t left, right;
    _Atomic uint32_t stop, torn, backwards, reads;
} shared;

static void write_pairs(void)
{
    for (uint64_t n = 1; n <= threads_rounds(200000); n++) {
        hv_seqcount_write_begin(&shared.count);
        hv_seqcount_store(&shared.left, n);
        hv_seqcount_store(&shared.right, ~n);
        hv_seqcount_write_end(&shared.count);
    }
    hv_store_seq(&shared.stop, 1);
}

static void read_pairs(void)
{
    uint64_t last = 0;

    do {
        uint64_t left, right;
        uint32_t begun;

        do {
            begun = hv_seqcount_read_begin(&shared.count);
            left = hv_seqcount_load(&shared.left);
            right = hv_seqcount_load(&shared.right);
        } while (hv_seqcount_read_retry(&shared.count, begun));
        hv_add_relaxed(&shared.torn, left != ~right);
        hv_add_relaxed(&shared.backwards, left < last);
        hv_add_relaxed(&shared.reads, 1);
        last = left;
    } while (!hv_load_seq(&shared.stop));
}

static void side(unsigned index, void *context)
{
    (void)context;
    if (index == 0) {
        write_pairs();
    } else {
        read_pairs();
    }
}

static void test_pairs(void)
{
    shared.left = 0;
    shared.right = ~UINT64_C(0);
    threads_run(3, side, NULL);
    tap_note("%u reads", shared.reads);
    TAP_EQ(shared.torn, 0);
    TAP_EQ(shared.backwards, 0);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {{"litmus.seqcount.pairs", test_pairs}};

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

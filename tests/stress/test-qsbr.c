/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sync/qsbr: readers follow a pointer that writers replace; nobody sees a block after its end. */
#include "sync/qsbr.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "lib/threads.h"
#include "sync/race.h"

#define READERS 3
#define WRITERS 2
#define ALIVE   UINT64_C(0x600d600d600d600d)

struct block {
    struct hv_qsbr_call call;
    uint64_t magic;
};

static struct {
    struct hv_qsbr qsbr;
    _Atomic(struct block *) current;
    _Atomic uint32_t writers_left, dead_seen;
    _Atomic uint64_t reads, freed;
} shared;

static struct block *make_block(void)
{
    struct block *block = hv_alloc(1, sizeof(*block));

    if (!block) {
        abort();
    }
    block->magic = ALIVE;
    return block;
}

static void free_block(struct hv_qsbr_call *call)
{
    struct block *block = HV_CONTAINER_OF(call, struct block, call);

    /* A plain write: a reader too late is a data race, and a wrong magic. */
    block->magic = 0;
    hv_free(block);
    hv_add_relaxed(&shared.freed, 1);
}

static void read_loop(void)
{
    struct hv_qsbr_thread self;
    unsigned turn = 0;

    hv_qsbr_register(&shared.qsbr, &self);
    hv_qsbr_online(&self);
    while (hv_load_seq(&shared.writers_left) > 0) {
        /* Pairs with the swap in write_loop(). */
        struct block *block = hv_load_acquire(&shared.current);

        for (unsigned i = 0; i < 10; i++) {
            hv_add_relaxed(&shared.dead_seen, block->magic != ALIVE);
        }
        hv_add_relaxed(&shared.reads, 1);
        if (++turn % 16 == 0) {
            hv_qsbr_offline(&self);
            hv_qsbr_online(&self);
        } else {
            hv_qsbr_quiescent(&self);
        }
        hv_qsbr_reclaim(&shared.qsbr, 4);
    }
    hv_qsbr_offline(&self);
    hv_qsbr_unregister(&self);
}

static void write_loop(void)
{
    for (unsigned i = 0; i < threads_rounds(1000); i++) {
        struct block *old = hv_swap_seq(&shared.current, make_block());

        if (i % 2 == 0) {
            hv_qsbr_call(&shared.qsbr, &old->call, free_block);
        } else {
            hv_qsbr_synchronize(&shared.qsbr);
            free_block(&old->call);
        }
    }
    hv_sub_seq(&shared.writers_left, 1);
}

static void side(unsigned index, void *context)
{
    (void)context;
    hv_race_name_thread(index + 1);
    if (index < WRITERS) {
        write_loop();
    } else {
        read_loop();
    }
}

static void replace(void)
{
    int64_t before = hv_alloc_live();

    hv_qsbr_init(&shared.qsbr);
    shared.current = make_block();
    shared.writers_left = WRITERS;
    shared.dead_seen = 0;
    shared.reads = shared.freed = 0;
    threads_run(WRITERS + READERS, side, NULL);
    hv_qsbr_finish(&shared.qsbr);
    tap_note("%" PRIu64 " reads", shared.reads);
    TAP_EQ(shared.dead_seen, 0);
    TAP_EQ(shared.freed, (uint64_t)WRITERS * threads_rounds(1000));
    hv_free(shared.current);
    TAP_EQ(hv_alloc_live(), before);
}

static void test_replace(void)
{
    replace();
}

static void test_shuffled(void)
{
    hv_race_shuffle(tap_rng() | 1);
    replace();
    hv_race_end();
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"stress.qsbr.replace", test_replace},
        {"stress.qsbr.shuffled", test_shuffled},
    };
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

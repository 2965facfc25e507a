/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * sync/lock-registry: locks and owners that come and go, in memory that is freed at once, while
 * others walk the lists and take what they find for there.
 */
#include "sync/lock-registry.h"

#include "base/alloc.h"
#include "lib/threads.h"
#include "sync/lock.h"
#include "sync/race.h"

#define MAKERS  3
#define WALKERS 2
#define LOCKS   6
#define TAKES   5

static struct {
    _Atomic uint32_t makers;
    _Atomic uint32_t wrong;
    _Atomic uint64_t found;
} shared;

struct machine {
    struct hv_lock_owner owner;
    struct hv_lock locks[LOCKS];
};

static void make_one(void)
{
    struct machine *machine = hv_alloc(1, sizeof(*machine));
    struct hv_lock_owner *before;

    if (!machine) {
        hv_store_seq(&shared.wrong, 1);
        return;
    }
    hv_lock_owner_init(&machine->owner, "stress");
    before = hv_lock_owner_use(&machine->owner);
    for (unsigned i = 0; i < LOCKS; i++) {
        hv_lock_init(&machine->locks[i], HV_RANK_HEAP, "stress.made", i);
    }
    hv_lock_owner_use(before);
    for (unsigned i = 0; i < LOCKS * TAKES; i++) {
        hv_lock_take(&machine->locks[i % LOCKS]);
        hv_lock_drop(&machine->locks[i % LOCKS]);
    }
    /* From both ends and the middle. */
    for (unsigned i = 0; i < LOCKS; i++) {
        hv_lock_finish(&machine->locks[(i * 5 + 2) % LOCKS]);
    }
    hv_lock_owner_finish(&machine->owner);
    hv_free(machine);
}

static void walk_once(void)
{
    struct hv_lock_walk walk;
    uint64_t found = 0;

    hv_lock_walk_begin(&walk);
    for (const struct hv_lock_owner *owner = NULL; (owner = hv_lock_walk_owners(owner));) {
        for (const struct hv_lock_head *lock = NULL; (lock = hv_lock_walk_locks(owner, lock));) {
            uint64_t acquired = hv_load_relaxed(&lock->side.counters.acquired);

            if (lock->owner != owner || lock->index >= LOCKS || acquired > TAKES) {
                hv_store_seq(&shared.wrong, 1);
            }
            found++;
        }
    }
    hv_lock_walk_end(&walk);
    hv_add_relaxed(&shared.found, found);
}

static void make_or_walk(unsigned index, void *context)
{
    unsigned rounds = threads_rounds(1000);

    (void)context;
    hv_race_name_thread(index + 1);
    if (index < MAKERS) {
        for (unsigned i = 0; i < rounds; i++) {
            make_one();
        }
        hv_sub_seq(&shared.makers, 1);
    } else {
        do {
            walk_once();
        } while (hv_load_seq(&shared.makers) > 0);
    }
}

static void come_and_go(void)
{
    int64_t live = hv_alloc_live();

    shared.makers = MAKERS;
    shared.wrong = 0;
    shared.found = 0;
    threads_run(MAKERS + WALKERS, make_or_walk, NULL);
    TAP_EQ(shared.wrong, 0);
    TAP_EQ(hv_alloc_live(), live);
    tap_note("%" PRIu64 " locks found", shared.found);
}

static void test_shuffled(void)
{
    hv_race_shuffle(tap_rng() | 1);
    come_and_go();
    hv_race_end();
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"stress.lock-registry.come-and-go", come_and_go},
        {"stress.lock-registry.shuffled", test_shuffled},
    };
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

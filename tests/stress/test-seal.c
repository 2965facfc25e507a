/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Pages that are code now and data then: vCPUs that write through their TLBs, seal pages for blocks
 * and drop them, beside a device that writes into all of them.
 *
 * The one law: while a block of a page is published, no vCPU stores to the page through a TLB entry.
 */
#include "base/bits.h"
#include "lib/threads.h"
#include "sync/race.h"
#include "unit/mem/mem-fixture.h"

#define VCPUS 2u
#define PAGES 8u

static struct fixture fixture;

/* A block cache without blocks. */
static struct page_code {
    pthread_mutex_t lock;
    /* Guarded by lock. */
    unsigned holds;
    unsigned generation; /* of revocations: a seal that is not inserted yet looks at it */
    /* Atomic: written under the lock. */
    _Atomic uint32_t published;
} code[PAGES];

static _Atomic uint32_t broken, writes, seals, revocations, busy;

static void drop_blocks_locked(unsigned page)
{
    hv_store_seq(&code[page].published, 0);
    for (; code[page].holds > 0; code[page].holds--) {
        hv_memory_unseal_code(&fixture.memory, (hv_gfn){page});
    }
}

static void give_up(void *context, hv_gfn gfn)
{
    (void)context;
    pthread_mutex_lock(&code[gfn.v].lock);
    code[gfn.v].generation++;
    drop_blocks_locked((unsigned)gfn.v);
    pthread_mutex_unlock(&code[gfn.v].lock);
    hv_add_relaxed(&revocations, 1);
}

static const struct hv_memory_hooks hooks = {.revoke_code = give_up};

static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return *state >> 33;
}

/* IN_GUEST. */
static void write_page(struct fake_vcpu *vcpu, unsigned page)
{
    if (vcpu->writable[page].v == HV_MFN_NONE.v && !fake_vcpu_fill(vcpu, (hv_gfn){page})) {
        /* A store to a page with code: its blocks go first, as in the engine's slow path. */
        pthread_mutex_lock(&code[page].lock);
        drop_blocks_locked(page);
        pthread_mutex_unlock(&code[page].lock);
        return;
    }
    if (hv_load_seq(&code[page].published) > 0) {
        hv_add_relaxed(&broken, 1);
    }
    hv_add_relaxed(&writes, 1);
}

/* OUTSIDE: decode a block of the page. */
static void decode_page(struct fake_vcpu *vcpu, unsigned page)
{
    unsigned generation;

    pthread_mutex_lock(&code[page].lock);
    generation = code[page].generation;
    pthread_mutex_unlock(&code[page].lock);
    if (hv_memory_seal_code(&fixture.memory, (hv_gfn){page}, &vcpu->holder) != 0) {
        hv_add_relaxed(&busy, 1);
        return;
    }
    vcpu->writable[page] = HV_MFN_NONE;
    pthread_mutex_lock(&code[page].lock);
    if (generation == code[page].generation) {
        code[page].holds++;
        hv_add_seq(&code[page].published, 1);
    } else {
        hv_memory_unseal_code(&fixture.memory, (hv_gfn){page});
    }
    pthread_mutex_unlock(&code[page].lock);
    hv_add_relaxed(&seals, 1);
}

static void vcpu_run(unsigned index, unsigned rounds)
{
    struct fake_vcpu *vcpu = &fixture.vcpu[index];
    uint64_t random = index + 1;

    for (unsigned i = 0; i < rounds; i++) {
        fake_vcpu_enter(vcpu);
        for (unsigned k = 0; k < 3; k++) {
            write_page(vcpu, (unsigned)(next_random(&random) % PAGES));
            if (hv_load_seq(&vcpu->bell.exit_request)) {
                fake_vcpu_serve(vcpu);
            }
        }
        hv_doorbell_leave(&vcpu->bell);
        decode_page(vcpu, (unsigned)(next_random(&random) % PAGES));
    }
}

static void body(unsigned index, void *context)
{
    unsigned rounds = *(unsigned *)context;
    uint64_t random = 77;
    uint64_t value = 0;

    hv_race_name_thread(index + 1);
    if (index < VCPUS) {
        vcpu_run(index, rounds);
        return;
    }
    for (unsigned i = 0; i < rounds; i++) {
        uint64_t gpa = next_random(&random) % PAGES * HV_PAGE_SIZE;

        value++;
        if (hv_memory_copy(&fixture.memory, (hv_gpa){gpa}, &value, 8, HV_COPY_TO_GUEST)) {
            hv_add_relaxed(&broken, 1);
        }
    }
}

static void test_seal(void)
{
    unsigned rounds = threads_rounds(8000);

    for (unsigned i = 0; i < PAGES; i++) {
        pthread_mutex_init(&code[i].lock, NULL);
    }
    TAP_OK(fixture_open(&fixture, 2, HV_EXTENT_FRAMES, &hooks, NULL));
    TAP_OK(fixture_fill(&fixture, (hv_gfn){0}).v != HV_MFN_NONE.v);
    hv_race_begin();
    hv_race_shuffle(tap_rng());
    threads_run(VCPUS + 1, body, &rounds);
    hv_race_end();
    TAP_EQ(hv_load_relaxed(&broken), 0);
    tap_note("%u writes, %u seals, %u revocations, %u refused", hv_load_relaxed(&writes),
             hv_load_relaxed(&seals), hv_load_relaxed(&revocations), hv_load_relaxed(&busy));
    TAP_OK(hv_load_relaxed(&seals) > 0 && hv_load_relaxed(&revocations) > 0);
    for (unsigned i = 0; i < PAGES; i++) {
        give_up(NULL, (hv_gfn){i});
        TAP_EQ(hv_p2m_lookup(&fixture.memory.p2m, (hv_gfn){i}).kind, HV_LEAF_RAM);
        TAP_EQ(hv_frame_type_references(fixture_frame(&fixture, (hv_gfn){i})), 1);
    }
    check_all_frames(fixture.arena);
    fixture_close(&fixture);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"stress.seal", test_seal},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What others ask of a running vCPU's TLB, with mem's own protocol on the other thread: pages that
 * are sealed under its stores, dirty rounds that must not lose one.
 */
#include "engine/soft/access.h"

#include "lib/threads.h"
#include "soft-tables.h"

#define SCRATCH UINT64_C(0x50000)
#define PAGES   8u
#define ROUNDS  300u

enum { WRITER, ASKER, THREADS };

struct pair {
    struct guest *guest;
    _Atomic unsigned failures;
    _Atomic unsigned sealed; /* odd: the page is */
    _Atomic unsigned over;
    _Atomic uint64_t stores;
    uint64_t copy[PAGES];
};

static uint64_t page_at(unsigned i)
{
    return SCRATCH + i * HV_PAGE_SIZE;
}

static void edge(struct hv_engine_vcpu *vcpu)
{
    if (hv_load_relaxed(&vcpu->bell->exit_request)) {
        soft_serve(vcpu, hv_doorbell_take(vcpu->bell));
        hv_doorbell_acknowledge(vcpu->bell);
    }
}

/* One more in the page's counter, as the interpreter would: by the fast path where it hits. */
static void increment(struct pair *pair, struct hv_engine_vcpu *vcpu, uint64_t gva)
{
    void *host = soft_tlb_lookup(&vcpu->view[SOFT_TLB_WRITE], vcpu->tlb_id, gva, 8);

    if (host) {
        hv_store_relaxed((_Atomic uint64_t *)host, hv_load_relaxed((_Atomic uint64_t *)host) + 1);
    } else {
        uint64_t value;

        if (soft_read_slow(vcpu, gva, 8, &value) || soft_write_slow(vcpu, gva, 8, value + 1)) {
            hv_add_seq(&pair->failures, 1);
        }
    }
    hv_count(&pair->stores, 1);
}

static void write_on(struct pair *pair)
{
    struct hv_engine_vcpu *vcpu = &pair->guest->vcpu[0];
    uint64_t random = 1;

    guest_reenter(pair->guest, 0);
    while (!hv_load_seq(&pair->over)) {
        bool sealed = hv_load_seq(&pair->sealed) % 2;

        /* Nothing is entered between the two lines. */
        if (sealed && soft_tlb_lookup(&vcpu->view[SOFT_TLB_WRITE], vcpu->tlb_id, page_at(0), 8)) {
            hv_add_seq(&pair->failures, 1);
        }
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        increment(pair, vcpu, page_at((unsigned)(random >> 60) % PAGES));
        edge(vcpu);
        if (random >> 56 == 0) {
            guest_reenter(pair->guest, 0);
        }
    }
    hv_doorbell_leave(vcpu->bell);
}

/* Let the writer do something in the present state. */
static void wait_for_stores(struct pair *pair)
{
    uint64_t before = hv_load_relaxed(&pair->stores);
    uint64_t end = threads_patience();

    while (hv_load_relaxed(&pair->stores) < before + 2 * PAGES) {
        if (!threads_patient(end)) {
            hv_add_seq(&pair->failures, 1);
            return;
        }
    }
}

static void seal_and_unseal(struct pair *pair)
{
    struct hv_memory *memory = &pair->guest->memory;
    hv_gfn gfn = hv_gpa_to_gfn((hv_gpa){page_at(0)});

    for (unsigned i = 0; i < ROUNDS; i++) {
        wait_for_stores(pair);
        if (hv_memory_seal_code(memory, gfn, NULL)) {
            hv_add_seq(&pair->failures, 1);
            break;
        }
        hv_add_seq(&pair->sealed, 1);
        wait_for_stores(pair);
        hv_add_seq(&pair->sealed, 1);
        hv_memory_unseal_code(memory, gfn);
    }
    hv_store_seq(&pair->over, 1);
}

static void run_seals(unsigned index, void *context)
{
    if (index == WRITER) {
        write_on(context);
    } else {
        seal_and_unseal(context);
    }
}

/* Once a page is sealed, no vCPU has a write translation of it, and stores go to the block cache. */
static void test_seal(void)
{
    struct guest *guest = guest_create();
    struct pair pair = {.guest = guest};

    guest_long_mode(guest, 0);
    hv_doorbell_leave(&guest->bell[0]);
    threads_run(THREADS, run_seals, &pair);
    TAP_EQ(hv_load_seq(&pair.failures), 0);
    TAP_EQ(hv_load_seq(&pair.sealed), 2 * ROUNDS);
    TAP_OK(guest->code_stores > 0);
    guest_destroy(guest);
}

/* One round of a migration: copy what was written. */
static void copy_round(struct pair *pair)
{
    struct guest *guest = pair->guest;
    uint64_t cursor = 0;
    hv_gfn gfn;

    if (hv_dirty_round(&guest->memory)) {
        hv_add_seq(&pair->failures, 1);
    }
    while (hv_dirty_harvest(&guest->memory, &cursor, &gfn, 1)) {
        for (unsigned i = 0; i < PAGES; i++) {
            if (gfn.v == page_at(i) / HV_PAGE_SIZE) {
                pair->copy[i] = hv_load_relaxed((_Atomic uint64_t *)guest_host(guest, page_at(i)));
            }
        }
    }
}

static void run_rounds(unsigned index, void *context)
{
    struct pair *pair = context;

    if (index == WRITER) {
        write_on(pair);
        return;
    }
    for (unsigned i = 0; i < ROUNDS; i++) {
        copy_round(pair);
        wait_for_stores(pair);
    }
    hv_store_seq(&pair->over, 1);
}

/* Copying only what each round reports ends with the truth. */
static void test_dirty_rounds(void)
{
    struct guest *guest = guest_create();
    struct pair pair = {.guest = guest};

    guest_long_mode(guest, 0);
    hv_doorbell_leave(&guest->bell[0]);
    TAP_EQ(hv_dirty_start(&guest->memory), 0);
    threads_run(THREADS, run_rounds, &pair);
    copy_round(&pair);
    copy_round(&pair);
    TAP_EQ(hv_load_seq(&pair.failures), 0);
    for (unsigned i = 0; i < PAGES; i++) {
        TAP_OK(pair.copy[i] > 0);
        TAP_EQ(pair.copy[i], guest_peek(guest, page_at(i), 8));
    }
    guest_destroy(guest);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"engine.serve.seal", test_seal},
        {"engine.serve.dirty-rounds", test_dirty_rounds},
    };
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

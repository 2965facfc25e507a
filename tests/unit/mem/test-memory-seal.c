/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Pages with code: sealed before blocks are published, given up when somebody wants to write. */
#include "lib/threads.h"
#include "sync/race.h"
#include "unit/mem/mem-fixture.h"

#define PAGE ((hv_gfn){3})

static struct fixture fixture;
static struct hv_frame_access access_owner;

/* A block cache: how many holds it has on the page, and whether one is still on its way in. */
static struct {
    unsigned holds;
    unsigned in_flight; /* sealed, not inserted: gives up its hold one call later */
    unsigned calls;
    bool stubborn;
} cache;

static void give_up(void *context, hv_gfn gfn)
{
    (void)context;
    cache.calls++;
    for (; cache.holds > 0 && !cache.stubborn; cache.holds--) {
        hv_memory_unseal_code(&fixture.memory, gfn);
    }
    cache.holds += cache.in_flight;
    cache.in_flight = 0;
}

static const struct hv_memory_hooks hooks = {.revoke_code = give_up};

static bool open_filled(void)
{
    memset(&cache, 0, sizeof(cache));
    access_owner = (struct hv_frame_access){.memory = &fixture.memory};
    return fixture_open(&fixture, 2, 2 * HV_EXTENT_FRAMES, &hooks, NULL) &&
           fixture_fill(&fixture, PAGE).v != HV_MFN_NONE.v;
}

static struct hv_leaf leaf(void)
{
    return hv_p2m_lookup(&fixture.memory.p2m, PAGE);
}

static void use(struct fake_vcpu *vcpu)
{
    fake_vcpu_enter(vcpu);
    (void)fake_vcpu_fill(vcpu, PAGE);
    hv_doorbell_leave(&vcpu->bell);
}

static void test_seal_and_back(void)
{
    struct hv_frame *frame;

    TAP_OK(open_filled());
    frame = fixture_frame(&fixture, PAGE);
    use(&fixture.vcpu[0]);
    use(&fixture.vcpu[1]);
    TAP_EQ(hv_memory_seal_code(&fixture.memory, PAGE, NULL), 0);
    TAP_EQ(leaf().kind, HV_LEAF_RAM_RO);
    TAP_EQ(hv_frame_type(frame), HV_FRAME_TYPE_SEALED);
    TAP_EQ(hv_frame_reasons(frame), HV_SEAL_CODE);
    TAP_EQ(hv_frame_type_references(frame), 2);
    TAP_OK(!fake_vcpu_can_write(&fixture.vcpu[0], PAGE));
    TAP_OK(!fake_vcpu_can_write(&fixture.vcpu[1], PAGE));
    hv_memory_unseal_code(&fixture.memory, PAGE);
    TAP_EQ(leaf().kind, HV_LEAF_RAM);
    TAP_EQ(hv_frame_type(frame), HV_FRAME_TYPE_WRITABLE);
    TAP_EQ(hv_frame_type_references(frame), 1);
    /* Back to writable asks nobody to flush. */
    TAP_EQ(hv_load_seq(&fixture.vcpu[0].bell.requests), 0);
    hv_frame_check(frame);
    fixture_close(&fixture);
}

/* The caller's own TLB is its own business: it is neither rung nor, so, wholly flushed. */
static void test_spares_self(void)
{
    uint64_t issued;

    TAP_OK(open_filled());
    use(&fixture.vcpu[0]);
    use(&fixture.vcpu[1]);
    TAP_EQ(hv_memory_seal_code(&fixture.memory, PAGE, &fixture.vcpu[0].holder), 0);
    TAP_EQ(hv_load_seq(&fixture.vcpu[0].bell.requests), 0);
    TAP_EQ(hv_load_seq(&fixture.vcpu[1].bell.requests), HV_REQUEST_FLUSH);
    /* One that flushed since needs none: the stamp is the seal's, taken after the leaf changed. */
    hv_memory_unseal_code(&fixture.memory, PAGE);
    issued = hv_load_relaxed(&fixture.memory.flushes.issued);
    TAP_EQ(issued, 1);
    fixture_close(&fixture);
}

/* A domain of one vCPU that seals page after page asks nobody at all. */
static void test_single_vcpu(void)
{
    TAP_OK(open_filled());
    use(&fixture.vcpu[0]);
    for (uint64_t i = 0; i < HV_EXTENT_FRAMES; i++) {
        TAP_EQ(hv_memory_seal_code(&fixture.memory, (hv_gfn){i}, &fixture.vcpu[0].holder), 0);
    }
    TAP_EQ(hv_load_relaxed(&fixture.memory.flushes.issued), 0);
    TAP_EQ(hv_load_relaxed(&fixture.memory.flushes.filtered), 0);
    for (uint64_t i = 0; i < HV_EXTENT_FRAMES; i++) {
        hv_memory_unseal_code(&fixture.memory, (hv_gfn){i});
    }
    TAP_EQ(hv_load_relaxed(&fixture.memory.flushes.issued), 0);
    check_all_frames(fixture.arena);
    fixture_close(&fixture);
}

static void test_holds_are_counted(void)
{
    TAP_OK(open_filled());
    TAP_EQ(hv_memory_seal_code(&fixture.memory, PAGE, NULL), 0);
    TAP_EQ(hv_memory_seal_code(&fixture.memory, PAGE, NULL), 0);
    hv_memory_unseal_code(&fixture.memory, PAGE);
    TAP_EQ(leaf().kind, HV_LEAF_RAM_RO);
    hv_memory_unseal_code(&fixture.memory, PAGE);
    TAP_EQ(leaf().kind, HV_LEAF_RAM);
    hv_memory_unseal_code(&fixture.memory, PAGE);
    TAP_EQ(leaf().kind, HV_LEAF_RAM);
    fixture_close(&fixture);
}

static void test_refusals(void)
{
    hv_mfn mfn;

    TAP_OK(open_filled());
    mfn = leaf().mfn;
    TAP_EQ(hv_memory_seal_code(&fixture.memory, (hv_gfn){600}, NULL), (uint64_t)-ENOENT);
    TAP_EQ(hv_memory_seal_code(&fixture.memory, (hv_gfn){UINT64_MAX}, NULL), (uint64_t)-ENOENT);
    TAP_EQ(hv_frame_pin(fixture.arena, mfn, &access_owner), 0);
    TAP_EQ(hv_memory_seal_code(&fixture.memory, PAGE, NULL), (uint64_t)-EBUSY);
    TAP_EQ(leaf().kind, HV_LEAF_RAM);
    hv_frame_unpin(fixture.arena, mfn);
    TAP_EQ(hv_memory_seal_code(&fixture.memory, PAGE, NULL), 0);
    hv_memory_unseal_code(&fixture.memory, PAGE);
    fixture_close(&fixture);
}

/* A pin wants the page WRITABLE: the blocks go, and until it is pinned no new seal comes. */
static void test_pin_revokes(void)
{
    hv_mfn mfn;

    TAP_OK(open_filled());
    mfn = leaf().mfn;
    TAP_EQ(hv_memory_seal_code(&fixture.memory, PAGE, NULL), 0);
    TAP_EQ(hv_memory_seal_code(&fixture.memory, PAGE, NULL), 0);
    cache.holds = 1;
    cache.in_flight = 1;
    TAP_EQ(hv_frame_pin(fixture.arena, mfn, &access_owner), 0);
    TAP_EQ(cache.calls, 2);
    TAP_EQ(leaf().kind, HV_LEAF_RAM);
    TAP_EQ(hv_memory_seal_code(&fixture.memory, PAGE, NULL), (uint64_t)-EBUSY);
    TAP_EQ(hv_load_seq(&fixture.memory.write_wanted), 0);
    hv_frame_unpin(fixture.arena, mfn);
    fixture_close(&fixture);
}

/* A page that leaves the p2m takes its blocks with it, and its frame is free at once. */
static void test_set_kind_revokes(void)
{
    uint64_t free_before;

    TAP_OK(open_filled());
    TAP_EQ(hv_memory_seal_code(&fixture.memory, PAGE, NULL), 0);
    cache.holds = 1;
    free_before = fixture_info(&fixture).free_frames;
    TAP_EQ(hv_memory_set_kind(&fixture.memory, PAGE, 1, HV_LEAF_MMIO), 0);
    TAP_EQ(cache.calls, 1);
    TAP_EQ(leaf().kind, HV_LEAF_MMIO);
    TAP_EQ(fixture_info(&fixture).free_frames, free_before + 1);
    check_all_frames(fixture.arena);
    fixture_close(&fixture);
}

static void test_seals_refused_meanwhile(void)
{
    TAP_OK(open_filled());
    hv_memory_refuse_seals(&fixture.memory);
    TAP_EQ(hv_memory_seal_code(&fixture.memory, PAGE, NULL), (uint64_t)-EBUSY);
    hv_memory_allow_seals(&fixture.memory);
    TAP_EQ(hv_memory_seal_code(&fixture.memory, PAGE, NULL), 0);
    hv_memory_unseal_code(&fixture.memory, PAGE);
    fixture_close(&fixture);
}

/* A second sealer does not publish before the first one's flush is done. */
static _Atomic uint32_t sealed;

static void seal_body(unsigned index, void *context)
{
    (void)context;
    hv_race_name_thread(index + 1);
    if (hv_memory_seal_code(&fixture.memory, PAGE, NULL) == 0) {
        hv_add_seq(&sealed, 1);
    }
}

static void test_second_waits(void)
{
    struct threads sealers;

    if (skip_script()) {
        return;
    }
    TAP_OK(open_filled());
    hv_store_seq(&sealed, 0);
    hv_race_begin();
    hv_race_stop(1, "frame.get.taken", 0);
    hv_race_stop(2, "frame.get.taken", 0);
    threads_start(&sealers, 2, seal_body, NULL);
    /* One of them changes the type and parks; the other waits for it to be validated. */
    TAP_AWAIT(hv_load_seq(&fixture.arena->settled.waiters) == 1);
    TAP_EQ(hv_load_seq(&sealed), 0);
    hv_race_end();
    threads_join(&sealers);
    TAP_EQ(hv_load_seq(&sealed), 2);
    TAP_EQ(hv_frame_type_references(fixture_frame(&fixture, PAGE)), 3);
    fixture_close(&fixture);
}

static void between_body(unsigned index, void *context)
{
    (void)context;
    hv_race_name_thread(index + 1);
    if (index == 0) {
        hv_memory_unseal_code(&fixture.memory, PAGE);
    } else if (hv_race_await(1, "memory.swap.between") &&
               hv_frame_type_get(fixture.arena, leaf().mfn, HV_FRAME_TYPE_WRITABLE, 0,
                                 &access_owner) == 0) {
        hv_add_seq(&sealed, 1);
    }
}

/* Somebody takes the frame WRITABLE between the two halves of an unseal, and is slow to say so:
 * nobody waits for it under the p2m lock. */
static void test_taken_between(void)
{
    struct threads both;

    if (skip_script()) {
        return;
    }
    TAP_OK(open_filled());
    hv_store_seq(&sealed, 0);
    TAP_EQ(hv_memory_seal_code(&fixture.memory, PAGE, NULL), 0);
    hv_race_begin();
    hv_race_stop(1, "memory.swap.between", 0);
    hv_race_stop(2, "frame.get.taken", 0);
    threads_start(&both, 2, between_body, NULL);
    TAP_OK(hv_race_await(2, "frame.get.taken"));
    hv_race_release(1, "memory.swap.between");
    TAP_AWAIT(leaf().kind == HV_LEAF_RAM);
    TAP_EQ(hv_load_seq(&sealed), 0);
    hv_race_end();
    threads_join(&both);
    TAP_EQ(hv_load_seq(&sealed), 1);
    TAP_EQ(hv_frame_type_references(fixture_frame(&fixture, PAGE)), 2);
    TAP_OK(hv_load_seq(&fixture_frame(&fixture, PAGE)->type) & HV_FRAME_VALIDATED);
    hv_frame_type_put(fixture.arena, leaf().mfn);
    fixture_close(&fixture);
}

/* A copy that comes between the two halves of a seal keeps the page RAM. */
static void seal_between_body(unsigned index, void *context)
{
    int *err = context;

    hv_race_name_thread(index + 1);
    *err = hv_memory_seal_code(&fixture.memory, PAGE, NULL);
}

static void test_seal_loses(void)
{
    struct threads sealer;
    int err = 0;

    if (skip_script()) {
        return;
    }
    TAP_OK(open_filled());
    hv_race_begin();
    hv_race_stop(1, "memory.swap.between", 0);
    threads_start(&sealer, 1, seal_between_body, &err);
    TAP_OK(hv_race_await(1, "memory.swap.between"));
    TAP_EQ(leaf().kind, HV_LEAF_RAM_RO);
    TAP_EQ(hv_frame_type_get(fixture.arena, leaf().mfn, HV_FRAME_TYPE_WRITABLE, 0, &access_owner),
           0);
    hv_race_end();
    threads_join(&sealer);
    TAP_EQ(err, (uint64_t)-EBUSY);
    TAP_EQ(leaf().kind, HV_LEAF_RAM);
    TAP_EQ(hv_frame_type_references(fixture_frame(&fixture, PAGE)), 2);
    hv_frame_type_put(fixture.arena, leaf().mfn);
    fixture_close(&fixture);
}

static void refused_body(unsigned index, void *context)
{
    int *err = context;

    hv_race_name_thread(index + 1);
    *err = hv_frame_type_get(fixture.arena, leaf().mfn, HV_FRAME_TYPE_WRITABLE, 0, &access_owner);
}

/* A device is refused for a seal that is given up before it can ask for that: not its business. */
static void test_given_up_meanwhile(void)
{
    struct threads device;
    int err = -EIO;

    if (skip_script()) {
        return;
    }
    TAP_OK(open_filled());
    TAP_EQ(hv_memory_seal_code(&fixture.memory, PAGE, NULL), 0);
    hv_race_begin();
    hv_race_stop(1, "frame.get.refused", 0);
    threads_start(&device, 1, refused_body, &err);
    TAP_OK(hv_race_await(1, "frame.get.refused"));
    hv_memory_unseal_code(&fixture.memory, PAGE);
    TAP_EQ(leaf().kind, HV_LEAF_RAM);
    hv_race_end();
    threads_join(&device);
    TAP_EQ(err, 0);
    hv_frame_type_put(fixture.arena, leaf().mfn);
    fixture_close(&fixture);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"mem.seal.there-and-back", test_seal_and_back},
        {"mem.seal.spares-self", test_spares_self},
        {"mem.seal.single-vcpu", test_single_vcpu},
        {"mem.seal.holds-are-counted", test_holds_are_counted},
        {"mem.seal.refusals", test_refusals},
        {"mem.seal.pin-revokes", test_pin_revokes},
        {"mem.seal.set-kind-revokes", test_set_kind_revokes},
        {"mem.seal.refused-meanwhile", test_seals_refused_meanwhile},
        {"mem.seal.second-waits", test_second_waits},
        {"mem.seal.taken-between", test_taken_between},
        {"mem.seal.loses", test_seal_loses},
        {"mem.seal.given-up-meanwhile", test_given_up_meanwhile},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

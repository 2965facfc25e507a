/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The TLB: flushes by what they must and need not drop, ids, large pages, views, epochs. */
#include "engine/soft/tlb-private.h"

#include "soft-tables.h"

static void *known(const struct hv_engine_vcpu *vcpu, enum soft_tlb_kind kind, uint64_t gva)
{
    return soft_tlb_lookup(&vcpu->view[kind], vcpu->tlb_id, gva, 1);
}

static struct guest *guest_with_pcids(void)
{
    struct guest *guest = guest_create();

    guest_long_mode(guest, 0);
    guest->cpu[0].cr4 |= HV_CR4_PCIDE;
    soft_tlb_set_mode(&guest->vcpu[0]);
    return guest;
}

static void test_lookup(void)
{
    struct guest *guest = guest_create();
    struct hv_engine_vcpu *vcpu = &guest->vcpu[0];
    const struct soft_tlb_view *view = &vcpu->view[SOFT_TLB_READ];

    guest_long_mode(guest, 0);
    TAP_OK(!known(vcpu, SOFT_TLB_READ, SCRATCH));
    TAP_EQ(walks(vcpu, SCRATCH + 8), 1);
    TAP_EQ((uintptr_t)known(vcpu, SOFT_TLB_READ, SCRATCH + 0x123),
           (uintptr_t)guest_host(guest, SCRATCH + 0x123));
    TAP_OK(soft_tlb_lookup(view, vcpu->tlb_id, SCRATCH + 0xff8, 8));
    TAP_OK(!soft_tlb_lookup(view, vcpu->tlb_id, SCRATCH + 0xff9, 8));
    TAP_OK(!known(vcpu, SOFT_TLB_WRITE, SCRATCH));
    TAP_OK(!known(vcpu, SOFT_TLB_READ, SCRATCH + SOFT_TLB_ENTRIES_MIN * HV_PAGE_SIZE));
    TAP_EQ(walks(vcpu, SCRATCH + 8), 0);
    guest_destroy(guest);
}

/* A store's translation serves the loads that follow it, where nothing else would have to go. */
static void test_write_then_read(void)
{
    struct guest *guest = guest_create();
    struct hv_engine_vcpu *vcpu = &guest->vcpu[0];
    uint64_t same_index = SCRATCH + SOFT_TLB_ENTRIES_MIN * HV_PAGE_SIZE;
    uint64_t global = SCRATCH + HV_PAGE_SIZE;

    guest_long_mode(guest, 0);
    guest_map(guest, global, global | PTE_TABLE | PTE_G);
    TAP_EQ(soft_write_slow(vcpu, SCRATCH, 1, 1), 0);
    TAP_EQ((uintptr_t)known(vcpu, SOFT_TLB_READ, SCRATCH), (uintptr_t)guest_host(guest, SCRATCH));
    TAP_EQ(soft_write_slow(vcpu, same_index, 1, 1), 0);
    TAP_OK(known(vcpu, SOFT_TLB_READ, SCRATCH));
    TAP_EQ(walks(vcpu, same_index), 1);
    /* But not the other way round, and not where stores are slow. */
    TAP_EQ(walks(vcpu, 0x60000), 1);
    TAP_OK(!known(vcpu, SOFT_TLB_WRITE, 0x60000));
    guest_set_leaf(guest, 0x61000, HV_LEAF_ROM_OVER_RAM);
    TAP_EQ(soft_write_slow(vcpu, 0x61000, 1, 1), 0);
    TAP_OK(!known(vcpu, SOFT_TLB_READ, 0x61000));

    TAP_EQ(soft_write_slow(vcpu, global, 1, 1), 0);
    soft_tlb_flush_non_global(vcpu);
    TAP_EQ(walks(vcpu, global), 0);
    TAP_EQ(walks(vcpu, SCRATCH), 1);
    guest_destroy(guest);
}

static void test_flush_page(void)
{
    struct guest *guest = guest_create();
    struct hv_engine_vcpu *vcpu = &guest->vcpu[0];

    guest_long_mode(guest, 0);
    TAP_EQ(walks(vcpu, SCRATCH), 1);
    TAP_EQ(walks(vcpu, SCRATCH + HV_PAGE_SIZE), 1);
    soft_tlb_flush_page(vcpu, (hv_gva){SCRATCH + 5});
    TAP_EQ(walks(vcpu, SCRATCH + HV_PAGE_SIZE), 0);
    TAP_EQ(walks(vcpu, SCRATCH), 1);
    guest_destroy(guest);
}

static void test_global(void)
{
    struct guest *guest = guest_create();
    struct hv_engine_vcpu *vcpu = &guest->vcpu[0];
    uint64_t global = SCRATCH + HV_PAGE_SIZE;

    guest_long_mode(guest, 0);
    guest_map(guest, global, global | PTE_TABLE | PTE_G);
    TAP_EQ(walks(vcpu, SCRATCH), 1);
    TAP_EQ(walks(vcpu, global), 1);
    soft_tlb_flush_non_global(vcpu);
    TAP_OK(!known(vcpu, SOFT_TLB_READ, global));
    TAP_EQ(walks(vcpu, SCRATCH), 1);
    TAP_EQ(walks(vcpu, global), 0);
    TAP_OK(known(vcpu, SOFT_TLB_READ, global));
    /* A right that was never looked up is not there: the page may be clean. */
    TAP_EQ(soft_write_slow(vcpu, global, 1, 1), 0);
    TAP_EQ(guest_entry(guest, global) & PTE_D, PTE_D);

    /* INVLPG drops it in every address space and in the second level. */
    soft_tlb_flush_non_global(vcpu);
    soft_tlb_flush_page(vcpu, (hv_gva){global});
    TAP_EQ(walks(vcpu, global), 1);
    soft_tlb_flush_all(vcpu);
    TAP_EQ(walks(vcpu, global), 1);
    /* Without CR4.PGE there are no global pages. */
    guest->cpu[0].cr4 &= ~(uint64_t)HV_CR4_PGE;
    soft_tlb_set_mode(vcpu);
    TAP_EQ(walks(vcpu, global), 1);
    soft_tlb_flush_non_global(vcpu);
    TAP_EQ(walks(vcpu, global), 1);
    guest_destroy(guest);
}

static void test_pcids(void)
{
    struct guest *guest = guest_with_pcids();
    struct hv_engine_vcpu *vcpu = &guest->vcpu[0];
    uint64_t global = SCRATCH + HV_PAGE_SIZE;
    uint64_t other = SCRATCH + 2 * HV_PAGE_SIZE; /* one slot is not for two address spaces */

    guest_map(guest, global, global | PTE_TABLE | PTE_G);
    TAP_EQ(walks(vcpu, SCRATCH), 1);
    TAP_EQ(walks(vcpu, global), 1);
    soft_tlb_switch_pcid(vcpu, 7, true);
    TAP_OK(!known(vcpu, SOFT_TLB_READ, SCRATCH));
    TAP_EQ(walks(vcpu, other), 1);
    TAP_EQ(walks(vcpu, global), 0);
    soft_tlb_switch_pcid(vcpu, 0, true);
    TAP_EQ(walks(vcpu, SCRATCH), 0);
    TAP_OK(!known(vcpu, SOFT_TLB_READ, other));
    soft_tlb_switch_pcid(vcpu, 7, true);
    TAP_EQ(walks(vcpu, other), 0);
    /* Not kept: bit 63 of CR3 was clear. */
    soft_tlb_switch_pcid(vcpu, 0, false);
    TAP_EQ(walks(vcpu, SCRATCH), 1);
    TAP_EQ(walks(vcpu, global), 0);
    /* INVPCID of another and of the current one. */
    soft_tlb_flush_pcid(vcpu, 7);
    TAP_EQ(walks(vcpu, SCRATCH), 0);
    soft_tlb_switch_pcid(vcpu, 7, true);
    TAP_EQ(walks(vcpu, other), 1);
    soft_tlb_flush_pcid(vcpu, 7);
    TAP_EQ(walks(vcpu, other), 1);
    /* All contexts but global. */
    soft_tlb_flush_non_global(vcpu);
    TAP_EQ(walks(vcpu, global), 0);
    soft_tlb_switch_pcid(vcpu, 0, true);
    TAP_EQ(walks(vcpu, SCRATCH), 1);

    /* A global page that was entered under another PCID goes by INVLPG, too. */
    soft_tlb_switch_pcid(vcpu, 7, true);
    TAP_EQ(walks(vcpu, global), 0);
    soft_tlb_switch_pcid(vcpu, 0, true);
    soft_tlb_flush_page(vcpu, (hv_gva){global});
    soft_tlb_switch_pcid(vcpu, 7, true);
    TAP_EQ(walks(vcpu, global), 1);
    guest_destroy(guest);
}

/* More PCIDs than are kept: the translations of one are never taken for another's. */
static void test_many_pcids(void)
{
    struct guest *guest = guest_with_pcids();
    struct hv_engine_vcpu *vcpu = &guest->vcpu[0];

    for (unsigned i = 0; i < 1000; i++) {
        uint16_t pcid = (uint16_t)(tap_rng() % (2 * SOFT_TLB_SPACES));
        uint64_t page = HV_MIB + pcid * HV_PAGE_SIZE;
        uint64_t value;

        /* Each PCID sees another page at SCRATCH; a kept translation must still say so. */
        guest_poke(guest, GUEST_PT + SCRATCH / HV_PAGE_SIZE * 8, 8, page | PTE_TABLE);
        guest_poke(guest, page, 8, 100 + pcid);
        guest->cpu[0].cr3 = GUEST_PML4 | pcid;
        soft_tlb_switch_pcid(vcpu, pcid, true);
        TAP_EQ(soft_read_slow(vcpu, SCRATCH, 8, &value), 0);
        TAP_EQ(value, 100 + pcid);
    }
    guest_destroy(guest);
}

/* PCIDs switched off and on: what was entered as PCID 0 does not turn up as another's. */
static void test_pcide_change(void)
{
    struct guest *guest = guest_with_pcids();
    struct hv_engine_vcpu *vcpu = &guest->vcpu[0];

    soft_tlb_switch_pcid(vcpu, 5, true);
    guest->cpu[0].cr4 &= ~(uint64_t)HV_CR4_PCIDE;
    soft_tlb_set_mode(vcpu);
    TAP_EQ(walks(vcpu, SCRATCH), 1);
    guest->cpu[0].cr4 |= HV_CR4_PCIDE;
    soft_tlb_set_mode(vcpu);
    TAP_EQ(walks(vcpu, SCRATCH), 1);
    soft_tlb_switch_pcid(vcpu, 5, true);
    TAP_EQ(walks(vcpu, SCRATCH), 1);
    guest_destroy(guest);
}

static void test_ids_run_out(void)
{
    struct guest *guest = guest_with_pcids();
    struct hv_engine_vcpu *vcpu = &guest->vcpu[0];
    uint64_t generation;

    vcpu->tlbs->last_id = 9;
    for (unsigned i = 0; i < 100; i++) {
        generation = vcpu->fetch_generation[0];
        TAP_EQ(walks(vcpu, SCRATCH), 1);
        soft_tlb_flush_non_global(vcpu);
        TAP_OK(vcpu->tlb_id >= 1 && vcpu->tlb_id <= 9);
        TAP_OK(vcpu->fetch_generation[0] > generation);
        TAP_OK(!known(vcpu, SOFT_TLB_READ, SCRATCH));
    }
    /* A space that is kept while the ids run out loses its entries and its id, and is not given
     * what another one entered under that. */
    soft_tlb_switch_pcid(vcpu, 3, true);
    TAP_EQ(walks(vcpu, SCRATCH), 1);
    soft_tlb_switch_pcid(vcpu, 4, false);
    for (uint64_t i = 1; i < 20; i++) {
        soft_tlb_flush_pcid(vcpu, 4);
        TAP_EQ(walks(vcpu, SCRATCH + i * HV_PAGE_SIZE), 1);
    }
    soft_tlb_switch_pcid(vcpu, 3, true);
    for (uint64_t i = 0; i < 20; i++) {
        TAP_OK(!known(vcpu, SOFT_TLB_READ, SCRATCH + i * HV_PAGE_SIZE));
    }
    guest_destroy(guest);
}

/* INVLPG anywhere inside a large page drops every piece of it, and leaves others' pages alone. */
static void test_large_pages(void)
{
    for (unsigned global = 0; global < 2; global++) {
        struct guest *guest = guest_create();
        struct hv_engine_vcpu *vcpu = &guest->vcpu[0];
        uint64_t g = global ? PTE_G : 0;
        uint64_t value;

        guest_long_mode(guest, 0);
        guest_poke(guest, GUEST_PD + 8, 8, 4 * HV_MIB | PTE_TABLE | PTE_PS | g);
        guest_poke(guest, 4 * HV_MIB + 0x3000, 8, 44);
        guest_poke(guest, 6 * HV_MIB + 0x3000, 8, 66);
        TAP_EQ(walks(vcpu, SCRATCH), 1);
        TAP_EQ(soft_read_slow(vcpu, 2 * HV_MIB + 0x3000, 8, &value), 0);
        TAP_EQ(value, 44);
        soft_tlb_flush_page(vcpu, (hv_gva){SCRATCH + HV_PAGE_SIZE});
        TAP_EQ(walks(vcpu, 2 * HV_MIB + 0x3000), 0);
        TAP_EQ(walks(vcpu, SCRATCH), 0);

        guest_poke(guest, GUEST_PD + 8, 8, 6 * HV_MIB | PTE_TABLE | PTE_PS | g);
        soft_tlb_flush_page(vcpu, (hv_gva){2 * HV_MIB + 0x1ff000});
        TAP_EQ(soft_read_slow(vcpu, 2 * HV_MIB + 0x3000, 8, &value), 0);
        TAP_EQ(value, 66);
        guest_destroy(guest);
    }
}

static void test_modes(void)
{
    struct guest *guest = guest_create();
    struct hv_engine_vcpu *vcpu = &guest->vcpu[0];
    uint64_t value;

    guest_long_mode(guest, 0);
    TAP_EQ(vcpu->mode, SOFT_TLB_SUPERVISOR_AC); /* SMAP is off */
    guest->cpu[0].cr4 |= HV_CR4_SMAP;
    soft_tlb_set_mode(vcpu);
    TAP_EQ(vcpu->mode, SOFT_TLB_SUPERVISOR);
    TAP_EQ(soft_read_slow(vcpu, SCRATCH, 1, &value), HV_FAULTED);
    guest_set_ac(guest, true);
    TAP_EQ(vcpu->mode, SOFT_TLB_SUPERVISOR_AC);
    TAP_EQ(walks(vcpu, SCRATCH), 1);
    guest_set_ac(guest, false);
    TAP_OK(!known(vcpu, SOFT_TLB_READ, SCRATCH));
    TAP_EQ(soft_read_slow(vcpu, SCRATCH, 1, &value), HV_FAULTED);
    guest_set_ac(guest, true);
    TAP_EQ(walks(vcpu, SCRATCH), 0); /* a change of mode drops nothing */

    /* Rights that depend on registers go with them. */
    guest_map(guest, SCRATCH, SCRATCH | PTE_P);
    guest->cpu[0].cr0 &= ~(uint64_t)HV_CR0_WP;
    soft_tlb_set_mode(vcpu);
    TAP_EQ(soft_write_slow(vcpu, SCRATCH, 1, 1), 0);
    TAP_OK(known(vcpu, SOFT_TLB_WRITE, SCRATCH));
    guest->cpu[0].cr0 |= HV_CR0_WP;
    soft_tlb_set_mode(vcpu);
    TAP_OK(!known(vcpu, SOFT_TLB_WRITE, SCRATCH));
    TAP_EQ(soft_write_slow(vcpu, SCRATCH, 1, 1), HV_FAULTED);
    guest_destroy(guest);
}

static int fetch(struct hv_engine_vcpu *vcpu, uint64_t gva)
{
    const uint8_t *host;
    hv_gpa gpa;

    return soft_fetch_page(vcpu, gva, &gpa, &host);
}

/* What may have become wrong voids cached fetches, and little else does. */
static void test_fetch_generation(void)
{
    struct guest *guest = guest_with_pcids();
    struct hv_engine_vcpu *vcpu = &guest->vcpu[0];
    const uint64_t *now = &vcpu->fetch_generation[0];
    uint64_t before;

    TAP_EQ(fetch(vcpu, SCRATCH), 0);
    TAP_EQ(walks(vcpu, SCRATCH + HV_PAGE_SIZE), 1);
    before = *now;
    soft_tlb_flush_page(vcpu, (hv_gva){SCRATCH + HV_PAGE_SIZE}); /* data */
    TAP_EQ(*now, before);
    soft_serve(vcpu, HV_REQUEST_FLUSH | HV_REQUEST_EPOCH); /* other host pages, same translations */
    TAP_EQ(*now, before);
    guest_set_cpl(guest, 3);
    guest_set_cpl(guest, 0);
    TAP_EQ(*now, before);
    /* The page was fetched before the flush, in this generation. */
    soft_tlb_flush_page(vcpu, (hv_gva){SCRATCH});
    TAP_OK(*now > before);
    before = *now;
    soft_tlb_flush_page(vcpu, (hv_gva){SCRATCH});
    TAP_EQ(*now, before);
    soft_tlb_flush_pcid(vcpu, 7); /* another */
    TAP_EQ(*now, before);
    soft_tlb_flush_pcid(vcpu, 0);
    TAP_OK(*now > before);
    before = *now;
    soft_tlb_flush_non_global(vcpu);
    TAP_OK(*now > before);
    before = *now;
    soft_tlb_flush_all(vcpu);
    TAP_OK(*now > before);

    /* Fetched, then pushed out of table and victims by others of its index. */
    guest_poke(guest, GUEST_PD + 8, 8, GUEST_PT | PTE_TABLE);
    TAP_EQ(fetch(vcpu, SCRATCH), 0);
    for (uint64_t i = 1; i <= SOFT_TLB_VICTIMS + 4; i++) {
        TAP_EQ(fetch(vcpu, SCRATCH + i * SOFT_TLB_ENTRIES_MIN * HV_PAGE_SIZE), 0);
    }
    before = *now;
    soft_tlb_flush_page(vcpu, (hv_gva){SCRATCH});
    TAP_OK(*now > before);

    /* Fetched, then gone with everything when the ids ran out by flushes that void no fetch. */
    vcpu->tlbs->last_id = 9;
    TAP_EQ(fetch(vcpu, SCRATCH), 0);
    before = *now;
    for (unsigned i = 0; i < 10; i++) {
        soft_serve(vcpu, HV_REQUEST_FLUSH);
    }
    soft_tlb_flush_page(vcpu, (hv_gva){SCRATCH});
    TAP_OK(*now > before);
    guest_destroy(guest);
}

/* What an address space fetched is good again when it comes back, unless a flush reached it. */
static void test_fetch_generation_of_spaces(void)
{
    struct guest *guest = guest_with_pcids();
    struct hv_engine_vcpu *vcpu = &guest->vcpu[0];
    const uint64_t *now = &vcpu->fetch_generation[0];
    uint64_t first, second;

    TAP_EQ(fetch(vcpu, SCRATCH), 0);
    first = *now;
    soft_tlb_switch_pcid(vcpu, 1, true);
    TAP_EQ(fetch(vcpu, SCRATCH), 0);
    second = *now;
    TAP_OK(second != first);
    soft_tlb_switch_pcid(vcpu, 0, true);
    TAP_EQ(*now, first);
    soft_tlb_switch_pcid(vcpu, 1, true);
    TAP_EQ(*now, second);
    /* INVPCID of the other, CR3 written without bit 63. */
    soft_tlb_flush_pcid(vcpu, 0);
    soft_tlb_switch_pcid(vcpu, 0, true);
    TAP_OK(*now > second);
    first = *now;
    soft_tlb_switch_pcid(vcpu, 1, false);
    TAP_OK(*now > first);
    second = *now;
    /* INVLPG here of what was fetched there, its entry long gone: it may be global. */
    soft_tlb_switch_pcid(vcpu, 0, true);
    TAP_EQ(fetch(vcpu, SCRATCH), 0);
    soft_tlb_switch_pcid(vcpu, 1, true);
    soft_tlb_switch_pcid(vcpu, 2, true);
    soft_tlb_switch_pcid(vcpu, 1, true);
    soft_tlb_flush_page(vcpu, (hv_gva){SCRATCH});
    TAP_OK(*now > second);
    second = *now;
    /* No two of them are of one generation, and each keeps its new one. */
    soft_tlb_switch_pcid(vcpu, 0, true);
    TAP_OK(*now != first && *now > second);
    first = *now;
    soft_tlb_switch_pcid(vcpu, 2, true);
    TAP_OK(*now > first);
    soft_tlb_switch_pcid(vcpu, 1, true);
    TAP_EQ(*now, second);
    soft_tlb_switch_pcid(vcpu, 0, true);
    TAP_EQ(*now, first);
    guest_destroy(guest);
}

#define UPPER UINT64_C(0xffff800000000000)

/* A kernel's global pages outlive changes of address space, others of the upper half do not. */
static void test_fetch_generation_of_kernel(void)
{
    struct guest *guest = guest_with_pcids();
    struct hv_engine_vcpu *vcpu = &guest->vcpu[0];
    const uint64_t *now = &vcpu->fetch_generation[1];
    uint64_t before;

    guest_poke(guest, GUEST_PML4 + 256 * 8, 8, GUEST_PDPT | PTE_TABLE);
    guest_map(guest, SCRATCH, SCRATCH | PTE_TABLE | PTE_G);
    soft_tlb_flush_all(vcpu);
    before = *now;
    TAP_EQ(fetch(vcpu, UPPER + SCRATCH), 0);
    TAP_EQ(fetch(vcpu, SCRATCH + HV_PAGE_SIZE), 0);
    soft_tlb_switch_pcid(vcpu, 1, true);
    soft_tlb_switch_pcid(vcpu, 0, false);
    soft_tlb_flush_pcid(vcpu, 0);
    soft_tlb_flush_non_global(vcpu);
    soft_tlb_flush_page(vcpu, (hv_gva){SCRATCH + HV_PAGE_SIZE});
    TAP_EQ(*now, before);
    soft_tlb_flush_page(vcpu, (hv_gva){UPPER + SCRATCH});
    TAP_OK(*now > before);

    /* Fetched, pushed out, and the other half's fetches voided meanwhile. */
    guest_poke(guest, GUEST_PD + 8, 8, GUEST_PT | PTE_TABLE);
    TAP_EQ(fetch(vcpu, UPPER + SCRATCH), 0);
    for (uint64_t i = 1; i <= SOFT_TLB_VICTIMS + 4; i++) {
        TAP_EQ(fetch(vcpu, SCRATCH + i * SOFT_TLB_ENTRIES_MIN * HV_PAGE_SIZE), 0);
    }
    soft_tlb_flush_non_global(vcpu);
    before = *now;
    soft_tlb_flush_page(vcpu, (hv_gva){UPPER + SCRATCH});
    TAP_OK(*now > before);

    /* One page that is not global concerns all changes, until all such pages are forgotten. */
    TAP_EQ(fetch(vcpu, UPPER + SCRATCH + HV_PAGE_SIZE), 0);
    for (unsigned i = 0; i < 3; i++) {
        before = *now;
        soft_tlb_switch_pcid(vcpu, (uint16_t)i, true);
        TAP_OK(*now > before);
        before = *now;
        soft_tlb_flush_pcid(vcpu, (uint16_t)i);
        TAP_OK(*now > before);
    }
    before = *now;
    soft_tlb_flush_non_global(vcpu);
    TAP_OK(*now > before);
    before = *now;
    soft_tlb_flush_non_global(vcpu);
    TAP_EQ(*now, before);
    soft_tlb_flush_all(vcpu);
    TAP_OK(*now > before);
    guest_destroy(guest);
}

static void test_epoch(void)
{
    struct guest *guest = guest_create();
    struct hv_engine_vcpu *vcpu = &guest->vcpu[0];
    uint64_t global = SCRATCH + HV_PAGE_SIZE;

    guest_long_mode(guest, 0);
    guest_map(guest, global, global | PTE_TABLE | PTE_G);
    guest_log_dirty(guest);
    TAP_EQ(walks(vcpu, SCRATCH), 1);
    /* Each page's first store in an epoch is logged, whatever level of the TLB knew the page. */
    for (unsigned i = 0; i < 3; i++) {
        TAP_OK(!known(vcpu, SOFT_TLB_WRITE, SCRATCH));
        TAP_OK(known(vcpu, SOFT_TLB_READ, SCRATCH));
        TAP_EQ(soft_write_slow(vcpu, SCRATCH, 1, 1), 0);
        TAP_OK(known(vcpu, SOFT_TLB_WRITE, SCRATCH));
        TAP_OK(guest_new_epoch(guest, SCRATCH));
        TAP_EQ(soft_write_slow(vcpu, global, 1, 1), 0);
        TAP_OK(guest_new_epoch(guest, global));
        TAP_OK(!guest_new_epoch(guest, SCRATCH));
        TAP_OK(!guest_new_epoch(guest, global));
    }
    guest_destroy(guest);
}

static void test_flush_clock(void)
{
    struct guest *guest = guest_create();
    struct hv_engine_vcpu *vcpu = &guest->vcpu[0];
    uint64_t before;

    guest_long_mode(guest, 0);
    TAP_EQ(walks(vcpu, SCRATCH), 1);
    TAP_EQ(hv_load_seq(&guest->memory.dirty_mask), 1);
    before = hv_load_seq(&vcpu->holder->flushed);
    soft_tlb_flush_non_global(vcpu);
    TAP_EQ(hv_load_seq(&vcpu->holder->flushed), before); /* global pages are still there */
    soft_tlb_flush_all(vcpu);
    TAP_OK(hv_load_seq(&vcpu->holder->flushed) > before);
    before = hv_load_seq(&vcpu->holder->flushed);
    TAP_EQ(walks(vcpu, SCRATCH), 1);
    soft_serve(vcpu, HV_REQUEST_FLUSH);
    TAP_OK(hv_load_seq(&vcpu->holder->flushed) > before);
    TAP_EQ(walks(vcpu, SCRATCH), 1);
    guest_destroy(guest);
}

/* After a flush that the p2m asked for, not even a walk goes by what was known before it. */
static void test_table_moves(void)
{
    struct guest *guest = guest_create();
    struct hv_engine_vcpu *vcpu = &guest->vcpu[0];
    uint64_t global = SCRATCH + HV_PAGE_SIZE;
    uint64_t moved = 0x60000;
    uint64_t value;

    guest_long_mode(guest, 0);
    guest_map(guest, global, global | PTE_TABLE | PTE_G);
    guest_poke(guest, moved + SCRATCH / HV_PAGE_SIZE * 8, 8, 0x70000 | PTE_TABLE);
    guest_poke(guest, 0x70000, 8, 77);
    TAP_EQ(soft_read_slow(vcpu, SCRATCH, 8, &value), 0);
    TAP_EQ(value, 0);
    /* Another frame is the page of tables now. */
    guest_publish(guest, GUEST_PT / HV_PAGE_SIZE, guest->leaf[moved / HV_PAGE_SIZE]);
    soft_serve(vcpu, HV_REQUEST_FLUSH);
    TAP_EQ(soft_read_slow(vcpu, SCRATCH, 8, &value), 0);
    TAP_EQ(value, 77);
    /* And once more, when the generations have come round. */
    guest_publish(guest, GUEST_PT / HV_PAGE_SIZE, guest->leaf[GUEST_PT / HV_PAGE_SIZE]);
    soft_serve(vcpu, HV_REQUEST_FLUSH);
    TAP_EQ(walks(vcpu, global), 1);
    TAP_EQ(walks(vcpu, SCRATCH), 1);
    guest_publish(guest, GUEST_PT / HV_PAGE_SIZE, guest->leaf[moved / HV_PAGE_SIZE]);
    for (unsigned i = 0; i < 4095; i++) {
        soft_serve(vcpu, HV_REQUEST_FLUSH);
    }
    TAP_EQ(soft_read_slow(vcpu, SCRATCH, 8, &value), 0);
    TAP_EQ(value, 77);
    TAP_EQ(walks(vcpu, global), UINT64_MAX); /* those tables do not have it */
    guest_destroy(guest);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"engine.tlb.lookup", test_lookup},
        {"engine.tlb.write-then-read", test_write_then_read},
        {"engine.tlb.flush-page", test_flush_page},
        {"engine.tlb.global", test_global},
        {"engine.tlb.pcids", test_pcids},
        {"engine.tlb.many-pcids", test_many_pcids},
        {"engine.tlb.pcide-change", test_pcide_change},
        {"engine.tlb.ids-run-out", test_ids_run_out},
        {"engine.tlb.large-pages", test_large_pages},
        {"engine.tlb.modes", test_modes},
        {"engine.tlb.fetch-generation", test_fetch_generation},
        {"engine.tlb.fetch-generation-of-spaces", test_fetch_generation_of_spaces},
        {"engine.tlb.fetch-generation-of-kernel", test_fetch_generation_of_kernel},
        {"engine.tlb.epoch", test_epoch},
        {"engine.tlb.flush-clock", test_flush_clock},
        {"engine.tlb.table-moves", test_table_moves},
    };
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The TLB's tables: victims, sizes, lack of memory; the range of large pages. */
#include "engine/soft/tlb-private.h"

#include "base/alloc.h"
#include "soft-tables.h"

static void test_large_range(void)
{
    struct soft_tlb_large large;

    soft_tlb_large_reset(&large);
    TAP_OK(!soft_tlb_large_holds(&large, 0));
    soft_tlb_large_add(&large, 0x7f0000345000, 2 * HV_MIB);
    TAP_OK(soft_tlb_large_holds(&large, 0x7f0000200000));
    TAP_OK(soft_tlb_large_holds(&large, 0x7f00003fffff));
    TAP_OK(!soft_tlb_large_holds(&large, 0x7f0000400000));
    soft_tlb_large_add(&large, 0x7f0000000000, 2 * HV_MIB);
    TAP_OK(soft_tlb_large_holds(&large, 0x7f0000000000));
    TAP_OK(!soft_tlb_large_holds(&large, 0x7f0000400000));
    soft_tlb_large_add(&large, 0x7f0000600000, 2 * HV_MIB);
    TAP_OK(soft_tlb_large_holds(&large, 0x7f0000200000));
    TAP_OK(soft_tlb_large_holds(&large, 0x7f00007fffff));
    TAP_OK(!soft_tlb_large_holds(&large, 0x7f0000800000));
    soft_tlb_large_add(&large, 0xffffffff80000000, HV_GIB);
    TAP_OK(soft_tlb_large_holds(&large, 0x7f0000200000));
    TAP_OK(soft_tlb_large_holds(&large, 0xffffffffbfffffff));
    soft_tlb_large_reset(&large);
    TAP_OK(!soft_tlb_large_holds(&large, 0x7f0000200000));
}

/* Pages that share an index: eight victims beside the entry are found without a walk. */
static void test_victims(void)
{
    struct guest *guest = guest_create();
    struct hv_engine_vcpu *vcpu = &guest->vcpu[0];
    uint64_t stride = SOFT_TLB_ENTRIES_MIN * HV_PAGE_SIZE;

    guest_long_mode(guest, 0);
    for (uint64_t i = 0; i < 4; i++) {
        guest_poke(guest, GUEST_PD + (1 + i) * 8, 8, (2 + 2 * i) * HV_MIB | PTE_TABLE | PTE_PS);
    }
    for (uint64_t i = 0; i <= SOFT_TLB_VICTIMS; i++) {
        TAP_EQ(walks(vcpu, SCRATCH + i * stride), 1);
    }
    for (unsigned round = 0; round < 3; round++) {
        for (uint64_t i = 0; i <= SOFT_TLB_VICTIMS; i++) {
            TAP_EQ(walks(vcpu, SCRATCH + i * stride), 0);
        }
    }
    /* The victims are flushed like the rest. */
    guest_map(guest, SCRATCH, 0x1000 | PTE_TABLE);
    TAP_EQ(walks(vcpu, SCRATCH), 1);
    soft_tlb_flush_non_global(vcpu);
    for (uint64_t i = 0; i <= SOFT_TLB_VICTIMS; i++) {
        TAP_EQ(walks(vcpu, SCRATCH + i * stride), 1);
    }
    guest_destroy(guest);
}

static void touch(struct hv_engine_vcpu *vcpu, uint64_t pages)
{
    for (uint64_t i = 0; i < pages; i++) {
        uint64_t value;

        TAP_EQ(soft_read_slow(vcpu, i * HV_PAGE_SIZE, 1, &value), 0);
    }
}

static void test_resize(void)
{
    struct guest *guest = guest_create();
    struct hv_engine_vcpu *vcpu = &guest->vcpu[0];
    const struct soft_tlb_table *table;
    uint64_t before;

    guest_long_mode(guest, 0);
    table = &vcpu->tlbs->table[vcpu->mode][SOFT_TLB_READ];
    TAP_EQ(table->mask, SOFT_TLB_ENTRIES_MIN - 1);
    for (unsigned i = 0; i < 4; i++) {
        touch(vcpu, 512);
    }
    TAP_EQ(table->mask, 511);
    TAP_EQ(vcpu->view[SOFT_TLB_READ].mask, 511);
    TAP_EQ((uintptr_t)vcpu->view[SOFT_TLB_READ].entry, (uintptr_t)table->entry);
    TAP_EQ(vcpu->view[SOFT_TLB_WRITE].mask, SOFT_TLB_ENTRIES_MIN - 1);
    before = fills(vcpu);
    touch(vcpu, 512);
    TAP_EQ(fills(vcpu), before);

    /* Small needs between flushes keep the size until the ids run out. */
    vcpu->tlbs->last_id = 20;
    soft_tlb_flush_all(vcpu);
    touch(vcpu, 10);
    TAP_EQ(table->mask, 511);
    for (unsigned i = 0; i < 40; i++) {
        soft_tlb_flush_all(vcpu);
        touch(vcpu, 10);
    }
    TAP_EQ(table->mask, SOFT_TLB_ENTRIES_MIN - 1);
    TAP_EQ(vcpu->view[SOFT_TLB_READ].mask, SOFT_TLB_ENTRIES_MIN - 1);
    guest_destroy(guest);
}

/* Without host memory for a bigger table the small one goes on working. */
static void test_no_memory(void)
{
    struct guest *guest = guest_create();
    struct hv_engine_vcpu *vcpu = &guest->vcpu[0];
    struct hv_engine_vcpu other = guest->vcpu[0];

    guest_long_mode(guest, 0);
    hv_alloc_fail_at(1);
    touch(vcpu, 128);
    TAP_EQ(vcpu->view[SOFT_TLB_READ].mask, SOFT_TLB_ENTRIES_MIN - 1);
    hv_alloc_fail_at(0);
    for (unsigned i = 0; i < 4; i++) {
        touch(vcpu, 128);
    }
    TAP_EQ(vcpu->view[SOFT_TLB_READ].mask, 127);

    for (uint64_t nth = 1;; nth++) {
        int64_t live = hv_alloc_live();
        int result;

        hv_alloc_fail_at(nth);
        result = soft_tlbs_create(&other);
        hv_alloc_fail_at(0);
        if (!result) {
            TAP_EQ(nth, 1 + 1 + SOFT_TLB_MODES * SOFT_TLB_KINDS);
            break;
        }
        TAP_EQ(result, (uint64_t)-ENOMEM);
        TAP_OK(!other.tlbs);
        TAP_EQ(hv_alloc_live(), live);
    }
    soft_tlbs_destroy(&other);
    soft_tlbs_destroy(&other);
    guest_destroy(guest);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"engine.tlb-table.large-range", test_large_range},
        {"engine.tlb-table.victims", test_victims},
        {"engine.tlb-table.resize", test_resize},
        {"engine.tlb-table.no-memory", test_no_memory},
    };
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

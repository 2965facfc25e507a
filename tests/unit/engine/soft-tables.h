/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Page tables of 64-bit mode for the guest of soft-guest.h. */
#pragma once

#include "soft-guest.h"

/* The entries of page tables. */
#define PTE_P      HV_BIT(0)
#define PTE_RW     HV_BIT(1)
#define PTE_US     HV_BIT(2)
#define PTE_A      HV_BIT(5)
#define PTE_D      HV_BIT(6)
#define PTE_PS     HV_BIT(7)
#define PTE_G      HV_BIT(8)
#define PTE_NX     HV_BIT(63)
#define PTE_ADDR   (HV_BIT(46) - HV_PAGE_SIZE)
#define PTE_TABLE  (PTE_P | PTE_RW | PTE_US)

/**
 * 64-bit mode, CPL 0, with four levels of tables at 64 KiB: PML4, PDPT, PD, PT, one page each. The
 * first 2 MiB are mapped by the PT, page by page, to themselves, writable and for the user; PD
 * entry 1 is free.
 */
#define GUEST_PML4 UINT64_C(0x10000)
#define GUEST_PDPT UINT64_C(0x11000)
#define GUEST_PD   UINT64_C(0x12000)
#define GUEST_PT   UINT64_C(0x13000)

static inline void guest_long_mode(struct guest *guest, unsigned index)
{
    struct hv_cpu *cpu = &guest->cpu[index];

    guest_poke(guest, GUEST_PML4, 8, GUEST_PDPT | PTE_TABLE);
    guest_poke(guest, GUEST_PDPT, 8, GUEST_PD | PTE_TABLE);
    guest_poke(guest, GUEST_PD, 8, GUEST_PT | PTE_TABLE);
    for (uint64_t i = 0; i < 512; i++) {
        guest_poke(guest, GUEST_PT + i * 8, 8, i * HV_PAGE_SIZE | PTE_TABLE);
    }
    cpu->cr0 = HV_CR0_PE | HV_CR0_PG | HV_CR0_WP | HV_CR0_AM;
    cpu->cr4 = HV_CR4_PAE | HV_CR4_PGE;
    cpu->efer = HV_EFER_LME | HV_EFER_LMA | HV_EFER_NXE;
    cpu->cr3 = GUEST_PML4;
    cpu->seg[HV_SEG_CS].attr = HV_SEG_ATTR_L | HV_SEG_ATTR_CODE | HV_SEG_ATTR_P | HV_SEG_ATTR_S;
    cpu->cpl = 0;
    soft_tlb_set_mode(&guest->vcpu[index]);
}

/** Change a page's entry in the PT and drop what is known of it. */
static inline void guest_map(struct guest *guest, uint64_t gva, uint64_t entry)
{
    guest_poke(guest, GUEST_PT + gva / HV_PAGE_SIZE * 8, 8, entry);
    soft_tlb_flush_page(&guest->vcpu[0], (hv_gva){gva});
}

static inline uint64_t guest_entry(struct guest *guest, uint64_t gva)
{
    return guest_peek(guest, GUEST_PT + gva / HV_PAGE_SIZE * 8, 8);
}

/* A page that tests of the TLB may map as they like. */
#define SCRATCH UINT64_C(0x50000)

static inline uint64_t fills(const struct hv_engine_vcpu *vcpu)
{
    return hv_load_relaxed(&vcpu->counters.tlb_fills);
}

/* How many walks a read at @gva costs; UINT64_MAX when it faults. */
static inline uint64_t walks(struct hv_engine_vcpu *vcpu, uint64_t gva)
{
    uint64_t before = fills(vcpu);
    uint64_t value;

    return soft_read_slow(vcpu, gva, 1, &value) ? UINT64_MAX : fills(vcpu) - before;
}

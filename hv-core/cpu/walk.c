/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The page walker: one descent for the three formats of paging structures, which differ in the
 * numbers of struct format and in the reserved bits.
 *
 *     descend    reads one entry a level; not present and reserved bits fault here
 *     allow      rights of all levels together against who asks for what
 *     mark       accessed and dirty bits, root first, each by compare-and-exchange; one that fails
 *                starts over from the root
 */
#include "cpu/walk.h"

#include <errno.h>

#define ENTRY_P            HV_BIT(0)
#define ENTRY_RW           HV_BIT(1)
#define ENTRY_US           HV_BIT(2)
#define ENTRY_A            HV_BIT(5)
#define ENTRY_D            HV_BIT(6)
#define ENTRY_PS           HV_BIT(7)
#define ENTRY_G            HV_BIT(8)
#define ENTRY_NX           HV_BIT(63)

/* Bits of a #PF error code (SDM 3A 4.7). */
#define ERROR_P            1u
#define ERROR_W            2u
#define ERROR_U            4u
#define ERROR_RSVD         8u
#define ERROR_I            16u

#define MAX_LEVELS         4
#define MAX_TRIES          64
/* Internal result: an entry changed under the walk. */
#define WALK_AGAIN         2

/* Bits low to high inclusive. */
#define FIELD(high, low)   ((UINT64_C(2) << (high)) - (UINT64_C(1) << (low)))
#define PHYSICAL_MASK      FIELD(HV_GUEST_PHYS_BITS - 1, HV_PAGE_SHIFT)
#define BEYOND_PHYSICAL_51 FIELD(51, HV_GUEST_PHYS_BITS)
#define BEYOND_PHYSICAL_62 FIELD(62, HV_GUEST_PHYS_BITS)

struct format {
    unsigned levels;
    unsigned entry_bytes;
    unsigned index_bits;
    unsigned large_levels; /* levels above the last that can map a page */
    uint64_t reserved;     /* in every entry */
};

/* SDM 3A 4.3, 4.4, 4.5. */
static const struct format format_32 = {2, 4, 10, 1, 0};
static const struct format format_pae = {2, 8, 9, 1, BEYOND_PHYSICAL_62};
static const struct format format_4level = {4, 8, 9, 2, BEYOND_PHYSICAL_51};

struct walk {
    const struct hv_cpu *cpu;
    const struct hv_walk_memory *memory;
    void *context;
    uint64_t gva;
    enum hv_walk_intent intent;
    enum hv_walk_as as;

    const struct format *format;
    bool nx_enabled;

    /* The path of this try; the leaf is the last. */
    unsigned depth;
    uint64_t entry[MAX_LEVELS];
    uint64_t address[MAX_LEVELS];
    unsigned page_shift;
    uint64_t page_base;
    uint64_t rights; /* RW and US: of all levels; NX: of any */
};

static bool walk_is_user(const struct walk *walk)
{
    return walk->as == HV_WALK_AS_USER || (walk->as == HV_WALK_AS_CURRENT && walk->cpu->cpl == 3);
}

/* SDM 3A 4.7: U says who asked, W and I for what; I only where fetches can be told apart. */
static int page_fault(const struct walk *walk, uint32_t error, struct hv_fault *fault_out)
{
    if (walk->intent == HV_WALK_WRITE) {
        error |= ERROR_W;
    }
    if (walk_is_user(walk)) {
        error |= ERROR_U;
    }
    if (walk->intent == HV_WALK_FETCH && (walk->nx_enabled || (walk->cpu->cr4 & HV_CR4_SMEP))) {
        error |= ERROR_I;
    }
    *fault_out = (struct hv_fault){
        .vector = HV_VECTOR_PF, .has_error = true, .error = error, .cr2 = walk->gva};
    return HV_FAULTED;
}

/* Address bits that a large page's entry cannot use (SDM 3A figures 4-4, 4-7, 4-11). */
static uint64_t large_reserved(const struct format *format, unsigned shift)
{
    if (format == &format_32) {
        return HV_BIT(21); /* PSE-36: 20:13 are bits 39:32 of the address */
    }
    return FIELD(shift - 1, 13); /* bit 12 is PAT */
}

static uint64_t large_base(const struct format *format, uint64_t entry, unsigned shift)
{
    if (format == &format_32) {
        return (entry & FIELD(31, 22)) | hv_bits(entry, 13, 8) << 32;
    }
    return entry & PHYSICAL_MASK & ~FIELD(shift - 1, 0);
}

/* Take one level's entry into the path. *leaf_out says that it maps the page. */
static int descend_level(struct walk *walk, uint64_t table, unsigned level, bool *leaf_out,
                         struct hv_fault *fault_out)
{
    const struct format *format = walk->format;
    unsigned shift = HV_PAGE_SHIFT + level * format->index_bits;
    uint64_t index = hv_bits(walk->gva, shift, format->index_bits);
    uint64_t address = table + index * format->entry_bytes;
    uint64_t reserved = format->reserved;
    bool large = false;
    uint64_t entry;
    int result;

    result = walk->memory->read(walk->context, (hv_gpa){address}, format->entry_bytes, &entry);
    if (result) {
        return result;
    }
    if (!(entry & ENTRY_P)) {
        return page_fault(walk, 0, fault_out);
    }

    if (!walk->nx_enabled && format->entry_bytes == 8) {
        reserved |= ENTRY_NX;
    }
    if (level > 0 && (entry & ENTRY_PS)) {
        large = level <= format->large_levels &&
                (format != &format_32 || (walk->cpu->cr4 & HV_CR4_PSE));
        if (large) {
            reserved |= large_reserved(format, shift);
        } else if (format != &format_32) {
            reserved |= ENTRY_PS; /* in 32-bit paging it is ignored without CR4.PSE */
        }
    }
    if (entry & reserved) {
        return page_fault(walk, ERROR_P | ERROR_RSVD, fault_out);
    }

    walk->entry[walk->depth] = entry;
    walk->address[walk->depth] = address;
    walk->depth++;
    walk->rights &= entry | ~(ENTRY_RW | ENTRY_US);
    walk->rights |= entry & ENTRY_NX;

    *leaf_out = large || level == 0;
    walk->page_shift = shift;
    walk->page_base = large ? large_base(format, entry, shift) : entry & PHYSICAL_MASK;
    return 0;
}

static int descend(struct walk *walk, struct hv_fault *fault_out)
{
    uint64_t table = walk->cpu->cr3 & PHYSICAL_MASK;
    bool leaf = false;

    if (walk->format == &format_32) {
        table &= UINT32_MAX;
    } else if (walk->format == &format_pae) {
        uint64_t pdpte = walk->cpu->pdpte[walk->gva >> 30];

        if (!(pdpte & ENTRY_P)) {
            return page_fault(walk, 0, fault_out);
        }
        table = pdpte & PHYSICAL_MASK;
    }

    walk->depth = 0;
    walk->rights = ENTRY_RW | ENTRY_US;
    for (unsigned level = walk->format->levels; level-- > 0 && !leaf;) {
        int result = descend_level(walk, table, level, &leaf, fault_out);

        if (result) {
            return result;
        }
        table = walk->page_base;
    }
    return 0;
}

/* SDM 3A 4.6.1. */
static bool user_mode_allows(const struct walk *walk)
{
    if (!(walk->rights & ENTRY_US)) {
        return false;
    }
    return walk->intent != HV_WALK_WRITE || (walk->rights & ENTRY_RW);
}

static bool supervisor_mode_allows(const struct walk *walk)
{
    const struct hv_cpu *cpu = walk->cpu;

    if (walk->rights & ENTRY_US) {
        bool explicit_ac = walk->as != HV_WALK_AS_SUPERVISOR && (cpu->rflags & HV_RFLAGS_AC);

        if (walk->intent == HV_WALK_FETCH) {
            if (cpu->cr4 & HV_CR4_SMEP) {
                return false;
            }
        } else if ((cpu->cr4 & HV_CR4_SMAP) && !explicit_ac) {
            return false;
        }
    }
    return walk->intent != HV_WALK_WRITE || (walk->rights & ENTRY_RW) || !(cpu->cr0 & HV_CR0_WP);
}

static bool allow(const struct walk *walk)
{
    if (walk->intent == HV_WALK_FETCH && walk->nx_enabled && (walk->rights & ENTRY_NX)) {
        return false;
    }
    return walk_is_user(walk) ? user_mode_allows(walk) : supervisor_mode_allows(walk);
}

static int mark(struct walk *walk)
{
    for (unsigned i = 0; i < walk->depth; i++) {
        bool leaf = i == walk->depth - 1;
        uint64_t wanted = walk->entry[i] | ENTRY_A;
        bool swapped = false;
        int result;

        if (leaf && walk->intent == HV_WALK_WRITE) {
            wanted |= ENTRY_D;
        }
        if (wanted == walk->entry[i]) {
            continue;
        }
        result = walk->memory->update(walk->context, (hv_gpa){walk->address[i]},
                                      walk->format->entry_bytes, walk->entry[i], wanted, &swapped);
        if (result) {
            return result;
        }
        if (!swapped) {
            return WALK_AGAIN;
        }
        walk->entry[i] = wanted;
    }
    return 0;
}

static int walk_once(struct walk *walk, struct hv_translation *translation_out,
                     struct hv_fault *fault_out)
{
    uint64_t leaf;
    int result;

    result = descend(walk, fault_out);
    if (result) {
        return result;
    }
    if (!allow(walk)) {
        return page_fault(walk, ERROR_P, fault_out);
    }
    result = mark(walk);
    if (result) {
        return result;
    }

    leaf = walk->entry[walk->depth - 1];
    *translation_out = (struct hv_translation){
        .gpa = {walk->page_base + hv_bits(walk->gva, 0, walk->page_shift)},
        .page_size = HV_BIT(walk->page_shift),
        .user = walk->rights & ENTRY_US,
        .writable = walk->rights & ENTRY_RW,
        .executable = !(walk->nx_enabled && (walk->rights & ENTRY_NX)),
        .global = (leaf & ENTRY_G) && (walk->cpu->cr4 & HV_CR4_PGE),
        .dirty = leaf & ENTRY_D,
    };
    return 0;
}

static const struct format *paging_format(const struct hv_cpu *cpu)
{
    if (!(cpu->cr4 & HV_CR4_PAE)) {
        return &format_32;
    }
    return hv_cpu_long_mode(cpu) ? &format_4level : &format_pae;
}

int hv_walk(const struct hv_cpu *cpu, const struct hv_walk_memory *memory, void *context,
            hv_gva gva, enum hv_walk_intent intent, enum hv_walk_as as,
            struct hv_translation *translation_out, struct hv_fault *fault_out)
{
    struct walk walk = {
        .cpu = cpu,
        .memory = memory,
        .context = context,
        .gva = hv_cpu_long_mode(cpu) ? gva.v : (uint32_t)gva.v,
        .intent = intent,
        .as = as,
    };

    if (!(cpu->cr0 & HV_CR0_PG)) {
        *translation_out = (struct hv_translation){
            .gpa = {walk.gva},
            .page_size = HV_PAGE_SIZE,
            .user = true,
            .writable = true,
            .executable = true,
            .dirty = true,
        };
        return 0;
    }

    walk.format = paging_format(cpu);
    walk.nx_enabled = (cpu->efer & HV_EFER_NXE) && walk.format != &format_32;
    for (unsigned tries = 0; tries < MAX_TRIES; tries++) {
        int result = walk_once(&walk, translation_out, fault_out);

        if (result != WALK_AGAIN) {
            return result;
        }
    }
    return -EAGAIN;
}

/* SDM 3A 4.4.1 and table 4-8: bits 63:M, 8:5 and 2:1 of a present entry are reserved. */
bool hv_walk_pdpte_possible(uint64_t pdpte)
{
    const uint64_t reserved = FIELD(63, HV_GUEST_PHYS_BITS) | FIELD(8, 5) | FIELD(2, 1);

    return !(pdpte & ENTRY_P) || !(pdpte & reserved);
}

int hv_walk_load_pdptes(const struct hv_walk_memory *memory, void *context, uint64_t cr3,
                        uint64_t pdpte_out[4], struct hv_fault *fault_out)
{
    uint64_t table = cr3 & FIELD(31, 5);
    uint64_t pdpte[4];

    for (unsigned i = 0; i < HV_ARRAY_LEN(pdpte); i++) {
        int result = memory->read(context, (hv_gpa){table + i * 8}, 8, &pdpte[i]);

        if (result) {
            return result;
        }
        if (!hv_walk_pdpte_possible(pdpte[i])) {
            *fault_out = (struct hv_fault){.vector = HV_VECTOR_GP, .has_error = true};
            return HV_FAULTED;
        }
    }
    memcpy(pdpte_out, pdpte, sizeof(pdpte));
    return 0;
}

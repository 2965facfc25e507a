/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * All tables of a vCPU: address-space ids, flushes, the view of the present mode.
 *
 * A flush does not clear, it takes an id that no entry has yet; the tables are cleared when the ids
 * are used up. What each flush must reach:
 *
 *     all          every id, the global level        MOV CR4 (PGE, PCIDE), rights, the p2m
 *     non-global   every id                          MOV CR3 without PCIDs, INVPCID 3
 *     pcid         one id                            INVPCID 1, MOV CR3
 *     page         the page under every id, since a global one may have been entered under any,
 *                  and the global level              INVLPG
 *
 * Source: SDM 3A 4.10.4.
 */
#include "engine/soft/access-private.h"
#include "engine/soft/tlb-private.h"
#include "engine/soft/watch.h"

#include "base/alloc.h"

#define FIRST_ID        1u
#define LAST_ID         ((unsigned)SOFT_TLB_ID_MASK)
#define GENERATION_LAST (HV_PAGE_SIZE - 1)
#define NO_SPACE        SOFT_TLB_SPACES
#define NO_KEY          UINT32_MAX

/* Registers that decide what an entry allows or how it was found. In one word: no two of these bits
 * coincide. SMAP is not among them: it only chooses the table (soft_tlb_mode_of()). */
static uint32_t rights_key(const struct hv_cpu *cpu)
{
    uint64_t cr0 = cpu->cr0 & (HV_CR0_PG | HV_CR0_WP);
    uint64_t cr4 = cpu->cr4 & (HV_CR4_PSE | HV_CR4_PAE | HV_CR4_PGE | HV_CR4_PCIDE | HV_CR4_SMEP);
    uint64_t efer = cpu->efer & (HV_EFER_NXE | HV_EFER_LMA);

    return (uint32_t)(cr0 | cr4 | efer);
}

static uint16_t current_pcid(const struct hv_cpu *cpu)
{
    return (cpu->cr4 & HV_CR4_PCIDE) ? (uint16_t)(cpu->cr3 & 0xfff) : 0;
}

static unsigned half_of(uint64_t gva)
{
    return (unsigned)(gva >> 63);
}

/* A slot of the fetch_gone set. */
static uint64_t *gone_word(struct soft_tlbs *tlbs, uint64_t page, uint64_t *bit_out)
{
    uint64_t hash = (page >> HV_PAGE_SHIFT) * UINT64_C(0x9e3779b97f4a7c15) >> 53;

    *bit_out = HV_BIT(hash % 64);
    return &tlbs->fetch_gone[half_of(page)][hash / 64];
}

static void note_fetch_gone(struct soft_tlbs *tlbs, uint64_t tag)
{
    uint64_t bit;

    if (tag != SOFT_TLB_EMPTY) {
        *gone_word(tlbs, soft_tlb_page(tag), &bit) |= bit;
    }
}

static bool fetch_is_gone(struct soft_tlbs *tlbs, uint64_t page)
{
    uint64_t bit;

    return *gone_word(tlbs, page, &bit) & bit;
}

/* A new generation of the lower half for the current space; others keep theirs. */
static void void_lower(struct hv_engine_vcpu *vcpu)
{
    struct soft_tlbs *tlbs = vcpu->tlbs;

    vcpu->fetch_generation[0] = ++tlbs->last_generation;
    tlbs->space[tlbs->current_space].fetch_generation = vcpu->fetch_generation[0];
}

static void void_upper(struct hv_engine_vcpu *vcpu)
{
    struct soft_tlbs *tlbs = vcpu->tlbs;

    vcpu->fetch_generation[1] = ++tlbs->last_generation;
    memset(tlbs->fetch_gone[1], 0, sizeof(tlbs->fetch_gone[1]));
}

/* New generations of a half for all spaces. */
static void void_half(struct hv_engine_vcpu *vcpu, unsigned half)
{
    struct soft_tlbs *tlbs = vcpu->tlbs;

    if (half) {
        void_upper(vcpu);
        return;
    }
    for (unsigned i = 0; i < SOFT_TLB_SPACES; i++) {
        tlbs->space[i].fetch_generation = 0;
    }
    memset(tlbs->fetch_gone[0], 0, sizeof(tlbs->fetch_gone[0]));
    void_lower(vcpu);
}

static void void_fetches(struct hv_engine_vcpu *vcpu)
{
    void_half(vcpu, 0);
    void_half(vcpu, 1);
}

static struct soft_tlb_table *table_of(struct soft_tlbs *tlbs, enum soft_tlb_mode mode,
                                       enum soft_tlb_kind kind)
{
    if (kind == SOFT_TLB_EXEC && mode == SOFT_TLB_SUPERVISOR_AC) {
        mode = SOFT_TLB_SUPERVISOR;
    }
    return &tlbs->table[mode][kind];
}

static uint64_t right_of(enum soft_tlb_mode mode, enum soft_tlb_kind kind)
{
    return HV_BIT((unsigned)mode * SOFT_TLB_KINDS + (unsigned)kind);
}

static void choose_view(struct hv_engine_vcpu *vcpu)
{
    struct soft_tlbs *tlbs = vcpu->tlbs;

    for (unsigned kind = 0; kind < SOFT_TLB_KINDS; kind++) {
        const struct soft_tlb_table *table = table_of(tlbs, vcpu->mode, (enum soft_tlb_kind)kind);
        bool empty = (tlbs->alignment_checked || tlbs->watched) && kind != SOFT_TLB_EXEC;

        vcpu->view[kind] = empty ? (struct soft_tlb_view){.entry = &tlbs->none}
                                 : (struct soft_tlb_view){table->entry, table->mask};
    }
}

static void forget_spaces(struct soft_tlbs *tlbs)
{
    memset(tlbs->space, 0, sizeof(tlbs->space));
}

static unsigned find_space(const struct soft_tlbs *tlbs, uint16_t pcid)
{
    for (unsigned i = 0; i < SOFT_TLB_SPACES; i++) {
        if (tlbs->space[i].id && tlbs->space[i].pcid == pcid) {
            return i;
        }
    }
    return NO_SPACE;
}

static void clear_tables(struct hv_engine_vcpu *vcpu)
{
    struct soft_tlbs *tlbs = vcpu->tlbs;

    for (unsigned mode = 0; mode < SOFT_TLB_MODES; mode++) {
        for (unsigned kind = 0; kind < SOFT_TLB_KINDS; kind++) {
            soft_tlb_table_clear(&tlbs->table[mode][kind]);
        }
    }
    forget_spaces(tlbs);
    tlbs->next_id = FIRST_ID;
    void_fetches(vcpu);
    choose_view(vcpu);
}

/* Give the current PCID an id under which nothing is known. Its fetches are as good as before. */
static void take_id(struct hv_engine_vcpu *vcpu)
{
    struct soft_tlbs *tlbs = vcpu->tlbs;
    unsigned slot;

    if (tlbs->next_id > tlbs->last_id) {
        clear_tables(vcpu);
    }
    slot = find_space(tlbs, tlbs->pcid);
    if (slot == NO_SPACE) {
        slot = tlbs->next_space++ % SOFT_TLB_SPACES;
    }
    tlbs->current_space = slot;
    tlbs->space[slot] = (struct soft_tlb_space){
        .pcid = tlbs->pcid,
        .id = tlbs->next_id,
        .fetch_generation = vcpu->fetch_generation[0],
    };
    vcpu->tlb_id = tlbs->next_id;
    tlbs->next_id++;
    tlbs->window++;
}

static void forget_global(struct soft_tlbs *tlbs)
{
    soft_tlb_large_reset(&tlbs->large_global);
    if (tlbs->global_generation == GENERATION_LAST) {
        soft_tlb_global_clear(&tlbs->global_data);
        soft_tlb_global_clear(&tlbs->global_fetch);
        memset(tlbs->table_page, 0, sizeof(tlbs->table_page));
        tlbs->global_generation = 0;
    }
    tlbs->global_generation++;
}

static void drop_everything(struct hv_engine_vcpu *vcpu)
{
    struct hv_holders *holders = hv_arena_holders(vcpu->memory->arena);
    struct soft_tlbs *tlbs = vcpu->tlbs;
    uint64_t time = hv_holder_flush_begin(holders);

    tlbs->pcid = current_pcid(vcpu->cpu);
    forget_spaces(tlbs);
    forget_global(tlbs);
    soft_tlb_large_reset(&tlbs->large_local);
    take_id(vcpu);
    hv_holder_flushed(vcpu->holder, time);
}

int soft_tlbs_create(struct hv_engine_vcpu *vcpu)
{
    struct soft_tlbs *tlbs = hv_alloc(1, sizeof(*tlbs));
    int result = 0;

    vcpu->tlbs = tlbs;
    if (!tlbs) {
        return -ENOMEM;
    }
    for (unsigned mode = 0; !result && mode < SOFT_TLB_MODES; mode++) {
        for (unsigned kind = 0; !result && kind < SOFT_TLB_KINDS; kind++) {
            result = soft_tlb_table_create(&tlbs->table[mode][kind], SOFT_TLB_ENTRIES_MIN);
        }
    }
    if (result) {
        soft_tlbs_destroy(vcpu);
        return result;
    }
    tlbs->none.tag = SOFT_TLB_EMPTY;
    tlbs->last_id = LAST_ID;
    tlbs->next_id = FIRST_ID;
    tlbs->rights_key = NO_KEY;
    tlbs->global_generation = GENERATION_LAST;
    soft_tlb_set_mode(vcpu);
    choose_view(vcpu);
    return 0;
}

void soft_tlbs_destroy(struct hv_engine_vcpu *vcpu)
{
    struct soft_tlbs *tlbs = vcpu->tlbs;

    if (!tlbs) {
        return;
    }
    for (unsigned mode = 0; mode < SOFT_TLB_MODES; mode++) {
        for (unsigned kind = 0; kind < SOFT_TLB_KINDS; kind++) {
            soft_tlb_table_destroy(&tlbs->table[mode][kind]);
        }
    }
    hv_free(tlbs);
    vcpu->tlbs = NULL;
}

enum soft_tlb_mode soft_tlb_mode_of(const struct hv_cpu *cpu, enum hv_walk_as as)
{
    bool user = as == HV_WALK_AS_USER || (as == HV_WALK_AS_CURRENT && cpu->cpl == 3);
    bool ac = as != HV_WALK_AS_SUPERVISOR && (cpu->rflags & HV_RFLAGS_AC);

    if (user) {
        return SOFT_TLB_USER;
    }
    return ac || !(cpu->cr4 & HV_CR4_SMAP) ? SOFT_TLB_SUPERVISOR_AC : SOFT_TLB_SUPERVISOR;
}

void soft_tlb_set_mode(struct hv_engine_vcpu *vcpu)
{
    const struct hv_cpu *cpu = vcpu->cpu;
    struct soft_tlbs *tlbs = vcpu->tlbs;
    enum soft_tlb_mode mode = soft_tlb_mode_of(cpu, HV_WALK_AS_CURRENT);
    bool alignment_checked =
        cpu->cpl == 3 && (cpu->rflags & HV_RFLAGS_AC) && (cpu->cr0 & HV_CR0_AM);
    bool watched = soft_watch_wanted(cpu);

    if (HV_UNLIKELY(rights_key(cpu) != tlbs->rights_key)) {
        tlbs->rights_key = rights_key(cpu);
        soft_tlb_flush_all(vcpu);
    }
    if (mode != vcpu->mode || alignment_checked != tlbs->alignment_checked ||
        watched != tlbs->watched) {
        vcpu->mode = mode;
        tlbs->alignment_checked = alignment_checked;
        tlbs->watched = watched;
        choose_view(vcpu);
    }
}

struct soft_tlb_entry *soft_tlb_find(struct hv_engine_vcpu *vcpu, enum soft_tlb_mode mode,
                                     enum soft_tlb_kind kind, uint64_t page)
{
    struct soft_tlbs *tlbs = vcpu->tlbs;
    const struct soft_tlb_global *global =
        kind == SOFT_TLB_EXEC ? &tlbs->global_fetch : &tlbs->global_data;
    struct soft_tlb_entry *found =
        soft_tlb_table_find(table_of(tlbs, mode, kind), page, vcpu->tlb_id);
    struct soft_tlb_entry entry = {.tag = page};

    if (found) {
        return found;
    }
    if (soft_tlb_global_find(global, page, right_of(mode, kind), tlbs->global_generation,
                             &entry.addend)) {
        return soft_tlb_insert(vcpu, mode, kind, entry);
    }
    return NULL;
}

struct soft_tlb_entry *soft_tlb_insert(struct hv_engine_vcpu *vcpu, enum soft_tlb_mode mode,
                                       enum soft_tlb_kind kind, struct soft_tlb_entry entry)
{
    struct soft_tlbs *tlbs = vcpu->tlbs;
    struct soft_tlb_table *table = table_of(tlbs, mode, kind);
    uint64_t gone;

    if (HV_UNLIKELY(soft_tlb_table_crowded(table))) {
        soft_tlb_table_grow(table);
        choose_view(vcpu);
    }
    entry.tag |= vcpu->tlb_id;
    gone = soft_tlb_table_insert(table, entry, tlbs->window);
    if (kind == SOFT_TLB_EXEC) {
        note_fetch_gone(tlbs, gone);
    }
    return &table->entry[(entry.tag >> HV_PAGE_SHIFT) & table->mask];
}

void soft_tlb_offer(struct hv_engine_vcpu *vcpu, enum soft_tlb_mode mode, enum soft_tlb_kind kind,
                    struct soft_tlb_entry entry)
{
    entry.tag |= vcpu->tlb_id;
    soft_tlb_table_offer(table_of(vcpu->tlbs, mode, kind), entry);
}

void soft_tlb_insert_global(struct hv_engine_vcpu *vcpu, enum soft_tlb_mode mode,
                            enum soft_tlb_kind kind, struct soft_tlb_entry entry)
{
    struct soft_tlbs *tlbs = vcpu->tlbs;

    soft_tlb_global_insert(kind == SOFT_TLB_EXEC ? &tlbs->global_fetch : &tlbs->global_data,
                           entry.tag, right_of(mode, kind), tlbs->global_generation, entry.addend);
}

void soft_tlb_note_fetch(struct hv_engine_vcpu *vcpu, uint64_t gva, bool global)
{
    if (half_of(gva) && !global) {
        vcpu->tlbs->upper_private = true;
    }
}

void soft_tlb_note_large(struct hv_engine_vcpu *vcpu, uint64_t gva, uint64_t page_size, bool global)
{
    struct soft_tlbs *tlbs = vcpu->tlbs;

    soft_tlb_large_add(global ? &tlbs->large_global : &tlbs->large_local, gva, page_size);
}

void soft_tlb_flush_all(struct hv_engine_vcpu *vcpu)
{
    drop_everything(vcpu);
    void_fetches(vcpu);
    vcpu->tlbs->upper_private = false;
}

void soft_tlb_flush_holder(struct hv_engine_vcpu *vcpu)
{
    drop_everything(vcpu);
}

void soft_tlb_flush_non_global(struct hv_engine_vcpu *vcpu)
{
    struct soft_tlbs *tlbs = vcpu->tlbs;

    forget_spaces(tlbs);
    soft_tlb_large_reset(&tlbs->large_local);
    take_id(vcpu);
    void_half(vcpu, 0);
    if (tlbs->upper_private) {
        void_upper(vcpu);
        tlbs->upper_private = false;
    }
}

void soft_tlb_flush_page(struct hv_engine_vcpu *vcpu, hv_gva gva)
{
    struct soft_tlbs *tlbs = vcpu->tlbs;
    uint64_t page = soft_tlb_page(hv_cpu_long_mode(vcpu->cpu) ? gva.v : (uint32_t)gva.v);
    bool fetched = fetch_is_gone(tlbs, page);

    if (soft_tlb_large_holds(&tlbs->large_global, page)) {
        soft_tlb_flush_all(vcpu);
        return;
    }
    if (soft_tlb_large_holds(&tlbs->large_local, page)) {
        take_id(vcpu);
        fetched = true;
    }
    for (unsigned mode = 0; mode < SOFT_TLB_MODES; mode++) {
        for (unsigned kind = 0; kind < SOFT_TLB_KINDS; kind++) {
            bool dropped = soft_tlb_table_drop_page(&tlbs->table[mode][kind], page);

            fetched |= dropped && kind == SOFT_TLB_EXEC;
        }
    }
    soft_tlb_global_drop_page(&tlbs->global_data, page);
    soft_tlb_global_drop_page(&tlbs->global_fetch, page);
    if (fetched) {
        void_half(vcpu, half_of(page));
    }
}

void soft_tlb_flush_pcid(struct hv_engine_vcpu *vcpu, uint16_t pcid)
{
    struct soft_tlbs *tlbs = vcpu->tlbs;
    unsigned slot;

    if (pcid == tlbs->pcid) {
        take_id(vcpu);
        void_lower(vcpu);
        if (tlbs->upper_private) {
            void_upper(vcpu);
        }
        return;
    }
    slot = find_space(tlbs, pcid);
    if (slot != NO_SPACE) {
        tlbs->space[slot].id = 0;
    }
}

void soft_tlb_switch_pcid(struct hv_engine_vcpu *vcpu, uint16_t pcid, bool keep)
{
    struct soft_tlbs *tlbs = vcpu->tlbs;
    unsigned slot = keep ? find_space(tlbs, pcid) : NO_SPACE;

    tlbs->pcid = pcid;
    if (slot == NO_SPACE) {
        take_id(vcpu);
        void_lower(vcpu);
    } else {
        tlbs->current_space = slot;
        vcpu->tlb_id = tlbs->space[slot].id;
        vcpu->fetch_generation[0] = tlbs->space[slot].fetch_generation;
        if (!vcpu->fetch_generation[0]) {
            void_lower(vcpu);
        }
    }
    /* What was fetched of the upper half may be another space's only when it is not global. */
    if (tlbs->upper_private) {
        void_upper(vcpu);
    }
}

void soft_tlb_drop_writes(struct hv_engine_vcpu *vcpu)
{
    struct soft_tlbs *tlbs = vcpu->tlbs;
    uint64_t rights = 0;

    for (unsigned mode = 0; mode < SOFT_TLB_MODES; mode++) {
        soft_tlb_table_drop_all(&tlbs->table[mode][SOFT_TLB_WRITE]);
        rights |= right_of((enum soft_tlb_mode)mode, SOFT_TLB_WRITE);
    }
    soft_tlb_global_drop_rights(&tlbs->global_data, rights);
}

void soft_tlb_drop_writes_to(struct hv_engine_vcpu *vcpu, hv_gfn gfn)
{
    struct soft_tlbs *tlbs = vcpu->tlbs;
    struct hv_leaf leaf = hv_p2m_lookup(&vcpu->memory->p2m, gfn);
    const void *host;
    uint64_t rights = 0;

    if (leaf.kind != HV_LEAF_RAM && leaf.kind != HV_LEAF_RAM_RO) {
        return;
    }
    host = hv_arena_host(vcpu->memory->arena, leaf.mfn);
    for (unsigned mode = 0; mode < SOFT_TLB_MODES; mode++) {
        soft_tlb_table_drop_host(&tlbs->table[mode][SOFT_TLB_WRITE], host);
        rights |= right_of((enum soft_tlb_mode)mode, SOFT_TLB_WRITE);
    }
    soft_tlb_global_drop_host(&tlbs->global_data, rights, host);
}

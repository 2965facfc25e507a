/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The TLB against walks of the guest's tables: random changes of page tables, each followed by one
 * of the flushes that the manual asks for (SDM 3A 4.10.4), and random accesses in between. Every
 * access must do what a fresh walk says. Four address spaces with PCIDs share a kernel half with
 * global and large pages; privilege and rights registers change, too.
 *
 * A second oracle plays the jump cache: what was fetched in one generation is believed as long as
 * the generation stands.
 */
#include "engine/soft/access.h"

#include "unit/engine/soft-tables.h"

#define SPACES      4u
#define ROUNDS      100000u
#define KERNEL      UINT64_C(0xffff800000000000)
/* Tables: one page each at 1 MiB. Data pages are between 2 and 4 MiB, large ones from 4 MiB on. */
#define PML4(space) (HV_MIB + (space)*0x10000)
#define PDPT(space) (PML4(space) + 0x1000)
#define PD(space)   (PML4(space) + 0x2000)
#define PT(space)   (PML4(space) + 0x3000)
/* The shared half is "space" 4. */
#define SHARED      SPACES
#define DATA        (2 * HV_MIB)
#define DATA_PAGES  UINT64_C(512)
#define LARGE       (4 * HV_MIB)
#define LARGE_PAGES UINT64_C(4)
#define DEVICE_PAGE UINT64_C(511) /* of the data pages: MMIO */

/* Pages of a half that are used: some side by side, some of one index in a table of 64. */
static const unsigned page_index[] = {0,   1,   2,   3,   63,  64,  65,  128,
                                      192, 256, 320, 384, 448, 449, 510, 511};

#define JUMPS 64u

struct jump {
    uint64_t page;
    uint64_t generation;
    uint64_t gpa;
    bool user;
    bool known;
};

struct model {
    struct guest *guest;
    struct hv_engine_vcpu *vcpu;
    struct hv_cpu *cpu;
    unsigned global_per_cent; /* of the shared half's pages */
    unsigned space;
    unsigned hot;
    bool hot_shared, hot_large;
    bool kept[SPACES]; /* nothing was changed since it was current */
    struct jump jump[JUMPS];
    uint64_t accesses, faults, hits, jumps;
};

static uint64_t pick(uint64_t below)
{
    return tap_rng() % below;
}

static bool chance(unsigned per_cent)
{
    return pick(100) < per_cent;
}

/* What stands at a page when nobody has written there. */
static uint64_t pattern(uint64_t gpa)
{
    return 0x5a00000000000000 | gpa;
}

static uint64_t random_entry(const struct model *model, bool shared)
{
    uint64_t data = DATA + pick(DATA_PAGES) * HV_PAGE_SIZE;
    uint64_t entry = data | (chance(90) ? PTE_P : 0);

    entry |= chance(70) ? PTE_RW : 0;
    entry |= chance(shared ? 20 : 85) ? PTE_US : 0;
    entry |= shared && chance(model->global_per_cent) ? PTE_G : 0;
    entry |= chance(20) ? PTE_NX : 0;
    entry |= chance(30) ? PTE_A : 0;
    entry |= chance(30) ? PTE_D : 0;
    return entry;
}

static uint64_t random_gva(struct model *model, bool *shared_out, bool *large_out,
                           unsigned *index_out)
{
    /* Mostly near the last one, so that there is something to hit. */
    if (chance(2)) {
        model->hot = (unsigned)pick(HV_ARRAY_LEN(page_index));
        model->hot_shared = chance(50);
        model->hot_large = chance(30);
    }
    *shared_out = chance(90) == model->hot_shared;
    *large_out = chance(90) == model->hot_large;
    *index_out = page_index[chance(90) ? (model->hot + pick(2)) % HV_ARRAY_LEN(page_index)
                                       : pick(HV_ARRAY_LEN(page_index))];
    return (*shared_out ? KERNEL : 0) + (*large_out ? 2 * HV_MIB : 0) + *index_out * HV_PAGE_SIZE;
}

static void use_space(struct model *model, unsigned space)
{
    model->space = space;
    model->cpu->cr3 = PML4(space) | (model->cpu->cr4 & HV_CR4_PCIDE ? space + 1 : 0);
}

static void switch_space(struct model *model, unsigned space)
{
    bool keep = model->kept[space] && chance(80);

    use_space(model, space);
    if (model->cpu->cr4 & HV_CR4_PCIDE) {
        soft_tlb_switch_pcid(model->vcpu, (uint16_t)(space + 1), keep);
    } else {
        soft_tlb_flush_non_global(model->vcpu);
    }
    model->kept[space] = true;
}

/* Nothing of @space may be believed when it becomes current again. */
static void distrust(struct model *model, unsigned space)
{
    if (chance(30)) {
        soft_tlb_flush_pcid(model->vcpu, (uint16_t)(space + 1));
    } else {
        model->kept[space] = false;
    }
}

/* The flush for a changed entry at @gva, of a page or of a table. */
static void flush_for(struct model *model, uint64_t gva, bool shared, bool was_global,
                      bool was_table)
{
    struct hv_engine_vcpu *vcpu = model->vcpu;
    unsigned way = (unsigned)pick(3);

    if (way == 0 || (was_table && shared)) {
        soft_tlb_flush_all(vcpu);
        return; /* CR4.PGE: all PCIDs, global ones too */
    }
    if (way == 1 && !was_global) {
        soft_tlb_flush_non_global(vcpu); /* INVPCID 3 */
        return;
    }
    if (was_table) {
        soft_tlb_flush_pcid(vcpu, (uint16_t)(model->cpu->cr3 & 0xfff)); /* INVPCID 1 */
    } else {
        soft_tlb_flush_page(vcpu, (hv_gva){gva});
    }
    /* INVLPG reaches a global page under every PCID, another one only under the current. */
    for (unsigned space = 0; shared && !was_global && space < SPACES; space++) {
        if (space != model->space) {
            distrust(model, space);
        }
    }
}

static void change_page(struct model *model)
{
    bool shared, large;
    unsigned index;
    uint64_t gva = random_gva(model, &shared, &large, &index) & ~(2 * HV_MIB);
    unsigned space = shared ? SHARED : (unsigned)pick(SPACES);
    uint64_t address = PT(space) + index * 8;
    uint64_t old = guest_peek(model->guest, address, 8);

    guest_poke(model->guest, address, 8, random_entry(model, shared));
    if (!shared && space != model->space) {
        distrust(model, space);
    } else if (!(old & PTE_P) && chance(50)) {
        return; /* not present is never cached: no flush is asked for */
    } else {
        flush_for(model, gva, shared, old & PTE_G, false);
        if (!(guest_peek(model->guest, PD(space) + 8, 8) & PTE_PS)) {
            /* The table stands in the PD twice. */
            flush_for(model, gva + 2 * HV_MIB, shared, old & PTE_G, false);
        }
    }
}

/* PD entry 1: a large page, or the table of the first 2 MiB once more, or nothing. */
static void change_large(struct model *model)
{
    bool shared = chance(50);
    unsigned space = shared ? SHARED : (unsigned)pick(SPACES);
    uint64_t address = PD(space) + 8;
    uint64_t old = guest_peek(model->guest, address, 8);
    uint64_t entry = (random_entry(model, shared) & ~PTE_ADDR) | PTE_PS;

    entry |= LARGE + pick(LARGE_PAGES) * 2 * HV_MIB;
    if (chance(30)) {
        entry = PT(space) | PTE_TABLE;
    }
    guest_poke(model->guest, address, 8, entry);
    if (!shared && space != model->space) {
        distrust(model, space);
    } else {
        uint64_t gva = (shared ? KERNEL : 0) + 2 * HV_MIB + pick(512) * HV_PAGE_SIZE;
        bool was_table = (old & PTE_P) && !(old & PTE_PS);

        flush_for(model, gva, shared, was_table || (old & PTE_G), was_table);
    }
}

static void change_registers(struct model *model)
{
    struct hv_cpu *cpu = model->cpu;

    switch (pick(6)) {
    case 0:
        cpu->cpl = cpu->cpl ? 0 : 3;
        break;
    case 1:
        cpu->rflags ^= HV_RFLAGS_AC;
        break;
    case 2:
        cpu->cr4 ^= HV_CR4_SMAP;
        break;
    case 3:
        cpu->cr4 ^= HV_CR4_SMEP;
        break;
    case 4:
        cpu->cr0 ^= HV_CR0_WP;
        break;
    default:
        cpu->cr4 ^= HV_CR4_PCIDE;
        use_space(model, model->space);
        break;
    }
    soft_tlb_set_mode(model->vcpu);
}

/* The oracle's walk: reads the tables as they are and sets nothing. */
static int oracle_read(void *context, hv_gpa gpa, unsigned bytes, uint64_t *value_out)
{
    struct model *model = context;

    *value_out = guest_peek(model->guest, gpa.v, bytes);
    return 0;
}

static int oracle_update(void *context, hv_gpa gpa, unsigned bytes, uint64_t expected,
                         uint64_t value, bool *swapped_out)
{
    (void)context, (void)gpa, (void)bytes, (void)expected, (void)value;
    *swapped_out = true;
    return 0;
}

static const struct hv_walk_memory oracle_memory = {oracle_read, oracle_update};

static int oracle(struct model *model, uint64_t gva, enum hv_walk_intent intent, uint64_t *gpa_out,
                  struct hv_fault *fault)
{
    struct hv_translation found = {.gpa = {0}};
    int result = hv_walk(model->cpu, &oracle_memory, model, (hv_gva){gva}, intent,
                         HV_WALK_AS_CURRENT, &found, fault);

    *gpa_out = found.gpa.v;
    return result;
}

static bool is_device(uint64_t gpa)
{
    return gpa / HV_PAGE_SIZE == DATA / HV_PAGE_SIZE + DEVICE_PAGE;
}

/* The engine's read, by the fast path where it hits. */
static int engine_read(struct model *model, uint64_t gva, uint64_t *value_out)
{
    struct hv_engine_vcpu *vcpu = model->vcpu;
    void *host = soft_tlb_lookup(&vcpu->view[SOFT_TLB_READ], vcpu->tlb_id, gva, 8);

    if (host) {
        model->hits++;
        *value_out = hv_load_le(host, 8);
        return 0;
    }
    return soft_read_slow(vcpu, gva, 8, value_out);
}

static int engine_write(struct model *model, uint64_t gva, uint64_t value)
{
    struct hv_engine_vcpu *vcpu = model->vcpu;
    void *host = soft_tlb_lookup(&vcpu->view[SOFT_TLB_WRITE], vcpu->tlb_id, gva, 8);

    if (host) {
        model->hits++;
        hv_store_le(host, value, 8);
        return 0;
    }
    return soft_write_slow(vcpu, gva, 8, value);
}

static void check_fault(struct model *model, int result, int wanted, const struct hv_fault *fault)
{
    TAP_EQ(result, wanted);
    if (wanted == HV_FAULTED) {
        model->faults++;
        TAP_EQ(model->vcpu->fault.vector, fault->vector);
        TAP_EQ(model->vcpu->fault.error, fault->error);
        TAP_EQ(model->vcpu->fault.cr2, fault->cr2);
    }
}

static void read_or_write(struct model *model, uint64_t gva, bool write)
{
    struct guest *guest = model->guest;
    struct hv_fault fault;
    uint64_t value = tap_rng();
    uint64_t gpa;
    int wanted, result;

    guest->ios = 0;
    wanted = oracle(model, gva, write ? HV_WALK_WRITE : HV_WALK_READ, &gpa, &fault);
    result = write ? engine_write(model, gva, value) : engine_read(model, gva, &value);
    soft_insn_done(model->vcpu);
    check_fault(model, result, wanted, &fault);
    if (wanted) {
        return;
    }
    if (is_device(gpa)) {
        TAP_EQ(guest->ios, 1);
        TAP_EQ(guest->io[0].address, gpa);
        TAP_EQ(guest->io[0].value, value);
    } else {
        TAP_EQ(guest->ios, 0);
        TAP_EQ(value, guest_peek(guest, gpa, 8));
        guest_poke(guest, gpa, 8, pattern(gpa));
    }
}

static bool alignment_is_checked(const struct model *model)
{
    return model->cpu->cpl == 3 && (model->cpu->rflags & HV_RFLAGS_AC);
}

/* A store or load over the end of a page: both halves must be where their pages are. */
static void access_crossing(struct model *model, uint64_t gva, bool write)
{
    struct guest *guest = model->guest;
    uint64_t first = gva + HV_PAGE_SIZE - 4;
    struct hv_fault fault;
    uint64_t gpa[2] = {0};
    uint64_t value = tap_rng();
    int wanted, result;

    if (alignment_is_checked(model)) {
        return;
    }
    wanted = oracle(model, first, write ? HV_WALK_WRITE : HV_WALK_READ, &gpa[0], &fault);
    if (!wanted) {
        wanted = oracle(model, first + 4, write ? HV_WALK_WRITE : HV_WALK_READ, &gpa[1], &fault);
    }
    result = write ? engine_write(model, first, value) : engine_read(model, first, &value);
    soft_insn_done(model->vcpu);
    check_fault(model, result, wanted, &fault);
    if (wanted || is_device(gpa[0]) || is_device(gpa[1])) {
        return;
    }
    /* One page mapped twice side by side: offsets differ, so both halves stand. */
    TAP_EQ(guest_peek(guest, gpa[0], 4), value & UINT32_MAX);
    TAP_EQ(guest_peek(guest, gpa[1], 4), value >> 32);
    guest_poke(guest, gpa[0] + 4 - 8, 8, pattern(gpa[0] + 4 - 8));
    guest_poke(guest, gpa[1], 8, pattern(gpa[1]));
}

static void fetch(struct model *model, uint64_t gva)
{
    struct hv_engine_vcpu *vcpu = model->vcpu;
    struct jump *jump = &model->jump[(gva >> HV_PAGE_SHIFT) % JUMPS];
    bool user = model->cpu->cpl == 3;
    struct hv_fault fault;
    uint64_t wanted_gpa;
    const uint8_t *host;
    hv_gpa gpa;
    int wanted = oracle(model, gva, HV_WALK_FETCH, &wanted_gpa, &fault);
    int result = 0;

    if (jump->known && jump->page == soft_tlb_page(gva) &&
        jump->generation == vcpu->fetch_generation[gva >> 63] && jump->user == user) {
        model->jumps++;
        TAP_EQ(wanted, 0);
        TAP_EQ(jump->gpa, soft_tlb_page(wanted_gpa));
    }
    if (!soft_tlb_lookup_fetch(&vcpu->view[SOFT_TLB_EXEC], vcpu->tlb_id, gva, &gpa)) {
        result = soft_fetch_page(vcpu, gva, &gpa, &host);
    } else {
        model->hits++;
    }
    check_fault(model, result, wanted, &fault);
    if (!wanted) {
        TAP_EQ(gpa.v, wanted_gpa);
        *jump = (struct jump){soft_tlb_page(gva), vcpu->fetch_generation[gva >> 63],
                              soft_tlb_page(gpa.v), user, true};
    }
}

static void access_once(struct model *model)
{
    bool shared, large;
    unsigned index;
    uint64_t gva = random_gva(model, &shared, &large, &index);
    uint64_t offset = pick(HV_PAGE_SIZE / 8) * 8;

    model->accesses++;
    switch (pick(8)) {
    case 0:
    case 1:
    case 2:
        read_or_write(model, gva + offset, false);
        break;
    case 3:
    case 4:
        read_or_write(model, gva + offset, true);
        break;
    case 5:
        access_crossing(model, gva, chance(50));
        break;
    default:
        fetch(model, gva + offset);
        break;
    }
}

static void init_space(struct model *model, unsigned space)
{
    struct guest *guest = model->guest;

    guest_poke(guest, PML4(space), 8, PDPT(space) | PTE_TABLE);
    guest_poke(guest, PML4(space) + 256 * 8, 8, PDPT(SHARED) | PTE_TABLE);
    guest_poke(guest, PDPT(space), 8, PD(space) | PTE_TABLE);
    guest_poke(guest, PD(space), 8, PT(space) | PTE_TABLE);
    for (unsigned i = 0; i < HV_ARRAY_LEN(page_index); i++) {
        guest_poke(guest, PT(space) + page_index[i] * 8, 8, random_entry(model, space == SHARED));
    }
}

static void run(uint16_t last_id, unsigned global_per_cent)
{
    struct guest *guest = guest_create();
    struct model model = {
        .guest = guest,
        .vcpu = &guest->vcpu[0],
        .cpu = &guest->cpu[0],
        .global_per_cent = global_per_cent,
    };

    for (unsigned space = 0; space <= SHARED; space++) {
        init_space(&model, space);
    }
    for (uint64_t gpa = DATA; gpa < LARGE + LARGE_PAGES * 2 * HV_MIB; gpa += 8) {
        guest_poke(guest, gpa, 8, pattern(gpa));
    }
    guest_set_leaf(guest, DATA + DEVICE_PAGE * HV_PAGE_SIZE, HV_LEAF_MMIO);
    guest_long_mode(guest, 0);
    model.cpu->cr4 |= HV_CR4_PCIDE;
    model.vcpu->tlbs->last_id = last_id;
    use_space(&model, 0);
    soft_tlb_set_mode(model.vcpu);
    soft_tlb_switch_pcid(model.vcpu, 1, false);

    for (unsigned i = 0; i < ROUNDS && !tap_failed(); i++) {
        unsigned what = (unsigned)pick(1000);

        if (what < 6) {
            change_page(&model);
        } else if (what < 7) {
            change_large(&model);
        } else if (what < 12) {
            switch_space(&model, (unsigned)pick(SPACES));
        } else if (what < 15) {
            change_registers(&model);
        } else {
            access_once(&model);
        }
    }
    tap_note("%" PRIu64 " accesses, %" PRIu64 " faults, %" PRIu64 " hits, %" PRIu64
             " walks, %" PRIu64 " jumps",
             model.accesses, model.faults, model.hits,
             hv_load_relaxed(&model.vcpu->counters.tlb_fills), model.jumps);
    /* Each of them happened often enough to mean something. */
    TAP_OK(model.faults > ROUNDS / 20);
    TAP_OK(model.hits > ROUNDS / 10);
    TAP_OK(model.jumps > ROUNDS / 50);
    guest_destroy(guest);
}

static void test_all_ids(void)
{
    run((uint16_t)SOFT_TLB_ID_MASK, 60);
}

static void test_few_ids(void)
{
    run(6, 60);
}

/* As kernels are: changes of address space leave the upper half's fetches alone. */
static void test_global_kernel(void)
{
    run((uint16_t)SOFT_TLB_ID_MASK, 100);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"model.tlb.all-ids", test_all_ids},
        {"model.tlb.few-ids", test_few_ids},
        {"model.tlb.global-kernel", test_global_kernel},
    };
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Slow accesses of the software engine: crossings, faults, ROM, code, devices, first touches. */
#include "engine/soft/access.h"

#include "soft-tables.h"

/* Error codes of #PF (SDM 3A 4.7). */
#define ERROR_P 1u
#define ERROR_W 2u
#define ERROR_U 4u
#define ERROR_I 16u

#define DEVICE  UINT64_C(0x40000)

static uint64_t value_of(const uint8_t *bytes, unsigned count)
{
    return hv_load_le(bytes, count);
}

static void test_sizes(void)
{
    struct guest *guest = guest_create();
    struct hv_engine_vcpu *vcpu = &guest->vcpu[0];

    guest_long_mode(guest, 0);
    for (unsigned bytes = 1; bytes <= 8; bytes++) {
        for (uint64_t offset = 0xff0; offset < 0x1008; offset++) {
            uint64_t value = tap_rng() & hv_bytes_mask(bytes);
            uint64_t before = guest_peek(guest, SCRATCH + offset - 1, 1);
            uint64_t read;

            TAP_EQ(soft_write_slow(vcpu, SCRATCH + offset, bytes, value), 0);
            TAP_EQ(soft_read_slow(vcpu, SCRATCH + offset, bytes, &read), 0);
            TAP_EQ(read, value);
            /* Frames are not adjacent in the host: byte by byte. */
            for (unsigned i = 0; i < bytes; i++) {
                TAP_EQ(guest_peek(guest, SCRATCH + offset + i, 1), (value >> (8 * i)) & 0xff);
            }
            TAP_EQ(guest_peek(guest, SCRATCH + offset - 1, 1), before);
        }
    }
    guest_destroy(guest);
}

static void test_bytes(void)
{
    struct guest *guest = guest_create();
    struct hv_engine_vcpu *vcpu = &guest->vcpu[0];
    uint8_t from[4096];
    uint8_t to[4096];

    guest_long_mode(guest, 0);
    for (unsigned i = 0; i < 40; i++) {
        unsigned bytes = i < 20 ? 1u << (i % 13) : 1 + (unsigned)(tap_rng() % 4096);
        uint64_t gva = SCRATCH + tap_rng() % 4096;

        for (unsigned j = 0; j < bytes; j++) {
            from[j] = (uint8_t)tap_rng();
        }
        TAP_EQ(soft_write_bytes(vcpu, gva, from, bytes), 0);
        TAP_EQ(soft_read_bytes(vcpu, gva, to, bytes), 0);
        TAP_OK(memcmp(from, to, bytes) == 0);
        TAP_EQ(guest_peek(guest, gva + bytes - 1, 1), from[bytes - 1]);
    }
    guest_destroy(guest);
}

/* Outside long mode a linear address has 32 bits, and the byte behind the last is the first. */
static void test_wraps_at_4_gib(void)
{
    struct guest *guest = guest_create();
    struct hv_engine_vcpu *vcpu = &guest->vcpu[0];
    uint64_t value;

    guest->cpu[0].cr0 = HV_CR0_PE;
    soft_tlb_set_mode(vcpu);
    guest_poke(guest, 0, 4, 0x44332211);
    TAP_EQ(soft_read_slow(vcpu, 0xfffffffe, 4, &value), 0);
    TAP_EQ(value >> 16, 0x2211);
    TAP_EQ(guest->io[0].address, 0xfffffffe); /* a hole below 4 GiB: the bus is asked */
    TAP_EQ(soft_read_slow(vcpu, UINT64_C(0x100000000), 4, &value), 0);
    TAP_EQ(value, 0x44332211);

    /* In long mode the next page is the next page; in compatibility mode it wraps. */
    guest_long_mode(guest, 0);
    TAP_EQ(soft_read_slow(vcpu, 0xfffffffe, 4, &value), HV_FAULTED);
    TAP_EQ(vcpu->fault.cr2, 0xfffffffe);
    TAP_EQ(soft_next_page(vcpu, 0xfffffffe), UINT64_C(0x100000000));
    guest->cpu[0].seg[HV_SEG_CS].attr &= ~(uint32_t)HV_SEG_ATTR_L;
    TAP_EQ(soft_next_page(vcpu, 0xfffffffe), 0);
    TAP_EQ(soft_next_page(vcpu, UINT64_C(0xffff8000fffffffe)), UINT64_C(0xffff800100000000));
    guest_destroy(guest);
}

static void test_error_codes(void)
{
    static const struct {
        uint64_t entry;
        uint8_t cpl;
        enum soft_tlb_kind kind;
        uint32_t error;
    } row[] = {
        {0, 0, SOFT_TLB_READ, 0},
        {0, 0, SOFT_TLB_WRITE, ERROR_W},
        {0, 3, SOFT_TLB_READ, ERROR_U},
        {0, 3, SOFT_TLB_WRITE, ERROR_U | ERROR_W},
        {0, 0, SOFT_TLB_EXEC, ERROR_I},
        {PTE_P | PTE_RW, 3, SOFT_TLB_READ, ERROR_P | ERROR_U},
        {PTE_P | PTE_RW, 3, SOFT_TLB_EXEC, ERROR_P | ERROR_U | ERROR_I},
        {PTE_P | PTE_US, 3, SOFT_TLB_WRITE, ERROR_P | ERROR_U | ERROR_W},
        {PTE_P, 0, SOFT_TLB_WRITE, ERROR_P | ERROR_W}, /* CR0.WP */
        {PTE_P | PTE_NX, 0, SOFT_TLB_EXEC, ERROR_P | ERROR_I},
    };
    struct guest *guest = guest_create();
    struct hv_engine_vcpu *vcpu = &guest->vcpu[0];

    guest_long_mode(guest, 0);
    for (unsigned i = 0; i < HV_ARRAY_LEN(row); i++) {
        uint64_t gva = SCRATCH + 0x123;
        const uint8_t *host;
        uint64_t value;
        hv_gpa gpa;
        int result;

        guest_map(guest, SCRATCH, SCRATCH | row[i].entry);
        guest_set_cpl(guest, row[i].cpl);
        if (row[i].kind == SOFT_TLB_EXEC) {
            result = soft_fetch_page(vcpu, gva, &gpa, &host);
        } else if (row[i].kind == SOFT_TLB_WRITE) {
            result = soft_write_slow(vcpu, gva, 4, 1);
        } else {
            result = soft_read_slow(vcpu, gva, 4, &value);
        }
        TAP_EQ(result, HV_FAULTED);
        TAP_EQ(vcpu->fault.vector, HV_VECTOR_PF);
        TAP_EQ(vcpu->fault.error, row[i].error);
        TAP_EQ(vcpu->fault.cr2, gva);
        TAP_EQ(guest_entry(guest, SCRATCH) & (PTE_A | PTE_D), 0);
    }
    guest_destroy(guest);
}

/* A store that faults on its second page has stored nothing and dirtied nothing. */
static void test_crossing_fault(void)
{
    struct guest *guest = guest_create();
    struct hv_engine_vcpu *vcpu = &guest->vcpu[0];
    uint64_t second = SCRATCH + HV_PAGE_SIZE;
    uint8_t bytes[512] = {1};
    uint64_t value;
    void *place;

    guest_long_mode(guest, 0);
    guest_map(guest, second, second | PTE_P);
    guest_poke(guest, second - 4, 4, 0x01020304);

    TAP_EQ(soft_write_slow(vcpu, second - 2, 4, 0), HV_FAULTED);
    TAP_EQ(vcpu->fault.error, ERROR_P | ERROR_W);
    TAP_EQ(vcpu->fault.cr2, second);
    TAP_EQ(soft_write_bytes(vcpu, second - 300, bytes, 512), HV_FAULTED);
    TAP_EQ(vcpu->fault.cr2, second);
    TAP_EQ(soft_rmw_begin(vcpu, second - 2, 4, false, &place), HV_FAULTED);
    TAP_EQ(vcpu->fault.cr2, second);
    TAP_EQ(guest_peek(guest, second - 4, 4), 0x01020304);
    TAP_EQ(guest_entry(guest, SCRATCH) & PTE_D, 0);

    /* Likewise in user mode, where CR0.WP means nothing. */
    guest->cpu[0].cr0 &= ~(uint64_t)HV_CR0_WP;
    guest_map(guest, second, second | PTE_P | PTE_US);
    guest_set_cpl(guest, 3);
    TAP_EQ(soft_write_slow(vcpu, second - 2, 4, 0), HV_FAULTED);
    TAP_EQ(vcpu->fault.cr2, second);
    TAP_EQ(guest_entry(guest, SCRATCH) & PTE_D, 0);
    guest_set_cpl(guest, 0);
    TAP_EQ(soft_write_slow(vcpu, second - 2, 4, 0x01020304), 0);
    guest->cpu[0].cr0 |= HV_CR0_WP;
    soft_tlb_set_mode(vcpu);
    guest_map(guest, second, second | PTE_P);
    guest_poke(guest, second - 4, 4, 0x01020304);
    guest_poke(guest, second, 4, 0);

    /* The first page's fault comes first. */
    guest_map(guest, SCRATCH, SCRATCH | PTE_P);
    TAP_EQ(soft_write_slow(vcpu, second - 2, 4, 0), HV_FAULTED);
    TAP_EQ(vcpu->fault.cr2, second - 2);

    TAP_EQ(soft_read_slow(vcpu, second - 2, 4, &value), 0);
    TAP_EQ(value, 0x0102);
    guest_map(guest, second, 0);
    TAP_EQ(soft_read_slow(vcpu, second - 2, 4, &value), HV_FAULTED);
    TAP_EQ(vcpu->fault.error, 0);
    TAP_EQ(vcpu->fault.cr2, second);
    guest_destroy(guest);
}

static void test_canonical(void)
{
    static const uint64_t bad[] = {UINT64_C(0x800000000000), UINT64_C(0x7fffffffffff),
                                   UINT64_C(0xffff7ffffffffff8), SOFT_TLB_EMPTY};
    struct guest *guest = guest_create();
    struct hv_engine_vcpu *vcpu = &guest->vcpu[0];
    uint64_t value;

    guest_long_mode(guest, 0);
    for (unsigned i = 0; i < HV_ARRAY_LEN(bad); i++) {
        TAP_OK(!soft_tlb_lookup(&vcpu->view[SOFT_TLB_READ], vcpu->tlb_id, bad[i], 8));
        TAP_EQ(soft_read_slow(vcpu, bad[i], 8, &value), HV_FAULTED);
        TAP_EQ(vcpu->fault.vector, HV_VECTOR_GP);
        TAP_OK(vcpu->fault.has_error);
        TAP_EQ(vcpu->fault.error, 0);
        TAP_EQ(soft_stack_result(vcpu, soft_write_slow(vcpu, bad[i], 8, 0)), HV_FAULTED);
        TAP_EQ(vcpu->fault.vector, HV_VECTOR_SS);
    }
    /* A page fault of the stack stays one. */
    TAP_EQ(soft_stack_result(vcpu, soft_read_slow(vcpu, 8 * HV_MIB, 8, &value)), HV_FAULTED);
    TAP_EQ(vcpu->fault.vector, HV_VECTOR_PF);
    guest_destroy(guest);
}

static void test_alignment(void)
{
    struct guest *guest = guest_create();
    struct hv_engine_vcpu *vcpu = &guest->vcpu[0];
    struct hv_fault fault;
    unsigned rest;
    uint64_t value;
    void *place;

    guest_long_mode(guest, 0);
    guest_set_cpl(guest, 3);
    TAP_EQ(soft_read_slow(vcpu, SCRATCH + 1, 4, &value), 0);
    TAP_OK(soft_tlb_lookup(&vcpu->view[SOFT_TLB_READ], vcpu->tlb_id, SCRATCH + 1, 4));

    /* With RFLAGS.AC the fast path is shut, though the page is known. */
    guest_set_ac(guest, true);
    TAP_OK(!soft_tlb_lookup(&vcpu->view[SOFT_TLB_READ], vcpu->tlb_id, SCRATCH + 1, 4));
    TAP_OK(!soft_tlb_lookup(&vcpu->view[SOFT_TLB_READ], vcpu->tlb_id, SCRATCH, 4));
    for (unsigned bytes = 2; bytes <= 8; bytes *= 2) {
        TAP_EQ(soft_read_slow(vcpu, SCRATCH + bytes / 2, bytes, &value), HV_FAULTED);
        TAP_EQ(vcpu->fault.vector, HV_VECTOR_AC);
        TAP_EQ(vcpu->fault.error, 0);
        TAP_EQ(soft_write_slow(vcpu, SCRATCH + 1, bytes, 0), HV_FAULTED);
        TAP_EQ(soft_rmw_begin(vcpu, SCRATCH + 1, bytes, true, &place), HV_FAULTED);
        TAP_EQ(soft_read_slow(vcpu, SCRATCH + bytes, bytes, &value), 0);
    }
    TAP_EQ(soft_read_slow(vcpu, SCRATCH + 1, 1, &value), 0);
    TAP_EQ(soft_page_span(vcpu, SCRATCH, SOFT_TLB_READ, &place, &rest), 0);
    TAP_OK(!place);
    /* Implicit accesses to tables are exempt. */
    TAP_EQ(
        soft_access_ops.read(vcpu, (hv_gva){SCRATCH + 1}, 8, HV_WALK_AS_SUPERVISOR, &value, &fault),
        0);
    TAP_EQ(soft_access_ops.read(vcpu, (hv_gva){SCRATCH + 1}, 8, HV_WALK_AS_CURRENT, &value, &fault),
           HV_FAULTED);
    TAP_EQ(fault.vector, HV_VECTOR_AC);

    guest_set_cpl(guest, 0);
    TAP_EQ(soft_read_slow(vcpu, SCRATCH + 1, 4, &value), 0);
    guest->cpu[0].cr0 &= ~(uint64_t)HV_CR0_AM;
    guest_set_cpl(guest, 3);
    TAP_EQ(soft_read_slow(vcpu, SCRATCH + 1, 4, &value), 0);
    TAP_OK(soft_tlb_lookup(&vcpu->view[SOFT_TLB_READ], vcpu->tlb_id, SCRATCH + 1, 4));
    guest_destroy(guest);
}

static void test_accessed_and_dirty(void)
{
    struct guest *guest = guest_create();
    struct hv_engine_vcpu *vcpu = &guest->vcpu[0];
    const uint8_t *host;
    uint64_t value;
    hv_gpa gpa;

    guest_long_mode(guest, 0);
    guest_log_dirty(guest);
    TAP_EQ(soft_read_slow(vcpu, SCRATCH, 4, &value), 0);
    TAP_EQ(guest_entry(guest, SCRATCH) & (PTE_A | PTE_D), PTE_A);
    /* The dirty log hears of the walk's own store into the page of tables. */
    TAP_OK(guest_new_epoch(guest, GUEST_PT));
    TAP_OK(!guest_new_epoch(guest, GUEST_PT));
    TAP_EQ(soft_read_slow(vcpu, SCRATCH, 4, &value), 0);
    TAP_OK(!guest_new_epoch(guest, SCRATCH));
    /* A clean page's read entry does not let a store through. */
    TAP_OK(soft_tlb_lookup(&vcpu->view[SOFT_TLB_READ], vcpu->tlb_id, SCRATCH, 4));
    TAP_OK(!soft_tlb_lookup(&vcpu->view[SOFT_TLB_WRITE], vcpu->tlb_id, SCRATCH, 4));
    TAP_EQ(soft_write_slow(vcpu, SCRATCH, 4, 7), 0);
    TAP_EQ(guest_entry(guest, SCRATCH) & PTE_D, PTE_D);
    TAP_OK(soft_tlb_lookup(&vcpu->view[SOFT_TLB_WRITE], vcpu->tlb_id, SCRATCH, 4));
    TAP_OK(guest_new_epoch(guest, SCRATCH));

    TAP_EQ(soft_fetch_page(vcpu, SCRATCH + 0x1005, &gpa, &host), 0);
    TAP_EQ(gpa.v, SCRATCH + 0x1005);
    TAP_EQ((uintptr_t)host, (uintptr_t)guest_host(guest, SCRATCH + 0x1005));
    TAP_EQ(guest_entry(guest, SCRATCH + HV_PAGE_SIZE) & (PTE_A | PTE_D), PTE_A);
    TAP_OK(soft_tlb_lookup_fetch(&vcpu->view[SOFT_TLB_EXEC], vcpu->tlb_id, SCRATCH + 0x1abc, &gpa));
    TAP_EQ(gpa.v, SCRATCH + 0x1abc);
    guest_destroy(guest);
}

static void test_rom(void)
{
    struct guest *guest = guest_create();
    struct hv_engine_vcpu *vcpu = &guest->vcpu[0];
    struct hv_fault fault;
    uint64_t value;
    void *place;

    guest_long_mode(guest, 0);
    guest_poke(guest, SCRATCH, 8, 0x1122334455667788);
    guest_set_leaf(guest, SCRATCH, HV_LEAF_ROM_OVER_RAM);
    TAP_EQ(soft_write_slow(vcpu, SCRATCH, 8, 0), 0);
    TAP_EQ(soft_write_slow(vcpu, SCRATCH, 8, 0), 0);
    TAP_EQ(soft_read_slow(vcpu, SCRATCH, 4, &value), 0);
    TAP_EQ(value, 0x55667788);
    TAP_OK(soft_tlb_lookup(&vcpu->view[SOFT_TLB_READ], vcpu->tlb_id, SCRATCH, 4));
    TAP_OK(!soft_tlb_lookup(&vcpu->view[SOFT_TLB_WRITE], vcpu->tlb_id, SCRATCH, 4));
    TAP_EQ(soft_rmw_begin(vcpu, SCRATCH, 8, true, &place), 0);
    TAP_EQ(value_of(place, 8), 0x1122334455667788);
    memset(place, 0, 8);
    TAP_EQ(soft_rmw_commit(vcpu), 0);
    TAP_EQ(soft_access_ops.set_bits(vcpu, (hv_gva){SCRATCH}, 1, 0, HV_WALK_AS_SUPERVISOR, &fault),
           0);
    TAP_EQ(guest_peek(guest, SCRATCH, 8), 0x1122334455667788);
    TAP_EQ(guest->ios, 0);
    guest_destroy(guest);
}

static void test_code(void)
{
    struct guest *guest = guest_create();
    struct hv_engine_vcpu *vcpu = &guest->vcpu[0];
    unsigned rest;
    void *place;

    guest_long_mode(guest, 0);
    guest_log_dirty(guest);
    guest_set_leaf(guest, SCRATCH, HV_LEAF_RAM_RO);
    TAP_EQ(soft_write_slow(vcpu, SCRATCH + 0x80, 4, 0xabcdef), 0);
    TAP_EQ(guest->code_stores, 1);
    TAP_EQ(guest->code_gpa.v, SCRATCH + 0x80);
    TAP_EQ(guest->code_bytes, 4);
    TAP_EQ(guest->code_value, 0xabcdef); /* told after the store */
    TAP_OK(guest_new_epoch(guest, SCRATCH));

    TAP_OK(!soft_tlb_lookup(&vcpu->view[SOFT_TLB_WRITE], vcpu->tlb_id, SCRATCH, 4));
    TAP_EQ(soft_page_span(vcpu, SCRATCH, SOFT_TLB_WRITE, &place, &rest), 0);
    TAP_OK(!place);
    TAP_EQ(rest, HV_PAGE_SIZE);

    /* Half of a crossing store. */
    TAP_EQ(soft_write_slow(vcpu, SCRATCH - 3, 8, UINT64_MAX), 0);
    TAP_EQ(guest->code_stores, 2);
    TAP_EQ(guest->code_gpa.v, SCRATCH);
    TAP_EQ(guest->code_bytes, 5);

    /* The page's last block is gone: the next store finds plain RAM. */
    guest_set_leaf(guest, SCRATCH, HV_LEAF_RAM);
    TAP_EQ(soft_write_slow(vcpu, SCRATCH, 4, 1), 0);
    TAP_EQ(guest->code_stores, 2);
    TAP_OK(soft_tlb_lookup(&vcpu->view[SOFT_TLB_WRITE], vcpu->tlb_id, SCRATCH, 4));

    /* And it gets code again: the vCPU that seals it drops its own write translations, on all
     * levels. */
    guest_map(guest, SCRATCH, SCRATCH | PTE_TABLE | PTE_G);
    TAP_EQ(soft_write_slow(vcpu, SCRATCH, 4, 1), 0);
    guest_set_leaf(guest, SCRATCH, HV_LEAF_RAM_RO);
    soft_tlb_drop_writes_to(vcpu, hv_gpa_to_gfn((hv_gpa){SCRATCH}));
    TAP_OK(!soft_tlb_lookup(&vcpu->view[SOFT_TLB_WRITE], vcpu->tlb_id, SCRATCH, 4));
    TAP_OK(soft_tlb_lookup(&vcpu->view[SOFT_TLB_WRITE], vcpu->tlb_id, SCRATCH - 8, 4));
    TAP_EQ(soft_write_slow(vcpu, SCRATCH, 4, 1), 0);
    TAP_EQ(guest->code_stores, 3);
    guest_destroy(guest);
}

/* A page of tables that also holds code: the walker's bits are stores like others. */
static void test_code_in_tables(void)
{
    struct guest *guest = guest_create();
    struct hv_engine_vcpu *vcpu = &guest->vcpu[0];
    uint64_t value;

    guest_long_mode(guest, 0);
    guest_set_leaf(guest, GUEST_PT, HV_LEAF_RAM_RO);
    TAP_EQ(soft_read_slow(vcpu, SCRATCH, 4, &value), 0);
    TAP_EQ(guest->code_stores, 1);
    TAP_EQ(guest->code_gpa.v, GUEST_PT + SCRATCH / HV_PAGE_SIZE * 8);
    TAP_EQ(guest->code_bytes, 8);
    TAP_EQ(guest_entry(guest, SCRATCH) & PTE_A, PTE_A);

    /* Tables in ROM work as far as reading goes; their bits never stick. */
    guest_set_leaf(guest, GUEST_PT, HV_LEAF_ROM_OVER_RAM);
    TAP_EQ(soft_write_slow(vcpu, SCRATCH + HV_PAGE_SIZE, 4, 9), 0);
    TAP_EQ(guest_peek(guest, SCRATCH + HV_PAGE_SIZE, 4), 9);
    TAP_EQ(guest_entry(guest, SCRATCH + HV_PAGE_SIZE) & (PTE_A | PTE_D), 0);

    /* Tables where nothing is: all ones have reserved bits set. */
    guest_poke(guest, GUEST_PD + 8, 8, UINT64_C(0x3ffffffff000) | PTE_TABLE);
    TAP_EQ(soft_read_slow(vcpu, 2 * HV_MIB, 4, &value), HV_FAULTED);
    TAP_EQ(vcpu->fault.error, ERROR_P | 8);
    guest_destroy(guest);
}

static void test_unpopulated(void)
{
    struct guest *guest = guest_create();
    struct hv_engine_vcpu *vcpu = &guest->vcpu[0];
    uint64_t first = GUEST_UNPOPULATED - 4;
    const uint8_t *host;
    uint64_t value;
    hv_gpa gpa;

    guest_long_mode(guest, 0);
    guest_poke(guest, GUEST_PT + 8 * 0x60, 8, (GUEST_UNPOPULATED - HV_PAGE_SIZE) | PTE_TABLE);
    guest_poke(guest, GUEST_PT + 8 * 0x61, 8, GUEST_UNPOPULATED | PTE_TABLE);
    guest_poke(guest, first, 4, 0x01020304);

    /* A store across the edge stores nothing before all of it can be. */
    TAP_EQ(soft_write_slow(vcpu, 0x60ffc, 8, UINT64_MAX), (uint64_t)-EAGAIN);
    TAP_OK(!hv_doorbell_in_guest(vcpu->bell));
    TAP_OK(!vcpu->awaits_device);
    TAP_EQ(guest_peek(guest, first, 4), 0x01020304);
    TAP_EQ(guest_entry(guest, 0x60000) & PTE_D, 0);
    guest_reenter(guest, 0);
    TAP_EQ(soft_write_slow(vcpu, 0x60ffc, 8, 0x1111111122222222), 0);
    TAP_EQ(guest_peek(guest, first, 4), 0x22222222);
    TAP_EQ(guest_peek(guest, GUEST_UNPOPULATED, 4), 0x11111111);

    /* A walk does not populate what it only reads: zeros are not present. */
    guest_poke(guest, GUEST_PD + 8, 8, (GUEST_UNPOPULATED + HV_EXTENT_SIZE) | PTE_TABLE);
    TAP_EQ(soft_read_slow(vcpu, 2 * HV_MIB, 8, &value), HV_FAULTED);
    TAP_EQ(vcpu->fault.error, 0);
    TAP_OK(hv_doorbell_in_guest(vcpu->bell));

    guest_map(guest, 0x62000, (GUEST_UNPOPULATED + HV_EXTENT_SIZE) | PTE_TABLE);
    TAP_EQ(soft_fetch_page(vcpu, 0x62004, &gpa, &host), (uint64_t)-EAGAIN);
    guest_reenter(guest, 0);
    TAP_EQ(soft_fetch_page(vcpu, 0x62004, &gpa, &host), 0);
    TAP_EQ(gpa.v, GUEST_UNPOPULATED + HV_EXTENT_SIZE + 4);
    TAP_EQ(*host, 0);
    guest_destroy(guest);
}

static void test_fetch_from_nothing(void)
{
    struct guest *guest = guest_create();
    struct hv_engine_vcpu *vcpu = &guest->vcpu[0];
    const uint8_t *host;
    hv_gpa gpa;

    guest_long_mode(guest, 0);
    guest_set_leaf(guest, DEVICE, HV_LEAF_MMIO);
    TAP_EQ(soft_fetch_page(vcpu, DEVICE + 0xff0, &gpa, &host), 0);
    TAP_EQ(gpa.v, DEVICE + 0xff0);
    for (unsigned i = 0; i < 16; i++) {
        TAP_EQ(host[i], 0xff);
    }
    TAP_EQ(guest->ios, 0);
    guest_destroy(guest);
}

static void test_ops(void)
{
    struct guest *guest = guest_create();
    struct hv_engine_vcpu *vcpu = &guest->vcpu[0];
    const struct hv_access_ops *ops = &soft_access_ops;
    struct hv_fault fault;
    uint64_t value;

    guest_long_mode(guest, 0);
    guest->cpu[0].cr4 |= HV_CR4_SMAP;
    guest_map(guest, SCRATCH, SCRATCH | PTE_P | PTE_RW); /* the kernel's */
    guest_set_cpl(guest, 3);
    guest_set_ac(guest, true);
    guest_poke(guest, SCRATCH, 8, 0x8877665544332211);

    TAP_EQ(ops->read(vcpu, (hv_gva){SCRATCH + 1}, 5, HV_WALK_AS_SUPERVISOR, &value, &fault), 0);
    TAP_EQ(value, 0x6655443322);
    TAP_EQ(ops->read(vcpu, (hv_gva){SCRATCH}, 8, HV_WALK_AS_CURRENT, &value, &fault), HV_FAULTED);
    TAP_EQ(fault.error, ERROR_P | ERROR_U);
    /* SMAP: implicit accesses to user pages fault whatever AC says, explicit ones heed it. */
    TAP_EQ(
        ops->read(vcpu, (hv_gva){SCRATCH + HV_PAGE_SIZE}, 8, HV_WALK_AS_SUPERVISOR, &value, &fault),
        HV_FAULTED);
    TAP_EQ(fault.error, ERROR_P);
    TAP_EQ(ops->read(vcpu, (hv_gva){SCRATCH + HV_PAGE_SIZE}, 8, HV_WALK_AS_KERNEL, &value, &fault),
           0);
    guest_set_ac(guest, false);
    TAP_EQ(ops->read(vcpu, (hv_gva){SCRATCH + HV_PAGE_SIZE}, 8, HV_WALK_AS_KERNEL, &value, &fault),
           HV_FAULTED);

    TAP_EQ(
        ops->write(vcpu, (hv_gva){SCRATCH + HV_PAGE_SIZE - 2}, 4, HV_WALK_AS_SUPERVISOR, 0, &fault),
        HV_FAULTED);
    TAP_EQ(fault.cr2, SCRATCH + HV_PAGE_SIZE);
    TAP_EQ(ops->probe_write(vcpu, (hv_gva){SCRATCH + 0xf00}, 512, HV_WALK_AS_SUPERVISOR, &fault),
           HV_FAULTED);
    TAP_EQ(fault.cr2, SCRATCH + HV_PAGE_SIZE);
    TAP_EQ(fault.error, ERROR_P | ERROR_W);
    TAP_EQ(ops->probe_write(vcpu, (hv_gva){SCRATCH + 0xe00}, 512, HV_WALK_AS_SUPERVISOR, &fault),
           0);
    TAP_EQ(guest_entry(guest, SCRATCH) & PTE_D, 0);
    TAP_EQ(ops->set_bits(vcpu, (hv_gva){SCRATCH}, 0x82, 0x01, HV_WALK_AS_SUPERVISOR, &fault), 0);
    TAP_EQ(guest_peek(guest, SCRATCH, 1), 0x92);
    TAP_EQ(guest_entry(guest, SCRATCH) & PTE_D, PTE_D);
    guest_destroy(guest);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"engine.access.sizes", test_sizes},
        {"engine.access.bytes", test_bytes},
        {"engine.access.wraps-at-4-gib", test_wraps_at_4_gib},
        {"engine.access.error-codes", test_error_codes},
        {"engine.access.crossing-fault", test_crossing_fault},
        {"engine.access.canonical", test_canonical},
        {"engine.access.alignment", test_alignment},
        {"engine.access.accessed-and-dirty", test_accessed_and_dirty},
        {"engine.access.rom", test_rom},
        {"engine.access.code", test_code},
        {"engine.access.code-in-tables", test_code_in_tables},
        {"engine.access.unpopulated", test_unpopulated},
        {"engine.access.fetch-from-nothing", test_fetch_from_nothing},
        {"engine.access.ops", test_ops},
    };
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

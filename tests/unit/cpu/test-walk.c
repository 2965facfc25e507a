/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * hv_walk() against a second walker written from the manual's prose alone: one function a paging
 * mode, no sharing. Random tables under every combination of the control bits that matter; result,
 * error code, cached rights and every byte of the tables are compared.
 */
#include "cpu/walk.h"

#include "lib/tap.h"
#include "unit/cpu/flat-memory.h"

/* Tables lie in here, so that comparing all of them stays cheap. */
#define TABLE_BYTES (64 * HV_KIB)

static struct hv_cpu cpu;
static struct flat flat;
static struct flat before;

struct expected {
    bool fault;
    uint32_t error;
    uint64_t gpa, page_size;
    bool user, writable, executable, global, dirty;
    /* Entries that the walk marks. */
    unsigned marks;
    uint64_t mark_address[4];
    unsigned entry_bytes;
};

enum { P = 1, W = 2, U = 4, RSVD = 8, I = 16 };

static bool asks_as_user(enum hv_walk_as as)
{
    switch (as) {
    case HV_WALK_AS_USER:
        return true;
    case HV_WALK_AS_CURRENT:
        return cpu.cpl == 3;
    case HV_WALK_AS_KERNEL:
    case HV_WALK_AS_SUPERVISOR:
        break;
    }
    return false;
}

static void expect_fault(struct expected *e, enum hv_walk_intent intent, enum hv_walk_as as,
                         uint32_t error)
{
    bool nx = (cpu.cr4 & HV_CR4_PAE) && (cpu.efer & HV_EFER_NXE);

    e->fault = true;
    e->marks = 0;
    e->error = error | (intent == HV_WALK_WRITE ? W : 0u) | (asks_as_user(as) ? U : 0u);
    if (intent == HV_WALK_FETCH && (nx || (cpu.cr4 & HV_CR4_SMEP))) {
        e->error |= I;
    }
}

/* The rights of a whole path, given the AND of R/W and U/S and the OR of XD. */
static void expect_rights(struct expected *e, enum hv_walk_intent intent, enum hv_walk_as as,
                          bool writable, bool user_page, bool xd, bool global)
{
    bool user = asks_as_user(as);
    bool bad = false;

    if (intent == HV_WALK_FETCH && xd) {
        bad = true;
    }
    if (user && !user_page) {
        bad = true;
    }
    if (intent == HV_WALK_WRITE && !writable && (user || (cpu.cr0 & HV_CR0_WP))) {
        bad = true;
    }
    if (!user && user_page && intent == HV_WALK_FETCH && (cpu.cr4 & HV_CR4_SMEP)) {
        bad = true;
    }
    if (!user && user_page && intent != HV_WALK_FETCH && (cpu.cr4 & HV_CR4_SMAP) &&
        (as == HV_WALK_AS_SUPERVISOR || !(cpu.rflags & HV_RFLAGS_AC))) {
        bad = true;
    }
    if (bad) {
        expect_fault(e, intent, as, P);
        return;
    }
    e->user = user_page;
    e->writable = writable;
    e->executable = !xd;
    e->global = global && (cpu.cr4 & HV_CR4_PGE);
}

static void expect_32(struct expected *e, uint32_t gva, enum hv_walk_intent intent,
                      enum hv_walk_as as)
{
    uint64_t pde_at = (cpu.cr3 & 0xfffff000) | (gva >> 22) * 4u;
    uint64_t pde, pte_at, pte;

    e->entry_bytes = 4;
    flat_walk_read(&before, (hv_gpa){pde_at}, 4, &pde);
    if (!(pde & 1)) {
        expect_fault(e, intent, as, 0);
        return;
    }
    e->mark_address[e->marks++] = pde_at;
    if ((pde & 0x80) && (cpu.cr4 & HV_CR4_PSE)) {
        if (pde & (1u << 21)) {
            expect_fault(e, intent, as, P | RSVD);
            return;
        }
        e->page_size = 4 * HV_MIB;
        e->gpa = (pde & 0xffc00000) | ((pde >> 13) & 0xff) << 32 | (gva & 0x3fffff);
        e->dirty = (pde & 0x40) || intent == HV_WALK_WRITE;
        expect_rights(e, intent, as, pde & 2, pde & 4, false, pde & 0x100);
        return;
    }
    pte_at = (pde & 0xfffff000) | ((gva >> 12) & 0x3ff) * 4;
    flat_walk_read(&before, (hv_gpa){pte_at}, 4, &pte);
    if (!(pte & 1)) {
        expect_fault(e, intent, as, 0);
        return;
    }
    e->mark_address[e->marks++] = pte_at;
    e->page_size = 4 * HV_KIB;
    e->gpa = (pte & 0xfffff000) | (gva & 0xfff);
    e->dirty = (pte & 0x40) || intent == HV_WALK_WRITE;
    expect_rights(e, intent, as, pde & pte & 2, pde & pte & 4, false, pte & 0x100);
}

/* The two lowest levels of PAE and of 4-level paging; what came above is given. */
static void expect_low(struct expected *e, uint64_t directory, uint64_t gva, uint64_t reserved,
                       uint64_t all, uint64_t any, enum hv_walk_intent intent, enum hv_walk_as as)
{
    for (unsigned shift = 21;; shift -= 9) {
        uint64_t at = directory + ((gva >> shift) & 0x1ff) * 8;
        uint64_t entry, wrong = reserved;
        bool large;

        flat_walk_read(&before, (hv_gpa){at}, 8, &entry);
        if (!(entry & 1)) {
            expect_fault(e, intent, as, 0);
            return;
        }
        large = shift == 21 && (entry & 0x80);
        if (large) {
            wrong |= 0x1fe000;
        }
        if (entry & wrong) {
            expect_fault(e, intent, as, P | RSVD);
            return;
        }
        e->mark_address[e->marks++] = at;
        all &= entry;
        any |= entry;
        directory = entry & UINT64_C(0x00003ffffffff000);
        if (large || shift == 12) {
            uint64_t size = UINT64_C(1) << shift;

            e->page_size = size;
            e->gpa = (directory & ~(size - 1)) | (gva & (size - 1));
            e->dirty = (entry & 0x40) || intent == HV_WALK_WRITE;
            expect_rights(e, intent, as, all & 2, all & 4, any >> 63, entry & 0x100);
            return;
        }
    }
}

static void expect_pae(struct expected *e, uint32_t gva, enum hv_walk_intent intent,
                       enum hv_walk_as as)
{
    uint64_t reserved = UINT64_C(0x7fffc00000000000);
    uint64_t pdpte = cpu.pdpte[gva >> 30];

    e->entry_bytes = 8;
    if (!(cpu.efer & HV_EFER_NXE)) {
        reserved |= UINT64_C(1) << 63;
    }
    if (!(pdpte & 1)) {
        expect_fault(e, intent, as, 0);
        return;
    }
    expect_low(e, pdpte & UINT64_C(0x00003ffffffff000), gva, reserved, UINT64_MAX, 0, intent, as);
}

static void expect_long(struct expected *e, uint64_t gva, enum hv_walk_intent intent,
                        enum hv_walk_as as)
{
    uint64_t reserved = UINT64_C(0x000fc00000000000);
    uint64_t table = cpu.cr3 & UINT64_C(0x00003ffffffff000);
    uint64_t all = UINT64_MAX, any = 0;

    e->entry_bytes = 8;
    if (!(cpu.efer & HV_EFER_NXE)) {
        reserved |= UINT64_C(1) << 63;
    }
    for (unsigned shift = 39; shift >= 30; shift -= 9) {
        uint64_t at = table + ((gva >> shift) & 0x1ff) * 8;
        uint64_t entry, wrong = reserved;

        flat_walk_read(&before, (hv_gpa){at}, 8, &entry);
        if (!(entry & 1)) {
            expect_fault(e, intent, as, 0);
            return;
        }
        if (entry & 0x80) {
            wrong |= shift == 39 ? 0x80 : 0x3fffe000;
        }
        if (entry & wrong) {
            expect_fault(e, intent, as, P | RSVD);
            return;
        }
        e->mark_address[e->marks++] = at;
        all &= entry;
        any |= entry;
        table = entry & UINT64_C(0x00003ffffffff000);
        if (entry & 0x80) {
            e->page_size = HV_GIB;
            e->gpa = (table & ~(HV_GIB - 1)) | (gva & (HV_GIB - 1));
            e->dirty = (entry & 0x40) || intent == HV_WALK_WRITE;
            expect_rights(e, intent, as, all & 2, all & 4, any >> 63, entry & 0x100);
            return;
        }
    }
    expect_low(e, table, gva, reserved, all, any, intent, as);
}

static uint64_t chance(unsigned one_in, uint64_t bits)
{
    return tap_rng() % one_in == 0 ? bits : 0;
}

/* An entry that is good more often than not, pointing into RAM. */
static uint64_t random_entry(unsigned bytes)
{
    uint64_t entry = 0x7 | (tap_rng() % (TABLE_BYTES >> 12)) << 12;

    entry ^= chance(16, 1) ^ chance(6, 2) ^ chance(4, 4);
    entry |= chance(2, 0x20) | chance(2, 0x40) | chance(3, 0x80) | chance(2, 0x100);
    entry |= tap_rng() & 0xe18;
    if (entry & 0x80) {
        entry &= ~chance(2, 0x1000);
        entry &= tap_rng() % 4 ? ~UINT64_C(0x3fffe000) : ~UINT64_C(0);
        entry |=
            chance(3, (tap_rng() & 0xff) << 22) | chance(4, UINT64_C(1) << (13 + tap_rng() % 17));
    }
    if (bytes == 8) {
        entry |= chance(6, UINT64_C(1) << 63) | chance(24, UINT64_C(1) << (46 + tap_rng() % 17));
        entry |= chance(8, UINT64_C(1) << (40 + tap_rng() % 6));
    }
    return bytes == 4 ? (uint32_t)entry : entry;
}

static void random_mode(unsigned format)
{
    cpu.cr0 = HV_CR0_PE | HV_CR0_PG | chance(2, HV_CR0_WP);
    cpu.cr4 = chance(2, HV_CR4_PSE) | chance(2, HV_CR4_PGE) | chance(2, HV_CR4_SMEP) |
              chance(2, HV_CR4_SMAP);
    cpu.efer = chance(2, HV_EFER_NXE);
    if (format > 0) {
        cpu.cr4 |= HV_CR4_PAE;
    }
    if (format > 1) {
        cpu.efer |= HV_EFER_LME | HV_EFER_LMA;
    }
    cpu.cpl = (uint8_t)(tap_rng() & 3);
    cpu.rflags = (uint32_t)chance(2, HV_RFLAGS_AC);
    cpu.cr3 = (tap_rng() % (TABLE_BYTES >> 12)) << 12 | (tap_rng() & 0xfff);
    if (format == 0) {
        cpu.cr3 |= chance(4, UINT64_C(1) << 33); /* not looked at */
    }
    for (unsigned i = 0; i < 4; i++) {
        cpu.pdpte[i] = (tap_rng() % (TABLE_BYTES >> 12)) << 12 | (tap_rng() & 0xe19);
        cpu.pdpte[i] |= chance(2, 1);
    }
}

/* Fill exactly the entries that this walk reads: a full table would be mostly unused. */
static void random_path(unsigned format, uint64_t gva)
{
    unsigned bytes = format ? 8 : 4, bits = format ? 9 : 10;
    unsigned levels = format > 1 ? 4 : 2;
    uint64_t table = cpu.cr3 & (format ? UINT64_C(0x3ffffffff000) : UINT64_C(0xfffff000));

    if (format == 1) {
        table = cpu.pdpte[(uint32_t)gva >> 30] & UINT64_C(0x3ffffffff000);
    }
    for (unsigned level = levels; level-- > 0;) {
        uint64_t index = (gva >> (12 + level * bits)) & ((1u << bits) - 1);
        uint64_t at = table + index * bytes;
        uint64_t entry = random_entry(bytes);

        if (hv_range_outside(at, bytes, TABLE_BYTES)) {
            return;
        }
        flat_poke(&flat, at, bytes, entry);
        table = entry & UINT64_C(0x3ffffffff000);
    }
}

static void apply_marks(const struct expected *e, enum hv_walk_intent intent)
{
    for (unsigned i = 0; i < e->marks; i++) {
        uint64_t at = e->mark_address[i];
        uint64_t set = i == e->marks - 1 && intent == HV_WALK_WRITE ? 0x60 : 0x20;

        if (!hv_range_outside(at, e->entry_bytes, FLAT_BYTES)) {
            flat_poke(&before, at, e->entry_bytes, flat_peek(&before, at, e->entry_bytes) | set);
        }
    }
}

static uint64_t outcomes[64];

static void compare_one(unsigned format)
{
    enum hv_walk_intent intent = (enum hv_walk_intent)(tap_rng() % 3);
    enum hv_walk_as as = (enum hv_walk_as)(tap_rng() % 4);
    uint64_t gva = (uint64_t)((int64_t)(tap_rng() << 16) >> 16);
    struct hv_translation got = {0};
    struct hv_fault fault = {0};
    struct expected want = {0};
    int result;

    random_mode(format);
    random_path(format, gva);
    memcpy(before.ram, flat.ram, TABLE_BYTES);

    switch (format) {
    case 0:
        expect_32(&want, (uint32_t)gva, intent, as);
        break;
    case 1:
        expect_pae(&want, (uint32_t)gva, intent, as);
        break;
    default:
        expect_long(&want, gva, intent, as);
        break;
    }
    apply_marks(&want, intent);
    result = hv_walk(&cpu, &flat_walk_memory, &flat, (hv_gva){gva}, intent, as, &got, &fault);

    TAP_OK(memcmp(before.ram, flat.ram, TABLE_BYTES) == 0);
    TAP_EQ(result, want.fault ? HV_FAULTED : 0);
    if (want.fault) {
        TAP_EQ(fault.vector, HV_VECTOR_PF);
        TAP_OK(fault.has_error);
        TAP_EQ(fault.error, want.error);
        TAP_EQ(fault.cr2, format > 1 ? gva : (uint32_t)gva);
        outcomes[want.error]++;
        return;
    }
    TAP_EQ(got.gpa.v, want.gpa);
    TAP_EQ(got.page_size, want.page_size);
    TAP_EQ(got.user, want.user);
    TAP_EQ(got.writable, want.writable);
    TAP_EQ(got.executable, want.executable);
    TAP_EQ(got.global, want.global);
    TAP_EQ(got.dirty, want.dirty);
    outcomes[32]++;
}

static void compare_many(unsigned format, unsigned rounds)
{
    memset(outcomes, 0, sizeof(outcomes));
    flat_init(&flat, &cpu);
    for (unsigned i = 0; i < rounds && !tap_failed(); i++) {
        compare_one(format);
    }
    /* The generator has to reach good walks and each kind of fault. */
    TAP_OK(outcomes[32] > rounds / 10);
    TAP_OK(outcomes[0] > 0 && outcomes[P] > 0 && outcomes[P | W] > 0 && outcomes[P | W | U] > 0);
    TAP_OK(outcomes[P | RSVD] > 0 && outcomes[P | RSVD | W | U] > 0);
    TAP_OK(outcomes[P | I] > 0 && outcomes[P | U | I] > 0);
}

static void test_32bit(void)
{
    compare_many(0, 20000);
}

static void test_pae(void)
{
    compare_many(1, 20000);
}

static void test_4level(void)
{
    compare_many(2, 40000);
}

static void test_none(void)
{
    struct hv_translation got;
    struct hv_fault fault;

    memset(&cpu, 0, sizeof(cpu));
    flat_init(&flat, &cpu);
    cpu.cr4 = HV_CR4_SMAP;
    TAP_EQ(hv_walk(&cpu, &flat_walk_memory, &flat, (hv_gva){UINT64_C(0x1deadbeef)}, HV_WALK_WRITE,
                   HV_WALK_AS_USER, &got, &fault),
           0);
    TAP_EQ(got.gpa.v, 0xdeadbeef);
    TAP_EQ(got.page_size, HV_PAGE_SIZE);
    TAP_OK(got.user && got.writable && got.executable && got.dirty && !got.global);
}

/* One good 4-level path at 0: 1000, 2000, 3000, 4000, page 5000. */
static void simple_path(void)
{
    memset(&cpu, 0, sizeof(cpu));
    flat_init(&flat, &cpu);
    cpu.cr0 = HV_CR0_PE | HV_CR0_PG;
    cpu.cr4 = HV_CR4_PAE;
    cpu.efer = HV_EFER_LME | HV_EFER_LMA;
    cpu.cr3 = 0x1000;
    for (uint64_t table = 0x1000; table <= 0x4000; table += 0x1000) {
        flat_poke(&flat, table, 8, (table + 0x1000) | 7);
    }
}

static void test_lost_races(void)
{
    struct hv_translation got;
    struct hv_fault fault;

    simple_path();
    flat.lost_races = 63;
    TAP_EQ(hv_walk(&cpu, &flat_walk_memory, &flat, (hv_gva){0x123}, HV_WALK_READ,
                   HV_WALK_AS_CURRENT, &got, &fault),
           0);
    TAP_EQ(got.gpa.v, 0x5123);
    TAP_EQ(flat.lost_races, 0);

    simple_path();
    flat.lost_races = 64;
    TAP_EQ((uint64_t)hv_walk(&cpu, &flat_walk_memory, &flat, (hv_gva){0x123}, HV_WALK_READ,
                             HV_WALK_AS_CURRENT, &got, &fault),
           (uint64_t)-EAGAIN);
    TAP_EQ(flat_peek(&flat, 0x1000, 8), 0x2007);
}

static int failing_read(void *context, hv_gpa gpa, unsigned bytes, uint64_t *value_out)
{
    if (gpa.v == 0x3000) {
        return -ENOMEM;
    }
    return flat_walk_read(context, gpa, bytes, value_out);
}

static void test_memory_error(void)
{
    static const struct hv_walk_memory failing = {failing_read, flat_walk_update};
    struct hv_translation got;
    struct hv_fault fault;

    simple_path();
    TAP_EQ((uint64_t)hv_walk(&cpu, &failing, &flat, (hv_gva){0}, HV_WALK_READ, HV_WALK_AS_CURRENT,
                             &got, &fault),
           (uint64_t)-ENOMEM);
}

static void test_pdptes(void)
{
    uint64_t out[4] = {9, 9, 9, 9};
    struct hv_fault fault = {0};

    flat_init(&flat, &cpu);
    for (unsigned i = 0; i < 4; i++) {
        flat_poke(&flat, 0x2020 + i * 8, 8, (i + 1) << 12 | 1);
    }
    flat_poke(&flat, 0x2020 + 16, 8, ~UINT64_C(1)); /* not present: all else is free */
    TAP_EQ(hv_walk_load_pdptes(&flat_walk_memory, &flat, 0x203f, out, &fault), 0);
    TAP_EQ(out[0], 0x1001);
    TAP_EQ(out[2], ~UINT64_C(1));

    for (unsigned bit = 1; bit < 64; bit++) {
        bool reserved = bit == 1 || bit == 2 || (bit >= 5 && bit <= 8) || bit >= HV_GUEST_PHYS_BITS;

        flat_poke(&flat, 0x2020 + 24, 8, HV_BIT(bit) | 1);
        out[3] = 9;
        TAP_EQ(hv_walk_load_pdptes(&flat_walk_memory, &flat, 0x2020, out, &fault),
               reserved ? HV_FAULTED : 0);
        TAP_EQ(out[3], reserved ? 9 : (HV_BIT(bit) | 1));
        TAP_OK(!reserved || (fault.vector == HV_VECTOR_GP && fault.has_error && !fault.error));
    }
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"cpu.walk.none", test_none},
        {"cpu.walk.32bit-oracle", test_32bit},
        {"cpu.walk.pae-oracle", test_pae},
        {"cpu.walk.4level-oracle", test_4level},
        {"cpu.walk.lost-races", test_lost_races},
        {"cpu.walk.memory-error", test_memory_error},
        {"cpu.walk.pdptes", test_pdptes},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The thunks of a domain: a buffer of code and a table to find them in.
 *
 * Buffer: a memfd mapped twice, once to write and once to execute, so that no page is ever both.
 * Code is added at the end and neither moved nor removed.
 *
 * Table: open addressing, read without a lock. Invariants:
 *   (1) a slot goes from empty to an entry once, and stays: a reader that finds an empty slot may
 *       only miss what is being inserted meanwhile, and asks again under the lock;
 *   (2) a table at most three quarters full has an empty slot on every probe sequence;
 *   (3) a full table is replaced by one twice as large; the old one, still read by others, is kept
 *       until the end (all old ones together are smaller than the present one).
 */
#include "engine/soft/thunk.h"

#include "base/alloc.h"
#include "cpu/policy.h"
#include "engine/soft/thunk-private.h"
#include "sync/lock.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

/* Address space only: pages come with use. Programs have some thousand different vector
 * instructions; this many are 12 MiB with all that belongs to them. */
#define CODE_BYTES        ((size_t)4 << 20)
#define ENTRIES_MAX       65536u
#define CODE_ALIGN        16u
#define TABLE_SLOTS_FIRST 256u

struct thunk_table {
    struct thunk_table *older;
    size_t mask; /* slots - 1 */
    _Atomic(struct soft_thunk_entry *) slot[];
};

struct soft_thunks {
    /* Set at creation. */
    uint8_t *write;         /* the buffer, as it is written */
    const uint8_t *execute; /* and as it is executed */
    uint64_t host_features; /* bit per enum hv_feature: what may be shown on this host */
    /* Atomic: the newest table. Published by grow(), read by find(). */
    _Atomic(struct thunk_table *) table;
    /* Guarded by lock. */
    struct hv_lock lock;
    size_t used; /* bytes of the buffer */
    size_t entries;
    bool full; /* somebody was refused one */
    /* Atomic: the table may go at any time. Set before, and cleared after, all vCPUs acknowledge that
     * the blocks are gone; pairs with soft_thunk_get(). */
    _Atomic bool closed;
};

static uint64_t hash_shape(const struct soft_shape *shape)
{
    const uint8_t *bytes = (const uint8_t *)shape;
    uint64_t hash = UINT64_C(0x9e3779b97f4a7c15);

    HV_STATIC_ASSERT(sizeof(*shape) % 8 == 0, "hashed by words");
    for (size_t i = 0; i < sizeof(*shape); i += 8) {
        hash = (hash ^ hv_load_le(&bytes[i], 8)) * UINT64_C(0xff51afd7ed558ccd);
        hash ^= hash >> 32;
    }
    return hash;
}

static struct thunk_table *table_create(size_t slots, struct thunk_table *older)
{
    struct thunk_table *table =
        (struct thunk_table *)hv_alloc(1, sizeof(*table) + slots * sizeof(table->slot[0]));

    if (table) {
        table->older = older;
        table->mask = slots - 1;
    }
    return table;
}

/* The slot of @shape, or the empty one where it would stand. */
static _Atomic(struct soft_thunk_entry *) *table_slot(struct thunk_table *table,
                                                      const struct soft_shape *shape, uint64_t hash)
{
    for (size_t i = hash & table->mask;; i = (i + 1) & table->mask) {
        /* Pairs with the release in insert(). */
        const struct soft_thunk_entry *entry = hv_load_acquire(&table->slot[i]);

        /* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): a shape is zeroed before it is filled */
        if (!entry || (entry->hash == hash && memcmp(&entry->shape, shape, sizeof(*shape)) == 0)) {
            return &table->slot[i];
        }
    }
}

static struct soft_thunk_entry *find(struct soft_thunks *thunks, const struct soft_shape *shape,
                                     uint64_t hash)
{
    /* Pairs with the release in grow_locked(). */
    return hv_load_acquire(table_slot(hv_load_acquire(&thunks->table), shape, hash));
}

/* Keep room for one more entry. */
static int grow_locked(struct soft_thunks *thunks) HV_REQUIRES(&thunks->lock)
{
    struct thunk_table *old = hv_load_relaxed(&thunks->table);
    size_t slots = old->mask + 1;
    struct thunk_table *table;

    if (thunks->entries == ENTRIES_MAX) {
        return -ENOSPC;
    }
    if (thunks->entries + 1 <= slots / 4 * 3) {
        return 0;
    }
    table = table_create(slots * 2, old);
    if (!table) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < slots; i++) {
        struct soft_thunk_entry *entry = hv_load_relaxed(&old->slot[i]);

        if (entry) {
            hv_store_relaxed(table_slot(table, &entry->shape, entry->hash), entry);
        }
    }
    hv_store_release(&thunks->table, table); /* pairs with find() */
    return 0;
}

static void describe(struct soft_thunk *thunk, const struct soft_shape *shape)
{
    bool exchange = shape->map == 0 && (shape->opcode == 0x86 || shape->opcode == 0x87);
    unsigned ext = shape->modrm >> 3 & 7;

    thunk->memory_bytes = shape->memory_bytes;
    thunk->memory_access = shape->memory_access;
    thunk->aligned = shape->aligned;
    thunk->fp = shape->fp;
    thunk->locked = shape->memory && (shape->lock || exchange);
    thunk->special = shape->flags & (SOFT_FORM_MASKED | SOFT_FORM_GATHER | SOFT_FORM_MASKED_BYTES |
                                     SOFT_FORM_ZERO);
    thunk->view = shape->memory_access & SOFT_ACCESS_WRITE ? SOFT_TLB_WRITE : SOFT_TLB_READ;
    if (thunk->aligned || thunk->locked) {
        thunk->slow_mask = (uint8_t)(thunk->memory_bytes - 1u);
    }
    if (!(shape->fp & SOFT_THUNK_FP_X87)) {
        return;
    }
    thunk->x87_opcode = (uint16_t)((shape->opcode & 7u) << 8 | shape->modrm);
    /* FLDCW, FNSTCW, FNSTSW, FNCLEX (SDM 1 8.3.11): all but the first do not wait either. */
    if ((shape->opcode == 0xd9 && shape->memory && ext == 5)) {
        thunk->x87 = SOFT_THUNK_X87_CONTROL;
    } else if ((shape->opcode == 0xd9 && shape->memory && ext == 7) ||
               (shape->opcode == 0xdd && shape->memory && ext == 7) ||
               (shape->opcode == 0xdf && shape->modrm == 0xe0) ||
               (shape->opcode == 0xdb && shape->modrm == 0xe2)) {
        thunk->x87 = SOFT_THUNK_X87_CONTROL | SOFT_THUNK_X87_NOWAIT;
    }
}

/* Forms that thunk-special.c does without host code. */
static bool needs_code(const struct soft_shape *shape)
{
    return !(shape->flags & (SOFT_FORM_GATHER | SOFT_FORM_MASKED_BYTES));
}

static int insert_locked(struct soft_thunks *thunks, const struct soft_shape *shape, uint64_t hash,
                         struct soft_thunk_entry **entry_out) HV_REQUIRES(&thunks->lock)
{
    struct soft_thunk_entry *entry = NULL;
    size_t length = 0;
    int rc;

    rc = grow_locked(thunks);
    if (rc < 0) {
        return rc;
    }
    if (needs_code(shape)) {
        length = soft_thunk_compile(shape, thunks->write + thunks->used, CODE_BYTES - thunks->used);
        if (length == 0) {
            return -ENOSPC;
        }
    }
    entry = (struct soft_thunk_entry *)hv_alloc(1, sizeof(*entry));
    if (!entry) {
        return -ENOMEM;
    }
    memcpy(&entry->shape, shape, sizeof(*shape));
    entry->hash = hash;
    describe(&entry->thunk, shape);
    if (length > 0) {
        const uint8_t *code = thunks->execute + thunks->used;

        /* A data pointer becomes a code pointer: by value, ISO C has no cast for it. */
        memcpy(&entry->thunk.code, &code, sizeof(code));
    }
    thunks->used += hv_align_up(length, CODE_ALIGN);
    thunks->entries++;
    /* Pairs with table_slot(): who sees the entry sees its code. */
    hv_store_release(table_slot(hv_load_relaxed(&thunks->table), shape, hash), entry);
    *entry_out = entry;
    return 0;
}

int soft_thunk_get(struct soft_thunks *thunks, const struct soft_insn *insn, const uint8_t *bytes,
                   const struct soft_thunk **thunk_out)
{
    struct soft_thunk_entry *entry;
    struct soft_shape shape;
    uint64_t hash;
    int rc;

    *thunk_out = NULL;
    if (!(thunks->host_features & HV_BIT(soft_isa_row(insn->row)->feature))) {
        return -ENOTSUP;
    }
    rc = soft_shape_init(&shape, insn, bytes);
    if (rc < 0) {
        return rc;
    }
    /* VEX forms of AES, GFNI and the like need AVX beside their own feature. */
    if ((shape.fp & SOFT_THUNK_FP_AVX) && !(thunks->host_features & HV_BIT(HV_FEATURE_AVX))) {
        return -ENOTSUP;
    }
    if (hv_load_seq(&thunks->closed)) {
        return -ENOSPC;
    }
    hash = hash_shape(&shape);
    entry = find(thunks, &shape, hash);
    if (!entry) {
        hv_lock_take(&thunks->lock);
        entry = find(thunks, &shape, hash);
        if (!entry) {
            rc = insert_locked(thunks, &shape, hash, &entry);
            thunks->full |= rc == -ENOSPC;
        }
        hv_lock_drop(&thunks->lock);
    }
    if (rc == 0) {
        *thunk_out = &entry->thunk;
    }
    return rc;
}

/* A memfd, written through one mapping and executed through the other. */
static int map_code(struct soft_thunks *thunks)
{
    void *write, *execute;
    int fd, rc = 0;

    fd = memfd_create("lodge-thunks", MFD_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    if (ftruncate(fd, (off_t)CODE_BYTES) < 0) {
        rc = -errno;
        goto out;
    }
    write = mmap(NULL, CODE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (write == MAP_FAILED) {
        rc = -errno;
        goto out;
    }
    execute = mmap(NULL, CODE_BYTES, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
    if (execute == MAP_FAILED) {
        rc = -errno;
        munmap(write, CODE_BYTES);
        goto out;
    }
    thunks->write = (uint8_t *)write;
    thunks->execute = (const uint8_t *)execute;
out:
    close(fd);
    return rc;
}

static void unmap_code(struct soft_thunks *thunks)
{
    if (thunks->write) {
        munmap(thunks->write, CODE_BYTES);
        munmap((void *)(uintptr_t)thunks->execute, CODE_BYTES);
    }
}

/* Entries and old tables go; the present table stays, empty. */
static void free_entries(struct soft_thunks *thunks)
{
    struct thunk_table *table = hv_load_relaxed(&thunks->table), *older;

    for (size_t i = 0; i <= table->mask; i++) {
        hv_free(hv_load_relaxed(&table->slot[i]));
        hv_store_relaxed(&table->slot[i], NULL);
    }
    while (table->older) {
        older = table->older;
        table->older = older->older;
        hv_free(older);
    }
    thunks->entries = 0;
    thunks->used = 0;
}

bool soft_thunks_close(struct soft_thunks *thunks)
{
    bool close;

    hv_lock_take(&thunks->lock);
    close = thunks->full && !hv_load_relaxed(&thunks->closed);
    if (close) {
        hv_store_seq(&thunks->closed, true);
    }
    hv_lock_drop(&thunks->lock);
    return close;
}

void soft_thunks_open(struct soft_thunks *thunks)
{
    hv_store_seq(&thunks->closed, false);
}

int soft_thunks_reset(struct soft_thunks *thunks)
{
    struct soft_thunks old = {.write = thunks->write, .execute = thunks->execute};
    int rc;

    /* New pages at new addresses: no core can have fetched any of them before. */
    rc = map_code(thunks);
    if (rc == 0) {
        unmap_code(&old);
        free_entries(thunks);
        /* Nobody asks for a thunk, but another vCPU may look whether to close. */
        hv_lock_take(&thunks->lock);
        thunks->full = false;
        hv_lock_drop(&thunks->lock);
    }
    return rc;
}

int soft_thunks_create(struct soft_thunks **thunks_out)
{
    struct hv_cpu_policy host;
    struct soft_thunks *thunks;
    int rc = -ENOMEM;

    *thunks_out = NULL;
    thunks = (struct soft_thunks *)hv_alloc(1, sizeof(*thunks));
    if (!thunks) {
        return -ENOMEM;
    }
    hv_lock_init(&thunks->lock, HV_RANK_CODE, "soft.thunks", 0);
    /* A guest made for another host may be told of more: it then finds #UD, not we a SIGILL. */
    hv_cpu_policy_init(&host, 1, 0, false);
    thunks->host_features = host.features;
    hv_store_relaxed(&thunks->table, table_create(TABLE_SLOTS_FIRST, NULL));
    if (hv_load_relaxed(&thunks->table)) {
        rc = map_code(thunks);
    }
    if (rc < 0) {
        soft_thunks_destroy(thunks);
        return rc;
    }
    *thunks_out = thunks;
    return 0;
}

void soft_thunks_destroy(struct soft_thunks *thunks)
{
    if (!thunks) {
        return;
    }
    if (hv_load_relaxed(&thunks->table)) {
        free_entries(thunks);
        hv_free(hv_load_relaxed(&thunks->table));
    }
    unmap_code(thunks);
    hv_lock_finish(&thunks->lock);
    hv_free(thunks);
}

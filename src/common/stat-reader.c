/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The reader's side of hv/stat-pages.h, where the protocol stands. */
#include "common/stat-reader.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "common/i18n.h"
#include "common/lodge-error.h"
#include "common/sealed-file.h"

/* A block is odd for microseconds, unless its writer has lost its CPU: that comes back in between. */
#define TRIES      100

/* Ids that a core has: no more machines can be shown. */
#define BLOCKS_MAX 65536u

struct LodgeStatReader {
    gsize bytes;
    const struct hv_stat_pages_header *header; /* mapped */
    guint blocks, records;                     /* as the header said, and checked */
    _Atomic guint64 *seen; /* of each block, the handle; 0: none, or not known */
};

static gboolean refuse(GError **error, const char *why)
{
    g_set_error(error, LODGE_ERROR, LODGE_ERROR_INPUT, _("This is no file of statistics: %s"), why);
    return FALSE;
}

/* One that can be cut short, or that others write, is none of a core's. */
static gboolean check_file(int fd, gsize *bytes_out, GError **error)
{
    goffset bytes = lodge_sealed_file_length(fd, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE);

    if (bytes < 0) {
        return refuse(error, _("it is not sealed as a core seals it"));
    }
    if (bytes < (goffset)HV_STAT_PAGES_HEADER_BYTES) {
        return refuse(error, _("it is too short"));
    }
    *bytes_out = (gsize)bytes;
    return TRUE;
}

static gboolean check_header(LodgeStatReader *reader, GError **error)
{
    struct hv_stat_pages_header header;

    /* Without what the core writes while it is read. */
    memcpy(&header, reader->header, offsetof(struct hv_stat_pages_header, rounds));
    if (header.magic != HV_STAT_PAGES_MAGIC) {
        return refuse(error, _("it begins otherwise"));
    }
    if (header.version != HV_STAT_PAGES_VERSION) {
        g_set_error(error, LODGE_ERROR, LODGE_ERROR_INPUT,
                    _("The statistics are of version %u; this program reads version %u. Use one of "
                      "the core's own version"),
                    header.version, HV_STAT_PAGES_VERSION);
        return FALSE;
    }
    if (header.header_bytes != HV_STAT_PAGES_HEADER_BYTES ||
        header.block_bytes != HV_STAT_PAGES_BLOCK_BYTES ||
        header.record_bytes != sizeof(struct hv_stat_pages_record) ||
        header.records != HV_STAT_PAGES_RECORDS || header.blocks > BLOCKS_MAX ||
        reader->bytes !=
            HV_STAT_PAGES_HEADER_BYTES + (guint64)header.blocks * HV_STAT_PAGES_BLOCK_BYTES) {
        return refuse(error, _("its sizes contradict each other"));
    }
    reader->blocks = header.blocks;
    reader->seen = g_new0(_Atomic guint64, reader->blocks);
    reader->records = header.records;
    return TRUE;
}

LodgeStatReader *lodge_stat_reader_open(int fd, GError **error)
{
    g_autoptr(LodgeStatReader) reader = g_new0(LodgeStatReader, 1);
    void *mapped;

    if (!check_file(fd, &reader->bytes, error)) {
        return NULL;
    }
    mapped = mmap(NULL, reader->bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED) {
        g_set_error(error, LODGE_ERROR, LODGE_ERROR_FAILED, _("Cannot map the statistics: %s"),
                    g_strerror(errno));
        return NULL;
    }
    reader->header = mapped;
    return check_header(reader, error) ? g_steal_pointer(&reader) : NULL;
}

void lodge_stat_reader_close(LodgeStatReader *reader)
{
    if (!reader) {
        return;
    }
    if (reader->header) {
        munmap((void *)(guintptr)reader->header, reader->bytes);
    }
    g_free(reader->seen);
    g_free(reader);
}

guint lodge_stat_reader_blocks(const LodgeStatReader *reader)
{
    return reader->blocks;
}

guint lodge_stat_reader_records(const LodgeStatReader *reader)
{
    return reader->records;
}

void lodge_stat_reader_round(const LodgeStatReader *reader, guint64 *rounds_out,
                             guint64 *moment_ns_out, guint64 *left_out_out)
{
    /* Pairs with the release of the end of a round. */
    *rounds_out = atomic_load_explicit(&reader->header->rounds, memory_order_acquire);
    *moment_ns_out = atomic_load_explicit(&reader->header->moment_ns, memory_order_relaxed);
    *left_out_out = atomic_load_explicit(&reader->header->left_out, memory_order_relaxed);
}

static guint64 load(const _Atomic uint64_t *word)
{
    /* Acquire each: pairs with the release of each word, so that a new one is seen only together
     * with the number that says so. */
    return atomic_load_explicit(word, memory_order_acquire);
}

static void copy_title(const struct hv_stat_pages_block *block, LodgeStatTitle *title)
{
    guint64 words[HV_STAT_PAGES_NAME_WORDS];

    for (guint i = 0; i < HV_STAT_PAGES_NAME_WORDS; i++) {
        words[i] = load(&block->name[i]);
    }
    memcpy(title->name, words, sizeof(title->name));
    title->name[sizeof(title->name) - 1] = '\0';
    title->kind = (enum hv_stat_pages_kind)load(&block->kind);
    title->handle.v = load(&block->handle);
    title->moment_ns = load(&block->moment_ns);
    title->wanted = load(&block->wanted);
}

static void copy_record(const _Atomic uint64_t *from, struct hv_stat *stat)
{
    guint64 words[HV_STAT_PAGES_RECORD_WORDS] = {0};
    struct hv_stat_pages_record record;

    for (guint i = 0; i < HV_STAT_PAGES_RECORD_WORDS; i++) {
        words[i] = load(&from[i]);
    }
    memcpy(&record, words, sizeof(record));
    stat->is_text = record.is_text != 0;
    stat->value = record.value;
    memcpy(stat->name, record.name, sizeof(stat->name));
    stat->name[sizeof(stat->name) - 1] = '\0';
    memcpy(stat->text, record.text, sizeof(stat->text));
    stat->text[sizeof(stat->text) - 1] = '\0';
}

/* One try: FALSE when what was copied may be torn. */
static gboolean copy_block(const LodgeStatReader *reader, const struct hv_stat_pages_block *block,
                           LodgeStatTitle *title, struct hv_stat *stats, guint *count_out)
{
    const _Atomic uint64_t *record = (const _Atomic uint64_t *)(const void *)(block + 1);
    guint begun = atomic_load_explicit(&block->sequence, memory_order_acquire);
    guint64 count;

    if (begun & 1) {
        return FALSE;
    }
    copy_title(block, title);
    count = load(&block->count);
    for (guint i = 0; i < MIN(count, reader->records); i++) {
        copy_record(record + (gsize)i * HV_STAT_PAGES_RECORD_WORDS, &stats[i]);
    }
    *count_out = (guint)MIN(count, reader->records);
    return atomic_load_explicit(&block->sequence, memory_order_relaxed) == begun;
}

static gboolean is_known(enum hv_stat_pages_kind kind)
{
    return kind == HV_STAT_PAGES_CORE || kind == HV_STAT_PAGES_LOCKS ||
           kind == HV_STAT_PAGES_DOMAIN;
}

static const struct hv_stat_pages_block *block_at(const LodgeStatReader *reader, guint block)
{
    return (const void *)((const char *)reader->header + HV_STAT_PAGES_HEADER_BYTES +
                          (gsize)block * HV_STAT_PAGES_BLOCK_BYTES);
}

/* The file has what was looked at: we need not count it as our memory until the next time. */
static void rest(const void *from, gsize bytes)
{
    (void)madvise((void *)(guintptr)from, bytes, MADV_DONTNEED);
}

static LodgeStatResult read_block(const LodgeStatReader *reader,
                                  const struct hv_stat_pages_block *from, LodgeStatTitle *title,
                                  struct hv_stat *stats, guint *count_out)
{
    for (guint i = 0; i < TRIES; i++) {
        if (copy_block(reader, from, title, stats, count_out)) {
            return is_known(title->kind) ? LODGE_STAT_READ : LODGE_STAT_EMPTY;
        }
        sched_yield();
    }
    return LODGE_STAT_BUSY;
}

LodgeStatResult lodge_stat_reader_read(const LodgeStatReader *reader, guint block,
                                       LodgeStatTitle *title, struct hv_stat *stats,
                                       guint *count_out)
{
    const struct hv_stat_pages_block *from;
    LodgeStatResult result;

    *count_out = 0;
    g_return_val_if_fail(block < reader->blocks, LODGE_STAT_EMPTY);
    from = block_at(reader, block);
    result = read_block(reader, from, title, stats, count_out);
    rest(from, HV_STAT_PAGES_BLOCK_BYTES);
    if (result != LODGE_STAT_READ) {
        *count_out = 0;
    }
    return result;
}

/* Whether it was of that when it was looked at: who copies it looks again. */
static gboolean is_of(const LodgeStatReader *reader, guint block, enum hv_stat_pages_kind kind,
                      hv_handle handle)
{
    const struct hv_stat_pages_block *from = block_at(reader, block);

    return block < reader->blocks && load(&from->kind) == (guint64)kind &&
           (kind != HV_STAT_PAGES_DOMAIN || load(&from->handle) == handle.v);
}

/* Whose each block is, as far as was seen: one look at all is for all who are looked for. */
static void look_at_titles(const LodgeStatReader *reader)
{
    for (guint block = 0; block < reader->blocks; block++) {
        const struct hv_stat_pages_block *from = block_at(reader, block);
        guint64 handle = load(&from->kind) == HV_STAT_PAGES_DOMAIN ? load(&from->handle) : 0;

        atomic_store_explicit(&reader->seen[block], handle, memory_order_relaxed);
    }
    rest(reader->header, reader->bytes);
}

static gboolean find_seen(const LodgeStatReader *reader, hv_handle handle, LodgeStatPlace *place)
{
    guint block = 0;

    while (block < reader->blocks &&
           (atomic_load_explicit(&reader->seen[block], memory_order_relaxed) != handle.v ||
            !is_of(reader, block, HV_STAT_PAGES_DOMAIN, handle))) {
        block++;
    }
    *place = block < reader->blocks ? block : 0;
    return block < reader->blocks;
}

static gboolean find_place(const LodgeStatReader *reader, enum hv_stat_pages_kind kind,
                           hv_handle handle, LodgeStatPlace *place)
{
    guint block = 0;

    if (kind == HV_STAT_PAGES_DOMAIN) {
        if (find_seen(reader, handle, place)) {
            return TRUE;
        }
        look_at_titles(reader);
        return find_seen(reader, handle, place);
    }
    while (block < reader->blocks && !is_of(reader, block, kind, handle)) {
        block++;
    }
    *place = block < reader->blocks ? block : 0;
    return block < reader->blocks;
}

LodgeStatResult lodge_stat_reader_find(const LodgeStatReader *reader, enum hv_stat_pages_kind kind,
                                       hv_handle handle, LodgeStatPlace *place,
                                       LodgeStatTitle *title, struct hv_stat *stats,
                                       guint *count_out)
{
    LodgeStatResult result;

    *count_out = 0;
    if (!is_of(reader, *place, kind, handle) && !find_place(reader, kind, handle, place)) {
        return LODGE_STAT_EMPTY;
    }
    result = lodge_stat_reader_read(reader, *place, title, stats, count_out);
    /* It may have been given to another since. */
    if (result == LODGE_STAT_READ &&
        (title->kind != kind || (kind == HV_STAT_PAGES_DOMAIN && title->handle.v != handle.v))) {
        *count_out = 0;
        result = LODGE_STAT_EMPTY;
    }
    return result;
}

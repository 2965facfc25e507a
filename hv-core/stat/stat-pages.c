/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The file in memory that statistics are exported by: see stat-pages.h and hv/stat-pages.h. */
#include "stat/stat-pages.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "sync/race.h"
#include "sync/seqcount.h"

HV_STATIC_ASSERT(sizeof(struct hv_seqcount) == sizeof(uint32_t), "a block begins with one");
HV_STATIC_ASSERT(sizeof(struct hv_stat_pages_record) == 144 &&
                     sizeof(struct hv_stat_pages_block) == 112 &&
                     offsetof(struct hv_stat_pages_block, kind) == 8,
                 "version 1");
HV_STATIC_ASSERT(sizeof(struct hv_stat_pages_header) <= HV_STAT_PAGES_HEADER_BYTES, "a page");

/* Whoever has the file can neither write it, nor change its size under a mapping, nor have it
 * sealed against its writer. */
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)

struct hv_stat_pages {
    int fd;
    unsigned blocks;
    size_t bytes;
    struct hv_stat_pages_header *header; /* mapped */
};

static struct hv_stat_pages_block *block_at(const struct hv_stat_pages *pages, unsigned block)
{
    HV_BUG_ON(block >= pages->blocks);
    return (struct hv_stat_pages_block *)(void *)((char *)pages->header +
                                                  HV_STAT_PAGES_HEADER_BYTES +
                                                  (size_t)block * HV_STAT_PAGES_BLOCK_BYTES);
}

static struct hv_seqcount *sequence_of(struct hv_stat_pages_block *block)
{
    return (struct hv_seqcount *)(void *)block;
}

static void fill_header(struct hv_stat_pages *pages, uint64_t period_ns)
{
    *pages->header = (struct hv_stat_pages_header){
        .magic = HV_STAT_PAGES_MAGIC,
        .version = HV_STAT_PAGES_VERSION,
        .header_bytes = HV_STAT_PAGES_HEADER_BYTES,
        .blocks = pages->blocks,
        .block_bytes = HV_STAT_PAGES_BLOCK_BYTES,
        .record_bytes = sizeof(struct hv_stat_pages_record),
        .records = HV_STAT_PAGES_RECORDS,
        .period_ns = period_ns,
    };
}

/* The mapping comes before the seals, which end all writing but through it. */
static int open_file(struct hv_stat_pages *pages)
{
    void *mapped;

    pages->fd = memfd_create("lodge-statistics", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (pages->fd < 0) {
        return errno == EMFILE || errno == ENFILE ? -EAGAIN : -ENOMEM;
    }
    if (ftruncate(pages->fd, (off_t)pages->bytes) < 0) {
        return -ENOMEM;
    }
    mapped = mmap(NULL, pages->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, pages->fd, 0);
    if (mapped == MAP_FAILED) {
        return -ENOMEM;
    }
    pages->header = mapped;
    return fcntl(pages->fd, F_ADD_SEALS, SEALS) < 0 ? -ENOTSUP : 0;
}

int hv_stat_pages_create(unsigned blocks, uint64_t period_ns, struct hv_stat_pages **pages_out)
{
    struct hv_stat_pages *pages = hv_alloc(1, sizeof(*pages));
    int err;

    *pages_out = NULL;
    if (!pages) {
        return -ENOMEM;
    }
    pages->blocks = blocks;
    pages->bytes = HV_STAT_PAGES_HEADER_BYTES + (size_t)blocks * HV_STAT_PAGES_BLOCK_BYTES;
    err = open_file(pages);
    if (err) {
        hv_stat_pages_destroy(pages);
        return err;
    }
    fill_header(pages, period_ns);
    *pages_out = pages;
    return 0;
}

void hv_stat_pages_destroy(struct hv_stat_pages *pages)
{
    if (!pages) {
        return;
    }
    if (pages->header) {
        munmap(pages->header, pages->bytes);
    }
    if (pages->fd >= 0) {
        close(pages->fd);
    }
    hv_free(pages);
}

int hv_stat_pages_fd(const struct hv_stat_pages *pages)
{
    return pages->fd;
}

static void store_words(_Atomic uint64_t *to, const uint64_t *from, size_t words)
{
    for (size_t i = 0; i < words; i++) {
        hv_seqcount_store(&to[i], from[i]);
    }
}

void hv_stat_record_fill(struct hv_stat_pages_record *record_out, const struct hv_stat *stat)
{
    *record_out = (struct hv_stat_pages_record){.is_text = stat->is_text, .value = stat->value};
    memcpy(record_out->name, stat->name, strnlen(stat->name, sizeof(record_out->name) - 1));
    memcpy(record_out->text, stat->text, strnlen(stat->text, sizeof(record_out->text) - 1));
}

static void store_record(_Atomic uint64_t *to, const struct hv_stat *stat)
{
    struct hv_stat_pages_record record;
    uint64_t words[HV_STAT_PAGES_RECORD_WORDS];

    hv_stat_record_fill(&record, stat);
    memcpy(words, &record, sizeof(words));
    store_words(to, words, HV_STAT_PAGES_RECORD_WORDS);
}

static void store_title(struct hv_stat_pages_block *block, const struct hv_stat_pages_title *title)
{
    uint64_t words[HV_STAT_PAGES_NAME_WORDS] = {0};

    if (title->name) {
        memcpy(words, title->name, strnlen(title->name, sizeof(words) - 1));
    }
    hv_seqcount_store(&block->kind, title->kind);
    hv_seqcount_store(&block->handle, title->handle.v);
    store_words(block->name, words, HV_STAT_PAGES_NAME_WORDS);
    hv_seqcount_store(&block->moment_ns, title->moment.v);
}

void hv_stat_pages_write(struct hv_stat_pages *pages, unsigned block,
                         const struct hv_stat_pages_title *title, const struct hv_stat *stats,
                         size_t count, size_t wanted)
{
    struct hv_stat_pages_block *to = block_at(pages, block);
    _Atomic uint64_t *record = (_Atomic uint64_t *)(void *)(to + 1);
    size_t fits = count < HV_STAT_PAGES_RECORDS ? count : HV_STAT_PAGES_RECORDS;

    hv_seqcount_write_begin(sequence_of(to));
    store_title(to, title);
    HV_RACE("stat-pages.write.half");
    hv_seqcount_store(&to->count, fits);
    hv_seqcount_store(&to->wanted, wanted);
    for (size_t i = 0; i < fits; i++) {
        store_record(record + i * HV_STAT_PAGES_RECORD_WORDS, &stats[i]);
    }
    hv_seqcount_write_end(sequence_of(to));
}

void hv_stat_pages_clear(struct hv_stat_pages *pages, unsigned block)
{
    const struct hv_stat_pages_title nothing = {.kind = HV_STAT_PAGES_FREE};

    hv_stat_pages_write(pages, block, &nothing, NULL, 0, 0);
}

void hv_stat_pages_end_round(struct hv_stat_pages *pages, hv_ns moment, uint64_t left_out)
{
    struct hv_stat_pages_header *header = pages->header;

    hv_store_relaxed(&header->left_out, left_out);
    hv_store_relaxed(&header->moment_ns, moment.v);
    /* Last: who sees the number finds what was written for it, or later. */
    hv_store_release(&header->rounds, hv_load_relaxed(&header->rounds) + 1);
}

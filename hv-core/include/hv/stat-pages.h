/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Statistics by shared memory: a file in memory that the core writes at its own pace, and any number
 * of others map to read. They take nothing of the core's and give it nothing, so that no reader,
 * hostile, stopped or dead, can stall it or change what it wrote: the file is sealed against every
 * write but by the mapping that the core had before.
 *
 *     0                    struct hv_stat_pages_header
 *     header_bytes         block 0:  struct hv_stat_pages_block
 *                                    struct hv_stat_pages_record × its count
 *     + block_bytes        block 1, and so on
 *
 * Whole numbers are the host's own, little endian. Blocks are the core, all locks, and one for each
 * machine, which keeps it while it lives. Names and values are those of docs/stats.md.
 *
 * A block is written under its sequence number, which is odd meanwhile:
 *
 *     s = sequence, acquire; odd: again          words, acquire          sequence still s: whole
 *
 * Its words are read one by one, acquire each, so that who has seen one new word also sees that the
 * number has changed. How often one tries again is limited: a core that has died while it wrote
 * leaves the number odd for ever. Nothing in the file is to be believed but within what it is: counts
 * are compared with `records`, texts end at their room's end.
 *
 * src/common/stat-reader.h is a reader.
 */
#pragma once

#include <hv/types.h>

struct hv_core;

/* "LodgeSta", in that order in memory. */
#define HV_STAT_PAGES_MAGIC        UINT64_C(0x6174536567646f4c)
/* Another layout is another number. */
#define HV_STAT_PAGES_VERSION      1u

#define HV_STAT_PAGES_HEADER_BYTES 4096u
#define HV_STAT_PAGES_BLOCK_BYTES  262144u

struct hv_stat_pages_header {
    /* Set before anybody can map it. */
    uint64_t magic;
    uint32_t version;
    uint32_t header_bytes;
    uint32_t blocks;
    uint32_t block_bytes;
    uint32_t record_bytes;
    uint32_t records;   /* room in a block */
    uint64_t period_ns; /* how often the core means to write; it may be late */
    /* Atomic, each by itself. */
    _Atomic uint64_t rounds;    /* that were written */
    _Atomic uint64_t moment_ns; /* of the last, by CLOCK_MONOTONIC */
    _Atomic uint64_t left_out;  /* machines there was no block for in it */
};

enum hv_stat_pages_kind {
    HV_STAT_PAGES_FREE,
    HV_STAT_PAGES_CORE,  /* hv_core_get_stats() */
    HV_STAT_PAGES_LOCKS, /* hv_core_get_lock_stats(); in each tenth round */
    HV_STAT_PAGES_DOMAIN,
};

#define HV_STAT_PAGES_NAME_WORDS 8u

/* All but the sequence number is whole only together. */
struct hv_stat_pages_block {
    _Atomic uint32_t sequence; /* odd: being written */
    uint32_t reserved;
    _Atomic uint64_t kind;                           /* enum hv_stat_pages_kind */
    _Atomic uint64_t handle;                         /* hv_handle of a machine; else 0 */
    _Atomic uint64_t name[HV_STAT_PAGES_NAME_WORDS]; /* of a machine: bytes, zero to the end */
    _Atomic uint64_t moment_ns;                      /* when it was written, by CLOCK_MONOTONIC */
    _Atomic uint64_t count;                          /* records that follow */
    _Atomic uint64_t wanted; /* that there would be: more than @count when they did not fit */
};

/* The words of a record hold what is told here, in this order. */
struct hv_stat_pages_record {
    char name[80]; /* zero to the end, as is @text */
    uint64_t is_text;
    uint64_t value;
    char text[48];
};

#define HV_STAT_PAGES_RECORD_WORDS (sizeof(struct hv_stat_pages_record) / sizeof(uint64_t))
#define HV_STAT_PAGES_RECORDS                                                      \
    ((uint32_t)((HV_STAT_PAGES_BLOCK_BYTES - sizeof(struct hv_stat_pages_block)) / \
                sizeof(struct hv_stat_pages_record)))

/**
 * The file of a core that was created with a `stat_period_ns`: borrowed, to be mapped (PROT_READ,
 * MAP_SHARED), or sent to another process, which needs no other right. -1 when there is none.
 */
int hv_core_stat_fd(const struct hv_core *core);

/**
 * Have the pages of now, whatever the period: one round for all machines. Who asks while one is being
 * written waits for the next, and so do all others who ask meanwhile.
 *
 * Returns 0 when all blocks but that of all locks are newer than the call; -ENOTSUP when there is no
 * file; -ETIMEDOUT when the host has not let the core write for HV_STAT_PAGES_PATIENCE_NS. Of a core
 * that is another process: -ENOTCONN. Context: a control thread, no lock held.
 */
#define HV_STAT_PAGES_PATIENCE_NS (2 * HV_NS_PER_S)
HV_MUST_CHECK int hv_core_write_stats(struct hv_core *core);

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Reading a core's statistics from its shared pages (hv/stat-pages.h): whole blocks, or none.
 *
 * The file is looked at once, when it is opened, and believed only as far as its size goes. Nothing
 * here waits: a block that is being written again and again, or that a dead core has left half
 * written, is said to be busy.
 */
#pragma once

#include <glib.h>
#include <hv/domain.h>
#include <hv/stat-pages.h>

typedef struct LodgeStatReader LodgeStatReader;

/* Of a block, and of its writing. */
typedef struct {
    enum hv_stat_pages_kind kind;
    hv_handle handle;
    char name[64]; /* of a machine */
    guint64 moment_ns;
    guint64 wanted; /* records there would be, were there room for them */
} LodgeStatTitle;

typedef enum {
    LODGE_STAT_READ,
    LODGE_STAT_EMPTY, /* nothing stands there */
    LODGE_STAT_BUSY,  /* no whole copy could be had: next time */
} LodgeStatResult;

/**
 * Map the file.
 *
 * @fd  stays the caller's, and may be closed.
 *
 * Returns the reader, to be closed; NULL with LODGE_ERROR_INPUT when it is no such file, of another
 * version, or may shrink under the reader, and LODGE_ERROR_FAILED when the host cannot map it.
 */
LodgeStatReader *lodge_stat_reader_open(int fd, GError **error);
/** NULL is accepted. */
void lodge_stat_reader_close(LodgeStatReader *reader);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(LodgeStatReader, lodge_stat_reader_close)

guint lodge_stat_reader_blocks(const LodgeStatReader *reader);
/** Room that a block's statistics may need. */
guint lodge_stat_reader_records(const LodgeStatReader *reader);
/** Rounds written, the moment of the last (CLOCK_MONOTONIC), and machines that it left out. */
void lodge_stat_reader_round(const LodgeStatReader *reader, guint64 *rounds_out,
                             guint64 *moment_ns_out, guint64 *left_out_out);

/**
 * Copy a block.
 *
 * @block      below lodge_stat_reader_blocks().
 * @stats      room for lodge_stat_reader_records().
 * @count_out  how many there are; 0 unless LODGE_STAT_READ.
 */
LodgeStatResult lodge_stat_reader_read(const LodgeStatReader *reader, guint block,
                                       LodgeStatTitle *title, struct hv_stat *stats,
                                       guint *count_out);

/** Where a copy was found; to begin with, anything. It makes finding it again cheap. */
typedef guint LodgeStatPlace;

/**
 * The same of the block of @kind, and, if that is DOMAIN, of the machine @handle: LODGE_STAT_EMPTY when
 * there is none.
 */
LodgeStatResult lodge_stat_reader_find(const LodgeStatReader *reader, enum hv_stat_pages_kind kind,
                                       hv_handle handle, LodgeStatPlace *place,
                                       LodgeStatTitle *title, struct hv_stat *stats,
                                       guint *count_out);

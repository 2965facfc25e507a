/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The writer's side of hv/stat-pages.h: the file in memory, its seals, and the writing of one block.
 *
 * The file is made once, with its size for ever: blocks that are never used cost the host no memory.
 * What is written was read before, into the writer's own memory, so that a block is odd for as long
 * as a copy takes.
 *
 * One thread writes.
 */
#pragma once

#include <hv/domain.h>
#include <hv/stat-pages.h>

struct hv_stat_pages;

/**
 * Make a file of @blocks free blocks, mapped, and sealed for everybody else.
 *
 * Returns 0 and *pages_out, owned by the caller; -EAGAIN when the host has no file descriptor left;
 * -ENOMEM; -ENOTSUP when it cannot seal (Linux before 5.1).
 */
HV_MUST_CHECK int hv_stat_pages_create(unsigned blocks, uint64_t period_ns,
                                       struct hv_stat_pages **pages_out);
/** Who has it mapped keeps what was written last. NULL is accepted. */
void hv_stat_pages_destroy(struct hv_stat_pages *pages);

/** The file, borrowed. */
int hv_stat_pages_fd(const struct hv_stat_pages *pages);

/* Whose statistics a block holds. */
struct hv_stat_pages_title {
    enum hv_stat_pages_kind kind;
    hv_handle handle;
    const char *name; /* cut to 63 bytes; NULL: none */
    hv_ns moment;
};

/**
 * Write a block anew: the first of @wanted records, that is of those that were to be written, stand
 * in @stats, @count of them at most.
 */
void hv_stat_pages_write(struct hv_stat_pages *pages, unsigned block,
                         const struct hv_stat_pages_title *title, const struct hv_stat *stats,
                         size_t count, size_t wanted);

/** A statistic as it stands in a file: texts cut to their room, zero to its end. */
void hv_stat_record_fill(struct hv_stat_pages_record *record_out, const struct hv_stat *stat);

/** Nothing stands there any more. */
void hv_stat_pages_clear(struct hv_stat_pages *pages, unsigned block);

/** All blocks of a round are written. */
void hv_stat_pages_end_round(struct hv_stat_pages *pages, hv_ns moment, uint64_t left_out);

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The thread that writes a core's statistics into shared pages (hv/stat-pages.h), round by round: the
 * core, each machine, and now and then all locks.
 *
 * It reads as any other reader of statistics does, so that it takes no lock either; a round of one
 * machine takes 0.1 ms. A machine has its block from the first round that finds it to the one that
 * finds it gone; beyond HV_STAT_EXPORT_DOMAINS machines some have none, which the header says.
 */
#pragma once

#include <hv/types.h>

struct hv_core;
struct hv_stat_export;

#define HV_STAT_EXPORT_DOMAINS 256u
/* The blocks before those of machines. */
enum hv_stat_export_block {
    HV_STAT_EXPORT_CORE,
    HV_STAT_EXPORT_LOCKS,
    HV_STAT_EXPORT_FIRST,
};
/* The full table of locks is long, and read slowly: in one round of so many. */
#define HV_STAT_EXPORT_LOCK_ROUNDS 10u
/* Oftener nobody can look. */
#define HV_STAT_EXPORT_PERIOD_MIN  (10 * HV_NS_PER_MS)

/**
 * Make the file, and start the thread. With a @period_ns of HV_STAT_EXPORT_BY_HAND nothing is written
 * but by hv_stat_export_round(): tests.
 *
 * @core  borrowed for its life.
 *
 * Returns 0 and *export_out; -EINVAL for a period that is too short; -ENOMEM; -EAGAIN, -ENOTSUP from
 * the host.
 */
HV_MUST_CHECK int hv_stat_export_create(struct hv_core *core, uint64_t period_ns,
                                        struct hv_stat_export **export_out);
#define HV_STAT_EXPORT_BY_HAND UINT64_MAX

/** Stop. NULL is accepted. Context: a control thread, no lock held. */
void hv_stat_export_destroy(struct hv_stat_export *export);

/** The file; borrowed. */
int hv_stat_export_fd(const struct hv_stat_export *export);

/**
 * Have the thread write all blocks now, and wait for that: hv_core_write_stats(). -ENOTSUP without a
 * thread. Context: a control thread, no lock held; any number of them.
 */
HV_MUST_CHECK int hv_stat_export_now(struct hv_stat_export *export);

/** Write all blocks once. One caller at a time. */
void hv_stat_export_round(struct hv_stat_export *export);

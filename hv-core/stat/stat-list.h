/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Building a flat list of statistics (docs/stats.md). Every source is a relaxed read of a counter
 * that its owner writes: no core lock is taken.
 */
#pragma once

#include <hv/domain.h>

struct hv_stat_list {
    struct hv_stat *stats; /* borrowed; may be NULL to count only */
    size_t max, count;
};

/** Add a number whose name is given as for printf. */
void hv_stat_add(struct hv_stat_list *list, uint64_t value, const char *name, ...) HV_PRINTF(3, 4);

/** Add a text, cut to the record's room. */
void hv_stat_add_text(struct hv_stat_list *list, const char *text, const char *name, ...)
    HV_PRINTF(3, 4);

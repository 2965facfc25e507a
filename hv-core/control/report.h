/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Lists of statistics as files: written once, sealed against everybody, and sent.
 *
 *     struct hv_stat_pages_record × count
 *     (struct hv_op_histogram, uint32_t × its buckets, zeros to a multiple of 8 bytes) × histograms
 */
#pragma once

#include <hv/op.h>

/**
 * Make one.
 *
 * @wanted  found good (control/request.h).
 * @domain  held by the caller; NULL unless a domain's are wanted.
 * @fd_out  the caller's to close; -1 when the lists are empty.
 *
 * Returns 0; -ENOMEM; -EAGAIN when the host has no file descriptor left; -ENOTSUP when it cannot seal.
 */
HV_MUST_CHECK int hv_report_make(struct hv_core *core, const struct hv_op_stats *wanted,
                                 struct hv_domain *domain, struct hv_op_stats_list *list_out,
                                 int *fd_out);

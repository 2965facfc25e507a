/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Two looks: how long the lists are, and what stands in them. */
#include "control/report.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "stat/stat-pages.h"

#include <hv/lock-stats.h>

static size_t at_most(size_t count, size_t most)
{
    return count < most ? count : most;
}

/* ---- reading ---- */

static void read_lists(struct hv_core *core, const struct hv_op_stats *wanted,
                       struct hv_domain *domain, struct hv_lock_lists *lists)
{
    if (domain) {
        lists->stat_count = hv_domain_get_stats(domain, lists->stats, lists->stat_max);
    } else if (wanted->kind == HV_STAT_PAGES_CORE) {
        lists->stat_count = hv_core_get_stats(core, lists->stats, lists->stat_max);
    } else if (wanted->histograms) {
        hv_core_get_lock_lists(core, lists);
    } else {
        lists->stat_count = hv_core_get_lock_stats(core, lists->stats, lists->stat_max);
    }
}

/* ---- writing ---- */

#define RECORDS_AT_ONCE 64u

static int write_whole(int fd, const void *data, size_t bytes)
{
    const char *at = data;

    while (bytes > 0) {
        ssize_t written = write(fd, at, bytes);

        if (written < 0 && errno != EINTR) {
            return -ENOMEM;
        }
        at += written > 0 ? written : 0;
        bytes -= written > 0 ? (size_t)written : 0;
    }
    return 0;
}

static int write_records(int fd, const struct hv_stat *stats, size_t count)
{
    struct hv_stat_pages_record records[RECORDS_AT_ONCE];
    int rc = 0;

    for (size_t at = 0; rc == 0 && at < count; at += RECORDS_AT_ONCE) {
        size_t part = at_most(count - at, RECORDS_AT_ONCE);

        for (size_t i = 0; i < part; i++) {
            hv_stat_record_fill(&records[i], &stats[at + i]);
        }
        rc = write_whole(fd, records, part * sizeof(records[0]));
    }
    return rc;
}

static int write_histogram(int fd, const struct hv_lock_histogram *histogram)
{
    struct {
        struct hv_op_histogram head;
        uint32_t counts[HV_LOCK_HISTOGRAM_BUCKETS];
    } written = {
        .head =
            {
                .row = histogram->row,
                .span = histogram->span,
                .buckets = histogram->buckets,
                .total_ns = histogram->total_ns,
                .max_ns = histogram->max_ns,
            },
    };

    for (uint32_t i = 0; i < histogram->buckets; i++) {
        written.counts[i] = histogram->counts[i];
    }
    return write_whole(fd, &written,
                       hv_align_up(sizeof(written.head) + histogram->buckets * sizeof(uint32_t),
                                   sizeof(uint64_t)));
}

static int write_lists(int fd, const struct hv_lock_lists *lists)
{
    int rc = write_records(fd, lists->stats, lists->stat_max);

    for (size_t i = 0; rc == 0 && i < lists->histogram_max; i++) {
        rc = write_histogram(fd, &lists->histograms[i]);
    }
    return rc;
}

/* Nobody changes it from here on, us included. */
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL)

static int make_file(const struct hv_lock_lists *lists, int *fd_out)
{
    int fd = memfd_create("lodge-report", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int rc;

    if (fd < 0) {
        return errno == EMFILE || errno == ENFILE ? -EAGAIN : -ENOMEM;
    }
    rc = write_lists(fd, lists);
    if (rc == 0 && fcntl(fd, F_ADD_SEALS, SEALS) < 0) {
        rc = -ENOTSUP;
    }
    if (rc < 0) {
        close(fd);
        return rc;
    }
    *fd_out = fd;
    return 0;
}

int hv_report_make(struct hv_core *core, const struct hv_op_stats *wanted, struct hv_domain *domain,
                   struct hv_op_stats_list *list_out, int *fd_out)
{
    struct hv_lock_lists lists = {0};
    int rc = 0;

    *fd_out = -1;
    *list_out = (struct hv_op_stats_list){0};
    read_lists(core, wanted, domain, &lists);
    lists.stat_max = at_most(lists.stat_count, HV_OP_STAT_RECORDS_MAX);
    lists.histogram_max = at_most(lists.histogram_count, HV_OP_HISTOGRAMS_MAX);
    lists.stats = hv_alloc(lists.stat_max, sizeof(*lists.stats));
    lists.histograms = hv_alloc(lists.histogram_max, sizeof(*lists.histograms));
    if (!lists.stats || !lists.histograms) {
        rc = -ENOMEM;
    } else {
        read_lists(core, wanted, domain, &lists);
        /* There may be fewer by now than there was room for. */
        lists.stat_max = at_most(lists.stat_count, lists.stat_max);
        lists.histogram_max = at_most(lists.histogram_count, lists.histogram_max);
        *list_out = (struct hv_op_stats_list){
            .count = lists.stat_max,
            .wanted = lists.stat_count,
            .histograms = lists.histogram_max,
            .histograms_wanted = lists.histogram_count,
        };
    }
    if (rc == 0 && lists.stat_max > 0) {
        rc = make_file(&lists, fd_out);
    }
    hv_free(lists.stats);
    hv_free(lists.histograms);
    return rc;
}

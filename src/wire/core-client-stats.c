/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Lists of statistics: each a sealed file that comes with the answer. */
#include "common/sealed-file.h"
#include "wire/core-client-private.h"

#include <fcntl.h>
#include <hv/lock-stats.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void read_record(const struct hv_stat_pages_record *record, struct hv_stat *stat_out)
{
    stat_out->is_text = record->is_text != 0;
    stat_out->value = record->value;
    memcpy(stat_out->name, record->name, sizeof(stat_out->name));
    stat_out->name[sizeof(stat_out->name) - 1] = '\0';
    memcpy(stat_out->text, record->text, sizeof(stat_out->text));
    stat_out->text[sizeof(stat_out->text) - 1] = '\0';
}

typedef struct {
    struct hv_op_stats_list list;
    const guint8 *data; /* mapped; NULL: there is none */
    gsize bytes;
} CoreReport;

static gboolean map_report(CoreReport *report, int fd)
{
    /* Nobody changes it, or makes it shorter, under our eyes. */
    goffset bytes = lodge_sealed_file_length(fd, F_SEAL_SHRINK | F_SEAL_WRITE);
    void *mapped;

    if (bytes <= 0 || report->list.count > (guint64)bytes / sizeof(struct hv_stat_pages_record)) {
        return FALSE;
    }
    mapped = mmap(NULL, (gsize)bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED) {
        return FALSE;
    }
    report->data = mapped;
    report->bytes = (gsize)bytes;
    return TRUE;
}

/* Without records there is no report; one that is not what it should be is none. */
static void open_report(struct hv_core *core, const struct hv_op_stats *wanted, CoreReport *report)
{
    struct hv_op_request request;
    struct hv_op_answer answer;
    int fd = -1;

    *report = (CoreReport){0};
    request.body.stats = *wanted;
    if (core_call(core, HV_OP_STATS, &request, sizeof(request.body.stats), &answer,
                  sizeof(answer.body.stats), &fd) == 0) {
        report->list = answer.body.stats;
        /* Whoever asks makes room for as many: no core sends more. */
        report->list.wanted = MIN(report->list.wanted, HV_OP_STAT_RECORDS_MAX);
        report->list.histograms_wanted = MIN(report->list.histograms_wanted, HV_OP_HISTOGRAMS_MAX);
        if (report->list.count > 0 && !map_report(report, fd)) {
            report->list = (struct hv_op_stats_list){0};
        }
    }
    if (fd >= 0) {
        close(fd);
    }
}

static void close_report(CoreReport *report)
{
    if (report->data) {
        munmap((void *)(uintptr_t)report->data, report->bytes);
    }
}

/* Returns how many there are; those beyond what was cut are not there for who has room for them. */
static gsize read_records(const CoreReport *report, struct hv_stat *stats, gsize max)
{
    const struct hv_stat_pages_record *records = (const void *)report->data;
    gsize count = (gsize)MIN(report->list.count, max);

    for (gsize i = 0; i < count; i++) {
        read_record(&records[i], &stats[i]);
    }
    return count < max ? count : (gsize)report->list.wanted;
}

static gsize get_stats(struct hv_core *core, enum hv_stat_pages_kind kind, guint64 handle,
                       struct hv_stat *stats, gsize max)
{
    const struct hv_op_stats wanted = {.kind = kind, .handle = handle};
    CoreReport report;
    gsize count;

    open_report(core, &wanted, &report);
    count = read_records(&report, stats, max);
    close_report(&report);
    return count;
}

/* The distribution at @at, which moves behind it. FALSE: there is none. */
static gboolean read_histogram(const CoreReport *report, gsize *at,
                               struct hv_lock_histogram *histogram_out)
{
    struct hv_op_histogram head;
    gsize left = report->bytes - *at, counts;

    if (left < sizeof(head)) {
        return FALSE;
    }
    memcpy(&head, report->data + *at, sizeof(head));
    counts = head.buckets * sizeof(guint32);
    if (head.buckets == 0 || head.buckets > HV_LOCK_HISTOGRAM_BUCKETS ||
        head.span > HV_LOCK_HISTOGRAM_ACQUIRE || left - sizeof(head) < counts) {
        return FALSE;
    }
    *histogram_out = (struct hv_lock_histogram){
        .row = (size_t)head.row,
        .span = (enum hv_lock_histogram_span)head.span,
        .total_ns = head.total_ns,
        .max_ns = head.max_ns,
        .buckets = head.buckets,
    };
    memcpy(histogram_out->counts, report->data + *at + sizeof(head), counts);
    *at = MIN(*at + sizeof(head) + (counts + 7) / 8 * 8, report->bytes);
    return TRUE;
}

void hv_core_get_lock_lists(struct hv_core *core, struct hv_lock_lists *lists)
{
    const struct hv_op_stats wanted = {.kind = HV_STAT_PAGES_LOCKS, .histograms = 1};
    CoreReport report;
    gsize count, read = 0, at;

    open_report(core, &wanted, &report);
    lists->stat_count = read_records(&report, lists->stats, lists->stat_max);
    at = (gsize)report.list.count * sizeof(struct hv_stat_pages_record);
    count = (gsize)MIN(report.list.histograms, lists->histogram_max);
    while (read < count && read_histogram(&report, &at, &lists->histograms[read])) {
        read++;
    }
    lists->histogram_count =
        read < lists->histogram_max ? read : (gsize)report.list.histograms_wanted;
    close_report(&report);
}

static int write_stats(struct hv_core *core)
{
    struct hv_op_request request;

    request.body.export = (struct hv_op_export){0};
    return core_result_of_younger(
        core_call(core, HV_OP_EXPORT, &request, sizeof(request.body.export), NULL, 0, NULL));
}

/* One at a time: each keeps a thread of the core. All who came while one was written share the next, for
 * it begins after each of them has asked. */
int hv_core_write_stats(struct hv_core *core)
{
    guint64 own, served;
    int rc;

    pthread_mutex_lock(&core->mutex);
    own = ++core->writes_asked;
    while (core->writing && core->writes_done < own) {
        pthread_cond_wait(&core->written, &core->mutex);
    }
    if (core->writes_done < own) {
        core->writing = TRUE;
        served = core->writes_asked;
        pthread_mutex_unlock(&core->mutex);
        rc = write_stats(core);
        pthread_mutex_lock(&core->mutex);
        core->write_result = rc;
        core->writes_done = served;
        core->writing = FALSE;
        pthread_cond_broadcast(&core->written);
    }
    rc = core->write_result;
    pthread_mutex_unlock(&core->mutex);
    return rc;
}

size_t hv_domain_get_stats(struct hv_domain *domain, struct hv_stat *stats, size_t max)
{
    return get_stats(domain->core, HV_STAT_PAGES_DOMAIN, domain->handle, stats, max);
}

size_t hv_core_get_stats(struct hv_core *core, struct hv_stat *stats, size_t max)
{
    return get_stats(core, HV_STAT_PAGES_CORE, 0, stats, max);
}

size_t hv_core_get_lock_stats(struct hv_core *core, struct hv_stat *stats, size_t max)
{
    return get_stats(core, HV_STAT_PAGES_LOCKS, 0, stats, max);
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Lists of statistics: each a sealed file that comes with the answer. */
#include "wire/core-client-private.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
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

/* As long as it is said to be, and nobody makes it shorter under our eyes. */
static gboolean is_whole(int fd, guint64 count)
{
    int seals = fcntl(fd, F_GET_SEALS);
    struct stat status;

    return seals >= 0 && (seals & F_SEAL_SHRINK) && (seals & F_SEAL_WRITE) &&
           fstat(fd, &status) == 0 &&
           (guint64)status.st_size >= count * sizeof(struct hv_stat_pages_record);
}

/* Returns how many were read. */
static gsize read_file(int fd, guint64 count, struct hv_stat *stats)
{
    gsize bytes = (gsize)count * sizeof(struct hv_stat_pages_record);
    const struct hv_stat_pages_record *records;

    if (count == 0 || count > HV_OP_STAT_RECORDS_MAX || fd < 0 || !is_whole(fd, count)) {
        return 0;
    }
    records = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (records == MAP_FAILED) {
        return 0;
    }
    for (gsize i = 0; i < count; i++) {
        read_record(&records[i], &stats[i]);
    }
    munmap((void *)(uintptr_t)records, bytes);
    return (gsize)count;
}

static gsize get_stats(struct hv_core *core, enum hv_stat_pages_kind kind, guint64 handle,
                       struct hv_stat *stats, gsize max)
{
    struct hv_op_request request;
    struct hv_op_answer answer;
    const struct hv_op_stats_list *list = &answer.body.stats;
    gsize wanted = 0;
    int fd = -1;

    request.body.stats = (struct hv_op_stats){.kind = kind, .handle = handle};
    if (core_call(core, HV_OP_STATS, &request, sizeof(request.body.stats), &answer, sizeof(*list),
                  &fd) == 0) {
        /* What was cut, or cannot be read, is not there for who has room for it. */
        gsize read = max > 0 ? read_file(fd, MIN(list->count, max), stats) : 0;

        wanted = read < max ? read : (gsize)list->wanted;
    }
    if (fd >= 0) {
        close(fd);
    }
    return wanted;
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

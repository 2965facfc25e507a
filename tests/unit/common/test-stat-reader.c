/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Statistics by shared pages, from both ends: no reader sees half a block, none can do anything to
 * the writer, and none believes a file that is no core's.
 */
#include "common/stat-reader.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/lodge-error.h"
#include "lib/threads.h"
#include "stat/stat-pages.h"
#include "sync/atomic.h"
#include "sync/race.h"

#define BLOCKS 3u

static struct hv_stat_pages *pages;
static LodgeStatReader *reader;

static bool open_both(void)
{
    g_autoptr(GError) error = NULL;

    if (hv_stat_pages_create(BLOCKS, HV_NS_PER_S, &pages) == 0) {
        reader = lodge_stat_reader_open(hv_stat_pages_fd(pages), &error);
    }
    if (error) {
        tap_note("%s", error->message);
    }
    return reader != NULL;
}

static void close_both(void)
{
    lodge_stat_reader_close(reader);
    reader = NULL;
    hv_stat_pages_destroy(pages);
    pages = NULL;
}

static void test_block(void)
{
    const struct hv_stat stats[] = {{.name = "vcpu.current", .value = 4},
                                    {.name = "engine.name", .is_text = true, .text = "soft"}};
    const struct hv_stat_pages_title written = {
        .kind = HV_STAT_PAGES_DOMAIN,
        .handle = {0x1234500001},
        .name = "a name of sixty-three bytes and more, of which the rest is cut away at the end",
        .moment = {77},
    };
    g_autofree struct hv_stat *read = g_new0(struct hv_stat, HV_STAT_PAGES_RECORDS);
    guint64 rounds, moment, left_out;
    LodgeStatTitle title;
    guint count = 9;

    TAP_OK(open_both());
    TAP_EQ(lodge_stat_reader_blocks(reader), BLOCKS);
    TAP_EQ(lodge_stat_reader_records(reader), HV_STAT_PAGES_RECORDS);
    TAP_EQ(lodge_stat_reader_read(reader, 2, &title, read, &count), LODGE_STAT_EMPTY);
    TAP_EQ(count, 0);
    hv_stat_pages_write(pages, 2, &written, stats, 2, 5);
    hv_stat_pages_end_round(pages, (hv_ns){99}, 7);
    TAP_EQ(lodge_stat_reader_read(reader, 1, &title, read, &count), LODGE_STAT_EMPTY);
    TAP_EQ(lodge_stat_reader_read(reader, 2, &title, read, &count), LODGE_STAT_READ);
    TAP_EQ(count, 2);
    TAP_EQ(title.kind, HV_STAT_PAGES_DOMAIN);
    TAP_EQ(title.handle.v, 0x1234500001);
    TAP_EQ(strlen(title.name), 63);
    TAP_OK(g_str_has_prefix(written.name, title.name));
    TAP_EQ(title.moment_ns, 77);
    TAP_EQ(title.wanted, 5);
    TAP_STR(read[0].name, "vcpu.current");
    TAP_OK(!read[0].is_text);
    TAP_EQ(read[0].value, 4);
    TAP_OK(read[1].is_text);
    TAP_STR(read[1].text, "soft");
    lodge_stat_reader_round(reader, &rounds, &moment, &left_out);
    TAP_EQ(rounds, 1);
    TAP_EQ(moment, 99);
    TAP_EQ(left_out, 7);
    hv_stat_pages_clear(pages, 2);
    TAP_EQ(lodge_stat_reader_read(reader, 2, &title, read, &count), LODGE_STAT_EMPTY);
    close_both();
}

/* What stands in the last round of a core is there for who has it mapped when that has ended. */
static void test_outlives(void)
{
    const struct hv_stat_pages_title written = {.kind = HV_STAT_PAGES_CORE};
    const struct hv_stat stat = {.name = "pcpu.count", .value = 2};
    g_autofree struct hv_stat *read = g_new0(struct hv_stat, HV_STAT_PAGES_RECORDS);
    LodgeStatTitle title;
    guint count;

    TAP_OK(open_both());
    hv_stat_pages_write(pages, 0, &written, &stat, 1, 1);
    hv_stat_pages_destroy(pages);
    pages = NULL;
    TAP_EQ(lodge_stat_reader_read(reader, 0, &title, read, &count), LODGE_STAT_READ);
    TAP_EQ(read[0].value, 2);
    close_both();
}

static void write_of(unsigned block, uint64_t handle, uint64_t value)
{
    const struct hv_stat_pages_title written = {.kind = HV_STAT_PAGES_DOMAIN, .handle = {handle}};
    const struct hv_stat stat = {.name = "cpu.time", .value = value};

    hv_stat_pages_write(pages, block, &written, &stat, 1, 1);
}

static LodgeStatResult find(uint64_t handle, LodgeStatPlace *place, uint64_t *value_out)
{
    g_autofree struct hv_stat *read = g_new0(struct hv_stat, HV_STAT_PAGES_RECORDS);
    LodgeStatTitle title;
    LodgeStatResult result;
    guint count;

    result = lodge_stat_reader_find(reader, HV_STAT_PAGES_DOMAIN, (hv_handle){handle}, place,
                                    &title, read, &count);
    *value_out = count == 1 ? read[0].value : 0;
    return result;
}

/* A machine is found by its handle, wherever it is put, and whatever is remembered of its place. */
static void test_find(void)
{
    const struct hv_stat_pages_title core = {.kind = HV_STAT_PAGES_CORE};
    g_autofree struct hv_stat *read = g_new0(struct hv_stat, HV_STAT_PAGES_RECORDS);
    LodgeStatPlace place = 0, beyond = BLOCKS + 7;
    LodgeStatTitle title;
    uint64_t value;
    guint count;

    TAP_OK(open_both());
    TAP_EQ(find(7, &place, &value), LODGE_STAT_EMPTY);
    hv_stat_pages_write(pages, 0, &core, NULL, 0, 0);
    write_of(2, 7, 70);
    TAP_EQ(find(7, &place, &value), LODGE_STAT_READ);
    TAP_EQ(place, 2);
    TAP_EQ(value, 70);
    TAP_EQ(find(7, &beyond, &value), LODGE_STAT_READ);
    TAP_EQ(beyond, 2);
    /* Another has its place by now, and it has another's. */
    write_of(2, 8, 80);
    TAP_EQ(find(7, &place, &value), LODGE_STAT_EMPTY);
    write_of(1, 7, 71);
    TAP_EQ(find(7, &beyond, &value), LODGE_STAT_READ);
    TAP_EQ(beyond, 1);
    TAP_EQ(value, 71);
    TAP_EQ(lodge_stat_reader_find(reader, HV_STAT_PAGES_CORE, HV_HANDLE_NONE, &place, &title, read,
                                  &count),
           LODGE_STAT_READ);
    TAP_EQ(place, 0);
    close_both();
}

/* More than a block holds: what fits, and how much that would have been. */
static void test_too_many(void)
{
    const struct hv_stat_pages_title written = {.kind = HV_STAT_PAGES_LOCKS};
    g_autofree struct hv_stat *stats = g_new0(struct hv_stat, HV_STAT_PAGES_RECORDS + 1);
    g_autofree struct hv_stat *read = g_new0(struct hv_stat, HV_STAT_PAGES_RECORDS);
    LodgeStatTitle title;
    guint count;

    TAP_OK(open_both());
    for (guint i = 0; i <= HV_STAT_PAGES_RECORDS; i++) {
        stats[i].value = i;
    }
    hv_stat_pages_write(pages, 1, &written, stats, HV_STAT_PAGES_RECORDS + 1, 99999);
    TAP_EQ(lodge_stat_reader_read(reader, 1, &title, read, &count), LODGE_STAT_READ);
    TAP_EQ(count, HV_STAT_PAGES_RECORDS);
    TAP_EQ(title.wanted, 99999);
    TAP_EQ(read[HV_STAT_PAGES_RECORDS - 1].value, HV_STAT_PAGES_RECORDS - 1);
    /* The neighbour is untouched. */
    TAP_EQ(lodge_stat_reader_read(reader, 2, &title, read, &count), LODGE_STAT_EMPTY);
    close_both();
}

#define WRITES 3000u
#define MOST   40u

static struct {
    _Atomic uint32_t over;
    _Atomic uint64_t whole, torn;
} race;

/* All of a block says which writing it is of: how many records there are, too. */
static void write_numbered(uint64_t number)
{
    const struct hv_stat_pages_title title = {
        .kind = HV_STAT_PAGES_DOMAIN, .handle = {number}, .moment = {number}};
    struct hv_stat stats[MOST] = {0};
    size_t count = 1 + number % MOST;

    for (size_t i = 0; i < count; i++) {
        snprintf(stats[i].name, sizeof(stats[i].name), "number.%" PRIu64, number);
        stats[i].value = number;
    }
    hv_stat_pages_write(pages, 1, &title, stats, count, number);
}

static bool is_whole(const LodgeStatTitle *title, const struct hv_stat *stats, guint count)
{
    bool whole = title->handle.v == title->moment_ns && title->wanted == title->moment_ns &&
                 count == 1 + title->moment_ns % MOST;
    char name[sizeof(stats->name)];

    snprintf(name, sizeof(name), "number.%" PRIu64, (uint64_t)title->moment_ns);
    for (guint i = 0; i < count; i++) {
        whole = whole && stats[i].value == title->moment_ns && strcmp(stats[i].name, name) == 0;
    }
    return whole;
}

static void write_or_read(unsigned index, void *context)
{
    g_autofree struct hv_stat *stats = g_new0(struct hv_stat, HV_STAT_PAGES_RECORDS);
    unsigned writes = *(unsigned *)context;
    LodgeStatTitle title;
    guint count;

    if (index == 0) {
        /* On until each has something to tell. */
        for (uint64_t i = 1; i < writes || hv_load_relaxed(&race.whole) < 100; i++) {
            write_numbered(i);
            if (i % 16 == 0) {
                g_thread_yield();
            }
        }
        hv_store_seq(&race.over, 1);
        return;
    }
    while (!hv_load_seq(&race.over)) {
        switch (lodge_stat_reader_read(reader, 1, &title, stats, &count)) {
        case LODGE_STAT_READ:
            hv_add_relaxed(is_whole(&title, stats, count) ? &race.whole : &race.torn, 1);
            break;
        case LODGE_STAT_EMPTY:
        case LODGE_STAT_BUSY:
            break;
        }
    }
}

static void test_seq_export(void)
{
    unsigned writes = threads_rounds(WRITES);

    TAP_OK(open_both());
    hv_store_seq(&race.over, 0);
    hv_store_seq(&race.torn, 0);
    hv_store_seq(&race.whole, 0);
    threads_run(3, write_or_read, &writes);
    TAP_EQ(hv_load_seq(&race.torn), 0);
    tap_note("%" PRIu64 " whole blocks", hv_load_seq(&race.whole));
    close_both();
}

static void write_as_1(unsigned index, void *context)
{
    (void)index;
    (void)context;
    hv_race_name_thread(1);
    write_numbered(2);
}

/* A writer that stops half way, or for ever, is not waited for: the reader says so, and goes on. */
static void test_half_written(void)
{
    g_autofree struct hv_stat *stats = g_new0(struct hv_stat, HV_STAT_PAGES_RECORDS);
    struct threads writer;
    LodgeStatTitle title;
    guint count = 9;

    if (!HV_CONFIG_RACE_POINTS) {
        tap_skip("This build has no race points.");
        return;
    }
    TAP_OK(open_both());
    write_numbered(1);
    hv_race_begin();
    hv_race_stop(1, "stat-pages.write.half", 0);
    threads_start(&writer, 1, write_as_1, NULL);
    TAP_OK(hv_race_await(1, "stat-pages.write.half"));
    TAP_EQ(lodge_stat_reader_read(reader, 1, &title, stats, &count), LODGE_STAT_BUSY);
    TAP_EQ(count, 0);
    hv_race_end();
    threads_join(&writer);
    TAP_EQ(lodge_stat_reader_read(reader, 1, &title, stats, &count), LODGE_STAT_READ);
    TAP_OK(is_whole(&title, stats, count) && title.moment_ns == 2);
    close_both();
}

/* In a process of its own: begin to read, and stop there. */
static void read_half_and_stop(const struct hv_stat_pages_header *header)
{
    const struct hv_stat_pages_block *block =
        (const void *)((const char *)header + HV_STAT_PAGES_HEADER_BYTES +
                       HV_STAT_PAGES_BLOCK_BYTES);
    uint64_t sum = hv_load_acquire(&block->sequence);

    sum += hv_load_acquire(&block->kind);
    raise(SIGSTOP);
    _exit((int)(sum & 1));
}

/* A reader that stops in the middle of a block stalls nobody: not the writer, nor another reader. */
static void test_reader_stops(void)
{
    g_autofree struct hv_stat *stats = g_new0(struct hv_stat, HV_STAT_PAGES_RECORDS);
    const struct hv_stat_pages_header *header;
    LodgeStatTitle title;
    guint count;
    int status;
    pid_t child;

    TAP_OK(open_both());
    write_numbered(1);
    header = mmap(NULL, HV_STAT_PAGES_HEADER_BYTES + BLOCKS * HV_STAT_PAGES_BLOCK_BYTES, PROT_READ,
                  MAP_SHARED, hv_stat_pages_fd(pages), 0);
    TAP_OK(header != MAP_FAILED);
    child = fork();
    if (child == 0) {
        read_half_and_stop(header);
    }
    TAP_OK(child > 0);
    TAP_EQ(waitpid(child, &status, WUNTRACED), (uint64_t)child);
    TAP_OK(WIFSTOPPED(status));
    for (uint64_t i = 2; i < 100; i++) {
        write_numbered(i);
        TAP_EQ(lodge_stat_reader_read(reader, 1, &title, stats, &count), LODGE_STAT_READ);
        TAP_OK(is_whole(&title, stats, count) && title.moment_ns == i);
    }
    kill(child, SIGKILL);
    TAP_EQ(waitpid(child, &status, 0), (uint64_t)child);
    munmap((void *)(uintptr_t)header,
           HV_STAT_PAGES_HEADER_BYTES + BLOCKS * HV_STAT_PAGES_BLOCK_BYTES);
    close_both();
}

static bool refused_with(int rc, int wanted)
{
    return rc < 0 && errno == wanted;
}

/* All that somebody may try who was given the file, root too. */
static void test_hostile_reader(void)
{
    g_autofree char *path = NULL;
    const off_t whole = HV_STAT_PAGES_HEADER_BYTES + BLOCKS * HV_STAT_PAGES_BLOCK_BYTES;
    g_autofree struct hv_stat *stats = g_new0(struct hv_stat, HV_STAT_PAGES_RECORDS);
    LodgeStatTitle title;
    void *mapped;
    guint count;
    int fd, again;

    TAP_OK(open_both());
    write_numbered(1);
    fd = hv_stat_pages_fd(pages);
    TAP_OK(refused_with((int)write(fd, "x", 1), EPERM));
    TAP_OK(refused_with((int)pwrite(fd, "x", 1, HV_STAT_PAGES_HEADER_BYTES), EPERM));
    TAP_OK(refused_with(ftruncate(fd, 0), EPERM));
    TAP_OK(refused_with(ftruncate(fd, whole + 1), EPERM));
    TAP_OK(refused_with(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), EPERM));
    TAP_OK(refused_with(fallocate(fd, 0, whole, 4096), EPERM));
    TAP_OK(refused_with(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), EPERM));
    mapped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    TAP_OK(mapped == MAP_FAILED && errno == EPERM);
    mapped = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    TAP_OK(mapped != MAP_FAILED);
    TAP_OK(refused_with(mprotect(mapped, 4096, PROT_READ | PROT_WRITE), EACCES));
    TAP_OK(refused_with(madvise(mapped, 4096, MADV_REMOVE), EACCES));
    munmap(mapped, 4096);
    /* Opened anew, by its place in /proc. */
    path = g_strdup_printf("/proc/self/fd/%d", fd);
    again = open(path, O_RDWR | O_CLOEXEC);
    TAP_OK(again >= 0);
    TAP_OK(refused_with((int)write(again, "x", 1), EPERM));
    close(again);
    again = open(path, O_RDWR | O_TRUNC | O_CLOEXEC);
    TAP_OK(refused_with(again, EPERM));
    /* Nothing has changed, and the writer writes on. */
    TAP_EQ(lodge_stat_reader_read(reader, 1, &title, stats, &count), LODGE_STAT_READ);
    TAP_OK(is_whole(&title, stats, count) && title.moment_ns == 1);
    write_numbered(2);
    TAP_EQ(lodge_stat_reader_read(reader, 1, &title, stats, &count), LODGE_STAT_READ);
    TAP_OK(is_whole(&title, stats, count) && title.moment_ns == 2);
    close_both();
}

/* A file with this header, sealed as @seals says; its mapping stays, for the process's life. */
static int forge(const struct hv_stat_pages_header *header, off_t bytes, int seals)
{
    int fd = memfd_create("forged", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0 || ftruncate(fd, bytes) < 0 ||
        (bytes >= (off_t)sizeof(*header) &&
         pwrite(fd, header, sizeof(*header), 0) != (ssize_t)sizeof(*header)) ||
        fcntl(fd, F_ADD_SEALS, seals) < 0) {
        return -1;
    }
    return fd;
}

/* False, with a message that has @word in it. */
static bool refused(int fd, const char *word)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(LodgeStatReader) none = lodge_stat_reader_open(fd, &error);
    bool good = fd >= 0 && !none && g_error_matches(error, LODGE_ERROR, LODGE_ERROR_INPUT) &&
                strstr(error->message, word);

    if (!good) {
        tap_note("%d: %s", fd, error ? error->message : "was taken");
    }
    close(fd);
    return good;
}

static void test_refuses(void)
{
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE;
    const off_t bytes = HV_STAT_PAGES_HEADER_BYTES + HV_STAT_PAGES_BLOCK_BYTES;
    const struct hv_stat_pages_header good = {
        .magic = HV_STAT_PAGES_MAGIC,
        .version = HV_STAT_PAGES_VERSION,
        .header_bytes = HV_STAT_PAGES_HEADER_BYTES,
        .blocks = 1,
        .block_bytes = HV_STAT_PAGES_BLOCK_BYTES,
        .record_bytes = sizeof(struct hv_stat_pages_record),
        .records = HV_STAT_PAGES_RECORDS,
    };
    struct hv_stat_pages_header bad;
    int fd = forge(&good, bytes, seals);
    g_autoptr(LodgeStatReader) taken = lodge_stat_reader_open(fd, NULL);

    TAP_OK(taken);
    close(fd);
    TAP_OK(refused(forge(&good, bytes, seals & ~F_SEAL_SHRINK), "sealed"));
    TAP_OK(refused(forge(&good, bytes, seals & ~F_SEAL_FUTURE_WRITE), "sealed"));
    TAP_OK(refused(open("/dev/null", O_RDONLY | O_CLOEXEC), "sealed"));
    TAP_OK(refused(forge(&good, 0, seals), "short"));
    TAP_OK(refused(forge(&good, HV_STAT_PAGES_HEADER_BYTES - 1, seals), "short"));
    TAP_OK(refused(forge(&good, bytes - 1, seals), "sizes"));
    TAP_OK(refused(forge(&good, bytes + 1, seals), "sizes"));
    bad = good;
    bad.magic++;
    TAP_OK(refused(forge(&bad, bytes, seals), "begins"));
    bad = good;
    bad.version = 77;
    TAP_OK(refused(forge(&bad, bytes, seals), "77"));
    bad = good;
    bad.blocks = UINT32_MAX;
    TAP_OK(refused(forge(&bad, bytes, seals), "sizes"));
    /* As long as it says, and more than any core has machines. */
    bad.blocks = 100000;
    TAP_OK(refused(
        forge(&bad,
              HV_STAT_PAGES_HEADER_BYTES + (off_t)bad.blocks * (off_t)HV_STAT_PAGES_BLOCK_BYTES,
              seals),
        "sizes"));
    bad = good;
    bad.records++;
    TAP_OK(refused(forge(&bad, bytes, seals), "sizes"));
    bad = good;
    bad.record_bytes = 1;
    TAP_OK(refused(forge(&bad, bytes, seals), "sizes"));
    bad = good;
    bad.block_bytes = 0;
    TAP_OK(refused(forge(&bad, bytes, seals), "sizes"));
    lodge_stat_reader_close(NULL);
}

/* A block that says more than it can hold, or what no core writes, is read within its bounds. */
static void test_hostile_writer(void)
{
    const off_t bytes = HV_STAT_PAGES_HEADER_BYTES + HV_STAT_PAGES_BLOCK_BYTES;
    const struct hv_stat_pages_header header = {
        .magic = HV_STAT_PAGES_MAGIC,
        .version = HV_STAT_PAGES_VERSION,
        .header_bytes = HV_STAT_PAGES_HEADER_BYTES,
        .blocks = 1,
        .block_bytes = HV_STAT_PAGES_BLOCK_BYTES,
        .record_bytes = sizeof(struct hv_stat_pages_record),
        .records = HV_STAT_PAGES_RECORDS,
    };
    g_autofree struct hv_stat *stats = g_new0(struct hv_stat, HV_STAT_PAGES_RECORDS);
    struct hv_stat_pages_block *block;
    LodgeStatTitle title;
    guint count;
    char *mapped;
    int fd = memfd_create("forged", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    TAP_OK(fd >= 0 && ftruncate(fd, bytes) == 0);
    mapped = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    TAP_OK(mapped != MAP_FAILED);
    memcpy(mapped, &header, sizeof(header));
    memset(mapped + HV_STAT_PAGES_HEADER_BYTES, 0xff, HV_STAT_PAGES_BLOCK_BYTES);
    TAP_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE), 0);
    reader = lodge_stat_reader_open(fd, NULL);
    TAP_OK(reader);
    close(fd);
    block = (void *)(mapped + HV_STAT_PAGES_HEADER_BYTES);
    TAP_EQ(lodge_stat_reader_read(reader, 0, &title, stats, &count), LODGE_STAT_BUSY);
    hv_store_relaxed(&block->sequence, 2);
    TAP_EQ(lodge_stat_reader_read(reader, 0, &title, stats, &count), LODGE_STAT_EMPTY);
    TAP_EQ(count, 0);
    hv_store_relaxed(&block->kind, HV_STAT_PAGES_DOMAIN);
    TAP_EQ(lodge_stat_reader_read(reader, 0, &title, stats, &count), LODGE_STAT_READ);
    TAP_EQ(count, HV_STAT_PAGES_RECORDS);
    TAP_EQ(strlen(title.name), sizeof(title.name) - 1);
    for (guint i = 0; i < count; i++) {
        TAP_EQ(strlen(stats[i].name), sizeof(stats[i].name) - 1);
        TAP_EQ(strlen(stats[i].text), sizeof(stats[i].text) - 1);
    }
    lodge_stat_reader_close(reader);
    reader = NULL;
    munmap(mapped, (size_t)bytes);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"common.stat-reader.block", test_block},
        {"common.stat-reader.outlives", test_outlives},
        {"common.stat-reader.find", test_find},
        {"common.stat-reader.too-many", test_too_many},
        {"lp.seq-export", test_seq_export},
        {"lp.seq-export-half", test_half_written},
        {"lp.seq-export-stopped", test_reader_stops},
        {"common.stat-reader.hostile-reader", test_hostile_reader},
        {"common.stat-reader.refuses", test_refuses},
        {"common.stat-reader.hostile-writer", test_hostile_writer},
    };
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

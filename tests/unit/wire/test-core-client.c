/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The core's client before a core that says what no core says. */
#include "capture.h"
#include "lib/tap.h"
#include "lib/threads.h"
#include "peer.h"

#include "wire/core-client.h"

#include <errno.h>
#include <fcntl.h>
#include <hv/lock-stats.h>
#include <hv/stat-pages.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static int make_file(const void *data, size_t bytes, int seals)
{
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (write(fd, data, bytes) != (ssize_t)bytes || fcntl(fd, F_ADD_SEALS, seals) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Welcomes that are none. */
static void test_welcomes(void)
{
    for (unsigned i = 0; i < 9; i++) {
        GThread *thread = peer_greet();
        size_t body = sizeof(peer.answer.body.welcome);
        int fd = peer_make_staging();

        TAP_OK(thread);
        peer_fill_welcome();
        peer.answer.body.welcome.magic += i == 0;
        peer.answer.body.welcome.version += i == 1;
        peer.answer.body.welcome.staging_bytes += i == 2;
        body -= i == 3;
        if (i == 4) {
            close(fd);
            fd = -1;
        }
        if (i >= 7) { /* a write to it would end us, now or later */
            close(fd);
            fd = i == 7 ? peer_make_staging_file((off_t)HV_OP_STAGING_BYTES - 1, F_SEAL_SHRINK)
                        : peer_make_staging_file((off_t)HV_OP_STAGING_BYTES, F_SEAL_GROW);
            TAP_OK(fd >= 0);
        }
        TAP_OK(peer_say(i == 5 ? HV_OP_LIST : HV_OP_HELLO, 1, i == 6 ? -EPERM : 0, body, fd));
        TAP_OK(g_thread_join(thread) == NULL);
        close(peer.fd);
    }
}

static void *pause_domain(void *domain)
{
    return GINT_TO_POINTER(hv_domain_pause(domain));
}

/* Whose console the next machine has. */
static const struct hv_console_ops *console_of_made = &capture_ops;

/* A machine with a console, as if it had been made. */
static void *create(void *context)
{
    const struct hv_domain_config config = {
        .name = "x",
        .engine = "soft",
        .memory_bytes = 2 * HV_MIB,
        .vcpus = 1,
        .console = console_of_made,
    };
    struct hv_domain *domain = NULL;
    int rc = hv_domain_create(context, &config, &domain, NULL, 0);

    return rc == 0 ? domain : NULL;
}

static struct hv_domain *make(void)
{
    GThread *thread = g_thread_new("create", create, peer.core);

    memset(&peer.answer.body.made, 0, sizeof(peer.answer.body.made));
    peer.answer.body.made.handle = 0x10001;
    memset(peer.answer.body.made.name, 'n',
           sizeof(peer.answer.body.made.name)); /* without an end */
    if (!peer_hear() || peer.request.header.op != HV_OP_CREATE ||
        !peer_say(HV_OP_CREATE, peer.request.header.serial, 0, sizeof(peer.answer.body.made), -1)) {
        return NULL;
    }
    return g_thread_join(thread);
}

/* Answers that answer nothing, or not so: the connection is lost, and who waits is told. */
static void test_answers(void)
{
    for (unsigned i = 0; i < 8; i++) {
        struct hv_domain *domain;
        GThread *thread;
        uint64_t serial;

        TAP_OK(peer_begin());
        domain = make();
        TAP_OK(domain);
        TAP_EQ(strlen(hv_domain_name(domain)), 63u);
        thread = g_thread_new("pause", pause_domain, domain);
        TAP_OK(peer_hear() && peer.request.header.op == HV_OP_PAUSE);
        serial = peer.request.header.serial;
        memset(&peer.answer.body, 0, sizeof(peer.answer.body));
        switch (i) {
        case 0: /* of another */
            TAP_OK(peer_say(HV_OP_PAUSE, serial + 1, 0, 0, -1));
            break;
        case 1:
            TAP_OK(peer_say(HV_OP_RESET, serial, 0, 0, -1));
            break;
        case 2: /* longer than it may be, and shorter */
            TAP_OK(peer_say(HV_OP_PAUSE, serial, 0, 8, -1));
            break;
        case 3:
            TAP_OK(peer_say(HV_OP_PAUSE, serial, -EBUSY, 0, -1));
            break;
        case 4: /* neither good nor an errno */
            TAP_OK(peer_say(HV_OP_PAUSE, serial, 1, 0, -1));
            break;
        case 5: /* events: one of no kind, one too short, one that says too much */
            TAP_OK(peer_say(HV_OP_PAUSE, 0, 0, 0, -1));
            break;
        case 6:
            TAP_OK(peer_say(HV_OP_STATE, 0, 0, sizeof(struct hv_op_state) - 1, -1));
            break;
        default:
            peer.answer.body.console.bytes = HV_OP_CONSOLE_BYTES;
            TAP_OK(peer_say(HV_OP_CONSOLE, 0, 0, offsetof(struct hv_op_console, data) + 1, -1));
            break;
        }
        TAP_EQ(GPOINTER_TO_INT(g_thread_join(thread)), -ENOTCONN);
        TAP_AWAIT(g_atomic_int_get(&peer.lost) == 1);
        hv_domain_put(domain);
        peer_end();
    }
}

static char refused_why[2 * sizeof(struct hv_op_refusal)];

static void *create_refused(void *context)
{
    const struct hv_domain_config config = {.name = "x", .engine = "soft"};
    struct hv_domain *domain = NULL;

    return GINT_TO_POINTER(
        hv_domain_create(context, &config, &domain, refused_why, sizeof(refused_why)));
}

/* A reason without an end has that of its field: nothing behind it is looked at. */
static void test_refusal(void)
{
    GThread *thread;

    TAP_OK(peer_begin());
    thread = g_thread_new("create", create_refused, peer.core);
    TAP_OK(peer_hear() && peer.request.header.op == HV_OP_CREATE);
    memset(peer.answer.body.refusal.why, 'w', sizeof(peer.answer.body.refusal.why));
    TAP_OK(peer_say(HV_OP_CREATE, peer.request.header.serial, -EBUSY,
                    sizeof(peer.answer.body.refusal), -1));
    TAP_EQ(GPOINTER_TO_INT(g_thread_join(thread)), -EBUSY);
    TAP_EQ(strlen(refused_why), sizeof(peer.answer.body.refusal.why));
    peer_end();
}

static gint listed;

static void *list(void *context)
{
    g_atomic_int_set(&listed, (gint)hv_core_list(context, NULL, 0));
    return NULL;
}

static bool tell_listing(uint32_t count, uint64_t first, uint64_t step)
{
    peer.answer.body.listing = (struct hv_op_listing){.count = count};
    for (unsigned i = 0; i < HV_OP_LISTED_MAX; i++) {
        peer.answer.body.listing.listed[i].handle = first + i * step;
    }
    return peer_hear() && peer.request.header.op == HV_OP_LIST &&
           peer_say(HV_OP_LIST, peer.request.header.serial, 0, sizeof(peer.answer.body.listing),
                    -1);
}

/* In parts, as many as there are; but not without an end, nor more than a message has room for. */
static void test_listing(void)
{
    static const struct {
        uint32_t count;
        uint64_t first, step;
        gint listed;
    } parts[] = {
        {3, HV_OP_LISTED_MAX + 1, 5, HV_OP_LISTED_MAX + 3},
        {HV_OP_LISTED_MAX, HV_OP_LISTED_MAX, 1, HV_OP_LISTED_MAX},
        {HV_OP_LISTED_MAX, HV_OP_LISTED_MAX + 1, 0x10000, HV_OP_LISTED_MAX},
        {HV_OP_LISTED_MAX + 1, HV_OP_LISTED_MAX + 1, 1, HV_OP_LISTED_MAX},
    };

    TAP_OK(peer_begin());
    for (unsigned i = 0; i < HV_ARRAY_LEN(parts); i++) {
        GThread *thread;

        g_atomic_int_set(&listed, -1);
        thread = g_thread_new("list", list, peer.core);
        TAP_OK(tell_listing(HV_OP_LISTED_MAX, 1, 1));
        TAP_OK(tell_listing(parts[i].count, parts[i].first, parts[i].step));
        TAP_AWAIT(g_atomic_int_get(&listed) == parts[i].listed);
        g_thread_join(thread);
    }
    peer_end();
}

static bool write_output(uint64_t handle, uint64_t position, const char *text)
{
    struct hv_op_console *console = &peer.answer.body.console;

    memset(console, 0, sizeof(*console));
    console->handle = handle;
    console->position = position;
    console->bytes = (uint32_t)strlen(text);
    memcpy(console->data, text, strlen(text));
    return peer_say(HV_OP_CONSOLE, 0, 0, offsetof(struct hv_op_console, data) + strlen(text), -1);
}

/* Sent again, it is taken once; lost, it is left out; of no machine, it is nobody's. */
static void test_output(void)
{
    struct hv_domain *domain;

    TAP_OK(peer_begin());
    domain = make();
    TAP_OK(domain);
    TAP_OK(write_output(0x10001, 0, "abcd"));
    TAP_OK(peer_hear() && peer.request.header.op == HV_OP_ACCEPT);
    TAP_EQ(peer.request.body.accept.position, 4u);
    TAP_OK(write_output(0x10001, 2, "cdef"));
    TAP_OK(peer_hear());
    TAP_EQ(peer.request.body.accept.position, 6u);
    TAP_OK(write_output(0x99999, 0, "nobody's"));
    TAP_OK(write_output(0x10001, 0, "abc"));
    TAP_OK(write_output(0x10001, 100, "xyz"));
    TAP_OK(peer_hear());
    TAP_EQ(peer.request.body.accept.position, 103u);
    TAP_OK(capture_is("abcdefxyz"));
    hv_domain_put(domain);
    peer_end();
}

/* As much as may wait for somebody to take it, from @position on. */
static bool fill_window(uint64_t position)
{
    char text[HV_OP_CONSOLE_BYTES / 2 + 1] = "";

    memset(text, 'x', sizeof(text) - 1);
    for (uint64_t at = 0; at < HV_OP_CONSOLE_WINDOW; at += strlen(text)) {
        if (!write_output(0x10001, position + at, text)) {
            return false;
        }
    }
    return true;
}

/* A whole window waits, and is taken late; one byte more, and the connection is lost. */
static void test_output_beyond(void)
{
    struct hv_domain *domain;

    TAP_OK(peer_begin());
    capture_set_room(0);
    domain = make();
    TAP_OK(domain);
    TAP_OK(fill_window(0));
    capture_set_room(G_MAXSIZE);
    hv_domain_console_writable(domain);
    do {
        TAP_OK(peer_hear() && peer.request.header.op == HV_OP_ACCEPT);
    } while (peer.request.body.accept.position < HV_OP_CONSOLE_WINDOW);
    capture_set_room(0);
    TAP_OK(fill_window(HV_OP_CONSOLE_WINDOW));
    TAP_OK(write_output(0x10001, UINT64_C(2) * HV_OP_CONSOLE_WINDOW, "y"));
    TAP_AWAIT(g_atomic_int_get(&peer.lost) == 1);
    hv_domain_put(domain);
    peer_end();
}

static gint taken_at_detach;

static void *detach(void *domain)
{
    lodge_core_client_detach(domain);
    g_atomic_int_set(&taken_at_detach, capture_slow_taken());
    return NULL;
}

/* As soon as there is no other: whoever detaches it has begun to. */
static void *attach(void *domain)
{
    uint64_t position;
    int rc;

    do {
        rc = lodge_core_client_attach(domain, &capture_ops, NULL, &position);
    } while (rc == -EEXIST);
    return GINT_TO_POINTER(rc);
}

/* Who has taken its console away may free it: nobody is in it, and nobody goes there again. Output that
 * the machine owed comes after it was destroyed, and before it is said to be gone. */
static void test_detach(void)
{
    struct hv_domain *domain;
    GThread *detacher, *attacher;

    taken_at_detach = -1;
    TAP_OK(peer_begin());
    console_of_made = &capture_slow_ops;
    domain = make();
    console_of_made = &capture_ops;
    TAP_OK(domain);
    TAP_OK(write_output(0x10001, 0, "abc"));
    TAP_AWAIT(capture_slow_begun());
    detacher = g_thread_new("detach", detach, domain);
    attacher = g_thread_new("attach", attach, domain);
    TAP_OK(peer_hear() && peer.request.header.op == HV_OP_ATTACH);
    /* Time for one that does not wait. */
    for (unsigned i = 0; i < 1000 && g_atomic_int_get(&taken_at_detach) < 0; i++) {
        sched_yield();
    }
    memset(&peer.answer.body.refusal, 0, sizeof(peer.answer.body.refusal));
    TAP_OK(peer_say(HV_OP_ATTACH, peer.request.header.serial, -ENOENT,
                    sizeof(peer.answer.body.refusal), -1));
    capture_slow_go();
    TAP_EQ(GPOINTER_TO_INT(g_thread_join(attacher)), -ENOENT);
    g_thread_join(detacher);
    TAP_EQ(g_atomic_int_get(&taken_at_detach), 3);
    TAP_OK(peer_hear() && peer.request.header.op == HV_OP_ACCEPT);
    TAP_OK(write_output(0x10001, 3, "owed"));
    hv_domain_console_writable(domain);
    peer.answer.body.state = (struct hv_op_state){0x10001, {.state = HV_DOMAIN_STATE_GONE}};
    TAP_OK(peer_say(HV_OP_STATE, 0, 0, sizeof(peer.answer.body.state), -1));
    TAP_AWAIT(g_atomic_int_get(&peer.states) == 1);
    TAP_EQ(capture_slow_taken(), 3);
    TAP_OK(capture_is(""));
    hv_domain_put(domain);
    peer_end();
}

#define ALL_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

static struct {
    struct hv_stat_pages_record record[2];
    struct hv_op_histogram first;
    uint32_t first_counts[4]; /* three, and zeros */
    struct hv_op_histogram second;
    uint32_t second_counts[2];
} file;

static struct hv_stat stats[10];
static struct hv_lock_histogram histograms[10];
static size_t room = 10; /* in either */

static void *read_locks(void *context)
{
    struct hv_lock_lists *lists = context;

    *lists = (struct hv_lock_lists){
        .stats = stats, .stat_max = room, .histograms = histograms, .histogram_max = room};
    hv_core_get_lock_lists(peer.core, lists);
    return NULL;
}

static bool report(const struct hv_op_stats_list *list, size_t bytes, int seals,
                   struct hv_lock_lists *lists_out)
{
    GThread *thread = g_thread_new("read", read_locks, lists_out);
    bool sent;

    sent = peer_hear() && peer.request.header.op == HV_OP_STATS;
    peer.answer.body.stats = *list;
    sent = sent && peer_say(HV_OP_STATS, peer.request.header.serial, 0, sizeof(*list),
                            make_file(&file, bytes, seals));
    g_thread_join(thread);
    return sent;
}

static void fill_file(void)
{
    memset(&file, 0, sizeof(file));
    memset(file.record[0].name, 'n', sizeof(file.record[0].name)); /* without an end */
    file.record[0].value = 5;
    memcpy(file.record[1].name, "second", 7);
    file.record[1].is_text = 7;
    memset(file.record[1].text, 't', sizeof(file.record[1].text));
    file.first = (struct hv_op_histogram){.row = 3, .span = 1, .buckets = 3, .total_ns = 9};
    file.first_counts[2] = 77;
    file.second = (struct hv_op_histogram){.row = 4, .span = 2, .buckets = 2, .max_ns = 8};
    file.second_counts[1] = 88;
}

static void test_report(void)
{
    const struct hv_op_stats_list good = {2, 2, 2, 2};
    struct hv_op_stats_list list = good;
    struct hv_lock_lists lists;

    TAP_OK(peer_begin());
    fill_file();
    TAP_OK(report(&good, sizeof(file), ALL_SEALS, &lists));
    TAP_EQ(lists.stat_count, 2u);
    TAP_EQ(strlen(stats[0].name), sizeof(stats[0].name) - 1);
    TAP_EQ(stats[0].value, 5u);
    TAP_OK(stats[1].is_text && strlen(stats[1].text) == sizeof(stats[1].text) - 1);
    TAP_EQ(lists.histogram_count, 2u);
    TAP_EQ(histograms[0].counts[2], 77u);
    TAP_EQ(histograms[1].row, 4u);
    TAP_EQ(histograms[1].counts[1], 88u);
    /* It could be made shorter, or changed, under the reader's eyes. */
    TAP_OK(report(&good, sizeof(file), F_SEAL_GROW | F_SEAL_WRITE, &lists));
    TAP_EQ(lists.stat_count + lists.histogram_count, 0u);
    TAP_OK(report(&good, sizeof(file), F_SEAL_GROW | F_SEAL_SHRINK, &lists));
    TAP_EQ(lists.stat_count + lists.histogram_count, 0u);
    /* Shorter than it is said to be. */
    TAP_OK(report(&good, 2 * sizeof(file.record[0]) - 1, ALL_SEALS, &lists));
    TAP_EQ(lists.stat_count, 0u);
    for (size_t bytes = 2 * sizeof(file.record[0]); bytes < sizeof(file); bytes++) {
        TAP_OK(report(&good, bytes, ALL_SEALS, &lists));
        TAP_EQ(lists.stat_count, 2u);
        TAP_OK(lists.histogram_count < 2);
    }
    list.count = UINT64_MAX / sizeof(file.record[0]) + 2;
    TAP_OK(report(&list, sizeof(file), ALL_SEALS, &lists));
    TAP_EQ(lists.stat_count, 0u);
    list = good;
    list.histograms = UINT64_MAX;
    TAP_OK(report(&list, sizeof(file), ALL_SEALS, &lists));
    TAP_EQ(lists.histogram_count, 2u);
    /* Who has no room for all makes it for what is said to be there: no more than a core sends. */
    list = (struct hv_op_stats_list){2, UINT64_MAX, 2, UINT64_MAX};
    room = 2;
    TAP_OK(report(&list, sizeof(file), ALL_SEALS, &lists));
    room = 10;
    TAP_EQ(lists.stat_count, HV_OP_STAT_RECORDS_MAX);
    TAP_EQ(lists.histogram_count, HV_OP_HISTOGRAMS_MAX);
    file.first.buckets = HV_LOCK_HISTOGRAM_BUCKETS + 1;
    TAP_OK(report(&good, sizeof(file), ALL_SEALS, &lists));
    TAP_EQ(lists.histogram_count, 0u);
    file.first.buckets = UINT32_MAX;
    TAP_OK(report(&good, sizeof(file), ALL_SEALS, &lists));
    TAP_EQ(lists.histogram_count, 0u);
    peer_end();
}

static gint asking, written;

static void *write_stats(void *context)
{
    int rc;

    g_atomic_int_inc(&asking);
    rc = hv_core_write_stats(context);
    g_atomic_int_inc(&written);
    return GINT_TO_POINTER(rc);
}

static bool is_asked(void)
{
    char first;

    return recv(peer.fd, &first, sizeof(first), MSG_PEEK | MSG_DONTWAIT) >= 0;
}

/* What is younger than the core is refused by it as no operation, and nothing else ends by that. */
static void test_older_core(void)
{
    TAP_OK(peer_begin());
    for (unsigned i = 0; i < 2; i++) {
        GThread *thread = g_thread_new("write", write_stats, peer.core);

        TAP_OK(peer_hear() && peer.request.header.op == HV_OP_EXPORT);
        memset(&peer.answer.body, 0, sizeof(peer.answer.body));
        TAP_OK(i == 0 ? peer_say(HV_OP_EXPORT, peer.request.header.serial, -EPROTO,
                                 sizeof(peer.answer.body.refusal), -1)
                      : peer_say(HV_OP_EXPORT, peer.request.header.serial, 0, 0, -1));
        TAP_EQ(GPOINTER_TO_INT(g_thread_join(thread)), i == 0 ? -ENOTSUP : 0);
    }
    TAP_EQ(g_atomic_int_get(&peer.lost), 0);
    peer_end();
}

/* However many want them written: one question at a time, and nobody has what began before he asked. */
static void test_write_stats(void)
{
    GThread *threads[4];
    unsigned questions = 0;

    asking = written = 0;
    TAP_OK(peer_begin());
    threads[0] = g_thread_new("write", write_stats, peer.core);
    while (g_atomic_int_get(&written) < (gint)HV_ARRAY_LEN(threads)) {
        if (!is_asked()) {
            sched_yield();
            continue;
        }
        TAP_OK(peer_hear() && peer.request.header.op == HV_OP_EXPORT);
        for (unsigned i = 1; questions == 0 && i < HV_ARRAY_LEN(threads); i++) {
            threads[i] = g_thread_new("write", write_stats, peer.core);
        }
        TAP_AWAIT(g_atomic_int_get(&asking) == (gint)HV_ARRAY_LEN(threads));
        for (unsigned i = 0; i < 1000; i++) { /* time for one that does not wait */
            TAP_OK(!is_asked());
            sched_yield();
        }
        questions++;
        TAP_OK(peer_say(HV_OP_EXPORT, peer.request.header.serial, 0, 0, -1));
    }
    TAP_OK(questions >= 2 && questions <= HV_ARRAY_LEN(threads));
    tap_note("%u questions for %zu callers", questions, HV_ARRAY_LEN(threads));
    for (unsigned i = 0; i < HV_ARRAY_LEN(threads); i++) {
        TAP_EQ(GPOINTER_TO_INT(g_thread_join(threads[i])), 0);
    }
    peer_end();
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"wire.core-client.welcomes", test_welcomes},
        {"wire.core-client.answers", test_answers},
        {"wire.core-client.older-core", test_older_core},
        {"wire.core-client.refusal", test_refusal},
        {"wire.core-client.listing", test_listing},
        {"wire.core-client.output", test_output},
        {"wire.core-client.output-beyond", test_output_beyond},
        {"wire.core-client.detach", test_detach},
        {"wire.core-client.report", test_report},
        {"wire.core-client.write-stats", test_write_stats},
    };
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

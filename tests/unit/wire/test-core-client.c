/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The core's client before a core that says what no core says. */
#include "capture.h"
#include "lib/tap.h"
#include "lib/threads.h"

#include "wire/core-client.h"

#include <errno.h>
#include <fcntl.h>
#include <hv/lock-stats.h>
#include <hv/op.h>
#include <hv/stat-pages.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

/* The other end: this thread is the core, and a second one asks. */
static int core_end;
static struct hv_core *core;
static struct hv_op_request request;
static struct hv_op_answer answer;

static gint lost, states;

static void on_lost(gpointer user_data)
{
    (void)user_data;
    g_atomic_int_inc(&lost);
}

static void on_state(gpointer user_data, hv_handle handle, const struct hv_domain_status *status)
{
    (void)user_data, (void)handle, (void)status;
    g_atomic_int_inc(&states);
}

static const LodgeCoreEvents events = {.state = on_state, .lost = on_lost};

static bool hear(void)
{
    return recv(core_end, &request, sizeof(request), 0) >= (ssize_t)sizeof(request.header);
}

/* A message with @body bytes and a descriptor, which is closed, or -1. */
static bool say(uint32_t op, uint64_t serial, int32_t result, size_t body, int fd)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec part = {&answer, sizeof(answer.header) + body};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    bool sent;

    answer.header = (struct hv_op_header){
        .bytes = (uint32_t)part.iov_len, .op = op, .serial = serial, .result = result};
    if (fd >= 0) {
        message.msg_control = &control;
        message.msg_controllen = sizeof(control);
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(&control.header), &fd, sizeof(int));
    }
    sent = sendmsg(core_end, &message, MSG_NOSIGNAL) == (ssize_t)part.iov_len;
    if (fd >= 0) {
        close(fd);
    }
    return sent;
}

static int make_file(const void *data, size_t bytes, int seals)
{
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (write(fd, data, bytes) != (ssize_t)bytes || fcntl(fd, F_ADD_SEALS, seals) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static void *adopt(void *fd)
{
    return lodge_core_client_adopt(GPOINTER_TO_INT(fd), &events, NULL, NULL);
}

static void fill_welcome(void)
{
    answer.body.welcome = (struct hv_op_welcome){
        .magic = HV_OP_MAGIC,
        .version = HV_OP_VERSION,
        .staging_bytes = HV_OP_STAGING_BYTES,
        .epoch = 1,
    };
}

static int make_staging_file(off_t bytes, int seals)
{
    int fd = memfd_create("staging", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    bool good = fd >= 0 && ftruncate(fd, bytes) == 0 && fcntl(fd, F_ADD_SEALS, seals) == 0;

    return good ? fd : -1;
}

static int make_staging(void)
{
    return make_staging_file((off_t)HV_OP_STAGING_BYTES, F_SEAL_SHRINK);
}

/* Connect; HELLO is heard, and not answered yet. */
static GThread *greet(void)
{
    int pair[2];
    GThread *thread;

    lost = states = 0;
    capture_begin(G_MAXSIZE);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        return NULL;
    }
    core_end = pair[1];
    thread = g_thread_new("adopt", adopt, GINT_TO_POINTER(pair[0]));
    return hear() && request.header.op == HV_OP_HELLO ? thread : NULL;
}

static bool begin(void)
{
    GThread *thread = greet();

    fill_welcome();
    if (!thread || !say(HV_OP_HELLO, 1, 0, sizeof(answer.body.welcome), make_staging())) {
        return false;
    }
    core = g_thread_join(thread);
    return core != NULL;
}

static void end(void)
{
    lodge_core_client_close(core);
    close(core_end);
}

/* Welcomes that are none. */
static void test_welcomes(void)
{
    for (unsigned i = 0; i < 9; i++) {
        GThread *thread = greet();
        size_t body = sizeof(answer.body.welcome);
        int fd = make_staging();

        TAP_OK(thread);
        fill_welcome();
        answer.body.welcome.magic += i == 0;
        answer.body.welcome.version += i == 1;
        answer.body.welcome.staging_bytes += i == 2;
        body -= i == 3;
        if (i == 4) {
            close(fd);
            fd = -1;
        }
        if (i >= 7) { /* a write to it would end us, now or later */
            close(fd);
            fd = i == 7 ? make_staging_file((off_t)HV_OP_STAGING_BYTES - 1, F_SEAL_SHRINK)
                        : make_staging_file((off_t)HV_OP_STAGING_BYTES, F_SEAL_GROW);
            TAP_OK(fd >= 0);
        }
        TAP_OK(say(i == 5 ? HV_OP_LIST : HV_OP_HELLO, 1, i == 6 ? -EPERM : 0, body, fd));
        TAP_OK(g_thread_join(thread) == NULL);
        close(core_end);
    }
}

static void *write_stats(void *context)
{
    return GINT_TO_POINTER(hv_core_write_stats(context));
}

/* What is younger than the core is refused by it as no operation, and nothing else ends by that. */
static void test_older_core(void)
{
    TAP_OK(begin());
    for (unsigned i = 0; i < 2; i++) {
        GThread *thread = g_thread_new("write", write_stats, core);

        TAP_OK(hear() && request.header.op == HV_OP_EXPORT);
        memset(&answer.body, 0, sizeof(answer.body));
        TAP_OK(i == 0 ? say(HV_OP_EXPORT, request.header.serial, -EPROTO,
                            sizeof(answer.body.refusal), -1)
                      : say(HV_OP_EXPORT, request.header.serial, 0, 0, -1));
        TAP_EQ(GPOINTER_TO_INT(g_thread_join(thread)), i == 0 ? -ENOTSUP : 0);
    }
    TAP_EQ(g_atomic_int_get(&lost), 0);
    end();
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
    GThread *thread = g_thread_new("create", create, core);

    memset(&answer.body.made, 0, sizeof(answer.body.made));
    answer.body.made.handle = 0x10001;
    memset(answer.body.made.name, 'n', sizeof(answer.body.made.name)); /* without an end */
    if (!hear() || request.header.op != HV_OP_CREATE ||
        !say(HV_OP_CREATE, request.header.serial, 0, sizeof(answer.body.made), -1)) {
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

        TAP_OK(begin());
        domain = make();
        TAP_OK(domain);
        TAP_EQ(strlen(hv_domain_name(domain)), 63u);
        thread = g_thread_new("pause", pause_domain, domain);
        TAP_OK(hear() && request.header.op == HV_OP_PAUSE);
        serial = request.header.serial;
        memset(&answer.body, 0, sizeof(answer.body));
        switch (i) {
        case 0: /* of another */
            TAP_OK(say(HV_OP_PAUSE, serial + 1, 0, 0, -1));
            break;
        case 1:
            TAP_OK(say(HV_OP_RESET, serial, 0, 0, -1));
            break;
        case 2: /* longer than it may be, and shorter */
            TAP_OK(say(HV_OP_PAUSE, serial, 0, 8, -1));
            break;
        case 3:
            TAP_OK(say(HV_OP_PAUSE, serial, -EBUSY, 0, -1));
            break;
        case 4: /* neither good nor an errno */
            TAP_OK(say(HV_OP_PAUSE, serial, 1, 0, -1));
            break;
        case 5: /* events: one of no kind, one too short, one that says too much */
            TAP_OK(say(HV_OP_PAUSE, 0, 0, 0, -1));
            break;
        case 6:
            TAP_OK(say(HV_OP_STATE, 0, 0, sizeof(struct hv_op_state) - 1, -1));
            break;
        default:
            answer.body.console.bytes = HV_OP_CONSOLE_BYTES;
            TAP_OK(say(HV_OP_CONSOLE, 0, 0, offsetof(struct hv_op_console, data) + 1, -1));
            break;
        }
        TAP_EQ(GPOINTER_TO_INT(g_thread_join(thread)), -ENOTCONN);
        TAP_AWAIT(g_atomic_int_get(&lost) == 1);
        hv_domain_put(domain);
        end();
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

    TAP_OK(begin());
    thread = g_thread_new("create", create_refused, core);
    TAP_OK(hear() && request.header.op == HV_OP_CREATE);
    memset(answer.body.refusal.why, 'w', sizeof(answer.body.refusal.why));
    TAP_OK(say(HV_OP_CREATE, request.header.serial, -EBUSY, sizeof(answer.body.refusal), -1));
    TAP_EQ(GPOINTER_TO_INT(g_thread_join(thread)), -EBUSY);
    TAP_EQ(strlen(refused_why), sizeof(answer.body.refusal.why));
    end();
}

static gint listed;

static void *list(void *context)
{
    g_atomic_int_set(&listed, (gint)hv_core_list(context, NULL, 0));
    return NULL;
}

static bool tell_listing(uint32_t count, uint64_t first, uint64_t step)
{
    answer.body.listing = (struct hv_op_listing){.count = count};
    for (unsigned i = 0; i < HV_OP_LISTED_MAX; i++) {
        answer.body.listing.listed[i].handle = first + i * step;
    }
    return hear() && request.header.op == HV_OP_LIST &&
           say(HV_OP_LIST, request.header.serial, 0, sizeof(answer.body.listing), -1);
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

    TAP_OK(begin());
    for (unsigned i = 0; i < HV_ARRAY_LEN(parts); i++) {
        GThread *thread;

        g_atomic_int_set(&listed, -1);
        thread = g_thread_new("list", list, core);
        TAP_OK(tell_listing(HV_OP_LISTED_MAX, 1, 1));
        TAP_OK(tell_listing(parts[i].count, parts[i].first, parts[i].step));
        TAP_AWAIT(g_atomic_int_get(&listed) == parts[i].listed);
        g_thread_join(thread);
    }
    end();
}

static bool write_output(uint64_t handle, uint64_t position, const char *text)
{
    struct hv_op_console *console = &answer.body.console;

    memset(console, 0, sizeof(*console));
    console->handle = handle;
    console->position = position;
    console->bytes = (uint32_t)strlen(text);
    memcpy(console->data, text, strlen(text));
    return say(HV_OP_CONSOLE, 0, 0, offsetof(struct hv_op_console, data) + strlen(text), -1);
}

/* Sent again, it is taken once; lost, it is left out; of no machine, it is nobody's. */
static void test_output(void)
{
    struct hv_domain *domain;

    TAP_OK(begin());
    domain = make();
    TAP_OK(domain);
    TAP_OK(write_output(0x10001, 0, "abcd"));
    TAP_OK(hear() && request.header.op == HV_OP_ACCEPT);
    TAP_EQ(request.body.accept.position, 4u);
    TAP_OK(write_output(0x10001, 2, "cdef"));
    TAP_OK(hear());
    TAP_EQ(request.body.accept.position, 6u);
    TAP_OK(write_output(0x99999, 0, "nobody's"));
    TAP_OK(write_output(0x10001, 0, "abc"));
    TAP_OK(write_output(0x10001, 100, "xyz"));
    TAP_OK(hear());
    TAP_EQ(request.body.accept.position, 103u);
    TAP_OK(capture_is("abcdefxyz"));
    hv_domain_put(domain);
    end();
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

    TAP_OK(begin());
    capture_set_room(0);
    domain = make();
    TAP_OK(domain);
    TAP_OK(fill_window(0));
    capture_set_room(G_MAXSIZE);
    hv_domain_console_writable(domain);
    do {
        TAP_OK(hear() && request.header.op == HV_OP_ACCEPT);
    } while (request.body.accept.position < HV_OP_CONSOLE_WINDOW);
    capture_set_room(0);
    TAP_OK(fill_window(HV_OP_CONSOLE_WINDOW));
    TAP_OK(write_output(0x10001, UINT64_C(2) * HV_OP_CONSOLE_WINDOW, "y"));
    TAP_AWAIT(g_atomic_int_get(&lost) == 1);
    hv_domain_put(domain);
    end();
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
    TAP_OK(begin());
    console_of_made = &capture_slow_ops;
    domain = make();
    console_of_made = &capture_ops;
    TAP_OK(domain);
    TAP_OK(write_output(0x10001, 0, "abc"));
    TAP_AWAIT(capture_slow_begun());
    detacher = g_thread_new("detach", detach, domain);
    attacher = g_thread_new("attach", attach, domain);
    TAP_OK(hear() && request.header.op == HV_OP_ATTACH);
    /* Time for one that does not wait. */
    for (unsigned i = 0; i < 1000 && g_atomic_int_get(&taken_at_detach) < 0; i++) {
        sched_yield();
    }
    memset(&answer.body.refusal, 0, sizeof(answer.body.refusal));
    TAP_OK(say(HV_OP_ATTACH, request.header.serial, -ENOENT, sizeof(answer.body.refusal), -1));
    capture_slow_go();
    TAP_EQ(GPOINTER_TO_INT(g_thread_join(attacher)), -ENOENT);
    g_thread_join(detacher);
    TAP_EQ(g_atomic_int_get(&taken_at_detach), 3);
    TAP_OK(hear() && request.header.op == HV_OP_ACCEPT);
    TAP_OK(write_output(0x10001, 3, "owed"));
    hv_domain_console_writable(domain);
    answer.body.state = (struct hv_op_state){0x10001, {.state = HV_DOMAIN_STATE_GONE}};
    TAP_OK(say(HV_OP_STATE, 0, 0, sizeof(answer.body.state), -1));
    TAP_AWAIT(g_atomic_int_get(&states) == 1);
    TAP_EQ(capture_slow_taken(), 3);
    TAP_OK(capture_is(""));
    hv_domain_put(domain);
    end();
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
    hv_core_get_lock_lists(core, lists);
    return NULL;
}

static bool report(const struct hv_op_stats_list *list, size_t bytes, int seals,
                   struct hv_lock_lists *lists_out)
{
    GThread *thread = g_thread_new("read", read_locks, lists_out);
    bool sent;

    sent = hear() && request.header.op == HV_OP_STATS;
    answer.body.stats = *list;
    sent = sent && say(HV_OP_STATS, request.header.serial, 0, sizeof(*list),
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

    TAP_OK(begin());
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
    end();
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
    };
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

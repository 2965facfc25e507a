/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Messages of libvirt's protocol: as they were seen on a socket, and as nobody sends them. */
#include "lib/tap.h"
#include "wire/libvirt.h"
#include "wire/message-reader.h"
#include "wire/procedures.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* SCM_MAX_FD of Linux: of one sendmsg(). */
#define KERNEL_FDS_MAX 253u

/* connect_open of a libvirt 9.0 client. */
static const guint8 open_call[] = {
    0x00, 0x00, 0x00, 0x38, 0x20, 0x00, 0x80, 0x86, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00,
    0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x10, 'l',  'o',  'd',  'g',  'e',  ':',
    '/',  '/',  '/',  's',  'e',  's',  's',  'i',  'o',  'n',  0x00, 0x00, 0x00, 0x00,
};

static void test_known(void)
{
    const LodgeProcedure *procedure = lodge_procedure_find(LV_REMOTE, LV_CONNECT_OPEN);
    lv_connect_open_args args = {0};
    LodgeMessageHeader header;
    g_autoptr(GBytes) again = NULL;
    guint32 length;

    TAP_OK(lodge_message_parse(open_call, &header, &length, NULL));
    TAP_EQ(length, sizeof(open_call));
    TAP_EQ(header.program, LV_REMOTE);
    TAP_EQ(header.procedure, LV_CONNECT_OPEN);
    TAP_EQ(header.type, LODGE_MESSAGE_CALL);
    TAP_EQ(header.serial, 2);
    TAP_OK(lodge_message_decode(open_call + LODGE_MESSAGE_HEADER_BYTES,
                                sizeof(open_call) - LODGE_MESSAGE_HEADER_BYTES, procedure->args_xdr,
                                &args, NULL));
    TAP_STR(*args.name, "lodge:///session");
    TAP_EQ(args.flags, 0);
    again = lodge_message_encode(&header, procedure->args_xdr, &args, NULL);
    TAP_EQ(g_bytes_get_size(again), sizeof(open_call));
    TAP_EQ(memcmp(g_bytes_get_data(again, NULL), open_call, sizeof(open_call)), 0);
    lodge_message_free(procedure->args_xdr, &args);
}

static void test_lengths(void)
{
    static const struct {
        guint32 length;
        gboolean good;
    } lengths[] = {
        {0, FALSE},
        {27, FALSE},
        {28, TRUE},
        {LODGE_MESSAGE_BYTES_MAX, TRUE},
        {LODGE_MESSAGE_BYTES_MAX + 1, FALSE},
        {G_MAXUINT32, FALSE},
    };

    for (gsize i = 0; i < G_N_ELEMENTS(lengths); i++) {
        guint8 bytes[LODGE_MESSAGE_HEADER_BYTES];
        guint32 stated = GUINT32_TO_BE(lengths[i].length), length;
        g_autoptr(GError) error = NULL;
        LodgeMessageHeader header;

        memcpy(bytes, open_call, sizeof(bytes));
        memcpy(bytes, &stated, sizeof(stated));
        TAP_EQ(lodge_message_parse(bytes, &header, &length, &error), lengths[i].good);
        TAP_EQ(error == NULL, lengths[i].good);
    }
}

/* However the bytes come, the messages are the same. */
static void test_pieces(void)
{
    for (gsize step = 1; step <= sizeof(open_call) * 2; step++) {
        guint8 two[2 * sizeof(open_call)];
        LodgeMessageReader reader;
        guint messages = 0;

        memcpy(two, open_call, sizeof(open_call));
        memcpy(two + sizeof(open_call), open_call, sizeof(open_call));
        lodge_message_reader_init(&reader);
        for (gsize at = 0; at < sizeof(two); at += step) {
            LodgeMessageHeader header;
            const guint8 *payload;
            gsize bytes;

            lodge_message_reader_feed(&reader, two + at, MIN(step, sizeof(two) - at));
            while (lodge_message_reader_next(&reader, &header, &payload, &bytes, NULL) ==
                   LODGE_READER_MESSAGE) {
                messages++;
                TAP_EQ(bytes, sizeof(open_call) - LODGE_MESSAGE_HEADER_BYTES);
                TAP_EQ(memcmp(payload, open_call + LODGE_MESSAGE_HEADER_BYTES, bytes), 0);
            }
        }
        TAP_EQ(messages, 2);
        lodge_message_reader_finish(&reader);
    }
}

/* A length takes no memory before its bytes are there. */
static void test_long_promise(void)
{
    const guint32 most = GUINT32_TO_BE(LODGE_MESSAGE_BYTES_MAX);
    LodgeMessageHeader header;
    LodgeMessageReader reader;
    const guint8 *payload;
    gsize bytes;

    lodge_message_reader_init(&reader);
    lodge_message_reader_feed(&reader, &most, sizeof(most));
    lodge_message_reader_feed(&reader, open_call + 4, sizeof(open_call) - 4);
    TAP_EQ(lodge_message_reader_next(&reader, &header, &payload, &bytes, NULL), LODGE_READER_MORE);
    TAP_EQ(reader.bytes->len, sizeof(open_call));
    lodge_message_reader_finish(&reader);
}

/* A call with that count of descriptors and no arguments. */
static gsize put_call_with_fds(guint8 *to, guint32 serial, guint32 count)
{
    const guint32 words[] = {
        GUINT32_TO_BE(LODGE_MESSAGE_HEADER_BYTES + sizeof(count)),
        GUINT32_TO_BE(LV_REMOTE),
        GUINT32_TO_BE(LODGE_MESSAGE_VERSION),
        GUINT32_TO_BE(LV_DOMAIN_FD_ASSOCIATE),
        GUINT32_TO_BE(LODGE_MESSAGE_CALL_WITH_FDS),
        GUINT32_TO_BE(serial),
        0,
        GUINT32_TO_BE(count),
    };

    memcpy(to, words, sizeof(words));
    return sizeof(words);
}

/* A byte with descriptors on it. */
static void send_fds(int socket, const int *fds, guint count)
{
    union {
        struct cmsghdr aligned;
        guint8 room[CMSG_SPACE(KERNEL_FDS_MAX * sizeof(int))];
    } ancillary = {0};
    struct iovec byte = {.iov_base = (char[]){0}, .iov_len = 1};
    struct msghdr message = {.msg_iov = &byte,
                             .msg_iovlen = 1,
                             .msg_control = &ancillary,
                             .msg_controllen = CMSG_SPACE(count * sizeof(int))};
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);

    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(rights), fds, count * sizeof(int));
    TAP_EQ(sendmsg(socket, &message, 0), 1);
}

static guint count_open(void)
{
    g_autoptr(GDir) dir = g_dir_open("/proc/self/fd", 0, NULL);
    guint count = 0;

    while (g_dir_read_name(dir)) {
        count++;
    }
    return count;
}

/* Two calls, read before the first is whole and after the second: each gets its own, in their order. */
static void test_descriptors(void)
{
    guint before = count_open();
    guint8 call[64];
    gsize length = put_call_with_fds(call, 1, 2);
    int pair[2], pipes[2];
    LodgeMessageReader reader;
    LodgeMessageHeader header;
    const guint8 *payload;
    gsize bytes;

    TAP_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    TAP_EQ(pipe2(pipes, O_CLOEXEC), 0);
    lodge_message_reader_init(&reader);
    TAP_EQ(send(pair[0], call, length, 0), (gssize)length);
    send_fds(pair[0], &pipes[0], 1);
    TAP_OK(lodge_message_reader_fill(&reader, pair[1]) > 0);
    TAP_EQ(lodge_message_reader_next(&reader, &header, &payload, &bytes, NULL), LODGE_READER_MORE);
    send_fds(pair[0], &pipes[1], 1);
    length = put_call_with_fds(call, 2, 1);
    TAP_EQ(send(pair[0], call, length, 0), (gssize)length);
    send_fds(pair[0], &pipes[0], 1);
    while (lodge_message_reader_fill(&reader, pair[1]) > 0) {
    }
    for (guint32 serial = 1; serial <= 2; serial++) {
        TAP_EQ(lodge_message_reader_next(&reader, &header, &payload, &bytes, NULL),
               LODGE_READER_MESSAGE);
        TAP_EQ(header.serial, serial);
        TAP_EQ(bytes, 0);
        if (serial == 1) {
            g_autoptr(GUnixFDList) fds = lodge_message_reader_steal_fds(&reader);
            const gint *both = g_unix_fd_list_peek_fds(fds, NULL);
            char got = 0;

            TAP_EQ(g_unix_fd_list_get_length(fds), 2);
            TAP_EQ(write(both[1], "x", 1), 1);
            TAP_EQ(read(both[0], &got, 1), 1);
            TAP_EQ(got, 'x');
            TAP_EQ(fcntl(both[0], F_GETFD), FD_CLOEXEC);
        }
    }
    TAP_EQ(lodge_message_reader_next(&reader, &header, &payload, &bytes, NULL), LODGE_READER_MORE);
    TAP_OK(!lodge_message_reader_steal_fds(&reader));
    lodge_message_reader_finish(&reader);
    for (gsize i = 0; i < 2; i++) {
        close(pair[i]);
        close(pipes[i]);
    }
    TAP_EQ(count_open(), before);
}

/* Counts that no message has, and bytes without the descriptors that they announce. */
static void test_descriptors_wrong(void)
{
    static const struct {
        guint32 count;
        gsize bytes_after;
        LodgeReaderResult result;
    } rows[] = {
        {0, 0, LODGE_READER_MESSAGE},
        {1, 0, LODGE_READER_MORE},
        {1, 1, LODGE_READER_BAD},
        {LODGE_MESSAGE_FDS_MAX, 0, LODGE_READER_MORE},
        {LODGE_MESSAGE_FDS_MAX + 1, 0, LODGE_READER_BAD},
        {G_MAXUINT32, 0, LODGE_READER_BAD},
    };
    const guint8 zero = 0;
    guint8 call[64];
    LodgeMessageReader reader;
    LodgeMessageHeader header;
    const guint8 *payload;
    gsize bytes;

    for (gsize i = 0; i < G_N_ELEMENTS(rows); i++) {
        gsize length = put_call_with_fds(call, 1, rows[i].count);

        lodge_message_reader_init(&reader);
        lodge_message_reader_feed(&reader, call, length);
        lodge_message_reader_feed(&reader, &zero, rows[i].bytes_after);
        TAP_EQ(lodge_message_reader_next(&reader, &header, &payload, &bytes, NULL), rows[i].result);
        lodge_message_reader_finish(&reader);
    }
    /* The count itself is not there. */
    put_call_with_fds(call, 1, 0);
    call[3] = LODGE_MESSAGE_HEADER_BYTES;
    lodge_message_reader_init(&reader);
    lodge_message_reader_feed(&reader, call, LODGE_MESSAGE_HEADER_BYTES);
    TAP_EQ(lodge_message_reader_next(&reader, &header, &payload, &bytes, NULL), LODGE_READER_BAD);
    lodge_message_reader_finish(&reader);
}

/* Descriptors on bytes that announce none: few are held, too many end it, and all are closed. */
static void test_descriptors_too_many(void)
{
    static const guint at_a_time[] = {1, KERNEL_FDS_MAX};
    guint before = count_open();

    for (gsize i = 0; i < G_N_ELEMENTS(at_a_time); i++) {
        int many[KERNEL_FDS_MAX], pair[2];
        LodgeMessageReader reader;
        gssize got = 1;

        TAP_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
        for (gsize j = 0; j < G_N_ELEMENTS(many); j++) {
            many[j] = pair[0];
        }
        lodge_message_reader_init(&reader);
        for (guint sent = 0; got > 0 && sent <= LODGE_READER_FDS_MAX; sent++) {
            send_fds(pair[0], many, at_a_time[i]);
            got = lodge_message_reader_fill(&reader, pair[1]);
        }
        TAP_EQ(got, -EPROTO);
        TAP_OK(reader.fd_count <= LODGE_READER_FDS_MAX);
        lodge_message_reader_finish(&reader);
        close(pair[0]);
        close(pair[1]);
        TAP_EQ(count_open(), before);
    }
}

/* Calls with arguments that no client encodes. Words, big endian, behind a machine's handle. */
static void test_refused_arguments(void)
{
    static const struct {
        guint32 procedure;
        guint32 words[8];
        gsize count;
    } calls[] = {
        /* 17 parameters, and as many as a negative number can be taken for. */
        {LV_DOMAIN_SET_SCHEDULER_PARAMETERS, {17}, 1},
        {LV_DOMAIN_SET_SCHEDULER_PARAMETERS, {0xffffffff}, 1},
        /* A value of a type that there is not. */
        {LV_DOMAIN_SET_SCHEDULER_PARAMETERS, {1, 1, 0x61000000, 9, 0}, 5},
        /* A map of more bytes than there are, or than there may be. */
        {LV_DOMAIN_PIN_VCPU, {0, 8, 0}, 3},
        {LV_DOMAIN_PIN_VCPU, {0, 0xfffffff0, 0}, 3},
        /* Neither there nor not there. */
        {LV_DOMAIN_SET_METADATA, {2, 2, 0, 0, 0}, 5},
        /* What the procedure does not take, and too little of what it takes. */
        {LV_DOMAIN_CREATE, {0}, 1},
        {LV_DOMAIN_REBOOT, {0}, 0},
    };

    for (gsize i = 0; i < G_N_ELEMENTS(calls); i++) {
        const LodgeProcedure *procedure = lodge_procedure_find(LV_REMOTE, calls[i].procedure);
        g_autofree gpointer args = g_malloc0(procedure->args_bytes);
        guint8 payload[64] = {0, 0, 0, 1, 'a', 0, 0, 0};
        gsize bytes = 8 + LV_UUID_BYTES + 4;
        g_autoptr(GError) error = NULL;

        for (gsize j = 0; j < calls[i].count; j++, bytes += 4) {
            guint32 word = GUINT32_TO_BE(calls[i].words[j]);

            memcpy(payload + bytes, &word, sizeof(word));
        }
        TAP_OK(!lodge_message_decode(payload, bytes, procedure->args_xdr, args, &error));
        TAP_OK(error != NULL);
        lodge_message_free(procedure->args_xdr, args);
    }
}

/* What the protocol has no room for is an error of ours, not half a message. */
static void test_too_much_to_answer(void)
{
    const LodgeMessageHeader header = {.program = LV_REMOTE, .version = LODGE_MESSAGE_VERSION};
    g_autofree char *text = g_strnfill(LV_STRING_MAX + 1, 'x');
    g_autofree lv_param *params = g_new0(lv_param, LV_SCHED_PARAMS_MAX + 1);
    lv_string_ret one = {text};
    lv_sched_ret list = {.params = {LV_SCHED_PARAMS_MAX + 1, params}};
    g_autoptr(GError) error = NULL;
    g_autoptr(GBytes) message = NULL;

    TAP_OK(!lodge_message_encode(&header, (xdrproc_t)xdr_lv_string_ret, &one, &error));
    TAP_OK(error != NULL);
    g_clear_error(&error);
    for (guint i = 0; i <= LV_SCHED_PARAMS_MAX; i++) {
        params[i] = (lv_param){.field = (char *)"f", .value = {.type = 1}};
    }
    TAP_OK(!lodge_message_encode(&header, (xdrproc_t)xdr_lv_sched_ret, &list, &error));
    list.params.params_len = LV_SCHED_PARAMS_MAX;
    message = lodge_message_encode(&header, (xdrproc_t)xdr_lv_sched_ret, &list, NULL);
    TAP_OK(message != NULL);
}

static void test_procedures(void)
{
    TAP_OK(!lodge_procedure_find(LV_REMOTE, 0));
    TAP_OK(!lodge_procedure_find(LV_REMOTE, 8));
    /* Behind the last of each. */
    TAP_OK(!lodge_procedure_find(LV_REMOTE, LV_DOMAIN_FD_ASSOCIATE + 1));
    TAP_OK(!lodge_procedure_find(LV_MONITOR, LV_MONITOR_EVENT_DEREGISTER + 1));
    TAP_OK(!lodge_procedure_find(LV_REMOTE, G_MAXUINT32));
    TAP_OK(!lodge_procedure_find(1, LV_CONNECT_OPEN));
    TAP_STR(lodge_procedure_find(LV_MONITOR, LV_MONITOR_COMMAND)->name, "lv_monitor_command");
    TAP_OK(!lodge_procedure_find(LV_REMOTE, LV_CONNECT_CLOSE)->args_xdr);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"wire.message.known", test_known},
        {"wire.message.lengths", test_lengths},
        {"wire.message.pieces", test_pieces},
        {"wire.message.long-promise", test_long_promise},
        {"wire.message.descriptors", test_descriptors},
        {"wire.message.descriptors-wrong", test_descriptors_wrong},
        {"wire.message.descriptors-too-many", test_descriptors_too_many},
        {"wire.message.refused-arguments", test_refused_arguments},
        {"wire.message.too-much-to-answer", test_too_much_to_answer},
        {"wire.message.procedures", test_procedures},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

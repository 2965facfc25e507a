/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The connection: HELLO, the thread that reads, and calls that wait for their answers. */
#include "wire/core-client.h"

#include "common/i18n.h"
#include "common/lodge-error.h"
#include "common/sealed-file.h"
#include "common/thread.h"
#include "wire/core-client-private.h"

#include <errno.h>
#include <fcntl.h>
#include <gio/gunixfdmessage.h>
#include <gio/gunixsocketaddress.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct CoreCall {
    guint64 serial;
    enum hv_op op;
    gsize wanted; /* of a good answer's body */
    struct hv_op_answer *answer;
    int fd;
    gboolean done;
    pthread_cond_t answered;
};

/* ---- packets ---- */

typedef struct {
    gssize bytes;
    int fds[HV_OP_FDS_MAX]; /* -1: none */
} CorePacket;

static void packet_close(CorePacket *packet)
{
    for (guint i = 0; i < G_N_ELEMENTS(packet->fds); i++) {
        if (packet->fds[i] >= 0) {
            close(packet->fds[i]);
        }
        packet->fds[i] = -1;
    }
}

static void packet_add_fds(CorePacket *packet, GSocketControlMessage *message)
{
    g_autofree gint *fds = NULL;
    gint count = 0;

    if (G_IS_UNIX_FD_MESSAGE(message)) {
        fds = g_unix_fd_message_steal_fds(G_UNIX_FD_MESSAGE(message), &count);
    }
    for (gint i = 0; i < count; i++) {
        if (i < (gint)G_N_ELEMENTS(packet->fds) && packet->fds[i] < 0) {
            packet->fds[i] = fds[i];
        } else {
            close(fds[i]);
        }
    }
}

/* FALSE: the connection has ended, or what came is no message. */
static gboolean receive(GSocket *socket, struct hv_op_answer *answer, CorePacket *packet)
{
    GInputVector vector = {answer, sizeof(*answer)};
    GSocketControlMessage **messages = NULL;
    gint count = 0, flags = 0;

    *packet = (CorePacket){.fds = {-1, -1}};
    packet->bytes =
        g_socket_receive_message(socket, NULL, &vector, 1, &messages, &count, &flags, NULL, NULL);
    for (gint i = 0; i < count; i++) {
        packet_add_fds(packet, messages[i]);
        g_object_unref(messages[i]);
    }
    g_free(messages);
    return packet->bytes >= (gssize)sizeof(answer->header) &&
           packet->bytes == (gssize)answer->header.bytes;
}

/* ---- answers ---- */

static gsize body_of(const struct hv_op_answer *answer)
{
    return answer->header.bytes - sizeof(answer->header);
}

static gboolean fits(const CoreCall *call, const struct hv_op_answer *answer)
{
    gsize wanted = answer->header.result < 0 ? sizeof(struct hv_op_refusal) : call->wanted;

    return answer->header.op == call->op && answer->header.result <= 0 && body_of(answer) == wanted;
}

/* FALSE: it answers nothing that was asked, or not so. */
static gboolean take_answer(struct hv_core *core, const struct hv_op_answer *answer,
                            CorePacket *packet)
{
    gboolean good = FALSE;
    CoreCall *call;

    pthread_mutex_lock(&core->mutex);
    call = g_hash_table_lookup(core->calls, &answer->header.serial);
    good = call && fits(call, answer);
    if (good) {
        g_hash_table_remove(core->calls, &answer->header.serial);
        memcpy(call->answer, answer, answer->header.bytes);
        call->fd = packet->fds[0];
        packet->fds[0] = -1;
        call->done = TRUE;
        pthread_cond_signal(&call->answered);
    }
    pthread_mutex_unlock(&core->mutex);
    return good;
}

void core_lose(struct hv_core *core)
{
    GHashTableIter iter;
    gpointer value;

    pthread_mutex_lock(&core->mutex);
    core->lost = TRUE;
    g_hash_table_iter_init(&iter, core->calls);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        CoreCall *call = value;

        call->answer->header.result = -ENOTCONN;
        call->done = TRUE;
        pthread_cond_signal(&call->answered);
    }
    g_hash_table_remove_all(core->calls);
    pthread_cond_broadcast(&core->changed);
    pthread_cond_broadcast(&core->news);
    pthread_mutex_unlock(&core->mutex);
    /* Who is sending does not wait for a core that we no longer listen to. */
    g_socket_shutdown(core->socket, TRUE, TRUE, NULL);
}

static gpointer read_all(gpointer data)
{
    struct hv_core *core = data;
    struct hv_op_answer answer;
    gboolean good = TRUE;
    CorePacket packet;

    while (good && receive(core->socket, &answer, &packet)) {
        if (answer.header.serial == 0) {
            core_event_take(core, &answer);
        } else {
            good = take_answer(core, &answer, &packet);
        }
        packet_close(&packet);
    }
    packet_close(&packet);
    core_lose(core);
    return NULL;
}

/* ---- calls ---- */

static void begin_request(struct hv_op_request *request, enum hv_op op, guint64 serial, gsize body)
{
    request->header = (struct hv_op_header){
        .bytes = (uint32_t)(sizeof(request->header) + body),
        .op = op,
        .serial = serial,
    };
}

static gboolean send_request(struct hv_core *core, const struct hv_op_request *request)
{
    gssize sent;

    pthread_mutex_lock(&core->sending);
    sent = g_socket_send(core->socket, (const char *)request, request->header.bytes, NULL, NULL);
    pthread_mutex_unlock(&core->sending);
    return sent == (gssize)request->header.bytes;
}

int core_call(struct hv_core *core, enum hv_op op, struct hv_op_request *request, gsize body,
              struct hv_op_answer *answer, gsize wanted, int *fd_out)
{
    struct hv_op_answer unwanted;
    CoreCall call = {.op = op, .wanted = wanted, .answer = answer ? answer : &unwanted, .fd = -1};
    gboolean lost;

    pthread_cond_init(&call.answered, NULL);
    pthread_mutex_lock(&core->mutex);
    call.serial = ++core->serial;
    lost = core->lost;
    if (lost) {
        call.answer->header.result = -ENOTCONN;
        call.done = TRUE;
    } else {
        g_hash_table_insert(core->calls, &call.serial, &call);
    }
    pthread_mutex_unlock(&core->mutex);
    begin_request(request, op, call.serial, body);
    if (!lost && !send_request(core, request)) {
        core_lose(core);
    }
    pthread_mutex_lock(&core->mutex);
    while (!call.done) {
        pthread_cond_wait(&call.answered, &core->mutex);
    }
    pthread_mutex_unlock(&core->mutex);
    pthread_cond_destroy(&call.answered);
    if (fd_out) {
        *fd_out = call.fd;
    } else if (call.fd >= 0) {
        close(call.fd);
    }
    return call.answer->header.result;
}

int core_call_domain(struct hv_domain *domain, enum hv_op op, struct hv_op_answer *answer,
                     gsize wanted)
{
    struct hv_op_request request;

    request.body.domain.handle = domain->handle;
    return core_call(domain->core, op, &request, sizeof(request.body.domain), answer, wanted, NULL);
}

void core_send(struct hv_core *core, enum hv_op op, struct hv_op_request *request, gsize body)
{
    guint64 serial;

    pthread_mutex_lock(&core->mutex);
    serial = ++core->serial;
    pthread_mutex_unlock(&core->mutex);
    begin_request(request, op, serial, body);
    if (!send_request(core, request)) {
        core_lose(core);
    }
}

void core_copy_why(int rc, const struct hv_op_answer *answer, char *why, size_t why_size)
{
    if (!why || why_size == 0) {
        return;
    }
    if (rc == -ENOTCONN) {
        g_strlcpy(why, lodge_errno_text(rc), why_size);
        return;
    }
    /* Not g_strlcpy(), which goes on to the end of what may have none. */
    g_snprintf(why, why_size, "%.*s", rc < 0 ? (int)sizeof(answer->body.refusal.why) : 0,
               answer->body.refusal.why);
}

/* ---- connecting ---- */

void lodge_core_client_close_stats(struct hv_core *core)
{
    if (core->stat_fd >= 0) {
        close(core->stat_fd);
        core->stat_fd = -1;
    }
}

static void free_core(struct hv_core *core)
{
    if (core->staging) {
        munmap(core->staging, HV_OP_STAGING_BYTES);
    }
    lodge_core_client_close_stats(core);
    g_clear_object(&core->socket);
    g_queue_clear_full(&core->events_queued, core_event_free);
    g_hash_table_unref(core->calls);
    g_hash_table_unref(core->domains);
    pthread_cond_destroy(&core->changed);
    pthread_cond_destroy(&core->news);
    pthread_cond_destroy(&core->told);
    pthread_cond_destroy(&core->written);
    pthread_mutex_destroy(&core->sending);
    pthread_mutex_destroy(&core->mutex);
    g_free(core);
}

/* Somebody waits for it no longer than so long. */
static void init_changed(pthread_cond_t *changed)
{
    pthread_condattr_t attributes;

    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(changed, &attributes);
    pthread_condattr_destroy(&attributes);
}

static struct hv_core *new_core(const LodgeCoreEvents *events, gpointer user_data)
{
    struct hv_core *core = g_new0(struct hv_core, 1);

    core->stat_fd = -1;
    core->events = events;
    core->user_data = user_data;
    pthread_mutex_init(&core->sending, NULL);
    pthread_mutex_init(&core->mutex, NULL);
    init_changed(&core->changed);
    pthread_cond_init(&core->news, NULL);
    pthread_cond_init(&core->told, NULL);
    pthread_cond_init(&core->written, NULL);
    g_queue_init(&core->events_queued);
    core->calls = g_hash_table_new(g_int64_hash, g_int64_equal);
    core->domains = g_hash_table_new(g_int64_hash, g_int64_equal);
    return core;
}

/* As long as it is to be, and nobody makes it shorter under our hands. */
static gboolean is_staging(int fd)
{
    return lodge_sealed_file_length(fd, F_SEAL_SHRINK) >= (goffset)HV_OP_STAGING_BYTES;
}

/* A HELLO of ours is refused so by a core of another version alone. FALSE: it is of this one. */
static gboolean is_of_another(const struct hv_op_answer *answer, GError **error)
{
    const struct hv_op_welcome *welcome = &answer->body.welcome;
    gsize body = body_of(answer);

    if (answer->header.op != HV_OP_HELLO) {
        return FALSE;
    }
    if (answer->header.result == -EPROTO && body == sizeof(answer->body.refusal)) {
        g_set_error(error, LODGE_ERROR, LODGE_ERROR_VERSION,
                    _("The core does not speak version %u of the control protocol, which is ours: "
                      "%.*s"),
                    HV_OP_VERSION, (int)sizeof(answer->body.refusal.why), answer->body.refusal.why);
        return TRUE;
    }
    if (answer->header.result == 0 && body == sizeof(*welcome) && welcome->magic == HV_OP_MAGIC &&
        welcome->version != HV_OP_VERSION) {
        g_set_error(error, LODGE_ERROR, LODGE_ERROR_VERSION,
                    _("The core speaks version %u of the control protocol, and ours is %u"),
                    welcome->version, HV_OP_VERSION);
        return TRUE;
    }
    return FALSE;
}

static gboolean take_welcome(struct hv_core *core, const struct hv_op_answer *answer,
                             CorePacket *packet, GError **error)
{
    const struct hv_op_welcome *welcome = &answer->body.welcome;
    void *staging;

    if (is_of_another(answer, error)) {
        return FALSE;
    }
    if (answer->header.op != HV_OP_HELLO ||
        (answer->header.result == 0 &&
         (body_of(answer) != sizeof(*welcome) || welcome->magic != HV_OP_MAGIC ||
          welcome->staging_bytes != HV_OP_STAGING_BYTES || !is_staging(packet->fds[0]))) ||
        (answer->header.result < 0 && body_of(answer) != sizeof(struct hv_op_refusal))) {
        g_set_error(error, LODGE_ERROR, LODGE_ERROR_FAILED,
                    _("What answers at the core's socket is no lodge-core of this version"));
        return FALSE;
    }
    if (answer->header.result < 0) {
        g_set_error(error, LODGE_ERROR, LODGE_ERROR_FAILED, _("The core refuses: %.*s"),
                    (int)sizeof(answer->body.refusal.why), answer->body.refusal.why);
        return FALSE;
    }
    staging =
        mmap(NULL, HV_OP_STAGING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, packet->fds[0], 0);
    if (staging == MAP_FAILED) {
        g_set_error(error, LODGE_ERROR, LODGE_ERROR_FAILED,
                    _("Cannot map the core's staging area: %s"), g_strerror(errno));
        return FALSE;
    }
    core->staging = staging;
    core->stat_fd = packet->fds[1];
    packet->fds[1] = -1;
    core->info = (LodgeCoreInfo){
        .epoch = welcome->epoch,
        .refused_calls = welcome->refused_calls,
        .refused_call = welcome->refused_call,
    };
    return TRUE;
}

static gboolean greet(struct hv_core *core, GError **error)
{
    struct hv_op_request request;
    struct hv_op_answer answer;
    CorePacket packet = {.fds = {-1, -1}};
    gboolean good;

    request.body.hello = (struct hv_op_hello){HV_OP_MAGIC, HV_OP_VERSION, 1};
    begin_request(&request, HV_OP_HELLO, ++core->serial, sizeof(request.body.hello));
    if (!send_request(core, &request) || !receive(core->socket, &answer, &packet)) {
        packet_close(&packet);
        g_set_error(error, LODGE_ERROR, LODGE_ERROR_FAILED,
                    _("The core has closed the connection; it is ending, or of another user"));
        return FALSE;
    }
    good = take_welcome(core, &answer, &packet, error);
    packet_close(&packet);
    return good;
}

static gboolean start_threads(struct hv_core *core, GError **error)
{
    core->reader = lodge_thread_new("core-reader", read_all, core, error);
    if (!core->reader) {
        return FALSE;
    }
    core->teller = lodge_thread_new("core-events", core_event_run, core, error);
    return core->teller != NULL;
}

static struct hv_core *begin(GSocket *socket, const LodgeCoreEvents *events, gpointer user_data,
                             GError **error)
{
    struct hv_core *core = new_core(events, user_data);

    core->socket = socket;
    if (!greet(core, error) || !start_threads(core, error)) {
        lodge_core_client_close(core);
        return NULL;
    }
    return core;
}

struct hv_core *lodge_core_client_adopt(int fd, const LodgeCoreEvents *events, gpointer user_data,
                                        GError **error)
{
    GSocket *socket = g_socket_new_from_fd(fd, error);

    if (!socket) {
        close(fd);
        return NULL;
    }
    return begin(socket, events, user_data, error);
}

struct hv_core *lodge_core_client_connect(const char *path, const LodgeCoreEvents *events,
                                          gpointer user_data, GError **error)
{
    g_autoptr(GSocketAddress) address = g_unix_socket_address_new(path);
    g_autoptr(GError) cause = NULL;
    g_autoptr(GSocket) socket = g_socket_new(G_SOCKET_FAMILY_UNIX, G_SOCKET_TYPE_SEQPACKET,
                                             G_SOCKET_PROTOCOL_DEFAULT, &cause);

    if (!socket || !g_socket_connect(socket, address, NULL, &cause)) {
        g_set_error(error, LODGE_ERROR, LODGE_ERROR_FAILED, _("Cannot reach the core at “%s”: %s"),
                    path, cause->message);
        return NULL;
    }
    return begin(g_steal_pointer(&socket), events, user_data, error);
}

void lodge_core_client_close(struct hv_core *core)
{
    GHashTableIter iter;
    gpointer value;

    if (!core) {
        return;
    }
    pthread_mutex_lock(&core->mutex);
    core->closing = TRUE;
    pthread_mutex_unlock(&core->mutex);
    core_lose(core);
    g_clear_pointer(&core->reader, g_thread_join);
    g_clear_pointer(&core->teller, g_thread_join);
    g_hash_table_iter_init(&iter, core->domains);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        g_hash_table_iter_remove(&iter);
        core_domain_unref_locked(value);
    }
    free_core(core);
}

void lodge_core_client_get_info(const struct hv_core *core, LodgeCoreInfo *info_out)
{
    *info_out = core->info;
}

int hv_core_stat_fd(const struct hv_core *core)
{
    return core->stat_fd;
}

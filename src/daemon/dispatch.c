/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Decode, answer, encode. */
#include "daemon/dispatch.h"

#include "common/i18n.h"
#include "daemon/call.h"
#include "daemon/unsupported.h"
#include "wire/procedures.h"

typedef struct {
    LodgeCall call;
    LodgeMessageHeader header;
    const LodgeProcedure *procedure;
    const LodgeCallEntry *entry;
    gpointer args, ret; /* NULL where there is none */
} Pending;

static const LodgeCallEntry *find_entry(const LodgeMessageHeader *header)
{
    static const LodgeCallFamily *const families[] = {
        &lodge_calls_connect, &lodge_calls_host,   &lodge_calls_list,     &lodge_calls_lifecycle,
        &lodge_calls_define,  &lodge_calls_domain, &lodge_calls_metadata, &lodge_calls_tune,
        &lodge_calls_vcpu,    &lodge_calls_stats,  &lodge_calls_stream,   &lodge_calls_monitor,
    };

    for (gsize i = 0; i < G_N_ELEMENTS(families); i++) {
        if (families[i]->program != header->program) {
            continue;
        }
        for (gsize j = 0; j < families[i]->count; j++) {
            if (families[i]->entries[j].procedure == header->procedure) {
                return &families[i]->entries[j];
            }
        }
    }
    return NULL;
}

static LodgeMessageHeader answer_to(const LodgeMessageHeader *header, LodgeMessageStatus status)
{
    LodgeMessageHeader answer = *header;

    answer.type = header->type == LODGE_MESSAGE_STREAM ? LODGE_MESSAGE_STREAM : LODGE_MESSAGE_REPLY;
    answer.status = status;
    return answer;
}

GBytes *lodge_dispatch_encode_error(const LodgeMessageHeader *header, const GError *error)
{
    const LodgeMessageHeader answer = answer_to(header, LODGE_MESSAGE_ERROR);
    g_autofree lv_string text = NULL;
    GBytes *message;
    lv_error wire;

    lodge_libvirt_error_fill(error, &text, &wire);
    message = lodge_message_encode(&answer, (xdrproc_t)xdr_lv_error, &wire, NULL);
    /* It is bounded. */
    g_assert(message);
    return message;
}

static void send_error(LodgeClient *client, const LodgeMessageHeader *header, const GError *error)
{
    g_autoptr(GBytes) message = lodge_dispatch_encode_error(header, error);

    lodge_client_send(client, message);
}

static gboolean check_right(LodgeClient *client, const LodgeCallEntry *entry, const char *name,
                            GError **error)
{
    if (entry->right == LODGE_CALL_BEFORE_OPENING) {
        return TRUE;
    }
    if (!lodge_client_is_open(client)) {
        return lodge_refuse(error, VIR_ERR_INVALID_CONN,
                            _("The connection is not open: %s comes after connect_open"), name);
    }
    if (entry->right != LODGE_CALL_READS && lodge_client_is_read_only(client)) {
        return lodge_refuse(error, VIR_ERR_OPERATION_DENIED,
                            _("The connection is read-only, and %s changes something"), name);
    }
    return TRUE;
}

static void free_pending(Pending *pending)
{
    if (pending->args) {
        lodge_message_free(pending->procedure->args_xdr, pending->args);
    }
    if (pending->ret) {
        lodge_message_free(pending->procedure->ret_xdr, pending->ret);
    }
    g_free(pending->args);
    g_free(pending->ret);
    g_clear_object(&pending->call.fds);
    lodge_machine_unref(pending->call.machine);
    lodge_client_unref(pending->call.client);
    g_free(pending);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Pending, free_pending)

static Pending *prepare(LodgeDaemon *daemon, LodgeClient *client, const LodgeMessageHeader *header,
                        const guint8 *payload, gsize bytes, GError **error)
{
    const LodgeProcedure *procedure = lodge_procedure_find(header->program, header->procedure);
    const LodgeCallEntry *entry = find_entry(header);
    g_autoptr(Pending) pending = NULL;

    if (!procedure || !entry || header->version != LODGE_MESSAGE_VERSION) {
        lodge_refuse_unsupported(header, error);
        return NULL;
    }
    if (!check_right(client, entry, procedure->name, error)) {
        return NULL;
    }
    pending = g_new0(Pending, 1);
    pending->call = (LodgeCall){
        .daemon = daemon,
        .client = lodge_client_ref(client),
        .name = {header->program, header->procedure, header->serial},
    };
    pending->header = *header;
    pending->procedure = procedure;
    pending->entry = entry;
    pending->args = procedure->args_xdr ? g_malloc0(procedure->args_bytes) : NULL;
    pending->ret = procedure->ret_xdr ? g_malloc0(procedure->ret_bytes) : NULL;
    if (!lodge_message_decode(payload, bytes, procedure->args_xdr, pending->args, error)) {
        g_prefix_error(error, "%s: ", procedure->name);
        return NULL;
    }
    return g_steal_pointer(&pending);
}

void lodge_dispatch(LodgeDaemon *daemon, LodgeClient *client, const LodgeMessageHeader *header,
                    const guint8 *payload, gsize bytes, GUnixFDList *fds)
{
    g_autoptr(GUnixFDList) given = fds;
    g_autoptr(GError) error = NULL;
    Pending *pending = prepare(daemon, client, header, payload, bytes, &error);

    if (!pending) {
        send_error(client, header, error);
        return;
    }
    if (pending->entry->right == LODGE_CALL_WRITES_WITH_FDS) {
        pending->call.fds = g_steal_pointer(&given);
    }
    lodge_client_begin_call(client);
    /* It can fail to make another thread; those there are will come to it. */
    g_thread_pool_push(daemon->workers, pending, NULL);
}

static gboolean answer(Pending *pending, GError **error)
{
    LodgeCall *call = &pending->call;

    if (pending->entry->on_machine) {
        call->machine = lodge_machines_find(call->daemon->machines, pending->args, error);
        if (!call->machine) {
            return FALSE;
        }
    }
    return pending->entry->handler(call, pending->args, pending->ret, error);
}

void lodge_dispatch_run(gpointer data, gpointer daemon)
{
    g_autoptr(Pending) pending = data;
    LodgeCall *call = &pending->call;
    g_autoptr(GBytes) message = NULL;
    g_autoptr(GError) error = NULL;

    (void)daemon;
    if (answer(pending, &error)) {
        const LodgeMessageHeader header = answer_to(&pending->header, LODGE_MESSAGE_OK);

        message = lodge_message_encode(&header, pending->procedure->ret_xdr, pending->ret, &error);
    }
    if (!message) {
        message = lodge_dispatch_encode_error(&pending->header, error);
    }
    lodge_client_send(call->client, message);
    if (call->then) {
        call->then(call->client, call->then_data);
    }
    lodge_client_end_call(call->client);
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What the core tells without being asked: booked by the thread that reads, passed on by one that may
 * wait for whom it calls.
 *
 *     reader --core_event_take--> queue --core_event_run--> state(), write()
 */
#include "wire/core-client-private.h"

#include <string.h>

/* States of some thousands of machines; output is bounded by what was not accepted. A core that sends
 * more than this is not waited for. */
#define QUEUE_MAX 65536u

void core_status_from(const struct hv_op_status *from, struct hv_domain_status *status_out)
{
    *status_out = (struct hv_domain_status){
        .state = from->state <= HV_DOMAIN_STATE_GONE ? (enum hv_domain_state)from->state
                                                     : HV_DOMAIN_STATE_GONE,
        .end = from->end <= HV_DOMAIN_END_NO_MEMORY ? (enum hv_domain_end)from->end
                                                    : HV_DOMAIN_END_CRASH,
        .code = from->code,
        .vcpu = from->vcpu,
    };
    memcpy(status_out->reason, from->reason, sizeof(status_out->reason) - 1);
}

void core_event_free(gpointer data)
{
    CoreEvent *event = data;

    g_clear_pointer(&event->output, g_bytes_unref);
    g_free(event);
}

static CoreEvent *read_state(const struct hv_op_answer *answer)
{
    const struct hv_op_state *state = &answer->body.state;
    CoreEvent *event;

    if (answer->header.bytes != sizeof(answer->header) + sizeof(*state)) {
        return NULL;
    }
    event = g_new0(CoreEvent, 1);
    event->handle.v = state->handle;
    core_status_from(&state->status, &event->status);
    return event;
}

static CoreEvent *read_console(const struct hv_op_answer *answer)
{
    const struct hv_op_console *console = &answer->body.console;
    gsize fixed = sizeof(answer->header) + offsetof(struct hv_op_console, data);
    CoreEvent *event;

    if (answer->header.bytes < fixed || console->bytes != answer->header.bytes - fixed ||
        console->bytes == 0) {
        return NULL;
    }
    event = g_new0(CoreEvent, 1);
    event->handle.v = console->handle;
    event->position = console->position;
    event->output = g_bytes_new(console->data, console->bytes);
    return event;
}

/* Those who wait for the state look again; of a machine that is gone nothing comes any more. */
static void book_state_locked(struct hv_core *core, const CoreEvent *event)
{
    struct hv_domain *domain = core_domain_find_locked(core, event->handle.v);

    if (!domain) {
        return;
    }
    domain->changes++;
    pthread_cond_broadcast(&core->changed);
    if (event->status.state == HV_DOMAIN_STATE_GONE) {
        g_hash_table_remove(core->domains, &domain->handle);
        core_domain_unref_locked(domain);
    }
    core_domain_unref_locked(domain);
}

/* FALSE: more than there may be. */
static gboolean queue(struct hv_core *core, CoreEvent *event)
{
    gboolean room;

    pthread_mutex_lock(&core->mutex);
    room = core->events_queued.length < QUEUE_MAX;
    if (room) {
        if (event->op == HV_OP_STATE) {
            book_state_locked(core, event);
        }
        g_queue_push_tail(&core->events_queued, event);
        pthread_cond_signal(&core->news);
    }
    pthread_mutex_unlock(&core->mutex);
    return room;
}

void core_event_take(struct hv_core *core, const struct hv_op_answer *answer)
{
    CoreEvent *event = NULL;

    if (answer->header.op == HV_OP_STATE) {
        event = read_state(answer);
    } else if (answer->header.op == HV_OP_CONSOLE) {
        event = read_console(answer);
    }
    if (!event) {
        core_lose(core);
        return;
    }
    event->op = (enum hv_op)answer->header.op;
    if (!queue(core, event)) {
        core_event_free(event);
        core_lose(core);
    }
}

void core_event_retry(struct hv_domain *domain)
{
    CoreEvent *event = g_new0(CoreEvent, 1);

    event->op = HV_OP_ACCEPT;
    event->handle.v = domain->handle;
    if (!queue(domain->core, event)) {
        core_event_free(event);
    }
}

/* ---- the events' thread ---- */

/* As it was taken: another may be attached before we are out of it. */
typedef struct {
    const struct hv_console_ops *ops; /* NULL: nobody takes the output */
    void *context;
} CoreConsole;

static void accept_output(struct hv_domain *domain)
{
    struct hv_op_request request;

    request.body.accept = (struct hv_op_accept){domain->handle, domain->position};
    core_send(domain->core, HV_OP_ACCEPT, &request, sizeof(request.body.accept));
}

static void write_output(struct hv_domain *domain, const CoreConsole *console)
{
    guint64 before = domain->position;
    gsize taken = 0;

    do {
        gsize length = domain->output->len;

        taken = console->ops->write(console->context, domain->output->data, length);
        taken = MIN(taken, length);
        g_byte_array_remove_range(domain->output, 0, (guint)taken);
        domain->position += taken;
    } while (taken > 0 && domain->output->len > 0);
    if (domain->position != before) {
        accept_output(domain);
    }
}

/*
 * What was had already, by an earlier connection or by this one, comes before the position. FALSE: it
 * is more than the core may send before it is accepted.
 */
static gboolean add_output(struct hv_domain *domain, const CoreEvent *event)
{
    guint64 end = domain->position + domain->output->len;
    gsize length;
    const guint8 *data = g_bytes_get_data(event->output, &length);

    if (event->position > end) { /* lost, while nobody took it */
        domain->position = event->position - domain->output->len;
        end = event->position;
    }
    if (end - event->position < length) {
        gsize skip = (gsize)(end - event->position);

        g_byte_array_append(domain->output, data + skip, (guint)(length - skip));
    }
    return domain->output->len <= HV_OP_CONSOLE_WINDOW;
}

/* Its console, if it has one, stays until end_telling(): lodge_core_client_detach() waits. */
static struct hv_domain *begin_telling(struct hv_core *core, guint64 handle,
                                       CoreConsole *console_out)
{
    struct hv_domain *domain;

    pthread_mutex_lock(&core->mutex);
    domain = core_domain_find_locked(core, handle);
    *console_out = domain ? (CoreConsole){domain->console, domain->console_context}
                          : (CoreConsole){NULL, NULL};
    core->telling = console_out->ops ? domain : NULL;
    pthread_mutex_unlock(&core->mutex);
    return domain;
}

static void end_telling(struct hv_core *core, struct hv_domain *domain)
{
    pthread_mutex_lock(&core->mutex);
    core->telling = NULL;
    pthread_cond_broadcast(&core->told);
    core_domain_unref_locked(domain);
    pthread_mutex_unlock(&core->mutex);
}

static void tell_output(struct hv_core *core, const CoreEvent *event)
{
    CoreConsole console;
    struct hv_domain *domain = begin_telling(core, event->handle.v, &console);

    if (!domain) {
        return;
    }
    if (console.ops) {
        if (event->output && !add_output(domain, event)) {
            core_lose(core);
        }
        if (domain->output->len > 0) {
            write_output(domain, &console);
        }
    }
    end_telling(core, domain);
}

static void tell(struct hv_core *core, const CoreEvent *event)
{
    if (event->op != HV_OP_STATE) {
        tell_output(core, event);
    } else if (core->events && core->events->state) {
        core->events->state(core->user_data, event->handle, &event->status);
    }
}

/* Wait for the next. NULL: there will be none. */
static CoreEvent *next_event(struct hv_core *core)
{
    CoreEvent *event = NULL;

    pthread_mutex_lock(&core->mutex);
    while (!core->closing && !(event = g_queue_pop_head(&core->events_queued)) && !core->lost) {
        pthread_cond_wait(&core->news, &core->mutex);
    }
    pthread_mutex_unlock(&core->mutex);
    return event;
}

gpointer core_event_run(gpointer data)
{
    struct hv_core *core = data;
    CoreEvent *event;
    gboolean tells;

    while ((event = next_event(core)) != NULL) {
        tell(core, event);
        core_event_free(event);
    }
    pthread_mutex_lock(&core->mutex);
    tells = !core->closing && core->events && core->events->lost;
    pthread_mutex_unlock(&core->mutex);
    if (tells) {
        core->events->lost(core->user_data);
    }
    return NULL;
}

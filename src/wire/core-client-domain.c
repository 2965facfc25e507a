/* SPDX-License-Identifier: GPL-3.0-or-later */
/* hv/domain.h over the connection: machines, their states and their consoles. */
#include "wire/core-client-private.h"

#include "common/lodge-error.h"

#include <errno.h>
#include <string.h>

/* ---- which there are ---- */

void core_domain_unref_locked(struct hv_domain *domain)
{
    if (--domain->references == 0) {
        g_byte_array_unref(domain->output);
        g_free(domain);
    }
}

struct hv_domain *core_domain_find_locked(struct hv_core *core, guint64 handle)
{
    struct hv_domain *domain = g_hash_table_lookup(core->domains, &handle);

    if (domain) {
        domain->references++;
    }
    return domain;
}

static void read_layout(const struct hv_op_layout *from, struct hv_platform_layout *layout_out)
{
    *layout_out = (struct hv_platform_layout){
        .low_ram_bytes = from->low_ram_bytes,
        .high_ram_bytes = from->high_ram_bytes,
        .ioapic_base = from->ioapic_base,
        .lapic_base = from->lapic_base,
        .hpet_base = from->hpet_base,
        .pm_event_port = from->pm_event_port,
        .pm_control_port = from->pm_control_port,
        .pm_timer_port = from->pm_timer_port,
        .sci_irq = from->sci_irq,
        .reset_port = from->reset_port,
        .reset_value = from->reset_value,
        .s5_sleep_type = from->s5_sleep_type,
        .vcpus = from->vcpus,
        .timers_absent = from->timers_absent,
    };
}

struct hv_domain *core_domain_add(struct hv_core *core, const struct hv_op_made *made,
                                  const struct hv_console_ops *console, void *context)
{
    struct hv_domain *domain;

    pthread_mutex_lock(&core->mutex);
    /* Two may have asked for it at a time. */
    domain = core_domain_find_locked(core, made->handle);
    if (!domain) {
        domain = g_new0(struct hv_domain, 1);
        domain->core = core;
        domain->handle = made->handle;
        memcpy(domain->name, made->name, sizeof(domain->name) - 1);
        read_layout(&made->layout, &domain->layout);
        domain->console = console;
        domain->console_context = context;
        domain->output = g_byte_array_new();
        domain->references = 2; /* the caller's, and that of the table */
        g_hash_table_insert(core->domains, &domain->handle, domain);
    }
    pthread_mutex_unlock(&core->mutex);
    return domain;
}

int hv_domain_create(struct hv_core *core, const struct hv_domain_config *config,
                     struct hv_domain **domain_out, char *why, size_t why_size)
{
    struct hv_op_request request;
    struct hv_op_create *create = &request.body.create;
    struct hv_op_answer answer;
    int rc;

    *domain_out = NULL;
    /* Too long for a message, they are too long for the core. */
    if (!config->name || strnlen(config->name, sizeof(create->name)) == sizeof(create->name)) {
        if (why && why_size > 0) {
            g_strlcpy(why, "a machine's name has 1 to 63 bytes", why_size);
        }
        return -EINVAL;
    }
    if (!config->engine ||
        strnlen(config->engine, sizeof(create->engine)) == sizeof(create->engine)) {
        if (why && why_size > 0) {
            g_strlcpy(why, "an engine's name has 1 to 15 bytes", why_size);
        }
        return config->engine ? -ENOTSUP : -EINVAL;
    }
    memset(create, 0, sizeof(*create));
    g_strlcpy(create->name, config->name, sizeof(create->name));
    g_strlcpy(create->engine, config->engine, sizeof(create->engine));
    create->memory_bytes = config->memory_bytes;
    create->vcpus = config->vcpus;
    create->flags = config->flags;
    create->pv_hidden = config->pv_hidden;
    create->console = config->console != NULL;
    create->clock_policy = config->clock_policy;
    create->rtc_track = config->rtc_track;
    create->timers_absent = config->timers_absent;
    create->sched = config->sched;
    rc = core_call(core, HV_OP_CREATE, &request, sizeof(*create), &answer, sizeof(answer.body.made),
                   NULL);
    core_copy_why(rc, &answer, why, why_size);
    if (rc == 0) {
        *domain_out =
            core_domain_add(core, &answer.body.made, config->console, config->console_context);
    }
    return rc;
}

int hv_domain_get(struct hv_core *core, hv_handle handle, struct hv_domain **domain_out)
{
    struct hv_op_request request;
    struct hv_op_answer answer;
    int rc;

    pthread_mutex_lock(&core->mutex);
    *domain_out = core->lost ? NULL : core_domain_find_locked(core, handle.v);
    pthread_mutex_unlock(&core->mutex);
    if (*domain_out) {
        return 0;
    }
    request.body.domain.handle = handle.v;
    rc = core_call(core, HV_OP_GET, &request, sizeof(request.body.domain), &answer,
                   sizeof(answer.body.made), NULL);
    if (rc == 0) {
        *domain_out = core_domain_add(core, &answer.body.made, NULL, NULL);
    }
    return rc;
}

void hv_domain_put(struct hv_domain *domain)
{
    struct hv_core *core = domain ? domain->core : NULL;

    if (core) {
        pthread_mutex_lock(&core->mutex);
        core_domain_unref_locked(domain);
        pthread_mutex_unlock(&core->mutex);
    }
}

/* Handles whose ids, their low 16 bits, rise from that of @after on: what did not would have no end. */
static gboolean is_listing(const struct hv_op_listing *listing, guint64 after)
{
    gboolean good = listing->count <= HV_OP_LISTED_MAX;

    for (guint i = 0; good && i < listing->count; i++) {
        good = (guint16)listing->listed[i].handle > (guint16)after;
        after = listing->listed[i].handle;
    }
    return good;
}

int lodge_core_client_list(struct hv_core *core, hv_handle *handles, gsize max, gsize *count_out)
{
    const struct hv_op_listing *listing;
    struct hv_op_request request;
    struct hv_op_answer answer;
    gsize count = 0;
    int rc;

    *count_out = 0;
    request.body.after.handle = HV_HANDLE_NONE.v;
    listing = &answer.body.listing;
    do {
        rc = core_call(core, HV_OP_LIST, &request, sizeof(request.body.after), &answer,
                       sizeof(*listing), NULL);
        if (rc == 0 && !is_listing(listing, request.body.after.handle)) {
            rc = -EPROTO;
        }
        if (rc < 0) {
            break;
        }
        for (guint i = 0; i < listing->count; i++, count++) {
            if (count < max) {
                handles[count].v = listing->listed[i].handle;
            }
            request.body.after.handle = listing->listed[i].handle;
        }
    } while (listing->count == HV_OP_LISTED_MAX);
    *count_out = count;
    return rc;
}

size_t hv_core_list(const struct hv_core *core, hv_handle *handles, size_t max)
{
    gsize count;
    /* The connection's state changes by a question, the core does not. */
    int rc = lodge_core_client_list((struct hv_core *)(uintptr_t)core, handles, max, &count);

    (void)rc; /* as many as were told */
    return count;
}

hv_handle hv_domain_handle(const struct hv_domain *domain)
{
    return (hv_handle){domain->handle};
}

const char *hv_domain_name(const struct hv_domain *domain)
{
    return domain->name;
}

void hv_domain_get_layout(const struct hv_domain *domain, struct hv_platform_layout *layout_out)
{
    *layout_out = domain->layout;
}

/* ---- states ---- */

int lodge_core_client_keep(struct hv_domain *domain)
{
    return core_call_domain(domain, HV_OP_KEEP, NULL, 0);
}

int hv_domain_unpause(struct hv_domain *domain)
{
    return core_call_domain(domain, HV_OP_UNPAUSE, NULL, 0);
}

int hv_domain_pause(struct hv_domain *domain)
{
    return core_call_domain(domain, HV_OP_PAUSE, NULL, 0);
}

int hv_domain_reset(struct hv_domain *domain)
{
    return core_call_domain(domain, HV_OP_RESET, NULL, 0);
}

int hv_domain_press_power(struct hv_domain *domain)
{
    return core_call_domain(domain, HV_OP_POWER, NULL, 0);
}

int hv_domain_press_nmi(struct hv_domain *domain)
{
    return core_result_of_younger(core_call_domain(domain, HV_OP_NMI, NULL, 0));
}

int hv_domain_kill(struct hv_domain *domain)
{
    int rc = core_call_domain(domain, HV_OP_KILL, NULL, 0);

    /* Gone: somebody has killed it. */
    return rc == -ENOENT ? -ECANCELED : rc;
}

/* What the core no longer knows, or cannot tell any more, is gone. */
static void get_status(struct hv_domain *domain, struct hv_domain_status *status_out,
                       guint64 *life_out)
{
    struct hv_op_answer answer;
    int rc = core_call_domain(domain, HV_OP_STATUS, &answer, sizeof(answer.body.status));

    *life_out = 0;
    if (rc == 0) {
        core_status_from(&answer.body.status, status_out);
        *life_out = answer.body.status.life;
        return;
    }
    *status_out = (struct hv_domain_status){.state = HV_DOMAIN_STATE_GONE};
    if (rc == -ENOTCONN) {
        g_strlcpy(status_out->reason, lodge_errno_text(rc), sizeof(status_out->reason));
    }
}

void hv_domain_get_status(struct hv_domain *domain, struct hv_domain_status *status_out)
{
    guint64 life;

    get_status(domain, status_out, &life);
}

uint64_t hv_domain_life(const struct hv_domain *domain)
{
    struct hv_domain_status status;
    guint64 life;

    get_status((struct hv_domain *)(uintptr_t)domain, &status, &life);
    return life;
}

/* Sleep until something of it was told that was not when @changes was read. FALSE: time is up. */
static gboolean wait_for_news(struct hv_domain *domain, guint changes, gint64 end_us)
{
    const struct timespec end = {end_us / G_USEC_PER_SEC, (end_us % G_USEC_PER_SEC) * 1000};
    struct hv_core *core = domain->core;
    gboolean in_time = TRUE;

    pthread_mutex_lock(&core->mutex);
    while (in_time && !core->lost && domain->changes == changes) {
        in_time = pthread_cond_timedwait(&core->changed, &core->mutex, &end) == 0;
    }
    pthread_mutex_unlock(&core->mutex);
    return in_time;
}

static guint read_changes(struct hv_domain *domain)
{
    guint changes;

    pthread_mutex_lock(&domain->core->mutex);
    changes = domain->changes;
    pthread_mutex_unlock(&domain->core->mutex);
    return changes;
}

/* Of all that 64 bits can say in ns there is a moment in us. */
static gint64 end_of(guint64 timeout_ns)
{
    guint64 timeout_us = timeout_ns / HV_NS_PER_US + (timeout_ns % HV_NS_PER_US > 0);

    return g_get_monotonic_time() + (gint64)timeout_us;
}

int hv_domain_wait_change(struct hv_domain *domain, enum hv_domain_state than, uint64_t timeout_ns)
{
    gint64 end_us = end_of(timeout_ns);

    for (;;) {
        /* In this order: a change after the question is told after its answer. */
        guint changes = read_changes(domain);
        struct hv_domain_status status;

        hv_domain_get_status(domain, &status);
        if (status.state != than) {
            return 0;
        }
        /* Gone, because the connection is: that does not change. */
        if (than == HV_DOMAIN_STATE_GONE || !wait_for_news(domain, changes, end_us)) {
            return -ETIMEDOUT;
        }
    }
}

void hv_domain_destroy(struct hv_domain *domain)
{
    struct hv_domain_status status;
    int rc;

    if (!domain) {
        return;
    }
    rc = hv_domain_kill(domain);
    (void)rc; /* somebody has, or nobody can */
    hv_domain_get_status(domain, &status);
    while (status.state != HV_DOMAIN_STATE_GONE && status.state != HV_DOMAIN_STATE_DEAD) {
        rc = hv_domain_wait_change(domain, status.state, HV_NS_NEVER.v);
        (void)rc; /* it waits for as long as it takes */
        hv_domain_get_status(domain, &status);
    }
    hv_domain_put(domain);
}

/* ---- consoles ---- */

size_t hv_domain_console_input(struct hv_domain *domain, const uint8_t *data, size_t bytes)
{
    struct hv_op_request request;
    struct hv_op_console *console = &request.body.console;
    struct hv_op_answer answer;
    gsize taken = 0, part, now;

    do {
        part = MIN(bytes - taken, HV_OP_CONSOLE_BYTES);
        if (part == 0) {
            break;
        }
        console->handle = domain->handle;
        console->position = 0;
        console->bytes = (uint32_t)part;
        console->reserved = 0;
        memcpy(console->data, data + taken, part);
        if (core_call(domain->core, HV_OP_CONSOLE_IN, &request,
                      offsetof(struct hv_op_console, data) + part, &answer,
                      sizeof(answer.body.taken), NULL) < 0) {
            break;
        }
        now = (gsize)MIN(answer.body.taken.bytes, part);
        taken += now;
    } while (now == part);
    return taken;
}

void hv_domain_console_writable(struct hv_domain *domain)
{
    core_event_retry(domain);
}

int lodge_core_client_attach(struct hv_domain *domain, const struct hv_console_ops *console,
                             void *context, guint64 *position_out)
{
    struct hv_core *core = domain->core;
    struct hv_op_answer answer;
    gboolean taken;
    int rc;

    *position_out = 0;
    pthread_mutex_lock(&core->mutex);
    taken = domain->console != NULL;
    if (!taken) {
        domain->console = console;
        domain->console_context = context;
    }
    pthread_mutex_unlock(&core->mutex);
    if (taken) {
        return -EEXIST;
    }
    rc = core_call_domain(domain, HV_OP_ATTACH, &answer, sizeof(answer.body.attached));
    if (rc == 0) {
        *position_out = answer.body.attached.position;
        return 0;
    }
    lodge_core_client_detach(domain);
    return rc;
}

void lodge_core_client_detach(struct hv_domain *domain)
{
    struct hv_core *core = domain->core;

    pthread_mutex_lock(&core->mutex);
    domain->console = NULL;
    while (core->telling == domain) {
        g_assert(g_thread_self() != core->teller);
        pthread_cond_wait(&core->told, &core->mutex);
    }
    pthread_mutex_unlock(&core->mutex);
}

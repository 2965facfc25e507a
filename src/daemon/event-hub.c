/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Registrations, and messages for those that match. */
#include "daemon/event-hub.h"

#include "wire/message.h"

#include <libvirt/libvirt.h>
#include <string.h>

typedef struct {
    gpointer client;
    LodgeEventSend *send;
    int callback;
    gboolean monitor;
    int event;       /* not of the monitor */
    GRegex *pattern; /* of the monitor; NULL: any name */
    gboolean one;    /* of one machine alone */
    lv_uuid uuid;
} Registration;

struct _LodgeEventHub {
    GMutex mutex;
    /* Guarded by mutex. */
    GPtrArray *registrations;
    int last_callback;
};

static void free_registration(gpointer data)
{
    Registration *registration = data;

    g_clear_pointer(&registration->pattern, g_regex_unref);
    g_free(registration);
}

LodgeEventHub *lodge_event_hub_new(void)
{
    LodgeEventHub *hub = g_new0(LodgeEventHub, 1);

    g_mutex_init(&hub->mutex);
    hub->registrations = g_ptr_array_new_with_free_func(free_registration);
    return hub;
}

void lodge_event_hub_free(LodgeEventHub *hub)
{
    g_ptr_array_unref(hub->registrations);
    g_mutex_clear(&hub->mutex);
    g_free(hub);
}

static int add(LodgeEventHub *hub, Registration *registration, const lv_domain *dom)
{
    int callback;

    if (dom) {
        registration->one = TRUE;
        memcpy(registration->uuid, dom->uuid, sizeof(registration->uuid));
    }
    g_mutex_lock(&hub->mutex);
    callback = registration->callback = ++hub->last_callback;
    g_ptr_array_add(hub->registrations, registration);
    g_mutex_unlock(&hub->mutex);
    return callback;
}

int lodge_event_hub_register(LodgeEventHub *hub, gpointer client, LodgeEventSend *send, int event,
                             const lv_domain *dom)
{
    Registration *registration = g_new0(Registration, 1);

    *registration = (Registration){.client = client, .send = send, .event = event};
    return add(hub, registration, dom);
}

int lodge_event_hub_register_monitor(LodgeEventHub *hub, gpointer client, LodgeEventSend *send,
                                     GRegex *pattern, const lv_domain *dom)
{
    Registration *registration = g_new0(Registration, 1);

    *registration =
        (Registration){.client = client, .send = send, .monitor = TRUE, .pattern = pattern};
    return add(hub, registration, dom);
}

gboolean lodge_event_hub_deregister(LodgeEventHub *hub, gpointer client, int callback,
                                    gboolean monitor)
{
    gboolean found = FALSE;

    g_mutex_lock(&hub->mutex);
    for (guint i = 0; i < hub->registrations->len && !found; i++) {
        const Registration *registration = hub->registrations->pdata[i];

        if (registration->client == client && registration->callback == callback &&
            registration->monitor == monitor) {
            g_ptr_array_remove_index(hub->registrations, i);
            found = TRUE;
        }
    }
    g_mutex_unlock(&hub->mutex);
    return found;
}

void lodge_event_hub_forget(LodgeEventHub *hub, gpointer client)
{
    g_mutex_lock(&hub->mutex);
    for (guint i = hub->registrations->len; i > 0; i--) {
        const Registration *registration = hub->registrations->pdata[i - 1];

        if (registration->client == client) {
            g_ptr_array_remove_index(hub->registrations, i - 1);
        }
    }
    g_mutex_unlock(&hub->mutex);
}

/* A message: its number, its layout, and where in it the callback stands. */
typedef struct {
    guint32 program, procedure;
    xdrproc_t xdr;
    void *message;
    int *callback;
    const lv_domain *dom;
    int event;        /* LODGE_MESSAGE_EVENT of the remote program */
    const char *name; /* of the monitor's */
} Occasion;

static gboolean wants(const Registration *registration, const Occasion *occasion)
{
    if (registration->one && memcmp(registration->uuid, occasion->dom->uuid, LV_UUID_BYTES) != 0) {
        return FALSE;
    }
    if (occasion->name) {
        return registration->monitor &&
               (!registration->pattern ||
                g_regex_match(registration->pattern, occasion->name, 0, NULL));
    }
    return !registration->monitor && registration->event == occasion->event;
}

static void tell(LodgeEventHub *hub, const Occasion *occasion)
{
    const LodgeMessageHeader header = {
        .program = occasion->program,
        .version = LODGE_MESSAGE_VERSION,
        .procedure = occasion->procedure,
        .type = LODGE_MESSAGE_EVENT,
    };

    g_mutex_lock(&hub->mutex);
    for (guint i = 0; i < hub->registrations->len; i++) {
        const Registration *registration = hub->registrations->pdata[i];
        g_autoptr(GBytes) message = NULL;
        g_autoptr(GError) error = NULL;

        if (!wants(registration, occasion)) {
            continue;
        }
        *occasion->callback = registration->callback;
        message = lodge_message_encode(&header, occasion->xdr, occasion->message, &error);
        if (message) {
            registration->send(registration->client, message);
        } else {
            g_warning("%s", error->message);
        }
    }
    g_mutex_unlock(&hub->mutex);
}

gboolean lodge_event_hub_wants_monitor(LodgeEventHub *hub, const lv_domain *dom, const char *name)
{
    const Occasion occasion = {.dom = dom, .name = name};
    gboolean wanted = FALSE;

    g_mutex_lock(&hub->mutex);
    for (guint i = 0; i < hub->registrations->len && !wanted; i++) {
        wanted = wants(hub->registrations->pdata[i], &occasion);
    }
    g_mutex_unlock(&hub->mutex);
    return wanted;
}

void lodge_event_hub_lifecycle(LodgeEventHub *hub, const lv_domain *dom, int event, int detail)
{
    lv_lifecycle_msg message = {.what = {*dom, event, detail}};

    tell(hub, &(Occasion){
                  .program = LV_REMOTE,
                  .procedure = LV_EVENT_LIFECYCLE,
                  .xdr = (xdrproc_t)xdr_lv_lifecycle_msg,
                  .message = &message,
                  .callback = &message.callback,
                  .dom = dom,
                  .event = VIR_DOMAIN_EVENT_ID_LIFECYCLE,
              });
}

void lodge_event_hub_reboot(LodgeEventHub *hub, const lv_domain *dom)
{
    lv_reboot_msg message = {.dom = *dom};

    tell(hub, &(Occasion){
                  .program = LV_REMOTE,
                  .procedure = LV_EVENT_REBOOT,
                  .xdr = (xdrproc_t)xdr_lv_reboot_msg,
                  .message = &message,
                  .callback = &message.callback,
                  .dom = dom,
                  .event = VIR_DOMAIN_EVENT_ID_REBOOT,
              });
}

void lodge_event_hub_metadata(LodgeEventHub *hub, const lv_domain *dom, int type, const char *uri)
{
    lv_string text = (lv_string)uri;
    lv_metadata_msg message = {.dom = *dom, .type = type, .uri = uri ? &text : NULL};

    tell(hub, &(Occasion){
                  .program = LV_REMOTE,
                  .procedure = LV_EVENT_METADATA,
                  .xdr = (xdrproc_t)xdr_lv_metadata_msg,
                  .message = &message,
                  .callback = &message.callback,
                  .dom = dom,
                  .event = VIR_DOMAIN_EVENT_ID_METADATA_CHANGE,
              });
}

void lodge_event_hub_tunable(LodgeEventHub *hub, const lv_domain *dom, lv_param *params,
                             guint count)
{
    lv_tunable_msg message = {.dom = *dom, .params = {.params_len = count, .params_val = params}};

    tell(hub, &(Occasion){
                  .program = LV_REMOTE,
                  .procedure = LV_EVENT_TUNABLE,
                  .xdr = (xdrproc_t)xdr_lv_tunable_msg,
                  .message = &message,
                  .callback = &message.callback,
                  .dom = dom,
                  .event = VIR_DOMAIN_EVENT_ID_TUNABLE,
              });
}

void lodge_event_hub_monitor(LodgeEventHub *hub, const lv_domain *dom, const char *name,
                             const char *details)
{
    gint64 now = g_get_real_time();
    lv_string text = (lv_string)details;
    lv_monitor_msg message = {
        .dom = *dom,
        .event = (lv_string)name,
        .seconds = now / G_USEC_PER_SEC,
        .micros = (u_int)(now % G_USEC_PER_SEC),
        .details = details ? &text : NULL,
    };

    tell(hub, &(Occasion){
                  .program = LV_MONITOR,
                  .procedure = LV_MONITOR_EVENT,
                  .xdr = (xdrproc_t)xdr_lv_monitor_msg,
                  .message = &message,
                  .callback = &message.callback,
                  .dom = dom,
                  .name = name,
              });
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Who wants to hear of what, and telling them. Any thread; events of one machine are told in the order
 * in which they are given here.
 */
#pragma once

#include "wire/libvirt.h"

#include <glib.h>

typedef struct _LodgeEventHub LodgeEventHub;

/** Send a message to a client: any thread; must not call back. */
typedef void LodgeEventSend(gpointer client, GBytes *message);

LodgeEventHub *lodge_event_hub_new(void);
void lodge_event_hub_free(LodgeEventHub *hub);

/**
 * Register.
 *
 * @event  VIR_DOMAIN_EVENT_ID_…
 * @dom    NULL: of all machines; else found again by UUID.
 *
 * Returns the callback's number, which only @client can use.
 */
int lodge_event_hub_register(LodgeEventHub *hub, gpointer client, LodgeEventSend *send, int event,
                             const lv_domain *dom);
/**
 * The same for the monitor's events, which have names.
 *
 * @pattern  moved; NULL: all names.
 */
int lodge_event_hub_register_monitor(LodgeEventHub *hub, gpointer client, LodgeEventSend *send,
                                     GRegex *pattern, const lv_domain *dom);
/** FALSE: this client has no such callback, for events or for the monitor's as @monitor says. */
gboolean lodge_event_hub_deregister(LodgeEventHub *hub, gpointer client, int callback,
                                    gboolean monitor);
/** A client has gone: nothing is sent to it any more when this returns. */
void lodge_event_hub_forget(LodgeEventHub *hub, gpointer client);

/** VIR_DOMAIN_EVENT_… and its detail. */
void lodge_event_hub_lifecycle(LodgeEventHub *hub, const lv_domain *dom, int event, int detail);
void lodge_event_hub_reboot(LodgeEventHub *hub, const lv_domain *dom);
/** @uri: may be NULL. */
void lodge_event_hub_metadata(LodgeEventHub *hub, const lv_domain *dom, int type, const char *uri);
void lodge_event_hub_tunable(LodgeEventHub *hub, const lv_domain *dom, lv_param *params,
                             guint count);
/* The monitor's events (docs/stats.md). */
#define LODGE_MONITOR_CRASH    "lodge-crash"
#define LODGE_MONITOR_TEARDOWN "lodge-teardown"

/** Whether anybody would hear it. */
gboolean lodge_event_hub_wants_monitor(LodgeEventHub *hub, const lv_domain *dom, const char *name);
/** @details: JSON; may be NULL. */
void lodge_event_hub_monitor(LodgeEventHub *hub, const lv_domain *dom, const char *name,
                             const char *details);

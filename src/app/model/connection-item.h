/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A connection to a hypervisor, and the machines that are there.
 *
 *     CLOSED --open--> OPENING --(answer)--> OPEN --(peer gone)--> LOST
 *     OPENING --(refused)--> LOST --(retry, or open)--> OPENING
 *     any --close--> CLOSED
 *
 * What LOST has lost is tried for again after 1, 2, 4 … LODGE_CONNECTION_RETRY_MOST_S seconds. The
 * machines stay listed meanwhile, in an unknown state: only a look that succeeded takes one away.
 *
 * It is looked at once a second, and soon after each event of the hypervisor's: one call for all
 * machines, one at a time, in a worker. Nothing here waits.
 *
 * Properties, read only: "uri", "title", "state", "trouble" (a sentence, or NULL while all is well),
 * "machines" (GListModel of LodgeMachineItem). Signal "looked" after each look that succeeded.
 * Context: main thread.
 */
#pragma once

#include "app/model/machine-item.h"

#include <gio/gio.h>

#define LODGE_CONNECTION_RETRY_MOST_S 30u

typedef enum {
    LODGE_CONNECTION_CLOSED,
    LODGE_CONNECTION_OPENING,
    LODGE_CONNECTION_OPEN,
    LODGE_CONNECTION_LOST,
} LodgeConnectionState;

#define LODGE_TYPE_CONNECTION_ITEM (lodge_connection_item_get_type())
G_DECLARE_FINAL_TYPE(LodgeConnectionItem, lodge_connection_item, LODGE, CONNECTION_ITEM, GObject)

/** Closed still. @uri is any of libvirt's; LODGE_CONNECTION_DEFAULT starts its daemon by itself. */
LodgeConnectionItem *lodge_connection_item_new(const char *uri);

/** Connect, or try again now. Nothing to do while it is open or opening. */
void lodge_connection_item_open(LodgeConnectionItem *item);
/** Let go of the peer; machines stay, unknown. */
void lodge_connection_item_close(LodgeConnectionItem *item);
/** Look soon: something was done there. */
void lodge_connection_item_look(LodgeConnectionItem *item);

/** Borrowed. */
const char *lodge_connection_item_get_uri(LodgeConnectionItem *item);
const char *lodge_connection_item_get_title(LodgeConnectionItem *item);
const char *lodge_connection_item_get_trouble(LodgeConnectionItem *item);
GListModel *lodge_connection_item_get_machines(LodgeConnectionItem *item);
LodgeConnectionState lodge_connection_item_get_state(LodgeConnectionItem *item);

/** NULL: there is none of that UUID. Borrowed. */
LodgeMachineItem *lodge_connection_item_find(LodgeConnectionItem *item, const char *uuid);

/** A reference for a worker, owned by it: virConnectClose(). NULL unless it is OPEN. */
virConnectPtr lodge_connection_item_ref_connection(LodgeConnectionItem *item);

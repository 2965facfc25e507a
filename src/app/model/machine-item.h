/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A machine as the application shows it.
 *
 * Properties, all to be read only and told of by "notify" when they change: "name", "uuid", "state"
 * (virDomainState), "active", "vcpus", "memory" (bytes), "cpu" (share of its vCPUs, 0 to 1), "facts"
 * (a line of text), "hidden" (it is about to be deleted). Signal "sampled" after each look.
 *
 * While its connection is away its state is VIR_DOMAIN_NOSTATE: unknown, which is not gone.
 * Context: main thread.
 */
#pragma once

#include "app/model/machine-facts.h"

#include <glib-object.h>

#define LODGE_MACHINE_SAMPLES   60u /* kept of each machine, one a look */

#define LODGE_TYPE_MACHINE_ITEM (lodge_machine_item_get_type())
G_DECLARE_FINAL_TYPE(LodgeMachineItem, lodge_machine_item, LODGE, MACHINE_ITEM, GObject)

/**
 * Make one.
 *
 * @connection  LodgeConnectionItem, borrowed: it outlives its machines, or is NULL here from then on.
 * @facts       borrowed.
 */
LodgeMachineItem *lodge_machine_item_new(GObject *connection, const LodgeMachineFacts *facts);

/** Take what another look told; @facts, borrowed, are of the same UUID. */
void lodge_machine_item_update(LodgeMachineItem *item, const LodgeMachineFacts *facts);
/** The connection is away: nobody knows. */
void lodge_machine_item_forget(LodgeMachineItem *item);

/** Borrowed. */
const char *lodge_machine_item_get_name(LodgeMachineItem *item);
const char *lodge_machine_item_get_uuid(LodgeMachineItem *item);
const char *lodge_machine_item_get_facts(LodgeMachineItem *item);
/** Of the LodgeConnectionItem that has it: borrowed; NULL when that has gone. */
gpointer lodge_machine_item_get_connection(LodgeMachineItem *item);
int lodge_machine_item_get_state(LodgeMachineItem *item);
guint lodge_machine_item_get_vcpus(LodgeMachineItem *item);
guint64 lodge_machine_item_get_memory(LodgeMachineItem *item);
gdouble lodge_machine_item_get_cpu(LodgeMachineItem *item);
gboolean lodge_machine_item_get_hidden(LodgeMachineItem *item);
void lodge_machine_item_set_hidden(LodgeMachineItem *item, gboolean hidden);

/** A reference for a worker, owned by it: virDomainFree(). NULL while the connection is away. */
virDomainPtr lodge_machine_item_ref_domain(LodgeMachineItem *item);

/**
 * Its CPU shares, oldest first.
 *
 * @samples  room for LODGE_MACHINE_SAMPLES.
 *
 * Returns how many there are.
 */
guint lodge_machine_item_get_samples(LodgeMachineItem *item, gfloat *samples);

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What one look at a hypervisor tells of a machine: plain data, made by a worker. */
#pragma once

#include "client/machine.h"

/* Of virDomainState: they are below this. */
#define LODGE_MACHINE_STATES (VIR_DOMAIN_PMSUSPENDED + 1)

typedef struct {
    virDomainPtr domain; /* owned */
    char *name, *uuid;
    int state; /* virDomainState */
    guint vcpus;
    guint64 memory_bytes; /* the most that it may have */
    guint64 cpu_ns;       /* used since it started; 0: it is off, or the hypervisor does not tell */
    gint64 moment_us;     /* of the look, monotonic */
} LodgeMachineFacts;

void lodge_machine_facts_free(LodgeMachineFacts *facts);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(LodgeMachineFacts, lodge_machine_facts_free)

/**
 * Look at all machines of a connection.
 *
 * Returns LodgeMachineFacts, owned by the caller; NULL with libvirt's error in the calling thread.
 * Context: a worker; waits for the peer.
 */
GPtrArray *lodge_machine_facts_look(virConnectPtr connection);

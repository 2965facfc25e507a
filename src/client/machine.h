/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What all clients say about a machine, and do with one, alike. */
#pragma once

#include "client/connection.h"

/** In their order: as strcmp(), and numbers in names count as such. */
int lodge_machine_compare_names(const char *left, const char *right);
/** Is a machine in that virDomainState there to be stopped? */
gboolean lodge_machine_is_active(int state);
/** "running", "paused", "shut off", … */
const char *lodge_machine_state_name(int state);

/**
 * Take a machine's definition away, with what the hypervisor keeps beside it.
 *
 * Returns 0; -1 with libvirt's error in the calling thread. Waits for the peer.
 */
int lodge_machine_undefine(virDomainPtr domain);

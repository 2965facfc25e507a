/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What this host can run, as XML: answers to virConnectGetCapabilities() and
 * virConnectGetDomainCapabilities(). virt-install and virt-manager look here before anything else for a
 * <guest> with a <domain type='lodge'>, and refuse to go on without one.
 */
#pragma once

#include "config/host-info.h"

/**
 * @emulator  what a <domain>'s <emulator> is: an absolute path.
 *
 * Returns XML, owned by the caller: g_free().
 */
char *lodge_capabilities_format(const LodgeHostInfo *host, const char *emulator);

/* What a client asks for; NULL: whatever there is. */
typedef struct {
    const char *emulator, *arch, *machine, *type;
} LodgeDomainCapabilitiesRequest;

/**
 * Returns XML, owned by the caller; NULL with LODGE_ERROR_INPUT naming what is asked for and not to be
 * had.
 */
char *lodge_domain_capabilities_format(const char *emulator,
                                       const LodgeDomainCapabilitiesRequest *request,
                                       GError **error);

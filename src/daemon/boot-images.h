/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What a machine boots: files that its definition names, or descriptors that clients gave for it. */
#pragma once

#include "build/builder.h"
#include "config/domain-config.h"
#include "daemon/fd-groups.h"

/**
 * Read the kernel and the initrd of a definition.
 *
 * @fds  borrowed.
 *
 * Returns a builder, owned by the caller; NULL with LODGE_ERROR_INPUT that names the file or the group,
 * the cause, and what to do. Any thread; waits for the file system.
 */
LodgeBuilder *lodge_boot_images_open(const LodgeDomainConfig *config, LodgeFdGroups *fds,
                                     GError **error);

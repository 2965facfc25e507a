/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What a host must have, or had better have, for machines to run on it. */
#pragma once

#include "cli/findings.h"

/**
 * KVM, the kernel's settings, memory and limits.
 *
 * @root  where /proc, /sys and /dev are: "" for the host's own.
 */
void lodge_host_check(LodgeFindings *findings, const char *root);

/** What programs could still be given of the host's memory. FALSE: @root's /proc does not tell. */
gboolean lodge_host_available_memory(const char *root, guint64 *bytes_out);

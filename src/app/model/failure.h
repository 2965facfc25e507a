/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Errors of libvirt in the words of the application: what to do next is what its window offers. */
#pragma once

#include "client/connection.h"

/**
 * Set @error to "context: what the library says; what to do next". Returns FALSE.
 *
 * Context: the thread of the call that failed, before its next one.
 */
gboolean lodge_failure_set(GError **error, const char *format, ...) G_GNUC_PRINTF(2, 3);

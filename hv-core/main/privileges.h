/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What a process that holds guests' memory gives up at its very beginning. */
#pragma once

#include <hv/compiler.h>

#include <stdbool.h>

/**
 * Close every descriptor that is not standard and not one of @keep (-1s are none), and have the
 * standard ones be open. First of all: nothing else has been opened yet.
 */
void hv_privileges_close_rest(const int *keep, unsigned count);

/**
 * No core dumps, since they hold guests' memory; as many descriptors as the host lets us have; no new
 * privileges by running a program, for good; and unless @debuggable no other process of the same user
 * may read our memory, which would go around the walls between guests and their controller.
 *
 * Returns 0, or a negative errno of the host's, with *what_out, a literal, set to what failed.
 */
HV_MUST_CHECK int hv_privileges_drop(bool debuggable, const char **what_out);

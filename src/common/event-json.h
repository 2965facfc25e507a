/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the daemon's monitor events say (docs/stats.md), as JSON. Numbers of the guest are texts, "0x…":
 * half of what 64 bits hold is beyond JSON's integers. */
#pragma once

#include <hv/domain.h>
#include <hv/teardown.h>
#include <json-glib/json-glib.h>

/**
 * How a machine crashed.
 *
 * @reason  made UTF-8 where it is not.
 * @report  NULL: the reason is all that there is.
 *
 * Returns an object, owned by the caller.
 */
JsonNode *lodge_crash_to_node(const char *reason, const struct hv_crash_report *report);

/**
 * How far a machine has been taken apart, and who holds pages of it.
 *
 * @holds  @count of them.
 *
 * Returns an object, owned by the caller.
 */
JsonNode *lodge_teardown_to_node(const struct hv_teardown_info *info,
                                 const struct hv_foreign_hold *holds, gsize count);

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What holds for any XML, good or bad: for the unit tests and the fuzz target. */
#pragma once

#include <glib.h>

/**
 * Parse, and see that there is a definition or an error of LODGE_ERROR; that what is parsed is
 * written in a form that gives the same fields and, written again, the same text; that a copy is
 * the same; and that the shape of a running machine can be read back. Then the same XML as the metadata
 * of another machine.
 *
 * Returns NULL when all holds, else what does not: g_free().
 */
char *domain_invariants_check(const char *xml, gsize length);

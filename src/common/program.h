/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Programs of Lodge's that this one starts. */
#pragma once

#include <glib.h>

/**
 * Find one by its place beside this program: in a prefix that is nobody's default, or where all were
 * built.
 *
 * @places  paths from this program's folder, with NULL behind the last.
 *
 * Returns the first that can be executed, to be freed with g_free(); NULL: none.
 */
char *lodge_program_find_beside(const char *const *places);

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Machines' names as file names: a to z, 0 to 9, "-", "_", and "." but at the beginning stand for
 * themselves; every other byte is "%" and two hexadecimal digits.
 *
 * So each name has one file name, in ASCII and lower case: two names never meet, not even on a file
 * system that folds the case of letters or the forms of Unicode.
 */
#pragma once

#include <glib.h>

/** Three times as long as @name, at most. Free with g_free(). */
char *lodge_file_name_encode(const char *name);

/** The name again; NULL when @encoded is not what a valid name is encoded as. Free with g_free(). */
char *lodge_file_name_decode(const char *encoded);

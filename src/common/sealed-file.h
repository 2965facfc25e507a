/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Files in memory that another process has made, before they are mapped. Source: memfd_create(2). */
#pragma once

#include <glib.h>

/**
 * Look whether a file is sealed as it is to be.
 *
 * @seals  F_SEAL_…: all of them. With F_SEAL_SHRINK nobody makes it shorter under a mapping.
 *
 * Returns its length in bytes; -1 when it lacks one of the seals, or is no such file.
 */
goffset lodge_sealed_file_length(int fd, int seals);

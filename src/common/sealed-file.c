/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Seals first: only then the length is one that lasts. */
#include "common/sealed-file.h"

#include <fcntl.h>
#include <sys/stat.h>

goffset lodge_sealed_file_length(int fd, int seals)
{
    int found = fcntl(fd, F_GET_SEALS);
    struct stat status;

    if (found < 0 || (found & seals) != seals || fstat(fd, &status) < 0) {
        return -1;
    }
    return status.st_size;
}

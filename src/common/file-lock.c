/* SPDX-License-Identifier: GPL-3.0-or-later */
/* flock(2), again and again. */
#include "common/file-lock.h"

#include <errno.h>
#include <glib.h>
#include <sys/file.h>

#define PATIENCE_US (1 * G_TIME_SPAN_SECOND)
#define AGAIN_US    5000

int lodge_file_lock(int fd)
{
    gint64 end = g_get_monotonic_time() + PATIENCE_US;

    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        int cause = errno;

        if (cause != EWOULDBLOCK || g_get_monotonic_time() >= end) {
            return -cause;
        }
        g_usleep(AGAIN_US);
    }
    return 0;
}

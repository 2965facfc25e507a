/* SPDX-License-Identifier: GPL-3.0-or-later */
/* close_range(2), setrlimit(2), prctl(2). */
#include "main/privileges.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

/* Descriptors that are to be kept, from the lowest up: the gaps between them are closed. */
void hv_privileges_close_rest(const int *keep, unsigned count)
{
    unsigned from = STDERR_FILENO + 1;

    for (;;) {
        unsigned next = UINT_MAX;

        for (unsigned i = 0; i < count; i++) {
            if (keep[i] >= (int)from && (unsigned)keep[i] < next) {
                next = (unsigned)keep[i];
            }
        }
        if (next > from) {
            close_range(from, next - 1, 0);
        }
        if (next == UINT_MAX) {
            break;
        }
        fcntl((int)next, F_SETFD, FD_CLOEXEC);
        from = next + 1;
    }
    /* Started with one of them closed, the next socket would take its place, and our messages. */
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", O_RDWR) < 0) {
            _exit(1);
        }
    }
}

static int limit(int resource, bool none)
{
    struct rlimit limits;

    if (getrlimit(resource, &limits) < 0) {
        return -errno;
    }
    limits.rlim_max = none ? 0 : limits.rlim_max;
    limits.rlim_cur = limits.rlim_max;
    return setrlimit(resource, &limits) < 0 ? -errno : 0;
}

int hv_privileges_drop(bool debuggable, const char **what_out)
{
    int rc;

    *what_out = "forbidding core dumps";
    rc = limit(RLIMIT_CORE, true);
    if (rc < 0) {
        return rc;
    }
    *what_out = "raising the limit of open files";
    rc = limit(RLIMIT_NOFILE, false);
    if (rc < 0) {
        return rc;
    }
    *what_out = "giving up new privileges";
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) {
        return -errno;
    }
    *what_out = "hiding the process's memory";
    if (!debuggable && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0) {
        return -errno;
    }
    return 0;
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* mkdir(2), flock(2), bind(2): the last use of the file system. */
#include "main/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/format.h"
#include "main/options.h"
#include "sync/race.h"

#define BACKLOG 16

static int complain_errno(const char *doing, const char *path)
{
    hv_options_complain("%s %s: %s", doing, path, strerrordesc_np(errno));
    return -1;
}

static int find_directory(char *path, size_t size)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");

    if (!runtime && geteuid() == 0) {
        runtime = "/run";
    }
    if (!runtime || runtime[0] != '/') {
        hv_options_complain("XDG_RUNTIME_DIR %s: set it to a directory of your own",
                            runtime ? "is no absolute path" : "is not set");
        return -1;
    }
    if (hv_format(path, size, "%s/lodge", runtime) >= size - 1) {
        hv_options_complain("XDG_RUNTIME_DIR is too long");
        return -1;
    }
    return 0;
}

/* Ours alone: who can write there could put another socket in the place of ours. */
static int make_directory(const char *path)
{
    struct stat status;

    if (mkdir(path, 0700) < 0 && errno != EEXIST) {
        return complain_errno("cannot make", path);
    }
    if (lstat(path, &status) < 0) {
        return complain_errno("cannot look at", path);
    }
    if (!S_ISDIR(status.st_mode) || status.st_uid != geteuid() || (status.st_mode & 022)) {
        hv_options_complain("%s: it must be a directory of your own that nobody else can write to",
                            path);
        return -1;
    }
    return 0;
}

static int try_lock(const char *path, const char *pool)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600);

    if (fd < 0) {
        return complain_errno("cannot open", path);
    }
    HV_RACE("socket.lock.opened");
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno == EWOULDBLOCK) {
            hv_options_complain("a core of the pool %s runs already (%s is locked)", pool, path);
        } else {
            complain_errno("cannot lock", path);
        }
        close(fd);
        return -1;
    }
    return fd;
}

/* Who sweeps up after ended cores removes what he has locked: such a lock keeps nobody out. */
static bool is_there(int fd)
{
    struct stat status;

    return fstat(fd, &status) == 0 && status.st_nlink > 0;
}

/* Its descriptor is left open: the lock goes with the process. */
static int take_lock(const char *directory, const char *pool)
{
    char path[PATH_MAX];
    int fd;

    hv_format(path, sizeof(path), "%s/core-%s.lock", directory, pool);
    while ((fd = try_lock(path, pool)) >= 0 && !is_there(fd)) {
        close(fd);
    }
    return fd < 0 ? -1 : 0;
}

static int start_listening(const char *directory, const char *pool)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char path[PATH_MAX];
    int fd;

    hv_format(path, sizeof(path), "%s/core-%s.sock", directory, pool);
    if (strlen(path) >= sizeof(address.sun_path)) {
        hv_options_complain("%s: a socket's path has at most %zu bytes; set XDG_RUNTIME_DIR to a "
                            "shorter one",
                            path, sizeof(address.sun_path) - 1);
        return -1;
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return complain_errno("cannot make the socket", path);
    }
    /* We have the lock: nobody serves it. */
    if ((unlink(path) < 0 && errno != ENOENT) ||
        bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ||
        listen(fd, BACKLOG) < 0) {
        complain_errno("cannot make the socket", path);
        close(fd);
        return -1;
    }
    return fd;
}

int hv_socket_open(const char *pool)
{
    char directory[PATH_MAX - 64];

    umask(077);
    if (find_directory(directory, sizeof(directory)) < 0 || make_directory(directory) < 0 ||
        take_lock(directory, pool) < 0) {
        return -1;
    }
    return start_listening(directory, pool);
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One core of a pool, also while somebody sweeps up after the one before. */
#include "main/socket.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/tap.h"
#include "lib/threads.h"
#include "sync/race.h"

#define POOL "swept"

static char directory[] = "/tmp/lodge-socket-XXXXXX";

static void path_of(char *path, size_t size, const char *name)
{
    snprintf(path, size, "%s/lodge%s", directory, name);
}

/* Whether somebody has the lock that stands at the path, so that the next core finds it. */
static bool is_locked(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    bool locked = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0;

    if (fd >= 0) {
        close(fd);
    }
    return locked;
}

static void open_socket(unsigned index, void *context)
{
    (void)index;
    hv_race_name_thread(1);
    *(int *)context = hv_socket_open(POOL);
}

/* What an ended core has left is removed between the opening of its lock and the taking of it. */
static void test_lock_swept(void)
{
    char folder[PATH_MAX], lock[PATH_MAX], socket[PATH_MAX];
    struct threads threads;
    int listener = -1;
    int left;

    TAP_OK(mkdtemp(directory));
    setenv("XDG_RUNTIME_DIR", directory, 1);
    path_of(folder, sizeof(folder), "");
    path_of(lock, sizeof(lock), "/core-" POOL ".lock");
    path_of(socket, sizeof(socket), "/core-" POOL ".sock");
    TAP_OK(mkdir(folder, 0700) == 0);
    left = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    TAP_OK(left >= 0);
    close(left);
    hv_race_begin();
    hv_race_stop(1, "socket.lock.opened", 0);
    threads_start(&threads, 1, open_socket, &listener);
    TAP_OK(hv_race_await(1, "socket.lock.opened"));
    TAP_OK(!is_locked(lock) && unlink(lock) == 0);
    hv_race_release(1, "socket.lock.opened");
    threads_join(&threads);
    hv_race_end();
    TAP_OK(listener >= 0);
    TAP_OK(is_locked(lock));
    /* And so there is no second one. */
    TAP_EQ(hv_socket_open(POOL), -1);
    TAP_OK(access(socket, F_OK) == 0);
    close(listener);
    TAP_OK(unlink(socket) == 0 && unlink(lock) == 0 && rmdir(folder) == 0 && rmdir(directory) == 0);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"main.socket.lock-swept", test_lock_swept},
    };
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

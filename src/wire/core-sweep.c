/* SPDX-License-Identifier: GPL-3.0-or-later */
/* flock(2) says who lives. */
#include "wire/core-sweep.h"

#include "wire/core-launch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX "core-"
#define LOCK   ".lock"
#define SOCKET ".sock"

/* The file may have been another's, who has removed it since it was opened. */
static gboolean is_there(int fd)
{
    struct stat status;

    return fstat(fd, &status) == 0 && status.st_nlink > 0;
}

/* The lock last: without it, nobody would look for the socket. */
static void remove_files(int folder, const char *lock)
{
    g_autofree char *pool = g_strndup(lock, strlen(lock) - strlen(LOCK));
    g_autofree char *socket = g_strconcat(pool, SOCKET, NULL);

    if (unlinkat(folder, socket, 0) == 0 || errno == ENOENT) {
        unlinkat(folder, lock, 0);
    }
}

/* TRUE: its core lives, or nobody can say. */
static gboolean sweep_pool(int folder, const char *lock)
{
    int fd = openat(folder, lock, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    gboolean lives = FALSE;

    if (fd < 0) {
        return errno != ENOENT;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        lives = TRUE;
    } else if (is_there(fd)) {
        remove_files(folder, lock);
    }
    close(fd);
    return lives;
}

gboolean lodge_core_sweep_pool(const char *pool)
{
    g_autofree char *path = lodge_core_launch_path(&(LodgeCoreLaunch){.pool = pool});
    g_autofree char *folder = g_path_get_dirname(path);
    g_autofree char *lock = g_strdup_printf(PREFIX "%s" LOCK, pool);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    gboolean lives;

    if (fd < 0) {
        return errno != ENOENT;
    }
    lives = sweep_pool(fd, lock);
    close(fd);
    return lives;
}

guint lodge_core_sweep(void)
{
    g_autofree char *path = lodge_core_launch_path(&(LodgeCoreLaunch){0});
    g_autofree char *folder = g_path_get_dirname(path);
    DIR *entries = opendir(folder);
    const struct dirent *entry;
    guint live = 0;

    while (entries && (entry = readdir(entries))) {
        if (g_str_has_prefix(entry->d_name, PREFIX) && g_str_has_suffix(entry->d_name, LOCK)) {
            live += sweep_pool(dirfd(entries), entry->d_name);
        }
    }
    if (entries) {
        closedir(entries);
    }
    return live;
}

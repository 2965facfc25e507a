/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A folder of small files: see disk.h. */
#include "config/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Ask the watch; it answers as disk.h says. */
static int announce(LodgeDisk *disk, LodgeDiskOp op, const char *name, const char *to,
                    const void *data, gsize length)
{
    const LodgeDiskStep step = {op, name, to, data, length};

    return disk->watch.before ? disk->watch.before(disk->watch.context, &step) : 0;
}

/* Of a system call, at once after it. */
static int outcome(int result)
{
    return result < 0 ? -errno : 0;
}

int lodge_disk_open(LodgeDisk *disk, const char *path, const LodgeDiskWatch *watch)
{
    *disk = (LodgeDisk){.folder = -1};
    if (g_mkdir_with_parents(path, 0700) < 0) {
        return -errno;
    }
    disk->folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (disk->folder < 0) {
        return -errno;
    }
    disk->path = g_strdup(path);
    if (watch) {
        disk->watch = *watch;
    }
    return 0;
}

void lodge_disk_close(LodgeDisk *disk)
{
    if (disk->folder >= 0) {
        close(disk->folder);
    }
    disk->folder = -1;
    g_clear_pointer(&disk->path, g_free);
}

char *lodge_disk_path(const LodgeDisk *disk, const char *name)
{
    return g_build_filename(disk->path, name, NULL);
}

gboolean lodge_disk_has(const LodgeDisk *disk, const char *name)
{
    struct stat status;

    return fstatat(disk->folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
}

/* Up to the end of the file, at most @max and a byte. */
static int read_all(int fd, gsize max, GByteArray *to)
{
    guint8 part[16384];

    while (to->len <= max) {
        ssize_t got = read(fd, part, MIN(sizeof(part), max + 1 - to->len));

        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return -errno;
        }
        if (got == 0) {
            return 0;
        }
        g_byte_array_append(to, part, (guint)got);
    }
    return -EFBIG;
}

int lodge_disk_read(const LodgeDisk *disk, const char *name, gsize max, GBytes **data_out)
{
    g_autoptr(GByteArray) data = g_byte_array_new();
    struct stat status;
    int result;
    /* Not blocking: a FIFO without a writer would hold us for ever. */
    int fd = openat(disk->folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    *data_out = NULL;
    if (fd < 0) {
        return -errno;
    }
    if (fstat(fd, &status) < 0) {
        result = -errno;
    } else if (!S_ISREG(status.st_mode)) {
        result = S_ISDIR(status.st_mode) ? -EISDIR : -EINVAL;
    } else {
        result = read_all(fd, max, data);
    }
    close(fd);
    if (result == 0) {
        *data_out = g_byte_array_free_to_bytes(g_steal_pointer(&data));
    }
    return result;
}

static int write_all(int fd, const guint8 *data, gsize length)
{
    while (length > 0) {
        ssize_t written = write(fd, data, length);

        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written < 0) {
            return -errno;
        }
        data += written;
        length -= (gsize)written;
    }
    return 0;
}

static int sync_file(LodgeDisk *disk, int fd, const char *name)
{
    int answer = announce(disk, LODGE_DISK_SYNC, name, NULL, NULL, 0);

    return answer ? MIN(answer, 0) : outcome(fsync(fd));
}

static int fill(LodgeDisk *disk, int fd, const char *name, const void *data, gsize length)
{
    int answer = announce(disk, LODGE_DISK_WRITE, name, NULL, data, length);
    int result = answer < 0 ? answer : write_all(fd, data, length);

    return result ? result : sync_file(disk, fd, name);
}

int lodge_disk_write(LodgeDisk *disk, const char *name, const void *data, gsize length)
{
    int result = announce(disk, LODGE_DISK_CREATE, name, NULL, NULL, 0);
    int fd;

    if (result < 0) {
        return result;
    }
    fd = openat(disk->folder, name,
                O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd < 0) {
        return -errno;
    }
    result = fill(disk, fd, name, data, length);
    /* Some file systems tell of a full disk here. */
    if (close(fd) < 0 && result == 0) {
        result = -errno;
    }
    if (result < 0) {
        unlinkat(disk->folder, name, 0);
    }
    return result;
}

int lodge_disk_overwrite(LodgeDisk *disk, int fd, const char *name, const void *data, gsize length)
{
    int answer = announce(disk, LODGE_DISK_OVERWRITE, name, NULL, data, length);
    ssize_t written;

    if (answer < 0) {
        return answer;
    }
    do {
        written = pwrite(fd, data, length, 0);
    } while (written < 0 && errno == EINTR);
    if (written < 0) {
        return -errno;
    }
    return (gsize)written < length ? -ENOSPC : sync_file(disk, fd, name);
}

int lodge_disk_link(LodgeDisk *disk, const char *name, const char *to)
{
    int answer = announce(disk, LODGE_DISK_LINK, name, to, NULL, 0);

    return answer < 0 ? answer : outcome(linkat(disk->folder, name, disk->folder, to, 0));
}

int lodge_disk_rename(LodgeDisk *disk, const char *name, const char *to)
{
    int answer = announce(disk, LODGE_DISK_RENAME, name, to, NULL, 0);

    return answer < 0 ? answer : outcome(renameat(disk->folder, name, disk->folder, to));
}

int lodge_disk_remove(LodgeDisk *disk, const char *name)
{
    int answer, result;

    if (!lodge_disk_has(disk, name)) {
        return 0;
    }
    answer = announce(disk, LODGE_DISK_REMOVE, name, NULL, NULL, 0);
    result = answer < 0 ? answer : outcome(unlinkat(disk->folder, name, 0));
    return result == -ENOENT ? 0 : result;
}

int lodge_disk_sync(LodgeDisk *disk)
{
    int answer = announce(disk, LODGE_DISK_SYNC_FOLDER, NULL, NULL, NULL, 0);

    return answer ? MIN(answer, 0) : outcome(fsync(disk->folder));
}

static int compare_names(gconstpointer a, gconstpointer b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int lodge_disk_list(const LodgeDisk *disk, GStrv *names_out)
{
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
    int fd = openat(disk->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *entry;
    int result;

    *names_out = NULL;
    if (!folder) {
        result = -errno;
        if (fd >= 0) {
            close(fd);
        }
        return result;
    }
    while (errno = 0, (entry = readdir(folder))) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            g_ptr_array_add(names, g_strdup(entry->d_name));
        }
    }
    result = -errno;
    closedir(folder);
    if (result < 0) {
        return result;
    }
    g_ptr_array_sort(names, compare_names);
    g_ptr_array_add(names, NULL);
    *names_out = (GStrv)g_ptr_array_free(g_steal_pointer(&names), FALSE);
    return 0;
}

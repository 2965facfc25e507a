/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The thread, and how it is woken. */
#include "daemon/console-file.h"

#include "common/file-lock.h"
#include "common/i18n.h"
#include "common/lodge-error.h"
#include "common/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <hv/domain.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK_BYTES 16384u
/* More is never given twice: it is what a core keeps. */
#define SKIP_MAX    65536u

struct _LodgeConsoleFile {
    /* Set at creation. */
    char *path;
    int fd;
    gboolean append;
    /* Set when it starts. */
    LodgeConsoleRing *ring;
    struct hv_domain *domain;
    guint reader;
    GThread *thread;
    GMutex mutex;
    GCond changed;
    /* Guarded by mutex. */
    gboolean ready; /* the ring may hold something */
    gboolean closing;
    /* The thread's. */
    gsize skip;       /* bytes to come that the file has */
    gboolean failing; /* which was said */
};

/* Not O_TRUNC: what is no regular file is left alone, and so is one whose machine does not start. */
static int open_regular(const char *path, gboolean append, GError **error)
{
    int fd = g_open(
        path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | (append ? O_APPEND : 0),
        0600);
    int cause = errno;
    struct stat status;

    if (fd < 0) {
        lodge_error_refuse(error, _("Cannot open “%s” for the output of a serial port: %s"), path,
                           g_strerror(cause));
        return -1;
    }
    if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode)) {
        lodge_error_refuse(error,
                           _("“%s” is no regular file, to which a serial port of type “file” "
                             "writes; for none at all there is the type “null”"),
                           path);
        close(fd);
        return -1;
    }
    /* A file system that has no locks is as good as one without other machines. */
    if (lodge_file_lock(fd) == -EWOULDBLOCK) {
        lodge_error_refuse(
            error,
            _("“%s” is in use: another machine's serial port, or another program, has "
              "it locked; give each port a file of its own"),
            path);
        close(fd);
        return -1;
    }
    return fd;
}

gboolean lodge_console_file_is(LodgeConsoleFile *file, const char *path)
{
    struct stat own, other;

    return path && fstat(file->fd, &own) == 0 && stat(path, &other) == 0 &&
           own.st_dev == other.st_dev && own.st_ino == other.st_ino;
}

LodgeConsoleFile *lodge_console_file_open(const char *path, gboolean append, GError **error)
{
    int fd = open_regular(path, append, error);
    LodgeConsoleFile *file;

    if (fd < 0) {
        return NULL;
    }
    file = g_new0(LodgeConsoleFile, 1);
    file->path = g_strdup(path);
    file->fd = fd;
    file->append = append;
    g_mutex_init(&file->mutex);
    g_cond_init(&file->changed);
    return file;
}

void lodge_console_file_skip(LodgeConsoleFile *file, guint64 position)
{
    struct stat status;

    if (fstat(file->fd, &status) == 0 && (guint64)status.st_size > position) {
        file->skip = (gsize)MIN((guint64)status.st_size - position, SKIP_MAX);
    }
}

/* What cannot be written is lost, as on a wire that nobody listens to: the machine goes on. */
static void write_all(LodgeConsoleFile *file, const guint8 *data, gsize bytes)
{
    while (bytes > 0) {
        ssize_t written = write(file->fd, data, bytes);

        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            if (!file->failing) {
                g_warning(_("Cannot write a serial port's output to “%s”: %s; it is lost until "
                            "that is mended"),
                          file->path, g_strerror(errno));
            }
            file->failing = TRUE;
            return;
        }
        data += written;
        bytes -= (gsize)written;
        file->failing = FALSE;
    }
}

/* TRUE: more may come. */
static gboolean drain(LodgeConsoleFile *file)
{
    LodgeRingState state;
    gboolean resume;
    gsize bytes;

    do {
        guint8 data[CHUNK_BYTES];
        gsize had;

        state =
            lodge_console_ring_read(file->ring, file->reader, data, sizeof(data), &bytes, &resume);
        had = MIN(file->skip, bytes);
        file->skip -= had;
        write_all(file, data + had, bytes - had);
        if (resume) {
            hv_domain_console_writable(file->domain);
        }
    } while (bytes > 0);
    return state == LODGE_RING_OPEN;
}

/* TRUE: look at the ring; FALSE: that was the last look. */
static gboolean await(LodgeConsoleFile *file)
{
    gboolean more;

    g_mutex_lock(&file->mutex);
    while (!file->ready && !file->closing) {
        g_cond_wait(&file->changed, &file->mutex);
    }
    file->ready = FALSE;
    more = !file->closing;
    g_mutex_unlock(&file->mutex);
    return more;
}

static gpointer follow(gpointer data)
{
    LodgeConsoleFile *file = data;

    while (await(file) && drain(file)) {
    }
    drain(file);
    return NULL;
}

static void on_ready(gpointer data)
{
    LodgeConsoleFile *file = data;

    g_mutex_lock(&file->mutex);
    file->ready = TRUE;
    g_cond_signal(&file->changed);
    g_mutex_unlock(&file->mutex);
}

gboolean lodge_console_file_start(LodgeConsoleFile *file, LodgeConsoleRing *ring,
                                  struct hv_domain *domain, GError **error)
{
    if (!file->append && ftruncate(file->fd, 0) < 0) {
        return lodge_error_refuse(error, _("Cannot empty “%s”: %s"), file->path, g_strerror(errno));
    }
    file->ring = ring;
    file->domain = domain;
    file->reader = lodge_console_ring_open(ring, TRUE, on_ready, file);
    file->thread = lodge_thread_new("serial-file", follow, file, error);
    return file->thread != NULL;
}

void lodge_console_file_close(LodgeConsoleFile *file)
{
    if (!file) {
        return;
    }
    if (file->thread) {
        /* First: what the ring takes from here on, nobody would write. */
        lodge_console_ring_hold(file->ring);
        g_mutex_lock(&file->mutex);
        file->closing = TRUE;
        g_cond_signal(&file->changed);
        g_mutex_unlock(&file->mutex);
        g_thread_join(file->thread);
    }
    if (file->reader) {
        (void)lodge_console_ring_close(file->ring, file->reader);
    }
    g_cond_clear(&file->changed);
    g_mutex_clear(&file->mutex);
    close(file->fd);
    g_free(file->path);
    g_free(file);
}

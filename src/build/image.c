/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Reading hostile files whole, and telling kernels apart. */
#include "build/image.h"

#include "build/bzimage.h"
#include "build/elf-image.h"
#include "build/multiboot.h"
#include "common/i18n.h"
#include "common/lodge-error.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static void set_file_error(GError **error, const char *what, const char *path, const char *cause)
{
    g_set_error(error, LODGE_ERROR, LODGE_ERROR_INPUT, _("Cannot read the %s “%s”: %s"), what, path,
                cause);
}

/* The file cannot be read: the host has not what it takes, or there is something about the file. */
static void set_read_error(GError **error, const char *what, const char *path, int reason)
{
    gboolean host = reason == EMFILE || reason == ENFILE || reason == ENOMEM || reason == EIO;

    g_set_error(error, LODGE_ERROR, host ? LODGE_ERROR_FAILED : LODGE_ERROR_INPUT,
                _("Cannot read the %s “%s”: %s"), what, path, g_strerror(reason));
}

/* Read from the start, wherever the descriptor stands, until the end of file or @limit bytes, whichever is first. */
static gboolean read_all(int fd, guint8 *to, gsize limit, gsize *length_out)
{
    gsize used = 0;

    while (used < limit) {
        ssize_t got = pread(fd, to + used, limit - used, (off_t)used);

        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return FALSE;
        }
        if (got == 0) {
            break;
        }
        used += (gsize)got;
    }
    *length_out = used;
    return TRUE;
}

GBytes *lodge_image_read_fd(const char *what, const char *path, int fd, GError **error)
{
    g_autofree guint8 *data = NULL;
    gsize length = 0;
    struct stat status;

    if (fstat(fd, &status) < 0) {
        set_read_error(error, what, path, errno);
        return NULL;
    }
    if (!S_ISREG(status.st_mode)) {
        set_file_error(error, what, path,
                       S_ISDIR(status.st_mode) ? _("it is a directory")
                                               : _("it is not a regular file"));
        return NULL;
    }
    if (status.st_size == 0) {
        set_file_error(error, what, path, _("it is empty"));
        return NULL;
    }
    if ((guint64)status.st_size > LODGE_IMAGE_MAX) {
        set_file_error(error, what, path, _("it is larger than 2 GiB"));
        return NULL;
    }
    data = g_try_malloc((gsize)status.st_size);
    if (!data) {
        set_read_error(error, what, path, ENOMEM);
        return NULL;
    }
    if (!read_all(fd, data, (gsize)status.st_size, &length)) {
        set_read_error(error, what, path, errno);
        return NULL;
    }
    return g_bytes_new_take(g_steal_pointer(&data), length);
}

GBytes *lodge_image_read(const char *what, const char *path, GError **error)
{
    GBytes *bytes = NULL;
    /* Not blocking: a FIFO without a writer would hold us for ever before fstat() refuses it. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    if (fd < 0) {
        set_read_error(error, what, path, errno);
        return NULL;
    }
    bytes = lodge_image_read_fd(what, path, fd, error);
    close(fd);
    return bytes;
}

gboolean lodge_kernel_identify(GBytes *image, const char *path, LodgeKernelKind *kind_out,
                               GError **error)
{
    if (lodge_bzimage_recognise(image)) {
        *kind_out = LODGE_KERNEL_BZIMAGE;
        return lodge_bzimage_check(image, path, error);
    }
    if (lodge_elf_recognise(image)) {
        guint32 entry = 0;

        if (!lodge_elf_check(image, path, error)) {
            return FALSE;
        }
        if (lodge_elf_find_pvh_entry(image, &entry)) {
            *kind_out = LODGE_KERNEL_PVH;
            return TRUE;
        }
        if (lodge_multiboot_recognise(image)) {
            *kind_out = LODGE_KERNEL_MULTIBOOT;
            return TRUE;
        }
        g_set_error(error, LODGE_ERROR, LODGE_ERROR_INPUT,
                    _("“%s” is an ELF file, but no kernel Lodge can start: it has neither a PVH "
                      "entry note nor a Multiboot header"),
                    path);
        return FALSE;
    }
    g_set_error(error, LODGE_ERROR, LODGE_ERROR_INPUT,
                _("“%s” is no kernel Lodge can start: expected a Linux bzImage, an ELF file with a "
                  "PVH note, or a Multiboot ELF file"),
                path);
    return FALSE;
}

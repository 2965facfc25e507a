/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Files a machine is built from, and what kind of kernel they hold.
 *
 * Files are hostile: they are read whole, never mapped (a file cut short under a mapping raises
 * SIGBUS), with a bound on their size.
 */
#pragma once

#include <glib.h>

/* No kernel or initrd is larger. */
#define LODGE_IMAGE_MAX (G_GUINT64_CONSTANT(2) << 30)

/**
 * Read a regular file whole.
 *
 * @what  names its role in messages: "kernel", "initrd".
 *
 * Returns the bytes, owned by the caller; NULL with LODGE_ERROR_INPUT naming role, path and cause
 * (missing, unreadable, a directory or device, empty, over 2 GiB).
 */
GBytes *lodge_image_read(const char *what, const char *path, GError **error);

/**
 * The same of an open file, from its start, wherever the descriptor stands; which it leaves there.
 *
 * @path  names it in messages.
 * @fd    borrowed; anybody's, and of any kind.
 */
GBytes *lodge_image_read_fd(const char *what, const char *path, int fd, GError **error);

typedef enum {
    LODGE_KERNEL_BZIMAGE,   /* Linux, entered at its 64-bit entry point */
    LODGE_KERNEL_PVH,       /* ELF with an XEN_ELFNOTE_PHYS32_ENTRY note */
    LODGE_KERNEL_MULTIBOOT, /* Multiboot 1 header in an ELF32 or ELF64 file */
} LodgeKernelKind;

/**
 * Tell what kind of kernel @image is, in that order.
 *
 * @path  for messages.
 *
 * Returns FALSE with LODGE_ERROR_INPUT when it is none, or one we cannot enter (a bzImage without
 * a 64-bit entry, a truncated file).
 */
gboolean lodge_kernel_identify(GBytes *image, const char *path, LodgeKernelKind *kind_out,
                               GError **error);

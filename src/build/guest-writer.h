/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Where a loader puts things: guest memory behind a copy function (the core's hv_guest_copy, or an
 * array in a test), and the regions that are taken already, so that no two things overlap.
 */
#pragma once

#include <hv/domain.h>

#include <glib.h>

typedef struct {
    /** Copy to guest physical memory; 0 or a negative errno. */
    int (*write)(void *context, guint64 gpa, const void *data, guint64 bytes);
    void *context;
    struct hv_platform_layout layout;
    GArray *taken; /* LodgeRegion, unordered; owned */
} LodgeGuestWriter;

typedef struct {
    guint64 start, end; /* [start, end) */
    const char *what;   /* for messages; a literal */
} LodgeRegion;

/** @layout is copied. Finish with lodge_guest_writer_finish(). */
void lodge_guest_writer_init(LodgeGuestWriter *writer, const struct hv_platform_layout *layout,
                             int (*write)(void *, guint64, const void *, guint64), void *context);
void lodge_guest_writer_finish(LodgeGuestWriter *writer);

/**
 * Take [gpa, gpa + bytes) for @what.
 *
 * Returns FALSE with LODGE_ERROR_INPUT when it is not all low RAM (saying how much memory would do)
 * or overlaps something taken before (naming both).
 */
gboolean lodge_guest_writer_take(LodgeGuestWriter *writer, guint64 gpa, guint64 bytes,
                                 const char *what, GError **error);

/** Take and write. */
gboolean lodge_guest_writer_put(LodgeGuestWriter *writer, guint64 gpa, const void *data,
                                guint64 bytes, const char *what, GError **error);

/** Write zeros over a part of what was taken for @what: memory may hold what a reset has left. */
gboolean lodge_guest_writer_clear(LodgeGuestWriter *writer, guint64 gpa, guint64 bytes,
                                  const char *what, GError **error);

/**
 * Put @data at the highest free page-aligned place that ends at or below @limit.
 *
 * Returns FALSE with LODGE_ERROR_INPUT when there is none.
 */
gboolean lodge_guest_writer_put_high(LodgeGuestWriter *writer, const void *data, guint64 bytes,
                                     guint64 limit, const char *what, guint64 *gpa_out,
                                     GError **error);

/**
 * Put the initrd, as above; when it is NULL there is none, which takes no place and no bytes.
 *
 * Returns where it is and how long in *gpa_out and *bytes_out.
 */
gboolean lodge_guest_writer_put_initrd(LodgeGuestWriter *writer, GBytes *initrd, guint64 limit,
                                       guint64 *gpa_out, guint64 *bytes_out, GError **error);

/** Put the command line at LODGE_LOW_COMMAND_LINE. LODGE_ERROR_INPUT when it is too long. */
gboolean lodge_guest_writer_put_command_line(LodgeGuestWriter *writer, const char *line,
                                             GError **error);

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Placement of what is loaded: bounds, overlaps, the highest free place. */
#include "build/guest-writer.h"

#include "build/low-memory.h"
#include "common/i18n.h"
#include "common/lodge-error.h"
#include "common/units.h"

#include <string.h>

void lodge_guest_writer_init(LodgeGuestWriter *writer, const struct hv_platform_layout *layout,
                             int (*write)(void *, guint64, const void *, guint64), void *context)
{
    writer->write = write;
    writer->context = context;
    writer->layout = *layout;
    writer->taken = g_array_new(FALSE, FALSE, sizeof(LodgeRegion));
}

void lodge_guest_writer_finish(LodgeGuestWriter *writer)
{
    g_clear_pointer(&writer->taken, g_array_unref);
}

static const LodgeRegion *find_overlap(const LodgeGuestWriter *writer, guint64 start, guint64 end)
{
    for (guint i = 0; i < writer->taken->len; i++) {
        const LodgeRegion *region = &g_array_index(writer->taken, LodgeRegion, i);

        if (start < region->end && region->start < end) {
            return region;
        }
    }
    return NULL;
}

gboolean lodge_guest_writer_take(LodgeGuestWriter *writer, guint64 gpa, guint64 bytes,
                                 const char *what, GError **error)
{
    guint64 low = writer->layout.low_ram_bytes;
    const LodgeRegion *other;
    LodgeRegion region;

    if (bytes > low || gpa > low - bytes) {
        g_autofree char *has = lodge_format_bytes(low);

        g_set_error(error, LODGE_ERROR, LODGE_ERROR_INPUT,
                    _("The %s does not fit: it needs %" G_GUINT64_FORMAT
                      " bytes at %#" G_GINT64_MODIFIER
                      "x, and the machine has %s there; give it more with --memory"),
                    what, bytes, gpa, has);
        return FALSE;
    }
    region = (LodgeRegion){gpa, gpa + bytes, what};
    other = find_overlap(writer, region.start, region.end);
    if (other) {
        g_set_error(
            error, LODGE_ERROR, LODGE_ERROR_INPUT,
            _("The %s, %" G_GUINT64_FORMAT " bytes at %#" G_GINT64_MODIFIER "x, overlaps the %s"),
            what, bytes, gpa, other->what);
        return FALSE;
    }
    g_array_append_val(writer->taken, region);
    return TRUE;
}

static gboolean copy(LodgeGuestWriter *writer, guint64 gpa, const void *data, guint64 bytes,
                     const char *what, GError **error)
{
    int rc = bytes ? writer->write(writer->context, gpa, data, bytes) : 0;

    if (rc < 0) {
        lodge_error_set_errno(error, rc, _("Cannot write the %s into the machine"), what);
        return FALSE;
    }
    return TRUE;
}

gboolean lodge_guest_writer_put(LodgeGuestWriter *writer, guint64 gpa, const void *data,
                                guint64 bytes, const char *what, GError **error)
{
    return lodge_guest_writer_take(writer, gpa, bytes, what, error) &&
           copy(writer, gpa, data, bytes, what, error);
}

gboolean lodge_guest_writer_clear(LodgeGuestWriter *writer, guint64 gpa, guint64 bytes,
                                  const char *what, GError **error)
{
    static const guint8 zeros[64 * HV_KIB];

    while (bytes) {
        guint64 part = MIN(bytes, sizeof(zeros));

        if (!copy(writer, gpa, zeros, part, what, error)) {
            return FALSE;
        }
        gpa += part;
        bytes -= part;
    }
    return TRUE;
}

gboolean lodge_guest_writer_put_high(LodgeGuestWriter *writer, const void *data, guint64 bytes,
                                     guint64 limit, const char *what, guint64 *gpa_out,
                                     GError **error)
{
    guint64 end = MIN(limit, writer->layout.low_ram_bytes);
    const LodgeRegion *other = NULL;
    guint64 start = 0;

    do {
        if (bytes > end) {
            g_autofree char *has = lodge_format_bytes(writer->layout.low_ram_bytes);

            g_set_error(error, LODGE_ERROR, LODGE_ERROR_INPUT,
                        _("The %s of %" G_GUINT64_FORMAT
                          " bytes does not fit into the machine's %s beside the rest; give it more "
                          "with --memory"),
                        what, bytes, has);
            return FALSE;
        }
        start = (end - bytes) & HV_PAGE_MASK;
        other = find_overlap(writer, start, start + bytes);
        if (other) {
            end = other->start;
        }
    } while (other);
    *gpa_out = start;
    return lodge_guest_writer_put(writer, start, data, bytes, what, error);
}

gboolean lodge_guest_writer_put_initrd(LodgeGuestWriter *writer, GBytes *initrd, guint64 limit,
                                       guint64 *gpa_out, guint64 *bytes_out, GError **error)
{
    gsize bytes = 0;
    gconstpointer data;

    *gpa_out = 0;
    *bytes_out = 0;
    if (!initrd) {
        return TRUE;
    }
    data = g_bytes_get_data(initrd, &bytes);
    *bytes_out = bytes;
    return lodge_guest_writer_put_high(writer, data, bytes, limit, "initrd", gpa_out, error);
}

gboolean lodge_guest_writer_put_command_line(LodgeGuestWriter *writer, const char *line,
                                             GError **error)
{
    gsize bytes = strlen(line) + 1;

    if (bytes > LODGE_LOW_COMMAND_MAX) {
        g_set_error(error, LODGE_ERROR, LODGE_ERROR_INPUT,
                    _("The command line has %" G_GSIZE_FORMAT " bytes; at most %u are possible"),
                    bytes - 1, LODGE_LOW_COMMAND_MAX - 1);
        return FALSE;
    }
    return lodge_guest_writer_put(writer, LODGE_LOW_COMMAND_LINE, line, bytes, "command line",
                                  error);
}

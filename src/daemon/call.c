/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What handlers share. */
#include "daemon/call.h"

#include "common/i18n.h"

gboolean lodge_call_check_text(const char *what, const char *text, GError **error)
{
    return g_utf8_validate(text, -1, NULL) ||
           lodge_refuse(error, VIR_ERR_INVALID_ARG, _("The %s is not UTF-8"), what);
}

gboolean lodge_call_check_flags(guint flags, guint known, GError **error)
{
    return (flags & ~known) == 0 ||
           lodge_refuse(error, VIR_ERR_INVALID_ARG,
                        _("The flags 0x%x are not supported here, only those in 0x%x"),
                        flags & ~known, known);
}

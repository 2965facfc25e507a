/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What handlers share. */
#include "daemon/call.h"

#include "common/i18n.h"

#include <libvirt/libvirt.h>

gboolean lodge_call_check_text(const char *what, const char *text, GError **error)
{
    return !text || g_utf8_validate(text, -1, NULL) ||
           lodge_refuse(error, VIR_ERR_INVALID_ARG, _("The %s is not UTF-8"), what);
}

gboolean lodge_call_check_flags(guint flags, guint known, GError **error)
{
    return (flags & ~known) == 0 ||
           lodge_refuse(error, VIR_ERR_INVALID_ARG,
                        _("The flags 0x%x are not supported here, only those in 0x%x"),
                        flags & ~known, known);
}

void lodge_call_scope(LodgeMachine *machine, guint flags, gboolean *live_out, gboolean *stored_out)
{
    *live_out = (flags & VIR_DOMAIN_AFFECT_LIVE) != 0;
    *stored_out = (flags & VIR_DOMAIN_AFFECT_CONFIG) != 0;
    if (!*live_out && !*stored_out) {
        *live_out = lodge_machine_is_active(machine);
        *stored_out = !*live_out;
    }
}

LodgeDomainConfig *lodge_call_copy_definition(LodgeMachine *machine, guint flags, GError **error)
{
    gboolean live, stored;

    lodge_call_scope(machine, flags, &live, &stored);
    if (live && stored) {
        lodge_refuse(error, VIR_ERR_INVALID_ARG,
                     _("One can look at what runs, or at what is stored: not at both"));
        return NULL;
    }
    if (!stored) {
        return lodge_machine_copy_definition(machine, LODGE_DEFINITION_LIVE, error);
    }
    return lodge_machine_copy_definition(
        machine,
        flags & VIR_DOMAIN_AFFECT_CONFIG ? LODGE_DEFINITION_STORED : LODGE_DEFINITION_CURRENT,
        error);
}

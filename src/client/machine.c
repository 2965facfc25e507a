/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The order of names, the names of states, and the end of a definition. */
#include "client/machine.h"

#include "common/i18n.h"

#include <libvirt/virterror.h>

#include <string.h>

int lodge_machine_compare_names(const char *left, const char *right)
{
    g_autofree char *left_key = g_utf8_collate_key_for_filename(left, -1);
    g_autofree char *right_key = g_utf8_collate_key_for_filename(right, -1);
    int order = strcmp(left_key, right_key);

    return order ? order : strcmp(left, right);
}

gboolean lodge_machine_is_active(int state)
{
    return state != VIR_DOMAIN_SHUTOFF && state != VIR_DOMAIN_CRASHED;
}

const char *lodge_machine_state_name(int state)
{
    static const char *const names[] = {
        [VIR_DOMAIN_NOSTATE] = N_("no state"),     [VIR_DOMAIN_RUNNING] = N_("running"),
        [VIR_DOMAIN_BLOCKED] = N_("idle"),         [VIR_DOMAIN_PAUSED] = N_("paused"),
        [VIR_DOMAIN_SHUTDOWN] = N_("in shutdown"), [VIR_DOMAIN_SHUTOFF] = N_("shut off"),
        [VIR_DOMAIN_CRASHED] = N_("crashed"),      [VIR_DOMAIN_PMSUSPENDED] = N_("suspended"),
    };

    return state >= 0 && (gsize)state < G_N_ELEMENTS(names) ? _(names[state]) : _("unknown");
}

/* A driver that knows no flags has nothing that they are about. */
int lodge_machine_undefine(virDomainPtr domain)
{
    int rc = virDomainUndefineFlags(
        domain, VIR_DOMAIN_UNDEFINE_MANAGED_SAVE | VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA |
                    VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA | VIR_DOMAIN_UNDEFINE_NVRAM);
    int code = rc < 0 ? lodge_connection_error_code() : VIR_ERR_OK;

    if (code == VIR_ERR_INVALID_ARG || code == VIR_ERR_NO_SUPPORT) {
        rc = virDomainUndefine(domain);
    }
    return rc;
}

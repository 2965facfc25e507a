/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Definitions: defining, showing, renaming, forgetting. */
#include "daemon/call.h"

#include "common/i18n.h"

#include <libvirt/libvirt.h>

static gboolean define(LodgeCall *call, const char *xml, lv_domain_ret *answer, GError **error)
{
    g_autoptr(LodgeMachine) machine = NULL;
    LodgeDomainConfig *config = lodge_domain_config_parse(xml, -1, NULL, error);

    if (config) {
        machine = lodge_machines_define(call->daemon->machines, config, error);
    }
    if (machine) {
        lodge_machine_handle(machine, &answer->dom);
    }
    return machine != NULL;
}

static gboolean define_xml(LodgeCall *call, void *args, void *ret, GError **error)
{
    const lv_string_args *asked = args;

    return define(call, asked->text, ret, error);
}

static gboolean define_xml_flags(LodgeCall *call, void *args, void *ret, GError **error)
{
    const lv_string_flags_args *asked = args;

    /* There is no schema to hold it against: what is understood is checked anyway. */
    return lodge_call_check_flags(asked->flags, VIR_DOMAIN_DEFINE_VALIDATE, error) &&
           define(call, asked->text, ret, error);
}

static gboolean undefine(LodgeCall *call, void *args, void *ret, GError **error)
{
    (void)args, (void)ret;
    return lodge_machine_undefine(call->machine, error);
}

static gboolean undefine_flags(LodgeCall *call, void *args, void *ret, GError **error)
{
    const lv_domain_flags_args *asked = args;

    (void)ret;
    /* Of what they would remove beside the definition, a machine has nothing. */
    return lodge_call_check_flags(asked->flags,
                                  VIR_DOMAIN_UNDEFINE_MANAGED_SAVE |
                                      VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA |
                                      VIR_DOMAIN_UNDEFINE_NVRAM | VIR_DOMAIN_UNDEFINE_KEEP_NVRAM |
                                      VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA |
                                      VIR_DOMAIN_UNDEFINE_TPM | VIR_DOMAIN_UNDEFINE_KEEP_TPM,
                                  error) &&
           lodge_machine_undefine(call->machine, error);
}

static gboolean get_xml(LodgeCall *call, void *args, void *ret, GError **error)
{
    const guint known = VIR_DOMAIN_XML_SECURE | VIR_DOMAIN_XML_INACTIVE |
                        VIR_DOMAIN_XML_UPDATE_CPU | VIR_DOMAIN_XML_MIGRATABLE;
    const lv_domain_flags_args *asked = args;
    lv_string_ret *answer = ret;
    gboolean secure = (asked->flags & VIR_DOMAIN_XML_SECURE) != 0;

    if (!lodge_call_check_flags(asked->flags, known, error)) {
        return FALSE;
    }
    if (secure && lodge_client_is_read_only(call->client)) {
        return lodge_refuse(error, VIR_ERR_OPERATION_DENIED,
                            _("The connection is read-only: passwords are not shown to it"));
    }
    answer->text = lodge_machine_format(call->machine, asked->flags & VIR_DOMAIN_XML_INACTIVE,
                                        secure ? LODGE_FORMAT_SECURE : 0u);
    return TRUE;
}

static gboolean rename_machine(LodgeCall *call, void *args, void *ret, GError **error)
{
    const lv_rename_args *asked = args;

    (void)ret;
    if (!asked->name) {
        return lodge_refuse(error, VIR_ERR_INVALID_ARG, _("There is no new name"));
    }
    return lodge_call_check_flags(asked->flags, 0, error) &&
           lodge_call_check_text(_("new name"), *asked->name, error) &&
           lodge_machine_rename(call->machine, *asked->name, error);
}

static gboolean get_autostart(LodgeCall *call, void *args, void *ret, GError **error)
{
    g_auto(LodgeMachineView) view = {0};
    lv_int_ret *answer = ret;

    (void)args, (void)error;
    lodge_machine_view(call->machine, &view);
    answer->value = view.autostart;
    return TRUE;
}

static gboolean set_autostart(LodgeCall *call, void *args, void *ret, GError **error)
{
    const lv_domain_int_args *asked = args;

    (void)ret;
    return lodge_machine_set_autostart(call->machine, asked->value != 0, error);
}

static const LodgeCallEntry entries[] = {
    {LV_DOMAIN_DEFINE_XML, LODGE_CALL_WRITES, define_xml, FALSE},
    {LV_DOMAIN_DEFINE_XML_FLAGS, LODGE_CALL_WRITES, define_xml_flags, FALSE},
    {LV_DOMAIN_UNDEFINE, LODGE_CALL_WRITES, undefine, TRUE},
    {LV_DOMAIN_UNDEFINE_FLAGS, LODGE_CALL_WRITES, undefine_flags, TRUE},
    {LV_DOMAIN_GET_XML_DESC, LODGE_CALL_READS, get_xml, TRUE},
    {LV_DOMAIN_RENAME, LODGE_CALL_WRITES, rename_machine, TRUE},
    {LV_DOMAIN_GET_AUTOSTART, LODGE_CALL_READS, get_autostart, TRUE},
    {LV_DOMAIN_SET_AUTOSTART, LODGE_CALL_WRITES, set_autostart, TRUE},
};

const LodgeCallFamily lodge_calls_define = {LV_REMOTE, entries, G_N_ELEMENTS(entries)};

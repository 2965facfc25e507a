/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Starting and ending machines, and all between; descriptors that they start from. */
#include "daemon/call.h"

#include "common/i18n.h"

#include <libvirt/libvirt.h>
#include <string.h>

static gboolean create(LodgeCall *call, void *args, void *ret, GError **error)
{
    (void)args, (void)ret;
    return lodge_machine_start(call->machine, FALSE, error);
}

static gboolean create_with_flags(LodgeCall *call, void *args, void *ret, GError **error)
{
    const lv_domain_flags_args *asked = args;
    lv_domain_ret *answer = ret;

    /* Without saved images, each start is one with force-boot and bypass-cache. */
    if (!lodge_call_check_flags(asked->flags,
                                VIR_DOMAIN_START_PAUSED | VIR_DOMAIN_START_FORCE_BOOT |
                                    VIR_DOMAIN_START_BYPASS_CACHE,
                                error) ||
        !lodge_machine_start(call->machine, asked->flags & VIR_DOMAIN_START_PAUSED, error)) {
        return FALSE;
    }
    lodge_machine_handle(call->machine, &answer->dom);
    return TRUE;
}

static gboolean create_xml(LodgeCall *call, void *args, void *ret, GError **error)
{
    const lv_string_flags_args *asked = args;
    lv_domain_ret *answer = ret;
    g_autoptr(LodgeMachine) machine = NULL;
    LodgeDomainConfig *config;

    if (!lodge_call_check_flags(asked->flags,
                                VIR_DOMAIN_START_PAUSED | VIR_DOMAIN_START_BYPASS_CACHE |
                                    VIR_DOMAIN_START_VALIDATE,
                                error)) {
        return FALSE;
    }
    config = lodge_domain_config_parse(asked->text, -1, NULL, error);
    if (config) {
        machine = lodge_machines_create(call->daemon->machines, config,
                                        asked->flags & VIR_DOMAIN_START_PAUSED, error);
    }
    if (machine) {
        lodge_machine_handle(machine, &answer->dom);
    }
    return machine != NULL;
}

static gboolean destroy(LodgeCall *call, void *args, void *ret, GError **error)
{
    (void)args, (void)ret;
    return lodge_machine_destroy(call->machine, error);
}

static gboolean destroy_flags(LodgeCall *call, void *args, void *ret, GError **error)
{
    const lv_domain_flags_args *asked = args;

    (void)ret;
    /* Graceful: nobody is killed by a signal here. */
    return lodge_call_check_flags(asked->flags, VIR_DOMAIN_DESTROY_GRACEFUL, error) &&
           lodge_machine_destroy(call->machine, error);
}

static gboolean power_off(LodgeCall *call, void *args, void *ret, GError **error)
{
    (void)args, (void)ret;
    return lodge_machine_shutdown(call->machine, FALSE, error);
}

static gboolean power_off_flags(LodgeCall *call, void *args, void *ret, GError **error)
{
    const lv_domain_flags_args *asked = args;

    (void)ret;
    return lodge_call_check_flags(asked->flags, VIR_DOMAIN_SHUTDOWN_ACPI_POWER_BTN, error) &&
           lodge_machine_shutdown(call->machine, FALSE, error);
}

static gboolean restart(LodgeCall *call, void *args, void *ret, GError **error)
{
    const lv_domain_flags_args *asked = args;

    (void)ret;
    return lodge_call_check_flags(asked->flags, VIR_DOMAIN_REBOOT_ACPI_POWER_BTN, error) &&
           lodge_machine_shutdown(call->machine, TRUE, error);
}

static gboolean reset(LodgeCall *call, void *args, void *ret, GError **error)
{
    const lv_domain_flags_args *asked = args;

    (void)ret;
    return lodge_call_check_flags(asked->flags, 0, error) &&
           lodge_machine_reset(call->machine, error);
}

static gboolean inject_nmi(LodgeCall *call, void *args, void *ret, GError **error)
{
    const lv_domain_flags_args *asked = args;

    (void)ret;
    return lodge_call_check_flags(asked->flags, 0, error) &&
           lodge_machine_press_nmi(call->machine, error);
}

static gboolean suspend(LodgeCall *call, void *args, void *ret, GError **error)
{
    (void)args, (void)ret;
    return lodge_machine_suspend(call->machine, error);
}

static gboolean resume(LodgeCall *call, void *args, void *ret, GError **error)
{
    (void)args, (void)ret;
    return lodge_machine_resume(call->machine, error);
}

/* It goes into messages, and is kept. */
static gboolean check_group(const char *name, GError **error)
{
    gsize bytes = strlen(name);

    if (bytes > LODGE_FD_GROUP_NAME_BYTES_MAX) {
        return lodge_refuse(error, VIR_ERR_INVALID_ARG,
                            _("The name of a descriptor group has %zu bytes; it can have %u"),
                            bytes, LODGE_FD_GROUP_NAME_BYTES_MAX);
    }
    return lodge_call_check_text(_("name of a descriptor group"), name, error) &&
           lodge_text_check_line(_("name of a descriptor group"), name, error);
}

static gboolean associate_fds(LodgeCall *call, void *args, void *ret, GError **error)
{
    const lv_domain_string_flags_args *asked = args;

    (void)ret;
    if (!check_group(asked->text, error)) {
        return FALSE;
    }
    if (!call->fds) {
        return lodge_refuse(error, VIR_ERR_INVALID_ARG, _("No descriptors came for the group “%s”"),
                            asked->text);
    }
    /* Files have no labels of ours, so there are none to restore. */
    return lodge_call_check_flags(asked->flags,
                                  VIR_DOMAIN_FD_ASSOCIATE_SECLABEL_RESTORE |
                                      VIR_DOMAIN_FD_ASSOCIATE_SECLABEL_WRITABLE,
                                  error) &&
           lodge_fd_groups_put(call->daemon->fds, call->client, (const guint8 *)asked->dom.uuid,
                               asked->text, call->fds, error);
}

static const LodgeCallEntry entries[] = {
    {LV_DOMAIN_CREATE_XML, LODGE_CALL_WRITES, create_xml, FALSE},
    {LV_DOMAIN_CREATE, LODGE_CALL_WRITES, create, TRUE},
    {LV_DOMAIN_CREATE_WITH_FLAGS, LODGE_CALL_WRITES, create_with_flags, TRUE},
    {LV_DOMAIN_DESTROY, LODGE_CALL_WRITES, destroy, TRUE},
    {LV_DOMAIN_DESTROY_FLAGS, LODGE_CALL_WRITES, destroy_flags, TRUE},
    {LV_DOMAIN_SHUTDOWN, LODGE_CALL_WRITES, power_off, TRUE},
    {LV_DOMAIN_SHUTDOWN_FLAGS, LODGE_CALL_WRITES, power_off_flags, TRUE},
    {LV_DOMAIN_REBOOT, LODGE_CALL_WRITES, restart, TRUE},
    {LV_DOMAIN_RESET, LODGE_CALL_WRITES, reset, TRUE},
    {LV_DOMAIN_INJECT_NMI, LODGE_CALL_WRITES, inject_nmi, TRUE},
    {LV_DOMAIN_SUSPEND, LODGE_CALL_WRITES, suspend, TRUE},
    {LV_DOMAIN_RESUME, LODGE_CALL_WRITES, resume, TRUE},
    {LV_DOMAIN_FD_ASSOCIATE, LODGE_CALL_WRITES_WITH_FDS, associate_fds, TRUE},
};

const LodgeCallFamily lodge_calls_lifecycle = {LV_REMOTE, entries, G_N_ELEMENTS(entries)};

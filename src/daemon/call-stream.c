/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Opening streams: a machine's serial console, and its statistics as they come. */
#include "daemon/call.h"

#include "common/i18n.h"

#include <libvirt/libvirt.h>
#include <string.h>

static void start(LodgeClient *client, gpointer stream)
{
    lodge_client_start_stream(client, stream);
}

/* It is the client's from here on; its first bytes follow the reply. */
static gboolean add(LodgeCall *call, LodgeStream *stream)
{
    if (stream) {
        lodge_client_add_stream(call->client, stream);
        call->then = start;
        call->then_data = stream;
    }
    return stream != NULL;
}

static gboolean open_feed(LodgeCall *call, GError **error)
{
    g_autoptr(LodgeInstance) instance = lodge_machine_need_instance(call->machine, error);

    return instance && add(call, lodge_stream_new_feed(call->client, &call->name, instance));
}

static gboolean has_console(LodgeMachine *machine, GError **error)
{
    g_autoptr(LodgeDomainConfig) config =
        lodge_machine_copy_definition(machine, LODGE_DEFINITION_LIVE, error);

    return config && (config->serial.type == LODGE_PORT_PTY ||
                      lodge_refuse(error, VIR_ERR_OPERATION_INVALID,
                                   _("The machine “%s” has no serial port that can be opened: it "
                                     "takes <serial type='pty'>"),
                                   config->name));
}

static gboolean open_console(LodgeCall *call, void *args, void *ret, GError **error)
{
    const lv_open_stream_args *asked = args;
    const char *name = asked->name ? *asked->name : "serial0";
    g_autoptr(LodgeInstance) instance = NULL;

    (void)ret;
    if (!lodge_call_check_flags(asked->flags, VIR_DOMAIN_CONSOLE_FORCE | VIR_DOMAIN_CONSOLE_SAFE,
                                error) ||
        !lodge_call_check_text(_("name of a console"), name, error)) {
        return FALSE;
    }
    if (strcmp(name, "lodge.stats") == 0) {
        return open_feed(call, error);
    }
    if (strcmp(name, "serial0") != 0 && strcmp(name, "console0") != 0) {
        g_autofree char *quoted = lodge_text_quote(name);

        return lodge_refuse(error, VIR_ERR_INVALID_ARG,
                            _("There is no console %s; there are serial0 and lodge.stats"), quoted);
    }
    instance = lodge_machine_need_instance(call->machine, error);
    return instance && has_console(call->machine, error) &&
           add(call, lodge_stream_new_console(call->client, &call->name, instance,
                                              asked->flags & VIR_DOMAIN_CONSOLE_FORCE, error));
}

static gboolean open_channel(LodgeCall *call, void *args, void *ret, GError **error)
{
    const lv_open_stream_args *asked = args;

    (void)ret;
    if (!lodge_call_check_flags(asked->flags, VIR_DOMAIN_CHANNEL_FORCE, error)) {
        return FALSE;
    }
    if (!asked->name || strcmp(*asked->name, "lodge.stats") != 0) {
        return lodge_refuse(error, VIR_ERR_INVALID_ARG,
                            _("Machines have one channel: lodge.stats"));
    }
    return open_feed(call, error);
}

static const LodgeCallEntry entries[] = {
    {LV_DOMAIN_OPEN_CONSOLE, LODGE_CALL_WRITES, open_console, TRUE},
    {LV_DOMAIN_OPEN_CHANNEL, LODGE_CALL_WRITES, open_channel, TRUE},
};

const LodgeCallFamily lodge_calls_stream = {LV_REMOTE, entries, G_N_ELEMENTS(entries)};

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Titles, descriptions, and what applications keep in a definition. */
#include "daemon/call.h"

#include "common/i18n.h"
#include "config/domain-metadata.h"

#include <libvirt/libvirt.h>

static char *look(const LodgeDomainConfig *config, const lv_get_metadata_args *asked)
{
    switch (asked->type) {
    case VIR_DOMAIN_METADATA_DESCRIPTION:
        return g_strdup(config->description);
    case VIR_DOMAIN_METADATA_TITLE:
        return g_strdup(config->title);
    case VIR_DOMAIN_METADATA_ELEMENT:
        return asked->uri ? lodge_domain_config_get_metadata(config, *asked->uri) : NULL;
    default:
        return NULL;
    }
}

static gboolean get_metadata(LodgeCall *call, void *args, void *ret, GError **error)
{
    const lv_get_metadata_args *asked = args;
    lv_string_ret *answer = ret;
    g_autoptr(LodgeDomainConfig) config = NULL;

    if (!lodge_call_check_flags(asked->flags, LODGE_CALL_AFFECT, error)) {
        return FALSE;
    }
    config = lodge_call_copy_definition(call->machine, asked->flags, error);
    answer->text = config ? look(config, asked) : NULL;
    return answer->text || !config ||
           lodge_refuse(error, VIR_ERR_NO_DOMAIN_METADATA,
                        _("The machine “%s” has no such title, description or metadata"),
                        config->name);
}

static char *copy(const lv_maybe_string text)
{
    return text && **text ? g_strdup(*text) : NULL;
}

static gboolean edit(LodgeDomainConfig *config, gpointer user_data, GError **error)
{
    const lv_set_metadata_args *asked = user_data;

    switch (asked->type) {
    case VIR_DOMAIN_METADATA_DESCRIPTION:
        g_free(config->description);
        config->description = copy(asked->metadata);
        return TRUE;
    case VIR_DOMAIN_METADATA_TITLE:
        g_free(config->title);
        config->title = copy(asked->metadata);
        return TRUE;
    case VIR_DOMAIN_METADATA_ELEMENT:
        if (!asked->uri) {
            return lodge_refuse(error, VIR_ERR_INVALID_ARG, _("Metadata needs its namespace"));
        }
        return lodge_domain_config_set_metadata(config, *asked->uri, lodge_call_text(asked->key),
                                                lodge_call_text(asked->metadata), error);
    default:
        return lodge_refuse(error, VIR_ERR_INVALID_ARG, _("There is no metadata of the kind %d"),
                            asked->type);
    }
}

static gboolean set_metadata(LodgeCall *call, void *args, void *ret, GError **error)
{
    lv_set_metadata_args *asked = args;
    LodgeMachineChange change = {.edit = edit, .user_data = asked};
    lv_domain dom;

    (void)ret;
    if (!lodge_call_check_flags(asked->flags, LODGE_CALL_AFFECT, error) ||
        !lodge_call_check_text(_("metadata"), lodge_call_text(asked->metadata), error) ||
        !lodge_call_check_text(_("key"), lodge_call_text(asked->key), error) ||
        !lodge_call_check_text(_("namespace"), lodge_call_text(asked->uri), error)) {
        return FALSE;
    }
    lodge_call_scope(call->machine, asked->flags, &change.live, &change.stored);
    if (!lodge_machine_change(call->machine, &change, error)) {
        return FALSE;
    }
    lodge_machine_handle(call->machine, &dom);
    lodge_event_hub_metadata(call->daemon->hub, &dom, asked->type, lodge_call_text(asked->uri));
    g_free(dom.name);
    return TRUE;
}

static const LodgeCallEntry entries[] = {
    {LV_DOMAIN_GET_METADATA, LODGE_CALL_READS, get_metadata, TRUE},
    {LV_DOMAIN_SET_METADATA, LODGE_CALL_WRITES, set_metadata, TRUE},
};

const LodgeCallFamily lodge_calls_metadata = {LV_REMOTE, entries, G_N_ELEMENTS(entries)};

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Connections: opening, features, what the daemon is, and registering for events. */
#include "daemon/call.h"

#include "common/i18n.h"

#include <libvirt/libvirt.h>
#include <unistd.h>

/* libvirt's numbers for what a driver can do, as far as Lodge can. */
enum {
    FEATURE_FD_PASSING = 8,
    FEATURE_TYPED_PARAM_STRING = 9,
    FEATURE_KEEPALIVE = 10,
    FEATURE_EVENT_CALLBACK = 14,
    FEATURE_CLOSE_CALLBACK = 15,
};

static gboolean auth_list(LodgeCall *call, void *args, void *ret, GError **error)
{
    lv_auth_list_ret *answer = ret;

    (void)call, (void)args, (void)error;
    /* One way: none. Who may connect, the socket has decided. */
    answer->types.types_len = 1;
    answer->types.types_val = g_new0(int, 1);
    return TRUE;
}

static gboolean supports_feature(LodgeCall *call, void *args, void *ret, GError **error)
{
    const lv_int_args *asked = args;
    lv_int_ret *answer = ret;

    (void)call, (void)error;
    answer->value = asked->value == FEATURE_FD_PASSING ||
                    asked->value == FEATURE_TYPED_PARAM_STRING ||
                    asked->value == FEATURE_KEEPALIVE || asked->value == FEATURE_EVENT_CALLBACK ||
                    asked->value == FEATURE_CLOSE_CALLBACK;
    return TRUE;
}

static gboolean connect_open(LodgeCall *call, void *args, void *ret, GError **error)
{
    const lv_connect_open_args *asked = args;
    const char *uri = asked->name && **asked->name ? *asked->name : "lodge:///session";

    (void)ret;
    /* Other bits are private to the client library, and do arrive. */
    return lodge_call_check_text(_("URI"), uri, error) &&
           (lodge_client_open(call->client, uri, asked->flags & VIR_CONNECT_RO) ||
            lodge_refuse(error, VIR_ERR_OPERATION_INVALID, _("The connection is open already")));
}

static gboolean do_nothing(LodgeCall *call, void *args, void *ret, GError **error)
{
    (void)call, (void)args, (void)ret, (void)error;
    return TRUE;
}

static gboolean get_type(LodgeCall *call, void *args, void *ret, GError **error)
{
    lv_string_ret *answer = ret;

    (void)call, (void)args, (void)error;
    answer->text = g_strdup("Lodge");
    return TRUE;
}

static gboolean get_version(LodgeCall *call, void *args, void *ret, GError **error)
{
    lv_ulong_ret *answer = ret;
    guint major = 0, minor = 0, micro = 0;

    (void)call, (void)args;
    if (sscanf(LODGE_VERSION, "%u.%u.%u", &major, &minor, &micro) != 3) {
        return lodge_refuse(error, VIR_ERR_INTERNAL_ERROR, "version %s", LODGE_VERSION);
    }
    answer->value = 1000000UL * major + 1000UL * minor + micro;
    return TRUE;
}

static gboolean get_lib_version(LodgeCall *call, void *args, void *ret, GError **error)
{
    lv_ulong_ret *answer = ret;

    (void)call, (void)args, (void)error;
    answer->value = LIBVIR_VERSION_NUMBER;
    return TRUE;
}

static gboolean get_max_vcpus(LodgeCall *call, void *args, void *ret, GError **error)
{
    lv_int_ret *answer = ret;

    (void)call, (void)args, (void)error;
    answer->value = HV_MAX_VCPUS;
    return TRUE;
}

static gboolean get_hostname(LodgeCall *call, void *args, void *ret, GError **error)
{
    lv_string_ret *answer = ret;

    (void)call, (void)args, (void)error;
    answer->text = g_strdup(g_get_host_name());
    return TRUE;
}

static gboolean get_uri(LodgeCall *call, void *args, void *ret, GError **error)
{
    lv_string_ret *answer = ret;

    (void)args, (void)error;
    answer->text = lodge_client_get_uri(call->client);
    return TRUE;
}

static gboolean is_secure(LodgeCall *call, void *args, void *ret, GError **error)
{
    lv_int_ret *answer = ret;

    (void)call, (void)args, (void)error;
    /* A socket of this host. */
    answer->value = 1;
    return TRUE;
}

static gboolean event_register(LodgeCall *call, void *args, void *ret, GError **error)
{
    const lv_event_register_args *asked = args;
    lv_int_ret *answer = ret;

    /* Newer clients have more, and do without those that are refused. */
    if (asked->event < 0 || asked->event > VIR_DOMAIN_EVENT_ID_MEMORY_DEVICE_SIZE_CHANGE) {
        return lodge_refuse(error, VIR_ERR_NO_SUPPORT, _("There are no events of the number %d"),
                            asked->event);
    }
    answer->value = lodge_event_hub_register(call->daemon->hub, call->client,
                                             lodge_client_send_event, asked->event, asked->dom);
    return TRUE;
}

static gboolean event_deregister(LodgeCall *call, void *args, void *ret, GError **error)
{
    const lv_int_args *asked = args;

    (void)ret;
    return lodge_event_hub_deregister(call->daemon->hub, call->client, asked->value, FALSE) ||
           lodge_refuse(error, VIR_ERR_INVALID_ARG,
                        _("This connection has no callback of the number %d"), asked->value);
}

static const LodgeCallEntry entries[] = {
    {LV_AUTH_LIST, LODGE_CALL_BEFORE_OPENING, auth_list, FALSE},
    {LV_CONNECT_SUPPORTS_FEATURE, LODGE_CALL_BEFORE_OPENING, supports_feature, FALSE},
    {LV_CONNECT_OPEN, LODGE_CALL_BEFORE_OPENING, connect_open, FALSE},
    {LV_CONNECT_CLOSE, LODGE_CALL_BEFORE_OPENING, do_nothing, FALSE},
    {LV_CONNECT_GET_TYPE, LODGE_CALL_READS, get_type, FALSE},
    {LV_CONNECT_GET_VERSION, LODGE_CALL_READS, get_version, FALSE},
    {LV_CONNECT_GET_LIB_VERSION, LODGE_CALL_READS, get_lib_version, FALSE},
    {LV_CONNECT_GET_MAX_VCPUS, LODGE_CALL_READS, get_max_vcpus, FALSE},
    {LV_CONNECT_GET_HOSTNAME, LODGE_CALL_READS, get_hostname, FALSE},
    {LV_CONNECT_GET_URI, LODGE_CALL_READS, get_uri, FALSE},
    {LV_CONNECT_IS_SECURE, LODGE_CALL_READS, is_secure, FALSE},
    {LV_CONNECT_EVENT_REGISTER, LODGE_CALL_READS, event_register, FALSE},
    {LV_CONNECT_EVENT_DEREGISTER, LODGE_CALL_READS, event_deregister, FALSE},
    /* The daemon has no driver's connection of its own behind it that could be lost. */
    {LV_CONNECT_REGISTER_CLOSE_CALLBACK, LODGE_CALL_READS, do_nothing, FALSE},
    {LV_CONNECT_UNREGISTER_CLOSE_CALLBACK, LODGE_CALL_READS, do_nothing, FALSE},
    /* A proxy says for whom it speaks. Only this user and root get here, and both may all. */
    {LV_CONNECT_SET_IDENTITY, LODGE_CALL_READS, do_nothing, FALSE},
};

const LodgeCallFamily lodge_calls_connect = {LV_REMOTE, entries, G_N_ELEMENTS(entries)};

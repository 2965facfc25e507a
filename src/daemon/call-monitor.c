/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Commands and events in JSON, by the procedures that libvirt has for QEMU's monitor:
 *
 *     {"execute": NAME, "arguments": {…}}  ->  {"return": …}  or  {"error": {"class": …, "desc": …}}
 *     lodge-crash {"reason": …, …}         before the event of the machine's life that it leads to
 *     lodge-teardown {"phase": …, …}       while one that was killed is taken apart
 */
#include "daemon/call.h"

#include "common/i18n.h"

#include <json-glib/json-glib.h>
#include <libvirt/libvirt-qemu.h>
#include <string.h>

#define PATTERN_BYTES_MAX 256u
#define OPENED_MOST       64u

/** Returns a node, owned by the caller, or NULL with an error. */
typedef JsonNode *Execute(LodgeInstance *instance, JsonObject *arguments, GError **error);

static JsonNode *execute_stats(LodgeInstance *instance, JsonObject *arguments, GError **error)
{
    (void)arguments, (void)error;
    return lodge_instance_stats_json(instance);
}

static JsonNode *execute_locks(LodgeInstance *instance, JsonObject *arguments, GError **error)
{
    (void)arguments, (void)error;
    return lodge_instance_locks_json(instance);
}

static const struct {
    const char *name;
    Execute *execute;
} commands[] = {
    {"lodge-stats", execute_stats},
    {"lodge-locks", execute_locks},
};

static JsonNode *answer_with(const char *member, JsonNode *value)
{
    JsonObject *object = json_object_new();
    JsonNode *node = json_node_new(JSON_NODE_OBJECT);

    json_object_set_member(object, member, value);
    json_node_take_object(node, object);
    return node;
}

static JsonNode *answer_error(const char *class_name, const char *description)
{
    JsonObject *object = json_object_new();
    JsonNode *node = json_node_new(JSON_NODE_OBJECT);

    json_object_set_string_member(object, "class", class_name);
    json_object_set_string_member(object, "desc", description);
    json_node_take_object(node, object);
    return answer_with("error", node);
}

/* A command's answer; what is wrong with a command is an answer too. */
static JsonNode *execute(LodgeInstance *instance, const char *name, JsonObject *arguments)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *text = NULL, *quoted = NULL;

    for (gsize i = 0; i < G_N_ELEMENTS(commands); i++) {
        if (strcmp(name, commands[i].name) == 0) {
            JsonNode *value = commands[i].execute(instance, arguments, &error);

            return value ? answer_with("return", value)
                         : answer_error("GenericError", error->message);
        }
    }
    quoted = lodge_text_quote(name);
    text =
        g_strdup_printf(_("There is no command %s; there are lodge-stats and lodge-locks"), quoted);
    return answer_error("CommandNotFound", text);
}

/*
 * Whether a JSON text opens more arrays and objects than any command has. The parser calls itself for
 * each that it is in, on a worker's stack. Those in strings count too: it is stricter than it needs to be.
 */
static gboolean is_deep(const char *text)
{
    guint opened = 0;

    for (; *text != '\0' && opened <= OPENED_MOST; text++) {
        opened += *text == '[' || *text == '{';
    }
    return opened > OPENED_MOST;
}

/* Of "NAME", or {"execute": "NAME", …}. NULL: it is neither. */
static const char *parse(JsonParser *parser, const char *text, gboolean plain,
                         JsonObject **arguments_out, GError **error)
{
    JsonNode *root, *arguments;
    JsonObject *object;
    const char *name;

    *arguments_out = NULL;
    if (plain) {
        return text;
    }
    if (is_deep(text)) {
        lodge_refuse(error, VIR_ERR_INVALID_ARG,
                     _("The monitor command opens more than %u objects and arrays"), OPENED_MOST);
        return NULL;
    }
    if (!json_parser_load_from_data(parser, text, -1, error)) {
        g_prefix_error(error, "%s", _("The monitor command is not JSON: "));
        return NULL;
    }
    root = json_parser_get_root(parser);
    object = root && JSON_NODE_HOLDS_OBJECT(root) ? json_node_get_object(root) : NULL;
    name = object ? json_object_get_string_member_with_default(object, "execute", NULL) : NULL;
    if (!name) {
        lodge_refuse(error, VIR_ERR_INVALID_ARG,
                     _("The monitor command has no name: {\"execute\": NAME}"));
        return NULL;
    }
    arguments = json_object_get_member(object, "arguments");
    if (arguments && JSON_NODE_HOLDS_OBJECT(arguments)) {
        *arguments_out = json_node_get_object(arguments);
    }
    return name;
}

static gboolean command(LodgeCall *call, void *args, void *ret, GError **error)
{
    const lv_domain_string_flags_args *asked = args;
    lv_string_ret *answer = ret;
    g_autoptr(JsonParser) parser = json_parser_new();
    g_autoptr(LodgeInstance) instance = NULL;
    g_autoptr(JsonNode) node = NULL;
    JsonObject *arguments;
    const char *name;

    if (!lodge_call_check_flags(asked->flags, VIR_DOMAIN_QEMU_MONITOR_COMMAND_HMP, error) ||
        !lodge_call_check_text(_("monitor command"), asked->text, error)) {
        return FALSE;
    }
    name = parse(parser, asked->text, asked->flags & VIR_DOMAIN_QEMU_MONITOR_COMMAND_HMP,
                 &arguments, error);
    instance = name ? lodge_machine_need_instance(call->machine, error) : NULL;
    if (!instance) {
        return FALSE;
    }
    node = execute(instance, name, arguments);
    answer->text = json_to_string(node, FALSE);
    if (strlen(answer->text) > LV_STRING_MAX) {
        return lodge_refuse(error, VIR_ERR_OPERATION_FAILED,
                            _("The answer has %zu bytes; libvirt carries %d. The stream "
                              "lodge.stats has no such bound"),
                            strlen(answer->text), LV_STRING_MAX);
    }
    return TRUE;
}

/* A name, or a regular expression when the flags say so; NULL and no error: every event. */
static GRegex *compile(const lv_monitor_register_args *asked, GError **error)
{
    guint case_flag = asked->flags & VIR_CONNECT_DOMAIN_QEMU_MONITOR_EVENT_REGISTER_NOCASE;
    g_autofree char *text = NULL;

    if (!asked->event) {
        return NULL;
    }
    if (!lodge_call_check_text(_("pattern"), *asked->event, error)) {
        return NULL;
    }
    if (strlen(*asked->event) > PATTERN_BYTES_MAX) {
        lodge_refuse(error, VIR_ERR_INVALID_ARG, _("The pattern has more than %u bytes"),
                     PATTERN_BYTES_MAX);
        return NULL;
    }
    if (asked->flags & VIR_CONNECT_DOMAIN_QEMU_MONITOR_EVENT_REGISTER_REGEX) {
        text = g_strdup(*asked->event);
    } else {
        g_autofree char *escaped = g_regex_escape_string(*asked->event, -1);

        text = g_strdup_printf("^%s$", escaped);
    }
    return g_regex_new(text, case_flag ? G_REGEX_CASELESS : 0, 0, error);
}

static gboolean event_register(LodgeCall *call, void *args, void *ret, GError **error)
{
    const lv_monitor_register_args *asked = args;
    lv_int_ret *answer = ret;
    GRegex *pattern;

    if (!lodge_call_check_flags(asked->flags,
                                VIR_CONNECT_DOMAIN_QEMU_MONITOR_EVENT_REGISTER_REGEX |
                                    VIR_CONNECT_DOMAIN_QEMU_MONITOR_EVENT_REGISTER_NOCASE,
                                error)) {
        return FALSE;
    }
    pattern = compile(asked, error);
    if (asked->event && !pattern) {
        return FALSE;
    }
    answer->value = lodge_event_hub_register_monitor(call->daemon->hub, call->client,
                                                     lodge_client_send_event, pattern, asked->dom);
    return TRUE;
}

static gboolean event_deregister(LodgeCall *call, void *args, void *ret, GError **error)
{
    const lv_int_args *asked = args;

    (void)ret;
    return lodge_event_hub_deregister(call->daemon->hub, call->client, asked->value, TRUE) ||
           lodge_refuse(error, VIR_ERR_INVALID_ARG,
                        _("This connection has no monitor callback of the number %d"),
                        asked->value);
}

static const LodgeCallEntry entries[] = {
    {LV_MONITOR_COMMAND, LODGE_CALL_WRITES, command, TRUE},
    {LV_MONITOR_EVENT_REGISTER, LODGE_CALL_WRITES, event_register, FALSE},
    {LV_MONITOR_EVENT_DEREGISTER, LODGE_CALL_WRITES, event_deregister, FALSE},
};

const LodgeCallFamily lodge_calls_monitor = {LV_MONITOR, entries, G_N_ELEMENTS(entries)};

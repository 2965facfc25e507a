/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Member by member. */
#include "common/event-json.h"

#include <string.h>

static JsonNode *node_of(JsonObject *object)
{
    JsonNode *node = json_node_new(JSON_NODE_OBJECT);

    json_node_take_object(node, object);
    return node;
}

static void add_hex(JsonObject *object, const char *name, guint64 value)
{
    char text[19];

    g_snprintf(text, sizeof(text), "0x%" G_GINT64_MODIFIER "x", value);
    json_object_set_string_member(object, name, text);
}

static JsonObject *registers_of(const struct hv_crash_report *report)
{
    static const char *const general[] = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
                                          "r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15"};
    const struct {
        const char *name;
        guint64 value;
    } others[] = {
        {"rip", report->rip}, {"rflags", report->rflags},   {"cr0", report->cr0},
        {"cr2", report->cr2}, {"cr3", report->cr3},         {"cr4", report->cr4},
        {"cs", report->cs},   {"efer", report->efer},       {"ss", report->ss},
        {"ds", report->ds},   {"es", report->es},           {"fs", report->fs},
        {"gs", report->gs},   {"fs-base", report->fs_base}, {"gs-base", report->gs_base},
    };
    JsonObject *object = json_object_new();

    for (gsize i = 0; i < G_N_ELEMENTS(general); i++) {
        add_hex(object, general[i], report->gpr[i]);
    }
    for (gsize i = 0; i < G_N_ELEMENTS(others); i++) {
        add_hex(object, others[i].name, others[i].value);
    }
    return object;
}

static void add_report(JsonObject *object, const struct hv_crash_report *report)
{
    guint blocks = MIN(report->blocks, G_N_ELEMENTS(report->block_rip));
    guint bytes = MIN(report->code_bytes, G_N_ELEMENTS(report->code));
    GString *code = g_string_new(NULL);
    JsonArray *array = json_array_new();

    json_object_set_int_member(object, "vcpu", report->vcpu);
    json_object_set_int_member(object, "cpl", report->cpl);
    json_object_set_int_member(object, "code-bits", report->code_bits);
    json_object_set_object_member(object, "registers", registers_of(report));
    for (guint i = 0; i < blocks; i++) {
        char text[19];

        g_snprintf(text, sizeof(text), "0x%" G_GINT64_MODIFIER "x", report->block_rip[i]);
        json_array_add_string_element(array, text);
    }
    json_object_set_array_member(object, "blocks", array);
    json_object_set_boolean_member(object, "all-blocks", report->all_blocks);
    for (guint i = 0; i < bytes; i++) {
        g_string_append_printf(code, "%02x", report->code[i]);
    }
    json_object_set_string_member(object, "code", code->str);
    g_string_free(code, TRUE);
}

JsonNode *lodge_crash_to_node(const char *reason, const struct hv_crash_report *report)
{
    g_autofree char *text = g_utf8_make_valid(reason, -1);
    JsonObject *object = json_object_new();

    json_object_set_string_member(object, "reason", text);
    if (report) {
        add_report(object, report);
    }
    return node_of(object);
}

static const char *phase_name(enum hv_teardown_phase phase)
{
    switch (phase) {
    case HV_TEARDOWN_NONE:
        return "none";
    case HV_TEARDOWN_LEAVING:
        return "leaving";
    case HV_TEARDOWN_DEVICES:
        return "devices";
    case HV_TEARDOWN_VCPUS:
        return "vcpus";
    case HV_TEARDOWN_CODE:
        return "code";
    case HV_TEARDOWN_PAGES:
        return "pages";
    case HV_TEARDOWN_TABLES:
        return "tables";
    case HV_TEARDOWN_HELD:
        return "held";
    case HV_TEARDOWN_DONE:
        return "done";
    }
    return "unknown";
}

JsonNode *lodge_teardown_to_node(const struct hv_teardown_info *info,
                                 const struct hv_foreign_hold *holds, gsize count)
{
    JsonObject *object = json_object_new();
    JsonArray *holders = json_array_new();

    json_object_set_string_member(object, "phase", phase_name(info->phase));
    json_object_set_int_member(object, "pages-total", (gint64)info->pages_total);
    json_object_set_int_member(object, "pages-left", (gint64)info->pages_left);
    json_object_set_int_member(object, "pages-held", (gint64)info->pages_held);
    json_object_set_int_member(object, "pages-per-second", (gint64)info->pages_per_s);
    for (gsize i = 0; i < count; i++) {
        JsonObject *holder = json_object_new();
        g_autofree char *name = g_utf8_make_valid(
            holds[i].mapper, (gssize)strnlen(holds[i].mapper, sizeof(holds[i].mapper)));

        json_object_set_string_member(holder, "name", name);
        json_object_set_int_member(holder, "pages", (gint64)holds[i].frames);
        json_array_add_object_element(holders, holder);
    }
    json_object_set_array_member(object, "holders", holders);
    return node_of(object);
}

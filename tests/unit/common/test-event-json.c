/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What monitor events say. */
#include "common/event-json.h"

#include "lib/tap.h"

#include <string.h>

static char *text_of(JsonNode *node)
{
    char *text = json_to_string(node, FALSE);

    json_node_unref(node);
    return text;
}

static void test_crash(void)
{
    struct hv_crash_report report = {
        .vcpu = 3,
        .rip = UINT64_MAX,
        .cr2 = UINT64_C(0x8000000000000000),
        .cs = 0x10,
        .code_bits = 64,
        .blocks = 2,
        .block_rip = {0x1000, UINT64_MAX},
        .code = {0x0f, 0x0b},
        .code_bytes = 2,
    };
    g_autofree char *text = NULL, *bare = NULL;

    report.gpr[0] = 0x1234;
    report.gpr[15] = UINT64_MAX - 1;
    text = text_of(lodge_crash_to_node("why", &report));
    TAP_OK(g_str_has_prefix(text, "{\"reason\":\"why\",\"vcpu\":3,"));
    TAP_OK(strstr(text, "\"rax\":\"0x1234\"") && strstr(text, "\"rip\":\"0xffffffffffffffff\""));
    TAP_OK(strstr(text, "\"r15\":\"0xfffffffffffffffe\""));
    TAP_OK(strstr(text, "\"cr2\":\"0x8000000000000000\"") && strstr(text, "\"cs\":\"0x10\""));
    TAP_OK(strstr(text, "\"blocks\":[\"0x1000\",\"0xffffffffffffffff\"],\"all-blocks\":false"));
    TAP_OK(strstr(text, "\"code\":\"0f0b\""));
    /* Texts of a core that is another process are bytes. */
    bare = text_of(lodge_crash_to_node("a\xff", NULL));
    TAP_STR(bare, "{\"reason\":\"a\xef\xbf\xbd\"}");
}

/* No count that it says is believed beyond what it has room for. */
static void test_hostile_crash(void)
{
    struct hv_crash_report report = {.blocks = UINT32_MAX, .code_bytes = UINT32_MAX};
    g_autofree char *text = text_of(lodge_crash_to_node("", &report));
    const char *code = strstr(text, "\"code\":\"");

    TAP_OK(code);
    TAP_EQ(strcspn(code + strlen("\"code\":\""), "\""), 2 * sizeof(report.code));
}

static void test_teardown(void)
{
    const struct hv_teardown_info info = {
        .phase = HV_TEARDOWN_HELD,
        .pages_total = 4096,
        .pages_left = 12,
        .pages_held = 12,
        .pages_per_s = 1000000,
    };
    struct hv_foreign_hold holds[] = {{"worker", 10}, {"", 2}};
    g_autofree char *text = NULL, *done = NULL;

    memset(holds[1].mapper, 'x', sizeof(holds[1].mapper));
    text = text_of(lodge_teardown_to_node(&info, holds, G_N_ELEMENTS(holds)));
    TAP_STR(text, "{\"phase\":\"held\",\"pages-total\":4096,\"pages-left\":12,\"pages-held\":12,"
                  "\"pages-per-second\":1000000,\"holders\":[{\"name\":\"worker\",\"pages\":10},"
                  "{\"name\":\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\",\"pages\":2}]}");
    done = text_of(
        lodge_teardown_to_node(&(struct hv_teardown_info){.phase = HV_TEARDOWN_DONE}, NULL, 0));
    TAP_OK(strstr(done, "\"phase\":\"done\"") && strstr(done, "\"holders\":[]"));
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"common.event-json.crash", test_crash},
        {"common.event-json.hostile-crash", test_hostile_crash},
        {"common.event-json.teardown", test_teardown},
    };

    return tap_run(argc, argv, cases, G_N_ELEMENTS(cases));
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Definitions as they are written: libvirt's order, what is kept, what only a running machine has. */
#include "config/domain-config.h"
#include "lib/tap.h"

#include <hv/domain.h>
#include <string.h>

#define UUID "<uuid>00112233-4455-6677-8899-aabbccddeeff</uuid>"

static LodgeDomainConfig *parse(const char *xml)
{
    g_autoptr(GError) error = NULL;
    LodgeDomainConfig *config = lodge_domain_config_parse(xml, -1, NULL, &error);

    if (error) {
        tap_note("%s", error->message);
    }
    return config;
}

/* Written from @xml; NULL when it is refused. */
static char *rewrite(const char *xml)
{
    g_autoptr(LodgeDomainConfig) config = parse(xml);

    return config ? lodge_domain_config_format(config, NULL, 0) : NULL;
}

static void test_small(void)
{
    g_autofree char *text = rewrite("<domain type='lodge' id='5'>" UUID
                                    "<memory unit='MiB'>4</memory><name>n</name></domain>");

    TAP_STR(text, "<domain type='lodge'>\n"
                  "  <name>n</name>\n"
                  "  " UUID "\n"
                  "  <memory unit='KiB'>4096</memory>\n"
                  "  <currentMemory unit='KiB'>4096</currentMemory>\n"
                  "  <vcpu placement='static'>1</vcpu>\n"
                  "  <os>\n"
                  "    <type arch='x86_64' machine='pc'>hvm</type>\n"
                  "  </os>\n"
                  "  <clock offset='utc'/>\n"
                  "  <devices/>\n"
                  "</domain>\n");
}

/* What is in libvirt's form comes back to the byte, but for quotes inside of what is only kept. */
static void test_same_bytes(void)
{
    g_autofree char *xml = NULL;
    g_autofree char *text = NULL;
    g_autoptr(GString) expected = NULL;

    TAP_OK(g_file_get_contents(SEEDS "/good-full.xml", &xml, NULL, NULL));
    text = rewrite(xml);
    TAP_OK(text != NULL);
    expected = g_string_new(xml);
    g_string_replace(expected, " xmlns:lodge='urn:lodge:domain:1' id='7'",
                     " xmlns:lodge='urn:lodge:domain:1'", 1);
    g_string_replace(expected, "8B1F4f5e", "8b1f4f5e", 1);
    g_string_replace(expected, "unit='MiB' dumpCore='off'>512", "unit='KiB' dumpCore='off'>524288",
                     1);
    g_string_replace(expected, "cpuset='0-3,^2'", "cpuset='0-1,3'", 1);
    g_string_replace(expected, "\"somebody\"/>", "\"somebody\"/>", 1);
    g_string_replace(expected, " passwd='secret'", "", 1);
    for (char *at = text; *at; at++) {
        *at = *at == '"' ? '\'' : *at;
    }
    g_string_replace(expected, "\"", "'", 0);
    g_string_replace(expected, "<app:owner  name", "<app:owner name", 1);
    /* The first serial port is the console, and is shown as both. */
    g_string_replace(expected, "    </serial>\n",
                     "    </serial>\n"
                     "    <console type='file'>\n"
                     "      <source path='/tmp/serial log' append='on'/>\n"
                     "      <target type='serial' port='0'/>\n"
                     "    </console>\n",
                     1);
    TAP_STR(text, expected->str);
}

static void test_order(void)
{
    g_autofree char *xml = NULL;
    g_autofree char *text = NULL;
    static const char *const order[] = {"<name>",       "<uuid>",   "<!-- of the memory -->",
                                        "<memory unit", "<another", "<currentMemory",
                                        "<vcpu",        "<os>",     "<clock",
                                        "<devices>",    "<mystery"};
    const char *at;

    TAP_OK(g_file_get_contents(SEEDS "/good-order.xml", &xml, NULL, NULL));
    text = rewrite(xml);
    TAP_OK(text != NULL);
    at = text;
    for (gsize i = 0; i < G_N_ELEMENTS(order); i++) {
        const char *found = strstr(at, order[i]);

        if (!found) {
            tap_fail(__FILE__, __LINE__, "%s is not where it should be:\n%s", order[i], text);
            return;
        }
        at = found;
    }
}

static void test_live(void)
{
    static const LodgeDomainLive live = {12, "/dev/pts/3"};
    g_autoptr(LodgeDomainConfig) config =
        parse("<domain type='lodge'><name>n</name>" UUID "<memory>4096</memory>"
              "<devices><console type='pty' tty='/dev/pts/9'><source path='/dev/pts/9'/>"
              "<alias name='console0'/></console></devices></domain>");
    g_autofree char *running = NULL;
    g_autofree char *stored = NULL;

    TAP_OK(config != NULL);
    running = lodge_domain_config_format(config, &live, 0);
    TAP_OK(strstr(running, "<domain type='lodge' id='12'>") != NULL);
    TAP_OK(strstr(running, "    <serial type='pty'>\n"
                           "      <source path='/dev/pts/3'/>\n"
                           "      <target type='isa-serial' port='0'/>\n"
                           "      <alias name='serial0'/>\n"
                           "    </serial>\n"
                           "    <console type='pty' tty='/dev/pts/3'>\n"
                           "      <source path='/dev/pts/3'/>\n") != NULL);
    stored = lodge_domain_config_format(config, NULL, 0);
    TAP_OK(!strstr(stored, "/dev/pts") && !strstr(stored, "alias") && !strstr(stored, "id="));
}

/* A password is shown to those who ask for it, and to no one else. */
static void test_secure(void)
{
    g_autoptr(LodgeDomainConfig) config =
        parse("<domain type='lodge'><name>n</name><memory>4096</memory><devices>"
              "<graphics type='vnc' passwd='secret'/></devices></domain>");
    g_autofree char *open = NULL;
    g_autofree char *secure = NULL;

    TAP_OK(config != NULL);
    open = lodge_domain_config_format(config, NULL, 0);
    secure = lodge_domain_config_format(config, NULL, LODGE_FORMAT_SECURE);
    TAP_OK(!strstr(open, "secret"));
    TAP_OK(strstr(secure, "passwd=\"secret\"") != NULL);
}

/* Each field that a caller changes is in the text; what it no longer says is gone. */
static void test_changes(void)
{
    g_autofree char *xml = NULL;
    g_autofree char *text = NULL;
    g_autoptr(LodgeDomainConfig) config = NULL;
    g_autoptr(LodgeDomainConfig) again = NULL;
    LodgeTimerConfig *timer;

    TAP_OK(g_file_get_contents(SEEDS "/good-full.xml", &xml, NULL, NULL));
    config = parse(xml);
    TAP_OK(config != NULL);
    timer = config->clock.timer;
    g_clear_pointer(&config->title, g_free);
    g_clear_pointer(&config->initrd, g_free);
    config->memory_bytes = HV_GIB;
    config->vcpus = config->vcpus_max = 8;
    config->acpi = FALSE;
    config->on_crash = LODGE_ACTION_DEFAULT;
    timer[LODGE_TIMER_RTC] = (LodgeTimerConfig){.given = TRUE, .policy = LODGE_TICK_MERGE};
    timer[LODGE_TIMER_TSC] = (LodgeTimerConfig){0};
    config->tune = (LodgeTuneConfig){.shares = 512};
    config->tune.pin[7].word[0] = 6;
    config->serial.type = LODGE_PORT_NONE;
    config->engine = LODGE_ENGINE_DEFAULT;
    config->debug_flags = HV_DOMAIN_TESTDEV | HV_DOMAIN_FORCE_IO_EXIT;
    text = lodge_domain_config_format(config, NULL, 0);
    again = parse(text);
    TAP_OK(again != NULL);
    TAP_OK(!again->title && !again->initrd && !again->acpi && again->apic);
    TAP_EQ(again->memory_bytes, HV_GIB);
    TAP_EQ(again->vcpus, 8);
    TAP_EQ(again->on_crash, LODGE_ACTION_DEFAULT);
    TAP_EQ(again->clock.timer[LODGE_TIMER_RTC].policy, LODGE_TICK_MERGE);
    TAP_EQ(again->clock.timer[LODGE_TIMER_RTC].slew, 0);
    TAP_OK(!again->clock.timer[LODGE_TIMER_TSC].given);
    TAP_EQ(again->tune.shares, 512);
    TAP_EQ(again->tune.pin[7].word[0], 6);
    TAP_OK(lodge_cpu_set_is_empty(&again->tune.pin[0]));
    TAP_OK(lodge_cpu_set_is_empty(&again->tune.cpuset));
    TAP_EQ(again->serial.type, LODGE_PORT_NONE);
    TAP_EQ(again->engine, LODGE_ENGINE_DEFAULT);
    TAP_EQ(again->debug_flags, HV_DOMAIN_TESTDEV | HV_DOMAIN_FORCE_IO_EXIT);
    TAP_OK(strstr(text, "Haswell") && strstr(text, "vcpusched") && strstr(text, "hypervclock"));
}

/* Somebody has taken our prefix: another is made. */
static void test_prefix_taken(void)
{
    g_autoptr(LodgeDomainConfig) config =
        parse("<domain type='lodge' xmlns:lodge='urn:x' xmlns:lodge1='urn:y'><name>n</name>"
              "<memory>4096</memory><lodge:engine name='warp'/></domain>");
    g_autoptr(LodgeDomainConfig) again = NULL;
    g_autofree char *text = NULL;

    TAP_OK(config != NULL);
    TAP_EQ(config->engine, LODGE_ENGINE_DEFAULT);
    config->engine = LODGE_ENGINE_SOFT;
    text = lodge_domain_config_format(config, NULL, 0);
    TAP_OK(strstr(text, "xmlns:lodge2='urn:lodge:domain:1'") != NULL);
    TAP_OK(strstr(text, "<lodge:engine name=\"warp\"/>") != NULL);
    again = parse(text);
    TAP_OK(again != NULL);
    TAP_EQ(again->engine, LODGE_ENGINE_SOFT);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"config.domain-format.small", test_small},
        {"config.domain-format.same-bytes", test_same_bytes},
        {"config.domain-format.order", test_order},
        {"config.domain-format.live", test_live},
        {"config.domain-format.secure", test_secure},
        {"config.domain-format.changes", test_changes},
        {"config.domain-format.prefix-taken", test_prefix_taken},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

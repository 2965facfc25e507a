/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Definitions that cannot be: each is refused by line, value and rule, and leaves nothing. */
#include "common/lodge-error.h"
#include "config/domain-config.h"
#include "lib/tap.h"

#include <string.h>

#define NAMED  "<domain type='lodge'>\n<name>x</name>\n"
#define GOOD   NAMED "<memory>4096</memory>\n"
#define TIMER  GOOD "<clock>\n<timer name='"
#define SERIAL GOOD "<devices>\n<serial "

static const struct {
    const char *xml, *said; /* @xml without the end of <domain> */
} bad[] = {
    /* The root. */
    {"<network>", "line 1: the root is the element “network”: expected <domain>"},
    {"<domain xmlns='urn:x' type='lodge'>", "of the namespace “urn:x”"},
    {"<domain>", "<domain> type is “”, and may be: lodge"},
    {"<domain type='kvm'>", "<domain> type is “kvm”: Lodge has no KVM engine yet"},
    {"<domain type='qemu'>", "<domain> type is “qemu”: that is QEMU's; write type='lodge'"},
    {"<domain type='vbox'>", "<domain> type is “vbox”, and may be: lodge"},
    {GOOD "stray", "the text “<U+000A>stray<U+000A>” stands in <domain>"},
    /* Names. */
    {"<domain type='lodge'><memory>4096</memory>", "there is no <name>"},
    {"<domain type='lodge'>\n<name/>", "line 2: The name is empty"},
    {"<domain type='lodge'>\n<name>a/b</name>", "line 2: The name “a/b” holds “/” (U+002F)"},
    {"<domain type='lodge'>\n<name>..</name>", "names of folders"},
    {"<domain type='lodge'>\n<name>a\nb</name>", "a line feed (U+000A)"},
    {GOOD "<name>y</name>", "line 4: <name> stands twice in <domain>"},
    {GOOD "<title>a\nb</title>", "The title “a<U+000A>b” holds a line feed"},
    {GOOD "<uuid>123</uuid>", "line 4: “123” is no UUID"},
    /* Memory. */
    {NAMED, "there is no <memory>"},
    {NAMED "<memory/>", "line 3: <memory> is “”: expected a number"},
    {NAMED "<memory>0</memory>", "<memory> is “0” of its unit: a machine has at least 2 MiB"},
    {NAMED "<memory>-1</memory>", "<memory> is “-1”: expected a number from 0"},
    {NAMED "<memory>1.5</memory>", "<memory> is “1.5”: expected a number"},
    {NAMED "<memory>0x1000</memory>", "“0x1000”: expected a number"},
    {NAMED "<memory>18446744073709551615</memory>", "beyond 64 bits of bytes"},
    {NAMED "<memory>18446744073709551616</memory>", "expected a number from 0 to 1844674407370955"},
    {NAMED "<memory unit='b'>18446744073709551615</memory>", "beyond 64 bits of bytes"},
    {NAMED "<memory unit='EiB'>16</memory>", "beyond 64 bits of bytes"},
    {NAMED "<memory unit='parsec'>1</memory>", "<memory> has the unit “parsec”, and may have:"},
    {NAMED "<memory unit='KiB'>1024</memory>", "at least 2 MiB"},
    {GOOD "<currentMemory>8192</currentMemory>",
     "The current memory is 8 MiB: it is at least 1 MiB, and at most the memory, 4 MiB"},
    {GOOD "<currentMemory>0</currentMemory>", "<currentMemory> is “0”"},
    /* vCPUs. */
    {GOOD "<vcpu>0</vcpu>", "line 4: <vcpu> is “0”: expected a number from 1 to 64"},
    {GOOD "<vcpu>65</vcpu>", "<vcpu> is “65”: expected a number from 1 to 64"},
    {GOOD "<vcpu>many</vcpu>", "<vcpu> is “many”"},
    {GOOD "<vcpu current='3'>2</vcpu>", "<vcpu> current is “3”: expected a number from 1 to 2"},
    {GOOD "<vcpu cpuset='0-999'>2</vcpu>", "line 4: “0-999” is no set of CPUs"},
    /* What it boots. */
    {GOOD "<os><type>xen</type></os>", "<os> type is “xen”, and may be: hvm"},
    {GOOD "<os><type arch='aarch64'>hvm</type></os>",
     "<type> arch is “aarch64”, and may be: x86_64"},
    {GOOD "<os><type machine='q35'>hvm</type></os>", "<type> machine is “q35”, and may be: pc"},
    {GOOD "<os firmware='efi'/>", "<os> firmware is “efi”: Lodge has no firmware"},
    {GOOD "<os>\n<loader>/ovmf</loader></os>", "line 5: <loader> cannot be used: Lodge has no"},
    {GOOD "<os><nvram/></os>", "<nvram> cannot be used"},
    {GOOD "<os><init>/sbin/init</init></os>", "<init> cannot be used"},
    {GOOD "<os><kernel>vmlinuz</kernel></os>",
     "The kernel “vmlinuz” is not an absolute path: begin it with “/”"},
    {GOOD "<os><kernel>/k</kernel><initrd>r</initrd></os>", "The initrd “r” is not an absolute"},
    {GOOD "<os><initrd>/r</initrd></os>", "and no kernel for it"},
    {GOOD "<os><cmdline>quiet</cmdline></os>", "and no kernel for it"},
    {GOOD "<os><kernel>/k</kernel><kernel>/l</kernel></os>", "<kernel> stands twice in <os>"},
    {GOOD "<on_poweroff>rename-restart</on_poweroff>",
     "<on_poweroff> is “rename-restart”, and may be: destroy, restart, preserve"},
    {GOOD "<on_crash>coredump-destroy</on_crash>", "<on_crash> is “coredump-destroy”"},
    /* Clock and timers. */
    {GOOD "<clock offset='moon'/>", "<clock> offset is “moon”, and may be: utc, localtime"},
    {GOOD "<clock offset='timezone'/>", "a timezone= exactly if"},
    {GOOD "<clock offset='utc' timezone='UTC'/>", "a timezone= exactly if"},
    {GOOD "<clock offset='absolute'/>", "needs start="},
    {GOOD "<clock adjustment='soon'/>", "<clock> adjustment is “soon”"},
    {GOOD "<clock adjustment='9223372036854775808'/>", "expected a number of seconds, or reset"},
    {GOOD "<clock offset='absolute' start='1' adjustment='1'/>", "has no adjustment"},
    {TIMER "clock'/></clock>", "line 5: <timer> name is “clock”, and may be: pit, rtc, hpet"},
    {GOOD "<clock><timer/></clock>", "<timer> name is “”"},
    {TIMER "pit'/><timer name='pit'/></clock>", "the timer “pit” is given twice"},
    {TIMER "pit' present='maybe'/></clock>", "<timer> present is “maybe”, and may be: yes, no"},
    {TIMER "pit' tickpolicy='often'/></clock>",
     "<timer> tickpolicy is “often”, and may be: delay, catchup, merge, discard"},
    {TIMER "tsc' tickpolicy='delay'/></clock>", "The timer “tsc” has no ticks"},
    {TIMER "kvmclock' tickpolicy='delay'/></clock>", "The timer “kvmclock” has no ticks"},
    {TIMER "pit' track='wall'/></clock>", "The timer “pit” has no track"},
    {TIMER "hpet' frequency='1'/></clock>", "only tsc has"},
    {TIMER "rtc' mode='native'/></clock>", "only tsc has"},
    {TIMER "tsc' frequency='0'/></clock>", "<timer> frequency is “0”: expected a number from 1"},
    {TIMER "tsc' mode='swift'/></clock>", "<timer> mode is “swift”"},
    {TIMER "rtc' tickpolicy='merge'>\n<catchup slew='1'/></timer></clock>",
     "line 6: <catchup> stands in a timer of tickpolicy merge: it goes with tickpolicy='catchup'"},
    {TIMER "rtc'><catchup/></timer></clock>", "a timer of tickpolicy by default"},
    {TIMER "rtc' tickpolicy='catchup'><catchup slew='0'/></timer></clock>",
     "<catchup> slew is “0”: expected a number from 1 to 4294967295"},
    {TIMER "rtc' tickpolicy='catchup'><catchup limit='-5'/></timer></clock>",
     "<catchup> limit is “-5”"},
    {TIMER "rtc' tickpolicy='catchup'><catchup threshold='4294967296'/></timer></clock>",
     "<catchup> threshold is “4294967296”"},
    /* Shares of the CPUs. */
    {GOOD "<cputune><shares>1</shares></cputune>", "<shares> is “1”: expected a number from 2"},
    {GOOD "<cputune><period>999</period></cputune>", "<period> is “999”"},
    {GOOD "<cputune><quota>999</quota></cputune>", "<quota> is “999”: expected microseconds"},
    {GOOD "<cputune><quota>9223372036854775807</quota></cputune>", "expected microseconds"},
    {GOOD "<cputune><vcpupin vcpu='1' cpuset='0'/></cputune>",
     "<vcpupin> vcpu is “1”: expected a number from 0 to 0"},
    {GOOD "<cputune><vcpupin cpuset='0'/></cputune>", "<vcpupin> needs vcpu="},
    {GOOD "<cputune><vcpupin vcpu='0'/></cputune>", "<vcpupin> needs cpuset="},
    {GOOD "<cputune><emulatorpin cpuset='x'/></cputune>", "“x” is no set of CPUs"},
    {GOOD "<cputune><vcpupin vcpu='0' cpuset='0'/><vcpupin vcpu='0' cpuset='1'/></cputune>",
     "vCPU 0 is pinned twice"},
    /* Devices. */
    {GOOD "<devices><emulator>qemu</emulator></devices>", "The emulator “qemu” is not an absolute"},
    {SERIAL "/></devices>", "line 5: <serial> needs type="},
    {SERIAL "type='tcp'/></devices>", "<serial> type is “tcp”, and may be: pty, file, null"},
    {SERIAL "type='file'/></devices>", "<serial type='file'> needs <source path='…'/>"},
    {SERIAL "type='file'><source path='log'/></serial></devices>",
     "The serial port's file “log” is not an absolute path"},
    {SERIAL "type='file'><source path='/l' append='yes'/></serial></devices>",
     "<source> append is “yes”, and may be: on, off"},
    {SERIAL "type='pty'><target port='1'/></serial></devices>",
     "<target> port is “1”: expected a number from 0 to 0"},
    {SERIAL "type='pty'><target type='usb-serial'/></serial></devices>",
     "<target> type is “usb-serial”"},
    {SERIAL "type='pty'/>\n<serial type='pty'/></devices>", "line 6: this is a second <serial>"},
    {GOOD "<devices><console type='pty'/><console type='pty'/></devices>",
     "this is a second <console>"},
};

static const struct {
    const char *element, *said;
} bad_ours[] = {
    {"<l:engine/>", "<lodge:engine> needs name="},
    {"<l:engine name='warp'/>", "<engine> name is “warp”, and may be: auto, soft, kvm"},
    {"<l:engine name='soft'/><l:engine name='soft'/>", "<lodge:engine> stands twice"},
    {"<l:pool mode='ours'/>", "<pool> mode is “ours”, and may be: shared, own"},
    {"<l:debug flag='all'/>", "<debug> flag is “all”, and may be: testdev, force-io-exit"},
    {"<l:debug/>", "<lodge:debug> needs flag="},
    {"<l:kernel/>", "<lodge:kernel> needs fdgroup="},
    {"<l:initrd fdgroup=''/>", "<lodge:initrd> needs fdgroup="},
    {"<l:kernel fdgroup='a&#10;'/>", "The fdgroup “a<U+000A>” holds a line feed"},
};

static void refused(const char *xml, const char *said)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(LodgeDomainConfig) config = lodge_domain_config_parse(xml, -1, "m.xml", &error);

    if (config) {
        tap_fail(__FILE__, __LINE__, "taken: %s", xml);
        return;
    }
    TAP_OK(g_error_matches(error, LODGE_ERROR, LODGE_ERROR_INPUT));
    TAP_OK(g_str_has_prefix(error->message, "m.xml, line "));
    if (!strstr(error->message, said)) {
        TAP_STR(error->message, said);
    }
}

static void test_table(void)
{
    for (gsize i = 0; i < G_N_ELEMENTS(bad) && !tap_failed(); i++) {
        g_autofree char *xml =
            g_strdup_printf("%s\n</%s>", bad[i].xml,
                            g_str_has_prefix(bad[i].xml, "<network") ? "network" : "domain");

        refused(xml, bad[i].said);
    }
}

static void test_ours(void)
{
    for (gsize i = 0; i < G_N_ELEMENTS(bad_ours) && !tap_failed(); i++) {
        g_autofree char *xml =
            g_strdup_printf("<domain type='lodge' xmlns:l='urn:lodge:domain:1'><name>x</name>"
                            "<memory>4096</memory>%s</domain>",
                            bad_ours[i].element);

        refused(xml, bad_ours[i].said);
    }
}

/* Fields that a caller has changed are checked as if they had been read. */
static void test_changed_fields(void)
{
    static const char xml[] = GOOD "<vcpu>4</vcpu></domain>";
    g_autoptr(LodgeDomainConfig) config = lodge_domain_config_parse(xml, -1, NULL, NULL);

    TAP_OK(config && lodge_domain_config_check(config, NULL));
    g_free(config->name);
    config->name = g_strdup("a/b");
    TAP_OK(!lodge_domain_config_check(config, NULL));
    config->name[1] = '-';
    TAP_OK(lodge_domain_config_check(config, NULL));
    config->memory_bytes += 1;
    TAP_OK(!lodge_domain_config_check(config, NULL));
    config->memory_bytes -= 1;
    config->vcpus = 5;
    TAP_OK(!lodge_domain_config_check(config, NULL));
    config->vcpus = 4;
    config->clock.timer[LODGE_TIMER_PIT].slew = 1;
    TAP_OK(!lodge_domain_config_check(config, NULL));
    config->clock.timer[LODGE_TIMER_PIT].policy = LODGE_TICK_CATCHUP;
    TAP_OK(lodge_domain_config_check(config, NULL));
    config->tune.pin[4].word[0] = 1;
    TAP_OK(!lodge_domain_config_check(config, NULL));
    config->tune.pin[4].word[0] = 0;
    config->tune.quota_us = 5;
    TAP_OK(!lodge_domain_config_check(config, NULL));
    config->tune.quota_us = -1;
    config->tune.shares = 1;
    TAP_OK(!lodge_domain_config_check(config, NULL));
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"config.domain-refused.table", test_table},
        {"config.domain-refused.ours", test_ours},
        {"config.domain-refused.changed-fields", test_changed_fields},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

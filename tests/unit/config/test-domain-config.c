/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What is read from a definition, and that every example is read as what is written of it. */
#include "config/machine-time.h"
#include "domain-invariants.h"
#include "lib/tap.h"

#include <hv/domain.h>
#include <string.h>

static LodgeDomainConfig *read_seed(const char *name)
{
    g_autofree char *path = g_build_filename(SEEDS, name, NULL);
    g_autofree char *xml = NULL;
    g_autoptr(GError) error = NULL;
    LodgeDomainConfig *config = NULL;

    if (g_file_get_contents(path, &xml, NULL, &error)) {
        config = lodge_domain_config_parse(xml, -1, path, &error);
    }
    if (error) {
        tap_note("%s", error->message);
    }
    return config;
}

static void test_identity(void)
{
    g_autoptr(LodgeDomainConfig) config = read_seed("good-full.xml");
    g_autofree char *uuid = NULL;

    TAP_OK(config != NULL);
    uuid = lodge_uuid_format(config->uuid);
    TAP_STR(config->name, "Ünï 日本 \"x\"");
    TAP_STR(uuid, "8b1f4f5e-0a1b-4c2d-9e3f-001122334455");
    TAP_STR(config->title, "A machine with everything");
    TAP_STR(config->description, "First line\n  second line, with <angles> & an ampersand");
    TAP_EQ(config->memory_bytes, 512 * HV_MIB);
    TAP_EQ(config->current_memory_bytes, 256 * HV_MIB);
    TAP_EQ(config->vcpus_max, 4);
    TAP_EQ(config->vcpus, 2);
    TAP_STR(config->kernel, "/boot/vmlinuz with space");
    TAP_STR(config->initrd, "/boot/initrd.img");
    TAP_STR(config->command_line, "console=ttyS0 root=/dev/ram0 quiet");
    TAP_OK(config->acpi && config->apic && config->pae);
    TAP_EQ(config->on_poweroff, LODGE_ACTION_DESTROY);
    TAP_EQ(config->on_reboot, LODGE_ACTION_RESTART);
    TAP_EQ(config->on_crash, LODGE_ACTION_PRESERVE);
    TAP_STR(config->emulator, "/usr/bin/lodge-core");
    TAP_EQ(config->serial.type, LODGE_PORT_FILE);
    TAP_STR(config->serial.path, "/tmp/serial log");
    TAP_EQ(config->serial.append, LODGE_SWITCH_ON);
}

static void test_clock(void)
{
    g_autoptr(LodgeDomainConfig) config = read_seed("good-full.xml");
    const LodgeTimerConfig *timer;

    TAP_OK(config != NULL);
    timer = config->clock.timer;
    TAP_EQ(config->clock.offset, LODGE_CLOCK_VARIABLE);
    TAP_OK(config->clock.adjustment_given && !config->clock.adjustment_reset);
    TAP_EQ(config->clock.adjustment_s, -3600);
    TAP_OK(config->clock.basis_localtime);
    TAP_EQ(timer[LODGE_TIMER_RTC].present, LODGE_SWITCH_ON);
    TAP_EQ(timer[LODGE_TIMER_RTC].policy, LODGE_TICK_CATCHUP);
    TAP_EQ(timer[LODGE_TIMER_RTC].track, LODGE_TRACK_WALL);
    TAP_EQ(timer[LODGE_TIMER_RTC].threshold, 123);
    TAP_EQ(timer[LODGE_TIMER_RTC].slew, 120);
    TAP_EQ(timer[LODGE_TIMER_RTC].limit, 10000);
    TAP_EQ(timer[LODGE_TIMER_PIT].policy, LODGE_TICK_DELAY);
    TAP_EQ(timer[LODGE_TIMER_HPET].present, LODGE_SWITCH_OFF);
    TAP_EQ(timer[LODGE_TIMER_LAPIC].policy, LODGE_TICK_MERGE);
    TAP_EQ(timer[LODGE_TIMER_TSC].frequency_hz, 2500000000u);
    TAP_EQ(timer[LODGE_TIMER_TSC].mode, LODGE_TSC_EMULATE);
    TAP_OK(timer[LODGE_TIMER_KVMCLOCK].given);
    TAP_STR(lodge_timer_name(LODGE_TIMER_RTC), "rtc");
    TAP_STR(lodge_tick_policy_name(LODGE_TICK_CATCHUP), "catchup");
    TAP_OK(lodge_tick_policy_name(LODGE_TICK_DEFAULT) == NULL);
}

static void test_ours(void)
{
    g_autoptr(LodgeDomainConfig) config = read_seed("good-full.xml");

    TAP_OK(config != NULL);
    TAP_EQ(config->engine, LODGE_ENGINE_SOFT);
    TAP_STR(lodge_engine_name(config->engine), "soft");
    TAP_STR(lodge_engine_name(LODGE_ENGINE_DEFAULT), "auto");
    TAP_EQ(config->pool, LODGE_POOL_OWN);
    TAP_EQ(config->clock_policy, LODGE_CLOCK_POLICY_FREEZE);
    TAP_EQ(config->debug_flags, HV_DOMAIN_TRACE_BLOCKS);
    TAP_STR(config->kernel_fdgroup, "boot");
    TAP_STR(config->initrd_fdgroup, "ram");
}

/* What does nothing is known to do nothing. */
static void test_inert(void)
{
    g_autoptr(LodgeDomainConfig) config = read_seed("good-full.xml");
    g_autofree char *inert = NULL;

    TAP_OK(config != NULL);
    inert = g_strjoinv(" ", config->inert);
    TAP_STR(inert, "cputune/vcpusched os/boot features/hyperv cpu devices/disk devices/graphics "
                   "devices/memballoon seclabel lodge:future other:thing");
}

static void test_defaults(void)
{
    g_autoptr(LodgeDomainConfig) config = read_seed("good-small.xml");
    g_autoptr(LodgeDomainConfig) again = read_seed("good-small.xml");

    TAP_OK(config && again);
    TAP_OK(memcmp(config->uuid, again->uuid, LODGE_UUID_BYTES) != 0);
    TAP_EQ(config->memory_bytes, 2 * HV_MIB);
    TAP_EQ(config->current_memory_bytes, 2 * HV_MIB);
    TAP_EQ(config->vcpus_max, 1);
    TAP_EQ(config->vcpus, 1);
    TAP_EQ(config->clock.offset, LODGE_CLOCK_UTC);
    TAP_EQ(config->serial.type, LODGE_PORT_NONE);
    TAP_EQ(config->engine, LODGE_ENGINE_DEFAULT);
    TAP_OK(!config->title && !config->kernel && !config->emulator && !config->acpi);
    TAP_OK(config->inert && !config->inert[0]);
}

static void test_memory_units(void)
{
    static const struct {
        const char *element;
        guint64 mib;
    } sizes[] = {
        {"<memory>4096</memory>", 4},
        {"<memory unit='b'>4194304</memory>", 4},
        {"<memory unit='bytes'>4194305</memory>", 5}, /* rounded up */
        {"<memory unit='k'>4096</memory>", 4},
        {"<memory unit='KB'>5000</memory>", 5},
        {"<memory unit='mib'>3</memory>", 3},
        {"<memory unit='MB'>1000</memory>", 954},
        {"<memory unit='G'>2</memory>", 2048},
        {"<memory unit='GB'>2</memory>", 1908},
        {"<memory unit='TiB'>1</memory>", 1048576},
        {"<memory unit='EiB'>15</memory>", G_GUINT64_CONSTANT(15) << 40},
        {"<memory>\n 4096 \n</memory>", 4},
    };

    for (gsize i = 0; i < G_N_ELEMENTS(sizes); i++) {
        g_autofree char *xml =
            g_strdup_printf("<domain type='lodge'><name>x</name>%s</domain>", sizes[i].element);
        g_autoptr(LodgeDomainConfig) config = lodge_domain_config_parse(xml, -1, NULL, NULL);

        TAP_OK(config != NULL);
        TAP_EQ(config->memory_bytes, sizes[i].mib * HV_MIB);
    }
}

/* All examples, good and bad: what the fuzz target asks of any input. */
static void test_seeds(void)
{
    g_autoptr(GDir) folder = g_dir_open(SEEDS, 0, NULL);
    const char *name;
    guint good = 0;

    TAP_OK(folder != NULL);
    while ((name = g_dir_read_name(folder))) {
        g_autofree char *path = g_build_filename(SEEDS, name, NULL);
        g_autofree char *xml = NULL;
        g_autofree char *wrong = NULL;
        gsize length = 0;

        TAP_OK(g_file_get_contents(path, &xml, &length, NULL));
        wrong = domain_invariants_check(xml, length);
        if (wrong) {
            tap_fail(__FILE__, __LINE__, "%s: %s", name, wrong);
            return;
        }
        if (g_str_has_prefix(name, "good-")) {
            g_autoptr(LodgeDomainConfig) config = read_seed(name);

            TAP_OK(config != NULL);
            good++;
        }
    }
    TAP_OK(good >= 6);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"config.domain-config.identity", test_identity},
        {"config.domain-config.clock", test_clock},
        {"config.domain-config.ours", test_ours},
        {"config.domain-config.inert", test_inert},
        {"config.domain-config.defaults", test_defaults},
        {"config.domain-config.memory-units", test_memory_units},
        {"config.domain-config.seeds", test_seeds},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

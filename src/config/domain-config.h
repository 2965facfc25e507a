/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A machine's definition: <domain type='lodge'> as libvirt's clients write it, and what it means.
 *
 * What Lodge understands is in the fields below; a caller may change them, and check. All else,
 * elements, attributes, comments and their order, stays in the document from which it was read and is
 * written back where it stood. lodge_domain_config_format() puts the fields into that document, so
 * that parse, format and parse give the same.
 *
 * Not thread-safe: one thread at a time uses a definition.
 */
#pragma once

#include "config/cpu-set.h"
#include "config/text.h"
#include "config/uuid.h"
#include "config/xml-read.h"

#include <hv/types.h>

typedef enum {
    LODGE_SWITCH_DEFAULT, /* not said */
    LODGE_SWITCH_ON,
    LODGE_SWITCH_OFF,
} LodgeSwitch;

typedef enum {
    LODGE_TIMER_PIT,
    LODGE_TIMER_RTC,
    LODGE_TIMER_HPET,
    LODGE_TIMER_LAPIC,
    LODGE_TIMER_TSC,
    LODGE_TIMER_KVMCLOCK,
    LODGE_TIMER_COUNT,
} LodgeTimer;

typedef enum {
    LODGE_TICK_DEFAULT,
    LODGE_TICK_DELAY,
    LODGE_TICK_CATCHUP,
    LODGE_TICK_MERGE,
    LODGE_TICK_DISCARD,
} LodgeTickPolicy;

typedef enum {
    LODGE_TRACK_DEFAULT,
    LODGE_TRACK_BOOT,
    LODGE_TRACK_GUEST,
    LODGE_TRACK_WALL,
    LODGE_TRACK_REALTIME,
} LodgeTimerTrack;

typedef enum {
    LODGE_TSC_DEFAULT,
    LODGE_TSC_AUTO,
    LODGE_TSC_NATIVE,
    LODGE_TSC_EMULATE,
    LODGE_TSC_PARAVIRT,
    LODGE_TSC_SMPSAFE,
} LodgeTscMode;

typedef struct {
    gboolean given;
    LodgeSwitch present;
    LodgeTickPolicy policy; /* pit, rtc, hpet, lapic */
    LodgeTimerTrack track;  /* rtc */
    guint64 frequency_hz;   /* tsc; 0: the host's */
    LodgeTscMode mode;      /* tsc */
    /* With LODGE_TICK_CATCHUP; 0: not given. */
    guint32 threshold, slew, limit;
} LodgeTimerConfig;

typedef enum {
    LODGE_CLOCK_UTC = 1, /* also when nothing is said */
    LODGE_CLOCK_LOCALTIME,
    LODGE_CLOCK_TIMEZONE,
    LODGE_CLOCK_VARIABLE, /* UTC or local time, and so many seconds */
    LODGE_CLOCK_ABSOLUTE, /* always starts at the same second */
} LodgeClockOffset;

typedef struct {
    LodgeClockOffset offset;
    gboolean adjustment_given; /* else each start begins with the host's time */
    gboolean adjustment_reset; /* adjustment='reset' */
    gint64 adjustment_s;
    gboolean basis_localtime; /* VARIABLE: the adjustment is to local time */
    char *timezone;           /* TIMEZONE: as in the time zone database */
    guint64 start_s;          /* ABSOLUTE: since 1970 */
    LodgeTimerConfig timer[LODGE_TIMER_COUNT];
} LodgeClockConfig;

typedef enum {
    LODGE_ACTION_DEFAULT,
    LODGE_ACTION_DESTROY,
    LODGE_ACTION_RESTART,
    LODGE_ACTION_PRESERVE,
} LodgeAction;

typedef enum {
    LODGE_PORT_NONE, /* there is no such port */
    LODGE_PORT_PTY,
    LODGE_PORT_FILE,
    LODGE_PORT_NULL,
} LodgePortType;

typedef struct {
    LodgePortType type;
    char *path;         /* FILE */
    LodgeSwitch append; /* FILE */
} LodgePortConfig;

/* <cputune>, in libvirt's units; 0: not given. lodge_domain_config_get_share() says what it means. */
typedef struct {
    guint64 shares; /* 1024: an ordinary machine */
    guint64 period_us, global_period_us;
    gint64 quota_us, global_quota_us; /* of each vCPU, of the machine; negative: no limit */
    LodgeCpuSet pin[HV_MAX_VCPUS];    /* of each vCPU; empty: cpuset */
    LodgeCpuSet emulator_pin, cpuset; /* empty: any. cpuset is an attribute of <vcpu> */
} LodgeTuneConfig;

typedef enum {
    LODGE_ENGINE_DEFAULT, /* as auto */
    LODGE_ENGINE_AUTO,
    LODGE_ENGINE_SOFT,
    LODGE_ENGINE_KVM,
} LodgeEngine;

typedef enum {
    LODGE_POOL_DEFAULT,
    LODGE_POOL_SHARED, /* with other machines in one core */
    LODGE_POOL_OWN,    /* a core for itself */
} LodgePool;

/* What becomes of time in which the machine cannot run: hv/timers.h. */
typedef enum {
    LODGE_CLOCK_POLICY_DEFAULT, /* as advance */
    LODGE_CLOCK_POLICY_ADVANCE,
    LODGE_CLOCK_POLICY_FREEZE,
} LodgeClockPolicy;

typedef struct _LodgeDomainConfig {
    char *name;
    guint8 uuid[LODGE_UUID_BYTES]; /* made when none is given */
    char *title, *description;     /* may be NULL */
    guint64 memory_bytes;          /* a multiple of 1 MiB: rounded up */
    guint64 current_memory_bytes;  /* at most memory_bytes; a multiple of 1 MiB */
    guint vcpus_max, vcpus;        /* 1 to HV_MAX_VCPUS; vcpus at start */
    LodgeTuneConfig tune;
    char *kernel, *initrd, *command_line; /* may be NULL: such a machine cannot start */
    gboolean acpi, apic, pae;
    LodgeClockConfig clock;
    LodgeAction on_poweroff, on_reboot, on_crash;
    char *emulator;         /* may be NULL */
    LodgePortConfig serial; /* the first serial port, which is the console */

    /* Lodge's own elements. */
    LodgeEngine engine;
    LodgePool pool;
    LodgeClockPolicy clock_policy;
    guint debug_flags; /* of enum hv_domain_flag */
    char *kernel_fdgroup,
        *initrd_fdgroup; /* names that a client gave descriptors, instead of paths */

    /* Elements kept that change nothing, each once, the first 64: "cpu", "devices/disk". */
    GStrv inert;
    xmlDoc *document; /* private */
} LodgeDomainConfig;

/**
 * Parse and check.
 *
 * @length  bytes of @xml, or -1: it is terminated.
 * @source  what messages call it: a file's path; NULL for XML that came with a call.
 *
 * Returns a definition, owned by the caller; NULL with LODGE_ERROR_INPUT naming source, line, value
 * and rule, or LODGE_ERROR_FAILED when memory is short.
 */
LodgeDomainConfig *lodge_domain_config_parse(const char *xml, gssize length, const char *source,
                                             GError **error);
LodgeDomainConfig *lodge_domain_config_copy(const LodgeDomainConfig *config);
void lodge_domain_config_free(LodgeDomainConfig *config);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(LodgeDomainConfig, lodge_domain_config_free)

/**
 * Check what holds between fields, and each field's own rule, after a caller has changed some.
 *
 * Returns FALSE with LODGE_ERROR_INPUT naming value and rule.
 */
gboolean lodge_domain_config_check(const LodgeDomainConfig *config, GError **error);

/* What is so only while the machine runs. */
typedef struct {
    int id;                  /* > 0 */
    const char *serial_path; /* borrowed: a pty's other end; may be NULL */
} LodgeDomainLive;

typedef enum {
    LODGE_FORMAT_SECURE = 1u << 0, /* with passwords, which kept elements may hold */
} LodgeFormatFlag;

/**
 * The definition as XML, in libvirt's order.
 *
 * @live   borrowed; NULL: as it is stored, and as an inactive machine is shown.
 * @flags  of LodgeFormatFlag.
 *
 * Returns a text, owned by the caller: g_free().
 */
char *lodge_domain_config_format(const LodgeDomainConfig *config, const LodgeDomainLive *live,
                                 guint flags);

/* A machine's part in the CPUs, as the core's scheduler counts. */
typedef struct {
    guint32 weight;       /* 256: an ordinary machine; 1 to 65,535 */
    guint32 cap_percent;  /* of one CPU, all vCPUs together; 0: none */
    LodgeCpuSet affinity; /* empty: any CPU */
} LodgeCpuShare;

/**
 * What <cputune> and <vcpu cpuset> come to: shares of 1024 are weight 256; the tighter of the quota
 * of all vCPUs and the machine's own is the cap; the affinity is of the machine, the union of its
 * vCPUs'.
 */
void lodge_domain_config_get_share(const LodgeDomainConfig *config, LodgeCpuShare *share_out);

/** A name for messages and statistics: "catchup"; NULL for …_DEFAULT. */
const char *lodge_tick_policy_name(LodgeTickPolicy policy);
/** As hv_domain_config takes it: "auto" by default. */
const char *lodge_engine_name(LodgeEngine engine);

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The options of `lodgectl run`, checked. */
#pragma once

#include "config/machine-time.h"

typedef enum {
    LODGE_SERIAL_STDIO,
    LODGE_SERIAL_FILE,
    LODGE_SERIAL_NONE,
} LodgeSerial;

typedef enum {
    LODGE_STATS_NONE,
    LODGE_STATS_JSON,       /* the machine's and the core's, names and values */
    LODGE_STATS_LOCKS,      /* a table of all locks */
    LODGE_STATS_LOCKS_JSON, /* all that is known of them */
} LodgeStats;

/* How often locks of a class are sampled: one taking in so many, 0 none. */
typedef struct {
    char *class_name;
    guint one_in;
} LodgeLockSampling;

typedef struct {
    char *kernel, *initrd, *append, *engine;
    guint64 memory_bytes;
    guint vcpus, workers;
    LodgeSerial serial;
    char *serial_path; /* LODGE_SERIAL_FILE */
    gdouble timeout_s; /* 0: none */
    gboolean restart;  /* on a guest's reboot */
    gboolean testdev;
    gboolean host_policy; /* a thread for each vCPU */
    gboolean boost;       /* directed yields do something */
    guint debug_flags;    /* of enum hv_domain_flag */
    guint pv_hidden;      /* of enum hv_pv_part */
    LodgeStats stats;
    char *stats_path;      /* NULL: stderr */
    GArray *lock_sampling; /* of LodgeLockSampling; NULL: as it is */
    LodgeMachineTime time;
} LodgeRunOptions;

/**
 * Parse and check. @argv[0] is the verb.
 *
 * Returns FALSE with an error that names option, value and limit. `--help` prints and exits.
 */
gboolean lodge_run_options_parse(LodgeRunOptions *options, int argc, char **argv, GError **error);
void lodge_run_options_clear(LodgeRunOptions *options);

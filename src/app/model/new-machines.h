/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Machines that are to be made: what a person wants, checked field by field, and the job that makes them. */
#pragma once

#include "app/model/connection-item.h"
#include "app/model/job.h"

#define LODGE_NEW_COUNT_MOST 1000u
#define LODGE_NEW_VCPUS_MOST 64u

typedef enum {
    LODGE_NEW_NAME,
    LODGE_NEW_KERNEL,
    LODGE_NEW_INITRD,
    LODGE_NEW_COMMAND_LINE,
    LODGE_NEW_FIELDS,
} LodgeNewField;

/* All borrowed. */
typedef struct {
    const char *name; /* of one; of many the beginning: "web" gives "web-1" and on */
    guint count;
    const char *kernel, *initrd; /* paths; of initrd NULL: none */
    const char *command_line;
    guint vcpus;
    guint64 memory_bytes; /* of each */
    gboolean start;
} LodgeNewMachines;

/** FALSE with what is wrong with that field. */
gboolean lodge_new_machines_check(const LodgeNewMachines *wanted, LodgeNewField field,
                                  GError **error);

/**
 * A job, not yet run, on a connection that is open. Names that are taken are left out: the numbers go on.
 *
 * Returns NULL with an error when a field is wrong, or the name of the one machine is taken.
 */
LodgeJob *lodge_new_machines_job(const LodgeNewMachines *wanted, LodgeConnectionItem *connection,
                                 GError **error);

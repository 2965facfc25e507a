/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The machines of a connection, and which of them a command line means. */
#pragma once

#include "cli/connection.h"
#include "client/machine.h"

typedef struct {
    virDomainPtr domain; /* owned */
    char *name, *uuid;   /* as people write them */
    int id;              /* -1: shut off */
    int state;           /* virDomainState */
    gboolean active;
    guint vcpus;
    guint64 memory_bytes, cpu_ns; /* of memory: the most that it may have */
} LodgeMachine;

/** All machines, in the order of their names ("web-2" before "web-10"). NULL with an error. */
GPtrArray *lodge_machines_list(virConnectPtr connection, GError **error);
/** Connect, and list. *connection_out is the caller's, to be closed after the machines are freed. */
GPtrArray *lodge_machines_open(const char *uri, LodgeConnectionUse use,
                               virConnectPtr *connection_out, GError **error);

/**
 * Those that @words mean: names, UUIDs, or globs (*, ?, [a-z]); or all of them.
 *
 * A word that is a machine's name means that machine, whatever stands in it.
 *
 * @machines  borrowed; so are the ones returned, which keep it alive.
 *
 * Returns NULL with LODGE_ERROR_INPUT naming the word that means none, before anything is done; also
 * when there are no words and not @all, or both.
 */
GPtrArray *lodge_machines_select(GPtrArray *machines, GStrv words, gboolean all, GError **error);

/** The one machine that @word means by name or UUID; else NULL with LODGE_ERROR_INPUT. */
LodgeMachine *lodge_machines_find(GPtrArray *machines, const char *word, GError **error);

/** Is it this name, or does it match this glob? */
gboolean lodge_machine_is_meant(const char *name, const char *word);
/** Set @error: @word means no machine. Returns FALSE. */
gboolean lodge_machine_refuse_word(GError **error, const char *word);

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A listing that stays and is looked at again and again, where standard output is a terminal; else it
 * is printed once.
 *
 * q, Ctrl-C and Ctrl-D leave, a space looks at once. The terminal's own screen comes back afterwards.
 */
#pragma once

#include "cli/connection.h"
#include "cli/table.h"
#include "cli/verb-options.h"

/**
 * Look.
 *
 * @words  which machines; none: all.
 *
 * Returns a table, owned by the caller; NULL with an error, which ends it all.
 */
typedef LodgeTable *LodgeLiveLook(virConnectPtr connection, GStrv words, gpointer user_data,
                                  GError **error);

/**
 * The whole of a verb: parse, connect, look.
 *
 * @looks  which of them is printed where there is no terminal: the second where a table holds rates.
 *
 * Returns an exit status; has printed its error.
 */
int lodge_live_run(const LodgeVerbHelp *help, guint looks, LodgeLiveLook *look, gpointer user_data,
                   int argc, char **argv);

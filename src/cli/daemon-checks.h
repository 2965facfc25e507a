/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Is there a daemon, and can it be reached? */
#pragma once

#include "cli/findings.h"

/**
 * The runtime directory, the daemon's program and socket, and a connection.
 *
 * @uri  to connect to; NULL: the session's.
 */
void lodge_daemon_check(LodgeFindings *findings, const char *uri);

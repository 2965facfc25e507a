/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Definitions of machines, from wherever a command line says they are. */
#pragma once

#include "cli/connection.h"
#include "config/xml-read.h"

/**
 * Read a definition.
 *
 * @from  a path ("./web.xml", or any that ends in ".xml"), "-" for standard input, the name of a
 *        template (lodgectl(1)), or else a machine's name: its definition.
 *
 * Returns a document that is a <domain>, owned by the caller: xmlFreeDoc(); NULL with an error.
 */
xmlDoc *lodge_definition_read(virConnectPtr connection, const char *from, GError **error);

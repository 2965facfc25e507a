/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Definitions of machines on their way from a file, a template or another machine to the daemon.
 *
 * Only what makes one machine differ from the next is changed here; whether the definition makes sense
 * the daemon says, which may be another hypervisor's.
 */
#pragma once

#include "client/connection.h"
#include "config/xml-read.h"

/* What a machine is to differ in from what it is made from; NULL and 0: nothing. */
typedef struct {
    char *kernel, *initrd, *append;
    guint64 memory_bytes;
    guint vcpus;
} LodgeMachineChanges;

/**
 * Parse a definition.
 *
 * @source  what messages call it, or NULL.
 *
 * Returns a document that is a <domain>, owned by the caller: xmlFreeDoc(); NULL with an error.
 */
xmlDoc *lodge_machine_xml_parse(const char *text, gsize length, const char *source, GError **error);

/** Its <name>; NULL when it has none. Free with g_free(). */
char *lodge_machine_xml_name(const xmlDoc *definition);

/** Change it for all machines that are made from it. Paths become absolute. */
void lodge_machine_xml_change(xmlDoc *definition, const LodgeMachineChanges *changes);

/**
 * The definition of one machine: with @name, and without what is to be another's than the original's,
 * which are UUID, id and network addresses.
 *
 * Returns XML, owned by the caller: g_free().
 */
char *lodge_machine_xml_instance(xmlDoc *definition, const char *name);

/** Paths that the machine's definition names: kernel, initrd, sources of disks and files. Or NULL. */
GStrv lodge_machine_xml_files(virDomainPtr domain);

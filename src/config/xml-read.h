/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * XML from strangers, read within bounds.
 *
 * UTF-8 alone, whatever the declaration says; no DTD, so no entities but the five of XML and none
 * from outside; nothing is loaded. The bounds hold before the tree exists: a start tag with 100,000
 * attributes costs libxml2 two minutes and more, since it compares each with each.
 *
 * A process calls xmlInitParser() before it has threads; then any thread may read.
 */
#pragma once

#include <glib.h>
#include <libxml/tree.h>

#define LODGE_XML_BYTES_MAX      (1u << 20)
#define LODGE_XML_DEPTH_MAX      64u
#define LODGE_XML_ELEMENTS_MAX   16384u
#define LODGE_XML_ATTRIBUTES_MAX 256u /* of one element, namespaces included */

/**
 * Parse @length bytes of @text.
 *
 * @source  what messages call it: a file's path, or NULL for XML that came with a call. It stays
 *          with the document, for lodge_xml_refuse().
 *
 * Returns a document with a root element, owned by the caller; NULL with LODGE_ERROR_INPUT naming
 * source, line and rule, or LODGE_ERROR_FAILED when memory is short.
 */
xmlDoc *lodge_xml_read(const char *text, gsize length, const char *source, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(xmlDoc, xmlFreeDoc)

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A document as text. Containers, which hold elements and no text, are laid out anew, two spaces a
 * level; they, and leaves, have their quotes as libvirt's. Everything else is written as it was read,
 * white space included.
 */
#pragma once

#include "config/xml-read.h"

typedef enum {
    LODGE_XML_FOREIGN,   /* written as it was read, with what is in it */
    LODGE_XML_CONTAINER, /* holds elements */
    LODGE_XML_LEAF,      /* holds text; written as if foreign when something else is in it */
} LodgeXmlKind;

/* What is the element? Asked of the root, and of children of containers. */
typedef LodgeXmlKind (*LodgeXmlKindOf)(const xmlNode *element);

/**
 * Take the white space out of containers: the layout is made anew when it is written.
 *
 * Returns FALSE with LODGE_ERROR_INPUT when other text stands between the elements of one.
 */
gboolean lodge_xml_strip(xmlNode *root, LodgeXmlKindOf kind_of, GError **error);

/** The text of @root and what is in it, ended by a line feed. Free with g_free(). */
char *lodge_xml_write(const xmlNode *root, LodgeXmlKindOf kind_of);

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Elements of a document: looked up, read as values, refused by line, and written.
 *
 * Names without a namespace, but for lodge_xml_is_ours(). What is read is owned by the caller; what
 * is written is copied. As GLib does, the writers end the process when memory is out: they handle
 * no more than a reader has let in.
 */
#pragma once

#include "config/xml-read.h"

/* Lodge's own elements and attributes. */
#define LODGE_XML_NAMESPACE "urn:lodge:domain:1"
#define LODGE_XML_PREFIX    "lodge"

/** Is it the element @name in no namespace? */
gboolean lodge_xml_is(const xmlNode *node, const char *name);
/** Is it the element @name of Lodge's namespace? */
gboolean lodge_xml_is_ours(const xmlNode *node, const char *name);

/** The first child element @name, or NULL. @parent may be NULL. */
xmlNode *lodge_xml_child(const xmlNode *parent, const char *name);
/** The same of Lodge's namespace. */
xmlNode *lodge_xml_child_ours(const xmlNode *parent, const char *name);

/** The attribute @name in no namespace, or NULL when there is none. */
char *lodge_xml_attribute(const xmlNode *node, const char *name);
/** The text of the element and of what is in it; NULL when it is empty, or @node is NULL. */
char *lodge_xml_text(const xmlNode *node);

/**
 * Set LODGE_ERROR_INPUT: "source, line 7: the sentence". Returns FALSE, to be returned.
 */
gboolean lodge_xml_refuse(GError **error, const xmlNode *node, const char *format, ...)
    G_GNUC_PRINTF(3, 4);
/** Put source and line of @node before @error, which another check has set. Returns FALSE. */
gboolean lodge_xml_locate(GError **error, const xmlNode *node);

/**
 * @text as one of @names, of which [0] is NULL and stands for "not given".
 *
 * @what  what the value is: "<timer> tickpolicy".
 *
 * Returns FALSE with LODGE_ERROR_INPUT listing the names; *value_out is kept when @text is NULL.
 */
gboolean lodge_xml_take_name(const xmlNode *node, const char *what, const char *text,
                             const char *const *names, guint count, guint *value_out,
                             GError **error);
/** The attribute's value by lodge_xml_take_name(). */
gboolean lodge_xml_attribute_name(const xmlNode *node, const char *attribute,
                                  const char *const *names, guint count, guint *value_out,
                                  GError **error);

/** @text as a decimal number from @min to @max; *value_out is kept when @text is NULL. */
gboolean lodge_xml_take_number(const xmlNode *node, const char *what, const char *text, guint64 min,
                               guint64 max, guint64 *value_out, GError **error);
/** The attribute's value by lodge_xml_take_number(). */
gboolean lodge_xml_attribute_number(const xmlNode *node, const char *attribute, guint64 min,
                                    guint64 max, guint64 *value_out, GError **error);

/** A child element @name at the end of @parent: the one that is there, or a new one. */
xmlNode *lodge_xml_ensure(xmlNode *parent, const char *name);
/** A new child element @name at the end of @parent. */
xmlNode *lodge_xml_append(xmlNode *parent, const char *name);
/** A copy of @node for @document, with the namespaces that it needs. The caller's: xmlFreeNode(). */
xmlNode *lodge_xml_copy(const xmlNode *node, xmlDoc *document);
/** Declare a namespace at @node, which has not that prefix. */
xmlNs *lodge_xml_declare(xmlNode *node, const char *uri, const char *prefix);
/** Take out and free. NULL is accepted. */
void lodge_xml_remove(xmlNode *node);

/** Set the attribute, or take it away when @value is NULL. Nothing else moves. */
void lodge_xml_set_attribute(xmlNode *node, const char *name, const char *value);
void lodge_xml_set_attribute_number(xmlNode *node, const char *name, guint64 value);
/** Set the element's text; what stood in it goes. An equal text is left as it was written. */
void lodge_xml_set_text(xmlNode *node, const char *text);
/** The child @name with this text; NULL: no such child. */
void lodge_xml_set_child(xmlNode *parent, const char *name, const char *text);

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Elements of a document: see xml-node.h. */
#include "config/xml-node.h"

#include "common/i18n.h"
#include "common/lodge-error.h"
#include "config/text.h"

#include <string.h>

/* As g_malloc(): callers never see that memory is out. */
static gpointer must(gpointer made)
{
    if (!made) {
        g_error("out of memory in libxml2");
    }
    return made;
}

gboolean lodge_xml_is(const xmlNode *node, const char *name)
{
    return node->type == XML_ELEMENT_NODE && !node->ns &&
           strcmp((const char *)node->name, name) == 0;
}

gboolean lodge_xml_is_ours(const xmlNode *node, const char *name)
{
    return node->type == XML_ELEMENT_NODE && node->ns &&
           strcmp((const char *)node->ns->href, LODGE_XML_NAMESPACE) == 0 &&
           strcmp((const char *)node->name, name) == 0;
}

static xmlNode *find_child(const xmlNode *parent, const char *name,
                           gboolean (*is)(const xmlNode *node, const char *name))
{
    xmlNode *child = parent ? parent->children : NULL;

    while (child && !is(child, name)) {
        child = child->next;
    }
    return child;
}

xmlNode *lodge_xml_child(const xmlNode *parent, const char *name)
{
    return find_child(parent, name, lodge_xml_is);
}

xmlNode *lodge_xml_child_ours(const xmlNode *parent, const char *name)
{
    return find_child(parent, name, lodge_xml_is_ours);
}

static char *take_string(xmlChar *text)
{
    char *copy = g_strdup((const char *)text);

    xmlFree(text);
    return copy;
}

char *lodge_xml_attribute(const xmlNode *node, const char *name)
{
    return take_string(xmlGetNoNsProp(node, (const xmlChar *)name));
}

char *lodge_xml_text(const xmlNode *node)
{
    char *text = node ? take_string(xmlNodeGetContent(node)) : NULL;

    if (text && text[0] == '\0') {
        g_clear_pointer(&text, g_free);
    }
    return text;
}

static char *place(const xmlNode *node)
{
    const char *source = (const char *)node->doc->URL;

    return g_strdup_printf(_("%s, line %ld"), source ? source : _("XML"), xmlGetLineNo(node));
}

gboolean lodge_xml_refuse(GError **error, const xmlNode *node, const char *format, ...)
{
    g_autofree char *at = place(node);
    g_autofree char *text = NULL;
    va_list args;

    va_start(args, format);
    text = g_strdup_vprintf(format, args);
    va_end(args);
    return lodge_error_refuse(error, "%s: %s", at, text);
}

gboolean lodge_xml_locate(GError **error, const xmlNode *node)
{
    g_autofree char *at = place(node);

    g_prefix_error(error, "%s: ", at);
    return FALSE;
}

gboolean lodge_xml_take_name(const xmlNode *node, const char *what, const char *text,
                             const char *const *names, guint count, guint *value_out,
                             GError **error)
{
    g_autofree char *quoted = NULL;
    g_autoptr(GString) list = NULL;

    if (!text) {
        return TRUE;
    }
    for (guint i = 1; i < count; i++) {
        if (strcmp(text, names[i]) == 0) {
            *value_out = i;
            return TRUE;
        }
    }
    quoted = lodge_text_quote(text);
    list = g_string_new(names[1]);
    for (guint i = 2; i < count; i++) {
        g_string_append_printf(list, ", %s", names[i]);
    }
    return lodge_xml_refuse(error, node, _("%s is %s, and may be: %s"), what, quoted, list->str);
}

static char *attribute_of(const xmlNode *node, const char *attribute)
{
    return g_strdup_printf("<%s> %s", (const char *)node->name, attribute);
}

gboolean lodge_xml_attribute_name(const xmlNode *node, const char *attribute,
                                  const char *const *names, guint count, guint *value_out,
                                  GError **error)
{
    g_autofree char *text = lodge_xml_attribute(node, attribute);
    g_autofree char *what = attribute_of(node, attribute);

    return lodge_xml_take_name(node, what, text, names, count, value_out, error);
}

gboolean lodge_xml_take_number(const xmlNode *node, const char *what, const char *text, guint64 min,
                               guint64 max, guint64 *value_out, GError **error)
{
    g_autofree char *trimmed = g_strdup(text);
    g_autofree char *quoted = NULL;

    if (!text || g_ascii_string_to_unsigned(g_strstrip(trimmed), 10, min, max, value_out, NULL)) {
        return TRUE;
    }
    quoted = lodge_text_quote(text);
    return lodge_xml_refuse(
        error, node,
        _("%s is %s: expected a number from %" G_GUINT64_FORMAT " to %" G_GUINT64_FORMAT), what,
        quoted, min, max);
}

gboolean lodge_xml_attribute_number(const xmlNode *node, const char *attribute, guint64 min,
                                    guint64 max, guint64 *value_out, GError **error)
{
    g_autofree char *text = lodge_xml_attribute(node, attribute);
    g_autofree char *what = attribute_of(node, attribute);

    return lodge_xml_take_number(node, what, text, min, max, value_out, error);
}

xmlNode *lodge_xml_append(xmlNode *parent, const char *name)
{
    return must(xmlNewTextChild(parent, NULL, (const xmlChar *)name, NULL));
}

xmlNode *lodge_xml_ensure(xmlNode *parent, const char *name)
{
    xmlNode *child = lodge_xml_child(parent, name);

    return child ? child : lodge_xml_append(parent, name);
}

xmlNode *lodge_xml_copy(const xmlNode *node, xmlDoc *document)
{
    return must(xmlDocCopyNode((xmlNode *)node, document, 1));
}

xmlNs *lodge_xml_declare(xmlNode *node, const char *uri, const char *prefix)
{
    return must(xmlNewNs(node, (const xmlChar *)uri, (const xmlChar *)prefix));
}

void lodge_xml_remove(xmlNode *node)
{
    if (node) {
        xmlUnlinkNode(node);
        xmlFreeNode(node);
    }
}

void lodge_xml_set_attribute(xmlNode *node, const char *name, const char *value)
{
    if (value) {
        must(xmlSetNsProp(node, NULL, (const xmlChar *)name, (const xmlChar *)value));
    } else {
        xmlUnsetNsProp(node, NULL, (const xmlChar *)name);
    }
}

void lodge_xml_set_attribute_number(xmlNode *node, const char *name, guint64 value)
{
    g_autofree char *text = g_strdup_printf("%" G_GUINT64_FORMAT, value);

    lodge_xml_set_attribute(node, name, text);
}

void lodge_xml_set_text(xmlNode *node, const char *text)
{
    g_autofree char *old = lodge_xml_text(node);

    if (g_strcmp0(old, text) == 0) {
        return;
    }
    while (node->children) {
        lodge_xml_remove(node->children);
    }
    xmlAddChild(node, must(xmlNewDocText(node->doc, (const xmlChar *)text)));
}

void lodge_xml_set_child(xmlNode *parent, const char *name, const char *text)
{
    if (text) {
        lodge_xml_set_text(lodge_xml_ensure(parent, name), text);
    } else {
        lodge_xml_remove(lodge_xml_child(parent, name));
    }
}

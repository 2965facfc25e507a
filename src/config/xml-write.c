/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A document as text: see xml-write.h. */
#include "config/xml-write.h"

#include "common/i18n.h"
#include "config/text.h"
#include "config/xml-node.h"

#include <string.h>

gboolean lodge_xml_strip(xmlNode *root, LodgeXmlKindOf kind_of, GError **error)
{
    xmlNode *next;

    for (xmlNode *child = root->children; child; child = next) {
        next = child->next;
        if (xmlIsBlankNode(child)) {
            lodge_xml_remove(child);
        } else if (xmlNodeIsText(child) || child->type == XML_CDATA_SECTION_NODE) {
            g_autofree char *quoted = lodge_text_quote((const char *)child->content);

            return lodge_xml_refuse(error, root,
                                    _("the text %s stands in <%s>, which holds "
                                      "elements alone"),
                                    quoted, (const char *)root->name);
        } else if (child->type == XML_ELEMENT_NODE && kind_of(child) == LODGE_XML_CONTAINER &&
                   !lodge_xml_strip(child, kind_of, error)) {
            return FALSE;
        }
    }
    return TRUE;
}

/* @also: escaped too. In an attribute a tab or line feed would be read as a space, and a carriage
 * return everywhere as a line feed. */
static void append_escaped(GString *to, const char *value, const char *also)
{
    for (; *value != '\0'; value++) {
        switch (*value) {
        case '&':
            g_string_append(to, "&amp;");
            break;
        case '<':
            g_string_append(to, "&lt;");
            break;
        case '>':
            g_string_append(to, "&gt;");
            break;
        default:
            if (*value == '\r' || strchr(also, *value)) {
                g_string_append_printf(to, "&#%d;", *value);
            } else {
                g_string_append_c(to, *value);
            }
        }
    }
}

static void append_indent(GString *to, guint level)
{
    g_string_append_printf(to, "%*s", 2 * (int)level, "");
}

static void append_attribute(GString *to, const char *prefix, const char *name, const char *value)
{
    g_string_append_printf(to, " %s%s%s='", prefix, prefix[0] != '\0' ? ":" : "", name);
    append_escaped(to, value, "'\t\n");
    g_string_append_c(to, '\'');
}

static void append_name(GString *to, const xmlNode *node)
{
    if (node->ns && node->ns->prefix) {
        g_string_append_printf(to, "%s:", (const char *)node->ns->prefix);
    }
    g_string_append(to, (const char *)node->name);
}

static void append_start(GString *to, const xmlNode *node)
{
    g_string_append_c(to, '<');
    append_name(to, node);
    for (const xmlAttr *at = node->properties; at; at = at->next) {
        xmlChar *value = xmlNodeListGetString(node->doc, at->children, 1);

        append_attribute(to, at->ns ? (const char *)at->ns->prefix : "", (const char *)at->name,
                         value ? (const char *)value : "");
        xmlFree(value);
    }
    for (const xmlNs *ns = node->nsDef; ns; ns = ns->next) {
        append_attribute(to, ns->prefix ? "xmlns" : "",
                         ns->prefix ? (const char *)ns->prefix : "xmlns",
                         ns->href ? (const char *)ns->href : "");
    }
}

static void append_node(GString *to, const xmlNode *node, LodgeXmlKindOf kind_of, guint level);

/* As it was read. */
static void append_verbatim(GString *to, const xmlNode *node)
{
    xmlBuffer *buffer = xmlBufferCreate();

    if (!buffer || xmlNodeDump(buffer, node->doc, (xmlNode *)node, 0, 0) < 0) {
        g_error("out of memory in libxml2");
    }
    g_string_append(to, (const char *)xmlBufferContent(buffer));
    xmlBufferFree(buffer);
}

static void append_end(GString *to, const xmlNode *node)
{
    g_string_append(to, "</");
    append_name(to, node);
    g_string_append_c(to, '>');
}

static gboolean holds_text_alone(const xmlNode *node)
{
    const xmlNode *child = node->children;

    while (child && child->type == XML_TEXT_NODE) {
        child = child->next;
    }
    return !child;
}

/* @node has children: all of them are text, or it is a container. */
static void append_content(GString *to, const xmlNode *node, LodgeXmlKindOf kind_of, guint level)
{
    if (holds_text_alone(node)) {
        for (const xmlNode *child = node->children; child; child = child->next) {
            append_escaped(to, (const char *)child->content, "");
        }
        return;
    }
    g_string_append_c(to, '\n');
    for (const xmlNode *child = node->children; child; child = child->next) {
        append_node(to, child, kind_of, level + 1);
    }
    append_indent(to, level);
}

static void append_node(GString *to, const xmlNode *node, LodgeXmlKindOf kind_of, guint level)
{
    LodgeXmlKind kind = node->type == XML_ELEMENT_NODE ? kind_of(node) : LODGE_XML_FOREIGN;

    append_indent(to, level);
    if (kind == LODGE_XML_FOREIGN || (kind == LODGE_XML_LEAF && !holds_text_alone(node))) {
        append_verbatim(to, node);
    } else if (!node->children) {
        append_start(to, node);
        g_string_append(to, "/>");
    } else {
        append_start(to, node);
        g_string_append_c(to, '>');
        append_content(to, node, kind_of, level);
        append_end(to, node);
    }
    g_string_append_c(to, '\n');
}

char *lodge_xml_write(const xmlNode *root, LodgeXmlKindOf kind_of)
{
    GString *text = g_string_new(NULL);

    append_node(text, root, kind_of, 0);
    return g_string_free(text, FALSE);
}

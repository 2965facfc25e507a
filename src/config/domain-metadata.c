/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Applications' elements: see domain-metadata.h. */
#include "config/domain-metadata.h"

#include "common/i18n.h"
#include "common/lodge-error.h"
#include "config/xml-node.h"
#include "config/xml-write.h"

#include <libxml/parserInternals.h>
#include <string.h>

static gboolean is_of(const xmlNode *node, const char *uri)
{
    return node->type == XML_ELEMENT_NODE && node->ns &&
           strcmp((const char *)node->ns->href, uri) == 0;
}

static xmlNode *find(const LodgeDomainConfig *config, const char *uri)
{
    const xmlNode *metadata = lodge_xml_child(xmlDocGetRootElement(config->document), "metadata");
    xmlNode *child = metadata ? metadata->children : NULL;

    while (child && !is_of(child, uri)) {
        child = child->next;
    }
    return child;
}

/* Elements of the namespace @from, NULL: of none, get @to. No deeper than LODGE_XML_DEPTH_MAX. */
static void move_namespace(xmlNode *node, const char *from, xmlNs *to)
{
    if (node->type != XML_ELEMENT_NODE) {
        return;
    }
    if (from ? is_of(node, from) : !node->ns) {
        xmlSetNs(node, to);
    }
    for (xmlNode *child = node->children; child; child = child->next) {
        move_namespace(child, from, to);
    }
}

/* As it was read, whatever it is. */
static LodgeXmlKind all_foreign(const xmlNode *element)
{
    (void)element;
    return LODGE_XML_FOREIGN;
}

/* Does an attribute in @node need the declaration of @uri? */
static gboolean is_used(const xmlNode *node, const char *uri)
{
    if (node->type != XML_ELEMENT_NODE) {
        return FALSE;
    }
    for (const xmlAttr *at = node->properties; at; at = at->next) {
        if (at->ns && strcmp((const char *)at->ns->href, uri) == 0) {
            return TRUE;
        }
    }
    for (const xmlNode *child = node->children; child; child = child->next) {
        if (is_used(child, uri)) {
            return TRUE;
        }
    }
    return FALSE;
}

/* Nothing in @node uses them. */
static void drop_declarations(xmlNode *node, const char *uri)
{
    xmlNs **link = &node->nsDef;

    while (*link) {
        xmlNs *ns = *link;

        if (strcmp((const char *)ns->href, uri) == 0) {
            *link = ns->next;
            xmlFreeNs(ns);
        } else {
            link = &ns->next;
        }
    }
}

char *lodge_domain_config_get_metadata(const LodgeDomainConfig *config, const char *uri)
{
    xmlNode *node = find(config, uri);
    char *xml = NULL;

    if (!node) {
        return NULL;
    }
    /* The copy declares what it inherits. */
    node = lodge_xml_copy(node, config->document);
    move_namespace(node, uri, NULL);
    if (!is_used(node, uri)) {
        drop_declarations(node, uri);
    }
    xml = lodge_xml_write(node, all_foreign);
    xmlFreeNode(node);
    return g_strchomp(xml);
}

static gboolean check_names(const char *uri, const char *prefix, GError **error)
{
    g_autofree char *quoted = lodge_text_quote(prefix);

    if (!lodge_text_check_line(_("URI"), uri, error)) {
        return FALSE;
    }
    if (xmlValidateNCName((const xmlChar *)prefix, 0) != 0 ||
        g_ascii_strncasecmp(prefix, "xml", strlen("xml")) == 0) {
        return lodge_error_refuse(
            error, _("The prefix %s cannot be used: it is no XML name, or is XML's own"), quoted);
    }
    return TRUE;
}

/* @prefix stands for nothing but @uri anywhere in @node. */
static gboolean check_prefix(const xmlNode *node, const char *uri, const char *prefix,
                             GError **error)
{
    if (node->type != XML_ELEMENT_NODE) {
        return TRUE;
    }
    for (const xmlNs *ns = node->nsDef; ns; ns = ns->next) {
        if (g_strcmp0((const char *)ns->prefix, prefix) == 0 &&
            strcmp((const char *)ns->href, uri) != 0) {
            return lodge_xml_refuse(error, node, _("the prefix “%s” stands for another namespace"),
                                    prefix);
        }
    }
    for (const xmlNode *child = node->children; child; child = child->next) {
        if (!check_prefix(child, uri, prefix, error)) {
            return FALSE;
        }
    }
    return TRUE;
}

/* A copy of the fragment's root, in the namespace; NULL with an error. */
static xmlNode *adopt(const LodgeDomainConfig *config, const xmlNode *root, const char *uri,
                      const char *prefix, GError **error)
{
    xmlNode *node = NULL;
    xmlNs *ns = NULL;

    if (root->ns && !is_of(root, uri)) {
        lodge_xml_refuse(error, root, _("the element is of the namespace “%s”, and not of “%s”"),
                         (const char *)root->ns->href, uri);
        return NULL;
    }
    if (!check_prefix(root, uri, prefix, error)) {
        return NULL;
    }
    node = lodge_xml_copy(root, config->document);
    ns = node->nsDef;
    while (ns && g_strcmp0((const char *)ns->prefix, prefix) != 0) {
        ns = ns->next;
    }
    move_namespace(node, NULL, ns ? ns : lodge_xml_declare(node, uri, prefix));
    return node;
}

/* Some URIs may stand for no namespace, and the reader knows which. */
static gboolean is_readable(const xmlNode *node, GError **error)
{
    g_autofree char *xml = lodge_xml_write(node, all_foreign);
    g_autoptr(xmlDoc) document = lodge_xml_read(xml, strlen(xml), NULL, error);

    return document != NULL;
}

gboolean lodge_domain_config_set_metadata(LodgeDomainConfig *config, const char *uri,
                                          const char *prefix, const char *xml, GError **error)
{
    xmlNode *domain = xmlDocGetRootElement(config->document);
    g_autoptr(xmlDoc) fragment = NULL;
    xmlNode *node = NULL;

    if (xml) {
        if (!check_names(uri, prefix, error)) {
            return FALSE;
        }
        fragment = lodge_xml_read(xml, strlen(xml), NULL, error);
        node = fragment ? adopt(config, xmlDocGetRootElement(fragment), uri, prefix, error) : NULL;
        if (!node || !is_readable(node, error)) {
            xmlFreeNode(node);
            return FALSE;
        }
    }
    for (xmlNode *former = find(config, uri); former; former = find(config, uri)) {
        lodge_xml_remove(former);
    }
    if (node) {
        xmlAddChild(lodge_xml_ensure(domain, "metadata"), node);
    }
    return TRUE;
}

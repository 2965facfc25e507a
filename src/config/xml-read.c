/* SPDX-License-Identifier: GPL-3.0-or-later */
/* XML within bounds: see xml-read.h. */
#include "config/xml-read.h"

#include "common/i18n.h"
#include "common/lodge-error.h"
#include "config/text.h"

#include <libxml/SAX2.h>
#include <libxml/parser.h>
#include <string.h>

/* What one parse has seen so far; hangs on the parser's context. */
typedef struct {
    guint depth, elements;
    char *refused; /* the first thing wrong, with its line */
    gboolean no_memory;
} Parse;

/* Keep the first thing that is wrong: what follows it is its consequence. */
static void keep(Parse *parse, int line, const char *cause)
{
    if (!parse->refused) {
        parse->refused = g_strdup_printf(_("line %d: %s"), MAX(line, 1), cause);
    }
}

static void stop(xmlParserCtxt *context, const char *cause)
{
    Parse *parse = context->_private;

    keep(parse, xmlSAX2GetLineNumber(context), cause);
    xmlStopParser(context);
}

static void start_element(void *data, const xmlChar *name, const xmlChar *prefix,
                          const xmlChar *uri, int namespaces, const xmlChar **namespace_table,
                          int attributes, int defaulted, const xmlChar **attribute_table)
{
    xmlParserCtxt *context = data;
    Parse *parse = context->_private;

    if (++parse->depth > LODGE_XML_DEPTH_MAX) {
        stop(context, _("elements are nested deeper than 64"));
        return;
    }
    if (++parse->elements > LODGE_XML_ELEMENTS_MAX) {
        stop(context, _("there are more than 16,384 elements"));
        return;
    }
    xmlSAX2StartElementNs(context, name, prefix, uri, namespaces, namespace_table, attributes,
                          defaulted, attribute_table);
}

static void end_element(void *data, const xmlChar *name, const xmlChar *prefix, const xmlChar *uri)
{
    xmlParserCtxt *context = data;
    Parse *parse = context->_private;

    parse->depth--;
    xmlSAX2EndElementNs(context, name, prefix, uri);
}

/* Called at "<!DOCTYPE name", before anything inside is looked at. */
static void refuse_doctype(void *data, const xmlChar *name, const xmlChar *external_id,
                           const xmlChar *system_id)
{
    (void)name;
    (void)external_id;
    (void)system_id;
    stop(data, _("a document type (<!DOCTYPE) is not accepted: remove it"));
}

static void take_error(void *data, xmlErrorPtr what)
{
    xmlParserCtxt *context = data;
    Parse *parse = context->_private;
    g_autofree char *text = NULL;
    g_autofree char *cause = NULL;

    if (what->code == XML_ERR_NO_MEMORY) {
        parse->no_memory = TRUE;
    }
    if (what->level < XML_ERR_ERROR || what->code == XML_ERR_USER_STOP) {
        return;
    }
    text = g_utf8_make_valid(what->message ? what->message : _("it is malformed"), -1);
    cause = lodge_text_show(g_strchomp(text), 200);
    keep(parse, what->line, cause);
}

/*
 * What libxml2 says without a parser: of the functions that build the tree, that memory is out. They
 * leave an attribute or a text away, and the parser goes on.
 */
static void take_stray_error(void *data, xmlErrorPtr what)
{
    Parse *parse = data;

    parse->no_memory |= what->code == XML_ERR_NO_MEMORY;
}

/*
 * No start tag has more attributes than may be: counted before the parser compares them.
 *
 * Up to the first thing that is malformed this reads tags, quotes, comments and the like as the
 * parser does, and there the parser stops.
 */
static gboolean check_attributes(const char *text, const char *end, Parse *parse)
{
    static const struct {
        const char *opening, *closing;
    } skipped[] = {{"<!--", "-->"}, {"<![CDATA[", "]]>"}, {"<?", "?>"}, {"<!", ">"}};
    const char *at = memchr(text, '<', (gsize)(end - text));

    while (at) {
        guint attributes = 0;
        char quote = '\0';
        gsize i = 0;

        while (i < G_N_ELEMENTS(skipped) &&
               !g_str_has_prefix(at, skipped[i].opening)) { /* ends: the text is terminated */
            i++;
        }
        if (i < G_N_ELEMENTS(skipped)) {
            /* Behind the opening: "<!-->" is not closed yet. */
            at = strstr(at + strlen(skipped[i].opening), skipped[i].closing);
            at = at ? memchr(at, '<', (gsize)(end - at)) : NULL;
            continue;
        }
        for (at++; at < end && *at != '<' && (quote || *at != '>'); at++) {
            if (quote) {
                quote = *at == quote ? '\0' : quote;
            } else if (*at == '"' || *at == '\'') {
                quote = *at;
            } else {
                attributes += *at == '=';
            }
        }
        if (attributes > LODGE_XML_ATTRIBUTES_MAX) {
            int line = 1;

            for (const char *before = text; before < at; before++) {
                line += *before == '\n';
            }
            keep(parse, line, _("an element has more than 256 attributes"));
            return FALSE;
        }
        at = memchr(at, '<', (gsize)(end - at));
    }
    return TRUE;
}

static xmlDoc *read_document(xmlParserCtxt *context, const char *text, gsize length, Parse *parse)
{
    xmlDoc *document;

    context->_private = parse;
    context->sax->internalSubset = refuse_doctype;
    context->sax->startElementNs = start_element;
    context->sax->endElementNs = end_element;
    context->sax->serror = take_error;
    document = xmlCtxtReadMemory(context, text, (int)length, NULL, NULL,
                                 XML_PARSE_NONET | XML_PARSE_IGNORE_ENC | XML_PARSE_BIG_LINES);
    parse->no_memory |= context->errNo == XML_ERR_NO_MEMORY;
    return document;
}

static xmlDoc *parse_bounded(const char *text, gsize length, Parse *parse)
{
    xmlStructuredErrorFunc former = xmlStructuredError;
    void *former_data = xmlStructuredErrorContext;
    xmlParserCtxt *context = NULL;
    xmlDoc *document = NULL;

    /* The thread's: put back below. */
    xmlSetStructuredErrorFunc(parse, take_stray_error);
    context = xmlNewParserCtxt();
    document = context ? read_document(context, text, length, parse) : NULL;
    parse->no_memory |= !context;
    xmlFreeParserCtxt(context);
    xmlSetStructuredErrorFunc(former_data, former);
    /* Also what a parser may live with, such as a prefix nobody declared, is refused. */
    if (document && (parse->refused || parse->no_memory)) {
        xmlFreeDoc(document);
        document = NULL;
    }
    return document;
}

/* Where it is from, for messages; and that it is UTF-8, or it would be written in numbers. */
static void name_document(xmlDoc *document, const char *source)
{
    if (source) {
        document->URL = xmlStrdup((const xmlChar *)source);
    }
    xmlFree((xmlChar *)document->encoding);
    document->encoding = xmlStrdup((const xmlChar *)"UTF-8");
}

static gboolean check_bytes(const char *text, gsize length, Parse *parse)
{
    const char *bad = NULL;

    if (length > LODGE_XML_BYTES_MAX) {
        parse->refused =
            g_strdup_printf(_("it has %" G_GSIZE_FORMAT " bytes, and may have 1 MiB"), length);
        return FALSE;
    }
    if (!g_utf8_validate_len(text, length, &bad)) {
        parse->refused = g_strdup_printf(
            _("byte %" G_GSIZE_FORMAT " (%#04x) is not UTF-8, as all of it must be"),
            (gsize)(bad - text) + 1, (guint)(guint8)*bad);
        return FALSE;
    }
    return TRUE;
}

xmlDoc *lodge_xml_read(const char *text, gsize length, const char *source, GError **error)
{
    Parse parse = {0};
    xmlDoc *document = NULL;
    const char *name = source ? source : _("the XML");
    /* Terminated: the scan compares prefixes, and a caller's buffer may end anywhere. */
    g_autofree char *copy =
        length <= LODGE_XML_BYTES_MAX ? g_strndup(length ? text : "", length) : NULL;

    if (check_bytes(copy, length, &parse) && check_attributes(copy, copy + length, &parse)) {
        document = parse_bounded(copy, length, &parse);
    }
    if (document) {
        name_document(document, source);
    }
    if (!document && parse.refused && !parse.no_memory) {
        g_set_error(error, LODGE_ERROR, LODGE_ERROR_INPUT, _("Cannot read %s: %s"), name,
                    parse.refused);
    } else if (!document) {
        /* libxml2 does not always say so when memory is out; of all else it does. */
        g_set_error(error, LODGE_ERROR, LODGE_ERROR_FAILED,
                    _("Cannot read %s: the host has not enough memory"), name);
    }
    g_free(parse.refused);
    return document;
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* XML from strangers: the bounds, one by one, and memory that runs out. */
#include "common/lodge-error.h"
#include "config/xml-read.h"
#include "lib/tap.h"

#include <libxml/parser.h>
#include <libxml/xmlmemory.h>
#include <stdlib.h>
#include <string.h>

/* It is refused, and @said stands in the message. */
static void refused(const char *xml, gsize length, const char *said)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(xmlDoc) document = lodge_xml_read(xml, length, "file.xml", &error);

    TAP_OK(!document);
    TAP_OK(g_error_matches(error, LODGE_ERROR, LODGE_ERROR_INPUT));
    TAP_OK(g_str_has_prefix(error->message, "Cannot read file.xml: "));
    TAP_OK(g_utf8_validate(error->message, -1, NULL) && strlen(error->message) < 1000);
    if (!strstr(error->message, said)) {
        TAP_STR(error->message, said);
    }
}

static void taken(const char *xml)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(xmlDoc) document = lodge_xml_read(xml, strlen(xml), NULL, &error);

    TAP_STR(error ? error->message : "", "");
    TAP_OK(document != NULL);
}

static void test_malformed(void)
{
    static const struct {
        const char *xml, *said;
    } bad[] = {
        {"", "line 1: Document is empty"},
        {" ", "line 1"},
        {"x", "line 1"},
        {"<a>\n<b>\n</c></a>", "line 3: Opening and ending tag mismatch"},
        {"<a/><b/>", "line 1: Extra content"},
        {"<a b='1' b='2'/>", "b redefined"},
        {"<a>&#1;</a>", "line 1"},
        {"<a>&nosuch;</a>", "nosuch"},
        {"<p:a/>", "p on a is not defined"},
        {"<a p:b='1'/>", "p for b on a is not defined"},
        {"<a b='<'/>", "line 1"},
        {"<a", "line 1"},
        {"<a><![CDATA[", "line 1"},
        {"<a><!-- ", "line 1"},
        {"<a>\xc3</a>", "byte 4 (0xc3) is not UTF-8"},
        {"<?xml version='1.0' encoding='ISO-8859-1'?><a>\xe4</a>", "is not UTF-8"},
    };

    for (gsize i = 0; i < G_N_ELEMENTS(bad) && !tap_failed(); i++) {
        refused(bad[i].xml, strlen(bad[i].xml), bad[i].said);
    }
    refused("<a>\0</a>", 8, "byte 4 (0000) is not UTF-8");
}

/* Nothing of a DTD is looked at, so nothing can be expanded or fetched. */
static void test_document_type(void)
{
    static const char *const bad[] = {
        "<!DOCTYPE a><a/>",
        "<!DOCTYPE a SYSTEM 'file:///etc/passwd'><a/>",
        "<!DOCTYPE a PUBLIC 'x' 'http://127.0.0.1:1/x'><a/>",
        "<!DOCTYPE a [<!ENTITY e SYSTEM '/etc/passwd'>]><a>&e;</a>",
        "<!DOCTYPE a [<!ENTITY a 'aaaa'><!ENTITY b '&a;&a;&a;&a;'>]><a>&b;</a>",
        "<!DOCTYPE a [<!ENTITY % p SYSTEM '/etc/passwd'> %p;]><a/>",
    };

    for (gsize i = 0; i < G_N_ELEMENTS(bad) && !tap_failed(); i++) {
        refused(bad[i], strlen(bad[i]), "line 1: a document type (<!DOCTYPE) is not accepted");
    }
}

static void test_inclusion_is_an_element(void)
{
    static const char xml[] =
        "<a xmlns:xi='http://www.w3.org/2001/XInclude'><xi:include href='/etc/passwd'/></a>";
    g_autoptr(xmlDoc) document = lodge_xml_read(xml, strlen(xml), NULL, NULL);

    TAP_OK(document != NULL);
    TAP_STR((const char *)xmlDocGetRootElement(document)->children->name, "include");
}

static void test_size(void)
{
    g_autoptr(GString) xml = g_string_new("<a>");

    while (xml->len < LODGE_XML_BYTES_MAX - strlen("</a>")) {
        g_string_append_c(xml, 'x');
    }
    g_string_append(xml, "</a>");
    taken(xml->str);
    g_string_append_c(xml, '\n');
    refused(xml->str, xml->len, "it has 1048577 bytes, and may have 1 MiB");
    refused(xml->str, G_MAXSIZE, "bytes, and may have 1 MiB");
}

static void test_depth(void)
{
    g_autoptr(GString) xml = g_string_new(NULL);

    for (guint i = 0; i < LODGE_XML_DEPTH_MAX; i++) {
        g_string_append(xml, "<a>\n");
    }
    for (guint i = 0; i < LODGE_XML_DEPTH_MAX; i++) {
        g_string_append(xml, "</a>");
    }
    taken(xml->str);
    g_string_prepend(xml, "<a>");
    g_string_append(xml, "</a>");
    refused(xml->str, xml->len, "line 64: elements are nested deeper than 64");
}

static void test_elements(void)
{
    g_autoptr(GString) xml = g_string_new("<a>");

    for (guint i = 1; i < LODGE_XML_ELEMENTS_MAX; i++) {
        g_string_append(xml, "<b/>");
    }
    g_string_append(xml, "</a>");
    taken(xml->str);
    g_string_insert(xml, 3, "<b/>");
    refused(xml->str, xml->len, "more than 16,384 elements");
}

static void append_attributes(GString *xml, guint count)
{
    for (guint i = 0; i < count; i++) {
        g_string_append_printf(xml, " x%u='>='", i);
    }
}

static void test_attributes(void)
{
    g_autoptr(GString) xml = g_string_new("<!-- = > < --><a>\n<b>=====</b><![CDATA[<c d='=']]><b");

    append_attributes(xml, LODGE_XML_ATTRIBUTES_MAX);
    g_string_append(xml, "/></a>");
    taken(xml->str);
    g_string_truncate(xml, xml->len - strlen("/></a>"));
    g_string_append(xml, " y=''/></a>");
    refused(xml->str, xml->len, "line 2: an element has more than 256 attributes");
}

/* What looks closed, and is not, hides no element from the count. */
static void test_attributes_are_not_hidden(void)
{
    static const char *const heads[] = {
        "<a><!--> <![CDATA[ --><b",
        "<a><!-- <b c='\" --><b",
        "<a><?p <!-- ?><b",
        "<a><![CDATA[ <!-- ]]><b",
        "<a b='<!--'/>", /* malformed: the parser goes no further */
        "<a>\"<b",
    };

    for (gsize i = 0; i < G_N_ELEMENTS(heads) && !tap_failed(); i++) {
        g_autoptr(GString) xml = g_string_new(heads[i]);

        append_attributes(xml, LODGE_XML_ATTRIBUTES_MAX + 1);
        g_string_append(xml, "/></a>");
        refused(xml->str, xml->len, i == 4 ? "line 1" : "more than 256 attributes");
    }
}

/* Allocations of libxml2, of which one can be made to fail. */
static guint allocations, failing_allocation;

static void *failing_malloc(size_t bytes)
{
    return ++allocations == failing_allocation ? NULL : malloc(bytes);
}

static void *failing_realloc(void *old, size_t bytes)
{
    return ++allocations == failing_allocation ? NULL : realloc(old, bytes);
}

static char *failing_strdup(const char *text)
{
    return ++allocations == failing_allocation ? NULL : strdup(text);
}

/* Whichever allocation fails: an error or the document, and nothing is left (under ASan). */
static void test_no_memory(void)
{
    static const char xml[] = "<a xmlns:p='urn:p' b='1'><p:c d='&lt;'>text &amp; more</p:c></a>";
    guint count = 0;

    TAP_EQ(xmlMemSetup(free, failing_malloc, failing_realloc, failing_strdup), 0);
    do {
        g_autoptr(GError) error = NULL;
        g_autoptr(xmlDoc) document = NULL;

        allocations = 0;
        failing_allocation = ++count;
        document = lodge_xml_read(xml, strlen(xml), NULL, &error);
        failing_allocation = 0;
        TAP_OK((document != NULL) != (error != NULL));
        if (document) {
            xmlNode *inner = xmlDocGetRootElement(document)->children;
            g_autofree char *text = inner ? (char *)xmlNodeGetContent(inner) : NULL;

            TAP_STR(text, "text & more");
            TAP_OK(inner->ns && inner->properties && inner->parent->properties);
        } else {
            /* But where libxml2 itself takes it for a bad URI. */
            TAP_OK(g_error_matches(error, LODGE_ERROR, LODGE_ERROR_FAILED) ||
                   strstr(error->message, "is not a valid URI"));
        }
    } while (allocations >= count);
    TAP_OK(count > 10);
    xmlMemSetup(free, malloc, realloc, strdup);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"config.xml-read.malformed", test_malformed},
        {"config.xml-read.document-type", test_document_type},
        {"config.xml-read.inclusion-is-an-element", test_inclusion_is_an_element},
        {"config.xml-read.size", test_size},
        {"config.xml-read.depth", test_depth},
        {"config.xml-read.elements", test_elements},
        {"config.xml-read.attributes", test_attributes},
        {"config.xml-read.attributes-are-not-hidden", test_attributes_are_not_hidden},
        {"config.xml-read.no-memory", test_no_memory},
    };
    int status = tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));

    xmlCleanupParser();
    return status;
}

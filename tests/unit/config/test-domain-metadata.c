/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Applications' elements: in, out, and back as they were. */
#include "common/lodge-error.h"
#include "config/domain-metadata.h"
#include "lib/tap.h"

#include <string.h>

#define URI "http://example.org/app"

static LodgeDomainConfig *machine(const char *metadata)
{
    g_autofree char *xml = g_strdup_printf(
        "<domain type='lodge' xmlns:up='urn:up'><name>n</name><memory>4096</memory>%s</domain>",
        metadata);

    return lodge_domain_config_parse(xml, -1, NULL, NULL);
}

/* What a client gets after the definition has been stored and read. */
static char *get_again(const LodgeDomainConfig *config, const char *uri)
{
    g_autofree char *xml = lodge_domain_config_format(config, NULL, 0);
    g_autoptr(LodgeDomainConfig) again = lodge_domain_config_parse(xml, -1, NULL, NULL);

    return again ? lodge_domain_config_get_metadata(again, uri) : NULL;
}

static void test_there_and_back(void)
{
    static const char *const elements[] = {
        "<derp/>",
        "<derp a=\"1\"> text <inner>&lt;&amp;</inner>\n</derp>",
        "<derp><z:other xmlns:z=\"urn:z\"/><inner/></derp>",
        "<derp><!-- c --><![CDATA[<x>]]></derp>",
    };

    for (gsize i = 0; i < G_N_ELEMENTS(elements); i++) {
        g_autoptr(LodgeDomainConfig) config = machine("");
        g_autofree char *got = NULL;
        g_autofree char *again = NULL;

        TAP_OK(config && !lodge_domain_config_get_metadata(config, URI));
        TAP_OK(lodge_domain_config_set_metadata(config, URI, "app", elements[i], NULL));
        got = lodge_domain_config_get_metadata(config, URI);
        TAP_STR(got, elements[i]);
        again = get_again(config, URI);
        TAP_STR(again, elements[i]);
    }
}

static void test_in_document(void)
{
    g_autoptr(LodgeDomainConfig) config = machine("<metadata><o:o xmlns:o='urn:o'/></metadata>");
    g_autofree char *with = NULL;
    g_autofree char *without = NULL;

    TAP_OK(config != NULL);
    TAP_OK(lodge_domain_config_set_metadata(config, URI, "app", "<a><b/></a>", NULL));
    TAP_OK(lodge_domain_config_set_metadata(config, URI, "app", "<c/>", NULL));
    with = lodge_domain_config_format(config, NULL, 0);
    TAP_OK(strstr(with, "<metadata><o:o xmlns:o=\"urn:o\"/>"
                        "<app:c xmlns:app=\"" URI "\"/></metadata>") != NULL);
    TAP_OK(lodge_domain_config_set_metadata(config, URI, NULL, NULL, NULL));
    TAP_OK(lodge_domain_config_set_metadata(config, URI, NULL, NULL, NULL));
    without = lodge_domain_config_format(config, NULL, 0);
    TAP_OK(!strstr(without, URI) && strstr(without, "urn:o"));
}

/* The namespace is declared above, or needed by an attribute. */
static void test_inherited(void)
{
    g_autoptr(LodgeDomainConfig) config = machine("<metadata><up:a k='1'><up:b/></up:a>"
                                                  "<p:a xmlns:p='urn:p' p:k='1'/></metadata>");
    g_autofree char *up = NULL;
    g_autofree char *attribute = NULL;

    TAP_OK(config != NULL);
    up = lodge_domain_config_get_metadata(config, "urn:up");
    TAP_STR(up, "<a k=\"1\"><b/></a>");
    attribute = lodge_domain_config_get_metadata(config, "urn:p");
    TAP_STR(attribute, "<a xmlns:p=\"urn:p\" p:k=\"1\"/>");
}

static void test_refused(void)
{
    static const struct {
        const char *uri, *prefix, *xml, *said;
    } bad[] = {
        {URI, "app", "", "Document is empty"},
        {URI, "app", "<a", "line 1"},
        {URI, "app", "<a/><b/>", "Extra content"},
        {URI, "app", "<!DOCTYPE a><a/>", "<!DOCTYPE"},
        {URI, "", "<a/>", "The prefix “” cannot be used"},
        {URI, "a b", "<a/>", "The prefix “a b” cannot be used"},
        {URI, "a:b", "<a/>", "The prefix “a:b” cannot be used"},
        {URI, "xmlns", "<a/>", "The prefix “xmlns” cannot be used"},
        {"urn:a\n", "app", "<a/>", "The URI “urn:a<U+000A>” holds a line feed"},
        {"", "app", "<a/>", "line 1: "},
        {"a^b", "app", "<a/>", "not a valid URI"},
        {"http://www.w3.org/2000/xmlns/", "app", "<a/>", "line 1: "},
        {"http://www.w3.org/XML/1998/namespace", "app", "<a/>", "line 1: "},
        {URI, "app", "<z:a xmlns:z='urn:z'/>", "of the namespace “urn:z”, and not of"},
        {URI, "app", "<a xmlns:app='urn:z'/>", "“app” stands for another namespace"},
        {URI, "app", "<a><b xmlns:app='urn:z'><c/></b></a>", "“app” stands for another namespace"},
    };

    for (gsize i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autoptr(LodgeDomainConfig) config = machine("");
        g_autoptr(GError) error = NULL;

        TAP_OK(config != NULL);
        TAP_OK(!lodge_domain_config_set_metadata(config, bad[i].uri, bad[i].prefix, bad[i].xml,
                                                 &error));
        TAP_OK(g_error_matches(error, LODGE_ERROR, LODGE_ERROR_INPUT));
        if (!strstr(error->message, bad[i].said)) {
            TAP_STR(error->message, bad[i].said);
        }
        TAP_OK(!lodge_domain_config_get_metadata(config, bad[i].uri));
    }
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"config.domain-metadata.there-and-back", test_there_and_back},
        {"config.domain-metadata.in-document", test_in_document},
        {"config.domain-metadata.inherited", test_inherited},
        {"config.domain-metadata.refused", test_refused},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Containers are laid out, all else is as it was. */
#include "config/xml-node.h"
#include "config/xml-write.h"
#include "lib/tap.h"

#include <string.h>

/* Elements called "c" are containers, and those called "l" leaves. */
static LodgeXmlKind kind_of(const xmlNode *element)
{
    return lodge_xml_is(element, "c")   ? LODGE_XML_CONTAINER
           : lodge_xml_is(element, "l") ? LODGE_XML_LEAF
                                        : LODGE_XML_FOREIGN;
}

static void test_layout(void)
{
    static const struct {
        const char *given, *written;
    } texts[] = {
        {"<c/>", "<c/>\n"},
        {"<c>  \n</c>", "<c/>\n"},
        {"<c><c><x/></c></c>", "<c>\n  <c>\n    <x/>\n  </c>\n</c>\n"},
        {"<c>\n\n<x> a <y/>\n b</x></c>", "<c>\n  <x> a <y/>\n b</x>\n</c>\n"},
        {"<c><x><y/> <c> </c></x></c>", "<c>\n  <x><y/> <c> </c></x>\n</c>\n"},
        {"<c a=\"it's &lt;&amp;&gt; &quot;&#10;&#9;\"/>",
         "<c a='it&#39;s &lt;&amp;&gt; \"&#10;&#9;'/>\n"},
        {"<c xmlns:p='urn:p' p:a='1' xml:lang='de'><p:x/></c>",
         "<c p:a='1' xml:lang='de' xmlns:p='urn:p'>\n  <p:x/>\n</c>\n"},
        {"<c><!-- kept --><?kept too?></c>", "<c>\n  <!-- kept -->\n  <?kept too?>\n</c>\n"},
        {"<c><x a='ü日'>ü日</x></c>", "<c>\n  <x a=\"ü日\">ü日</x>\n</c>\n"},
        {"<c><l a=\"1\"> a\nb&#13;&lt;&gt;' </l></c>",
         "<c>\n  <l a='1'> a\nb&#13;&lt;&gt;' </l>\n</c>\n"},
        {"<c><l a=\"1\"/></c>", "<c>\n  <l a='1'/>\n</c>\n"},
        {"<c><l a=\"1\">b<x/></l></c>", "<c>\n  <l a=\"1\">b<x/></l>\n</c>\n"},
        {"<c><x><![CDATA[<&>]]></x></c>", "<c>\n  <x><![CDATA[<&>]]></x>\n</c>\n"},
    };

    for (gsize i = 0; i < G_N_ELEMENTS(texts); i++) {
        g_autoptr(xmlDoc) document =
            lodge_xml_read(texts[i].given, strlen(texts[i].given), NULL, NULL);
        xmlNode *root = document ? xmlDocGetRootElement(document) : NULL;
        g_autofree char *written = NULL;

        TAP_OK(root && lodge_xml_strip(root, kind_of, NULL));
        written = lodge_xml_write(root, kind_of);
        TAP_STR(written, texts[i].written);
    }
}

static void test_text_in_container(void)
{
    static const char xml[] = "<c>\n<c>\n<x/>stray</c></c>";
    g_autoptr(xmlDoc) document = lodge_xml_read(xml, strlen(xml), "f.xml", NULL);
    g_autoptr(GError) error = NULL;

    TAP_OK(!lodge_xml_strip(xmlDocGetRootElement(document), kind_of, &error));
    TAP_STR(error->message,
            "f.xml, line 2: the text “stray” stands in <c>, which holds elements alone");
}

static void test_set(void)
{
    static const char xml[] = "<c k='1'><x>old</x></c>";
    g_autoptr(xmlDoc) document = lodge_xml_read(xml, strlen(xml), NULL, NULL);
    xmlNode *root = xmlDocGetRootElement(document);
    g_autofree char *written = NULL;

    lodge_xml_set_child(root, "x", "a < b & \"c\"");
    lodge_xml_set_child(root, "y", "new");
    lodge_xml_set_child(root, "z", NULL);
    lodge_xml_set_attribute(root, "k", NULL);
    lodge_xml_set_attribute_number(root, "n", 7);
    written = lodge_xml_write(root, kind_of);
    TAP_STR(written, "<c n='7'>\n  <x>a &lt; b &amp; \"c\"</x>\n  <y>new</y>\n</c>\n");
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"config.xml-write.layout", test_layout},
        {"config.xml-write.text-in-container", test_text_in_container},
        {"config.xml-write.set", test_set},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

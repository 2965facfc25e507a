/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What libvirt's clients look for in the capabilities, by the paths that they use. */
#include "common/lodge-error.h"
#include "config/capabilities.h"
#include "config/xml-read.h"
#include "host-tree.h"
#include "lib/tap.h"

#include <libxml/xpath.h>
#include <string.h>

/* string(@path) of @xml; NULL when it is no XML. */
static char *look_up(const char *xml, const char *path)
{
    g_autoptr(xmlDoc) document = lodge_xml_read(xml, strlen(xml), NULL, NULL);
    xmlXPathContext *context = document ? xmlXPathNewContext(document) : NULL;
    g_autofree char *expression = g_strdup_printf("string(%s)", path);
    xmlXPathObject *result =
        context ? xmlXPathEvalExpression((const xmlChar *)expression, context) : NULL;
    char *text = result ? g_strdup((const char *)result->stringval) : NULL;

    xmlXPathFreeObject(result);
    xmlXPathFreeContext(context);
    return text;
}

static void check_paths(const char *xml, const char *const (*paths)[2], gsize count)
{
    for (gsize i = 0; i < count; i++) {
        g_autofree char *found = look_up(xml, paths[i][0]);

        if (g_strcmp0(found, paths[i][1]) != 0) {
            tap_fail(__FILE__, __LINE__, "%s is \"%s\", want \"%s\"", paths[i][0], found,
                     paths[i][1]);
            return;
        }
    }
}

static void test_host(void)
{
    static const char *const paths[][2] = {
        {"/capabilities/host/cpu/arch", "x86_64"},
        {"/capabilities/host/cpu/topology/@sockets", "1"},
        {"/capabilities/host/cpu/topology/@cores", "2"},
        {"/capabilities/host/cpu/topology/@threads", "2"},
        {"/capabilities/host/topology/cells/@num", "2"},
        {"/capabilities/host/topology/cells/cell[@id='1']/cpus/@num", "4"},
        {"count(/capabilities/host/topology/cells/cell/cpus/cpu)", "8"},
        {"//cpu[@id='7']/@siblings", "3,7"},
        {"//cpu[@id='7']/@socket_id", "1"},
        {"/capabilities/guest/os_type", "hvm"},
        {"/capabilities/guest/arch/@name", "x86_64"},
        {"/capabilities/guest/arch/wordsize", "64"},
        {"/capabilities/guest/arch/emulator", "/opt/l<o>dge & co/lodge-core"},
        {"/capabilities/guest/arch/machine", "pc"},
        {"/capabilities/guest/arch/machine/@maxCpus", "64"},
        {"/capabilities/guest/arch/domain/@type", "lodge"},
        {"count(/capabilities/guest/features/acpi)", "1"},
    };
    g_autofree char *root = host_tree_make(2, 1, 2, 2);
    g_autoptr(LodgeHostInfo) host = lodge_host_info_read(root, NULL);
    g_autofree char *xml = NULL;

    TAP_OK(host != NULL);
    xml = lodge_capabilities_format(host, "/opt/l<o>dge & co/lodge-core");
    check_paths(xml, paths, G_N_ELEMENTS(paths));
    host_tree_remove(root);
}

static void test_domain(void)
{
    static const char *const paths[][2] = {
        {"/domainCapabilities/path", "/usr/bin/lodge-core"},
        {"/domainCapabilities/domain", "lodge"},
        {"/domainCapabilities/machine", "pc"},
        {"/domainCapabilities/arch", "x86_64"},
        {"/domainCapabilities/vcpu/@max", "64"},
        {"/domainCapabilities/os/@supported", "yes"},
        {"/domainCapabilities/os/loader/@supported", "no"},
        {"count(/domainCapabilities/cpu/mode[@supported='yes'])", "0"},
        {"/domainCapabilities/devices/disk/@supported", "no"},
        {"/domainCapabilities/devices/graphics/@supported", "no"},
        {"/domainCapabilities/devices/console/enum[@name='type']/value[1]", "pty"},
        {"/domainCapabilities/features/sev/@supported", "no"},
    };
    static const LodgeDomainCapabilitiesRequest all = {"/usr/bin/lodge-core", "x86_64", "pc",
                                                       "lodge"};
    static const LodgeDomainCapabilitiesRequest any = {NULL, NULL, NULL, NULL};
    g_autofree char *xml = lodge_domain_capabilities_format("/usr/bin/lodge-core", &all, NULL);
    g_autofree char *same = lodge_domain_capabilities_format("/usr/bin/lodge-core", &any, NULL);

    TAP_OK(xml != NULL);
    TAP_STR(same, xml);
    check_paths(xml, paths, G_N_ELEMENTS(paths));
}

static void test_refused(void)
{
    static const struct {
        LodgeDomainCapabilitiesRequest request;
        const char *said;
    } bad[] = {
        {{.type = "kvm"}, "There is no type “kvm” here: this host has “lodge”"},
        {{.arch = "aarch64"}, "There is no architecture “aarch64” here"},
        {{.machine = "q35"}, "There is no machine “q35” here"},
        {{.emulator = "/usr/bin/qemu\n"}, "There is no emulator “/usr/bin/qemu<U+000A>” here"},
    };

    for (gsize i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autoptr(GError) error = NULL;

        TAP_OK(!lodge_domain_capabilities_format("/usr/bin/lodge-core", &bad[i].request, &error));
        TAP_OK(g_error_matches(error, LODGE_ERROR, LODGE_ERROR_INPUT));
        TAP_OK(g_str_has_prefix(error->message, bad[i].said));
    }
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"config.capabilities.host", test_host},
        {"config.capabilities.domain", test_domain},
        {"config.capabilities.refused", test_refused},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

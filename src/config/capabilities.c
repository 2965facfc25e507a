/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What this host can run: see capabilities.h. */
#include "config/capabilities.h"

#include "common/i18n.h"
#include "common/lodge-error.h"
#include "config/text.h"

#include <hv/types.h>
#include <string.h>

#define ARCH    "x86_64"
#define MACHINE "pc"
#define TYPE    "lodge"

static void append(GString *xml, const char *format, ...) G_GNUC_PRINTF(2, 3);

/* Values in @format are escaped. */
static void append(GString *xml, const char *format, ...)
{
    g_autofree char *text = NULL;
    va_list args;

    va_start(args, format);
    text = g_markup_vprintf_escaped(format, args);
    va_end(args);
    g_string_append(xml, text);
}

/* "0,4": the threads of the same core. */
static char *siblings_of(const LodgeHostInfo *host, const LodgeHostCpu *cpu)
{
    GString *list = g_string_new(NULL);

    for (guint i = 0; i < host->cpus->len; i++) {
        const LodgeHostCpu *other = &g_array_index(host->cpus, LodgeHostCpu, i);

        if (other->socket == cpu->socket && other->core == cpu->core) {
            g_string_append_printf(list, list->len ? ",%u" : "%u", other->id);
        }
    }
    return g_string_free(list, FALSE);
}

static guint cpus_of(const LodgeHostInfo *host, guint node)
{
    guint count = 0;

    for (guint i = 0; i < host->cpus->len; i++) {
        count += g_array_index(host->cpus, LodgeHostCpu, i).node == node;
    }
    return count;
}

static void append_cell(GString *xml, const LodgeHostInfo *host, guint node)
{
    append(xml, "        <cell id='%u'>\n          <cpus num='%u'>\n", node, cpus_of(host, node));
    for (guint i = 0; i < host->cpus->len; i++) {
        const LodgeHostCpu *cpu = &g_array_index(host->cpus, LodgeHostCpu, i);
        g_autofree char *siblings = siblings_of(host, cpu);

        if (cpu->node == node) {
            append(xml,
                   "            <cpu id='%u' socket_id='%u' die_id='0' core_id='%u' "
                   "siblings='%s'/>\n",
                   cpu->id, cpu->socket, cpu->core, siblings);
        }
    }
    append(xml, "          </cpus>\n        </cell>\n");
}

/* Nodes that have CPUs, in the order of their first. */
static void append_cells(GString *xml, const LodgeHostInfo *host)
{
    g_autoptr(GHashTable) seen = g_hash_table_new(NULL, NULL);
    g_autoptr(GString) cells = g_string_new(NULL);

    for (guint i = 0; i < host->cpus->len; i++) {
        guint node = g_array_index(host->cpus, LodgeHostCpu, i).node;

        if (g_hash_table_add(seen, GUINT_TO_POINTER(node + 1))) {
            append_cell(cells, host, node);
        }
    }
    append(xml, "    <topology>\n      <cells num='%u'>\n", g_hash_table_size(seen));
    g_string_append(xml, cells->str);
    append(xml, "      </cells>\n    </topology>\n");
}

char *lodge_capabilities_format(const LodgeHostInfo *host, const char *emulator)
{
    GString *xml = g_string_new("<capabilities>\n");

    append(xml,
           "  <host>\n"
           "    <cpu>\n"
           "      <arch>" ARCH "</arch>\n"
           "      <topology sockets='%u' dies='1' cores='%u' threads='%u'/>\n"
           "    </cpu>\n"
           "    <power_management/>\n"
           "    <iommu support='no'/>\n",
           host->sockets, host->cores, host->threads);
    append_cells(xml, host);
    append(xml,
           "  </host>\n"
           "  <guest>\n"
           "    <os_type>hvm</os_type>\n"
           "    <arch name='" ARCH "'>\n"
           "      <wordsize>64</wordsize>\n"
           "      <emulator>%s</emulator>\n"
           "      <machine maxCpus='%u'>" MACHINE "</machine>\n"
           "      <domain type='" TYPE "'/>\n"
           "    </arch>\n"
           "    <features>\n"
           "      <acpi default='on' toggle='no'/>\n"
           "      <apic default='on' toggle='no'/>\n"
           "    </features>\n"
           "  </guest>\n"
           "</capabilities>\n",
           emulator, HV_MAX_VCPUS);
    return g_string_free(xml, FALSE);
}

static gboolean check_wish(const char *what, const char *wish, const char *have, GError **error)
{
    g_autofree char *quoted = NULL;

    if (!wish || strcmp(wish, have) == 0) {
        return TRUE;
    }
    quoted = lodge_text_quote(wish);
    return lodge_error_refuse(error, _("There is no %s %s here: this host has “%s”"), what, quoted,
                              have);
}

/* What libvirt lists as supported or not, and Lodge has not. */
static void append_unsupported(GString *xml, const char *const *names, gsize count)
{
    for (gsize i = 0; i < count; i++) {
        append(xml, "    <%s supported='no'/>\n", names[i]);
    }
}

char *lodge_domain_capabilities_format(const char *emulator,
                                       const LodgeDomainCapabilitiesRequest *request,
                                       GError **error)
{
    static const char *const modes[] = {"host-passthrough", "maximum", "host-model", "custom"};
    static const char *const devices[] = {"disk",       "graphics", "video",    "hostdev", "rng",
                                          "filesystem", "tpm",      "redirdev", "channel"};
    static const char *const features[] = {"gic",    "vmcoreinfo",     "genid", "backingStoreInput",
                                           "backup", "async-teardown", "sev",   "sgx"};
    GString *xml = NULL;

    if (!check_wish(_("type"), request->type, TYPE, error) ||
        !check_wish(_("architecture"), request->arch, ARCH, error) ||
        !check_wish(_("machine"), request->machine, MACHINE, error) ||
        !check_wish(_("emulator"), request->emulator, emulator, error)) {
        return NULL;
    }
    xml = g_string_new("<domainCapabilities>\n");
    append(xml,
           "  <path>%s</path>\n"
           "  <domain>" TYPE "</domain>\n"
           "  <machine>" MACHINE "</machine>\n"
           "  <arch>" ARCH "</arch>\n"
           "  <vcpu max='%u'/>\n"
           "  <iothreads supported='no'/>\n"
           "  <os supported='yes'>\n"
           "    <enum name='firmware'/>\n"
           "    <loader supported='no'/>\n"
           "  </os>\n"
           "  <cpu>\n",
           emulator, HV_MAX_VCPUS);
    for (gsize i = 0; i < G_N_ELEMENTS(modes); i++) {
        append(xml, "    <mode name='%s' supported='no'/>\n", modes[i]);
    }
    append(xml, "  </cpu>\n  <devices>\n");
    append_unsupported(xml, devices, G_N_ELEMENTS(devices));
    append(xml, "    <console supported='yes'>\n"
                "      <enum name='type'>\n"
                "        <value>pty</value>\n"
                "        <value>file</value>\n"
                "        <value>null</value>\n"
                "      </enum>\n"
                "    </console>\n"
                "  </devices>\n"
                "  <features>\n");
    append_unsupported(xml, features, G_N_ELEMENTS(features));
    append(xml, "  </features>\n</domainCapabilities>\n");
    return g_string_free(xml, FALSE);
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Elements of a <domain>: see domain-layout.h. */
#include "config/domain-layout.h"

#include "common/i18n.h"
#include "config/xml-node.h"

#include <string.h>

#define INERT_MAX 64

typedef enum {
    KNOWN_ONCE,
    KNOWN_MANY,
} KnownKind;

/* By parent, and by name; a container where an element of it stands as a parent. */
static const struct {
    const char *parent, *name;
    KnownKind kind;
} known[] = {
    {"domain", "name", KNOWN_ONCE},
    {"domain", "uuid", KNOWN_ONCE},
    {"domain", "title", KNOWN_ONCE},
    {"domain", "description", KNOWN_ONCE},
    {"domain", "metadata", KNOWN_ONCE},
    {"domain", "memory", KNOWN_ONCE},
    {"domain", "currentMemory", KNOWN_ONCE},
    {"domain", "vcpu", KNOWN_ONCE},
    {"domain", "cputune", KNOWN_ONCE},
    {"domain", "os", KNOWN_ONCE},
    {"domain", "features", KNOWN_ONCE},
    {"domain", "clock", KNOWN_ONCE},
    {"domain", "on_poweroff", KNOWN_ONCE},
    {"domain", "on_reboot", KNOWN_ONCE},
    {"domain", "on_crash", KNOWN_ONCE},
    {"domain", "devices", KNOWN_ONCE},
    {"cputune", "shares", KNOWN_ONCE},
    {"cputune", "period", KNOWN_ONCE},
    {"cputune", "quota", KNOWN_ONCE},
    {"cputune", "global_period", KNOWN_ONCE},
    {"cputune", "global_quota", KNOWN_ONCE},
    {"cputune", "vcpupin", KNOWN_MANY},
    {"cputune", "emulatorpin", KNOWN_ONCE},
    {"os", "type", KNOWN_ONCE},
    {"os", "kernel", KNOWN_ONCE},
    {"os", "initrd", KNOWN_ONCE},
    {"os", "cmdline", KNOWN_ONCE},
    {"features", "acpi", KNOWN_ONCE},
    {"features", "apic", KNOWN_ONCE},
    {"features", "pae", KNOWN_ONCE},
    {"clock", "timer", KNOWN_MANY},
    {"timer", "catchup", KNOWN_ONCE},
    {"devices", "emulator", KNOWN_ONCE},
    {"devices", "serial", KNOWN_MANY},
    {"devices", "console", KNOWN_MANY},
    {"serial", "source", KNOWN_ONCE},
    {"serial", "target", KNOWN_ONCE},
    {"serial", "alias", KNOWN_ONCE},
    {"console", "source", KNOWN_ONCE},
    {"console", "target", KNOWN_ONCE},
    {"console", "alias", KNOWN_ONCE},
    {"target", "model", KNOWN_ONCE},
};

static const char *const known_ours[] = {"engine", "pool", "clock", "kernel", "initrd", "debug"};

/* libvirt's order: its schema, and what its formatter does. */
static const char *const order[] = {
    "name",
    "uuid",
    "genid",
    "title",
    "description",
    "metadata",
    "maxMemory",
    "memory",
    "currentMemory",
    "blkiotune",
    "memtune",
    "memoryBacking",
    "vcpu",
    "vcpus",
    "iothreads",
    "iothreadids",
    "defaultiothread",
    "cputune",
    "numatune",
    "resource",
    "sysinfo",
    "bootloader",
    "bootloader_args",
    "os",
    "idmap",
    "features",
    "cpu",
    "clock",
    "on_poweroff",
    "on_reboot",
    "on_crash",
    "on_lockfailure",
    "pm",
    "perf",
    "devices",
    "seclabel",
    "keywrap",
    "launchSecurity",
};

/* The row of a child of a container, or NULL's index: the number of rows. */
static gsize find_known(const char *parent, const char *name)
{
    gsize i = 0;

    while (i < G_N_ELEMENTS(known) &&
           (strcmp(known[i].parent, parent) != 0 || strcmp(known[i].name, name) != 0)) {
        i++;
    }
    return i;
}

static gboolean holds_known(const char *name)
{
    for (gsize i = 0; i < G_N_ELEMENTS(known); i++) {
        if (strcmp(known[i].parent, name) == 0) {
            return TRUE;
        }
    }
    return FALSE;
}

gboolean lodge_domain_is_ours(const xmlNode *element)
{
    for (gsize i = 0; i < G_N_ELEMENTS(known_ours); i++) {
        if (lodge_xml_is_ours(element, known_ours[i])) {
            return TRUE;
        }
    }
    return FALSE;
}

LodgeXmlKind lodge_domain_kind_of(const xmlNode *element)
{
    const char *name = (const char *)element->name;
    const xmlNode *parent = element->parent;

    if (lodge_domain_is_ours(element)) {
        return LODGE_XML_LEAF;
    }
    if (element->ns || strcmp(name, "metadata") == 0) {
        return LODGE_XML_FOREIGN;
    }
    if (parent->type != XML_ELEMENT_NODE) {
        return LODGE_XML_CONTAINER;
    }
    if (find_known((const char *)parent->name, name) == G_N_ELEMENTS(known)) {
        return LODGE_XML_FOREIGN;
    }
    return holds_known(name) ? LODGE_XML_CONTAINER : LODGE_XML_LEAF;
}

static void add_inert(GPtrArray *inert, const char *folder, const xmlNode *element)
{
    g_autofree char *path =
        g_strdup_printf("%s%s%s%s", folder,
                        element->ns && element->ns->prefix ? (const char *)element->ns->prefix : "",
                        element->ns && element->ns->prefix ? ":" : "", (const char *)element->name);

    /* A bound: each new one is compared with all. */
    if (inert->len < INERT_MAX &&
        !g_ptr_array_find_with_equal_func(inert, path, g_str_equal, NULL)) {
        g_ptr_array_add(inert, g_steal_pointer(&path));
    }
}

/* One container; @folder is its path with a "/" behind it, or "" for the domain itself. */
static gboolean look_into(const xmlNode *container, const char *folder, GPtrArray *inert,
                          GError **error)
{
    gboolean seen[G_N_ELEMENTS(known)] = {FALSE};

    for (const xmlNode *child = container->children; child; child = child->next) {
        gsize row = G_N_ELEMENTS(known);

        if (child->type != XML_ELEMENT_NODE) {
            continue;
        }
        if (!child->ns) {
            row = find_known((const char *)container->name, (const char *)child->name);
        }
        if (row == G_N_ELEMENTS(known)) {
            if (folder[0] != '\0' || !lodge_domain_is_ours(child)) {
                add_inert(inert, folder, child);
            }
            continue;
        }
        if (seen[row] && known[row].kind == KNOWN_ONCE) {
            return lodge_xml_refuse(error, child, _("<%s> stands twice in <%s>: keep one of them"),
                                    (const char *)child->name, (const char *)container->name);
        }
        seen[row] = TRUE;
        if (lodge_domain_kind_of(child) == LODGE_XML_CONTAINER) {
            g_autofree char *path = g_strdup_printf("%s%s/", folder, (const char *)child->name);

            if (!look_into(child, path, inert, error)) {
                return FALSE;
            }
        }
    }
    return TRUE;
}

gboolean lodge_domain_list_inert(const xmlNode *domain, GStrv *inert_out, GError **error)
{
    g_autoptr(GPtrArray) inert = g_ptr_array_new_with_free_func(g_free);

    if (!look_into(domain, "", inert, error)) {
        return FALSE;
    }
    g_ptr_array_add(inert, NULL);
    *inert_out = (GStrv)g_ptr_array_free(g_steal_pointer(&inert), FALSE);
    return TRUE;
}

typedef struct {
    xmlNode *node;
    gsize rank, place;
} Ranked;

static int compare_ranked(gconstpointer a, gconstpointer b)
{
    const Ranked *left = a, *right = b;

    if (left->rank != right->rank) {
        return left->rank < right->rank ? -1 : 1;
    }
    return left->place < right->place ? -1 : 1;
}

/* Unknown ones get @before's rank; our own stand at the end, as qemu's do. */
static gsize rank_of(const xmlNode *element, gsize before)
{
    gsize i = 0;

    if (element->ns) {
        return lodge_domain_is_ours(element) ? G_N_ELEMENTS(order) : before;
    }
    while (i < G_N_ELEMENTS(order) && strcmp((const char *)element->name, order[i]) != 0) {
        i++;
    }
    return i < G_N_ELEMENTS(order) ? i : before;
}

void lodge_domain_sort(xmlNode *domain)
{
    g_autoptr(GArray) ranked = g_array_new(FALSE, FALSE, sizeof(Ranked));
    gsize rank = 0;
    guint first = 0; /* of the comments that wait for what they precede */

    for (xmlNode *child = domain->children; child; child = child->next) {
        Ranked row = {child, rank, ranked->len};

        if (child->type == XML_ELEMENT_NODE) {
            row.rank = rank = rank_of(child, rank);
            for (guint i = first; i < ranked->len; i++) {
                g_array_index(ranked, Ranked, i).rank = rank;
            }
            first = ranked->len + 1;
        }
        g_array_append_val(ranked, row);
    }
    g_array_sort(ranked, compare_ranked);
    for (guint i = 0; i < ranked->len; i++) {
        xmlNode *child = g_array_index(ranked, Ranked, i).node;

        xmlUnlinkNode(child);
        xmlAddChild(domain, child);
    }
}

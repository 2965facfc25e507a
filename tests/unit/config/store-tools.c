/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Folders of machines for tests: see store-tools.h. */
#include "store-tools.h"

#include <ftw.h>
#include <stdio.h>
#include <string.h>

char *store_folder_make(void)
{
    return g_dir_make_tmp("lodge-store-XXXXXX", NULL);
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *at)
{
    (void)status;
    (void)type;
    (void)at;
    return remove(path);
}

void store_folder_remove(const char *folder)
{
    nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

gboolean store_folder_write(const char *folder, const char *file, const char *text)
{
    g_autofree char *path = g_build_filename(folder, file, NULL);

    return g_file_set_contents(path, text, -1, NULL);
}

LodgeDomainConfig *store_machine(const char *name, guint mib)
{
    g_autofree char *escaped = g_markup_escape_text(name, -1);
    g_autofree char *sum = g_compute_checksum_for_string(G_CHECKSUM_SHA256, name, -1);
    g_autofree char *xml = g_strdup_printf("<domain type='lodge'><name>%s</name><uuid>%.32s</uuid>"
                                           "<memory unit='MiB'>%u</memory></domain>",
                                           escaped, sum, mib);

    return lodge_domain_config_parse(xml, -1, NULL, NULL);
}

char *store_summary(LodgeDomainStore *store)
{
    g_autoptr(GPtrArray) domains = NULL;
    g_autoptr(GPtrArray) problems = NULL;
    GString *text = g_string_new(NULL);

    if (!lodge_domain_store_load(store, &domains, &problems, NULL)) {
        return g_string_free(g_string_append(text, "(nothing)"), FALSE);
    }
    for (guint i = 0; i < domains->len; i++) {
        const LodgeStoredDomain *domain = domains->pdata[i];

        g_string_append_printf(text, "%s%s:%u%s", text->len ? " " : "", domain->config->name,
                               (guint)(domain->config->memory_bytes / HV_MIB),
                               domain->autostart ? "*" : "");
    }
    for (guint i = 0; i < problems->len; i++) {
        const LodgeStoreProblem *problem = problems->pdata[i];

        g_string_append_printf(text, " !%s", strrchr(problem->path, '/') + 1);
    }
    return g_string_free(text, FALSE);
}

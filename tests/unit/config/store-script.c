/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Changes of a store, and what it holds after each: see store-script.h. */
#include "store-script.h"

#include "config/file-name.h"

#include <string.h>

typedef enum {
    SAVE,
    RENAME,
    DELETE,
    AUTOSTART,
} Kind;

static const struct {
    Kind kind;
    const char *name;
    guint mib;
    const char *to;    /* RENAME */
    const char *after; /* what there is then */
    const char *kept;  /* a file that there is from then on, until @name is deleted; NULL: none */
} script[STORE_SCRIPT_CHANGES] = {
    {SAVE, "a", 4, NULL, "a:4", NULL},
    {SAVE, "b", 4, NULL, "a:4 b:4", NULL},
    {AUTOSTART, "a", 0, NULL, "a:4* b:4", NULL},
    {SAVE, "a", 8, NULL, "a:8* b:4", "a.old"},
    {SAVE, "a", 9, NULL, "a:9* b:4", "a.old"},
    {RENAME, "a", 7, "c", "b:4 c:7*", "c.old"},
    {SAVE, "a", 5, NULL, "a:5 b:4 c:7*", "c.old"},
    {DELETE, "c", 0, NULL, "a:5 b:4", NULL},
    {DELETE, "b", 0, NULL, "a:5", NULL},
    {SAVE, "b", 6, NULL, "a:5 b:6", NULL},
};

gboolean store_script_do(LodgeDomainStore *store, guint index, GError **error)
{
    const char *name = script[index].name;
    g_autoptr(LodgeDomainConfig) config =
        store_machine(script[index].to ? script[index].to : name, MAX(script[index].mib, 2));

    switch (script[index].kind) {
    case SAVE:
        return lodge_domain_store_save(store, config, error);
    case RENAME:
        return lodge_domain_store_rename(store, name, config, error);
    case DELETE:
        return lodge_domain_store_delete(store, name, error);
    case AUTOSTART:
        return lodge_domain_store_set_autostart(store, name, TRUE, error);
    }
    g_assert_not_reached();
}

/* What is looked at here needs not outlive a power cut. */
static int leave_syncs_out(void *context, const LodgeDiskStep *step)
{
    (void)context;
    return step->op == LODGE_DISK_SYNC || step->op == LODGE_DISK_SYNC_FOLDER;
}

static const char *after(guint done)
{
    return done ? script[done - 1].after : "";
}

char *store_script_find_leftover(LodgeDomainStore *store)
{
    g_auto(GStrv) names = NULL;

    if (lodge_disk_list(&store->disk, &names) < 0) {
        return g_strdup("the folder cannot be listed");
    }
    for (guint i = 0; names[i]; i++) {
        if (strcmp(names[i], LODGE_JOURNAL_NAME) != 0 && !g_str_has_suffix(names[i], ".xml") &&
            !g_str_has_suffix(names[i], ".old") && !g_str_has_suffix(names[i], ".autostart")) {
            return g_strdup_printf("%s is left", names[i]);
        }
    }
    return NULL;
}

static char *delete_all(LodgeDomainStore *store)
{
    static const char *const names[] = {"a", "b", "c"};
    g_autofree char *summary = NULL;
    g_auto(GStrv) left = NULL;

    for (gsize i = 0; i < G_N_ELEMENTS(names); i++) {
        if (!lodge_domain_store_delete(store, names[i], NULL)) {
            return g_strdup_printf("%s cannot be deleted", names[i]);
        }
    }
    summary = store_summary(store);
    if (summary[0] != '\0' || lodge_disk_list(&store->disk, &left) < 0 ||
        g_strv_length(left) != 1) {
        return g_strdup_printf("after all is deleted, there is: %s", summary);
    }
    return NULL;
}

char *store_script_check(const char *folder, guint done, gboolean next)
{
    static const LodgeDiskWatch watch = {leave_syncs_out, NULL};
    g_autoptr(LodgeDomainStore) store = lodge_domain_store_open_watched(folder, &watch, NULL);
    g_autofree char *summary = NULL;
    char *wrong = NULL;
    guint is = done;

    if (!store) {
        return g_strdup("the store cannot be opened");
    }
    summary = store_summary(store);
    if (next && done < STORE_SCRIPT_CHANGES && strcmp(summary, after(done)) != 0) {
        is = done + 1;
    }
    if (strcmp(summary, after(is)) != 0) {
        return g_strdup_printf("after %u changes there is “%s”, and not “%s”", done, summary,
                               after(done));
    }
    if (is && script[is - 1].kept && !lodge_disk_has(&store->disk, script[is - 1].kept)) {
        return g_strdup_printf("after %u changes %s is not kept", is, script[is - 1].kept);
    }
    wrong = store_script_find_leftover(store);
    return wrong ? wrong : delete_all(store);
}

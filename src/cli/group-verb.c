/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A table by group, again and again. */
#include "cli/group-verb.h"

#include "cli/live.h"
#include "cli/machines.h"
#include "common/i18n.h"
#include "common/lodge-error.h"

/* A machine that is shut off has no timers: only when all lack them is it the connection's fault. */
static gboolean is_running(const LodgeStats *stats)
{
    guint64 state;

    return lodge_stats_number(stats, "state.state", &state) &&
           lodge_machine_is_active((int)MIN(state, G_MAXINT));
}

static LodgeTable *look(virConnectPtr connection, GStrv words, gpointer user_data, GError **error)
{
    const LodgeGroupVerb *verb = user_data;
    g_autoptr(GPtrArray) all = lodge_stats_fetch(connection, words, error);
    g_autoptr(LodgeTable) table = lodge_table_new(verb->columns, verb->count);
    guint lacking = 0, having = 0;

    for (guint i = 0; all && i < all->len; i++) {
        const LodgeStats *stats = g_ptr_array_index(all, i);

        if (lodge_stats_add_group(stats, verb->group, table, verb->columns, verb->count)) {
            having++;
        } else if (is_running(stats)) {
            lacking++;
        }
    }
    if (!all) {
        return NULL;
    }
    if (lacking > 0 && having == 0) {
        g_autofree char *uri = virConnectGetURI(connection);

        g_set_error(error, LODGE_ERROR, LODGE_ERROR_FAILED, "“%s”: %s; %s", uri ? uri : "?",
                    _(verb->lacking), _("--connect lodge:///session has them"));
        return NULL;
    }
    if (verb->order > 0) {
        lodge_table_sort(table, verb->order);
    }
    return g_steal_pointer(&table);
}

int lodge_group_verb_run(const LodgeGroupVerb *verb, int argc, char **argv)
{
    return lodge_live_run(&verb->help, 1, look, (gpointer)verb, argc, argv);
}

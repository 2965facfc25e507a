/* SPDX-License-Identifier: GPL-3.0-or-later */
/* From a command line to machines that something is done to. */
#include "cli/machine-bulk.h"

#include "cli/verb.h"
#include "common/i18n.h"
#include "common/lodge-error.h"

#include <libvirt/virterror.h>

static const char *label(gpointer item)
{
    return ((LodgeMachine *)item)->name;
}

LodgeBulkOutcome lodge_machine_bulk_spare(const char *why, GError **error)
{
    g_set_error_literal(error, LODGE_ERROR, LODGE_ERROR_FAILED, why);
    return LODGE_BULK_NOT_NEEDED;
}

gboolean lodge_machine_bulk_is(const LodgeMachine *machine, LodgeWish wish)
{
    int state;

    if (virDomainGetState(machine->domain, &state, NULL, 0) < 0) {
        return wish == LODGE_WISH_OFF && lodge_connection_error_code() == VIR_ERR_NO_DOMAIN;
    }
    return wish == LODGE_WISH_OFF ? !lodge_machine_is_active(state)
                                  : lodge_machine_is_active(state) && state != VIR_DOMAIN_PAUSED;
}

LodgeBulkOutcome lodge_machine_bulk_judge(const LodgeMachine *machine, LodgeWish wish,
                                          const char *context, const char *instead, GError **error)
{
    g_autoptr(GError) failure = NULL;

    lodge_connection_set_error(&failure, "%s", context);
    if (lodge_machine_bulk_is(machine, wish)) {
        return lodge_machine_bulk_spare(instead, error);
    }
    g_propagate_error(error, g_steal_pointer(&failure));
    return LODGE_BULK_FAILED;
}

int lodge_machine_bulk_run(const LodgeMachineBulk *verb, int argc, char **argv)
{
    g_auto(LodgeVerbOptions) options = {0};
    g_autoptr(virConnect) connection = NULL;
    g_autoptr(GPtrArray) machines = NULL;
    g_autoptr(GPtrArray) chosen = NULL;
    g_autoptr(GError) error = NULL;
    LodgeBulkVerb bulk = verb->bulk;

    bulk.label = label;
    if (lodge_verb_options_parse(&options, &verb->help,
                                 LODGE_VERB_OPTION_ALL | LODGE_VERB_OPTION_JOBS |
                                     LODGE_VERB_OPTION_JSON,
                                 verb->own, argc, argv, &error)) {
        bulk.json = options.json;
        machines =
            lodge_machines_open(options.connect, LODGE_CONNECTION_EVENTS, &connection, &error);
    }
    if (machines) {
        chosen = lodge_machines_select(machines, options.parameters, options.all, &error);
    }
    if (chosen && verb->prepare &&
        !verb->prepare(connection, chosen, options.json, verb->user_data, &error) && !error) {
        return LODGE_EXIT_OK;
    }
    if (error) {
        return lodge_verb_fail(error);
    }
    return lodge_bulk_run(&bulk, chosen, (guint)options.jobs, verb->user_data);
}

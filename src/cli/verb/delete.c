/* SPDX-License-Identifier: GPL-3.0-or-later */
/* `lodgectl delete`: says what goes and what stays, asks, and takes definitions away. */
#include "cli/verb.h"

#include "cli/machine-bulk.h"
#include "client/machine-xml.h"
#include "common/i18n.h"
#include "common/lodge-error.h"
#include "config/text.h"

#include <libvirt/virterror.h>

#include <stdio.h>
#include <unistd.h>

typedef struct {
    gboolean yes; /* not asked */
} Delete;

/* The definition first: a machine that is off and half deleted would be there again at next start. */
static LodgeBulkOutcome delete_one(LodgeBulk *bulk, gpointer item, gpointer user_data,
                                   GError **error)
{
    LodgeMachine *machine = item;
    int persistent = virDomainIsPersistent(machine->domain);

    (void)bulk;
    (void)user_data;
    if (persistent != 0 && lodge_machine_undefine(machine->domain) < 0 &&
        lodge_connection_error_code() != VIR_ERR_NO_DOMAIN) {
        lodge_connection_set_error(error, _("cannot be deleted"));
        return LODGE_BULK_FAILED;
    }
    if (!lodge_machine_bulk_is(machine, LODGE_WISH_OFF) && virDomainDestroy(machine->domain) < 0 &&
        lodge_machine_bulk_judge(machine, LODGE_WISH_OFF,
                                 _("its definition is deleted, but it still runs"), "",
                                 error) == LODGE_BULK_FAILED) {
        return LODGE_BULK_FAILED;
    }
    g_clear_error(error);
    return LODGE_BULK_DONE;
}

static void print_what_goes(const LodgeMachine *machine)
{
    g_autofree char *name = lodge_text_show(machine->name, 64);
    g_auto(GStrv) files = lodge_machine_xml_files(machine->domain);

    if (machine->active) {
        g_print(_("%s: its definition, and what it runs: it is %s, and ended at once\n"), name,
                lodge_machine_state_name(machine->state));
    } else {
        g_print(_("%s: its definition\n"), name);
    }
    if (virDomainHasManagedSaveImage(machine->domain, 0) == 1) {
        g_print(_("    its saved memory\n"));
    }
    for (guint i = 0; files && files[i]; i++) {
        g_autofree char *file = lodge_text_show(files[i], 256);

        g_print(_("    (stays: %s)\n"), file);
    }
}

static gboolean ask(guint count, GError **error)
{
    char answer[16] = "";

    if (!isatty(STDIN_FILENO)) {
        return lodge_error_refuse(error,
                                  _("“delete” asks first, and there is no terminal to answer "
                                    "at: add --yes"));
    }
    g_print(g_dngettext(NULL, "Delete %u machine? [y/N] ", "Delete %u machines? [y/N] ", count),
            count);
    fflush(stdout);
    if (!fgets(answer, sizeof(answer), stdin) || (answer[0] != 'y' && answer[0] != 'Y')) {
        g_print("%s\n", _("Nothing was deleted."));
        return FALSE;
    }
    return TRUE;
}

static gboolean prepare(virConnectPtr connection, GPtrArray *machines, gboolean json,
                        gpointer user_data, GError **error)
{
    const Delete *delete = user_data;

    (void)connection;
    if (delete->yes || machines->len == 0) {
        return TRUE;
    }
    if (json) {
        return lodge_error_refuse(error, _("“delete” asks first, and --json asks nobody: add "
                                           "--yes"));
    }
    for (guint i = 0; i < machines->len; i++) {
        print_what_goes(g_ptr_array_index(machines, i));
    }
    return ask(machines->len, error);
}

int lodge_verb_delete(int argc, char **argv)
{
    Delete delete = {0};
    const GOptionEntry own[] = {
        {"yes", 'y', 0, G_OPTION_ARG_NONE, &delete.yes, N_("do not list what goes, and do not ask"),
         NULL},
        {NULL},
    };
    const LodgeMachineBulk verb = {
        .help = {.verb = "delete",
                 .parameters = N_("NAME|GLOB…"),
                 .summary =
                     N_("Deletes machines, whatever their state: running ones are ended. Lists "
                        "what goes, and asks.\nFiles that they use, such as kernels and disks, "
                        "stay."),
                 .max = LODGE_VERB_MANY,
                 .jobs = 8},
        .bulk = {.doing = N_("deleting"), .done = N_("deleted"), .act = delete_one},
        .own = own,
        .prepare = prepare,
        .user_data = &delete,
    };

    return lodge_machine_bulk_run(&verb, argc, argv);
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A row for each verb. */
#include "app/model/machine-verb.h"

#include "app/model/failure.h"
#include "common/i18n.h"

#include <libvirt/virterror.h>

#define ON(state) (1u << (state))
#define RUNNING   (ON(VIR_DOMAIN_RUNNING) | ON(VIR_DOMAIN_BLOCKED))
#define OFF       (ON(VIR_DOMAIN_SHUTOFF) | ON(VIR_DOMAIN_CRASHED))
#define PAUSED    (ON(VIR_DOMAIN_PAUSED) | ON(VIR_DOMAIN_PMSUSPENDED))
#define ENDING    ON(VIR_DOMAIN_SHUTDOWN)

static int reset(virDomainPtr domain)
{
    return virDomainReset(domain, 0);
}

/* The definition first: else a machine that was ended would come back when something goes wrong. */
static int delete_machine(virDomainPtr domain)
{
    if (virDomainIsPersistent(domain) != 0 && lodge_machine_undefine(domain) < 0 &&
        lodge_connection_error_code() != VIR_ERR_NO_DOMAIN) {
        return -1;
    }
    if (virDomainIsActive(domain) == 1 && virDomainDestroy(domain) < 0 &&
        lodge_connection_error_code() != VIR_ERR_NO_DOMAIN &&
        lodge_connection_error_code() != VIR_ERR_OPERATION_INVALID) {
        return -1;
    }
    return 0;
}

static const struct {
    const char *name, *label;
    const char *doing, *failed;
    guint states;
    int (*call)(virDomainPtr domain);
} verbs[LODGE_MACHINE_VERBS] = {
    [LODGE_VERB_START] = {"start", N_("Start"), N_("Starting"), N_("It did not start"), OFF,
                          virDomainCreate},
    [LODGE_VERB_SHUT_DOWN] = {"shut-down", N_("Shut Down"), N_("Shutting down"),
                              N_("It was not asked to shut down"), RUNNING, virDomainShutdown},
    [LODGE_VERB_PAUSE] = {"pause", N_("Pause"), N_("Pausing"), N_("It was not paused"), RUNNING,
                          virDomainSuspend},
    [LODGE_VERB_RESUME] = {"resume", N_("Resume"), N_("Resuming"), N_("It did not go on"), PAUSED,
                           virDomainResume},
    [LODGE_VERB_RESET] = {"reset", N_("Reset"), N_("Resetting"), N_("It was not reset"),
                          RUNNING | PAUSED, reset},
    [LODGE_VERB_FORCE_OFF] = {"force-off", N_("Force Off"), N_("Forcing off"),
                              N_("It was not ended"), RUNNING | PAUSED | ENDING, virDomainDestroy},
    [LODGE_VERB_DELETE] = {"delete", N_("Delete…"), N_("Deleting"), N_("It was not deleted"),
                           RUNNING | PAUSED | ENDING | OFF, delete_machine},
};

typedef struct {
    LodgeMachineVerb verb;
    LodgeMachineItem *machine;
    virDomainPtr domain; /* owned; a worker's */
    char *name;
} Step;

static void step_free(gpointer data)
{
    Step *step = data;

    g_clear_pointer(&step->domain, virDomainFree);
    g_object_unref(step->machine);
    g_free(step->name);
    g_free(step);
}

static const char *label(gpointer item)
{
    return ((Step *)item)->name;
}

static gboolean work(gpointer item, GError **error)
{
    Step *step = item;
    gboolean good = verbs[step->verb].call(step->domain) == 0 ||
                    lodge_failure_set(error, "%s", _(verbs[step->verb].failed));

    /* Here, where it may wait, in case it is its connection's last. */
    g_clear_pointer(&step->domain, virDomainFree);
    return good;
}

static void done(gpointer item, gboolean good)
{
    const Step *step = item;
    gpointer connection = lodge_machine_item_get_connection(step->machine);

    if (!good) {
        lodge_machine_item_set_hidden(step->machine, FALSE);
    }
    if (connection) {
        lodge_connection_item_look(connection);
    }
}

const char *lodge_machine_verb_name(LodgeMachineVerb verb)
{
    return verbs[verb].name;
}

const char *lodge_machine_verb_label(LodgeMachineVerb verb)
{
    return _(verbs[verb].label);
}

gboolean lodge_machine_verb_fits(LodgeMachineVerb verb, int state)
{
    return state > VIR_DOMAIN_NOSTATE && state < LODGE_MACHINE_STATES &&
           (verbs[verb].states & ON(state));
}

guint lodge_machine_verb_count(LodgeMachineVerb verb, GPtrArray *machines)
{
    guint count = 0;

    for (guint i = 0; i < machines->len; i++) {
        count += lodge_machine_verb_fits(
            verb, lodge_machine_item_get_state(g_ptr_array_index(machines, i)));
    }
    return count;
}

LodgeJob *lodge_machine_verb_job(LodgeMachineVerb verb, GPtrArray *machines)
{
    static const LodgeJobKind kind = {.work = work, .label = label, .done = done};
    g_autoptr(GPtrArray) steps = g_ptr_array_new_with_free_func(step_free);
    g_autofree char *title = NULL;

    for (guint i = 0; i < machines->len; i++) {
        LodgeMachineItem *machine = g_ptr_array_index(machines, i);
        virDomainPtr domain = lodge_machine_verb_fits(verb, lodge_machine_item_get_state(machine))
                                  ? lodge_machine_item_ref_domain(machine)
                                  : NULL;

        if (domain) {
            Step *step = g_new0(Step, 1);

            step->verb = verb;
            step->machine = g_object_ref(machine);
            step->domain = domain;
            step->name = g_strdup(lodge_machine_item_get_name(machine));
            g_ptr_array_add(steps, step);
        }
    }
    if (steps->len == 0) {
        return NULL;
    }
    title = machines->len == 1
                ? g_strdup_printf("%s: %s", _(verbs[verb].doing), label(steps->pdata[0]))
                : g_strdup_printf(_("%s: %u of %u machines"), _(verbs[verb].doing), steps->len,
                                  machines->len);
    return lodge_job_new(title, &kind, g_steal_pointer(&steps));
}

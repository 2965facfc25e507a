/* SPDX-License-Identifier: GPL-3.0-or-later */
/* `lodgectl stop`: asks the guests to shut down, and waits until they have. */
#include "cli/verb.h"

#include "cli/machine-bulk.h"
#include "common/i18n.h"
#include "common/lodge-error.h"

#include <libvirt/virterror.h>

#define TIMEOUT_DEFAULT_S 60
#define TIMEOUT_MOST_S    86400
#define LOOK_AGAIN_US     G_USEC_PER_SEC /* where events do not come */

typedef struct {
    int timeout_s;
    virConnectPtr connection; /* borrowed */
    int callback;             /* -1: none */
} Stop;

static int on_event(virConnectPtr connection, virDomainPtr domain, int event, int detail,
                    void *data)
{
    (void)connection;
    (void)domain;
    (void)event;
    (void)detail;
    lodge_bulk_wake(data);
    return 0;
}

/* Without events it takes up to LOOK_AGAIN_US longer. */
static void begin(LodgeBulk *bulk, gpointer user_data)
{
    Stop *stop = user_data;

    stop->callback =
        virConnectDomainEventRegisterAny(stop->connection, NULL, VIR_DOMAIN_EVENT_ID_LIFECYCLE,
                                         VIR_DOMAIN_EVENT_CALLBACK(on_event), bulk, NULL);
}

static void end(LodgeBulk *bulk, gpointer user_data)
{
    Stop *stop = user_data;

    (void)bulk;
    if (stop->callback >= 0) {
        virConnectDomainEventDeregisterAny(stop->connection, stop->callback);
    }
}

static LodgeBulkOutcome wait_until_off(LodgeBulk *bulk, const LodgeMachine *machine,
                                       const Stop *stop, GError **error)
{
    gint64 limit = g_get_monotonic_time() + stop->timeout_s * G_USEC_PER_SEC;

    for (;;) {
        guint turn = lodge_bulk_turn(bulk);
        gint64 now = g_get_monotonic_time();

        if (lodge_machine_bulk_is(machine, LODGE_WISH_OFF)) {
            return LODGE_BULK_DONE;
        }
        if (now >= limit) {
            g_set_error(error, LODGE_ERROR, LODGE_ERROR_FAILED,
                        _("the guest has not shut down within %d s; “lodgectl destroy” ends it "
                          "at once"),
                        stop->timeout_s);
            return LODGE_BULK_FAILED;
        }
        if (!lodge_bulk_sleep(bulk, turn, MIN(limit, now + LOOK_AGAIN_US))) {
            g_set_error(error, LODGE_ERROR, LODGE_ERROR_FAILED,
                        _("was asked to shut down, and not waited for"));
            return LODGE_BULK_FAILED;
        }
    }
}

/* The calling thread's error says why the guest was not asked. */
static LodgeBulkOutcome explain_refusal(const LodgeMachine *machine, GError **error)
{
    gboolean by_state = lodge_connection_error_code() == VIR_ERR_OPERATION_INVALID;
    LodgeBulkOutcome outcome = lodge_machine_bulk_judge(
        machine, LODGE_WISH_OFF, _("cannot be shut down"), _("is shut off"), error);
    int state;

    if (outcome == LODGE_BULK_FAILED && by_state &&
        virDomainGetState(machine->domain, &state, NULL, 0) == 0 && state == VIR_DOMAIN_PAUSED) {
        g_clear_error(error);
        g_set_error_literal(error, LODGE_ERROR, LODGE_ERROR_FAILED,
                            _("is paused, and its guest cannot shut down; “lodgectl start” lets it "
                              "go on, “lodgectl destroy” ends it at once"));
    }
    return outcome;
}

static LodgeBulkOutcome stop_one(LodgeBulk *bulk, gpointer item, gpointer user_data, GError **error)
{
    LodgeMachine *machine = item;

    if (!machine->active) {
        return lodge_machine_bulk_spare(_("is shut off"), error);
    }
    if (virDomainShutdown(machine->domain) < 0) {
        return explain_refusal(machine, error);
    }
    return wait_until_off(bulk, machine, user_data, error);
}

static gboolean prepare(virConnectPtr connection, GPtrArray *machines, gboolean json,
                        gpointer user_data, GError **error)
{
    Stop *stop = user_data;

    (void)machines;
    (void)json;
    stop->connection = connection;
    if (stop->timeout_s < 1 || stop->timeout_s > TIMEOUT_MOST_S) {
        return lodge_error_refuse(error, _("--timeout %d: expected seconds from 1 to %d"),
                                  stop->timeout_s, TIMEOUT_MOST_S);
    }
    return TRUE;
}

int lodge_verb_stop(int argc, char **argv)
{
    Stop stop = {.timeout_s = TIMEOUT_DEFAULT_S, .callback = -1};
    const GOptionEntry own[] = {
        {"timeout", 0, 0, G_OPTION_ARG_INT, &stop.timeout_s,
         N_("how long to wait for each guest (default 60)"), N_("SECONDS")},
        {NULL},
    };
    const LodgeMachineBulk verb = {
        .help = {.verb = "stop",
                 .parameters = N_("NAME|GLOB…"),
                 .summary = N_("Asks the guests of running machines to shut down, as their power "
                               "button does, and waits."),
                 .max = LODGE_VERB_MANY,
                 /* They only sleep. */
                 .jobs = 64},
        .bulk = {.doing = N_("stopping"),
                 .done = N_("stopped"),
                 .act = stop_one,
                 .begin = begin,
                 .end = end},
        .own = own,
        .prepare = prepare,
        .user_data = &stop,
    };

    return lodge_machine_bulk_run(&verb, argc, argv);
}

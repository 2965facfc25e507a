/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Connections, on libvirt's own test driver: its machines, their states, and what goes wrong. */
#include "app/model/connection-item.h"
#include "app/model/machine-verb.h"

#include "client/machine-xml.h"
#include "loop.h"

#include <locale.h>

/* One machine, "test", that runs: it is there in every process, and only there. */
#define URI "test:///default"

static LodgeConnectionItem *opened(void)
{
    LodgeConnectionItem *item = lodge_connection_item_new(URI);

    g_assert_cmpint(lodge_connection_item_get_state(item), ==, LODGE_CONNECTION_CLOSED);
    lodge_connection_item_open(item);
    g_assert_cmpint(lodge_connection_item_get_state(item), ==, LODGE_CONNECTION_OPENING);
    LOOP_UNTIL(g_list_model_get_n_items(lodge_connection_item_get_machines(item)) > 0);
    return item;
}

static LodgeMachineItem *first(LodgeConnectionItem *item)
{
    g_autoptr(LodgeMachineItem) machine =
        g_list_model_get_item(lodge_connection_item_get_machines(item), 0);

    return machine;
}

static void do_to(LodgeMachineItem *machine, LodgeMachineVerb verb)
{
    g_autoptr(GPtrArray) machines = g_ptr_array_new();
    g_autoptr(LodgeJob) job = NULL;

    g_ptr_array_add(machines, machine);
    g_assert_cmpuint(lodge_machine_verb_count(verb, machines), ==, 1);
    job = lodge_machine_verb_job(verb, machines);
    g_assert_nonnull(job);
    lodge_job_run(job);
    LOOP_UNTIL(!lodge_job_is_running(job));
    g_assert_cmpstr(lodge_job_get_failures(job), ==, NULL);
}

static void count(GObject *object, GParamSpec *spec, guint *times)
{
    (void)object, (void)spec;
    (*times)++;
}

static void test_machines(void)
{
    g_autoptr(LodgeConnectionItem) item = opened();
    LodgeMachineItem *machine = first(item);

    g_assert_cmpint(lodge_connection_item_get_state(item), ==, LODGE_CONNECTION_OPEN);
    g_assert_null(lodge_connection_item_get_trouble(item));
    g_assert_cmpstr(lodge_connection_item_get_title(item), ==, "test default");
    g_assert_cmpstr(lodge_machine_item_get_name(machine), ==, "test");
    g_assert_cmpint(lodge_machine_item_get_state(machine), ==, VIR_DOMAIN_RUNNING);
    g_assert_cmpuint(lodge_machine_item_get_vcpus(machine), ==, 2);
    g_assert_cmpuint(lodge_machine_item_get_memory(machine), ==, G_GUINT64_CONSTANT(8) << 30);
    g_assert_cmpstr(lodge_machine_item_get_facts(machine), ==, "running · 2 vCPUs · 8.00 GiB");
    g_assert_true(lodge_connection_item_find(item, lodge_machine_item_get_uuid(machine)) ==
                  machine);
    g_assert_true(lodge_machine_item_get_connection(machine) == item);
}

/* The hypervisor's events tell of what others do; states follow, and nothing else is told of. */
static void test_states(void)
{
    g_autoptr(LodgeConnectionItem) item = opened();
    LodgeMachineItem *machine = first(item);
    guint states = 0, names = 0;

    g_signal_connect(machine, "notify::state", G_CALLBACK(count), &states);
    g_signal_connect(machine, "notify::name", G_CALLBACK(count), &names);
    do_to(machine, LODGE_VERB_PAUSE);
    LOOP_UNTIL(lodge_machine_item_get_state(machine) == VIR_DOMAIN_PAUSED);
    g_assert_cmpuint(states, ==, 1);
    do_to(machine, LODGE_VERB_RESUME);
    LOOP_UNTIL(lodge_machine_item_get_state(machine) == VIR_DOMAIN_RUNNING);
    do_to(machine, LODGE_VERB_FORCE_OFF);
    LOOP_UNTIL(lodge_machine_item_get_state(machine) == VIR_DOMAIN_SHUTOFF);
    do_to(machine, LODGE_VERB_START);
    LOOP_UNTIL(lodge_machine_item_get_state(machine) == VIR_DOMAIN_RUNNING);
    g_assert_cmpuint(names, ==, 0);
    g_assert_true(first(item) == machine);
}

/* One that comes, by somebody else's hand, is listed; deleted, it goes, running or not. */
static void test_come_and_go(void)
{
    static const char xml[] = "<domain type='test'><name>guest “1”</name><memory>65536</memory>"
                              "<vcpu>1</vcpu><os><type>hvm</type></os></domain>";
    g_autoptr(LodgeConnectionItem) item = opened();
    GListModel *machines = lodge_connection_item_get_machines(item);
    g_autoptr(virConnect) connection = lodge_connection_item_ref_connection(item);
    g_autoptr(virDomain) domain = virDomainDefineXML(connection, xml);
    g_autoptr(LodgeMachineItem) machine = NULL;

    g_assert_nonnull(domain);
    g_assert_cmpint(virDomainCreate(domain), ==, 0);
    LOOP_UNTIL(g_list_model_get_n_items(machines) == 2);
    machine = g_list_model_get_item(machines, 1);
    g_assert_cmpstr(lodge_machine_item_get_name(machine), ==, "guest “1”");
    LOOP_UNTIL(lodge_machine_item_get_state(machine) == VIR_DOMAIN_RUNNING);
    do_to(machine, LODGE_VERB_DELETE);
    LOOP_UNTIL(g_list_model_get_n_items(machines) == 1);
    g_assert_null(lodge_connection_item_find(item, lodge_machine_item_get_uuid(machine)));
}

/* The title says how many of how many; those that it does not fit are left alone. */
static void test_fits(void)
{
    g_autoptr(LodgeConnectionItem) item = opened();
    g_autoptr(GPtrArray) machines = g_ptr_array_new();
    g_autoptr(LodgeJob) job = NULL;
    LodgeMachineItem *machine = first(item);

    g_ptr_array_add(machines, machine);
    g_assert_cmpuint(lodge_machine_verb_count(LODGE_VERB_START, machines), ==, 0);
    g_assert_null(lodge_machine_verb_job(LODGE_VERB_START, machines));
    job = lodge_machine_verb_job(LODGE_VERB_PAUSE, machines);
    g_assert_cmpstr(lodge_job_get_title(job), ==, "Pausing: test");
    for (int verb = 0; verb < LODGE_MACHINE_VERBS; verb++) {
        g_assert_false(lodge_machine_verb_fits((LodgeMachineVerb)verb, VIR_DOMAIN_NOSTATE));
        g_assert_false(lodge_machine_verb_fits((LodgeMachineVerb)verb, 99));
        g_assert_false(lodge_machine_verb_fits((LodgeMachineVerb)verb, -1));
    }
}

/* A failure is the job's, with the name, the cause and the next step. */
static void test_refused(void)
{
    g_autoptr(LodgeConnectionItem) item = opened();
    g_autoptr(GPtrArray) machines = g_ptr_array_new();
    g_autoptr(LodgeJob) job = NULL;
    LodgeMachineItem *machine = first(item);
    virDomainPtr domain = lodge_machine_item_ref_domain(machine);

    g_ptr_array_add(machines, machine);
    job = lodge_machine_verb_job(LODGE_VERB_PAUSE, machines);
    g_assert_cmpint(virDomainSuspend(domain), ==, 0);
    lodge_job_run(job);
    LOOP_UNTIL(!lodge_job_is_running(job));
    g_assert_nonnull(lodge_job_get_failures(job));
    g_test_message("%s", lodge_job_get_failures(job));
    g_assert_true(g_str_has_prefix(lodge_job_get_failures(job), "test: It was not paused: "));
    g_assert_cmpint(virDomainResume(domain), ==, 0);
    virDomainFree(domain);
}

/* Machines of a closed connection are unknown, not gone; opened again they are the same objects. */
static void test_closed(void)
{
    g_autoptr(LodgeConnectionItem) item = opened();
    LodgeMachineItem *machine = first(item);

    lodge_connection_item_close(item);
    g_assert_cmpint(lodge_connection_item_get_state(item), ==, LODGE_CONNECTION_CLOSED);
    g_assert_cmpint(lodge_machine_item_get_state(machine), ==, VIR_DOMAIN_NOSTATE);
    g_assert_null(lodge_machine_item_ref_domain(machine));
    lodge_connection_item_open(item);
    LOOP_UNTIL(lodge_machine_item_get_state(machine) == VIR_DOMAIN_RUNNING);
    g_assert_true(first(item) == machine);
}

/* Closed while it is being opened: the answer that comes then opens nothing. */
static void test_closed_early(void)
{
    LodgeConnectionItem *item = lodge_connection_item_new(URI);
    gpointer weak = item;
    guint states = 0;

    lodge_connection_item_open(item);
    lodge_connection_item_close(item);
    g_signal_connect(item, "notify::state", G_CALLBACK(count), &states);
    g_object_add_weak_pointer(G_OBJECT(item), &weak);
    g_object_unref(item); /* its worker has it, until it has answered */
    g_assert_nonnull(weak);
    LOOP_UNTIL(weak == NULL);
    g_assert_cmpuint(states, ==, 0);
}

static void test_bad_uri(void)
{
    static const char *const uris[] = {"nonsense:///x", "no uri at all", "test:///nowhere/at/all",
                                       "lodge:///session?socket=/nonexistent"};

    for (guint i = 0; i < G_N_ELEMENTS(uris); i++) {
        g_autoptr(LodgeConnectionItem) item = lodge_connection_item_new(uris[i]);

        lodge_connection_item_open(item);
        LOOP_UNTIL(lodge_connection_item_get_state(item) == LODGE_CONNECTION_LOST);
        g_test_message("%s", lodge_connection_item_get_trouble(item));
        g_assert_true(
            g_str_has_prefix(lodge_connection_item_get_trouble(item), "No connection to "));
        /* It is tried again by itself. */
        LOOP_UNTIL(lodge_connection_item_get_state(item) == LODGE_CONNECTION_OPENING);
    }
}

/* Dropped at any moment of its life. */
static void test_dropped(void)
{
    for (guint turns = 0; turns < 6; turns++) {
        LodgeConnectionItem *item = lodge_connection_item_new(URI);
        gpointer weak = item;

        g_object_add_weak_pointer(G_OBJECT(item), &weak);
        lodge_connection_item_open(item);
        for (guint i = 0; i < turns; i++) {
            g_main_context_iteration(NULL, TRUE);
        }
        g_object_run_dispose(G_OBJECT(item));
        g_object_unref(item);
        LOOP_UNTIL(weak == NULL);
    }
}

int main(int argc, char **argv)
{
    setlocale(LC_ALL, "");
    g_test_init(&argc, &argv, NULL);
    g_assert_true(lodge_connection_prepare(LODGE_CONNECTION_EVENTS));
    g_test_add_func("/app/connection/machines", test_machines);
    g_test_add_func("/app/connection/states", test_states);
    g_test_add_func("/app/connection/come-and-go", test_come_and_go);
    g_test_add_func("/app/connection/fits", test_fits);
    g_test_add_func("/app/connection/refused", test_refused);
    g_test_add_func("/app/connection/closed", test_closed);
    g_test_add_func("/app/connection/closed-early", test_closed_early);
    g_test_add_func("/app/connection/bad-uri", test_bad_uri);
    g_test_add_func("/app/connection/dropped", test_dropped);
    return g_test_run();
}

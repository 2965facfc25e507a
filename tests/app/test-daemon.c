/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Models and console against a virtlodged (tests/app/with-daemon): real machines, a daemon that dies. */
#include "app/model/machine-verb.h"
#include "app/model/new-machines.h"
#include "app/pages/console-page.h"

#include "descendant.h"
#include "loop.h"

#include <vte/vte.h>

#include <locale.h>
#include <signal.h>

#define MIB (1024u * 1024u)

static LodgeConnectionItem *connection;

static LodgeMachineItem *find(const char *name)
{
    GListModel *machines = lodge_connection_item_get_machines(connection);

    for (guint i = 0; i < g_list_model_get_n_items(machines); i++) {
        g_autoptr(LodgeMachineItem) machine = g_list_model_get_item(machines, i);

        if (g_strcmp0(lodge_machine_item_get_name(machine), name) == 0) {
            return machine;
        }
    }
    return NULL;
}

static void finish(LodgeJob *job)
{
    lodge_job_run(job);
    LOOP_UNTIL(!lodge_job_is_running(job));
}

static void do_to(GPtrArray *machines, LodgeMachineVerb verb)
{
    g_autoptr(LodgeJob) job = lodge_machine_verb_job(verb, machines);

    g_assert_nonnull(job);
    finish(job);
    g_assert_cmpstr(lodge_job_get_failures(job), ==, NULL);
}

static gboolean all_are(GPtrArray *machines, int state)
{
    for (guint i = 0; i < machines->len; i++) {
        if (lodge_machine_item_get_state(machines->pdata[i]) != state) {
            return FALSE;
        }
    }
    return TRUE;
}

/* Twenty are made, start, and are deleted running, by three jobs. */
static void test_twenty(void)
{
    GListModel *model = lodge_connection_item_get_machines(connection);
    g_autofree char *kernel = g_strdup(g_getenv("LODGE_TEST_KERNEL"));
    LodgeNewMachines wanted = {.name = "web",
                               .count = 20,
                               .kernel = kernel,
                               .command_line = "payload=echo",
                               .vcpus = 1,
                               .memory_bytes = 16 * MIB};
    g_autoptr(GPtrArray) machines = g_ptr_array_new_with_free_func(g_object_unref);
    g_autoptr(GError) error = NULL;
    g_autoptr(LodgeJob) job = lodge_new_machines_job(&wanted, connection, &error);

    g_assert_no_error(error);
    finish(job);
    g_assert_cmpstr(lodge_job_get_failures(job), ==, NULL);
    LOOP_UNTIL(g_list_model_get_n_items(model) == 21);
    for (guint i = 0; i < 21; i++) {
        LodgeMachineItem *machine = g_list_model_get_item(model, i);

        if (g_str_has_prefix(lodge_machine_item_get_name(machine), "web-")) {
            g_ptr_array_add(machines, machine);
        } else {
            g_object_unref(machine);
        }
    }
    g_assert_cmpuint(machines->len, ==, 20);
    do_to(machines, LODGE_VERB_START);
    LOOP_UNTIL(all_are(machines, VIR_DOMAIN_RUNNING));
    g_assert_null(lodge_machine_verb_job(LODGE_VERB_START, machines));
    do_to(machines, LODGE_VERB_DELETE);
    LOOP_UNTIL(g_list_model_get_n_items(model) == 1);
}

/* A name that is taken, and fields that are wrong: refused before anything is made. */
static void test_refused(void)
{
    LodgeNewMachines wanted = {.name = "echo",
                               .count = 1,
                               .kernel = "/kernel",
                               .command_line = "",
                               .vcpus = 1,
                               .memory_bytes = 16 * MIB};
    const struct {
        const char *name, *kernel, *line;
        const char *says;
    } rows[] = {
        {"echo", "/kernel", "", "“echo” already"},
        {"a/b", "/kernel", "", "a/b"},
        {"", "/kernel", "", "empty"},
        {"new", NULL, "", "kernel"},
        {"new", "relative", "", "relative"},
        {"new", "/kernel", "a\nb", "U+000A"},
    };

    for (guint i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autoptr(GError) error = NULL;

        wanted.name = rows[i].name;
        wanted.kernel = rows[i].kernel;
        wanted.command_line = rows[i].line;
        g_assert_null(lodge_new_machines_job(&wanted, connection, &error));
        g_test_message("%s", error->message);
        g_assert_nonnull(strstr(error->message, rows[i].says));
    }
}

/* A kernel that is not there is the job's failure, with the cause; nothing is half made. */
static void test_no_kernel(void)
{
    LodgeNewMachines wanted = {.name = "none",
                               .count = 2,
                               .kernel = "/nonexistent/kernel",
                               .command_line = "",
                               .vcpus = 1,
                               .memory_bytes = 16 * MIB,
                               .start = TRUE};
    g_autoptr(LodgeJob) job = lodge_new_machines_job(&wanted, connection, NULL);
    g_autoptr(GPtrArray) machines = g_ptr_array_new();

    finish(job);
    g_test_message("%s", lodge_job_get_failures(job));
    g_assert_nonnull(strstr(lodge_job_get_failures(job), "none-1: "));
    g_assert_nonnull(strstr(lodge_job_get_failures(job), "/nonexistent/kernel"));
    LOOP_UNTIL(find("none-1") && find("none-2"));
    g_ptr_array_add(machines, find("none-1"));
    g_ptr_array_add(machines, find("none-2"));
    do_to(machines, LODGE_VERB_DELETE);
    LOOP_UNTIL(!find("none-1") && !find("none-2"));
}

static gboolean shows(VteTerminal *terminal, const char *wanted)
{
    g_autofree char *text = vte_terminal_get_text(terminal, NULL, NULL, NULL);

    return strstr(text, wanted) != NULL;
}

/* What is typed the guest gets and sends back; started again, it is connected again, text and all. */
static void test_console(void)
{
    g_autoptr(GPtrArray) machines = g_ptr_array_new();
    GtkWidget *window = gtk_window_new();
    GtkWidget *page = g_object_new(LODGE_TYPE_CONSOLE_PAGE, NULL);
    VteTerminal *terminal = VTE_TERMINAL(descendant(page, VTE_TYPE_TERMINAL, NULL));

    g_ptr_array_add(machines, find("echo"));
    gtk_window_set_default_size(GTK_WINDOW(window), 800, 400);
    gtk_window_set_child(GTK_WINDOW(window), page);
    gtk_window_present(GTK_WINDOW(window));
    lodge_console_page_set_machine(LODGE_CONSOLE_PAGE(page), machines->pdata[0]);
    for (guint turn = 1; turn <= 2; turn++) {
        g_autofree char *text = g_strdup_printf("turn %u of it", turn);

        do_to(machines, LODGE_VERB_START);
        LOOP_UNTIL(all_are(machines, VIR_DOMAIN_RUNNING));
        vte_terminal_feed_child(terminal, text, -1);
        LOOP_UNTIL(shows(terminal, text));
        do_to(machines, LODGE_VERB_FORCE_OFF);
        LOOP_UNTIL(all_are(machines, VIR_DOMAIN_SHUTOFF));
    }
    g_assert_true(shows(terminal, "turn 1 of it"));
    gtk_window_destroy(GTK_WINDOW(window));
}

/* One that hangs is told of, while the main thread goes on; what it knew stays. */
static void test_hangs(void)
{
    int daemon = atoi(g_getenv("LODGE_TEST_DAEMON"));

    g_assert_cmpint(kill(daemon, SIGSTOP), ==, 0);
    LOOP_UNTIL(lodge_connection_item_get_trouble(connection));
    g_assert_nonnull(strstr(lodge_connection_item_get_trouble(connection), "does not answer"));
    g_assert_cmpint(lodge_connection_item_get_state(connection), ==, LODGE_CONNECTION_OPEN);
    g_assert_cmpint(lodge_machine_item_get_state(find("echo")), ==, VIR_DOMAIN_SHUTOFF);
    g_assert_cmpint(kill(daemon, SIGCONT), ==, 0);
    LOOP_UNTIL(!lodge_connection_item_get_trouble(connection));
}

/* The last: killed, it is lost by itself, and its machines are unknown, not gone. */
static void test_killed(void)
{
    GListModel *model = lodge_connection_item_get_machines(connection);
    LodgeMachineItem *machine = find("echo");

    g_assert_cmpint(kill(atoi(g_getenv("LODGE_TEST_DAEMON")), SIGKILL), ==, 0);
    LOOP_UNTIL(lodge_connection_item_get_state(connection) == LODGE_CONNECTION_LOST);
    g_assert_nonnull(lodge_connection_item_get_trouble(connection));
    g_assert_cmpuint(g_list_model_get_n_items(model), ==, 1);
    g_assert_cmpint(lodge_machine_item_get_state(machine), ==, VIR_DOMAIN_NOSTATE);
    LOOP_UNTIL(lodge_connection_item_get_state(connection) == LODGE_CONNECTION_OPENING);
}

int main(int argc, char **argv)
{
    int status;

    setlocale(LC_ALL, "");
    gtk_test_init(&argc, &argv, NULL);
    adw_init();
    g_assert_true(lodge_connection_prepare(LODGE_CONNECTION_EVENTS));
    connection = lodge_connection_item_new(g_getenv("LODGE_TEST_URI"));
    lodge_connection_item_open(connection);
    LOOP_UNTIL(find("echo"));
    g_test_add_func("/app/daemon/twenty", test_twenty);
    g_test_add_func("/app/daemon/refused", test_refused);
    g_test_add_func("/app/daemon/no-kernel", test_no_kernel);
    g_test_add_func("/app/daemon/console", test_console);
    g_test_add_func("/app/daemon/hangs", test_hangs);
    g_test_add_func("/app/daemon/killed", test_killed);
    status = g_test_run();
    g_object_unref(connection);
    return status;
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The control daemon, from top to bottom:
 *
 *     options -> folder and lock -> definitions -> sockets -> machines that start by themselves -> loop
 *     -> sockets closed -> machines left to the next daemon -> calls answered -> clients cut off
 */
#include "common/file-lock.h"
#include "common/i18n.h"
#include "common/lodge-error.h"
#include "common/thread.h"
#include "daemon/client.h"
#include "daemon/dispatch.h"
#include "daemon/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <glib-unix.h>
#include <libxml/parser.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define WORKERS        16
#define TIMEOUT_MOST   86400

/* Of the open files, what clients' descriptors may take up. */
#define FD_GROUPS_PART 4

typedef struct {
    LodgeDaemon daemon;
    GPtrArray *listeners;
    char *folder;
    int lock;
    guint open_files; /* the most */
    GThread *starter;
    /* Options. */
    char *folder_option;
    int timeout;
    gboolean version;
} Program;

static gboolean parse_options(Program *program, int argc, char **argv, GError **error)
{
    const GOptionEntry entries[] = {
        {"timeout", 't', 0, G_OPTION_ARG_INT, &program->timeout,
         N_("End after so long without clients and machines that run"), N_("SECONDS")},
        {"runtime-dir", 0, 0, G_OPTION_ARG_FILENAME, &program->folder_option,
         N_("Where the sockets are, instead of $XDG_RUNTIME_DIR/libvirt (root: /run/libvirt)"),
         N_("FOLDER")},
        {"version", 0, 0, G_OPTION_ARG_NONE, &program->version, N_("Print the version"), NULL},
        {NULL, 0, 0, 0, NULL, NULL, NULL},
    };
    g_autoptr(GOptionContext) context = g_option_context_new(NULL);

    g_option_context_set_summary(context,
                                 _("The daemon behind lodge:///session: machines for virsh, "
                                   "virt-manager, lodgectl and every other client of libvirt."));
    g_option_context_add_main_entries(context, entries, NULL);
    if (!g_option_context_parse(context, &argc, &argv, error)) {
        return FALSE;
    }
    if (argc > 1) {
        return lodge_error_refuse(error, _("“%s” is no option of virtlodged; --help shows them"),
                                  argv[1]);
    }
    if (program->timeout < 0 || program->timeout > TIMEOUT_MOST) {
        return lodge_error_refuse(error, _("--timeout %d: it can be 1 to %d seconds; 0: none"),
                                  program->timeout, TIMEOUT_MOST);
    }
    program->daemon.timeout_s = (guint)program->timeout;
    return TRUE;
}

/* Connections, cores and clients' descriptors take many; nothing here is by select(). */
static gboolean raise_open_files(Program *program, GError **error)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &limit) == 0) {
            program->open_files = (guint)MIN(limit.rlim_cur, G_MAXINT);
            return TRUE;
        }
    }
    g_set_error(error, LODGE_ERROR, LODGE_ERROR_FAILED,
                _("Cannot raise the limit of open files: %s"), g_strerror(errno));
    return FALSE;
}

static gboolean make_folder(Program *program, GError **error)
{
    if (program->folder_option) {
        program->folder = g_strdup(program->folder_option);
    } else if (geteuid() == 0) {
        program->folder = g_strdup("/run/libvirt");
    } else {
        program->folder = g_build_filename(g_get_user_runtime_dir(), "libvirt", NULL);
    }
    if (g_mkdir_with_parents(program->folder, geteuid() == 0 ? 0755 : 0700) < 0) {
        g_set_error(error, LODGE_ERROR, LODGE_ERROR_FAILED, _("Cannot make the folder “%s”: %s"),
                    program->folder, g_strerror(errno));
        return FALSE;
    }
    return TRUE;
}

/* One daemon a folder. The lock goes with the process, however that ends. */
static gboolean take_lock(Program *program, GError **error)
{
    g_autofree char *path = g_build_filename(program->folder, "virtlodged.pid", NULL);
    g_autofree char *text = g_strdup_printf("%d\n", (int)getpid());

    program->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (program->lock < 0) {
        g_set_error(error, LODGE_ERROR, LODGE_ERROR_FAILED, _("Cannot open “%s”: %s"), path,
                    g_strerror(errno));
        return FALSE;
    }
    if (lodge_file_lock(program->lock) < 0) {
        g_set_error(error, LODGE_ERROR, LODGE_ERROR_FAILED,
                    _("Another virtlodged serves “%s” already: “%s” is locked by it"),
                    program->folder, path);
        return FALSE;
    }
    if (ftruncate(program->lock, 0) < 0 ||
        write(program->lock, text, strlen(text)) != (gssize)strlen(text)) {
        g_set_error(error, LODGE_ERROR, LODGE_ERROR_FAILED, _("Cannot write “%s”: %s"), path,
                    g_strerror(errno));
        return FALSE;
    }
    return TRUE;
}

static gboolean load(Program *program, GError **error)
{
    LodgeDaemon *daemon = &program->daemon;
    g_autofree char *folder = lodge_domain_store_default_folder();

    daemon->host = lodge_host_info_read("", error);
    if (!daemon->host) {
        return FALSE;
    }
    daemon->emulator = g_file_read_link("/proc/self/exe", NULL);
    daemon->store = lodge_domain_store_open(folder, error);
    if (!daemon->store) {
        return FALSE;
    }
    daemon->live = lodge_live_store_open(error);
    if (!daemon->live) {
        return FALSE;
    }
    daemon->hub = lodge_event_hub_new();
    daemon->fds = lodge_fd_groups_new(program->open_files / FD_GROUPS_PART);
    daemon->machines = lodge_machines_new(daemon->store, daemon->live, daemon->hub, daemon->fds);
    daemon->workers = g_thread_pool_new(lodge_dispatch_run, NULL, WORKERS, FALSE, error);
    return daemon->workers && lodge_machines_load(daemon->machines, error);
}

static gboolean open_sockets(Program *program, GError **error)
{
    int inherited = lodge_listener_take_inherited(&program->daemon, program->listeners, error);

    return inherited > 0 ||
           (inherited == 0 && lodge_listener_open_folder(&program->daemon, program->folder,
                                                         program->listeners, error));
}

static gpointer start_machines(gpointer data)
{
    LodgeDaemon *daemon = data;
    g_autoptr(GPtrArray) machines = lodge_machines_list(daemon->machines);

    for (guint i = 0; i < machines->len; i++) {
        g_auto(LodgeMachineView) view = {0};
        g_autoptr(GError) error = NULL;

        lodge_machine_view(machines->pdata[i], &view);
        if (view.autostart && !lodge_machine_start(machines->pdata[i], FALSE, &error)) {
            g_warning(_("Cannot start “%s” with the daemon: %s"), view.dom.name, error->message);
        }
    }
    return NULL;
}

static gboolean on_idle_long(gpointer data)
{
    LodgeDaemon *daemon = data;

    if (lodge_machines_count_active(daemon->machines) > 0) {
        return G_SOURCE_CONTINUE;
    }
    daemon->idle_source = 0;
    g_main_loop_quit(daemon->loop);
    return G_SOURCE_REMOVE;
}

void lodge_daemon_look_idle(LodgeDaemon *daemon)
{
    g_clear_handle_id(&daemon->idle_source, g_source_remove);
    if (daemon->timeout_s > 0 && daemon->clients->len == 0) {
        daemon->idle_source = g_timeout_add_seconds(daemon->timeout_s, on_idle_long, daemon);
    }
}

static gboolean on_signal(gpointer data)
{
    LodgeDaemon *daemon = data;

    g_main_loop_quit(daemon->loop);
    return G_SOURCE_CONTINUE;
}

static gboolean serve(Program *program, GError **error)
{
    LodgeDaemon *daemon = &program->daemon;

    if (!raise_open_files(program, error) || !make_folder(program, error) ||
        !take_lock(program, error) || !load(program, error) || !lodge_thread_reserve(error)) {
        return FALSE;
    }
    /* Before anybody can see that we are there. */
    g_unix_signal_add(SIGTERM, on_signal, daemon);
    g_unix_signal_add(SIGINT, on_signal, daemon);
    if (!open_sockets(program, error)) {
        return FALSE;
    }
    program->starter = lodge_thread_new("autostart", start_machines, daemon, error);
    if (!program->starter) {
        return FALSE;
    }
    lodge_daemon_look_idle(daemon);
    g_main_loop_run(daemon->loop);
    return TRUE;
}

static void clean_up(Program *program)
{
    LodgeDaemon *daemon = &program->daemon;

    g_ptr_array_unref(program->listeners);
    if (daemon->machines) {
        lodge_machines_leave(daemon->machines);
    }
    g_clear_pointer(&program->starter, g_thread_join);
    if (daemon->workers) {
        g_thread_pool_free(daemon->workers, FALSE, TRUE);
    }
    while (daemon->clients->len > 0) {
        lodge_client_close(daemon->clients->pdata[0]);
    }
    g_clear_handle_id(&daemon->idle_source, g_source_remove);
    g_clear_pointer(&daemon->machines, lodge_machines_free);
    g_clear_pointer(&daemon->hub, lodge_event_hub_free);
    g_clear_pointer(&daemon->fds, lodge_fd_groups_free);
    g_clear_pointer(&daemon->live, lodge_live_store_close);
    g_clear_pointer(&daemon->store, lodge_domain_store_close);
    g_clear_pointer(&daemon->host, lodge_host_info_free);
    g_free(daemon->emulator);
    g_ptr_array_unref(daemon->clients);
    g_main_loop_unref(daemon->loop);
    if (program->lock >= 0) {
        close(program->lock);
    }
    g_free(program->folder);
    g_free(program->folder_option);
}

int main(int argc, char **argv)
{
    Program program = {.lock = -1};
    g_autoptr(GError) error = NULL;
    gboolean good;

    setlocale(LC_ALL, "");
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    /* Before there are threads. */
    xmlInitParser();
    program.daemon.loop = g_main_loop_new(NULL, FALSE);
    program.daemon.clients = g_ptr_array_new();
    program.listeners = g_ptr_array_new_with_free_func((GDestroyNotify)lodge_listener_free);
    good = parse_options(&program, argc, argv, &error);
    if (good && program.version) {
        g_print("virtlodged %s\n", LODGE_VERSION);
    } else if (good) {
        good = serve(&program, &error);
    }
    clean_up(&program);
    if (!good) {
        g_printerr("virtlodged: %s\n", error->message);
    }
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

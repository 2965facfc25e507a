/* SPDX-License-Identifier: GPL-3.0-or-later */
/* g_spawn_async_with_pipes_and_fds(), and a pipe that says "ready" or why not. */
#include "wire/core-launch.h"

#include "common/i18n.h"
#include "common/lodge-error.h"
#include "common/program.h"
#include "wire/core-scope.h"

#include <errno.h>
#include <fcntl.h>
#include <glib-unix.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

/* In the core. */
#define READY_FD   3
#define READY_LINE "ready\n"
#define START_MS   10000
/* One that is just ending is connected to, and does not answer: then there is none at the second try.
 * Another's that is just beginning is locked, and there at the third. */
#define TRIES      5
#define AGAIN_US   20000

static const char *pool_of(const LodgeCoreLaunch *launch)
{
    return launch->pool ? launch->pool : "default";
}

char *lodge_core_launch_path(const LodgeCoreLaunch *launch)
{
    g_autofree char *name = g_strdup_printf("core-%s.sock", pool_of(launch));
    const char *runtime = g_getenv("XDG_RUNTIME_DIR");

    if (!runtime) {
        runtime = geteuid() == 0 ? "/run" : g_get_user_runtime_dir();
    }
    return g_build_filename(runtime, "lodge", name, NULL);
}

/* PREFIX/sbin/virtlodged has PREFIX/libexec/lodge/lodge-core beside it, and src/daemon/virtlodged of a
 * build tree what was built with it. A client that starts the daemon leaves it no variable that could say
 * so. */
static const char *const beside[] = {"../libexec/lodge/lodge-core", "../../hv-core/main/lodge-core",
                                     NULL};

static char *find_program(void)
{
    const char *given = g_getenv("LODGE_CORE");
    char *path = given ? g_strdup(given) : lodge_program_find_beside(beside);

    return path ? path : g_strdup(LODGE_LIBEXECDIR "/lodge-core");
}

static char **make_arguments(const LodgeCoreLaunch *launch, const char *program)
{
    g_autoptr(GStrvBuilder) builder = g_strv_builder_new();
    g_autofree char *memory = g_strdup_printf("%" G_GUINT64_FORMAT, launch->memory_bytes);
    g_autofree char *workers = g_strdup_printf("%u", launch->workers);
    g_autofree char *linger = g_strdup_printf("%u", launch->linger_s);

    g_strv_builder_add_many(builder, program, "--ready-fd", G_STRINGIFY(READY_FD), "--pool",
                            pool_of(launch), "--linger", linger, NULL);
    if (launch->memory_bytes) {
        g_strv_builder_add_many(builder, "--memory", memory, NULL);
    }
    if (launch->workers) {
        g_strv_builder_add_many(builder, "--workers", workers, NULL);
    }
    return g_strv_builder_end(builder);
}

/* Between fork() and exec(): nobody's terminal ends it. */
static void leave_session(gpointer user_data)
{
    (void)user_data;
    setsid();
}

/* What it says until it is ready, or ends: at most a line. */
static char *read_line(int fd)
{
    GString *line = g_string_new("");
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    char part[256];
    gssize got = 1;

    while (got > 0 && line->len < 4096 && !strchr(line->str, '\n')) {
        int ready = poll(&readable, 1, START_MS);

        if (ready < 0 && errno == EINTR) {
            continue;
        }
        got = ready > 0 ? read(fd, part, sizeof(part)) : 0;
        g_string_append_len(line, part, MAX(got, 0));
    }
    return g_string_free(line, FALSE);
}

/* A unit that is stopped takes all its processes along, and a session that ends may. */
static void leave_unit(const LodgeCoreLaunch *launch, GPid pid)
{
    g_autoptr(GError) error = NULL;

    if (!lodge_core_scope_start(pool_of(launch), pid, &error)) {
        g_message(_("The core “%s” (process %d) has no systemd scope of its own, and may end with "
                    "its starter's: %s"),
                  pool_of(launch), (int)pid, error->message);
    }
}

static gboolean spawn(const LodgeCoreLaunch *launch, const char *program, int ready, GPid *pid_out,
                      GError **error)
{
    g_auto(GStrv) arguments = make_arguments(launch, program);
    g_autoptr(GError) cause = NULL;
    const gint target = READY_FD;

    /* Without G_SPAWN_DO_NOT_REAP_CHILD it is nobody's child. */
    if (!g_spawn_async_with_pipes_and_fds(
            "/", (const gchar *const *)arguments, NULL, G_SPAWN_DEFAULT, leave_session, NULL, -1,
            -1, STDERR_FILENO, &ready, &target, 1, pid_out, NULL, NULL, NULL, &cause)) {
        g_set_error(error, LODGE_ERROR, LODGE_ERROR_FAILED, _("Cannot start the core “%s”: %s"),
                    program, cause->message);
        return FALSE;
    }
    return TRUE;
}

/* FALSE when it could not be started. That another runs already is no failure. */
static gboolean start(const LodgeCoreLaunch *launch, GError **error)
{
    g_autofree char *program = find_program();
    g_autofree char *line = NULL;
    gboolean spawned;
    int ready[2];
    GPid pid;

    if (!g_unix_open_pipe(ready, FD_CLOEXEC, error)) {
        return FALSE;
    }
    spawned = spawn(launch, program, ready[1], &pid, error);
    close(ready[1]);
    if (spawned) {
        /* While it starts. */
        leave_unit(launch, pid);
    }
    line = spawned ? read_line(ready[0]) : NULL;
    close(ready[0]);
    if (!spawned) {
        return FALSE;
    }
    if (strcmp(line, READY_LINE) == 0 || strstr(line, "runs already")) {
        return TRUE;
    }
    g_set_error(error, LODGE_ERROR, LODGE_ERROR_FAILED, _("The core “%s” did not start: %s"),
                program, *line ? g_strchomp(line) : _("it ended, or said nothing for 10 seconds"));
    return FALSE;
}

/* One more would but find that this one runs. */
static void refuse_version(const LodgeCoreLaunch *launch, const char *path, const GError *cause,
                           GError **error)
{
    g_set_error(error, LODGE_ERROR, LODGE_ERROR_VERSION,
                _("The core of the pool “%s” is of another version of Lodge, and may run machines: "
                  "%s. End its machines with the version that started them, or the process that "
                  "listens at “%s” with all of them, and try again"),
                pool_of(launch), cause->message, path);
}

struct hv_core *lodge_core_launch_open(const LodgeCoreLaunch *launch, const LodgeCoreEvents *events,
                                       gpointer user_data, GError **error)
{
    g_autofree char *path = lodge_core_launch_path(launch);
    g_autoptr(GError) cause = NULL;
    struct hv_core *core = NULL;

    for (guint i = 0; !core && i < TRIES; i++) {
        g_clear_error(&cause);
        core = lodge_core_client_connect(path, events, user_data, &cause);
        if (g_error_matches(cause, LODGE_ERROR, LODGE_ERROR_VERSION)) {
            refuse_version(launch, path, cause, error);
            return NULL;
        }
        if (!core && !start(launch, error)) {
            return NULL;
        }
        if (!core && i > 0) {
            g_usleep(AGAIN_US);
        }
    }
    if (!core) {
        g_propagate_error(error, g_steal_pointer(&cause));
    }
    return core;
}

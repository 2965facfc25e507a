/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Two asynchronous steps, connect and call, on a main context of their own, until a limit. */
#include "wire/core-scope.h"

#include "common/i18n.h"
#include "common/lodge-error.h"

#include <errno.h>
#include <gio/gio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define LIMIT_MS  2000
/* Descriptors that asking takes: of two main contexts (GDBus has one), the socket, what is in between. */
#define FDS_TAKEN 8

typedef struct {
    const char *pool;
    GPid pid;
    GCancellable *cancellable; /* cancelled at the limit */
    gboolean done;
    GError *cause; /* why it has no scope */
} Request;

static void take_reply(GObject *source, GAsyncResult *result, gpointer data)
{
    Request *request = data;
    g_autoptr(GVariant) job =
        g_dbus_connection_call_finish(G_DBUS_CONNECTION(source), result, &request->cause);

    (void)job;
    request->done = TRUE;
}

/* StartTransientUnit(name, mode, properties, auxiliary units) */
static GVariant *make_arguments(const Request *request)
{
    g_autofree char *name =
        g_strdup_printf("lodge-core-%s-%d.scope", request->pool, (int)request->pid);
    g_autofree char *description = g_strdup_printf("Machines of Lodge's pool %s", request->pool);
    const guint32 pid = (guint32)request->pid;
    GVariantBuilder properties;

    g_variant_builder_init(&properties, G_VARIANT_TYPE("a(sv)"));
    g_variant_builder_add(&properties, "(sv)", "Description", g_variant_new_string(description));
    g_variant_builder_add(&properties, "(sv)", "CollectMode",
                          g_variant_new_string("inactive-or-failed"));
    g_variant_builder_add(&properties, "(sv)", "PIDs",
                          g_variant_new_fixed_array(G_VARIANT_TYPE_UINT32, &pid, 1, sizeof(pid)));
    return g_variant_new("(ssa(sv)a(sa(sv)))", name, "fail", &properties, NULL);
}

static void take_connection(GObject *source, GAsyncResult *result, gpointer data)
{
    Request *request = data;
    g_autoptr(GDBusConnection) connection =
        g_dbus_connection_new_for_address_finish(result, &request->cause);

    (void)source;
    if (!connection) {
        request->done = TRUE;
        return;
    }
    g_dbus_connection_call(connection, "org.freedesktop.systemd1", "/org/freedesktop/systemd1",
                           "org.freedesktop.systemd1.Manager", "StartTransientUnit",
                           make_arguments(request), G_VARIANT_TYPE("(o)"),
                           G_DBUS_CALL_FLAGS_NO_AUTO_START, -1, request->cancellable, take_reply,
                           request);
}

static gboolean on_limit(gpointer data)
{
    const Request *request = data;

    g_cancellable_cancel(request->cancellable);
    return G_SOURCE_REMOVE;
}

/* GLib ends a process that has no descriptor for a main context. It is more than is needed: other threads
 * may take some meanwhile. */
static gboolean has_descriptors(GError **error)
{
    int fds[FDS_TAKEN], count = 0, cause = 0;

    while (count < FDS_TAKEN && cause == 0) {
        fds[count] = eventfd(0, EFD_CLOEXEC);
        cause = fds[count] < 0 ? errno : 0;
        count += cause == 0;
    }
    while (count > 0) {
        close(fds[--count]);
    }
    if (cause != 0) {
        g_set_error(error, LODGE_ERROR, LODGE_ERROR_FAILED,
                    _("asking the user's systemd takes %d descriptors, which are not left: %s"),
                    FDS_TAKEN, g_strerror(cause));
    }
    return cause == 0;
}

/* Its own: nobody else's callbacks run meanwhile, on whatever thread this is. */
static void ask(const char *address, Request *request)
{
    g_autoptr(GMainContext) context = g_main_context_new();
    g_autoptr(GSource) limit = g_timeout_source_new(LIMIT_MS);

    g_main_context_push_thread_default(context);
    g_source_set_callback(limit, on_limit, request, NULL);
    g_source_attach(limit, context);
    g_dbus_connection_new_for_address(address,
                                      G_DBUS_CONNECTION_FLAGS_AUTHENTICATION_CLIENT |
                                          G_DBUS_CONNECTION_FLAGS_MESSAGE_BUS_CONNECTION,
                                      NULL, request->cancellable, take_connection, request);
    while (!request->done) {
        g_main_context_iteration(context, TRUE);
    }
    g_source_destroy(limit);
    g_main_context_pop_thread_default(context);
}

/* NULL: there is no bus. */
static char *find_bus(void)
{
    const char *given = g_getenv("DBUS_SESSION_BUS_ADDRESS");
    const char *runtime = g_getenv("XDG_RUNTIME_DIR");
    g_autofree char *path = runtime ? g_build_filename(runtime, "bus", NULL) : NULL;

    if (given && *given) {
        return g_strdup(given);
    }
    if (path && g_file_test(path, G_FILE_TEST_EXISTS)) {
        g_autofree char *escaped = g_dbus_address_escape_value(path);

        return g_strdup_printf("unix:path=%s", escaped);
    }
    return NULL;
}

/* There is a bus, and no systemd on it. */
static gboolean is_no_manager(const GError *cause)
{
    return g_error_matches(cause, G_DBUS_ERROR, G_DBUS_ERROR_SERVICE_UNKNOWN) ||
           g_error_matches(cause, G_DBUS_ERROR, G_DBUS_ERROR_NAME_HAS_NO_OWNER);
}

gboolean lodge_core_scope_start(const char *pool, GPid pid, GError **error)
{
    g_autofree char *address = find_bus();
    g_autoptr(GCancellable) cancellable = g_cancellable_new();
    Request request = {.pool = pool, .pid = pid, .cancellable = cancellable};
    g_autoptr(GError) cause = NULL;

    if (!address) {
        return TRUE;
    }
    if (!has_descriptors(error)) {
        return FALSE;
    }
    ask(address, &request);
    cause = request.cause;
    if (!cause || is_no_manager(cause)) {
        return TRUE;
    }
    if (g_cancellable_is_cancelled(cancellable)) {
        g_set_error(error, LODGE_ERROR, LODGE_ERROR_FAILED,
                    _("the user's systemd did not answer within %d s on “%s”"), LIMIT_MS / 1000,
                    address);
    } else {
        g_dbus_error_strip_remote_error(cause);
        g_set_error(error, LODGE_ERROR, LODGE_ERROR_FAILED,
                    _("the user's systemd gives it none, on “%s”: %s"), address, cause->message);
    }
    return FALSE;
}

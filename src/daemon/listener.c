/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Listening, and accepting who may come. */
#include "daemon/listener.h"

#include "common/i18n.h"
#include "common/lodge-error.h"
#include "daemon/client.h"

#include <errno.h>
#include <glib-unix.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG         128
/* By sd_listen_fds(3). */
#define INHERITED_FIRST 3
#define INHERITED_MOST  16
#define CLIENTS_MAX     1000u
/* Without descriptors, or with too many clients: when to try again. */
#define ACCEPT_RETRY_S  1u

struct _LodgeListener {
    LodgeDaemon *daemon;
    int fd;
    char *path; /* NULL: not made here */
    gboolean read_only;
    guint source, retry;
};

static gboolean on_connection(gint fd, GIOCondition condition, gpointer data);

static gboolean listen_again(gpointer data)
{
    LodgeListener *listener = data;

    listener->retry = 0;
    listener->source = g_unix_fd_add(listener->fd, G_IO_IN, on_connection, listener);
    return G_SOURCE_REMOVE;
}

/* Whose process is it? This user's and root's alone may come. */
static gboolean may_come(int fd)
{
    struct ucred peer;
    socklen_t length = sizeof(peer);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
           (peer.uid == geteuid() || peer.uid == 0);
}

static gboolean on_connection(gint fd, GIOCondition condition, gpointer data)
{
    LodgeListener *listener = data;
    gboolean full = listener->daemon->clients->len >= CLIENTS_MAX;
    int client = full ? -1 : accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    (void)condition;
    if (client >= 0 && may_come(client)) {
        lodge_client_new(listener->daemon, client, listener->read_only);
    } else if (client >= 0) {
        close(client);
    } else if (full || errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
        /* It would be told again and again. */
        listener->source = 0;
        listener->retry = g_timeout_add_seconds(ACCEPT_RETRY_S, listen_again, listener);
        return G_SOURCE_REMOVE;
    }
    return G_SOURCE_CONTINUE;
}

static void add(LodgeDaemon *daemon, int fd, const char *path, gboolean read_only,
                GPtrArray *listeners)
{
    LodgeListener *listener = g_new0(LodgeListener, 1);

    *listener =
        (LodgeListener){.daemon = daemon, .fd = fd, .path = g_strdup(path), .read_only = read_only};
    listener->source = g_unix_fd_add(fd, G_IO_IN, on_connection, listener);
    g_ptr_array_add(listeners, listener);
}

static gboolean fail(const char *path, int cause, GError **error)
{
    g_set_error(error, LODGE_ERROR, LODGE_ERROR_FAILED, _("Cannot listen on the socket “%s”: %s"),
                path, g_strerror(cause));
    return FALSE;
}

static gboolean open_path(LodgeDaemon *daemon, const char *path, gboolean read_only,
                          GPtrArray *listeners, GError **error)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    mode_t before;
    int fd, rc, cause;

    if (g_strlcpy(address.sun_path, path, sizeof(address.sun_path)) >= sizeof(address.sun_path)) {
        return fail(path, ENAMETOOLONG, error);
    }
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return fail(path, errno, error);
    }
    if (unlink(path) < 0 && errno != ENOENT) {
        cause = errno;
        close(fd);
        return fail(path, cause, error);
    }
    /* From the first moment, nobody else can connect. */
    before = umask(0177);
    rc = bind(fd, (struct sockaddr *)&address, sizeof(address));
    cause = errno;
    umask(before);
    if (rc == 0) {
        rc = listen(fd, BACKLOG);
        cause = errno;
    }
    if (rc < 0) {
        close(fd);
        return fail(path, cause, error);
    }
    add(daemon, fd, path, read_only, listeners);
    return TRUE;
}

gboolean lodge_listener_open_folder(LodgeDaemon *daemon, const char *folder, GPtrArray *listeners,
                                    GError **error)
{
    g_autofree char *path = g_build_filename(folder, "virtlodged-sock", NULL);
    g_autofree char *path_ro = g_build_filename(folder, "virtlodged-sock-ro", NULL);

    return open_path(daemon, path, FALSE, listeners, error) &&
           open_path(daemon, path_ro, TRUE, listeners, error);
}

/* A number in the environment; 0 when there is none. */
static guint64 environment_number(const char *name)
{
    const char *text = g_getenv(name);
    guint64 number = 0;

    if (text && !g_ascii_string_to_unsigned(text, 10, 0, G_MAXINT, &number, NULL)) {
        return 0;
    }
    return number;
}

static gboolean take_inherited(LodgeDaemon *daemon, int fd, GPtrArray *listeners, GError **error)
{
    struct sockaddr_un address = {0};
    socklen_t length = sizeof(address);
    int listening = 0;
    socklen_t size = sizeof(listening);

    if (getsockname(fd, (struct sockaddr *)&address, &length) < 0 ||
        address.sun_family != AF_UNIX ||
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) < 0 || !listening) {
        return lodge_error_refuse(error,
                                  _("The descriptor %d, which came by LISTEN_FDS, is no UNIX "
                                    "socket that listens"),
                                  fd);
    }
    /* The path may fill its room and then has no end. */
    address.sun_path[sizeof(address.sun_path) - 1] = '\0';
    g_unix_set_fd_nonblocking(fd, TRUE, NULL);
    add(daemon, fd, NULL, g_str_has_suffix(address.sun_path, "-ro"), listeners);
    return TRUE;
}

int lodge_listener_take_inherited(LodgeDaemon *daemon, GPtrArray *listeners, GError **error)
{
    guint64 count = MIN(environment_number("LISTEN_FDS"), INHERITED_MOST);

    if (environment_number("LISTEN_PID") != (guint64)getpid()) {
        return 0;
    }
    for (int i = 0; i < (int)count; i++) {
        if (!take_inherited(daemon, INHERITED_FIRST + i, listeners, error)) {
            return -1;
        }
    }
    return (int)count;
}

void lodge_listener_free(LodgeListener *listener)
{
    g_clear_handle_id(&listener->source, g_source_remove);
    g_clear_handle_id(&listener->retry, g_source_remove);
    close(listener->fd);
    if (listener->path) {
        unlink(listener->path);
    }
    g_free(listener->path);
    g_free(listener);
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Checks along the way that the client library takes to the daemon. */
#include "cli/daemon-checks.h"

#include "cli/connection.h"
#include "client/autostart.h"
#include "common/i18n.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define SOCKET_NAME "libvirt/virtlodged-sock"
/* Root's daemon, as all of libvirt's, has its sockets here whatever XDG_RUNTIME_DIR says: so does the
 * client library look for them. Its cores' are in the runtime directory, as everybody's. */
#define ROOT_FOLDER "/run"

/* Where the daemon's socket is, and the cores'; NULL and a finding when it is of no use. */
static const char *check_runtime_directory(LodgeFindings *findings)
{
    const char *folder = g_getenv("XDG_RUNTIME_DIR");
    const char *step =
        _("Log in by a session that has one (pam_systemd), or export XDG_RUNTIME_DIR as "
          "a directory of yours with mode 0700.");
    struct stat status;

    if (!folder && geteuid() == 0) {
        lodge_findings_add(findings, "runtime-directory", LODGE_FINDING_NOTE,
                           _("Nothing to do: root's daemon and its cores have their sockets "
                             "in “/run” then."),
                           _("Runtime directory: XDG_RUNTIME_DIR is not set"));
        return NULL;
    }
    if (!folder || folder[0] != '/') {
        lodge_findings_add(findings, "runtime-directory", LODGE_FINDING_PROBLEM, step,
                           _("Runtime directory: XDG_RUNTIME_DIR is %s"),
                           folder ? _("no absolute path") : _("not set"));
        return NULL;
    }
    if (stat(folder, &status) < 0) {
        lodge_findings_add(findings, "runtime-directory", LODGE_FINDING_PROBLEM, step,
                           _("Runtime directory: “%s”: %s"), folder, g_strerror(errno));
        return NULL;
    }
    if (!S_ISDIR(status.st_mode) || status.st_uid != geteuid() || (status.st_mode & 077) != 0 ||
        access(folder, W_OK | X_OK) < 0) {
        lodge_findings_add(findings, "runtime-directory", LODGE_FINDING_PROBLEM, step,
                           _("Runtime directory: “%s” is not a directory that is yours, can be "
                             "written, and is closed to others (owner %u, mode %04o)"),
                           folder, (guint)status.st_uid, (guint)status.st_mode & 07777u);
        return NULL;
    }
    if (geteuid() == 0) {
        lodge_findings_add(findings, "runtime-directory", LODGE_FINDING_GOOD, NULL,
                           _("Runtime directory: “%s”, where cores have their sockets; root's "
                             "daemon has its own in “/run/libvirt”"),
                           folder);
    } else {
        lodge_findings_add(findings, "runtime-directory", LODGE_FINDING_GOOD, NULL,
                           _("Runtime directory: “%s”"), folder);
    }
    return folder;
}

static void check_program(LodgeFindings *findings)
{
    g_autofree char *path = lodge_autostart_find();

    if (path) {
        lodge_findings_add(findings, "daemon-program", LODGE_FINDING_GOOD, NULL,
                           _("Daemon: “%s” is installed"), path);
    } else {
        lodge_findings_add(
            findings, "daemon-program", LODGE_FINDING_PROBLEM,
            _("Install it, or set VIRTD_PATH to the folder that it is in. “lodgectl run” "
              "needs none."),
            _("Daemon: there is no program “virtlodged”"));
    }
}

/* 0, or the errno with which nobody answers at the socket. */
static int knock(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd, rc;

    if (strlen(path) >= sizeof(address.sun_path)) {
        return ENAMETOOLONG;
    }
    g_strlcpy(address.sun_path, path, sizeof(address.sun_path));
    /* A daemon whose queue is full does not hold us. */
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    rc = fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ? errno : 0;
    if (fd >= 0) {
        close(fd);
    }
    return rc;
}

static void check_socket(LodgeFindings *findings, const char *folder)
{
    g_autofree char *path =
        g_build_filename(geteuid() == 0 ? ROOT_FOLDER : folder, SOCKET_NAME, NULL);
    int why = knock(path);

    switch (why) {
    case 0:
        lodge_findings_add(findings, "socket", LODGE_FINDING_GOOD, NULL,
                           _("Socket: a daemon listens at “%s”"), path);
        break;
    case ENOENT:
        lodge_findings_add(
            findings, "socket", LODGE_FINDING_NOTE,
            _("The first command that needs the daemon starts it, if it is installed."),
            _("Socket: there is no “%s” yet"), path);
        break;
    case ECONNREFUSED:
        lodge_findings_add(findings, "socket", LODGE_FINDING_NOTE,
                           _("Nothing to do: the next daemon takes its place."),
                           _("Socket: “%s” was left by a daemon that has gone"), path);
        break;
    default:
        lodge_findings_add(findings, "socket", LODGE_FINDING_PROBLEM,
                           why == ENAMETOOLONG ? _("Use a runtime directory with a shorter path.")
                           : why == EAGAIN ? _("Wait, or restart the daemon: it is busy or hangs.")
                                           : _("Make it accessible to you, or take it away."),
                           _("Socket: “%s”: %s"), path, g_strerror(why));
    }
}

static void check_connection(LodgeFindings *findings, const char *uri)
{
    const char *name = uri ? uri : LODGE_CONNECTION_DEFAULT;
    g_autofree char *why = NULL;
    g_autoptr(virConnect) connection = lodge_connection_try(uri, LODGE_CONNECTION_CALLS, &why);
    unsigned long version = 0, library = 0;
    const char *type = connection ? virConnectGetType(connection) : NULL;
    g_autofree char *its = NULL, *protocol = NULL;

    if (!connection) {
        lodge_findings_add(findings, "connection", LODGE_FINDING_PROBLEM,
                           _("See what is wrong above; or name another URI by --connect."),
                           _("Connection: “%s”: %s"), name, why);
        return;
    }
    virConnectGetVersion(connection, &version);
    virConnectGetLibVersion(connection, &library);
    its = lodge_connection_version_text(version);
    protocol = lodge_connection_version_text(library);
    lodge_findings_add(findings, "connection", LODGE_FINDING_GOOD, NULL,
                       _("Connection: “%s” answers: %s %s, libvirt's protocol %s"), name,
                       type ? type : "?", its, protocol);
    if (g_strcmp0(type, "Lodge") == 0 && strcmp(its, LODGE_VERSION) != 0) {
        lodge_findings_add(findings, "version", LODGE_FINDING_NOTE,
                           _("Restart the daemon when its machines allow it."),
                           _("Version: the daemon is of %s, this program of %s"), its,
                           LODGE_VERSION);
    }
}

void lodge_daemon_check(LodgeFindings *findings, const char *uri)
{
    const char *folder = check_runtime_directory(findings);

    if (!uri) {
        check_program(findings);
        if (folder || geteuid() == 0) {
            check_socket(findings, folder);
        }
    }
    check_connection(findings, uri);
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Finding virtlodged, and starting it as the client library does. */
#include "client/autostart.h"

#include "common/program.h"

#include <unistd.h>

#define PROGRAM     "virtlodged"
#define IDLE_OPTION "--timeout=120" /* what the library gives it */

/* PREFIX/bin/lodgectl has PREFIX/sbin/virtlodged beside it. */
static const char *const beside[] = {"../sbin/" PROGRAM, NULL};

static char *take_executable(char *path)
{
    if (path && access(path, X_OK) < 0) {
        g_clear_pointer(&path, g_free);
    }
    return path;
}

char *lodge_autostart_find(void)
{
    const char *chosen = g_getenv("VIRTD_PATH");
    char *path;

    if (chosen) {
        return take_executable(g_build_filename(chosen, PROGRAM, NULL));
    }
    path = lodge_program_find_beside(beside);
    if (!path) {
        path = take_executable(g_strdup("/usr/sbin/" PROGRAM));
    }
    return path ? path : g_find_program_in_path(PROGRAM);
}

void lodge_autostart_announce(void)
{
    g_autofree char *path = lodge_autostart_find();
    g_autofree char *folder = path ? g_path_get_dirname(path) : NULL;

    if (folder) {
        g_setenv("VIRTD_PATH", folder, FALSE);
    }
}

/* In the child: nothing of ours ends it, neither Ctrl-C nor the terminal's end. */
static void leave_session(gpointer data)
{
    (void)data;
    (void)setsid();
}

gboolean lodge_autostart_root(void)
{
    g_autofree char *path = geteuid() == 0 ? lodge_autostart_find() : NULL;
    char *command[] = {path, (char[]){IDLE_OPTION}, NULL};

    return path && g_spawn_async("/", command, NULL,
                                 G_SPAWN_STDOUT_TO_DEV_NULL | G_SPAWN_STDERR_TO_DEV_NULL,
                                 leave_session, NULL, NULL, NULL);
}

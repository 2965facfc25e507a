/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A scope that is asked for when there are no descriptors left: GLib would end the process. */
#include "lib/tap.h"

#include "wire/core-scope.h"

#include <fcntl.h>
#include <glib.h>
#include <sys/resource.h>
#include <unistd.h>

/* Room for @left more descriptors. */
static gboolean ask(gint left, GError **error)
{
    int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
    struct rlimit before, limit;
    gboolean started;

    close(next);
    getrlimit(RLIMIT_NOFILE, &before);
    limit = before;
    limit.rlim_cur = (rlim_t)(next + left);
    setrlimit(RLIMIT_NOFILE, &limit);
    started = lodge_core_scope_start("default", getpid(), error);
    setrlimit(RLIMIT_NOFILE, &before);
    return started;
}

static void test_no_descriptors(void)
{
    g_setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere/bus", TRUE);
    /* What is asked before stays open, so that there is less room than it says: at the ends it is sure. */
    for (gint left = 0; left < 64; left++) {
        g_autoptr(GError) error = NULL;

        TAP_OK(!ask(left, &error));
        TAP_OK(error != NULL);
        if (left < 8 || left >= 32) {
            TAP_EQ(g_strrstr(error->message, "descriptors") != NULL, left < 8);
        }
    }
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"wire.core-scope.no-descriptors", test_no_descriptors},
    };

    return tap_run(argc, argv, cases, G_N_ELEMENTS(cases));
}

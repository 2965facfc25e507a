/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A serial port to a file: what it holds when the port is closed, and what is left alone. */
#include "daemon/console-file.h"

#include "lib/tap.h"

#include <glib/gstdio.h>
#include <hv/domain.h>
#include <string.h>

static char *folder, *path;

static void begin(const char *content)
{
    folder = g_dir_make_tmp("lodge-port-XXXXXX", NULL);
    path = g_build_filename(folder, "port", NULL);
    if (content) {
        TAP_OK(g_file_set_contents(path, content, -1, NULL));
    }
}

static void end(void)
{
    g_unlink(path);
    g_rmdir(folder);
    g_clear_pointer(&path, g_free);
    g_clear_pointer(&folder, g_free);
}

static void holds(const char *wanted)
{
    g_autofree char *content = NULL;

    TAP_OK(g_file_get_contents(path, &content, NULL, NULL));
    TAP_STR(content, wanted);
}

static gsize say(LodgeConsoleRing *ring, const char *text)
{
    return lodge_console_ring_ops.write(ring, (const uint8_t *)text, strlen(text));
}

/* @position: of the first byte of @text, for a daemon that goes on; negative: it starts the machine. */
static void write_port(gboolean append, gint64 position, const char *text)
{
    g_autoptr(LodgeConsoleRing) ring = lodge_console_ring_new();
    LodgeConsoleFile *file = lodge_console_file_open(path, append, NULL);

    TAP_OK(file);
    if (position >= 0) {
        lodge_console_file_skip(file, (guint64)position);
    }
    /* Before there is a reader, and while there is one. */
    TAP_EQ(say(ring, text), strlen(text));
    TAP_OK(lodge_console_file_start(file, ring, NULL, NULL));
    TAP_EQ(say(ring, "."), 1);
    lodge_console_file_close(file);
    /* From then on it is the core's to keep. */
    TAP_EQ(say(ring, "late"), 0);
}

static void test_start(void)
{
    begin("before");
    write_port(FALSE, -1, "abc");
    holds("abc.");
    write_port(TRUE, -1, "def");
    holds("abc.def.");
    end();
}

/* What the core gives again is not written again. */
static void test_go_on(void)
{
    begin("abcdef");
    write_port(TRUE, 6, "ghi");
    holds("abcdefghi.");
    write_port(TRUE, 4, "efghi.jkl");
    holds("abcdefghi.jkl.");
    /* Some was lost before; or somebody has cut the file. */
    write_port(TRUE, 100, "mno");
    holds("abcdefghi.jkl.mno.");
    end();
}

static void test_left_alone(void)
{
    g_autoptr(GError) error = NULL;

    begin("precious");
    lodge_console_file_close(lodge_console_file_open(path, FALSE, NULL));
    holds("precious");
    TAP_OK(!lodge_console_file_open("/dev/null", FALSE, &error));
    TAP_OK(error && strstr(error->message, "/dev/null"));
    end();
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"daemon.console-file.start", test_start},
        {"daemon.console-file.go-on", test_go_on},
        {"daemon.console-file.left-alone", test_left_alone},
    };

    return tap_run(argc, argv, cases, G_N_ELEMENTS(cases));
}

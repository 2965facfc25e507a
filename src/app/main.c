/* SPDX-License-Identifier: GPL-3.0-or-later */
/* lodge: the application's start. */
#include "app/application.h"

#include "common/i18n.h"

#include <locale.h>

int main(int argc, char **argv)
{
    g_autoptr(LodgeApplication) application = NULL;
    g_autofree char *why = NULL;

    setlocale(LC_ALL, "");
    bindtextdomain("lodge", LODGE_LOCALE_DIR);
    bind_textdomain_codeset("lodge", "UTF-8");
    textdomain("lodge");
    /* Before there are threads: it sets an environment variable. */
    if (!lodge_connection_prepare(LODGE_CONNECTION_EVENTS)) {
        why = lodge_connection_error_text();
        g_printerr(_("lodge: The library of libvirt does not start: %s\n"), why);
        return 1;
    }
    application = lodge_application_new();
    return g_application_run(G_APPLICATION(application), argc, argv);
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The kernel knows where this program lies: its first word need not say it. Source: proc(5). */
#include "common/program.h"

char *lodge_program_find_beside(const char *const *places)
{
    g_autofree char *self = g_file_read_link("/proc/self/exe", NULL);
    g_autofree char *folder = self ? g_path_get_dirname(self) : NULL;

    for (gsize i = 0; folder && places[i]; i++) {
        g_autofree char *path = g_build_filename(folder, places[i], NULL);

        if (g_file_test(path, G_FILE_TEST_IS_EXECUTABLE)) {
            return g_steal_pointer(&path);
        }
    }
    return NULL;
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Finding a widget in a window, as a test sees it. */
#pragma once

#include <gtk/gtk.h>

/* The first of a type at or under @widget; with @label, the first button that says it. NULL: none. */
static inline GtkWidget *descendant(GtkWidget *widget, GType type, const char *label)
{
    if (g_type_is_a(G_OBJECT_TYPE(widget), type) &&
        (!label || g_strcmp0(gtk_button_get_label(GTK_BUTTON(widget)), label) == 0)) {
        return widget;
    }
    for (GtkWidget *child = gtk_widget_get_first_child(widget); child;
         child = gtk_widget_get_next_sibling(child)) {
        GtkWidget *found = descendant(child, type, label);

        if (found) {
            return found;
        }
    }
    return NULL;
}

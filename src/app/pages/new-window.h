/* SPDX-License-Identifier: GPL-3.0-or-later */
/* "New Machines": one or many alike, on a connection that is open. What is wrong is said at its field. */
#pragma once

#include "app/application.h"

#define LODGE_TYPE_NEW_WINDOW (lodge_new_window_get_type())
G_DECLARE_FINAL_TYPE(LodgeNewWindow, lodge_new_window, LODGE, NEW_WINDOW, AdwWindow)

/** Gone when its machines are being made, or with the application's window. */
GtkWidget *lodge_new_window_new(LodgeApplication *application);

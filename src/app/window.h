/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The window: at the left the machines of all connections, at the right what is selected.
 *
 * Actions "win.new-machines", "win.search", "win.sort" (a string: name, state, cpu), "win.try-again";
 * "machines.start" and so on act on the selected machines, as a job that the popover lists.
 */
#pragma once

#include "app/application.h"

#define LODGE_TYPE_WINDOW (lodge_window_get_type())
G_DECLARE_FINAL_TYPE(LodgeWindow, lodge_window, LODGE, WINDOW, AdwApplicationWindow)

LodgeWindow *lodge_window_new(LodgeApplication *application);

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The serial console of a machine. It connects by itself whenever the machine runs, through reboots;
 * what was there to be read stays. Ctrl+Alt gives the keyboard back to the window, always.
 */
#pragma once

#include "app/model/machine-item.h"

#include <adwaita.h>

#define LODGE_TYPE_CONSOLE_PAGE (lodge_console_page_get_type())
G_DECLARE_FINAL_TYPE(LodgeConsolePage, lodge_console_page, LODGE, CONSOLE_PAGE, AdwBin)

/** NULL: none. */
void lodge_console_page_set_machine(LodgeConsolePage *page, LodgeMachineItem *machine);

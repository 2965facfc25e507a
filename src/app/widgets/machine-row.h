/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A machine in the list: its state by shape, its name whole or with a tooltip, a line of facts, its CPU. */
#pragma once

#include "app/model/machine-item.h"

#include <gtk/gtk.h>

#define LODGE_TYPE_MACHINE_ROW (lodge_machine_row_get_type())
G_DECLARE_FINAL_TYPE(LodgeMachineRow, lodge_machine_row, LODGE, MACHINE_ROW, GtkWidget)

/** NULL: none. */
void lodge_machine_row_set_machine(LodgeMachineRow *row, LodgeMachineItem *machine);

/** The icon of a virDomainState: each has a shape of its own. */
const char *lodge_machine_row_state_icon(int state);

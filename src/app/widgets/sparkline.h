/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The last minute of a machine's CPU share as bars, newest at the right; drawn anew once a look, and
 * not at all while it is not shown.
 */
#pragma once

#include "app/model/machine-item.h"

#include <gtk/gtk.h>

#define LODGE_TYPE_SPARKLINE (lodge_sparkline_get_type())
G_DECLARE_FINAL_TYPE(LodgeSparkline, lodge_sparkline, LODGE, SPARKLINE, GtkWidget)

/** Of which machine; NULL: of none. */
void lodge_sparkline_set_machine(LodgeSparkline *sparkline, LodgeMachineItem *machine);

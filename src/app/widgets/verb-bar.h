/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A button for each verb, saying how many of the machines it fits: "Start 7". They activate the actions
 * "machines.start" and so on of whatever is around them. Verbs that fit none are insensitive.
 */
#pragma once

#include "app/model/machine-verb.h"

#include <gtk/gtk.h>

#define LODGE_TYPE_VERB_BAR (lodge_verb_bar_get_type())
G_DECLARE_FINAL_TYPE(LodgeVerbBar, lodge_verb_bar, LODGE, VERB_BAR, GtkWidget)

/** Say it of these now. @machines of LodgeMachineItem, borrowed. */
void lodge_verb_bar_show(LodgeVerbBar *bar, GPtrArray *machines);

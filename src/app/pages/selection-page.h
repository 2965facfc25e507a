/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What is selected when it is more than one machine: how many in which state, sums, and what can be done. */
#pragma once

#include "app/model/machine-item.h"

#include <adwaita.h>

#define LODGE_TYPE_SELECTION_PAGE (lodge_selection_page_get_type())
G_DECLARE_FINAL_TYPE(LodgeSelectionPage, lodge_selection_page, LODGE, SELECTION_PAGE, AdwBin)

/** @machines of LodgeMachineItem, borrowed. */
void lodge_selection_page_show(LodgeSelectionPage *page, GPtrArray *machines);

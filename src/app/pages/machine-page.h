/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One machine: what it is, what it does, and what can be done to it. */
#pragma once

#include "app/model/machine-item.h"

#include <adwaita.h>

#define LODGE_TYPE_MACHINE_PAGE (lodge_machine_page_get_type())
G_DECLARE_FINAL_TYPE(LodgeMachinePage, lodge_machine_page, LODGE, MACHINE_PAGE, AdwBin)

/** NULL: none. It is followed from then on. */
void lodge_machine_page_set_machine(LodgeMachinePage *page, LodgeMachineItem *machine);

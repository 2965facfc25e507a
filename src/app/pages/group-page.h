/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A table of one group of a machine's statistics, live: a row a timer, or a row a lock. */
#pragma once

#include "app/model/machine-item.h"

#include <adwaita.h>

#define LODGE_TYPE_GROUP_PAGE (lodge_group_page_get_type())
G_DECLARE_FINAL_TYPE(LodgeGroupPage, lodge_group_page, LODGE, GROUP_PAGE, AdwBin)

typedef enum {
    LODGE_GROUP_TEXT,
    LODGE_GROUP_NUMBER,
    LODGE_GROUP_SPAN, /* ns */
} LodgeGroupKind;

typedef struct {
    const char *key;   /* behind "timer.0." */
    const char *title; /* marked by N_() */
    LodgeGroupKind kind;
} LodgeGroupColumn;

#define LODGE_GROUP_COLUMNS_MOST 16u

/**
 * What it shows; once, before anything else.
 *
 * @group    "timer", of which there are "timer.count"; static, as @columns, LODGE_GROUP_COLUMNS_MOST at
 *           most, and @lacking are: what is said of a hypervisor without the group, marked by N_().
 */
void lodge_group_page_set_group(LodgeGroupPage *page, const char *group,
                                const LodgeGroupColumn *columns, guint count, const char *lacking);

/** NULL: none, and nothing is asked. */
void lodge_group_page_set_machine(LodgeGroupPage *page, LodgeMachineItem *machine);

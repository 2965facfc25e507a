/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A bar on standard error, where that is a terminal; nothing elsewhere. */
#pragma once

#include <glib.h>

typedef struct {
    gboolean present; /* standard error is a terminal */
    gboolean drawn;
} LodgeProgress;

void lodge_progress_init(LodgeProgress *progress);

/** Draw it, over what was drawn: "starting [####····] 4 of 10  web-3". @label may be NULL. */
void lodge_progress_draw(LodgeProgress *progress, guint done, guint all, const char *doing,
                         const char *label);

/** Take it away, before a line is printed and at the end. */
void lodge_progress_clear(LodgeProgress *progress);

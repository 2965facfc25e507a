/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What consoles say, those of all machines of a case together. Any thread may call anything. */
#pragma once

#include <glib.h>
#include <hv/domain.h>

/** Takes as much as there is room for. */
extern const struct hv_console_ops capture_ops;

/** Forget what there was; @room bytes may come. */
void capture_begin(gsize room);
/** From now on, so many more. */
void capture_set_room(gsize room);

/** Takes a byte at a time, once in a process, and the first not before capture_slow_go(). */
extern const struct hv_console_ops capture_slow_ops;

bool capture_slow_begun(void);
void capture_slow_go(void);
/** Bytes it has taken. */
int capture_slow_taken(void);

bool capture_is(const char *text);
bool capture_holds(const char *text);

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Translation of user-visible strings: _("…") at run time, N_("…") for tables. */
#pragma once

#include <libintl.h>

#define _(text)  gettext(text)
#define N_(text) text

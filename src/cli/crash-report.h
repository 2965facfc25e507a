/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What a person sees of a guest that crashed. */
#pragma once

#include <hv/domain.h>

#include <glib.h>

/** Registers, the last blocks and the code at RIP disassembled, as lines. Free with g_free(). */
char *lodge_crash_report_format(const struct hv_crash_report *report);

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Statistics of a machine as libvirt's typed parameters. Names are those of docs/stats.md; a type is
 * libvirt's where libvirt has the name, else 64 bits or a text.
 */
#pragma once

#include "daemon/machine.h"
#include "wire/libvirt.h"

/** What there is of the groups in @mask (VIR_DOMAIN_STATS_…); 0: all. */
void lodge_stat_params_fill(LodgeMachine *machine, guint mask, lv_domain_stats *stats_out);

/** The groups that there is anything of. */
guint lodge_stat_params_groups(void);

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Strategies of virtual timers that were shipped or look right, and are wrong: what those of
 * platform/vpt-strategy.h must be better than. Each is caught by a script of
 * tests/unit/platform/test-vpt-strategy.c and a variant of tests/model/vpt.pml.
 *
 *   legacy         who locks a timer reads its vCPU, and reads it again to unlock it; a move takes the
 *                  new vCPU's lock alone (Xen before XSA-336: unlocks a lock it does not hold)
 *   remember-only  the unlocker remembers what was locked, but nobody looks whether that was right: a
 *                  tick that fell due amid a move is noted where the timer is no more
 */
#pragma once

#include "platform/vpt-strategy.h"

extern const struct hv_vpt_strategy vpt_legacy, vpt_remember_only;

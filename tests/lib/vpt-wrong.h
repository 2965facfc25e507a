/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Strategies of virtual timers that were shipped or look right, and are wrong: what those of
 * platform/vpt-strategy.h must be better than. Each is caught by a script of
 * tests/unit/platform/test-vpt-strategy.c, the first two by a variant of tests/model/vpt.pml, too.
 *
 *   legacy         who locks a timer reads its vCPU, and reads it again to unlock it; a move takes the
 *                  new vCPU's lock alone (Xen before XSA-336: unlocks a lock it does not hold)
 *   remember-only  the unlocker remembers what was locked, but nobody looks whether that was right: a
 *                  tick that fell due amid a move is noted where the timer is no more
 *   spinning       as `pend`, but who finds a timer in nobody's list looks again and again: while the
 *                  mover waits for its CPU, that is this one's slice
 */
#pragma once

#include "platform/vpt-strategy.h"

extern const struct hv_vpt_strategy vpt_legacy, vpt_remember_only, vpt_spinning;

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Flush strategies for foreign mappings that were shipped or proposed and are wrong: what the right
 * ones (mem/foreign-strategy-private.h) must be better than. Each is caught by a script of
 * tests/unit/mem/test-foreign-strategy.c, a loop of tests/litmus/test-foreign.c and a variant of
 * tests/model/foreign.pml.
 *
 *   none          the owner's TLBs alone are flushed
 *   clear-all     a change of type takes the whole mask of mappers and clears it: one that is
 *                 filtered by its own frame's stamp eats the bit that another frame still needs
 *   clear-after   the flushed bits are cleared after the flush: a bit set in between is lost
 *   clear-before  … before the flush, but no lock is held: a second change finds the bit gone while
 *                 the flush is on its way
 */
#pragma once

#include "mem/foreign-strategy-private.h"

extern const struct hv_foreign_strategy foreign_none, foreign_clear_all, foreign_clear_after,
    foreign_clear_before;

#define FOREIGN_WRONG 4
extern const struct hv_foreign_strategy *const foreign_wrong[FOREIGN_WRONG];

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Taking a domain apart, as a coroutine: where it stands is a phase and a cursor in the domain, and
 * after each unit of work, a few hundred pages at most, it may be left and entered again, by any
 * thread. One thread at a time: the reaper sees to that.
 *
 * Each phase bears that what it undoes was never made, so that create goes the same way when it
 * fails, from the phase that undoes what it made last.
 */
#pragma once

#include "sync/atomic.h"

#include <hv/teardown.h>

struct hv_domain;

struct hv_teardown {
    /* Atomic: written by who takes it apart, read by anybody. */
    _Atomic uint32_t phase; /* enum hv_teardown_phase */
    _Atomic uint64_t total_frames;
    _Atomic uint64_t began_ns, ended_ns; /* of giving the pages back; 0: not yet */
    /* Owned by who takes it apart: how far the phase came. */
    uint64_t cursor;
};

/**
 * Go on with a domain that is dying, until about @frames are given back, or @end.
 *
 * Returns 0 when nothing is left; -EAGAIN when it is to be called again; -EBUSY when it can go on
 * only after an event, of which the reaper is told (hv_reaper_wake()).
 * Context: no lock held.
 */
HV_MUST_CHECK int hv_teardown_step(struct hv_domain *domain, uint64_t frames, hv_ns end);

/** Take apart a domain that nobody knows yet, from @phase on. */
void hv_teardown_undo(struct hv_domain *domain, enum hv_teardown_phase phase);

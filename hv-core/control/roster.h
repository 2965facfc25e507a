/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The machines that controllers have made: which of them are whole, what their consoles say, and what
 * of them is still to be told.
 *
 *     (making) --add--> half made --keep--> kept
 *     half made --the lease ends: undo--> killed
 *     killed --the core's reaper--> gone --next_event tells it--> forgotten
 *
 * Each entry holds a reference on its domain. The list turns as events are taken from it, so that none
 * waits for one that always has something to say.
 */
#pragma once

#include "base/list.h"
#include "control/console-ring.h"
#include "sync/lock.h"

#include <hv/op.h>

struct hv_roster {
    struct hv_core *core; /* borrowed */
    struct hv_lock lock;  /* HV_RANK_CONTROL */
    /* Guarded by &lock. */
    struct hv_list entries;
};

struct hv_roster_entry;

void hv_roster_init(struct hv_roster *roster, struct hv_core *core);
/** Kill all, and forget them. */
void hv_roster_finish(struct hv_roster *roster);

/**
 * Make a machine, half made until it is kept; with @create->console its maker is attached.
 *
 * Returns 0 and *made_out, or what hv_domain_create() says, with its reason.
 */
HV_MUST_CHECK int hv_roster_create(struct hv_roster *roster, const struct hv_op_create *create,
                                   struct hv_op_made *made_out, char *why, size_t why_size);

/** It is whole. -ENOENT: there is none of that handle. */
HV_MUST_CHECK int hv_roster_keep(struct hv_roster *roster, hv_handle handle);

/** Send a machine's output. -ENOENT; -ENOTSUP: it was made without a console. */
HV_MUST_CHECK int hv_roster_attach(struct hv_roster *roster, hv_handle handle,
                                   uint64_t *position_out);
/** Output has arrived. -ENOENT, -ENOTSUP; -EINVAL: more than was sent. */
HV_MUST_CHECK int hv_roster_accept(struct hv_roster *roster, hv_handle handle, uint64_t position);

/** The lease has ended, and no request is at work: detach all, and kill those that are half made. */
void hv_roster_end_lease(struct hv_roster *roster);

/** Those of ids above that of @after, by rising id. */
void hv_roster_list(struct hv_roster *roster, hv_handle after, struct hv_op_listing *listing_out);

/** How many there are, killed ones too. */
size_t hv_roster_count(struct hv_roster *roster);

/**
 * What is to be told next. Who gets it tells it, if there is anybody to tell.
 *
 * Returns the event's length, in *event_out but for its serial; 0: nothing.
 * Context: no lock held. One caller at a time.
 */
HV_MUST_CHECK size_t hv_roster_next_event(struct hv_roster *roster, struct hv_op_answer *event_out);
/** Whether it is that a machine is gone. */
bool hv_roster_is_last(const struct hv_op_answer *event);

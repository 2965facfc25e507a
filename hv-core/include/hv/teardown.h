/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * How far a killed domain has been taken apart, and who keeps it from being gone. Both are asked of a
 * domain one has a reference on, dying or not.
 */
#pragma once

#include <hv/types.h>

struct hv_domain;

/* In this order; where it may take long, what it waits for or works at. */
enum hv_teardown_phase {
    HV_TEARDOWN_NONE,    /* nobody has killed it */
    HV_TEARDOWN_LEAVING, /* vCPUs and control threads are on their way out of it */
    HV_TEARDOWN_DEVICES, /* and their timers */
    HV_TEARDOWN_VCPUS,
    HV_TEARDOWN_CODE, /* what the engine translated */
    HV_TEARDOWN_PAGES,
    HV_TEARDOWN_TABLES, /* that said where the pages were */
    HV_TEARDOWN_HELD,   /* others hold pages of it: a zombie */
    HV_TEARDOWN_DONE,
};
#define HV_TEARDOWN_PHASES (HV_TEARDOWN_DONE + 1)

struct hv_teardown_info {
    enum hv_teardown_phase phase;
    uint64_t pages_total; /* that it had when it was killed; alive: that it has */
    uint64_t pages_left;  /* of them, not given back yet */
    uint64_t pages_held;  /* mapped by others at present: a zombie's come back with these */
    uint64_t pages_per_s; /* while they were given back, the waits for other domains' turns too */
};

/** Takes no lock; each value is true of some moment of the call. */
void hv_domain_get_teardown(struct hv_domain *domain, struct hv_teardown_info *info_out);

/* Who keeps pages of a domain mapped. */
struct hv_foreign_hold {
    char mapper[32];
    uint64_t frames; /* pages, as often as it has them mapped */
};

/**
 * Who holds pages of it: "12 pages held by migration worker 3".
 *
 * Returns how many do; at most @max are written to @holds. Locks: HV_RANK_LEAF.
 */
size_t hv_domain_get_holds(struct hv_domain *domain, struct hv_foreign_hold *holds, size_t max);

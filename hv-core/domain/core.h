/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One core: the arena, the workers and the domains on them. */
#pragma once

#include "base/clock.h"
#include "base/list.h"
#include "mem/arena.h"
#include "sched/sched.h"
#include "sync/lock-registry.h"
#include "sync/lock.h"

#include <hv/domain.h>

struct hv_upkeep;

struct hv_core {
    struct hv_lock_owner locks; /* those that are no domain's */
    /* Set at creation, owned. */
    struct hv_clock clock;
    struct hv_arena *arena;
    struct hv_upkeep *upkeep; /* of its free memory */
    struct hv_sched *sched;
    struct hv_lock domlist; /* HV_RANK_DOMLIST */
    /* Guarded by &domlist. */
    struct hv_list domains;
    uint16_t next_id;
    uint64_t next_generation;
    unsigned domain_count;
};

/* Ids 1 to 65,000; 0 and the top are never a guest's (HV_OWNER_NONE). */
#define HV_CORE_DOMAINS_MAX 65000u

/** Give @domain an id, a generation and a place in the list. -ENOSPC when all ids are in use. */
HV_MUST_CHECK int hv_core_link(struct hv_core *core, struct hv_domain *domain);
void hv_core_unlink(struct hv_core *core, struct hv_domain *domain);

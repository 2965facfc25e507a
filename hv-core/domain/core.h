/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One core: the arena, the workers and the domains on them. */
#pragma once

#include "base/clock.h"
#include "domain/directory.h"
#include "domain/reaper.h"
#include "mem/arena.h"
#include "sched/sched.h"
#include "sync/eventcount.h"
#include "sync/lock-registry.h"

#include <hv/domain.h>

struct hv_host_watch;
struct hv_stat_export;
struct hv_upkeep;

struct hv_core {
    struct hv_lock_owner locks; /* those that are no domain's */
    /* Set at creation, owned. */
    struct hv_clock clock;
    struct hv_arena *arena;
    struct hv_upkeep *upkeep; /* of its free memory */
    struct hv_sched *sched;
    struct hv_reaper *reaper;
    struct hv_directory directory;
    struct hv_host_watch *host_watch;
    struct hv_stat_export *stat_export; /* NULL: none was asked for */

    struct hv_eventcount changes; /* signalled after each change of a domain's state */
};

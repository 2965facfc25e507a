/* SPDX-License-Identifier: GPL-3.0-or-later */
/* See vpt-counted.h. */
#include "lib/vpt-counted.h"

#include <string.h>

#include "base/assert.h"
#include "sync/race.h"

#define LINES 1024u

static struct vpt_trace *recording;

static void note(const void *address, bool writes, bool rmw)
{
    if (recording) {
        HV_BUG_ON(recording->count == VPT_TRACE_MAX);
        recording->access[recording->count].address = address;
        recording->access[recording->count].writes = writes;
        recording->access[recording->count++].rmw = rmw;
    }
}

/* What the strategies use, under names that they will take for it. */

static void counted_rmw(const void *address)
{
    note(address, true, true);
}

#define hv_lock_take(lock)         counted_rmw(lock)
#define hv_lock_drop(lock)         counted_rmw(lock)
#define hv_lock_take_pair(a, b)    (counted_rmw(a), counted_rmw(b))
#define hv_rwlock_take_read(lock)  counted_rmw(lock)
#define hv_rwlock_drop_read(lock)  counted_rmw(lock)
#define hv_rwlock_take_write(lock) counted_rmw(lock)
#define hv_rwlock_drop_write(lock) counted_rmw(lock)
#undef hv_load_acquire
#define hv_load_acquire(place)       (note(place, false, false), *(place))
#define hv_timer_rehome(timer, into) ((void)(timer), (void)(into))
#define hv_vpt_unlink_locked         counted_unlink_locked
#define hv_vpt_link_locked           counted_link_locked
#define hv_vpt_pend                  counted_pend
#define hv_vpt_strategies            counted_strategies

bool counted_unlink_locked(struct hv_vpt *vpt, struct hv_vpt_vcpu *from);
void counted_link_locked(struct hv_vpt *vpt, struct hv_vpt_vcpu *to, bool pending);
extern const struct hv_vpt_strategy counted_pend;
extern const struct hv_vpt_strategy *const counted_strategies[];

#include "platform/vpt-strategy.c"

const struct hv_vpt_strategy *vpt_counted_strategy(const char *name)
{
    for (unsigned i = 0; i < HV_VPT_STRATEGIES; i++) {
        if (strcmp(counted_strategies[i]->name, name) == 0) {
            return counted_strategies[i];
        }
    }
    return NULL;
}

void vpt_trace_exit(struct hv_vpt_vcpu *vcpu, struct vpt_trace *trace_out)
{
    const struct hv_vpt_strategy *strategy = vcpu->set->strategy;

    trace_out->count = 0;
    recording = trace_out;
    if (strategy->enter_vcpu(vcpu)) {
        strategy->unlock_vcpu(vcpu);
    }
    recording = NULL;
}

/* Who has a line: the one who wrote it last, until another writes, or reads. */
struct line {
    uintptr_t address;
    unsigned writer; /* plus 1; 0: nobody, or several that only read */
    bool shared;
};

static struct line *line_of(struct line *lines, const void *address)
{
    uintptr_t number = (uintptr_t)address / HV_CACHE_LINE;
    unsigned at = (unsigned)(number * UINT64_C(0x9e3779b97f4a7c15) >> 54) % LINES;

    while (lines[at].address != 0 && lines[at].address != number) {
        at = (at + 1) % LINES;
    }
    lines[at].address = number;
    return &lines[at];
}

static bool transfers(struct line *line, unsigned vcpu, bool writes)
{
    bool had = line->writer == vcpu + 1;
    bool others = (line->writer != 0 && !had) || (writes && line->shared);

    if (writes) {
        line->writer = vcpu + 1;
        line->shared = false;
    } else if (!had) {
        line->shared = true;
        line->writer = 0;
    }
    return others;
}

struct vpt_counted vpt_count_exits(struct hv_vpt_set *set, unsigned rounds)
{
    struct line lines[LINES] = {{0}};
    struct vpt_counted counted = {0};
    struct vpt_trace trace;
    unsigned steps = 1;

    HV_BUG_ON(set->count > 256);
    for (unsigned round = 0; round < rounds; round++) {
        for (unsigned step = 0; step < steps; step++) {
            for (unsigned i = 0; i < set->count; i++) {
                vpt_trace_exit(set->vcpu[i], &trace);
                steps = trace.count > steps ? trace.count : steps;
                if (step >= trace.count) {
                    continue;
                }
                /* The first round brings lines to where they belong. */
                if (transfers(line_of(lines, trace.access[step].address), i,
                              trace.access[step].writes) &&
                    round > 0) {
                    counted.transfers += 1;
                }
                counted.rmw += round > 0 && trace.access[step].rmw;
            }
        }
    }
    counted.transfers /= (double)(rounds - 1) * set->count;
    counted.rmw /= (double)(rounds - 1) * set->count;
    return counted;
}

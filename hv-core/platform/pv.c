/* SPDX-License-Identifier: GPL-3.0-or-later */
/* MSRs of the paravirtual interface and the areas they stand for: see pv.h. */
#include "platform/pv.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "sync/race.h"

/* Numbers of asm/kvm_para.h. */
enum pv_msr {
    PV_MSR_WALL_CLOCK_OLD = 0x11,
    PV_MSR_CLOCK_OLD = 0x12,
    PV_MSR_WALL_CLOCK = 0x4b564d00,
    PV_MSR_CLOCK = 0x4b564d01,
    PV_MSR_STEAL_TIME = 0x4b564d03,
    PV_MSR_EOI = 0x4b564d04,
    PV_MSR_POLL_CONTROL = 0x4b564d05,
};

#define PV_ENABLED        UINT64_C(1)
#define PV_STEAL_RESERVED UINT64_C(0x3e)
#define PV_EOI_RESERVED   UINT64_C(2)

static bool pv_msr_shown(const struct hv_pv *pv, uint32_t index)
{
    switch ((enum pv_msr)index) {
    case PV_MSR_WALL_CLOCK_OLD:
    case PV_MSR_CLOCK_OLD:
        return hv_pv_has(pv, HV_PV_CLOCKSOURCE);
    case PV_MSR_WALL_CLOCK:
    case PV_MSR_CLOCK:
        return hv_pv_has(pv, HV_PV_CLOCKSOURCE2);
    case PV_MSR_STEAL_TIME:
        return hv_pv_has(pv, HV_PV_STEAL_TIME);
    case PV_MSR_EOI:
        return hv_pv_has(pv, HV_PV_EOI);
    case PV_MSR_POLL_CONTROL:
        return hv_pv_has(pv, HV_PV_POLL_CONTROL);
    }
    return false;
}

int hv_pv_msr_read(const struct hv_pv *pv, unsigned vcpu, uint32_t index, uint64_t *value_out)
{
    const struct hv_pv_vcpu *v = &pv->vcpu[vcpu];

    if (!pv_msr_shown(pv, index)) {
        return -ENOENT;
    }
    switch ((enum pv_msr)index) {
    case PV_MSR_WALL_CLOCK_OLD:
    case PV_MSR_WALL_CLOCK:
        *value_out = hv_load_relaxed(&pv->wall_msr);
        break;
    case PV_MSR_CLOCK_OLD:
    case PV_MSR_CLOCK:
        *value_out = v->clock_msr;
        break;
    case PV_MSR_STEAL_TIME:
        *value_out = v->steal_msr;
        break;
    case PV_MSR_EOI:
        *value_out = v->eoi_msr;
        break;
    case PV_MSR_POLL_CONTROL:
        *value_out = v->poll_msr;
        break;
    }
    return 0;
}

/* Have it settled before the vCPU's next instruction. */
static void pv_post(struct hv_pv *pv, unsigned vcpu, uint32_t pending)
{
    hv_or_seq(&pv->vcpu[vcpu].pending, pending);
    pv->hooks.look(pv->hooks.context, vcpu);
}

/* KVM looks for memory there at once, so its guests know a #GP; no other area is looked for. */
static bool pv_eoi_possible(const struct hv_pv *pv, uint64_t value)
{
    if (value & PV_EOI_RESERVED) {
        return false;
    }
    return !(value & PV_ENABLED) || hv_area_possible(pv->memory, (hv_gpa){value & ~PV_ENABLED}, 1);
}

int hv_pv_msr_write(struct hv_pv *pv, unsigned vcpu, uint32_t index, uint64_t value)
{
    struct hv_pv_vcpu *v = &pv->vcpu[vcpu];

    if (!pv_msr_shown(pv, index)) {
        return -ENOENT;
    }
    switch ((enum pv_msr)index) {
    case PV_MSR_WALL_CLOCK_OLD:
    case PV_MSR_WALL_CLOCK:
        hv_store_relaxed(&pv->wall_msr, value);
        pv_post(pv, vcpu, HV_PV_PENDING_WALL);
        break;
    case PV_MSR_CLOCK_OLD:
    case PV_MSR_CLOCK:
        v->clock_msr = value;
        pv_post(pv, vcpu, HV_PV_PENDING_CLOCK);
        break;
    case PV_MSR_STEAL_TIME:
        if (value & PV_STEAL_RESERVED) {
            return HV_FAULTED;
        }
        v->steal_msr = value;
        pv_post(pv, vcpu, HV_PV_PENDING_STEAL);
        break;
    case PV_MSR_EOI:
        if (!pv_eoi_possible(pv, value)) {
            return HV_FAULTED;
        }
        v->eoi_msr = value;
        pv_post(pv, vcpu, HV_PV_PENDING_EOI);
        break;
    case PV_MSR_POLL_CONTROL:
        if (value & ~PV_ENABLED) {
            return HV_FAULTED;
        }
        v->poll_msr = value;
        break;
    }
    return 0;
}

/* ---- settling ---- */

/* All vCPUs have the TSC offset that this one has. */
static bool pv_tsc_stable(const struct hv_pv *pv, uint64_t offset)
{
    for (unsigned i = 0; i < pv->count; i++) {
        if (hv_load_seq(&pv->vcpu[i].tsc_offset) != offset) {
            return false;
        }
    }
    return true;
}

/*
 * Each publishes its offset and then looks at the others'; one that changes has all of them look
 * again. So whoever of two looked too early looks once more.
 */
static void pv_publish_offset(struct hv_pv *pv, unsigned vcpu, uint64_t offset)
{
    if (hv_swap_seq(&pv->vcpu[vcpu].tsc_offset, offset) == offset) {
        return;
    }
    HV_RACE("pv.offset.published");
    for (unsigned i = 0; i < pv->count; i++) {
        if (i != vcpu) {
            pv_post(pv, i, HV_PV_PENDING_TIME);
        }
    }
}

static int pv_settle_clock(struct hv_pv *pv, unsigned vcpu, uint32_t pending)
{
    struct hv_pv_vcpu *v = &pv->vcpu[vcpu];
    uint64_t offset = pv->hooks.tsc_offset(pv->hooks.context, vcpu);
    int err = 0;

    pv_publish_offset(pv, vcpu, offset);
    if (pending & HV_PV_PENDING_CLOCK) {
        hv_pvclock_unregister(&v->clock);
        if (v->clock_msr & PV_ENABLED) {
            err = hv_pvclock_register(&v->clock, pv->memory, (hv_gpa){v->clock_msr & ~PV_ENABLED});
        }
    }
    hv_pvclock_write(&pv->clock, &v->clock, offset, pv_tsc_stable(pv, offset),
                     pending & HV_PV_PENDING_STOPPED);
    return err;
}

static int pv_settle_wall(struct hv_pv *pv)
{
    uint64_t gpa = hv_load_relaxed(&pv->wall_msr);

    return gpa ? hv_pvclock_write_wall(&pv->clock, pv->memory, (hv_gpa){gpa}) : 0;
}

static int pv_settle_steal(struct hv_pv *pv, unsigned vcpu, uint64_t ready_ns)
{
    struct hv_pv_vcpu *v = &pv->vcpu[vcpu];
    int err = 0;

    hv_pvsteal_unregister(&v->steal);
    if (v->steal_msr & PV_ENABLED) {
        err = hv_pvsteal_register(&v->steal, pv->memory, (hv_gpa){v->steal_msr & ~PV_ENABLED});
    }
    /* Nobody can have asked for a flush who did not see it preempted, so what stands there is old. */
    (void)hv_pvsteal_enter(&v->steal, ready_ns);
    return err;
}

static int pv_settle_eoi(struct hv_pv *pv, unsigned vcpu)
{
    uint64_t msr = pv->vcpu[vcpu].eoi_msr;
    struct hv_area area = {0};
    int err = 0;

    if (msr & PV_ENABLED) {
        err = hv_area_pin(&area, pv->memory, (hv_gpa){msr & ~PV_ENABLED}, 1);
    }
    hv_lapic_set_eoi_area(&pv->lapics->lapic[vcpu], &area);
    return err;
}

/* What an area's registration came to. */
static int pv_settled(struct hv_pv *pv, unsigned vcpu, uint32_t pending, int err)
{
    struct hv_pv_vcpu *v = &pv->vcpu[vcpu];

    if (err == -ENOMEM) {
        hv_or_seq(&v->pending, pending);
        return err;
    }
    if (err && err != -ECANCELED) {
        hv_count(&v->counters.areas_refused, 1);
    }
    return 0;
}

int hv_pv_settle_pending(struct hv_pv *pv, unsigned vcpu, uint64_t ready_ns)
{
    const uint32_t clock = HV_PV_PENDING_CLOCK | HV_PV_PENDING_TIME | HV_PV_PENDING_STOPPED;
    uint32_t pending = hv_swap_seq(&pv->vcpu[vcpu].pending, 0);
    int rc = 0;

    hv_lock_check_none("pinning an area");
    if (pending & clock) {
        rc |= pv_settled(pv, vcpu, pending & clock, pv_settle_clock(pv, vcpu, pending));
    }
    if (pending & HV_PV_PENDING_WALL) {
        rc |= pv_settled(pv, vcpu, HV_PV_PENDING_WALL, pv_settle_wall(pv));
    }
    if (pending & HV_PV_PENDING_STEAL) {
        rc |= pv_settled(pv, vcpu, HV_PV_PENDING_STEAL, pv_settle_steal(pv, vcpu, ready_ns));
    }
    if (pending & HV_PV_PENDING_EOI) {
        rc |= pv_settled(pv, vcpu, HV_PV_PENDING_EOI, pv_settle_eoi(pv, vcpu));
    }
    return rc;
}

void hv_pv_tsc_changed(struct hv_pv *pv, unsigned vcpu)
{
    if (hv_pv_has(pv, HV_PV_CLOCKSOURCE)) {
        pv_post(pv, vcpu, HV_PV_PENDING_TIME);
    }
}

/* ---- running ---- */

static bool pv_steal_pending(const struct hv_pv_vcpu *v)
{
    return hv_load_relaxed(&v->pending) & HV_PV_PENDING_STEAL;
}

bool hv_pv_enter(struct hv_pv *pv, unsigned vcpu, uint64_t ready_ns)
{
    struct hv_pv_vcpu *v = &pv->vcpu[vcpu];

    /* Invariant (2): the guest may have given the area up by its last instruction. */
    if (pv_steal_pending(v) || !hv_pvsteal_enter(&v->steal, ready_ns) ||
        !hv_pv_has(pv, HV_PV_TLB_FLUSH)) {
        return false;
    }
    hv_count(&v->counters.flushes, 1);
    return true;
}

void hv_pv_leave(struct hv_pv *pv, unsigned vcpu)
{
    struct hv_pv_vcpu *v = &pv->vcpu[vcpu];

    if (!pv_steal_pending(v)) {
        hv_pvsteal_leave(&v->steal);
    }
}

void hv_pv_kick(struct hv_pv *pv, unsigned vcpu)
{
    hv_store_seq(&pv->vcpu[vcpu].kicked, 1);
}

bool hv_pv_take_kick(struct hv_pv *pv, unsigned vcpu)
{
    struct hv_pv_vcpu *v = &pv->vcpu[vcpu];

    if (hv_swap_seq(&v->kicked, 0) == 0) {
        return false;
    }
    hv_count(&v->counters.kicks, 1);
    return true;
}

/* ---- life ---- */

int hv_pv_init(struct hv_pv *pv, const struct hv_pv_config *config)
{
    memset(pv, 0, sizeof(*pv));
    pv->features = config->features;
    pv->memory = config->memory;
    pv->lapics = config->lapics;
    pv->hooks = *config->hooks;
    if (hv_pv_has(pv, HV_PV_CLOCKSOURCE)) {
        hv_pvclock_init(&pv->clock, config->clock, config->tsc_khz);
    }
    pv->vcpu = hv_alloc_aligned(HV_CACHE_LINE, config->vcpus * sizeof(*pv->vcpu));
    if (!pv->vcpu) {
        return -ENOMEM;
    }
    pv->count = config->vcpus;
    hv_pv_reset(pv);
    return 0;
}

void hv_pv_init_cpu(struct hv_pv *pv, unsigned vcpu)
{
    struct hv_pv_vcpu *v = &pv->vcpu[vcpu];
    const struct hv_area none = {0};

    v->clock_msr = 0;
    v->steal_msr = 0;
    v->eoi_msr = 0;
    hv_pvclock_unregister(&v->clock);
    hv_pvsteal_unregister(&v->steal);
    hv_lapic_set_eoi_area(&pv->lapics->lapic[vcpu], &none);
    hv_store_seq(&v->kicked, 0);
    /* What the others' clocks make of it remains to be done. */
    hv_and_seq(&v->pending, HV_PV_PENDING_TIME);
}

void hv_pv_reset(struct hv_pv *pv)
{
    for (unsigned i = 0; i < pv->count; i++) {
        hv_pv_init_cpu(pv, i);
        pv->vcpu[i].poll_msr = PV_ENABLED;
        hv_store_seq(&pv->vcpu[i].pending, 0);
        hv_store_seq(&pv->vcpu[i].tsc_offset, 0);
    }
    hv_store_relaxed(&pv->wall_msr, 0);
}

void hv_pv_finish(struct hv_pv *pv)
{
    for (unsigned i = 0; i < pv->count; i++) {
        hv_pv_init_cpu(pv, i);
    }
    hv_free(pv->vcpu);
    pv->vcpu = NULL;
    pv->count = 0;
}

void hv_pv_resume(struct hv_pv *pv)
{
    if (!hv_pv_has(pv, HV_PV_CLOCKSOURCE)) {
        return;
    }
    hv_pvclock_rebase(&pv->clock);
    for (unsigned i = 0; i < pv->count; i++) {
        hv_or_seq(&pv->vcpu[i].pending, HV_PV_PENDING_TIME | HV_PV_PENDING_STOPPED);
    }
}

/* ---- save and load ---- */

void hv_pv_save(const struct hv_pv *pv, struct hv_pv_record *record_out)
{
    memset(record_out, 0, sizeof(*record_out));
    record_out->version = HV_PV_RECORD_VERSION;
    record_out->features = pv->features;
    record_out->wall_msr = hv_load_relaxed(&pv->wall_msr);
    for (unsigned i = 0; i < pv->count; i++) {
        const struct hv_pv_vcpu *v = &pv->vcpu[i];

        record_out->vcpu[i] = (struct hv_pv_vcpu_record){
            .clock_msr = v->clock_msr,
            .steal_msr = v->steal_msr,
            .eoi_msr = v->eoi_msr,
            .steal_ns = v->steal.steal_ns,
            .kicked = hv_load_seq(&v->kicked),
            .poll_msr = (uint32_t)v->poll_msr,
        };
    }
}

static const char *pv_check_vcpu(const struct hv_pv *pv, const struct hv_pv_vcpu_record *record)
{
    if (record->clock_msr && !hv_pv_has(pv, HV_PV_CLOCKSOURCE)) {
        return "pv.clock_msr";
    }
    if ((record->steal_msr & PV_STEAL_RESERVED) ||
        (record->steal_msr && !hv_pv_has(pv, HV_PV_STEAL_TIME))) {
        return "pv.steal_msr";
    }
    if ((record->eoi_msr & PV_EOI_RESERVED) || (record->eoi_msr && !hv_pv_has(pv, HV_PV_EOI))) {
        return "pv.eoi_msr";
    }
    if (hv_record_not_bool(record->kicked) || (record->kicked && !hv_pv_has(pv, HV_PV_UNHALT))) {
        return "pv.kicked";
    }
    if (hv_record_not_bool(record->poll_msr) ||
        (!record->poll_msr && !hv_pv_has(pv, HV_PV_POLL_CONTROL))) {
        return "pv.poll_msr";
    }
    return NULL;
}

const char *hv_pv_check(const struct hv_pv *pv, const struct hv_pv_record *record)
{
    const char *field = NULL;

    if (record->version != HV_PV_RECORD_VERSION) {
        return "pv.version";
    }
    if (record->features != pv->features) {
        return "pv.features"; /* the guest has looked at CPUID long ago */
    }
    if (record->wall_msr && !hv_pv_has(pv, HV_PV_CLOCKSOURCE)) {
        return "pv.wall_msr";
    }
    for (unsigned i = 0; !field && i < pv->count; i++) {
        field = pv_check_vcpu(pv, &record->vcpu[i]);
    }
    return field;
}

static uint32_t pv_pending_after_load(const struct hv_pv *pv)
{
    uint32_t pending = 0;

    if (hv_pv_has(pv, HV_PV_CLOCKSOURCE)) {
        pending |= HV_PV_PENDING_CLOCK | HV_PV_PENDING_TIME;
    }
    if (hv_pv_has(pv, HV_PV_STEAL_TIME)) {
        pending |= HV_PV_PENDING_STEAL;
    }
    if (hv_pv_has(pv, HV_PV_EOI)) {
        pending |= HV_PV_PENDING_EOI;
    }
    return pending;
}

/* The wall clock was written when the guest asked for it; hv_pv_resume() does the rest. */
void hv_pv_load(struct hv_pv *pv, const struct hv_pv_record *record)
{
    hv_pv_reset(pv);
    hv_store_relaxed(&pv->wall_msr, record->wall_msr);
    for (unsigned i = 0; i < pv->count; i++) {
        struct hv_pv_vcpu *v = &pv->vcpu[i];

        v->clock_msr = record->vcpu[i].clock_msr;
        v->steal_msr = record->vcpu[i].steal_msr;
        v->eoi_msr = record->vcpu[i].eoi_msr;
        v->poll_msr = record->vcpu[i].poll_msr;
        v->steal.steal_ns = record->vcpu[i].steal_ns;
        v->steal.resumed = true;
        hv_store_seq(&v->kicked, record->vcpu[i].kicked);
        hv_store_seq(&v->pending, pv_pending_after_load(pv));
    }
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The local APIC's save record. */
#include "platform/lapic-private.h"

#include <string.h>

void hv_lapic_save(struct hv_lapic *lapic, struct hv_lapic_record *record_out)
{
    hv_ns now;

    memset(record_out, 0, sizeof(*record_out));
    hv_lock_take(&lapic->lock);
    now = lapic_timer_settle_locked(lapic);
    (void)lapic_settle_eoi_locked(lapic);
    lapic_update_locked(lapic);
    record_out->version = HV_LAPIC_RECORD_VERSION;
    record_out->id = hv_load_relaxed(&lapic->id);
    record_out->base = hv_load_relaxed(&lapic->base);
    record_out->icr = lapic->icr;
    record_out->ldr = hv_load_relaxed(&lapic->ldr);
    record_out->dfr = hv_load_relaxed(&lapic->dfr);
    record_out->svr = hv_load_relaxed(&lapic->svr);
    record_out->tpr = lapic->tpr;
    record_out->esr = lapic->esr;
    record_out->esr_pending = lapic->esr_pending;
    record_out->divide = lapic->divide;
    record_out->initial_count = lapic->initial_count;
    memcpy(record_out->irr, lapic->irr, sizeof(lapic->irr));
    memcpy(record_out->isr, lapic->isr, sizeof(lapic->isr));
    memcpy(record_out->tmr, lapic->tmr, sizeof(lapic->tmr));
    memcpy(record_out->lvt, lapic->lvt, sizeof(lapic->lvt));
    record_out->lint0_high = lapic->lint0_high;
    record_out->extint_message = lapic->extint_message;
    record_out->timer_counting = lapic->timer_counting;
    if (lapic->timer_counting) {
        record_out->timer_elapsed_ns = now.v - lapic->timer_start_ns;
    }
    record_out->tsc_deadline = lapic->tsc_deadline;
    hv_vpt_save(&lapic->timer, now, &record_out->timer);
    hv_lock_drop(&lapic->lock);
}

/* The registers that say where and who it is. */
static const char *lapic_check_identity(const struct hv_lapic_record *record, unsigned phys_bits)
{
    uint64_t reserved = 0x2ff | ~((UINT64_C(1) << phys_bits) - 1);
    bool x2apic = record->base & LAPIC_BASE_EXTD;

    if ((record->base & reserved) || (x2apic && !(record->base & LAPIC_BASE_EN))) {
        return "lapic.base";
    }
    if (x2apic ? record->id >= HV_MAX_VCPUS : (record->id & 0xffffff) != 0) {
        return "lapic.id";
    }
    if (x2apic ? record->ldr != lapic_x2apic_ldr(record->id) : (record->ldr & 0xffffff) != 0) {
        return "lapic.ldr";
    }
    if ((record->dfr | 0xf0000000) != UINT32_MAX) {
        return "lapic.dfr";
    }
    if (record->svr & ~(uint32_t)LAPIC_SVR_MASK) {
        return "lapic.svr";
    }
    return NULL;
}

static const char *lapic_check_vectors(const struct hv_lapic_record *record)
{
    if (record->irr[0] & 0xffff) {
        return "lapic.irr";
    }
    if (record->isr[0] & 0xffff) {
        return "lapic.isr";
    }
    if (record->tmr[0] & 0xffff) {
        return "lapic.tmr";
    }
    for (unsigned i = 0; i < HV_LAPIC_LVT_COUNT; i++) {
        uint32_t writable = lapic_lvt_writable((enum hv_lapic_lvt)i);

        if (i == HV_LAPIC_LVT_LINT0) {
            writable |= LAPIC_LVT_REMOTE_IRR;
        }
        if (record->lvt[i] & ~writable) {
            return "lapic.lvt";
        }
    }
    return NULL;
}

static const char *lapic_check_timer(const struct hv_lapic_record *record)
{
    enum lapic_timer_mode mode =
        (enum lapic_timer_mode)hv_bits(record->lvt[HV_LAPIC_LVT_TIMER], LAPIC_LVT_TIMER_SHIFT, 2);

    if (record->divide & ~LAPIC_DIVIDE_MASK) {
        return "lapic.divide";
    }
    if (record->timer_counting &&
        (record->initial_count == 0 || mode >= LAPIC_TIMER_TSC_DEADLINE)) {
        return "lapic.timer_counting";
    }
    if (record->timer_elapsed_ns) {
        uint64_t count_ns = lapic_count_ns(record->initial_count, record->divide);

        /* A one-shot count that is over would not count any more. */
        if (!record->timer_counting ||
            (mode == LAPIC_TIMER_ONE_SHOT && record->timer_elapsed_ns >= count_ns)) {
            return "lapic.timer_elapsed_ns";
        }
    }
    if (record->tsc_deadline && mode != LAPIC_TIMER_TSC_DEADLINE) {
        return "lapic.tsc_deadline";
    }
    return hv_vpt_record_check(HV_VPT_LAPIC, &record->timer,
                               record->timer_counting && mode == LAPIC_TIMER_PERIODIC);
}

const char *hv_lapic_check(const struct hv_lapic_record *record, unsigned phys_bits)
{
    const char *field;

    if (record->version != HV_LAPIC_RECORD_VERSION) {
        return "lapic.version";
    }
    if (record->tpr > 0xff) {
        return "lapic.tpr";
    }
    if (hv_record_not_bool(record->lint0_high)) {
        return "lapic.lint0_high";
    }
    if (hv_record_not_bool(record->extint_message)) {
        return "lapic.extint_message";
    }
    if (hv_record_not_bool(record->timer_counting)) {
        return "lapic.timer_counting";
    }
    field = lapic_check_identity(record, phys_bits);
    if (!field) {
        field = lapic_check_vectors(record);
    }
    return field ? field : lapic_check_timer(record);
}

void hv_lapic_load(struct hv_lapic *lapic, const struct hv_lapic_record *record)
{
    const struct hv_lapic_hooks *hooks = &lapic->set->hooks;
    hv_ns moment = HV_NS_NEVER;
    hv_ns now;

    if (record->tsc_deadline) {
        moment = hooks->tsc_moment(hooks->context, lapic->index, record->tsc_deadline);
    }
    hv_lock_take(&lapic->lock);
    lapic->eoi_offered = false;
    hv_store_relaxed(&lapic->base, record->base);
    hv_store_relaxed(&lapic->id, record->id);
    hv_store_relaxed(&lapic->ldr, record->ldr);
    hv_store_relaxed(&lapic->dfr, record->dfr);
    hv_store_relaxed(&lapic->svr, record->svr);
    memcpy(lapic->irr, record->irr, sizeof(lapic->irr));
    memcpy(lapic->isr, record->isr, sizeof(lapic->isr));
    memcpy(lapic->tmr, record->tmr, sizeof(lapic->tmr));
    memcpy(lapic->lvt, record->lvt, sizeof(lapic->lvt));
    lapic->tpr = record->tpr;
    lapic->esr = record->esr;
    lapic->esr_pending = record->esr_pending;
    lapic->icr = record->icr;
    lapic->divide = record->divide;
    lapic->initial_count = record->initial_count;
    lapic->lint0_high = record->lint0_high;
    lapic->extint_message = record->extint_message;
    lapic->timer_counting = record->timer_counting;
    now = hv_clock_now(lapic->set->clock);
    lapic->timer_start_ns = now.v - record->timer_elapsed_ns;
    lapic->tsc_deadline = 0;
    lapic_timer_arm_locked(lapic);
    hv_vpt_load(&lapic->timer, now, &record->timer);
    lapic_timer_write_deadline_locked(lapic, record->tsc_deadline, moment);
    lapic_drop(lapic);
}

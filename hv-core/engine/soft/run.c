/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The run loop: everything between two calls of the interpreter. It serves the doorbell, delivers
 * events and exceptions, and runs single instructions where something has to happen after one: the
 * interrupt shadow of STI and MOV SS, RFLAGS.TF, breakpoints on code.
 *
 *     soft_run:  enter -> deliver -> [ find block -> interpret -> settle ]* -> leave
 *
 * After an instruction that may have changed mode, translations or interruptibility, key, stamp and
 * TLB view are derived anew and events are looked for.
 */
#include "engine/soft/run.h"

#include "engine/soft/access.h"
#include "engine/soft/block.h"
#include "engine/soft/interp.h"
#include "engine/soft/jump.h"
#include "engine/soft/thunk.h"
#include "engine/soft/translate.h"
#include "engine/soft/watch.h"

#include "cpu/event.h"
#include "sync/doorbell.h"

#include <errno.h>

/* Requests the engine serves by itself; any other one ends the run. */
#define SERVED                                                                  \
    (HV_REQUEST_EVENT | HV_REQUEST_FLUSH | HV_REQUEST_EPOCH | HV_REQUEST_CODE | \
     HV_REQUEST_EXCLUSIVE)

/* What a step of the loop decided. Negative errnos and HV_FAULTED are settled before. */
enum verdict {
    VERDICT_GO_ON,
    VERDICT_EXIT, /* *exit filled */
};

static enum verdict stop(struct hv_exit *exit, enum hv_exit_kind kind)
{
    *exit = (struct hv_exit){.kind = kind};
    return VERDICT_EXIT;
}

/* -EAGAIN: at once, or when a device has answered. The mode may be OUTSIDE. */
static enum verdict stop_error(struct hv_engine_vcpu *vcpu, struct hv_exit *exit, int error)
{
    if (error == -EAGAIN) {
        return vcpu->awaits_device ? stop(exit, HV_EXIT_IO) : VERDICT_GO_ON;
    }
    if (error == -ENOMEM) {
        return stop(exit, HV_EXIT_NO_MEMORY);
    }
    *exit = (struct hv_exit){
        .kind = HV_EXIT_ERROR, .error = error, .reason = "the software engine cannot go on"};
    return VERDICT_EXIT;
}

void soft_run_serve(struct hv_engine_vcpu *vcpu, uint32_t requests)
{
    soft_serve(vcpu, requests);
    if (requests & HV_REQUEST_CODE) {
        soft_jumps_clear(vcpu->jumps);
        soft_code_acknowledge(vcpu->domain->code, vcpu->index);
    }
}

/* ---- Events ----------------------------------------------------------------------------------- */

static enum verdict settle_activity(struct hv_engine_vcpu *vcpu, struct hv_exit *exit)
{
    switch ((enum hv_activity)vcpu->cpu->activity) {
    case HV_ACTIVITY_RUNNING:
        return VERDICT_GO_ON;
    case HV_ACTIVITY_HALTED:
        return stop(exit, HV_EXIT_HLT);
    case HV_ACTIVITY_WAIT_SIPI:
        return stop(exit, HV_EXIT_RESET_CPU);
    case HV_ACTIVITY_SHUTDOWN:
    default:
        return stop(exit, HV_EXIT_SHUTDOWN);
    }
}

static void finish_delivery(struct hv_engine_vcpu *vcpu)
{
    soft_insn_done(vcpu);
    soft_jump_refresh(vcpu);
}

/* A fault has been delivered, or is found again when the instruction starts anew: what it and the
 * delivery recorded stands until then. */
static enum verdict settle_fault(struct hv_engine_vcpu *vcpu, int rc, struct hv_exit *exit)
{
    if (rc < 0) {
        return stop_error(vcpu, exit, rc);
    }
    finish_delivery(vcpu);
    return settle_activity(vcpu, exit);
}

static enum verdict deliver_exception(struct hv_engine_vcpu *vcpu, struct hv_exit *exit)
{
    struct hv_fault fault = vcpu->fault;

    return settle_fault(vcpu, hv_event_exception(vcpu->cpu, &vcpu->access, &fault), exit);
}

/* #DB as a trap, or as the fault of a code breakpoint: RF is not set in its frame (SDM 3A 17.3.1). */
static int raise_debug(struct hv_engine_vcpu *vcpu, uint64_t dr6)
{
    struct hv_cpu *cpu = vcpu->cpu;

    /* Bits 3:0 are those of this exception; the others are the guest's to clear. */
    cpu->dr[6] = (cpu->dr[6] & ~UINT64_C(0xf)) | dr6;
    return hv_event_deliver(cpu, &vcpu->access, HV_EVENT_EXCEPTION, HV_VECTOR_DB, false, 0,
                            cpu->rip, &vcpu->fault);
}

/*
 * The #DB behind the last instruction, then an NMI or interrupt if one is due. The former is found
 * nowhere else; the latter stay where they are until they are delivered. An instruction that has
 * talked to a device is finished first (D9).
 */
static int deliver_due(struct hv_engine_vcpu *vcpu)
{
    int rc;

    if (HV_UNLIKELY(vcpu->trap)) {
        rc = raise_debug(vcpu, vcpu->trap);
        if (rc < 0) {
            return rc;
        }
        vcpu->trap = 0;
        finish_delivery(vcpu);
    }
    if (soft_insn_pending(vcpu)) {
        return 0;
    }
    rc = hv_event_poll(vcpu->cpu, &vcpu->access);
    if (rc > 0) {
        finish_delivery(vcpu);
    }
    return rc;
}

/* What is due, then what the vCPU is up to. */
static enum verdict deliver_events(struct hv_engine_vcpu *vcpu, struct hv_exit *exit)
{
    int rc = deliver_due(vcpu);

    /* Left half way: it goes on before any instruction. */
    vcpu->replay.event = rc < 0 && vcpu->replay.recorded != 0;
    return rc < 0 ? stop_error(vcpu, exit, rc) : settle_activity(vcpu, exit);
}

/* ---- Doorbell --------------------------------------------------------------------------------- */

/*
 * Serve what stands. Requests for others are left standing (or, when they came while we took, put
 * back) and end the run.
 */
static enum verdict serve_bell(struct hv_engine_vcpu *vcpu, struct hv_exit *exit)
{
    struct hv_doorbell *bell = vcpu->bell;
    uint32_t taken;

    if (hv_load_seq(&bell->requests) & ~(uint32_t)SERVED) {
        return stop(exit, HV_EXIT_PREEMPT);
    }
    taken = hv_doorbell_take(bell);
    soft_run_serve(vcpu, taken);
    hv_doorbell_acknowledge(bell);
    soft_jump_restamp(vcpu);
    if (taken & ~(uint32_t)SERVED) {
        hv_doorbell_ring(bell, taken & ~(uint32_t)SERVED);
        return stop(exit, HV_EXIT_PREEMPT);
    }
    /* OUTSIDE no guest memory may be touched: enter() looks for events when it is in. */
    return (taken & HV_REQUEST_EVENT) && hv_doorbell_in_guest(bell) ? deliver_events(vcpu, exit)
                                                                    : VERDICT_GO_ON;
}

/* Go IN_GUEST, serving what stands, and take what came while we were OUTSIDE. */
static enum verdict enter(struct hv_engine_vcpu *vcpu, struct hv_exit *exit)
{
    while (soft_enter(vcpu) != 0) {
        if (serve_bell(vcpu, exit) == VERDICT_EXIT) {
            return VERDICT_EXIT;
        }
    }
    soft_jump_refresh(vcpu);
    return deliver_events(vcpu, exit);
}

/* ---- Running ---------------------------------------------------------------------------------- */

static void trace(struct hv_engine_vcpu *vcpu)
{
    struct soft_jump_cache *jumps = vcpu->jumps;
    const struct hv_cpu *cpu = vcpu->cpu;

    jumps->trace_rip[jumps->traced % HV_ENGINE_TRACE_BLOCKS] =
        cpu->rip + cpu->slot[HV_SLOT_SEG_BASE + HV_SEG_CS];
    jumps->traced++;
}

/* The block at cpu->rip in the vCPU's mode, or what kept us from it. */
static int find_block(struct hv_engine_vcpu *vcpu, const struct soft_uop **uop_out)
{
    uint64_t rip = vcpu->cpu->rip;
    const struct soft_jump *jump = soft_jump_slot(vcpu->jumps, rip);

    if (jump->rip == rip && jump->stamp == vcpu->stamp[rip >> 63]) {
        *uop_out = jump->uop;
        return 0;
    }
    *uop_out = soft_jump_find(vcpu, rip);
    if (*uop_out) {
        return 0;
    }
    /* Populating the page led OUTSIDE, or failed to: soft_translate() finds out which. */
    if (!hv_doorbell_in_guest(vcpu->bell) && soft_enter(vcpu) != 0) {
        return SOFT_RESULT_INTERRUPTED;
    }
    return soft_translate(vcpu, rip, vcpu->key, uop_out);
}

/* Run from cpu->rip until something is to be decided. */
static int run_blocks(struct hv_engine_vcpu *vcpu)
{
    const struct soft_uop *uop;
    int rc = find_block(vcpu, &uop);

    if (rc) {
        return rc;
    }
    trace(vcpu);
    vcpu->leave_block = false;
    vcpu->cpu->slot[SOFT_SLOT_RIP] = vcpu->cpu->rip - uop->offset;
    return soft_interpret(vcpu, uop, NULL);
}

static enum verdict settle(struct hv_engine_vcpu *vcpu, int rc, struct hv_exit *exit)
{
    const struct hv_cpu *cpu = vcpu->cpu;

    switch (rc) {
    case SOFT_RESULT_NEXT:
    case SOFT_RESULT_LOOKUP:
    case SOFT_RESULT_INTERRUPTED:
        return VERDICT_GO_ON;
    case SOFT_RESULT_FAULT:
        return deliver_exception(vcpu, exit);
    case SOFT_RESULT_LEAVE:
        soft_insn_done(vcpu);
        soft_jump_refresh(vcpu);
        if ((cpu->rflags & HV_RFLAGS_IF) || cpu->nmi_pending || vcpu->trap ||
            cpu->activity != HV_ACTIVITY_RUNNING) {
            return deliver_events(vcpu, exit);
        }
        return VERDICT_GO_ON;
    case SOFT_RESULT_STOP:
        *exit = vcpu->stop;
        return VERDICT_EXIT;
    default:
        return stop_error(vcpu, exit, rc);
    }
}

/* ---- One instruction -------------------------------------------------------------------------- */

static bool shadowed(const struct hv_cpu *cpu)
{
    return cpu->sti_shadow || cpu->mov_ss_shadow;
}

/* Breakpoints on execution that stand at cpu->rip. */
static uint64_t breakpoints_hit(const struct hv_cpu *cpu)
{
    uint64_t linear = cpu->rip + cpu->slot[HV_SLOT_SEG_BASE + HV_SEG_CS];
    uint64_t hit = 0;

    if (!hv_cpu_code64(cpu)) {
        linear &= UINT32_MAX;
    }
    for (unsigned n = 0; n < SOFT_BREAKPOINTS; n++) {
        if (soft_breakpoint_enabled(cpu, n) &&
            soft_breakpoint_kind_of(cpu, n) == SOFT_BREAKPOINT_CODE && cpu->dr[n] == linear) {
            hit |= HV_BIT(n);
        }
    }
    return hit;
}

/*
 * A shadow without an event to hold back has no effect: it ends with the next block's first
 * instruction, before which the interpreter does not look at the doorbell.
 */
static bool shadow_matters(struct hv_cpu *cpu)
{
    bool sti_shadow = cpu->sti_shadow, mov_ss_shadow = cpu->mov_ss_shadow;
    bool matters;

    if (HV_LIKELY(!shadowed(cpu))) {
        return false;
    }
    cpu->sti_shadow = false;
    cpu->mov_ss_shadow = false;
    matters = hv_event_deliverable(cpu);
    cpu->sti_shadow = sti_shadow;
    cpu->mov_ss_shadow = mov_ss_shadow;
    return matters;
}

/* Does something have to happen before or after the next instruction by itself? */
static bool must_step(const struct hv_engine_vcpu *vcpu)
{
    struct hv_cpu *cpu = vcpu->cpu;

    return (cpu->rflags & HV_RFLAGS_TF) || (cpu->dr[7] & 0xff) != 0 || vcpu->replay.recorded != 0 ||
           vcpu->trap || shadow_matters(cpu);
}

/* Has the step done its instruction (or one iteration of a repeated one)? */
static bool is_complete(const struct hv_engine_vcpu *vcpu, int rc)
{
    switch (rc) {
    case SOFT_RESULT_LOOKUP:
    case SOFT_RESULT_INTERRUPTED:
        return vcpu->insns_left <= 0; /* else it was the search for its block that ended so */
    case SOFT_RESULT_LEAVE:
    case SOFT_RESULT_STOP:
        return true;
    default:
        return false;
    }
}

static int run_step(struct hv_engine_vcpu *vcpu)
{
    int rc;

    vcpu->no_trap = false;
    vcpu->insns_left = 1;
    vcpu->key |= SOFT_KEY_STEP;
    soft_jump_restamp(vcpu);
    rc = run_blocks(vcpu);
    vcpu->key &= ~(uint32_t)SOFT_KEY_STEP;
    soft_jump_restamp(vcpu);
    return rc;
}

/* After an instruction: #DB for the step and for data breakpoints, in one. The single-step trap is
 * that of TF as it was before the instruction; MOV SS holds both off, and an instruction that has
 * delivered an event, or says by itself what follows, cancels the former (SDM 3B 17.3.1.4). */
static void note_trap(struct hv_engine_vcpu *vcpu, bool stepping)
{
    struct hv_cpu *cpu = vcpu->cpu;
    uint64_t dr6 = vcpu->watch_hits;

    if (stepping && !vcpu->no_trap) {
        dr6 |= HV_DR6_BS;
    }
    if (!dr6 || cpu->mov_ss_shadow) {
        return;
    }
    vcpu->watch_hits = 0;
    vcpu->trap |= dr6;
    cpu->activity = HV_ACTIVITY_RUNNING;
}

/* One instruction with all that may come before and after it. */
static enum verdict step(struct hv_engine_vcpu *vcpu, struct hv_exit *exit)
{
    struct hv_cpu *cpu = vcpu->cpu;
    bool sti_shadow = cpu->sti_shadow, mov_ss_shadow = cpu->mov_ss_shadow;
    bool stepping = cpu->rflags & HV_RFLAGS_TF;
    uint32_t resume = cpu->rflags & HV_RFLAGS_RF;
    uint64_t hit = resume || mov_ss_shadow ? 0 : breakpoints_hit(cpu);
    uint8_t watch_hits = vcpu->watch_hits;
    int64_t left = vcpu->insns_left;
    int rc;

    if (HV_UNLIKELY(vcpu->trap || vcpu->replay.event)) {
        return deliver_events(vcpu, exit);
    }
    if (hit) {
        return settle_fault(vcpu, raise_debug(vcpu, hit), exit);
    }
    /* RF counts for one instruction; one that sets it (IRET, a repeat) does so for the next. */
    cpu->rflags &= ~resume;
    cpu->sti_shadow = false;
    cpu->mov_ss_shadow = false;
    rc = run_step(vcpu);
    if (!is_complete(vcpu, rc)) {
        if (rc != SOFT_RESULT_FAULT) {
            cpu->rflags |= resume;
            cpu->sti_shadow = sti_shadow;
            cpu->mov_ss_shadow = mov_ss_shadow;
        }
        vcpu->watch_hits = watch_hits;
        vcpu->insns_left = left;
        return settle(vcpu, rc, exit);
    }
    vcpu->insns_left = left - 1;
    soft_insn_done(vcpu);
    if (rc == SOFT_RESULT_STOP) {
        return settle(vcpu, rc, exit);
    }
    soft_jump_refresh(vcpu);
    note_trap(vcpu, stepping);
    return deliver_events(vcpu, exit);
}

/*
 * Blocks whose first instruction stands in a shadow. When it has to be run again, because its
 * memory was not there yet, say, the shadow still holds.
 */
static enum verdict run_shadowed(struct hv_engine_vcpu *vcpu, struct hv_exit *exit)
{
    struct hv_cpu *cpu = vcpu->cpu;
    bool sti_shadow = cpu->sti_shadow, mov_ss_shadow = cpu->mov_ss_shadow;
    uint64_t rip = cpu->rip;
    int64_t left = vcpu->insns_left;
    int rc;

    cpu->sti_shadow = false;
    cpu->mov_ss_shadow = false;
    cpu->rflags &= ~(uint32_t)HV_RFLAGS_RF;
    rc = run_blocks(vcpu);
    if (rc != SOFT_RESULT_FAULT && cpu->rip == rip && vcpu->insns_left == left) {
        cpu->sti_shadow = sti_shadow;
        cpu->mov_ss_shadow = mov_ss_shadow;
    }
    return settle(vcpu, rc, exit);
}

static enum verdict run_once(struct hv_engine_vcpu *vcpu, struct hv_exit *exit)
{
    struct hv_cpu *cpu = vcpu->cpu;

    if (!hv_doorbell_in_guest(vcpu->bell)) {
        return enter(vcpu, exit);
    }
    if (HV_UNLIKELY(hv_load_relaxed(&vcpu->bell->exit_request))) {
        return serve_bell(vcpu, exit);
    }
    if (vcpu->insns_left <= 0) {
        return stop(exit, HV_EXIT_DEADLINE);
    }
    if (HV_UNLIKELY(must_step(vcpu))) {
        return step(vcpu, exit);
    }
    if (HV_UNLIKELY(shadowed(cpu))) {
        return run_shadowed(vcpu, exit);
    }
    /* Without breakpoints nothing looks at RF. */
    cpu->rflags &= ~(uint32_t)HV_RFLAGS_RF;
    return settle(vcpu, run_blocks(vcpu), exit);
}

void soft_run(struct hv_engine_vcpu *vcpu, hv_ns deadline, uint64_t insn_budget,
              struct hv_exit *exit_out)
{
    int64_t budget = insn_budget && insn_budget < INT64_MAX ? (int64_t)insn_budget : INT64_MAX;
    enum verdict verdict;

    /* The deadline thread rings the bell. */
    (void)deadline;
    vcpu->insns_left = budget;
    vcpu->pauses = 0;
    hv_memory_mark_dirty(vcpu->memory, vcpu->index);
    soft_fpu_enter(vcpu);
    verdict = enter(vcpu, exit_out);
    while (verdict == VERDICT_GO_ON) {
        verdict = run_once(vcpu, exit_out);
    }
    soft_fpu_leave(vcpu);
    if (hv_doorbell_in_guest(vcpu->bell)) {
        hv_doorbell_leave(vcpu->bell);
    }
    hv_count(&vcpu->counters.instructions, (uint64_t)(budget - vcpu->insns_left));
    hv_count(&vcpu->counters.exits[exit_out->kind], 1);
}

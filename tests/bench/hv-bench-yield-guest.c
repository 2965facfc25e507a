/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A machine's records and its lock, step by step: see hv-bench-yield.h. One thread steps at a time.
 *
 * Source: Linux's kernel/locking/qspinlock_paravirt.h for who spins, halts, kicks and steals.
 */
#include "bench/hv-bench-yield.h"

static uint64_t next_random(struct yield_vcpu *vcpu, uint64_t limit)
{
    vcpu->random ^= vcpu->random >> 12;
    vcpu->random ^= vcpu->random << 25;
    vcpu->random ^= vcpu->random >> 27;
    return (vcpu->random * UINT64_C(0x2545f4914f6cdd1d) >> 33) % limit;
}

/* Half to three halves of @mean_ns. */
static uint64_t about(struct yield_vcpu *vcpu, uint64_t mean_ns)
{
    return mean_ns ? mean_ns / 2 + next_random(vcpu, mean_ns) : 0;
}

void yield_vm_init(struct yield_vm *vm, const struct yield_parameters *parameters,
                   enum yield_variant variant, unsigned vcpus, const struct yield_engine *engine,
                   uint64_t seed)
{
    *vm = (struct yield_vm){
        .parameters = parameters, .variant = variant, .vcpus = vcpus, .engine = engine};
    for (unsigned i = 0; i < vcpus; i++) {
        vm->vcpu[i] = (struct yield_vcpu){
            .vm = vm,
            .index = i,
            .state = YIELD_STATE_ANSWERS, /* of nobody: it begins with a record */
            .random = seed * 977 + i * 131 + 1,
        };
    }
}

static bool is_paravirtual(const struct yield_vm *vm)
{
    return vm->variant == YIELD_KICK || vm->variant == YIELD_BOOST || vm->variant == YIELD_PENALTY;
}

/* ---- what it does next ---- */

static struct yield_next think(struct yield_vcpu *vcpu)
{
    vcpu->state = YIELD_STATE_THINK;
    return (struct yield_next){.span_ns = about(vcpu, vcpu->vm->parameters->think_ns)};
}

static struct yield_next spin(struct yield_vcpu *vcpu, enum yield_state state, bool patient)
{
    vcpu->state = state;
    return (struct yield_next){
        .span_ns =
            patient || !is_paravirtual(vcpu->vm) ? YIELD_FOR_EVER : vcpu->vm->parameters->spin_ns,
        .spins = true,
    };
}

static struct yield_next halt(struct yield_vcpu *vcpu)
{
    vcpu->state = YIELD_STATE_HALTED;
    vcpu->ready = false;
    vcpu->halts++;
    return (struct yield_next){.span_ns = vcpu->vm->parameters->halt_ns, .halt = true};
}

/* ---- the lock ---- */

static bool spins_now(const struct yield_vcpu *vcpu)
{
    return vcpu->running && (vcpu->state == YIELD_STATE_QUEUED || vcpu->state == YIELD_STATE_HEAD);
}

static struct yield_next take(struct yield_vcpu *vcpu)
{
    struct yield_vm *vm = vcpu->vm;

    vm->owner = vcpu;
    if (vm->queued > 0 && vm->queue[0] == vcpu) {
        vm->queued--;
        for (unsigned i = 0; i < vm->queued; i++) {
            vm->queue[i] = vm->queue[i + 1];
        }
        /* The next is the head now; a halted one stays so until the lock is let go. */
        if (vm->queued > 0 && spins_now(vm->queue[0])) {
            vm->engine->nudge(vm->queue[0]);
        }
    }
    vcpu->state = YIELD_STATE_HOLD;
    return (struct yield_next){.span_ns = about(vcpu, vm->parameters->hold_ns)};
}

static struct yield_next wait_for_lock(struct yield_vcpu *vcpu)
{
    struct yield_vm *vm = vcpu->vm;
    bool first = vm->queue[0] == vcpu;

    if (first && !vm->owner) {
        return take(vcpu);
    }
    return spin(vcpu, first ? YIELD_STATE_HEAD : YIELD_STATE_QUEUED, false);
}

static struct yield_next acquire(struct yield_vcpu *vcpu)
{
    struct yield_vm *vm = vcpu->vm;

    /* Taken from under the nose of a head that does not look. */
    if (!vm->owner && (vm->queued == 0 || !spins_now(vm->queue[0]))) {
        return take(vcpu);
    }
    vm->queue[vm->queued++] = vcpu;
    return wait_for_lock(vcpu);
}

static void release(struct yield_vcpu *vcpu)
{
    struct yield_vm *vm = vcpu->vm;
    struct yield_vcpu *head = vm->queued > 0 ? vm->queue[0] : NULL;

    vm->owner = NULL;
    if (!head) {
        return;
    }
    if (spins_now(head)) {
        vm->engine->nudge(head);
    } else if (head->state == YIELD_STATE_HALTED && !head->ready) {
        head->ready = true;
        vcpu->kicks++;
        vm->engine->kick(vcpu, head);
    }
}

/* ---- interrupts to all ---- */

/* What it spins for has come. */
static bool may_go_on(const struct yield_vcpu *vcpu)
{
    const struct yield_vm *vm = vcpu->vm;

    switch (vcpu->state) {
    case YIELD_STATE_QUEUED:
        return vm->queue[0] == vcpu;
    case YIELD_STATE_HEAD:
        return !vm->owner;
    case YIELD_STATE_ANSWERS:
        return vcpu->answers == 0;
    case YIELD_STATE_THINK:
    case YIELD_STATE_HOLD:
    case YIELD_STATE_HALTED:
        break;
    }
    return false;
}

void yield_begin(struct yield_vcpu *vcpu)
{
    struct yield_vm *vm = vcpu->vm;

    vcpu->running = true;
    for (unsigned i = 0; i < vm->vcpus; i++) {
        if (vcpu->asked_by >> i & 1) {
            struct yield_vcpu *sender = &vm->vcpu[i];

            if (--sender->answers == 0 && sender->running) {
                vm->engine->nudge(sender);
            }
        }
    }
    vcpu->asked_by = 0;
    if (may_go_on(vcpu)) {
        vm->engine->nudge(vcpu);
    }
}

static struct yield_next await_answers(struct yield_vcpu *vcpu)
{
    return vcpu->answers == 0 ? think(vcpu) : spin(vcpu, YIELD_STATE_ANSWERS, true);
}

static struct yield_next interrupt_all(struct yield_vcpu *vcpu)
{
    struct yield_vm *vm = vcpu->vm;
    struct yield_vcpu *stopped = NULL;

    for (unsigned i = 0; i < vm->vcpus; i++) {
        struct yield_vcpu *other = &vm->vcpu[i];

        /* Who runs answers at once. */
        if (other == vcpu || other->running) {
            continue;
        }
        vm->engine->send(vcpu, other);
        vcpu->answers++;
        other->asked_by |= UINT64_C(1) << vcpu->index;
        if (other->state == YIELD_STATE_HALTED) {
            vm->engine->wake(other);
        } else if (!stopped) {
            stopped = other;
        }
    }
    if (stopped && is_paravirtual(vm)) {
        vm->engine->yield(vcpu, stopped);
    }
    return await_answers(vcpu);
}

/* ---- steps ---- */

struct yield_next yield_step(struct yield_vcpu *vcpu)
{
    struct yield_vm *vm = vcpu->vm;
    uint64_t every = vm->parameters->ipi_every;

    switch (vcpu->state) {
    case YIELD_STATE_THINK:
        return acquire(vcpu);
    case YIELD_STATE_HOLD:
        release(vcpu);
        vcpu->records++;
        return every && vcpu->records % every == 0 ? interrupt_all(vcpu) : think(vcpu);
    case YIELD_STATE_QUEUED:
    case YIELD_STATE_HEAD:
        /* Nudged; or out of patience. */
        return may_go_on(vcpu) || !is_paravirtual(vm) ? wait_for_lock(vcpu) : halt(vcpu);
    case YIELD_STATE_HALTED:
        return wait_for_lock(vcpu);
    case YIELD_STATE_ANSWERS:
        return await_answers(vcpu);
    }
    return think(vcpu);
}

double yield_share_error(const double *ran, unsigned vms)
{
    double mean = 0, worst = 0;

    for (unsigned i = 0; i < vms; i++) {
        mean += ran[i] / vms;
    }
    for (unsigned i = 0; i < vms; i++) {
        double off = ran[i] > mean ? ran[i] - mean : mean - ran[i];

        worst = off > worst ? off : worst;
    }
    return mean > 0 ? 100 * worst / mean : 0;
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The guest that mirrors isa-host.h: CPL 3 of a machine around the software engine, with the same
 * code area and the same sandbox at the same addresses and nothing else. What is run in it begins
 * and ends with the same struct isa_state.
 */
#pragma once

#include "engine/isa-case.h"

#include "cpu/policy.h"

struct isa_guest;

/** Dies of no memory. */
struct isa_guest *isa_guest_create(uint64_t code, uint64_t sandbox);
void isa_guest_destroy(struct isa_guest *guest);

/** What the guest is told of the processor: bits may be hidden between two runs. */
struct hv_cpu_policy *isa_guest_policy(struct isa_guest *guest);

/** The vCPU that runs. */
struct hv_engine_vcpu *isa_guest_vcpu(struct isa_guest *guest);

/**
 * Run from state->rip to a breakpoint, or to an exception.
 *
 * @code     ISA_CODE_BYTES: the code area.
 * @sandbox  ISA_SANDBOX_BYTES: in and out.
 * @state    in and out; rip is that of the breakpoint, or of the faulting instruction.
 *
 * Returns how it ended; vector ISA_GUEST_LOST when by neither.
 */
struct isa_outcome isa_guest_run(struct isa_guest *guest, const uint8_t *code, uint8_t *sandbox,
                                 struct isa_state *state);

#define ISA_GUEST_LOST 0xfe

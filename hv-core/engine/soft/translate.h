/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Guest bytes to blocks: fetch, decode up to 64 instructions, find out whose flags nobody sees, emit
 * micro-operations, publish.
 */
#pragma once

#include "engine/soft/uop.h"

/** One vCPU's workspace, for its thread alone. -ENOMEM. */
HV_MUST_CHECK int soft_translator_create(struct soft_translator **translator_out);
/** NULL is accepted. */
void soft_translator_destroy(struct soft_translator *translator);

/**
 * The block at @rip in mode @key, found or made. May go OUTSIDE and come back.
 *
 * Returns 0 and *uop_out, its first micro-operation, valid until the vCPU next goes OUTSIDE or is
 * asked again (an uncached block lies in the translator); HV_FAULTED: the fetch's fault;
 * SOFT_RESULT_INTERRUPTED: mode is OUTSIDE, requests stand; a negative errno, in either mode.
 * Context: the vCPU's thread, IN_GUEST.
 */
HV_MUST_CHECK int soft_translate(struct hv_engine_vcpu *vcpu, uint64_t rip, uint32_t key,
                                 const struct soft_uop **uop_out);

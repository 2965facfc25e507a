/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The interpreter's function, generated from interp.tmpl. */
#pragma once

#include "engine/soft/uop.h"

/**
 * Run from @uop until something has to be decided outside: one call for many blocks.
 *
 * @labels_out  not NULL: only give the table of labels by handler number (soft-uops.h).
 *
 * Returns an enum soft_result or a negative errno, with cpu->rip exact and vcpu->insns_left counted.
 * Context: the vCPU's thread, IN_GUEST.
 */
int soft_interpret(struct hv_engine_vcpu *vcpu, const struct soft_uop *uop,
                   const void *const **labels_out);

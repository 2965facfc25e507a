/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The way the control side and devices reach guest memory (decisions D7): a copy, in which the core
 * does the typing, dirty, copy-on-write and post-copy work. No pointer into guest memory leaves it.
 */
#pragma once

#include <hv/types.h>

enum hv_copy_direction {
    HV_COPY_FROM_GUEST,
    HV_COPY_TO_GUEST,
};

struct hv_domain;

/**
 * Copy between @buffer and guest physical [gpa, gpa + bytes).
 *
 * Returns 0; -EINVAL when the range wraps or holds a page that is no RAM (nothing is copied then);
 * -ECANCELED when the domain is dying; -ENOMEM when the host has no memory for it.
 * Context: any thread but a vCPU's in guest mode; may block.
 */
HV_MUST_CHECK int hv_guest_copy(struct hv_domain *domain, hv_gpa gpa, void *buffer, uint64_t bytes,
                                enum hv_copy_direction direction);

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The host calls that the core may still make once it serves: it computes, sleeps and wakes, maps
 * memory of its own, and talks over sockets that it has. It opens nothing, connects to nothing, starts
 * no program and looks at no other process.
 *
 * By seccomp, over all threads, for good. What is refused is a mistake of the core's, or somebody's who
 * has taken it over: it is counted, and a welcome tells it (hv/op.h).
 */
#pragma once

#include "control/server.h"

enum hv_sandbox {
    HV_SANDBOX_REFUSE, /* the call fails by EPERM, and is counted */
    HV_SANDBOX_KILL,   /* it ends the process: tests */
    HV_SANDBOX_NONE,   /* debugging */
};

/**
 * From here on. No new privileges are to be had already (main/privileges.h).
 *
 * Returns 0; -ENOMEM; -ENOTSUP when the host has no seccomp. Context: at start-up.
 */
HV_MUST_CHECK int hv_sandbox_enter(enum hv_sandbox mode);

/** What was refused; of the process. */
const struct hv_control_refused *hv_sandbox_refused(void);

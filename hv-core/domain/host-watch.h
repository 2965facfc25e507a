/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The thread of a core that notices when the host has slept, or somebody has set its wall clock: it
 * sleeps until the kernel says so, and then lets each machine that runs follow, as its clock_policy and
 * rtc_track say. Machines that do not run follow when they do again.
 *
 * Source: timerfd_create(2), TFD_TIMER_CANCEL_ON_SET. After a sleep the wall clock has been set, too:
 * the monotonic one left it out.
 */
#pragma once

#include <hv/types.h>

struct hv_core;
struct hv_host_watch;

/**
 * Start it. @core is borrowed for its life; its directory is made.
 *
 * Returns 0 and *watch_out; -ENOMEM; -EAGAIN when the host starts no more threads or opens no more
 * files; -ENOTSUP when it has no such timers.
 */
HV_MUST_CHECK int hv_host_watch_create(struct hv_core *core, struct hv_host_watch **watch_out);
/** Stop and join it. NULL is accepted. */
void hv_host_watch_destroy(struct hv_host_watch *watch);

/** Look, as if the kernel had said so. Any thread; it does not wait. */
void hv_host_watch_look(struct hv_host_watch *watch);
/** How often it has looked, for whoever waits for one: a futex word, bumped when a look is done. */
const _Atomic uint32_t *hv_host_watch_looks(const struct hv_host_watch *watch);

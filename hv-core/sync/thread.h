/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Starting the core's own threads, all in one manner. */
#pragma once

#include <pthread.h>

#include <hv/types.h>

/**
 * Start a thread that no asynchronous signal is delivered to: those are for the main thread.
 *
 * @name  shown by ps and debuggers, at most 15 bytes; copied.
 *
 * Returns 0, or -EAGAIN.
 */
HV_MUST_CHECK int hv_thread_start(pthread_t *thread_out, const char *name, void *(*body)(void *),
                                  void *context);

/**
 * Let the calling thread have the CPU only when nothing else wants it (SCHED_IDLE). There is no way
 * back without privilege. What others may wait for, or a lock of the host's, must not be in its
 * hands for longer than they can bear.
 */
void hv_thread_be_idle(void);

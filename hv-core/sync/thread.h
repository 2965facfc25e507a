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
 * The calling thread computes in the background: it does not take the CPU from another when it wakes
 * (SCHED_BATCH, sched(7)), and has its share like the others, so that it may hold locks.
 */
void hv_thread_be_batch(void);

/** How often the calling thread lost its CPU to another while it had more to do, so far. */
uint64_t hv_thread_preemptions(void);

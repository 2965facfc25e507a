/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Starting threads: see thread.h. */
#include "sync/thread.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>

int hv_thread_start(pthread_t *thread_out, const char *name, void *(*body)(void *), void *context)
{
    /* What a thread brings upon itself stays: blocked, it would end the process unhandled. */
    static const int synchronous[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
    sigset_t blocked, before;
    int error;

    sigfillset(&blocked);
    for (size_t i = 0; i < HV_ARRAY_LEN(synchronous); i++) {
        sigdelset(&blocked, synchronous[i]);
    }
    /* A thread inherits its maker's mask, so that no signal can come before it has set its own. */
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    error = pthread_create(thread_out, NULL, body, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0) {
        return -EAGAIN;
    }
    pthread_setname_np(*thread_out, name);
    return 0;
}

void hv_thread_be_batch(void)
{
    const struct sched_param none = {0};

    /* Where a sandbox forbids it the thread is one like the others, which is right, too. */
    (void)pthread_setschedparam(pthread_self(), SCHED_BATCH, &none);
}

uint64_t hv_thread_preemptions(void)
{
    struct rusage used;

    return getrusage(RUSAGE_THREAD, &used) == 0 ? (uint64_t)used.ru_nivcsw : 0;
}

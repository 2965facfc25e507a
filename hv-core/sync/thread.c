/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Starting threads: see thread.h. */
#include "sync/thread.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>

#include "sync/atomic.h"
#include "sync/futex.h"

/* Stands on the maker's stack until it is taken. */
struct start {
    void *(*body)(void *);
    void *context;
    const char *name;
    _Atomic uint32_t taken; /* futex word */
};

/* Its own name: that of another thread stands in a file, which a sandbox may forbid to open. */
static void *begin(void *given)
{
    struct start *start = given;
    void *(*body)(void *) = start->body;
    void *context = start->context;

    pthread_setname_np(pthread_self(), start->name);
    /* Pairs with hv_thread_start(), after which `start` is no more. */
    hv_store_seq(&start->taken, 1);
    hv_futex_wake(&start->taken, 1);
    return body(context);
}

int hv_thread_start(pthread_t *thread_out, const char *name, void *(*body)(void *), void *context)
{
    /* What a thread brings upon itself stays: blocked, it would end the process unhandled. */
    static const int synchronous[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
    struct start start = {.body = body, .context = context, .name = name};
    sigset_t blocked, before;
    int error;

    sigfillset(&blocked);
    for (size_t i = 0; i < HV_ARRAY_LEN(synchronous); i++) {
        sigdelset(&blocked, synchronous[i]);
    }
    /* A thread inherits its maker's mask, so that no signal can come before it has set its own. */
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    error = pthread_create(thread_out, NULL, begin, &start);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    while (error == 0 && !hv_load_seq(&start.taken)) {
        hv_futex_wait(&start.taken, 0, HV_NS_NEVER);
    }
    return error == 0 ? 0 : -EAGAIN;
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

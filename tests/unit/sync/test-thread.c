/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sync/thread: the body runs, by its name, with asynchronous signals blocked and others not. */
#include "sync/thread.h"

#include <sched.h>
#include <signal.h>
#include <string.h>

#include "lib/tap.h"

static struct {
    sigset_t mask;
    char name[16];
} seen;

static void *look(void *context)
{
    pthread_sigmask(SIG_SETMASK, NULL, &seen.mask);
    return context;
}

static void test_mask(void)
{
    sigset_t before, after;
    pthread_t thread;
    void *result = NULL;

    pthread_sigmask(SIG_SETMASK, NULL, &before);
    TAP_EQ(hv_thread_start(&thread, "hv-test", look, &seen), 0);
    TAP_EQ(pthread_join(thread, &result), 0);
    TAP_OK(result == &seen);
    TAP_OK(sigismember(&seen.mask, SIGTERM));
    TAP_OK(sigismember(&seen.mask, SIGUSR1));
    TAP_OK(!sigismember(&seen.mask, SIGSEGV));
    TAP_OK(!sigismember(&seen.mask, SIGBUS));
    TAP_OK(!sigismember(&seen.mask, SIGSYS));
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    TAP_EQ(sigismember(&after, SIGTERM), sigismember(&before, SIGTERM));
}

static void *wait_for_name(void *barrier)
{
    pthread_barrier_wait(barrier);
    pthread_getname_np(pthread_self(), seen.name, sizeof(seen.name));
    return NULL;
}

static void test_name(void)
{
    pthread_barrier_t named;
    pthread_t thread;

    pthread_barrier_init(&named, NULL, 2);
    TAP_EQ(hv_thread_start(&thread, "hv-worker-255", wait_for_name, &named), 0);
    pthread_barrier_wait(&named);
    TAP_EQ(pthread_join(thread, NULL), 0);
    pthread_barrier_destroy(&named);
    TAP_STR(seen.name, "hv-worker-255");
}

static void *be_batch(void *context)
{
    *(int *)context = sched_getscheduler(0);
    hv_thread_be_batch();
    return (void *)(intptr_t)sched_getscheduler(0);
}

/* The thread that says so, and no other. */
static void test_batch(void)
{
    int ours = sched_getscheduler(0);
    void *result = NULL;
    pthread_t thread;
    int before = -1;

    TAP_EQ(hv_thread_start(&thread, "hv-test", be_batch, &before), 0);
    TAP_EQ(pthread_join(thread, &result), 0);
    TAP_EQ(before, ours);
    TAP_EQ((intptr_t)result, SCHED_BATCH);
    TAP_EQ(sched_getscheduler(0), ours);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"sync.thread.mask", test_mask},
        {"sync.thread.name", test_name},
        {"sync.thread.batch", test_batch},
    };
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

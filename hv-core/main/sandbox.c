/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A list of allowed calls, and libseccomp. */
#include "main/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <ucontext.h>
#include <unistd.h>

#include "sync/atomic.h"

/* Written by the signal's handler, which has no other way to them. */
static struct hv_control_refused refused;

const struct hv_control_refused *hv_sandbox_refused(void)
{
    return &refused;
}

/* Whatever their arguments. */
static const int allowed[] = {
    /* computing */
    SCMP_SYS(brk),
    SCMP_SYS(mmap),
    SCMP_SYS(mprotect),
    SCMP_SYS(mremap),
    SCMP_SYS(munmap),
    SCMP_SYS(madvise),
    SCMP_SYS(getrandom),
    SCMP_SYS(getrusage),
    /* sleeping and waking; timers that are there; clocks, where the host has no fast ones */
    SCMP_SYS(futex),
    SCMP_SYS(poll),
    SCMP_SYS(ppoll),
    SCMP_SYS(nanosleep),
    SCMP_SYS(clock_nanosleep),
    SCMP_SYS(clock_gettime),
    SCMP_SYS(clock_getres),
    SCMP_SYS(gettimeofday),
    SCMP_SYS(time),
    SCMP_SYS(timerfd_settime),
    SCMP_SYS(sched_yield),
    SCMP_SYS(restart_syscall),
    /* threads: those of the process, which clone() below sees to */
    SCMP_SYS(gettid),
    SCMP_SYS(getpid),
    SCMP_SYS(geteuid),
    SCMP_SYS(set_robust_list),
    SCMP_SYS(rseq),
    SCMP_SYS(sched_getaffinity),
    SCMP_SYS(sched_getparam),
    SCMP_SYS(sched_getscheduler),
    SCMP_SYS(rt_sigaction),
    SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(rt_sigreturn),
    SCMP_SYS(sigaltstack),
    SCMP_SYS(exit),
    SCMP_SYS(exit_group),
    /* sockets that are there, and files in memory to send over them */
    SCMP_SYS(accept4),
    SCMP_SYS(recvmsg),
    SCMP_SYS(sendmsg),
    SCMP_SYS(shutdown),
    SCMP_SYS(close),
    SCMP_SYS(read),
    SCMP_SYS(write),
    SCMP_SYS(writev),
    SCMP_SYS(memfd_create),
    SCMP_SYS(ftruncate),
};

/* Only with this in an argument, under a mask. */
static const struct {
    int call;
    unsigned argument;
    uint64_t mask, value;
} restricted[] = {
    /* A thread, not a process. */
    {SCMP_SYS(clone), 0, CLONE_THREAD, CLONE_THREAD},
    {SCMP_SYS(prctl), 0, UINT32_MAX, PR_SET_NAME},
    {SCMP_SYS(fcntl), 1, UINT32_MAX, F_ADD_SEALS},
    {SCMP_SYS(getsockopt), 1, UINT32_MAX, SOL_SOCKET},
    {SCMP_SYS(sched_setscheduler), 1, UINT32_MAX, SCHED_BATCH},
};

/* SDM and the psABI: a call's result is in RAX, and the number of the one refused in si_syscall. */
static void on_refused(int number, siginfo_t *info, void *context)
{
    ucontext_t *interrupted = context;

    (void)number;
    hv_add_relaxed(&refused.calls, 1);
    hv_store_relaxed(&refused.last, (uint32_t)info->si_syscall);
    interrupted->uc_mcontext.gregs[REG_RAX] = -EPERM;
}

static int add_rules(scmp_filter_ctx filter)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < HV_ARRAY_LEN(allowed); i++) {
        rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, allowed[i], 0);
    }
    for (size_t i = 0; rc == 0 && i < HV_ARRAY_LEN(restricted); i++) {
        rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, restricted[i].call, 1,
                              SCMP_CMP(restricted[i].argument, SCMP_CMP_MASKED_EQ,
                                       restricted[i].mask, restricted[i].value));
    }
    /* Its arguments are in memory, where no filter looks: the C library then takes clone(). */
    if (rc == 0) {
        rc = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
    }
    /* abort(3), and nobody else's death. */
    if (rc == 0) {
        rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1,
                              SCMP_CMP(0, SCMP_CMP_EQ, (uint64_t)getpid()));
    }
    return rc;
}

int hv_sandbox_enter(enum hv_sandbox mode)
{
    struct sigaction action = {.sa_sigaction = on_refused, .sa_flags = SA_SIGINFO | SA_NODEFER};
    scmp_filter_ctx filter;
    int rc;

    if (mode == HV_SANDBOX_NONE) {
        return 0;
    }
    filter = seccomp_init(mode == HV_SANDBOX_KILL ? SCMP_ACT_KILL_PROCESS : SCMP_ACT_TRAP);
    if (!filter) {
        return -ENOMEM;
    }
    rc = sigaction(SIGSYS, &action, NULL) < 0 ? -EINVAL : add_rules(filter);
    if (rc == 0) {
        rc = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
    }
    if (rc == 0) {
        rc = seccomp_load(filter);
    }
    seccomp_release(filter);
    if (rc == -ENOMEM) {
        return rc;
    }
    return rc < 0 ? -ENOTSUP : 0;
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the host refuses the core once it serves. Each case in a process of its own: it is for good. */
#include "main/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/tap.h"
#include "main/privileges.h"
#include "sync/atomic.h"
#include "sync/thread.h"

/* Of a child: the line where it found something else than it should. */
#define EXPECT(condition)                                 \
    do {                                                  \
        if (!(condition)) {                               \
            _exit(__LINE__ & 0xff ? __LINE__ & 0xff : 1); \
        }                                                 \
    } while (0)

static void in_child(void (*body)(void))
{
    int status;
    pid_t child = fork();

    if (child == 0) {
        body();
        _exit(0);
    }
    TAP_OK(child > 0 && waitpid(child, &status, 0) == child);
    TAP_EQ(WIFSIGNALED(status) ? WTERMSIG(status) : 0, 0);
    TAP_EQ(WEXITSTATUS(status), 0);
}

static void enter(enum hv_sandbox mode)
{
    const char *what;

    EXPECT(hv_privileges_drop(true, &what) == 0);
    EXPECT(hv_sandbox_enter(mode) == 0);
}

static bool is_refused(long result, int error, long call)
{
    static uint64_t before;
    const struct hv_control_refused *refused = hv_sandbox_refused();
    bool counted = hv_load_relaxed(&refused->calls) == ++before;

    return result == -1 && error == EPERM && counted && hv_load_relaxed(&refused->last) == call;
}

#define REFUSED(call, ...)                                     \
    do {                                                       \
        long result = (errno = 0, syscall(call, __VA_ARGS__)); \
        EXPECT(is_refused(result, errno, call));               \
    } while (0)

static void call_forbidden(void)
{
    char *const arguments[] = {NULL};
    pid_t parent = getppid();

    enter(HV_SANDBOX_REFUSE);
    REFUSED(SYS_open, "/etc/passwd", O_RDONLY);
    REFUSED(SYS_openat, AT_FDCWD, "/etc/passwd", O_RDONLY);
    REFUSED(SYS_unlink, "/tmp/none");
    REFUSED(SYS_execve, "/bin/true", arguments, arguments);
    REFUSED(SYS_socket, AF_INET, SOCK_STREAM, 0);
    REFUSED(SYS_connect, 0, NULL, 0);
    REFUSED(SYS_ptrace, 0, 0, 0, 0);
    REFUSED(SYS_process_vm_readv, parent, NULL, 0, NULL, 0, 0);
    REFUSED(SYS_kill, parent, 0);
    REFUSED(SYS_tgkill, parent, parent, 0);
    /* A process, where a thread would be let through. */
    REFUSED(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    REFUSED(SYS_fcntl, 0, F_SETFL, 0);
    REFUSED(SYS_prctl, PR_SET_DUMPABLE, 1, 0, 0, 0);
    REFUSED(SYS_ioctl, 0, 0x5413, 0);
}

static void test_refused(void)
{
    in_child(call_forbidden);
}

static void *nothing(void *context)
{
    return context;
}

static void call_needed(void)
{
    pthread_t thread;
    void *mapped;
    int fd;

    enter(HV_SANDBOX_REFUSE);
    EXPECT(hv_thread_start(&thread, "hv-late", nothing, NULL) == 0);
    EXPECT(pthread_join(thread, NULL) == 0);
    fd = memfd_create("late", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    EXPECT(fd >= 0 && ftruncate(fd, 4096) == 0);
    mapped = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
    EXPECT(mapped != MAP_FAILED && munmap(mapped, 4096) == 0);
    EXPECT(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    hv_thread_be_batch();
    EXPECT(hv_load_relaxed(&hv_sandbox_refused()->calls) == 0);
}

static void test_needed(void)
{
    in_child(call_needed);
}

static _Atomic int asked, result;

static void *open_when_asked(void *context)
{
    while (!hv_load_seq(&asked)) {
        usleep(1000);
    }
    hv_store_seq(&result, open("/dev/null", O_RDONLY) < 0 ? errno : 0);
    return context;
}

/* A thread that was there before is in it, too. */
static void call_in_other_thread(void)
{
    pthread_t thread;

    EXPECT(hv_thread_start(&thread, "hv-early", open_when_asked, NULL) == 0);
    enter(HV_SANDBOX_REFUSE);
    hv_store_seq(&asked, 1);
    EXPECT(pthread_join(thread, NULL) == 0);
    EXPECT(hv_load_seq(&result) == EPERM);
    EXPECT(hv_load_relaxed(&hv_sandbox_refused()->calls) > 0);
}

static void test_all_threads(void)
{
    in_child(call_in_other_thread);
}

static void be_killed(void)
{
    enter(HV_SANDBOX_KILL);
    open("/dev/null", O_RDONLY);
}

static void test_killed(void)
{
    TAP_DIES(be_killed, SIGSYS, NULL);
}

static void drop(void)
{
    struct rlimit limit;
    const char *what;

    EXPECT(hv_privileges_drop(false, &what) == 0);
    EXPECT(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
    EXPECT(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0);
    EXPECT(getrlimit(RLIMIT_CORE, &limit) == 0 && limit.rlim_cur == 0 && limit.rlim_max == 0);
    EXPECT(getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur == limit.rlim_max);
}

static void test_dropped(void)
{
    in_child(drop);
}

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

static void close_rest(void)
{
    int keep[3] = {-1, 20, 9};

    for (int fd = 3; fd < 40; fd++) {
        EXPECT(dup2(STDERR_FILENO, fd) == fd);
    }
    close(STDIN_FILENO);
    hv_privileges_close_rest(keep, 3);
    for (int fd = 3; fd < 64; fd++) {
        EXPECT(is_open(fd) == (fd == 9 || fd == 20));
    }
    EXPECT(is_open(STDIN_FILENO));
    EXPECT(fcntl(9, F_GETFD) == FD_CLOEXEC);
}

static void test_closed(void)
{
    in_child(close_rest);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"main.sandbox.refused", test_refused},         {"main.sandbox.needed", test_needed},
        {"main.sandbox.all-threads", test_all_threads}, {"main.sandbox.killed", test_killed},
        {"main.privileges.dropped", test_dropped},      {"main.privileges.closed", test_closed},
    };
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The real process under its filter: machines, deaths on either side, and its own end. */
#include "../unit/control/guest-code.h"
#include "lib/tap.h"
#include "lib/threads.h"
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct process process;
static struct peer peer;

static const char *const no_options[] = {NULL};

static bool begin(const char *const *options)
{
    char text[512];

    if (!process_prepare(&process)) {
        return false;
    }
    if (!process_start(&process, options) || !process_join(&process, &peer)) {
        process_kill(&process, SIGKILL);
        process_read_messages(&process, text, sizeof(text));
        tap_fail(__FILE__, __LINE__, "lodge-core does not serve: %s", text);
        return false;
    }
    return true;
}

static void end(void)
{
    peer_finish(&peer);
    process_clean(&process);
}

static void test_machine(void)
{
    static const char *const options[] = {"--linger", "1", NULL};
    struct hv_op_answer event;
    uint64_t handle;
    char said[3] = "";

    if (!begin(options)) {
        return;
    }
    handle = peer_create(&peer, "greeter", true);
    TAP_OK(handle != 0 && peer_load(&peer, handle, greet, sizeof(greet)));
    TAP_EQ(peer_call_domain(&peer, HV_OP_UNPAUSE, handle), 0);
    do {
        TAP_OK(peer_event(&peer, &event));
        if (event.header.op == HV_OP_CONSOLE) {
            TAP_OK(event.body.console.position + event.body.console.bytes <= 2);
            memcpy(said + event.body.console.position, event.body.console.data,
                   event.body.console.bytes);
        }
    } while (event.header.op != HV_OP_STATE ||
             event.body.state.status.state != HV_DOMAIN_STATE_SHUTDOWN);
    TAP_STR(said, "Hi");
    TAP_EQ(event.body.state.status.end, HV_DOMAIN_END_DEBUG_EXIT);
    TAP_EQ(peer_call_domain(&peer, HV_OP_KILL, handle), 0);
    TAP_OK(peer_await_state(&peer, handle, HV_DOMAIN_STATE_GONE));
    /* Nothing is left to be there for, once its controller has gone. */
    peer_finish(&peer);
    TAP_EQ(process_await(&process), 0);
    process_clean(&process);
}

/* In a child: make a machine, go on with it so far, and wait to be killed. */
static pid_t start_client(bool run, int *told)
{
    int pipes[2];
    pid_t child;
    uint64_t handle;

    if (pipe2(pipes, O_CLOEXEC) < 0) {
        return -1;
    }
    child = fork();
    if (child == 0) {
        if (!process_join(&process, &peer)) {
            _exit(1);
        }
        handle = peer_create(&peer, "orphan", false);
        if (handle == 0 || !peer_load(&peer, handle, loop, sizeof(loop)) ||
            (run && peer_call_domain(&peer, HV_OP_UNPAUSE, handle) != 0)) {
            _exit(1);
        }
        if (write(pipes[1], &handle, sizeof(handle)) == sizeof(handle)) {
            pause();
        }
        _exit(1);
    }
    close(pipes[1]);
    *told = pipes[0];
    return child;
}

static void kill_client(bool run)
{
    uint64_t handle = 0;
    int status, told;
    pid_t child;

    if (!process_prepare(&process)) {
        return;
    }
    TAP_OK(process_start(&process, no_options));
    child = start_client(run, &told);
    TAP_OK(child > 0 && read(told, &handle, sizeof(handle)) == sizeof(handle));
    close(told);
    kill(child, SIGKILL);
    TAP_OK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
    TAP_OK(process_join(&process, &peer));
    TAP_EQ(peer.answer.body.welcome.epoch, 2u);
    if (run) {
        peer.request.body.after.handle = 0;
        TAP_EQ(peer_call(&peer, HV_OP_LIST, sizeof(struct hv_op_after)), 0);
        TAP_EQ(peer.answer.body.listing.count, 1u);
        TAP_EQ(peer.answer.body.listing.listed[0].handle, handle);
        TAP_STR(peer.answer.body.listing.listed[0].name, "orphan");
        TAP_EQ(peer.answer.body.listing.listed[0].state, HV_DOMAIN_STATE_RUNNING);
        TAP_EQ(peer_call_domain(&peer, HV_OP_PAUSE, handle), 0);
        TAP_EQ(peer_call_domain(&peer, HV_OP_UNPAUSE, handle), 0);
        TAP_EQ(peer_call_domain(&peer, HV_OP_KILL, handle), 0);
        TAP_OK(peer_await_state(&peer, handle, HV_DOMAIN_STATE_GONE));
    } else {
        do {
            int32_t rc = peer_call_domain(&peer, HV_OP_STATUS, handle);

            TAP_OK(rc == -ENOENT ||
                   (rc == 0 && peer.answer.body.status.state >= HV_DOMAIN_STATE_DYING));
        } while (peer.answer.header.result == 0);
    }
    end();
}

static void test_client_killed(void)
{
    kill_client(true);
}

static void test_client_killed_early(void)
{
    kill_client(false);
}

/* Its machines are lost with it; nothing of it is in the way of the next one. */
static void test_core_killed(void)
{
    if (!begin(no_options)) {
        return;
    }
    TAP_OK(peer_create(&peer, "lost", false) != 0);
    TAP_EQ(process_kill(&process, SIGKILL), -SIGKILL);
    TAP_OK(peer_await_end(&peer));
    peer_finish(&peer);
    TAP_OK(process_start(&process, no_options));
    TAP_OK(process_join(&process, &peer));
    TAP_EQ(peer.answer.body.welcome.domains, 0u);
    end();
}

static void test_one_of_a_pool(void)
{
    struct process other;
    char text[512];

    if (!begin(no_options)) {
        return;
    }
    other = process;
    other.messages = -1;
    TAP_OK(!process_start(&other, no_options));
    TAP_EQ(process_await(&other), 1);
    process_read_messages(&other, text, sizeof(text));
    close(other.messages);
    TAP_OK(strstr(text, "default runs already") && strchr(text, '\n') == text + strlen(text) - 1);
    /* And it has not come between. */
    TAP_EQ(peer_call(&peer, HV_OP_LIST, sizeof(struct hv_op_after)), 0);
    end();
}

/* Every thread is in the sandbox, and nobody of the same user can look into the process. */
static void test_sandboxed(void)
{
    char path[64], status[4096] = "";
    size_t length;
    FILE *file;

    if (strcmp(LODGE_CORE_SANDBOX, "none") == 0) {
        tap_skip("A sanitizer's host calls are not those of the product.");
        return;
    }
    if (!begin(no_options)) {
        return;
    }
    snprintf(path, sizeof(path), "/proc/%d/status", (int)process.pid);
    file = fopen(path, "r");
    TAP_OK(file);
    length = fread(status, 1, sizeof(status) - 1, file);
    fclose(file);
    status[length] = '\0';
    TAP_OK(strstr(status, "\nNoNewPrivs:\t1\n"));
    TAP_OK(strstr(status, "\nSeccomp:\t2\n"));
    TAP_EQ(peer.answer.body.welcome.refused_calls, 0u);
    end();
}

static void test_terminated(void)
{
    uint64_t handle;

    if (!begin(no_options)) {
        return;
    }
    handle = peer_create(&peer, "runs", true);
    TAP_OK(peer_load(&peer, handle, loop, sizeof(loop)));
    TAP_EQ(peer_call_domain(&peer, HV_OP_UNPAUSE, handle), 0);
    TAP_EQ(process_kill(&process, SIGTERM), 0);
    TAP_OK(peer_await_end(&peer));
    end();
}

/* A private one, over a socket that its parent made: it ends with that, whatever runs. */
static void test_private(void)
{
    const char *options[] = {"--caller-fd", "11", NULL};
    uint64_t handle;
    int pair[2];

    if (!process_prepare(&process)) {
        return;
    }
    TAP_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    TAP_OK(dup2(pair[1], 11) == 11);
    TAP_OK(process_start(&process, options));
    close(11);
    close(pair[1]);
    peer_init(&peer, pair[0]);
    TAP_EQ(peer_hello(&peer, true), 0);
    handle = peer_create(&peer, "private", false);
    TAP_OK(peer_load(&peer, handle, loop, sizeof(loop)));
    TAP_EQ(peer_call_domain(&peer, HV_OP_UNPAUSE, handle), 0);
    TAP_OK(access(process.directory, F_OK) == 0);
    peer_finish(&peer);
    TAP_EQ(process_await(&process), 0);
    process_clean(&process);
}

static void check_complaint(const char *const *options, int status, const char *expected)
{
    char text[512];

    TAP_OK(!process_start(&process, options));
    TAP_EQ(process_await(&process), status);
    process_read_messages(&process, text, sizeof(text));
    if (!strstr(text, expected)) {
        tap_fail(__FILE__, __LINE__, "“%s” says nothing of “%s”", text, expected);
        return;
    }
    TAP_OK(strncmp(text, "lodge-core: ", 12) == 0);
    TAP_OK(strchr(text, '\n') == text + strlen(text) - 1);
}

static void test_bad_input(void)
{
    static const char *const bad[][3] = {
        {"--pool", "../x", "pool's name"},
        {"--pool", "", "pool's name"},
        {"--pool", "a234567890b234567890c234567890d23", "1 to 32"},
        {"--memory", "0", "2 MiB"},
        {"--memory", "3M", "2 MiB"},
        {"--memory", "-2M", "2 MiB"},
        {"--memory", "99999999999999999999", "2 MiB"},
        {"--memory", "99999999T", "2 MiB"},
        {"--memory", "4096T", "--memory"},
        {"--workers", "0", "from 1"},
        {"--workers", "1x", "from 1"},
        {"--workers", "256", "--workers"},
        {"--policy", "fair", "credit and host"},
        {"--stat-period", "5", "10 to"},
        {"--linger", "-1", "seconds"},
        {"--listen-fd", "2", "inherited"},
        {"--listen-fd", "99", "inherited"},
        {"--caller-fd", "10", "inherited"},
        {"--sandbox", "maybe", "refuse, kill and none"},
        {"--nothing", NULL, "no such option"},
        {"word", NULL, "no such option"},
        {"--memory", NULL, "value is missing"},
    };

    if (!process_prepare(&process)) {
        return;
    }
    for (unsigned i = 0; i < HV_ARRAY_LEN(bad) && !tap_failed(); i++) {
        const char *options[] = {bad[i][0], bad[i][1], NULL};
        bool host = strcmp(bad[i][2], "--workers") == 0 || strcmp(bad[i][2], "--memory") == 0;

        check_complaint(options, host ? 1 : 2, bad[i][2]);
    }
    process_clean(&process);
}

/* A runtime directory that is none, too long, or others'. */
static void test_bad_directory(void)
{
    char good[sizeof(process.directory)], path[128];

    if (!process_prepare(&process)) {
        return;
    }
    memcpy(good, process.directory, sizeof(good));
    snprintf(process.directory, sizeof(process.directory), "relative");
    check_complaint(no_options, 1, "XDG_RUNTIME_DIR");
    snprintf(process.directory, sizeof(process.directory), "/nonexistent");
    check_complaint(no_options, 1, "/nonexistent/lodge");
    memcpy(process.directory, good, sizeof(good));
    snprintf(path, sizeof(path), "%s/lodge", good);
    TAP_EQ(mkdir(path, 0700), 0);
    TAP_EQ(chmod(path, 0777), 0);
    check_complaint(no_options, 1, "nobody else can write");
    TAP_EQ(rmdir(path), 0);
    TAP_EQ(symlink("/tmp", path), 0);
    check_complaint(no_options, 1, "directory of your own");
    process_clean(&process);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"core.process.machine", test_machine},
        {"core.process.client-killed", test_client_killed},
        {"core.process.client-killed-early", test_client_killed_early},
        {"core.process.core-killed", test_core_killed},
        {"core.process.one-of-a-pool", test_one_of_a_pool},
        {"core.process.sandboxed", test_sandboxed},
        {"core.process.terminated", test_terminated},
        {"core.process.private", test_private},
        {"core.process.bad-input", test_bad_input},
        {"core.process.bad-directory", test_bad_directory},
    };
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

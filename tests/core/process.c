/* SPDX-License-Identifier: GPL-3.0-or-later */
/* posix_spawn() with a pipe for "ready" and one for messages: see process.h. */
#include "process.h"

#include "lib/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define READY_FD    10
#define OPTIONS_MAX 16

/* Those that run: what a failed case leaves behind ends with the test. */
static pid_t running[8];

static void end_running(void)
{
    for (unsigned i = 0; i < HV_ARRAY_LEN(running); i++) {
        if (running[i] > 0) {
            kill(running[i], SIGKILL);
        }
    }
}

static void replace_running(pid_t from, pid_t to)
{
    for (unsigned i = 0; i < HV_ARRAY_LEN(running); i++) {
        if (running[i] == from) {
            running[i] = to;
            break;
        }
    }
}

bool process_prepare(struct process *process)
{
    *process = (struct process){.pid = -1, .messages = -1};
    snprintf(process->directory, sizeof(process->directory), "/tmp/lodge-core-test.XXXXXX");
    if (!mkdtemp(process->directory)) {
        tap_fail(__FILE__, __LINE__, "no directory: %s", strerror(errno));
        return false;
    }
    return true;
}

static pid_t spawn(const struct process *process, const char *const *options, int ready,
                   int messages)
{
    const char *arguments[OPTIONS_MAX] = {LODGE_CORE,  "--ready-fd",      "10", "--memory", "128M",
                                          "--sandbox", LODGE_CORE_SANDBOX};
    unsigned count = 7;
    posix_spawn_file_actions_t actions;
    pid_t pid = -1;

    for (; *options && count < OPTIONS_MAX - 1; options++) {
        arguments[count++] = *options;
    }
    setenv("XDG_RUNTIME_DIR", process->directory, 1);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ready, READY_FD);
    posix_spawn_file_actions_adddup2(&actions, messages, STDERR_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    if (posix_spawn(&pid, LODGE_CORE, &actions, NULL, (char *const *)(uintptr_t)arguments,
                    environ) != 0) {
        pid = -1;
    }
    posix_spawn_file_actions_destroy(&actions);
    return pid;
}

bool process_start(struct process *process, const char *const *options)
{
    int ready[2], messages[2];
    char line[6];
    bool good;

    if (process->messages >= 0) {
        close(process->messages);
    }
    if (pipe2(ready, O_CLOEXEC) < 0 || pipe2(messages, O_CLOEXEC) < 0) {
        return false;
    }
    process->pid = spawn(process, options, ready[1], messages[1]);
    process->messages = messages[0];
    if (running[0] == 0) {
        atexit(end_running);
    }
    replace_running(0, process->pid);
    close(ready[1]);
    close(messages[1]);
    good = process->pid > 0 && read(ready[0], line, sizeof(line)) == sizeof(line) &&
           memcmp(line, "ready\n", sizeof(line)) == 0;
    close(ready[0]);
    return good;
}

int process_await(struct process *process)
{
    int status = -1;

    while (waitpid(process->pid, &status, 0) < 0 && errno == EINTR) {
    }
    replace_running(process->pid, 0);
    process->pid = -1;
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

int process_kill(struct process *process, int signal)
{
    kill(process->pid, signal);
    return process_await(process);
}

void process_read_messages(struct process *process, char *text, size_t size)
{
    size_t length = 0;
    ssize_t got;

    while (length < size - 1 &&
           (got = read(process->messages, text + length, size - 1 - length)) > 0) {
        length += (size_t)got;
    }
    text[length] = '\0';
}

static void address_of(const struct process *process, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(address->sun_path, sizeof(address->sun_path), "%s/lodge/core-default.sock",
             process->directory);
}

void process_clean(struct process *process)
{
    static const char *const files[] = {"lodge/core-default.sock", "lodge/core-default.lock",
                                        "lodge", ""};
    char path[128];

    if (process->pid > 0) {
        process_kill(process, SIGKILL);
    }
    if (process->messages >= 0) {
        close(process->messages);
    }
    for (unsigned i = 0; i < HV_ARRAY_LEN(files); i++) {
        snprintf(path, sizeof(path), "%s/%s", process->directory, files[i]);
        remove(path);
    }
}

bool process_join(const struct process *process, struct peer *peer)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    struct sockaddr_un address;

    address_of(process, &address);
    peer_init(peer, fd);
    return connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
           peer_hello(peer, true) == 0 && peer->staging;
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * lodge-core: the process that holds guests.
 *
 * It begins with its user's rights and gives them up step by step; main() is to be read from top to
 * bottom. From hv_sandbox_enter() on it reaches nothing but the memory and sockets it has.
 */
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <string.h>

#include "control/server.h"
#include "main/options.h"
#include "main/privileges.h"
#include "main/sandbox.h"
#include "main/socket.h"

enum {
    EXIT_GOOD,
    EXIT_FAILED,
    EXIT_WRONG, /* what was given */
};

/* For on_signal(), which is given nothing. Set before the signals are let in. */
static struct hv_control *served;

static void on_signal(int number)
{
    int before = errno;

    (void)number;
    hv_control_stop(served);
    errno = before;
}

/* Ends by these in order, machines and all; and a peer that has gone is an error like others. */
static void take_signals(struct hv_control *control)
{
    static const int ending[] = {SIGTERM, SIGINT};
    const struct sigaction stop = {.sa_handler = on_signal};

    served = control;
    for (size_t i = 0; i < HV_ARRAY_LEN(ending); i++) {
        sigaction(ending[i], &stop, NULL);
    }
    signal(SIGHUP, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
}

static int fail(const char *what, int negative_errno)
{
    hv_options_complain("%s: %s", what, strerrordesc_np(-negative_errno));
    return EXIT_FAILED;
}

/* The core is there, and nobody can use it yet. */
static int serve(struct hv_core *core, const struct hv_options *options, int listener)
{
    const struct hv_control_config config = {
        .core = core,
        .listener = listener,
        .caller = options->caller_fd,
        .linger_ns = options->linger_ns,
        .refused = hv_sandbox_refused(),
    };
    struct hv_control *control;
    int rc = hv_control_create(&config, &control);

    if (rc < 0) {
        return fail("cannot start the control threads", rc);
    }
    take_signals(control);
    rc = hv_sandbox_enter(options->sandbox);
    if (rc == 0) {
        hv_options_say_ready();
        hv_control_run(control);
    }
    hv_control_destroy(control);
    return rc < 0 ? fail("cannot enter the sandbox; --sandbox none does without", rc) : EXIT_GOOD;
}

int main(int argc, char **argv)
{
    struct hv_options options;
    struct hv_core *core;
    const char *what;
    int listener, rc;

    switch (hv_options_read(argc, argv, &options)) {
    case HV_OPTIONS_DONE:
        return EXIT_GOOD;
    case HV_OPTIONS_WRONG:
        return EXIT_WRONG;
    case HV_OPTIONS_RUN:
        break;
    }
    hv_privileges_close_rest((const int[]){options.listen_fd, options.caller_fd, options.ready_fd},
                             3);
    rc = hv_privileges_drop(options.debuggable, &what);
    if (rc < 0) {
        return fail(what, rc);
    }
    /* One heap for all threads: to find out how many it may have, the C library would open a file. */
    mallopt(M_ARENA_MAX, 1);
    /* What a machine needs in large pieces goes back when it goes; left to itself, the library keeps
     * pieces of the size that was freed last. Measured with 200 machines: 380 KiB each instead of 500. */
    mallopt(M_MMAP_THRESHOLD, 64 * 1024);
    listener = options.listen_fd;
    if (listener < 0 && options.caller_fd < 0) {
        listener = hv_socket_open(options.pool);
        if (listener < 0) {
            return EXIT_FAILED;
        }
    }
    rc = hv_core_create(&options.core, &core);
    if (rc < 0) {
        return fail("cannot start the core; --memory and --workers say what it needs", rc);
    }
    rc = serve(core, &options, listener);
    hv_core_destroy(core);
    return rc;
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * `lodgectl run`: a machine in this terminal, on an embedded core.
 *
 *     options -> images read and checked -> core -> domain -> loaded -> running
 *        main loop: terminal input, signals, timeout; a watcher thread waits for the domain's end
 *     -> reboot: reset, load again, go on;   else: report, statistics, destroy, exit status
 */
#include "cli/verb.h"

#include "build/builder.h"
#include "cli/console.h"
#include "cli/crash-report.h"
#include "cli/run-options.h"
#include "cli/signals.h"
#include "cli/stats-locks.h"
#include "cli/timer-option.h"
#include "common/i18n.h"
#include "common/lodge-error.h"
#include "common/stats-json.h"
#include "common/thread.h"

#include <hv/domain.h>
#include <hv/lock-stats.h>

#include <errno.h>
#include <fcntl.h>
#include <glib-unix.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct {
    LodgeRunOptions options;
    LodgeBuilder *builder;
    LodgeConsole *console;   /* NULL with --serial none */
    int serial_fd, stats_fd; /* -1: none */
    gboolean stats_made;     /* by us: a refused run leaves no file */
    struct hv_core *core;
    struct hv_domain *domain;
    GMainLoop *loop;
    GThread *watcher;
    int status;
    gboolean ended; /* by us: signal, timeout, Ctrl-A X */
    LodgeSignals signals;
} Run;

/* Who sends a signal, or types Ctrl-A X, does not wait for a reader that does not read. */
#define HURRY_US (50 * G_TIME_SPAN_MILLISECOND)

static gboolean quit_loop(gpointer data)
{
    Run *run = data;

    g_main_loop_quit(run->loop);
    return G_SOURCE_REMOVE;
}

/* Sleep until the machine is no longer running, then wake the main loop. */
static gpointer watch(gpointer data)
{
    Run *run = data;

    while (hv_domain_wait_change(run->domain, HV_DOMAIN_STATE_RUNNING, UINT64_MAX) != 0) {
    }
    g_idle_add(quit_loop, run);
    return NULL;
}

static void stop_with(Run *run, int status)
{
    run->status = status;
    run->ended = TRUE;
    g_main_loop_quit(run->loop);
}

static void leave_with(Run *run, int status)
{
    if (run->console) {
        lodge_console_hurry(run->console, HURRY_US);
    }
    stop_with(run, status);
}

static void on_leave(gpointer data)
{
    leave_with(data, LODGE_EXIT_LEFT);
}

static gboolean on_timeout(gpointer data)
{
    stop_with(data, LODGE_EXIT_TIMEOUT);
    return G_SOURCE_REMOVE;
}

static void on_signal(int number, gpointer data)
{
    leave_with(data, LODGE_EXIT_SIGNAL + number);
}

static void end_now(int number)
{
    _exit(LODGE_EXIT_SIGNAL + number);
}

/*
 * The main loop has ended for good and nobody would hear a signal any more, but reports may be
 * written to a reader who does not read: from here on a signal ends the process at once.
 */
static void let_signals_end_us(Run *run)
{
    static const int numbers[] = {SIGHUP, SIGINT, SIGTERM};

    if (run->console) {
        lodge_console_release_terminal(run->console);
    }
    lodge_signals_forget(&run->signals);
    for (gsize i = 0; i < G_N_ELEMENTS(numbers); i++) {
        signal(numbers[i], end_now);
    }
}

/* A file that is written to is none of those that are read. */
static gboolean is_same_file(int fd, const char *path)
{
    struct stat written, read;

    return path && fstat(fd, &written) == 0 && stat(path, &read) == 0 &&
           written.st_dev == read.st_dev && written.st_ino == read.st_ino;
}

static size_t write_console(void *console, const uint8_t *data, size_t bytes)
{
    return lodge_console_write(console, data, bytes);
}

static const struct hv_console_ops console_of_domain = {.write = write_console};

static gsize type_at_domain(gpointer domain, const guint8 *data, gsize bytes)
{
    return hv_domain_console_input(domain, data, bytes);
}

static void wake_domain(gpointer domain)
{
    hv_domain_console_writable(domain);
}

static const LodgeConsoleMachine domain_at_console = {
    .input = type_at_domain,
    .writable = wake_domain,
};

static gboolean open_console(Run *run, GError **error)
{
    const char *path = run->options.serial_path;

    if (run->options.serial == LODGE_SERIAL_NONE) {
        return TRUE;
    }
    if (run->options.serial == LODGE_SERIAL_STDIO) {
        run->console = lodge_console_new(STDOUT_FILENO, TRUE,
                                         N_("Ctrl-A X  leave the machine (it is destroyed)"),
                                         on_leave, run, error);
        return run->console != NULL;
    }
    /* Not blocking: a FIFO that nobody reads would hold us, deaf to signals, for ever. */
    run->serial_fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0644);
    if (run->serial_fd < 0) {
        g_set_error(error, LODGE_ERROR, LODGE_ERROR_INPUT,
                    _("Cannot write the serial file “%s”: %s"), path, g_strerror(errno));
        return FALSE;
    }
    if (is_same_file(run->serial_fd, run->options.kernel) ||
        is_same_file(run->serial_fd, run->options.initrd)) {
        g_set_error(error, LODGE_ERROR, LODGE_ERROR_INPUT,
                    _("The serial file “%s” is the kernel or the initrd; name another"), path);
        return FALSE;
    }
    run->console = lodge_console_new(run->serial_fd, FALSE, NULL, NULL, NULL, error);
    return run->console != NULL;
}

/* Only when all else is as it should be: a refused run keeps what an earlier one has left. */
static gboolean truncate_serial(Run *run, GError **error)
{
    struct stat status;

    if (run->serial_fd < 0 || fstat(run->serial_fd, &status) < 0 || !S_ISREG(status.st_mode) ||
        ftruncate(run->serial_fd, 0) == 0) {
        return TRUE;
    }
    g_set_error(error, LODGE_ERROR, LODGE_ERROR_FAILED,
                _("Cannot truncate the serial file “%s”: %s"), run->options.serial_path,
                g_strerror(errno));
    return FALSE;
}

/*
 * Before the run, which would be for nothing, and kept open: what can be written now can be written at
 * the end. Not blocking, as the serial file. A FIFO wants its reader now, or nobody knows when.
 */
static gboolean open_stats(Run *run, GError **error)
{
    const char *path = run->options.stats_path;
    int flags = O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;

    if (!path) {
        return TRUE;
    }
    run->stats_fd = open(path, flags);
    if (run->stats_fd < 0 && errno == ENOENT) {
        run->stats_fd = open(path, flags | O_CREAT, 0644);
        run->stats_made = run->stats_fd >= 0;
    }
    if (run->stats_fd < 0) {
        g_set_error(error, LODGE_ERROR, LODGE_ERROR_INPUT,
                    errno == ENXIO
                        ? _("Cannot write the statistics “%s”: %s (nobody reads the FIFO)")
                        : _("Cannot write the statistics “%s”: %s"),
                    path, g_strerror(errno));
        return FALSE;
    }
    if (is_same_file(run->stats_fd, run->options.kernel) ||
        is_same_file(run->stats_fd, run->options.initrd) ||
        is_same_file(run->stats_fd, run->options.serial_path)) {
        g_set_error(error, LODGE_ERROR, LODGE_ERROR_INPUT,
                    _("The statistics “%s” are the kernel, the initrd or the serial file; name "
                      "another"),
                    path);
        return FALSE;
    }
    return TRUE;
}

static gboolean create_machine(Run *run, GError **error)
{
    const LodgeRunOptions *options = &run->options;
    const struct hv_core_config core = {
        .workers = options->workers,
        .policy = options->host_policy ? HV_SCHED_POLICY_HOST : HV_SCHED_POLICY_CREDIT,
        .no_boost = !options->boost,
        .memory_bytes = (options->memory_bytes + HV_EXTENT_SIZE - 1) & ~(HV_EXTENT_SIZE - 1),
    };
    const struct hv_domain_config domain = {
        .name = "run",
        .engine = options->engine,
        .memory_bytes = options->memory_bytes,
        .vcpus = options->vcpus,
        .flags = (options->testdev ? HV_DOMAIN_TESTDEV : 0u) | options->debug_flags,
        .pv_hidden = options->pv_hidden,
        .clock_policy = options->time.clock_policy,
        .rtc_track = options->time.rtc_track,
        .timers_absent = options->time.timers_absent,
        .console = run->console ? &console_of_domain : NULL,
        .console_context = run->console,
    };
    char why[128] = "";
    int rc = hv_core_create(&core, &run->core);

    if (rc < 0) {
        lodge_error_set_errno(error, rc, _("Cannot start the hypervisor core"));
        return FALSE;
    }
    rc = hv_domain_create(run->core, &domain, &run->domain, why, sizeof(why));
    if (rc == -ENOTSUP) {
        g_set_error(error, LODGE_ERROR, LODGE_ERROR_INPUT, _("--engine %s: %s Use auto or soft."),
                    options->engine, why);
        return FALSE;
    }
    if (rc < 0) {
        lodge_error_set_errno(error, rc, _("Cannot create the machine (%s)"), why);
        return FALSE;
    }
    if (run->console) {
        lodge_console_attach(run->console, &domain_at_console, run->domain);
    }
    return TRUE;
}

/* When all locks are made, so that their classes are known. */
static gboolean set_lock_sampling(const Run *run, GError **error)
{
    const GArray *wanted = run->options.lock_sampling;

    for (guint i = 0; wanted && i < wanted->len; i++) {
        const LodgeLockSampling *one = &g_array_index(wanted, LodgeLockSampling, i);

        if (hv_core_set_lock_sampling(run->core, one->class_name, one->one_in) < 0) {
            g_set_error(
                error, LODGE_ERROR, LODGE_ERROR_INPUT,
                _("--lock-sampling %s=%u: no lock is of that class; --stats locks shows them"),
                one->class_name, one->one_in);
            return FALSE;
        }
    }
    return TRUE;
}

static gboolean set_timers(const Run *run, GError **error)
{
    const LodgeMachineTime *time = &run->options.time;

    for (guint source = 0; source < HV_VPT_SOURCES; source++) {
        char why[128] = "";

        if ((time->policies & 1u << source) &&
            hv_domain_set_tick_policy(run->domain, (enum hv_vpt_source)source,
                                      &time->policy[source], why, sizeof(why)) < 0) {
            g_set_error(error, LODGE_ERROR, LODGE_ERROR_INPUT, "--timer %s: %s",
                        lodge_timer_name(lodge_timer_of_source((enum hv_vpt_source)source)), why);
            return FALSE;
        }
    }
    return TRUE;
}

static gboolean start_machine(Run *run, GError **error)
{
    int rc;

    if (!lodge_builder_load(run->builder, run->domain, error)) {
        return FALSE;
    }
    rc = hv_domain_unpause(run->domain);
    if (rc < 0) {
        lodge_error_set_errno(error, rc, _("Cannot start the machine"));
        return FALSE;
    }
    run->watcher = lodge_thread_new("watcher", watch, run, error);
    return run->watcher != NULL;
}

static void print_crash(Run *run, const struct hv_domain_status *status)
{
    struct hv_crash_report report;
    g_autofree char *text = NULL;

    g_printerr(_("\nlodgectl: the machine crashed: %s\n"), status->reason);
    if (hv_domain_get_crash(run->domain, &report) == 0) {
        text = lodge_crash_report_format(&report);
        g_printerr("%s", text);
    }
}

/* What the end of the machine means for us. TRUE: start it again. */
static gboolean judge_end(Run *run)
{
    struct hv_domain_status status;

    hv_domain_get_status(run->domain, &status);
    if (status.end == HV_DOMAIN_END_REBOOT && run->options.restart) {
        return TRUE;
    }
    let_signals_end_us(run);
    switch (status.end) {
    case HV_DOMAIN_END_NONE:
    case HV_DOMAIN_END_POWEROFF:
        run->status = LODGE_EXIT_OK;
        break;
    case HV_DOMAIN_END_REBOOT:
        run->status = LODGE_EXIT_OK;
        return FALSE;
    case HV_DOMAIN_END_TRIPLE_FAULT:
    case HV_DOMAIN_END_CRASH:
        print_crash(run, &status);
        run->status = LODGE_EXIT_CRASH;
        break;
    case HV_DOMAIN_END_DEBUG_EXIT:
        run->status = LODGE_EXIT_DEBUG + (int)(status.code & 31);
        break;
    case HV_DOMAIN_END_HALTED:
        g_printerr(_("\nlodgectl: the machine halted: %s\n"), status.reason);
        run->status = LODGE_EXIT_HALTED;
        break;
    case HV_DOMAIN_END_NO_MEMORY:
        g_printerr(_("\nlodgectl: the machine stopped: %s; free some memory, or give it less\n"),
                   status.reason);
        run->status = LODGE_EXIT_FAILED;
        break;
    }
    return FALSE;
}

/* Run until the machine or somebody ends it. TRUE: it rebooted and shall start again. */
static gboolean run_once(Run *run)
{
    int rc;

    g_main_loop_run(run->loop);
    /* When we end it, so that the watcher sees a change; when it has ended, this does nothing. */
    rc = hv_domain_pause(run->domain);
    g_assert(rc == 0 || rc == -EBUSY);
    g_thread_join(g_steal_pointer(&run->watcher));
    return !run->ended && judge_end(run);
}

static gboolean run_until_end(Run *run, GError **error)
{
    int rc = 0;

    do {
        if (!start_machine(run, error)) {
            return FALSE;
        }
        if (!run_once(run)) {
            return TRUE;
        }
        rc = hv_domain_reset(run->domain);
    } while (rc == 0);
    lodge_error_set_errno(error, rc, _("Cannot reset the machine"));
    return FALSE;
}

/* Into the file itself: a new one in its place would replace a device, such as /dev/null. */
static gboolean write_stats(int fd, const char *text)
{
    g_autofree char *line = g_strconcat(text, "\n", NULL);
    struct stat status;

    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && ftruncate(fd, 0) < 0) {
        return FALSE;
    }
    /* From here on signals end us: a reader may take his time. */
    if (!g_unix_set_fd_nonblocking(fd, FALSE, NULL)) {
        return FALSE;
    }
    for (const char *at = line; *at != '\0';) {
        gssize written = write(fd, at, strlen(at));

        if (written < 0 && errno != EINTR) {
            return FALSE;
        }
        at += written > 0 ? written : 0;
    }
    return TRUE;
}

static char *stats_text(const Run *run)
{
    switch (run->options.stats) {
    case LODGE_STATS_JSON:
        return lodge_stats_to_json(run->core, run->domain);
    case LODGE_STATS_LOCKS:
        return lodge_stats_to_lock_table(run->core);
    case LODGE_STATS_LOCKS_JSON:
        return lodge_lock_stats_to_json(run->core);
    case LODGE_STATS_NONE:
        break;
    }
    return g_strdup("");
}

static void print_stats(Run *run)
{
    g_autofree char *text = NULL;

    if (run->options.stats == LODGE_STATS_NONE || !run->domain) {
        return;
    }
    let_signals_end_us(run);
    text = stats_text(run);
    if (run->stats_fd < 0) {
        g_printerr("%s\n", text);
        if (ferror(stderr)) {
            run->status = run->status ? run->status : LODGE_EXIT_FAILED;
        }
    } else if (!write_stats(run->stats_fd, text)) {
        g_printerr(_("lodgectl: Cannot write the statistics “%s”: %s\n"), run->options.stats_path,
                   g_strerror(errno));
        run->status = run->status ? run->status : LODGE_EXIT_FAILED;
    }
}

/* Bytes that could not be written are a failure, unless their reader has simply gone. */
static void judge_console(Run *run)
{
    int lost = run->console ? lodge_console_flush(run->console) : 0;

    if (lost != 0 && lost != EPIPE) {
        g_printerr(_("\nlodgectl: the machine's serial output is incomplete: %s\n"),
                   g_strerror(lost));
        run->status = run->status ? run->status : LODGE_EXIT_FAILED;
    }
}

static void clean_up(Run *run)
{
    if (run->console) {
        lodge_console_attach(run->console, NULL, NULL);
    }
    hv_domain_destroy(run->domain);
    judge_console(run);
    lodge_console_free(run->console);
    hv_core_destroy(run->core);
    lodge_builder_free(run->builder);
    if (run->serial_fd >= 0) {
        close(run->serial_fd);
    }
    if (run->stats_fd >= 0) {
        close(run->stats_fd);
    }
    g_clear_pointer(&run->loop, g_main_loop_unref);
    lodge_run_options_clear(&run->options);
}

static void add_sources(Run *run)
{
    lodge_signals_watch(&run->signals, on_signal, run);
    if (run->options.timeout_s > 0) {
        g_timeout_add((guint)(run->options.timeout_s * 1000), on_timeout, run);
    }
}

int lodge_verb_run(int argc, char **argv)
{
    Run run = {.serial_fd = -1, .stats_fd = -1};
    g_autoptr(GError) error = NULL;

    /* A reader of our output that goes away is an end of writing, not of us. */
    signal(SIGPIPE, SIG_IGN);
    /* Nor is a limit on the size of files, which is an errno then. */
    signal(SIGXFSZ, SIG_IGN);
    run.loop = g_main_loop_new(NULL, FALSE);
    if (lodge_run_options_parse(&run.options, argc, argv, &error)) {
        run.builder =
            lodge_builder_new(run.options.kernel, run.options.initrd, run.options.append, &error);
    }
    if (run.builder && lodge_thread_reserve(&error)) {
        /* From the console on a signal must not end us before the terminal is as it was. GLib makes
         * a thread for them, and ends the process when there is none. */
        add_sources(&run);
        if (open_console(&run, &error) && open_stats(&run, &error) &&
            create_machine(&run, &error) && set_lock_sampling(&run, &error) &&
            set_timers(&run, &error) && truncate_serial(&run, &error) &&
            run_until_end(&run, &error)) {
            print_stats(&run);
        }
        if (error && run.stats_made) {
            (void)unlink(run.options.stats_path);
        }
    }
    clean_up(&run);
    return error ? lodge_verb_fail(error) : run.status;
}

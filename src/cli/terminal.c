/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Raw mode, and what job control does to it. */
#include "cli/terminal.h"

#include <glib-unix.h>
#include <sys/signalfd.h>
#include <unistd.h>

static gboolean in_foreground(void)
{
    return tcgetpgrp(STDIN_FILENO) == getpgrp();
}

static void make_raw(LodgeTerminal *terminal)
{
    struct termios raw = terminal->cooked;

    cfmakeraw(&raw);
    raw.c_oflag |= OPOST;
    terminal->raw = tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
}

static void make_cooked(LodgeTerminal *terminal)
{
    if (in_foreground()) {
        tcsetattr(STDIN_FILENO, TCSANOW, &terminal->cooked);
    }
    terminal->raw = FALSE;
}

void lodge_terminal_retake(LodgeTerminal *terminal)
{
    if (terminal->present && !terminal->raw && in_foreground()) {
        make_raw(terminal);
    }
}

/* Do what SIGTSTP does to who does not catch it: in a group that nobody could continue, nothing. */
static void stop(void)
{
    sigset_t stops;

    sigemptyset(&stops);
    sigaddset(&stops, SIGTSTP);
    raise(SIGTSTP);
    pthread_sigmask(SIG_UNBLOCK, &stops, NULL);
    pthread_sigmask(SIG_BLOCK, &stops, NULL);
}

static gboolean on_signal(gint fd, GIOCondition condition, gpointer data)
{
    LodgeTerminal *terminal = data;
    struct signalfd_siginfo info;

    (void)condition;
    if (read(fd, &info, sizeof(info)) != sizeof(info)) {
        return G_SOURCE_CONTINUE;
    }
    if (info.ssi_signo == SIGTSTP) {
        make_cooked(terminal);
        stop();
    }
    terminal->raw = FALSE; /* the shell's, if we stood */
    lodge_terminal_retake(terminal);
    return G_SOURCE_CONTINUE;
}

static void watch_signals(LodgeTerminal *terminal)
{
    sigset_t signals;

    sigemptyset(&signals);
    sigaddset(&signals, SIGTSTP);
    sigaddset(&signals, SIGCONT);
    pthread_sigmask(SIG_BLOCK, &signals, &terminal->mask);
    terminal->signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (terminal->signals < 0) {
        /* No descriptor left: then they do what they do to everybody. */
        pthread_sigmask(SIG_SETMASK, &terminal->mask, NULL);
        return;
    }
    terminal->source = g_unix_fd_add(terminal->signals, G_IO_IN, on_signal, terminal);
}

void lodge_terminal_open(LodgeTerminal *terminal)
{
    terminal->present = isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &terminal->cooked) == 0;
    if (terminal->present) {
        watch_signals(terminal);
        make_raw(terminal);
    }
}

void lodge_terminal_close(LodgeTerminal *terminal)
{
    if (!terminal->present) {
        return;
    }
    make_cooked(terminal);
    if (terminal->source) {
        g_clear_handle_id(&terminal->source, g_source_remove);
        close(terminal->signals);
        pthread_sigmask(SIG_SETMASK, &terminal->mask, NULL);
    }
    terminal->present = FALSE;
}

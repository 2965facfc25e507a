/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The terminal on standard input, raw while a machine has it.
 *
 *     cooked --open--> raw --SIGTSTP--> cooked, and we are stopped --SIGCONT--> raw --close--> cooked
 *
 * Keys reach the machine as bytes, so that only another process can stop us, by SIGTSTP or SIGSTOP.
 * After SIGSTOP, too, SIGCONT makes the terminal raw again: the shell has set it for itself. A
 * machine that is sent to the background runs on, and leaves the terminal to whoever has it.
 */
#pragma once

#include <glib.h>
#include <signal.h>
#include <termios.h>

typedef struct {
    gboolean present; /* standard input is a terminal */
    gboolean raw;     /* by us */
    struct termios cooked;
    sigset_t mask; /* of the main thread, as it was */
    int signals;   /* signalfd */
    guint source;
} LodgeTerminal;

/**
 * Make it raw, if there is one. From the background this stops us until we are in the foreground.
 *
 * Context: the main thread, which has the default main context, before it makes threads that do not
 * block signals themselves: they inherit that SIGTSTP and SIGCONT are blocked.
 */
void lodge_terminal_open(LodgeTerminal *terminal);

/**
 * Make it raw again where nobody told us that we are in the foreground: `bg` and then `fg` in some
 * shells. Call it when there is input.
 */
void lodge_terminal_retake(LodgeTerminal *terminal);

/** Make it what it was. One that was never opened (zeroed memory) is accepted. */
void lodge_terminal_close(LodgeTerminal *terminal);

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The end of the process: one line to stderr, past any log sink, and abort. */
#include "base/assert.h"

#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/format.h"

/* Longest message; the end of a longer one is lost. */
#define MESSAGE_MAX 512

static HV_NORETURN void die(char *text, size_t length)
{
    ssize_t written;

    text[length++] = '\n';
    written = write(STDERR_FILENO, text, length);
    /* There is nobody left to tell. */
    (void)written;
    abort();
}

void hv_bug(const char *file, int line, const char *what)
{
    char text[MESSAGE_MAX];

    die(text, hv_format(text, sizeof(text) - 1, "%s:%d: BUG: %s", file, line, what));
}

void hv_panic(const char *format, ...)
{
    char text[MESSAGE_MAX];
    va_list args;
    size_t length;

    va_start(args, format);
    length = hv_format_args(text, sizeof(text) - 1, format, args);
    va_end(args);
    die(text, length);
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Bounded formatting: see format.h. */
#include "base/format.h"

#include <stdio.h> /* vsnprintf() alone */

size_t hv_format_args(char *buffer, size_t size, const char *format, va_list args)
{
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): it is the caller's, and started there */
    int length = vsnprintf(buffer, size, format, args);

    if (length < 0) {
        buffer[0] = '\0';
        return 0;
    }
    return (size_t)length < size ? (size_t)length : size - 1;
}

size_t hv_format(char *buffer, size_t size, const char *format, ...)
{
    va_list args;
    size_t length;

    va_start(args, format);
    length = hv_format_args(buffer, size, format, args);
    va_end(args);
    return length;
}

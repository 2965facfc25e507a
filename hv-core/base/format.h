/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Text into a caller's buffer: the one place of the core that knows the C library's printf. No
 * stream is ever touched.
 */
#pragma once

#include <hv/compiler.h>

#include <stdarg.h>
#include <stddef.h>

/**
 * Write formatted text to @buffer, cut to @size - 1 bytes and always terminated. @size is not 0.
 *
 * Returns the length of what was stored. Context: any thread, any lock.
 */
size_t hv_format(char *buffer, size_t size, const char *format, ...) HV_PRINTF(3, 4);

/** As hv_format(), from an argument list. */
size_t hv_format_args(char *buffer, size_t size, const char *format, va_list args) HV_PRINTF(3, 0);

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The last two answers to the unexpected (CONTRIBUTING.md, "Errors"): HV_BUG_ON where going on
 * could break the isolation between domains, in every build; HV_ASSERT for a programmer's error,
 * in every build but release. Neither is ever the handling of bad input.
 */
#pragma once

#include <hv/compiler.h>

#include "hv-config.h"

#include <stdbool.h>

/** Print where and what, and abort. */
HV_NORETURN HV_COLD void hv_bug(const char *file, int line, const char *what);

/** Print one line and abort: for checkers that have more to say than a condition. */
HV_NORETURN HV_COLD void hv_panic(const char *format, ...) HV_PRINTF(1, 2);

#define HV_BUG_ON(condition)                        \
    do {                                            \
        if (HV_UNLIKELY(condition)) {               \
            hv_bug(__FILE__, __LINE__, #condition); \
        }                                           \
    } while (0)

#define HV_ASSERT(condition)                                 \
    do {                                                     \
        if (HV_CONFIG_ASSERT && HV_UNLIKELY(!(condition))) { \
            hv_bug(__FILE__, __LINE__, #condition);          \
        }                                                    \
    } while (0)

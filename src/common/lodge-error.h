/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Errors above the core: one domain, and the only table between the core's errno vocabulary and
 * sentences for people.
 *
 * Messages are whole sentences that name the value, the rule and, where there is one, the file.
 * Codes decide behaviour; text never does.
 */
#pragma once

#include <glib.h>

#define LODGE_ERROR (lodge_error_quark())

GQuark lodge_error_quark(void);

typedef enum {
    LODGE_ERROR_FAILED,  /* our own failure, or the host's */
    LODGE_ERROR_INPUT,   /* what the user gave is wrong: the message says which value and why */
    LODGE_ERROR_GONE,    /* what was looked for is proven not to be there any more */
    LODGE_ERROR_VERSION, /* who answers is of another version of Lodge */
} LodgeError;

/** What a negative errno of the core means (docs/errors.md), translated; never NULL. */
const char *lodge_errno_text(int negative_errno);

/** Set @error to LODGE_ERROR_INPUT with this sentence. Returns FALSE, to be returned. */
gboolean lodge_error_refuse(GError **error, const char *format, ...) G_GNUC_PRINTF(2, 3);

/**
 * Set @error from a negative errno of the core: "@context: meaning".
 *
 * -EINVAL, -ENOENT and -ENOSPC are the caller's input; everything else is a failure.
 */
void lodge_error_set_errno(GError **error, int negative_errno, const char *format, ...)
    G_GNUC_PRINTF(3, 4);

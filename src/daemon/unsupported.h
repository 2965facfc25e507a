/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What Lodge does not have, for clients that ask for it. */
#pragma once

#include "wire/message.h"

/**
 * Refuse a call that nobody answers, by VIR_ERR_NO_SUPPORT: clients probe, and go on without. The
 * sentence says what there is none of, where that is known. Returns FALSE, to be returned.
 */
gboolean lodge_refuse_unsupported(const LodgeMessageHeader *header, GError **error);

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What must hold of any result of soft_decode(), whatever the bytes; no other decoder is asked.
 *
 *   (1) an instruction is 1 to 15 bytes long and inside what was given;
 *   (2) what follows it does not change it, and each of its beginnings is SHORT;
 *   (3) every operand is of a kind and a register number that exist in the mode, no immediate is
 *       wider than its operand, and memory is named when and only when an operand is memory;
 *   (4) TOO_LONG is said of 15 bytes or more, and SHORT of fewer;
 *   (5) #UD stays #UD whatever follows.
 */
#pragma once

#include "engine/soft/decode.h"

/** Returns NULL, or what does not hold of @bytes in @mode. Static storage. */
const char *decode_invariants(enum soft_mode mode, const uint8_t *bytes, size_t available);

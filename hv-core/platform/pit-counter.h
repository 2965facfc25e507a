/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * One counter of the 8254, as functions of the clock: what it reads and what its output is, in all
 * six modes. @now_ns is the present moment; the caller holds the PIT's lock.
 */
#pragma once

#include "platform/pit.h"

/** Follow the clock up to now: a new count of a periodic mode takes over between two cycles. */
void pit_counter_follow(struct hv_pit_counter *counter, uint64_t now_ns);

/** Level of OUT. */
bool pit_counter_output(const struct hv_pit_counter *counter, uint64_t now_ns);

/** A control word: OUT goes to its initial level, the counter waits for a count. */
void pit_counter_program(struct hv_pit_counter *counter, uint8_t control);

/** A byte of the count. Returns whether counting began, ended or began anew with it. */
bool pit_counter_write(struct hv_pit_counter *counter, uint8_t byte, uint64_t now_ns);

uint8_t pit_counter_read(struct hv_pit_counter *counter, uint64_t now_ns);

/** Latch the count for reading, unless one is latched already. */
void pit_counter_latch(struct hv_pit_counter *counter, uint64_t now_ns);
void pit_counter_latch_status(struct hv_pit_counter *counter, uint64_t now_ns);

void pit_counter_set_gate(struct hv_pit_counter *counter, bool gate, uint64_t now_ns);

/** True in the modes that go on and on. */
bool pit_counter_periodic(const struct hv_pit_counter *counter);

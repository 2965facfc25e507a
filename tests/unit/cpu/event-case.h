/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Events for the tests of their delivery, and what it leaves on the stack. */
#pragma once

#include "cpu/event.h"
#include "unit/cpu/flat-check.h"

#define HANDLER 0x12345u

static inline int deliver(enum hv_event_kind kind, uint8_t vector, uint64_t return_rip)
{
    return hv_event_deliver(&cpu, &flat.access, kind, vector, false, 0, return_rip, &fault);
}

static inline int raise_fault(uint8_t vector, bool has_error, uint32_t error, uint64_t cr2)
{
    struct hv_fault raised = {vector, has_error, error, cr2};

    return hv_event_exception(&cpu, &flat.access, &raised);
}

/* The value @index places of @unit bytes above the top of the stack. */
static inline uint64_t stack_at(unsigned index, unsigned unit)
{
    uint64_t base = hv_cpu_code64(&cpu) ? 0 : cpu.seg[HV_SEG_SS].base;

    return flat_peek(&flat, base + cpu.slot[HV_REG_RSP] + (uint64_t)index * unit, unit);
}

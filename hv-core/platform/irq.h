/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Interrupt wires, injected into a device when it is made: the device knows no controller. */
#pragma once

#include <hv/types.h>

struct hv_irq_line {
    /** Drive the wire. May take HV_RANK_IRQ_CHIP and higher; called with a device lock held. */
    void (*set)(void *context, unsigned number, bool high);
    void *context;
    unsigned number; /* global system interrupt, or an ISA IRQ */
    /** A controller holds an edge of it that no processor has taken. As for set; NULL: unknown. */
    bool (*stands)(void *context, unsigned number);
};

static inline void hv_irq_line_set(const struct hv_irq_line *line, bool high)
{
    if (line->set) {
        line->set(line->context, line->number, high);
    }
}

/** An edge: high, then low. */
static inline void hv_irq_line_pulse(const struct hv_irq_line *line)
{
    hv_irq_line_set(line, true);
    hv_irq_line_set(line, false);
}

static inline bool hv_irq_line_stands(const struct hv_irq_line *line)
{
    return line->stands && line->stands(line->context, line->number);
}

/* An interrupt that a processor has acknowledged, and whose it was. */
struct hv_taken {
    int vector;  /* -1: it has gone */
    bool extint; /* the 8259A gave it, not a local APIC */
    int irq;     /* that one's pin; -1 for none: it had withdrawn its request */
};

/* A message-signalled interrupt, as a write of @data to @address (SDM 3A 11.11). */
struct hv_msi_target {
    void (*send)(void *context, uint64_t address, uint32_t data);
    void *context;
};

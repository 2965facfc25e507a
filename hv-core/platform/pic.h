/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Two cascaded 8259A interrupt controllers as a PC wires them, with the edge/level registers of the
 * EISA bus. The slave's request is the master's pin 2.
 *
 * The requests of an edge-triggered pin are latched by the rising edge until they are acknowledged
 * (a pulse is enough); a level-triggered pin requests while its wire is high.
 *
 * Threads: any; one lock for the pair, HV_RANK_IRQ_CHIP.
 * Source: Intel 8259A data sheet (231468-003); 82371SB (PIIX3) 2.5.4 for ELCR.
 */
#pragma once

#include "platform/bus.h"
#include "platform/irq.h"
#include "platform/record.h"
#include "sync/lock.h"

#define HV_PIC_PINS           16
#define HV_PIC_RECORD_VERSION 1

enum hv_pic_expect {
    HV_PIC_EXPECT_OCW1, /* initialised: writes to the odd port set the mask */
    HV_PIC_EXPECT_ICW2,
    HV_PIC_EXPECT_ICW3,
    HV_PIC_EXPECT_ICW4,
};

struct hv_pic_chip {
    uint8_t lines; /* the wires as they are driven */
    uint8_t irr;   /* latched requests of edge-triggered pins */
    uint8_t isr;   /* in service */
    uint8_t imr;   /* masked */
    uint8_t elcr;  /* level-triggered pins */
    uint8_t vector_base;
    uint8_t lowest; /* the pin of lowest priority */
    uint8_t expect; /* enum hv_pic_expect */
    bool level_all; /* ICW1 LTIM */
    bool single;    /* ICW1 SNGL */
    bool want_icw4; /* ICW1 IC4 */
    bool auto_eoi;
    bool rotate_auto; /* rotate at each automatic EOI */
    bool nested;      /* special fully nested mode */
    bool special_mask;
    bool read_isr; /* even port reads ISR, not IRR */
    bool poll;     /* the next read acknowledges */
};

struct hv_pic_counters {
    _Atomic uint64_t acknowledged, spurious;
};

struct hv_pic {
    struct hv_lock lock; /* HV_RANK_IRQ_CHIP */
    /* Set at creation. */
    struct hv_irq_line output; /* INTR: to the bootstrap processor's LINT0 */
    /* Guarded by &lock. */
    struct hv_pic_chip chip[2]; /* master, slave */
    bool output_high;
    struct hv_pic_counters counters;
};

struct hv_pic_chip_record {
    uint8_t lines, irr, isr, imr, elcr, vector_base, lowest, expect;
    uint8_t level_all, single, want_icw4, auto_eoi, rotate_auto, nested, special_mask, read_isr;
    uint8_t poll, reserved[7];
};

struct hv_pic_record {
    uint32_t version, reserved;
    struct hv_pic_chip_record chip[2];
};

/** Make the pair on ports 20h, 21h, a0h, a1h, 4d0h, 4d1h. Errors of hv_bus_add(). */
HV_MUST_CHECK int hv_pic_init(struct hv_pic *pic, struct hv_bus *bus,
                              const struct hv_irq_line *output);
void hv_pic_finish(struct hv_pic *pic);

/** Power-up state. Wires keep their level; the output falls. */
void hv_pic_reset(struct hv_pic *pic);

/** Drive pin @irq (0 to 15; 2 is the cascade and ignored). A device lock may be held. */
void hv_pic_set(struct hv_pic *pic, unsigned irq, bool high);

/** An edge of @irq is latched, and not acknowledged. */
bool hv_pic_requested(struct hv_pic *pic, unsigned irq);

/** @irq raises no INTR: it is masked, or the chip it is on. */
bool hv_pic_masked(struct hv_pic *pic, unsigned irq);

/**
 * The processor's acknowledge cycle: the most urgent request, which goes in service; no pin, and
 * vector 7 of the chip that has withdrawn its request meanwhile (data sheet, "Interrupt sequence").
 */
struct hv_taken hv_pic_acknowledge(struct hv_pic *pic);

void hv_pic_save(struct hv_pic *pic, struct hv_pic_record *record_out);
const char *hv_pic_check(const struct hv_pic_record *record);
/** Restores wires as well, and drives the output. */
void hv_pic_load(struct hv_pic *pic, const struct hv_pic_record *record);
